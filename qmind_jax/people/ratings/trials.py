"""Trust ratings of real people: reading and checking a file of them."""

import csv
import io
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

COLUMNS = ("participant", "trial", "robot_correct", "trust_before", "trust_after")
"""The columns that a file of trust ratings must have."""


class RatingsError(ValueError):
    """A file of trust ratings that cannot be used; the message says where and what was expected."""


@struct.dataclass
class TrustTrials:
    """Trust ratings of P participants in up to T trials with a robot.

    Participants may differ in their number of trials. Entries past a participant's last trial are
    zero, and False in ``observed``.

    Attributes:
        robot_correct: Whether the robot succeeded, bool, shape ``(P, T)``.
        trust_before: Rated trust before the trial, float in [0, 1], shape ``(P, T)``.
        trust_after: Rated trust after the trial, float in [0, 1], shape ``(P, T)``.
        observed: True where there was a trial, bool, shape ``(P, T)``. The first trial of every
            participant is at ``[:, 0]`` and there are no gaps.
        participants: Labels of the P participants.
    """

    robot_correct: jax.Array
    trust_before: jax.Array
    trust_after: jax.Array
    observed: jax.Array
    participants: tuple[str, ...] = struct.field(pytree_node=False)

    @property
    def num_participants(self) -> int:
        """P, from the labels."""
        return len(self.participants)

    @property
    def first_ratings(self) -> jax.Array:
        """Rated trust before anything happened, float in [0, 1], shape ``(P,)``."""
        return self.trust_before[:, 0]

    @property
    def num_ratings(self) -> int:
        """Number of observed trials, each with one rating of ``trust_after``."""
        return int(self.observed.sum())

    def select(self, participants: slice) -> "TrustTrials":
        """The trials of some of the participants, ``slice(0, None, 2)`` for every second one."""
        part = jax.tree.map(lambda leaf: leaf[participants], self)
        return part.replace(participants=self.participants[participants])


class _Row(NamedTuple):
    line: int
    participant: str
    trial: int
    robot_correct: bool
    trust_before: float
    trust_after: float


def load_trust_trials(path: str | pathlib.Path) -> TrustTrials:
    """Read trust ratings from a CSV file.

    The file is UTF-8, with or without a byte order mark, and its first line names the columns. Rows and
    columns may stand in any order and further columns are ignored:

    - ``participant``: any label.
    - ``trial``: an integer; a participant's trials are consecutive, from any first one.
    - ``robot_correct``: 1 if the robot succeeded in this trial, 0 if it failed.
    - ``trust_before``, ``trust_after``: ratings scaled to [0, 1]. People may rate anew before a trial:
      ``trust_before`` need not be the ``trust_after`` of the trial before.

    Args:
        path: The file.

    Returns:
        The trials, participants sorted by label: by value if all labels are whole numbers, as text
        otherwise. The order of the rows does not matter.

    Raises:
        FileNotFoundError: If there is no such file.
        RatingsError: If the file is not such a table. The message names the file, the line, the column,
            the value and what was expected.
    """
    path = pathlib.Path(path)
    people: dict[str, dict[int, _Row]] = {}
    for row in _rows(path, _text(path)):
        trials = people.setdefault(row.participant, {})
        if row.trial in trials:
            raise RatingsError(
                f"{path}, row {row.line}, column 'trial': participant {row.participant!r} already has trial "
                f"{row.trial} in row {trials[row.trial].line}; expected each trial once"
            )
        trials[row.trial] = row
    if not people:
        raise RatingsError(f"{path}: no rows of data; expected at least one below the names of the columns")

    ordered = sorted(people, key=_sort_key(people))
    shape = (len(people), max(len(trials) for trials in people.values()))
    correct, observed = np.zeros(shape, bool), np.zeros(shape, bool)
    before, after = np.zeros(shape), np.zeros(shape)
    for i, participant in enumerate(ordered):
        rows = [row for _, row in sorted(people[participant].items())]
        for k, row in enumerate(rows):
            if row.trial != rows[0].trial + k:
                raise RatingsError(
                    f"{path}, row {row.line}, column 'trial': participant {participant!r} has trial "
                    f"{row.trial} but no trial {rows[0].trial + k}; expected consecutive trials from "
                    f"{rows[0].trial} on"
                )
            correct[i, k], before[i, k], after[i, k] = row.robot_correct, row.trust_before, row.trust_after
        observed[i, : len(rows)] = True
    return TrustTrials(
        robot_correct=jnp.asarray(correct),
        trust_before=jnp.asarray(before),
        trust_after=jnp.asarray(after),
        observed=jnp.asarray(observed),
        participants=tuple(ordered),
    )


