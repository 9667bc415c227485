"""Checks of counts of answers that users hand in."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from qmind_jax.names import unknown


def check_counts(
    data: Mapping[str, Any], cells: Mapping[str, int], *, people: bool = False
) -> dict[str, np.ndarray]:
    """Counts by condition as double-precision arrays.

    Args:
        data: Numbers of answers by condition, each of shape ``(cells,)``, or ``(people, cells)``.
        cells: Number of cells that every condition must have.
        people: Whether the counts have a leading axis of people.

    Raises:
        ValueError: If a condition is missing or unknown, has another number of cells, or holds anything
            but whole numbers of at least 0; or if there are no answers at all.
        TypeError: If the data are no mapping of numbers.
    """
    arrays = check_values(data, cells, people=people)
    for name, values in arrays.items():
        wrong = values[(values < 0) | (values != np.round(values))]
        if wrong.size:
            hint = "; proportions_to_counts makes counts of proportions" if np.all(values <= 1.0) else ""
            raise ValueError(
                f"data[{name!r}] must hold counts, whole numbers of at least 0, got {wrong.flat[0]:g}{hint}"
            )
    totals = sum(values.sum(axis=-1) for values in arrays.values())
    if np.any(totals == 0):
        who = f" of person {int(np.argmin(totals))}" if people else ""
        raise ValueError(f"data must hold at least one answer, got counts{who} that are all 0")
    return arrays


def check_values(
    data: Mapping[str, Any], cells: Mapping[str, int], *, people: bool = False
) -> dict[str, np.ndarray]:
    """Finite numbers by condition as double-precision arrays; see :func:`check_counts`."""
    if not isinstance(data, Mapping):
        raise TypeError(f"data must map the conditions {', '.join(cells)} to numbers, got {data!r}")
    for name in data:
        if name not in cells:
            raise ValueError(f"data: {unknown('condition', str(name), cells)}")
    arrays = {}
    for name, size in cells.items():
        if name not in data:
            raise ValueError(
                f"data must have the conditions {', '.join(cells)}, but {name!r} is missing; a design "
                "without it lets a fit do without it"
            )
        try:
            values = np.asarray(data[name], np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"data[{name!r}] must hold numbers, got {data[name]!r}") from None
        if values.ndim != 1 + people or values.shape[-1] != size:
            shape = f"(people, {size})" if people else f"({size},)"
            raise ValueError(f"data[{name!r}] must have shape {shape}, got {values.shape}")
        if not np.all(np.isfinite(values)):
            raise ValueError(f"data[{name!r}] must be finite, got {values[~np.isfinite(values)][0]}")
        arrays[name] = values
    if people and len({len(values) for values in arrays.values()}) > 1:
        shapes = {name: values.shape for name, values in arrays.items()}
        raise ValueError(f"data must hold the same people in every condition, got shapes {shapes}")
    return arrays
