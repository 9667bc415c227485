"""What policies earn over a grid of people and costs."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from qmind_jax.environment import Environment
from qmind_jax.evaluation.playing import start
from qmind_jax.evaluation.regret import optima as optima_of
from qmind_jax.evaluation.regret import regret
from qmind_jax.evaluation.returns import LANES, evaluate
from qmind_jax.evaluation.sweep_files import REGRET, SCORES, PartialFile
from qmind_jax.evaluation.sweep_grid import Grid, grid_of, params_at
from qmind_jax.policies.optimal.chunks import people_at_a_time
from qmind_jax.policies.policy import Policy
from qmind_jax.wrappers.wrapper import Wrapper

PolicyOrMaker = Policy | Callable[[Any], Policy]
"""A policy, or a function of the parameters at a point that makes one, such as ``TrustRule.for_params``."""

_CHUNKS = 10
"""Parts of a sweep, at least: the bar moves, and an interruption loses no more than the part begun."""


def sweep(
    env: Environment,
    axes: Mapping[str, Sequence[float]],
    policies: Mapping[str, PolicyOrMaker],
    key: jax.Array,
    *,
    params: Any = None,
    episodes: int = 1000,
    optimum: bool = False,
    partial_file: str | pathlib.Path | None = None,
    memory_limit: int = 2**30,
    progress: bool = True,
) -> pd.DataFrame:
    """Evaluate policies at every point of a grid of parameters.

    Points are evaluated side by side, as many at a time as memory allows, by one compiled program per policy.
    All points and policies have the same key: they meet the same people with the same luck, so that
    differences between neighbours are differences of the parameters.

    Args:
        env: The environment; for a trained policy ``config.wrap(env)``.
        axes: Values of each parameter: costs and other numbers by name, such as ``fail_cost``; what all
            people shall have in common by ``people.`` and its name, such as ``people.gamma``.
        policies: By name; each a policy, the same at every point, or a function that makes one from the
            parameters at a point and runs under ``jit``.
        key: JAX random key.
        params: Everything that no axis changes; those of the environment if None.
        episodes: Per point and policy, at least 2.
        optimum: Also give the exact optimum for agents who know the person, and the regret against it.
        partial_file: A ``.npz`` file that is replaced after every chunk of points. If it exists, the sweep
            goes on from there; it is left when the sweep is done.
        memory_limit: Bytes for the points that are evaluated at a time.
        progress: Whether to show a bar, on standard error.

    Returns:
        One row per point and policy. Columns: one per axis, ``policy`` (str), ``mean_return`` and
        ``standard_error`` (over episodes), in units of reward; with ``optimum`` also ``optimum`` (mean over
        people), ``regret`` and ``regret_standard_error``, by the optima of the people met.

    Raises:
        ValueError: If an axis, a value or an option makes no sense, or ``partial_file`` is of another sweep.
        TypeError: If a policy is none, or there is no exact optimum for the environment.
    """
    params = jax.tree.map(jnp.asarray, env.default_params if params is None else params)
    _check(policies, episodes)
    grid = grid_of(env, params, axes)
    points = grid.points
    partial, columns = None, None
    if partial_file is not None:
        described = _describe(env, grid, policies, key, params, episodes, optimum)
        partial = PartialFile(pathlib.Path(partial_file), described)
        columns = partial.load()
    size = _points_at_a_time(env, params, policies, key, episodes, memory_limit)
    size = min(size, -(-len(points) // _CHUNKS))
    players = [_player(env, policy, grid.names, episodes, optimum) for policy in policies.values()]
    if columns is None:
        columns = _no_points(len(policies), optimum)
        if partial is not None:
            partial.save(columns)
    done = len(columns["mean_return"])
    with _bar(progress) as bar:
        task = bar.add_task("sweep", total=len(points), completed=done)
        while done < len(points):
            chunk = points[done : done + size]
            best = _optima_at(params, grid.names, chunk) if optimum else None
            news = _scores(players, params, chunk, best, key, size)
            columns = {name: np.concatenate([columns[name], news[name]]) for name in columns}
            done += len(chunk)
            if partial is not None:
                partial.save(columns)
            bar.update(task, completed=done)
    return _table(grid, list(policies), columns)


def _check(policies: Mapping[str, PolicyOrMaker], episodes: int) -> None:
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    if not policies:
        raise ValueError("policies must hold at least one policy by name, got none")
    for name, policy in policies.items():
        if not (hasattr(policy, "act") or callable(policy)):
            raise TypeError(
                f"policies[{name!r}] must be a policy or a function from parameters to one, got {policy!r}"
            )


def _policy_at(policy: PolicyOrMaker, params: Any) -> Policy:
    return policy if hasattr(policy, "act") else policy(params)


def _player(
    env: Environment, policy: PolicyOrMaker, names: tuple[str, ...], episodes: int, with_regret: bool
) -> Callable[..., dict[str, jax.Array]]:
    """A compiled function from parameters, points, optima and key to columns, ``(points,)`` each."""
    made = not hasattr(policy, "act")

    @jax.jit
    def play(
        given: Any, params: Any, points: jax.Array, best: jax.Array | None, key: jax.Array
    ) -> dict[str, jax.Array]:
        def at(point: jax.Array, best: jax.Array | None) -> dict[str, jax.Array]:
            here = params_at(params, dict(zip(names, point, strict=True)))
            returns = evaluate(policy(here) if made else given, env, here, key, episodes)
            columns = {"mean_return": returns.mean, "standard_error": returns.standard_error}
            if with_regret:
                lost = regret(returns, best)
                columns |= {"regret": lost.mean, "regret_standard_error": lost.standard_error}
            return columns

        return jax.vmap(at, in_axes=(0, 0 if with_regret else None))(points, best)

    # Weights of a network are an argument of the program, not a part of it.
    return lambda *arguments: play(None if made else policy, *arguments)


def _scores(
    players: list[Callable[..., dict[str, jax.Array]]],
    params: Any,
    points: np.ndarray,
    best: np.ndarray | None,
    key: jax.Array,
    size: int,
) -> dict[str, np.ndarray]:
    """Columns of a chunk of points, float64 ``(points, policies)`` each."""

    def filled(rows: np.ndarray) -> np.ndarray:
        """The last chunk has the size of all others, so that one program serves them all."""
        return np.pad(rows, ((0, size - len(rows)), (0, 0)), mode="edge")

    scores = [play(params, filled(points), None if best is None else filled(best), key) for play in players]
    columns = {
        name: np.stack([np.asarray(score[name], float)[: len(points)] for score in scores], axis=1)
        for name in scores[0]
    }
    if best is not None:
        columns["optimum"] = np.tile(best.mean(axis=1, keepdims=True, dtype=float), len(players))
    return columns


def _optima_at(params: Any, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
    """Optimum of every person at every point, float ``(points, people)``.

    Point by point: the solvers refine whoever needs it, which they cannot do under ``vmap``.
    """
    here = (params_at(params, dict(zip(names, map(float, point), strict=True))) for point in points)
    return np.stack([np.asarray(optima_of(params)) for params in here])


def _points_at_a_time(
    env: Environment,
    params: Any,
    policies: Mapping[str, PolicyOrMaker],
    key: jax.Array,
    episodes: int,
    memory_limit: int,
) -> int:
    """How many points fit into memory at a time, for the policy that needs most."""
    lanes = min(LANES, episodes)

    def needed(policy: PolicyOrMaker) -> int:
        def plays() -> Any:
            here = _policy_at(policy, params)
            first, step, _ = start(here, env, params, key, lanes)
            return first, step(first, jnp.int32(0))

        rows = jax.eval_shape(lambda: evaluate(_policy_at(policy, params), env, params, key, episodes))
        # Before and after a step, and what comes between.
        return _bytes_of(rows) + 2 * _bytes_of(jax.eval_shape(plays))

    largest = max(map(needed, policies.values()))
    if largest > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {largest} bytes, got {memory_limit}: one point has {episodes} "
            f"episodes, {lanes} of them side by side"
        )
    return people_at_a_time(largest, memory_limit)


def _bytes_of(shapes: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def _describe(
    env: Environment,
    grid: Grid,
    policies: Mapping[str, PolicyOrMaker],
    key: jax.Array,
    params: Any,
    episodes: int,
    optimum: bool,
) -> dict[str, str]:
    """What makes a sweep this one, by aspect; equal texts mean equal results."""
    made = {name: _policy_at(policy, params) for name, policy in policies.items()}
    return {
        "environment": _name_of(env),
        "axes": json.dumps(dict(grid.axes)),
        "policies": ", ".join(f"{name}: {_digest(policy)}" for name, policy in made.items()),
        "key": _digest(jax.random.key_data(key)),
        "params": _digest(params),
        "episodes": str(episodes),
        "optimum": str(optimum),
    }


def _name_of(env: Environment) -> str:
    if not isinstance(env, Wrapper):
        return type(env).__name__
    options = {name: value for name, value in sorted(vars(env).items()) if name != "env"}
    return f"{type(env).__name__}({_name_of(env.env)}, {options})"


def _digest(tree: Any) -> str:
    """Short name of the structure and content of a pytree of arrays."""
    leaves, structure = jax.tree.flatten(tree)
    content = hashlib.sha256(str(structure).encode())
    for leaf in map(np.asarray, leaves):
        content.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    return content.hexdigest()[:16]


def _no_points(policies: int, optimum: bool) -> dict[str, np.ndarray]:
    return {name: np.empty((0, policies)) for name in SCORES + (REGRET if optimum else ())}


def _table(grid: Grid, policies: list[str], columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    points = np.repeat(grid.points, len(policies), axis=0)
    labels = {name: points[:, i] for i, name in enumerate(grid.names)}
    labels["policy"] = np.tile(np.array(policies, object), len(grid.points))
    return pd.DataFrame(labels | {name: values.ravel() for name, values in columns.items()})


def _bar(shown: bool) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("points"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not shown,
    )