def _text(path: pathlib.Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no file {path}; expected a CSV file of trust ratings with the columns "
            f"{', '.join(COLUMNS)}"
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start counts from behind a byte order mark, and so does error.object
        line = error.object[: error.start].count(b"\n") + 1
        raise RatingsError(
            f"{path}, row {line}: byte {error.object[error.start]:#04x} is not UTF-8; expected UTF-8 text"
        ) from error
    if not text.strip():
        raise RatingsError(f"{path}: the file is empty; expected the columns {', '.join(COLUMNS)}")
    return text


def _rows(path: pathlib.Path, text: str) -> Iterator[_Row]:
    """The rows of data, each cell checked."""
    lines = _lines(path, text)
    header_line, header = next(lines)
    header = [name.strip() for name in header]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise RatingsError(
            f"{path}, row {header_line}: missing column {', '.join(map(repr, missing))}; expected "
            f"{', '.join(COLUMNS)}, separated by commas, but found {header}"
        )
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise RatingsError(
            f"{path}, row {header_line}: column {twice[0]!r} occurs {header.count(twice[0])} times; expected "
            f"each once, but found {header}"
        )
    for line, cells in lines:
        if len(cells) != len(header):
            where = f", column {header[len(cells)]!r}" if len(cells) < len(header) else ""
            raise RatingsError(
                f"{path}, row {line}{where}: {len(cells)} cells {cells}; expected {len(header)}, one for "
                "each column"
            )
        cell = {name: cells[header.index(name)].strip() for name in COLUMNS}
        place = f"{path}, row {line}, column "
        if not cell["participant"]:
            raise RatingsError(f"{place}'participant': the cell is empty; expected a label")
        yield _Row(
            line,
            cell["participant"],
            int(_number(place, "trial", cell["trial"], "an integer", float.is_integer)),
            bool(_number(place, "robot_correct", cell["robot_correct"], "0 or 1", (0.0, 1.0).__contains__)),
            _rating(place, "trust_before", cell["trust_before"]),
            _rating(place, "trust_after", cell["trust_after"]),
        )


def _lines(path: pathlib.Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not blank, split into cells, with the number of the line that each starts on."""
    # Strict, as otherwise a forgotten closing quote swallows the rest of the file without a word.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise RatingsError(f"{path}, row {line}: {error}; expected cells separated by commas") from error
        if len(cells) > 1 or "".join(cells).strip():
            yield line, cells


def _number(place: str, column: str, cell: str, expected: str, accept: Callable[[float], bool]) -> float:
    try:
        if "_" in cell:  # Python reads 0_1 as 1
            raise ValueError
        value = float(cell)
    except ValueError:
        found = f"{cell!r} is not a number" if cell else "the cell is empty"
        raise RatingsError(f"{place}{column!r}: {found}; expected {expected}") from None
    if not accept(value):
        raise RatingsError(f"{place}{column!r}: got {cell}; expected {expected}")
    return value


def _rating(place: str, column: str, cell: str) -> float:
    # NaN fails both comparisons
    return _number(place, column, cell, "a rating in [0, 1]", lambda value: 0.0 <= value <= 1.0)


def _sort_key(labels: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """By value if all labels are whole numbers, as text otherwise."""
    numeric = all(label.isdecimal() for label in labels)
    return lambda label: (int(label) if numeric else 0, label)
