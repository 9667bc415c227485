"""One declaration per parameter of a person: its range, default and way to and from the real line.

Fits, priors and posteriors work on *free* vectors in R^k; people hold *natural* values. A family declares
each parameter once, as the default of a field::

    class MarkovTrust(ParametricPerson, TrustingPerson):
        p0: jax.Array = probability(0.5)

and :class:`ParametricPerson` makes from these declarations the fields, the checks of the constructor, and
the maps between people and free vectors. The transforms are those of quantum-mind.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.names import unknown
from qmind_jax.people.population import Person, check_range

Constraint = Literal["probability", "positive", "bounded", "angle", "real", "fixed"]

_EDGE = 1e-9
"""Distance, as a fraction of the range, that free values keep from the ends of a range."""

_LARGEST_LOG = 50.0
_SMALLEST_POSITIVE = 1e-12
_SMALLEST_UNIFORM = 1e-7


@dataclasses.dataclass(frozen=True)
class Parameter:
    """What is known of one parameter before any data.

    Attributes:
        constraint: ``"probability"``, ``"bounded"`` (both a logit of the place in the range),
            ``"positive"`` (a logarithm), ``"angle"``, ``"real"`` (both themselves), or ``"fixed"``
            (never fitted).
        default: Value of a person who says nothing else.
        low: Lower end of the natural range.
        high: Upper end of the natural range.
        ends: Whether a person may have the very ends (``"closed"``), may not (``"open"``), or may have
            any finite value while fits look in the range (``"unchecked"``).
        unit: Unit of the natural value; empty for a pure number.
    """

    constraint: Constraint
    default: float
    low: float = -np.inf
    high: float = np.inf
    ends: Literal["open", "closed", "unchecked"] = "closed"
    unit: str = ""

    def to_free(self, value: jax.Array) -> jax.Array:
        """From the natural to the free scale; values outside the range count as its nearest end."""
        value = jnp.asarray(value, float)
        match self.constraint:
            case "probability" | "bounded":
                place = (value - self.low) / (self.high - self.low)
                place = jnp.clip(place, _EDGE, 1.0 - max(_EDGE, float(jnp.finfo(value.dtype).epsneg)))
                return jnp.log(place) - jnp.log1p(-place)
            case "positive":
                return jnp.log(jnp.maximum(value, _SMALLEST_POSITIVE))
        return value

    def from_free(self, free: jax.Array) -> jax.Array:
        """From the free to the natural scale; differentiable."""
        match self.constraint:
            case "probability" | "bounded":
                place = jax.nn.sigmoid(free)
                if self.ends == "open":
                    # Rounding takes the sigmoid to its ends, where no valid person is.
                    edge = jnp.finfo(place.dtype).eps
                    place = jnp.clip(place, edge, 1.0 - edge)
                return self.low + (self.high - self.low) * place
            case "positive":
                return jnp.exp(jnp.clip(free, -_LARGEST_LOG, _LARGEST_LOG))
        return free

    def in_working_precision(self, value: jax.Array) -> jax.Array:
        """Natural values in JAX's default precision; an open end gives way to the nearest value inside."""
        value = jnp.asarray(value, float)
        if self.ends != "open":
            return value
        low, high = np.asarray([self.low, self.high], value.dtype)
        # The smallest normal number, as accelerators take smaller ones for 0.
        lowest = np.nextafter(low, high) + jnp.finfo(value.dtype).tiny
        return jnp.clip(value, lowest, np.nextafter(high, low))

    def start(self, uniform: jax.Array) -> jax.Array:
        """Free values where a fit may start, from uniform random numbers in (0, 1).

        Angles become uniform in (0, pi), everything else standard normal.
        """
        return np.pi * uniform if self.constraint == "angle" else jax.scipy.special.ndtri(uniform)

    def check(self, owner: str, name: str, value: np.ndarray) -> None:
        """Raise ``ValueError`` if a person may not have this value."""
        if self.ends != "unchecked" and (np.isfinite(self.low) or np.isfinite(self.high)):
            check_range(owner, name, value, self.low, self.high, open_ends=self.ends == "open")


# What the functions below return stands where a dataclass expects the default of an array field.


def probability(default: float) -> Any:
    """Declare a parameter in [0, 1]."""
    return Parameter("probability", default, 0.0, 1.0)


def positive(default: float, *, ends: Literal["open", "closed"] = "open") -> Any:
    """Declare a parameter above 0; with closed ends a person, though no fit, may have 0."""
    return Parameter("positive", default, 0.0, np.inf, ends=ends)


def bounded(
    default: float,
    low: float,
    high: float,
    *,
    ends: Literal["open", "closed", "unchecked"] = "closed",
    unit: str = "",
) -> Any:
    """Declare a parameter between two numbers."""
    return Parameter("bounded", default, low, high, ends=ends, unit=unit)


def angle(default: float) -> Any:
    """Declare an angle in radians, of any size."""
    return Parameter("angle", default, unit="rad")


