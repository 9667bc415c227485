"""Sweeps on disk: finished tables as CSV, unfinished ones with what they are a part of."""

import dataclasses
import json
import os
import pathlib
import zipfile
from collections.abc import Mapping

import numpy as np
import pandas as pd

VERSION = 1
SCORES = ("mean_return", "standard_error")
REGRET = ("optimum", "regret", "regret_standard_error")


def save_sweep(path: str | pathlib.Path, table: pd.DataFrame) -> None:
    """Write the table of a sweep to a new CSV file, numbers in full precision.

    Args:
        path: File to write.
        table: Of :func:`~qmind_jax.evaluation.sweep`.

    Raises:
        FileExistsError: If the file exists.
    """
    with pathlib.Path(path).open("x") as file:
        table.to_csv(file, index=False)


def load_sweep(path: str | pathlib.Path) -> pd.DataFrame:
    """Read what :func:`save_sweep` has written.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no table of a sweep.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no table of a sweep at {path}")
    try:
        # Numbers are read by NumPy: not every version of pandas reads them to the last bit.
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = table.astype({name: float for name in table.columns if name != "policy"})
    except ValueError as error:
        raise ValueError(f"{path} is no table of a sweep: {error}") from error
    columns = list(table.columns)
    place = columns.index("policy") if "policy" in columns else 0
    if place == 0 or tuple(columns[place + 1 :]) not in (SCORES, SCORES + REGRET):
        raise ValueError(
            f"{path} is no table of a sweep: its columns must be axes, policy, {', '.join(SCORES)} and "
            f"possibly {', '.join(REGRET)}; got {', '.join(columns)}"
        )
    return table


def axes_of(table: pd.DataFrame) -> list[str]:
    """Names of the axes of a table: the columns before ``policy``."""
    return list(table.columns[: table.columns.get_loc("policy")])


@dataclasses.dataclass(frozen=True)
class PartialFile:
    """The points of a sweep that are done, in one file that is replaced as a whole.

    Attributes:
        path: The file, a ``.npz``.
        sweep: What the sweep is, by aspect; points of any other sweep are refused.
    """

    path: pathlib.Path
    sweep: Mapping[str, str]

    def load(self) -> dict[str, np.ndarray] | None:
        """The columns of the points that are done, each ``(done, ...)``; None if there is no file.

        Raises:
            ValueError: If the file is none of a sweep, or of another one.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path) as file:
                columns = {name: file[name] for name in file.files}
            header = json.loads(str(columns.pop("header")))
            version, sweep = header["version"], dict(header["sweep"])
        except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is no partial file of a sweep") from error
        if version != VERSION:
            raise ValueError(f"{self.path} has version {version!r}; this package reads version {VERSION}")
        other = [aspect for aspect, text in self.sweep.items() if sweep.get(aspect) != text]
        if other:
            raise ValueError(f"{self.path} belongs to another sweep, which differs in: {', '.join(other)}")
        return columns

    def save(self, columns: Mapping[str, np.ndarray]) -> None:
        """Replace the file; whoever reads it meanwhile, or after a crash, finds the old one whole."""
        header = json.dumps({"version": VERSION, "sweep": dict(self.sweep)})
        beside = self.path.with_name(self.path.name + ".new")
        with beside.open("wb") as file:
            np.savez(file, header=np.asarray(header), **columns)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
