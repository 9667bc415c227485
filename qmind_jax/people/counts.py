"""Counts of answers: checks of those that users hand in, and counts that simulated people give."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from qmind_jax.names import unknown
from qmind_jax.people.predicting import Design, PredictingPerson


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
    arrays = check_whole(data, cells, people=people)
    totals = sum(values.sum(axis=-1) for values in arrays.values())
    if np.any(totals == 0):
        who = f" of person {int(np.argmin(totals))}" if people else ""
        raise ValueError(f"data must hold at least one answer, got counts{who} that are all 0")
    return arrays


def check_whole(
    data: Mapping[str, Any], cells: Mapping[str, int], *, people: bool = False
) -> dict[str, np.ndarray]:
    """As :func:`check_counts`, but there need be no answers."""
    arrays = check_values(data, cells, people=people)
    for name, values in arrays.items():
        wrong = values[(values < 0) | (values != np.round(values))]
        if wrong.size:
            hint = "; proportions_to_counts makes counts of proportions" if np.all(values <= 1.0) else ""
            raise ValueError(
                f"data[{name!r}] must hold counts, whole numbers of at least 0, got {wrong.flat[0]:g}{hint}"
            )
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


def simulate_counts(
    people: PredictingPerson,
    sizes: Mapping[str, int],
    design: Design | None = None,
    *,
    key: jax.Array,
    sets: int = 1,
) -> dict[str, np.ndarray]:
    """Counts that people would give, drawn from their predictions.

    Args:
        people: One person, who answers for every data set, or a population with one data set each.
        sizes: Number of answers in each condition.
        design: Conditions by name; the family's default design if None.
        key: JAX random key; its words seed NumPy's generator, which draws.
        sets: Number of data sets of one person; of no effect on a population.

    Returns:
        By condition, float64 counts of shape ``(sets, cells)`` or ``(people, cells)``.

    Raises:
        ValueError: If a condition has no size, or a size is no whole number of at least 0.
    """
    predictions = people.predict(design)
    shape = (len(people),) if people.is_population else (sets,)
    totals = check_counts({name: [size] for name, size in sizes.items()}, dict.fromkeys(predictions, 1))
    whole = {name: int(totals[name][0]) for name in predictions}
    return draw_counts(key, predictions, whole, shape)


def draw_counts(
    key: jax.Array, cells: Mapping[str, np.ndarray], sizes: Mapping[str, int], shape: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Multinomial counts ``(*shape, cells)`` by condition, drawn by NumPy from the words of a key."""
    generator = numpy_generator(key)
    counts = {}
    for name, probabilities in cells.items():
        # NumPy insists on sums that are 1 to double precision.
        weights = np.clip(np.asarray(probabilities, np.float64), 0.0, 1.0)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        counts[name] = generator.multinomial(sizes[name], weights, size=shape).astype(np.float64)
    return counts


def numpy_generator(key: jax.Array) -> np.random.Generator:
    """NumPy's generator, seeded with the words of a JAX key: it draws without compiling anything."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