def real(default: float) -> Any:
    """Declare a parameter that may be any number."""
    return Parameter("real", default)


def fixed(
    default: float, low: float = -np.inf, high: float = np.inf, *, ends: Literal["open", "closed"] = "closed"
) -> Any:
    """Declare a parameter that no fit changes."""
    return Parameter("fixed", default, low, high, ends=ends)


def as_label(value: Any) -> Any:
    """A structural option in plain Python: tuples for lists and arrays, and no scalars of NumPy."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic | jax.Array) else value
    return tuple(plain) if isinstance(plain, list) else plain


class ParametricPerson(Person):
    """A person whom a few numbers describe.

    Subclasses declare their parameters as field defaults (see the module); fields without a declaration
    are structural options, shared by all people of a population, such as the ranks of projectors.
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Every parameter by name, in the order of the fields."""

    structures: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """The structural options that a fit compares unless it is told which to use."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        declared = {name: value for name, value in cls.__dict__.items() if isinstance(value, Parameter)}
        if declared:
            cls.parameters = declared
            cls._person_ndims = dict.fromkeys(declared, 0)
            for name, parameter in declared.items():
                setattr(cls, name, parameter.default)
        super().__init_subclass__(**kwargs)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse unknown names with a hint, before the dataclass refuses them without."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{cls.__name__}: {unknown('parameter', name, known)}")
        return super().__new__(cls)

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        for name, value in values.items():
            self.parameters[name].check(type(self).__name__, name, value)

    # --- free vectors ---------------------------------------------------------------------------

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Check structural options and parameters to hold.

        Raises:
            TypeError: For what is no field; the nearest known name is given.
            ValueError: If a person may not have the value of a held parameter.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name, value in options.items():
            if name not in known:
                raise TypeError(f"{cls.__name__}: {unknown('option', name, known)}")
            if name in cls.parameters and not isinstance(value, jax.core.Tracer):
                if not np.all(np.isfinite(np.asarray(value, float))):
                    raise ValueError(f"{cls.__name__}: {name} must be finite, got {value!r}")
                cls.parameters[name].check(cls.__name__, name, np.asarray(value, float))

    @classmethod
    def free_names(cls, **options: Any) -> tuple[str, ...]:
        """Names of the free parameters, in order: those neither fixed nor held by an option."""
        return tuple(
            name
            for name, parameter in cls.parameters.items()
            if parameter.constraint != "fixed" and name not in options
        )

    @classmethod
    def from_free(cls, free: jax.Array, **options: Any) -> Self:
        """The person of a free vector, or the population of an array of them.

        Args:
            free: Float ``(k,)`` or ``(people, k)`` with k the number of free parameters.
            **options: Structural options, and values of parameters that are held.

        Raises:
            ValueError: If the vectors have another length.
            TypeError: For an unknown option; the nearest known name is given.
        """
        cls.check_options(options)
        free = jnp.asarray(free, float)
        names = cls.free_names(**options)
        if free.ndim not in (1, 2) or free.shape[-1] != len(names):
            raise ValueError(
                f"{cls.__name__}: free must have shape ({len(names)},) or (people, {len(names)}) for "
                f"{', '.join(names)}; got {free.shape}"
            )
        fields = {name: cls.parameters[name].from_free(free[..., i]) for i, name in enumerate(names)}
        for name, parameter in cls.parameters.items():
            if name not in names:
                value = parameter.in_working_precision(options.get(name, parameter.default))
                fields[name] = jnp.broadcast_to(value, free.shape[:-1])
        labels = {name: value for name, value in options.items() if name not in cls.parameters}
        return cls(**fields, **labels)

    def to_free(self, **held: Any) -> jax.Array:
        """The free vector of a person ``(k,)`` or of a population ``(people, k)``.

        Args:
            **held: Parameters that do not count as free, as in :meth:`from_free`.
        """
        names = self.free_names(**{**self.options, **held})
        return jnp.stack([self.parameters[name].to_free(getattr(self, name)) for name in names], axis=-1)

    @property
    def options(self) -> dict[str, Any]:
        """The structural options, by name."""
        fields = dataclasses.fields(self)
        return {f.name: getattr(self, f.name) for f in fields if f.name not in self.parameters}

    @classmethod
    def starts(cls, uniform: jax.Array, **options: Any) -> jax.Array:
        """Free vectors where fits may start, ``(n, k)``.

        Args:
            uniform: Random numbers, uniform in (0, 1), shape ``(n, k)``.
            **options: Structural options and parameters that are held.
        """
        columns = [
            cls.parameters[name].start(uniform[:, i]) for i, name in enumerate(cls.free_names(**options))
        ]
        return jnp.stack(columns, axis=-1)

    @classmethod
    def random_free(cls, key: jax.Array, n: int, **options: Any) -> jax.Array:
        """Free vectors of ``n`` random people, ``(n, k)``, where fits may start."""
        shape = (n, len(cls.free_names(**options)))
        return cls.starts(jax.random.uniform(key, shape, float, _SMALLEST_UNIFORM), **options)
