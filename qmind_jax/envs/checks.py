"""Checks of parameters where they enter from Python; none of them runs under ``jit``."""

from typing import Any

import numpy as np

from qmind_jax.people.population import Person


def check_people(people: Any, family: type[Person]) -> None:
    """Raise ``TypeError`` unless ``people`` is a population of the family."""
    if not isinstance(people, family):
        known = ", ".join(sorted(kind.__name__ for kind in family.__subclasses__()))
        raise TypeError(f"people must be one of {known}; got {type(people).__name__}: {people!r}")
    if not people.is_population:
        raise TypeError(
            f"people must be a population (a leading axis of people), got {people!r}; "
            "qmind_jax.people.stack([person]) makes one"
        )


def check_cost(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is made of finite numbers."""
    if not np.issubdtype(np.asarray(value).dtype, np.number) or not np.all(np.isfinite(value)):
        raise ValueError(f"{name} must be a finite number, got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is made of integers of at least 1."""
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.integer) or np.any(array < 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_fraction(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value lies in [0, 1]."""
    check_cost(name, value)
    if np.any(np.asarray(value) < 0) or np.any(np.asarray(value) > 1):
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
