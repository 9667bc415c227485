"""A population of agents that differ in hyper-parameters, costs and people, trained by one program."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.environment import Environment
from qmind_jax.names import unknown
from qmind_jax.registry import override
from qmind_jax.training import ppo
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.hyper_parameters import NAMES, HyperParameters, without_numbers


def train_population(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig | None = None,
    *,
    hyper_parameters: Mapping[str, Sequence[float]] | None = None,
    overrides: Mapping[str, Sequence[Any]] | None = None,
    report: ppo.Report | None = None,
) -> ppo.TrainResult:
    """Train many agents side by side, each with hyper-parameters, costs and people of its own.

    Member ``i`` is, up to the rounding of sums, the agent that :func:`~qmind_jax.training.train` trains with
    the same keys and the ``i``-th value of everything: all members have the same luck. Other values, and as
    many other people, need no new program.

    Args:
        key: One JAX random key, or an array of keys, one per seed; every member has all seeds.
        env: The environment, unwrapped.
        params: Its parameters, as far as ``overrides`` do not change them.
        config: Everything that members share.
        hyper_parameters: One value per member of each hyper-parameter that differs, by name; the fields of
            :class:`~qmind_jax.training.HyperParameters` may.
        overrides: One value per member of each parameter of the environment that differs, by name, as
            ``make`` takes them: ``{"ask_cost": [0.1, 0.5], "people": [some, others]}``. The people of all
            members are of one family and equally many.
        report: As in ``train``; gets the mean return over members and seeds.

    Returns:
        As ``train``, each array with a leading axis of members; an axis of seeds, if there is one, follows.

    Raises:
        ValueError: If a name is unknown, a value makes no sense, there are not equally many values of
            everything, or people differ in family or number.
        TypeError: If people do not fit the environment.
    """
    config = PPOConfig() if config is None else config
    hyper_parameters, overrides = dict(hyper_parameters or {}), dict(overrides or {})
    members = _count({"hyper_parameters": hyper_parameters, "overrides": overrides})
    numbers = hyper_parameters_of(config, members, hyper_parameters)
    own = _own_params(env, params, members, overrides)
    runner = start_population(key, env, params, config, numbers, own)
    runner, metrics = advance_population(
        runner, env, params, config, own, num_updates=config.num_updates, report=report
    )
    # People of a member may have other questions than those of ``params``, and the network other actions.
    first = params.replace(**jax.tree.map(lambda leaf: leaf[0], own))
    return ppo.TrainResult(ppo.policy_of(runner, env, first, config), metrics, runner)


def start_population(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    hyper_parameters: HyperParameters,
    own: Mapping[str, Any],
) -> ppo.Runner:
    """The state of all members before the first update.

    Args:
        key: As in :func:`train_population`.
        env: As in :func:`train_population`.
        params: As in :func:`train_population`.
        config: As in :func:`train_population`.
        hyper_parameters: Each of shape ``(members,)``.
        own: What replaces fields of ``params``, by name; each leaf with a leading axis of members.
    """
    return _start(key, env, params, without_numbers(config), hyper_parameters, dict(own))


def advance_population(
    runner: ppo.Runner,
    env: Environment,
    params: Any,
    config: PPOConfig,
    own: Mapping[str, Any],
    *,
    num_updates: int,
    report: ppo.Report | None = None,
) -> tuple[ppo.Runner, ppo.Metrics]:
    """Do some more updates of all members; see :func:`start_population` and :func:`~.ppo.advance`."""
    return _advance(runner, env, params, without_numbers(config), dict(own), num_updates, report)


def hyper_parameters_of(
    config: PPOConfig, members: int, values: Mapping[str, Sequence[float]]
) -> HyperParameters:
    """Those of a config, with some replaced by one value per member.

    Returns:
        Float32 ``(members,)`` each.

    Raises:
        ValueError: If a name is unknown, or a value makes no sense.
    """
    shared = HyperParameters.of(config)
    everybody = jax.tree.map(lambda number: jnp.full(members, number), shared)
    for name, column in values.items():
        if name not in NAMES:
            raise ValueError(unknown("hyper-parameter", name, NAMES))
        for i, value in enumerate(column):
            try:
                dataclasses.replace(config, **{name: np.asarray(value).item()})
            except ValueError as error:
                raise ValueError(f"hyper_parameters[{name!r}][{i}]: {error}") from error
    return everybody.replace(**{name: jnp.asarray(column, jnp.float32) for name, column in values.items()})


@functools.partial(jax.jit, static_argnames=("env", "config"))
def _start(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    hyper_parameters: HyperParameters,
    own: dict[str, Any],
) -> ppo.Runner:
    def one_member(numbers: HyperParameters, own: dict[str, Any]) -> ppo.Runner:
        return ppo.start(key, env, params.replace(**own), config, numbers)

    return jax.vmap(one_member)(hyper_parameters, own)


@functools.partial(jax.jit, static_argnames=("env", "config", "num_updates", "report"))
def _advance(
    runner: ppo.Runner,
    env: Environment,
    params: Any,
    config: PPOConfig,
    own: dict[str, Any],
    num_updates: int,
    report: ppo.Report | None,
) -> tuple[ppo.Runner, ppo.Metrics]:
    def one_member(runner: ppo.Runner, own: dict[str, Any]) -> tuple[ppo.Runner, ppo.Metrics]:
        return ppo.update_seeds(runner, env, params.replace(**own), config)

    def update(runner: ppo.Runner) -> tuple[ppo.Runner, ppo.Metrics]:
        return jax.vmap(one_member)(runner, own)

    return ppo.repeat(update, runner, num_updates, report)


def _count(given: dict[str, dict[str, Any]]) -> int:
    """Number of members, of whom each mapping has one value for each name."""
    lengths = {}
    for argument, values in given.items():
        for name, column in values.items():
            try:
                lengths[f"{argument}[{name!r}]"] = len(column)
            except TypeError as error:
                raise ValueError(
                    f"{argument}[{name!r}] must be a sequence of one value per member, got {column!r}"
                ) from error
    if not lengths:
        raise ValueError("hyper_parameters or overrides must name something that differs between members")
    first, members = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length < 1 or length != members:
            raise ValueError(
                f"{name} must have one value per member, at least one, got {length}; {first} has {members}"
            )
    return members


def _own_params(env: Environment, params: Any, members: int, overrides: dict[str, Any]) -> dict[str, Any]:
    """The parameters that differ, checked and stacked; each leaf with a leading axis of members."""
    everybody = []
    for i in range(members):
        try:
            everybody.append(override(env, params, **{name: column[i] for name, column in overrides.items()}))
        except (ValueError, TypeError) as error:
            raise type(error)(f"overrides of member {i}: {error}") from error
    own = {}
    for name in overrides:
        first, *others = values = [getattr(member, name) for member in everybody]
        for i, other in enumerate(others, 1):
            if _shapes(other) != _shapes(first):
                raise ValueError(
                    f"overrides[{name!r}][{i}] must be of the kind and the shapes of overrides[{name!r}][0], "
                    f"{first}, got {other}"
                )
        own[name] = jax.tree.map(lambda *leaves: jnp.stack(leaves), *values)
    return own


def _shapes(tree: Any) -> Any:
    return jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]
