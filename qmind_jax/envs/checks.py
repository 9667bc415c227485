"""Checks of parameters where they enter from Python; none of them runs under ``jit``."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from qmind_jax.people.population import Person


def check_people(people: Any, family: type[Person]) -> None:
    """Raise ``TypeError`` unless ``people`` is a population of the family, ``ValueError`` if it is empty."""
    if not isinstance(people, family):
        known = ", ".join(sorted(kind.__name__ for kind in family.__subclasses__()))
        raise TypeError(f"people must be one of {known}; got {type(people).__name__}: {people!r}")
    if not people.is_population:
        raise TypeError(
            f"people must be a population (a leading axis of people), got {people!r}; "
            "qmind_jax.people.stack([person]) makes one"
        )
    if len(people) < 1:
        raise ValueError(f"people must hold at least one person, got {people!r}")


def check_cost(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is made of numbers that are finite in JAX's float type."""
    array = _number(value)
    real = np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    limit = float(jnp.finfo(jnp.result_type(float)).max)
    if not real or not np.all(np.abs(array.astype(np.float64)) <= limit):
        raise ValueError(f"{name} must be a finite real number of size at most {limit:.3g}, got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is made of integers of at least 1."""
    array = _number(value)
    whole = np.issubdtype(array.dtype, np.integer)
    if not whole or np.any(array < 1) or np.any(array > np.iinfo(np.int32).max):
        raise ValueError(f"{name} must be an integer from 1 to 2**31 - 1, got {value!r}")


def check_fraction(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value lies in [0, 1]."""
    check_cost(name, value)
    if np.any(np.asarray(value) < 0) or np.any(np.asarray(value) > 1):
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")


def _number(value: Any) -> np.ndarray:
    """The value as an array; lists are refused by kind, as a leaf of parameters is one array."""
    return np.asarray(None if isinstance(value, list | tuple) else value)
