"""Search for hyper-parameters by successive halving (Jamieson and Talwalkar 2016).

Many members train for a short time; the best part of them goes on, for longer, and so forth.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from qmind_jax.environment import Environment
from qmind_jax.evaluation.returns import evaluate
from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.training import ppo
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.population import advance_population, hyper_parameters_of, start_population
from qmind_jax.training.search_space import Range, check_space, draw


@dataclasses.dataclass(frozen=True)
class Search:
    """A finished search.

    Attributes:
        table: One row per member, the best first. Columns: ``member`` (int), one per hyper-parameter of the
            space, ``round`` (int; the last one reached, from 1), ``steps`` (int; trained, per seed),
            ``mean_return`` (greedy, over seeds and episodes, when last judged) and ``standard_error`` (over
            seeds; over episodes if there is one seed).
        config: The config with the hyper-parameters of the best member.
        best: The best member's training, complete: what ``train`` gives for ``config`` and the same keys, up
            to the rounding of sums. With an axis of seeds.
    """

    table: pd.DataFrame
    config: PPOConfig
    best: ppo.TrainResult


def successive_halving(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    space: Mapping[str, Range],
    *,
    members: int = 16,
    rounds: int = 4,
    eta: int = 2,
    seeds: int = 4,
    episodes: int = 2000,
    report: ppo.Report | None = None,
) -> Search:
    """Look for hyper-parameters with which agents earn most.

    In every round all members that are left train side by side, on from where they were; then the best
    ``1 / eta`` by mean greedy return are kept, who will have trained ``eta`` times as long after the next
    round. The last round ends at ``config.total_steps``. Annealing is towards that end from the start, so
    that members are judged while their learning rate is still high, and the best one is in the end the
    agent that plain training makes of its hyper-parameters.

    All members have the same keys, and are judged by episodes with the same people and the same luck.
    Members whose weights are no longer finite come last. The return of the best is that of the highest of
    several, and so tends to be a little too high: evaluate its policy anew before you quote it.

    Args:
        key: One JAX random key; the seeds train with ``jax.random.split(key, seeds)``.
        env: The environment, unwrapped.
        params: Its parameters.
        config: All settings that are not looked for; ``total_steps`` are those of the best, per seed.
        space: Ranges by name of the hyper-parameter.
        members: How many to draw, at least ``eta ** (rounds - 1)``; of a number that ``eta`` does not divide,
            the smaller part is kept.
        rounds: How often members are judged, at least 1. Each round is one program to compile.
        eta: Which part is kept, at least 2.
        seeds: Agents per member.
        episodes: Per member and seed when judging, at least 2; the people are met in turn.
        report: As in ``train``; gets the mean return over members and seeds.

    Raises:
        ValueError: If a number makes no sense, a name is unknown, or ``total_steps`` are too few for all
            rounds.
    """
    _check(config, space, members, rounds, eta, seeds, episodes)
    # The keys of the seeds are those that ``fold_in`` makes of the numbers below.
    drawn = draw(space, jax.random.fold_in(key, seeds), members)
    key_judge = jax.random.fold_in(key, seeds + 1)
    numbers = hyper_parameters_of(config, members, drawn)
    runner = start_population(jax.random.split(key, seeds), env, params, config, numbers, {})
    table = pd.DataFrame({"member": range(members)} | {name: np.asarray(v) for name, v in drawn.items()})
    left, metrics, done = np.arange(members), None, 0
    for number in range(rounds):
        updates = config.num_updates // eta ** (rounds - 1 - number)
        runner, news = advance_population(
            runner, env, params, config, {}, num_updates=updates - done, report=report
        )
        metrics = news if metrics is None else jax.tree.map(_after, metrics, news)
        done = updates
        policy = ppo.policy_of(runner, env, params, config)
        mean, error = _judge_all(policy, config, env, params, jax.random.fold_in(key_judge, number), episodes)
        table.loc[left, "round"] = number + 1
        table.loc[left, "steps"] = done * config.steps_per_update
        table.loc[left, "mean_return"] = mean
        table.loc[left, "standard_error"] = error
        order = np.argsort(-np.nan_to_num(mean, nan=-np.inf), kind="stable")
        # In the order of members, so that ties are broken as in the table.
        kept = np.sort(order[: len(left) // eta if number < rounds - 1 else 1])
        left = left[kept]
        runner, metrics = _members((runner, metrics), kept)
    table = table.astype({"round": int, "steps": int})
    runner, metrics = _members((runner, metrics), 0)
    found = {name: float(table.loc[left[0], name]) for name in space}
    table = table.sort_values(["round", "mean_return"], ascending=False, kind="stable", ignore_index=True)
    best = ppo.TrainResult(ppo.policy_of(runner, env, params, config), metrics, runner)
    return Search(table, dataclasses.replace(config, **found), best)


def hyper_parameters_in(table: pd.DataFrame) -> list[str]:
    """Names of the hyper-parameters that the table of a search is about."""
    others = {"member", "round", "steps", "mean_return", "standard_error"}
    return [name for name in table if name not in others]


def _judge_all(
    policy: LearnedPolicy, config: PPOConfig, env: Environment, params: Any, key: jax.Array, episodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean return of each member and its standard error, float64 ``(members,)``.

    Member by member: one program serves all rounds, and memory does not grow with the members.
    """
    wrapped, policy = config.wrap(env), jax.device_get(policy)
    each = (jax.tree.map(lambda leaf, i=i: leaf[i], policy) for i in range(len(jax.tree.leaves(policy)[0])))
    judged = np.array([_judge(one, wrapped, params, key, episodes) for one in each], float)
    return judged[:, 0], judged[:, 1]


@functools.partial(jax.jit, static_argnames=("env", "episodes"))
def _judge(
    policy: LearnedPolicy, env: Environment, params: Any, key: jax.Array, episodes: int
) -> tuple[jax.Array, jax.Array]:
    """Mean return of all seeds of a policy, NaN if its weights are not finite, and the standard error."""
    returns = jax.vmap(lambda one: evaluate(one, env, params, key, episodes, balanced=True))(policy)
    seeds = len(returns.mean)
    error = returns.mean.std(ddof=1) / jnp.sqrt(seeds) if seeds > 1 else returns.standard_error[0]
    sound = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(policy)]))
    return jnp.where(sound, returns.mean.mean(), jnp.nan), jnp.where(sound, error, jnp.nan)


@jax.jit
def _members(tree: Any, index: np.ndarray | int) -> Any:
    """One member, or some, of a tree of arrays with a leading axis of members."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _after(before: jax.Array, news: jax.Array) -> jax.Array:
    return jnp.concatenate([before, news], axis=-1)


def _check(
    config: PPOConfig,
    space: Mapping[str, Range],
    members: int,
    rounds: int,
    eta: int,
    seeds: int,
    episodes: int,
) -> None:
    check_space(space, config)
    least = {"rounds": (rounds, 1), "eta": (eta, 2), "seeds": (seeds, 1), "episodes": (episodes, 2)}
    for name, (value, lowest) in (least | {"members": (members, 1)}).items():
        if not isinstance(value, int | np.integer) or value < lowest:
            raise ValueError(f"{name} must be an integer of at least {lowest}, got {value!r}")
    parts = eta ** (rounds - 1)
    if members < parts:
        raise ValueError(f"members must be at least eta ** (rounds - 1) = {parts}, got {members}")
    if config.num_updates < parts:
        raise ValueError(
            f"total_steps must cover eta ** (rounds - 1) = {parts} updates of {config.steps_per_update} "
            f"steps, got {config.total_steps}"
        )
