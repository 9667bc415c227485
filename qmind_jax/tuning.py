"""Searches for hyper-parameters from the command line: ranges as texts, and the run folder of the best."""

import pathlib

import pandas as pd

from qmind_jax import runs
from qmind_jax.training.checkpoint import Checkpoints
from qmind_jax.training.halving import Search
from qmind_jax.training.search_space import Range

DEFAULT_SPACE = ("learning_rate=log:3e-4:3e-2", "entropy_bonus=log:1e-3:0.1", "trace_decay=0.5:1")
"""What to look for if nobody says."""

_TABLE = "search.csv"


def parse_space(texts: tuple[str, ...]) -> dict[str, Range]:
    """Ranges by name, from ``name=low:high`` or, for logarithmic ones, ``name=log:low:high``.

    Raises:
        ValueError: If a text is no range, or names a hyper-parameter for the second time.
    """
    space: dict[str, Range] = {}
    for text in texts:
        name, _, ends = text.partition("=")
        log = ends.startswith("log:")
        try:
            low, high = map(float, ends.removeprefix("log:").split(":"))
        except ValueError:
            raise ValueError(
                f"a range must be written name=low:high or name=log:low:high, got {text!r}"
            ) from None
        if name in space:
            raise ValueError(f"a hyper-parameter must have one range, got {name!r} twice")
        try:
            space[name] = Range(low, high, log)
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from error
    return space


def write_search(run: runs.Run, search: Search) -> pathlib.Path:
    """Write the table and, as a checkpoint, the best agents into the folder of a run.

    Args:
        run: The run of the best, made with the config that was found.
        search: The search.

    Returns:
        File of the table.
    """
    path = run.folder / _TABLE
    search.table.to_csv(path, index=False)
    checkpoints = Checkpoints(run.folder / "checkpoints")
    checkpoints.save(search.best.runner, search.best.metrics)
    checkpoints.close()
    return path


def hyper_parameters_in(table: pd.DataFrame) -> list[str]:
    """Names of the hyper-parameters that the table of a search is about."""
    others = {"member", "round", "steps", "mean_return", "standard_error"}
    return [name for name in table if name not in others]
