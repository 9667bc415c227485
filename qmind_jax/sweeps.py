"""Folders of sweeps: a table and a picture of what a small file asks for."""

import math
import pathlib
from typing import Any

import jax
import numpy as np
import pandas as pd

from qmind_jax import runs
from qmind_jax.environment import Environment
from qmind_jax.evaluation.sweep import PolicyOrMaker, sweep
from qmind_jax.evaluation.sweep_files import axes_of, save_sweep
from qmind_jax.names import unknown
from qmind_jax.policies.scripted import yardsticks
from qmind_jax.registry import make
from qmind_jax.sweep_specs import SweepSpec

_PARTIAL, _TABLE, _PICTURE = "partial.npz", "sweep.csv", "sweep.png"


def run(path: pathlib.Path, spec: SweepSpec, folder: pathlib.Path, *, resume: bool = False) -> pd.DataFrame:
    """Sweep; write ``sweep.csv`` and ``sweep.png`` into a new folder, or go on in one.

    Args:
        path: File of the description, for messages.
        spec: What it says.
        folder: Must not exist, unless ``resume``.
        resume: Go on with the interrupted sweep in the folder.

    Raises:
        FileExistsError: If the folder exists, or the sweep in it is finished.
        FileNotFoundError: If there is nothing to resume.
        ValueError: If the description makes no sense, or the folder holds part of another sweep.
    """
    try:
        env, params, policies = _prepare(spec)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
    partial = folder / _PARTIAL
    if resume:
        if (folder / _TABLE).exists():
            raise FileExistsError(f"the sweep in {folder} is finished: see {folder / _TABLE}")
        if not partial.exists():
            raise FileNotFoundError(f"no sweep to go on with in {folder}: {partial} is missing")
    elif folder.exists():
        raise FileExistsError(
            f"{folder} exists already; choose another --out, or add --resume to go on with that sweep"
        )
    else:
        folder.mkdir(parents=True)
    try:
        table = sweep(
            env,
            spec.axes,
            policies,
            jax.random.key(spec.seed),
            params=params,
            episodes=spec.episodes,
            optimum=spec.optimum,
            partial_file=partial,
        )
    except (ValueError, TypeError) as error:
        if not resume:
            partial.unlink(missing_ok=True)
            folder.rmdir()
        raise ValueError(f"{path}: {error}") from error
    except KeyboardInterrupt:
        if not partial.exists():
            folder.rmdir()
        raise
    draw(folder / _PICTURE, table, spec.environment)
    # The table comes last: where it is, the sweep is finished.
    save_sweep(folder / _TABLE, table)
    partial.unlink()
    return table


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """What a finished sweep has left."""
    return [folder / _TABLE, folder / _PICTURE]


def draw(path: pathlib.Path, table: pd.DataFrame, title: str) -> None:
    """A picture of a table: lines over one axis, or heat maps over the first two.

    Regret where the table has it, else mean return. Of further axes the middle value is drawn, and named.
    """
    from qmind_jax.plots import sweep_curves, sweep_heat_map
    from qmind_jax.plots.files import headless_pyplot

    pyplot = headless_pyplot()

    score = "regret" if "regret" in table else "mean_return"
    label = score.replace("_", " ")
    names, policies = axes_of(table), list(dict.fromkeys(table.policy))
    for name in names[2:]:
        values = np.unique(table[name])
        middle = values[len(values) // 2]
        table, title = table[table[name] == middle], f"{title}, {name} = {middle:g}"
    rows = {policy: table[table.policy == policy] for policy in policies}
    if len(names) == 1:
        error = "regret_standard_error" if score == "regret" else "standard_error"
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        curves = {policy: (part[score].to_numpy(), part[error].to_numpy()) for policy, part in rows.items()}
        sweep_curves(axes, np.unique(table[names[0]]), curves, names[0], label)
    else:
        width = len(policies) if len(policies) <= 3 else math.ceil(math.sqrt(len(policies)))
        size = math.ceil(len(policies) / width), width
        figure, grid = pyplot.subplots(
            *size, figsize=(1 + 4.2 * width, 0.6 + 3.8 * size[0]), layout="constrained", squeeze=False
        )
        for axes in grid.ravel()[len(policies) :]:
            axes.remove()
        limits = float(table[score].min()), float(table[score].max())
        for axes, (policy, part) in zip(grid.ravel(), rows.items(), strict=False):
            values = part.pivot(index=names[1], columns=names[0], values=score)
            x, y = values.columns.to_numpy(), values.index.to_numpy()
            sweep_heat_map(axes, x, y, values.to_numpy(), (names[0], names[1]), label, limits)
            axes.set_title(policy)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _prepare(spec: SweepSpec) -> tuple[Environment, Any, dict[str, PolicyOrMaker]]:
    key = jax.random.key(spec.seed)
    people = runs.population(spec.environment, spec.people, spec.num_people, spec.family, key)
    env, params = make(spec.environment, people=people, **spec.params)
    num_actions = env.action_space(params).n
    known = yardsticks(params, num_actions)
    for name in spec.policies:
        if name not in known:
            raise ValueError(f"policies: {unknown('policy', name, known)}")

    def maker(name: str) -> PolicyOrMaker:
        return lambda here: yardsticks(here, num_actions)[name]

    return env, params, {name: maker(name) for name in spec.policies}
