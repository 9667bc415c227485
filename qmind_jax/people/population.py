"""A person is a pytree of arrays; a population is the same pytree with a leading axis."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.entries import LONGEST


class Person:
    """Base class of all simulated people.

    A subclass declares annotated fields and becomes a frozen dataclass and a JAX pytree. Its
    constructor validates concrete values and lets traced ones through; transformations of JAX (which
    build trees of gradients, of axes, of shapes) do not pass through the constructor.
    """

    _person_ndims: ClassVar[dict[str, int]]
    """Number of axes that each array field has for one person. Other fields are static labels."""

    _may_be_complex: ClassVar[bool] = False
    """Whether the array fields may hold complex numbers."""

    _integers: ClassVar[frozenset[str]] = frozenset()
    """Names of the array fields that hold integers, not measured numbers."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_person_ndims" not in cls.__dict__:
            return
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        arrays = tuple(cls._person_ndims)
        labels = tuple(f.name for f in dataclasses.fields(cls) if f.name not in arrays)

        def flatten(person: "Person") -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            return tuple((jax.tree_util.GetAttrKey(name), getattr(person, name)) for name in arrays), (
                tuple(getattr(person, name) for name in labels)
            )

        def unflatten(aux: tuple[Any, ...], leaves: tuple[Any, ...]) -> "Person":
            person = object.__new__(cls)
            for name, value in zip(arrays + labels, tuple(leaves) + tuple(aux), strict=True):
                object.__setattr__(person, name, value)
            return person

        jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)

    def __post_init__(self) -> None:
        for name in self._person_ndims:
            convert = _as_integers if name in self._integers else _as_inexact
            array = convert(name, getattr(self, name))
            if jnp.iscomplexobj(array) and not self._may_be_complex:
                raise TypeError(f"{type(self).__name__}: {name} must be real, got {getattr(self, name)!r}")
            object.__setattr__(self, name, array)
        values = {name: getattr(self, name) for name in self._person_ndims}
        shapes = {name: jnp.shape(value) for name, value in values.items()}
        extra = {self._extra_axes(name) for name in values}
        if extra not in ({0}, {1}):
            raise ValueError(
                f"{type(self).__name__}: expected fields of {self._person_ndims} axes for one person, "
                f"or one leading axis more on every field for a population; got shapes {shapes}"
            )
        if self.is_population and len({shape[0] for shape in shapes.values()}) > 1:
            raise ValueError(f"{type(self).__name__}: fields differ in number of people: {shapes}")
        if not any(isinstance(value, jax.core.Tracer) for value in values.values()):
            for name, value in values.items():
                if not np.all(np.isfinite(value)):
                    raise ValueError(f"{type(self).__name__}: {name} must be finite, got {value}")
            self._validate({name: np.asarray(value) for name, value in values.items()})

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        """Raise ``ValueError`` if concrete field values make no person; subclasses override."""

    def _extra_axes(self, name: str) -> int:
        return jnp.ndim(getattr(self, name)) - self._person_ndims[name]

    @property
    def is_population(self) -> bool:
        """True for a population (one leading axis of people), False for one person."""
        return self._extra_axes(next(iter(self._person_ndims))) == 1

    def __len__(self) -> int:
        """Number of people in a population."""
        if not self.is_population:
            raise TypeError(f"one {type(self).__name__} has no length; stack([...]) makes a population")
        return jnp.shape(getattr(self, next(iter(self._person_ndims))))[0]

    def __getitem__(self, index: Any) -> Self:
        """Person ``index`` of a population, or the sub-population of a slice, index array or mask.

        Raises:
            IndexError: If there is no such person; under ``jit`` the index is clipped instead.
            TypeError: If the index is none of these.
        """
        size = len(self)
        if not isinstance(index, slice | jax.core.Tracer):
            numbers = np.asarray(index)
            if numbers.ndim > 1 or numbers.dtype.kind not in "iub" or isinstance(index, tuple):
                raise TypeError(
                    f"the index of people must be an integer, a slice, or a one-dimensional array of "
                    f"integers or bools, got {index!r}"
                )
            if numbers.dtype == bool and numbers.shape != (size,):
                raise IndexError(f"a mask of {size} people must have shape ({size},), got {numbers.shape}")
            wrong = (numbers < -size) | (numbers >= size)
            if numbers.dtype != bool and np.any(wrong):
                raise IndexError(f"person {numbers[wrong].flat[0]} of a population of {size}")
            index = index if isinstance(index, int) else numbers
        return jax.tree.map(lambda leaf: leaf[index], self)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Refuse: NumPy would otherwise walk through the people one by one and make an object array."""
        raise TypeError(
            f"people are no array: take a field of them, such as people.{next(iter(self._person_ndims))}, or "
            "jax.tree.map over all their arrays"
        )

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; validates as the constructor does."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        count = f"{len(self)} people" if self.is_population else "one person"
        fields = ", ".join(f"{f.name}={_summary(getattr(self, f.name))}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({count}: {fields})"


PersonType = TypeVar("PersonType", bound=Person)


def stack(people: Sequence[PersonType]) -> PersonType:
    """Make a population of single people, or join populations.

    Args:
        people: At least one person or population, all of one family and, where they answer
            questions, with the same questions and hypotheses.

    Returns:
        A population: the same pytree with a leading axis.

    Raises:
        ValueError: If there is nobody, or if the people differ in their questions, hypotheses or
            dimensions.
        TypeError: If they are of different families.
    """
    people = list(people)
    if not people:
        raise ValueError("people must hold at least one person, got an empty sequence")
    first = people[0]
    if not isinstance(first, Person):
        raise TypeError(f"people must hold Persons, got {type(first).__name__}: {first!r}")
    for i, person in enumerate(people):
        if type(person) is not type(first):
            raise TypeError(
                f"people[{i}] is a {type(person).__name__} but people[0] is a {type(first).__name__}; "
                "a population holds one family (qmind_jax.people.mix joins families that trust)"
            )
    labels = [f.name for f in dataclasses.fields(first) if f.name not in first._person_ndims]
    for name in labels:
        for i, person in enumerate(people):
            if getattr(person, name) != getattr(first, name):
                raise ValueError(
                    f"people[{i}] has other {name} than people[0]: {getattr(person, name)} against "
                    f"{getattr(first, name)}; all people of a population share their {name}"
                )
    columns = {}
    for name, ndim in first._person_ndims.items():
        leaves = [jnp.asarray(getattr(person, name)) for person in people]
        leaves = [leaf if leaf.ndim > ndim else leaf[None] for leaf in leaves]
        if len({leaf.shape[1:] for leaf in leaves}) > 1:
            shapes = sorted({leaf.shape[1:] for leaf in leaves})
            raise ValueError(f"people differ in the shape of {name}: {shapes}")
        columns[name] = jnp.concatenate(leaves)
    return dataclasses.replace(first, **columns)


def as_population(people: Any) -> Person:
    """A population from a population, one person, or a sequence of people.

    Raises:
        TypeError: If the argument is none of these.
    """
    if isinstance(people, Person):
        return people if people.is_population else stack([people])
    if isinstance(people, Sequence) and not isinstance(people, str):
        return stack(people)
    raise TypeError(
        "people must be a population, a person or a sequence of people from qmind_jax.people, "
        f"got {type(people).__name__}: {people!r}"
    )


def field_of(values: jax.Array, person: jax.Array, *rest: jax.Array) -> jax.Array:
    """``values[person, *rest]``; a population of one costs no gather over people."""
    return values[(0 if values.shape[0] == 1 else person, *rest)]


def row_of(values: jax.Array, person: jax.Array, *rest: jax.Array) -> jax.Array:
    """The vector ``values[person, *rest]``, a short one entry by entry; the indices must be in range.

    As scalars, lookups and what follows them vectorise over lanes; a slice per lane does not.
    """
    if values.shape[-1] > LONGEST:
        return field_of(values, person, *rest)
    return jnp.stack(_vector_of(values, person, *rest))


def _vector_of(values: jax.Array, person: jax.Array, *rest: jax.Array) -> list[jax.Array]:
    row = jnp.int32(0)
    for size, index in zip(values.shape, (person, *rest), strict=False):
        row = row * size + index if size > 1 else row
    rows = values.reshape(-1, values.shape[-1])
    return [look_up(rows[:, i], row) for i in range(rows.shape[-1])]


def entries_of(values: jax.Array, person: jax.Array, *rest: jax.Array) -> list[list[jax.Array]]:
    """The rows of the matrix ``values[person, *rest]``, every entry looked up on its own."""
    *_, height, width = values.shape
    entries = _vector_of(values.reshape(*values.shape[:-2], height * width), person, *rest)
    return [entries[i * width : (i + 1) * width] for i in range(height)]


def look_up(column: jax.Array, row: jax.Array) -> jax.Array:
    """``column[row]``; from a short column by selection, which is faster than a gather.

    The index must be in range.
    """
    if len(column) > 8:
        return column[row]
    value = column[-1]
    for i in range(len(column) - 1):
        value = jnp.where(row == i, column[i], value)
    return value


def check_range(
    owner: str, name: str, value: np.ndarray, low: float, high: float, *, open_ends: bool = False
) -> None:
    """Raise ``ValueError`` naming the field unless every value lies in the interval."""
    value = np.asarray(value)
    inside = (value > low) & (value < high) if open_ends else (value >= low) & (value <= high)
    if not np.all(inside):
        interval = f"({low:g}, {high:g})" if open_ends else f"[{low:g}, {high:g}]"
        worst = value if value.ndim == 0 else value[~inside].ravel()[0]
        raise ValueError(f"{owner}: {name} must lie in {interval}, got {worst}")


def _as_inexact(name: str, value: Any) -> jax.Array:
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numbers, got {value!r}") from error
    kind = complex if jnp.issubdtype(array.dtype, jnp.complexfloating) else float
    return array.astype(jnp.promote_types(array.dtype, jnp.result_type(kind)))


def _as_integers(name: str, value: Any) -> jax.Array:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{name} must be integers, got {value!r}")
    return array.astype(jnp.int32)


def _summary(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(list(value))
    shape = jnp.shape(value)
    return (
        f"{np.asarray(value):.4g}"
        if shape == () and not isinstance(value, jax.core.Tracer) and np.isrealobj(value)
        else f"{getattr(value, 'dtype', type(value).__name__)}{list(shape)}"
    )
