"""Grids of parameters: what an axis may be called, and the parameters at a point."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from qmind_jax.environment import Environment
from qmind_jax.names import unknown
from qmind_jax.people.parameters import ParametricPerson

PEOPLE = "people."
"""What the name of an axis begins with that is a parameter of all people."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """All combinations of the values of some parameters.

    Attributes:
        axes: Values of each parameter, by name.
    """

    axes: Mapping[str, tuple[float, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(self.axes)

    @property
    def points(self) -> np.ndarray:
        """Values at every point, float64 ``(points, axes)``; the last axis varies fastest."""
        return np.array(list(itertools.product(*self.axes.values())), np.float64)


def grid_of(env: Environment, params: Any, axes: Mapping[str, Sequence[float]]) -> Grid:
    """A grid whose every value makes sense in the environment.

    Args:
        env: The environment.
        params: Its parameters, which the axes change.
        axes: Values by name: a number among the parameters, such as ``fail_cost``, or one of every person,
            such as ``people.gamma``.

    Raises:
        ValueError: If there is no axis, a name is unknown, or values are none, repeated or out of range.
    """
    if not axes:
        raise ValueError("axes must name at least one parameter, such as {'fail_cost': (1.0, 5.0)}")
    known = _sweepable(params)
    for name, values in axes.items():
        if name not in known:
            raise ValueError(unknown("axis", name, known))
        _check_values(name, values)
        for i, value in enumerate(values):
            try:
                here = params_at(params, {name: float(value)})
                env.check_params(here)
            except ValueError as error:
                raise ValueError(f"axes[{name!r}][{i}]: {error}") from error
    return Grid({name: tuple(float(value) for value in values) for name, values in axes.items()})


def params_at(params: Any, point: Mapping[str, Any]) -> Any:
    """Parameters with some numbers changed, also under ``jit``.

    Args:
        params: Parameters of an environment.
        point: Numbers by the name of the axis; one that starts with ``people.`` goes to every person.

    Raises:
        ValueError: If a whole number is needed and another is given, or a person may not have the value.
    """
    costs = {name: value for name, value in point.items() if not name.startswith(PEOPLE)}
    of_people = {name.removeprefix(PEOPLE): value for name, value in point.items() if name not in costs}
    changes = {name: _like(name, value, getattr(params, name)) for name, value in costs.items()}
    if of_people:
        people = params.people
        shared = {name: jnp.full_like(getattr(people, name), value) for name, value in of_people.items()}
        changes["people"] = people.replace(**shared)
    return params.replace(**changes)


def _sweepable(params: Any) -> list[str]:
    costs = [field.name for field in dataclasses.fields(params) if field.name != "people"]
    people = params.people
    personal = people.parameters if isinstance(people, ParametricPerson) else ()
    return [*costs, *(PEOPLE + name for name in personal)]


def _check_values(name: str, values: Sequence[float]) -> None:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iuf":
        raise ValueError(f"axes[{name!r}] must be a list of at least one number, got {values!r}")
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"axes[{name!r}] must hold finite numbers, got {values!r}")
    if np.unique(numbers).size < numbers.size:
        raise ValueError(f"axes[{name!r}] must hold every value once, got {values!r}")


def _like(name: str, value: Any, present: Any) -> Any:
    """The value in the type of the parameter that it replaces."""
    dtype = jnp.asarray(present).dtype
    if jnp.issubdtype(dtype, jnp.integer) and isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{name} must be an integer, got {value!r}")
        value = int(value)
    return jnp.asarray(value).astype(dtype)
