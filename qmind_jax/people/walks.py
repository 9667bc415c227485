"""People whose opinion wanders along a scale until they are asked: classical, quantum and in between.

The scale has evenly spaced places ``x`` from 0 to 1; the first opinion is a Gaussian around the middle. A
rating tells the category, one of a few stretches of the scale, and collapses the opinion to it. A
condition of a design is ``("single", t)``, a rating at time t with one cell per category, or
``("joint", t1, t2)``, ratings at both times with a cell per pair, the first category varying slowest. The
parametrisations are those of quantum-mind.

No walk builds the exponential of its generator. Hopping links neighbours only, so that applying the generator
takes a few operations per number, in the open-system walk on an N x N density matrix and not an N^2 x N^2
matrix. Time is cut into steps in which the generator is no larger than 3, and in each the Taylor series of
the exponential is summed until its terms are below the rounding of the precision.
"""

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.parameters import ParametricPerson, positive, probability, real
from qmind_jax.people.predicting import Design, PredictingPerson

_MOST_STEPS = 10_000
"""Steps after which a walk gives up: rates times time are then beyond all data."""

_STEP = 3.0
"""Size of the generator times the length of one step."""

_TERMS = {"float32": 18, "float64": 28}
"""Terms of the series that such a step needs in each precision."""

Opinion = tuple[jax.Array, ...]
"""Real arrays whose change is linear in them."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """The places of a walk.

    Attributes:
        n_states: Number N of places, at least 2.
        n_categories: Number K of categories of a rating, from 1 to N.
        initial_width: Standard deviation of the first opinion, in units of the whole scale, positive.
    """

    n_states: int
    n_categories: int
    initial_width: float

    @property
    def places(self) -> np.ndarray:
        """Places from 0 to 1, shape ``(N,)``."""
        return np.linspace(0.0, 1.0, self.n_states)

    @property
    def start(self) -> np.ndarray:
        """Probabilities of the places before anything has happened, shape ``(N,)``."""
        weights = np.exp(-0.5 * ((self.places - 0.5) / self.initial_width) ** 2)
        return weights / weights.sum()

    @property
    def members(self) -> np.ndarray:
        """Whether a place belongs to a category, 0.0 or 1.0, shape ``(K, N)``."""
        edges = np.round(np.linspace(0.0, self.n_states, self.n_categories + 1))
        place = np.arange(self.n_states)
        return np.array([(place >= low) & (place < high) for low, high in itertools.pairwise(edges)], float)


class BeliefWalk(ParametricPerson, PredictingPerson):
    """What all walks share: a subclass says how the opinion moves between ratings.

    Fits of walks take seconds to minutes: give them fewer ``restarts`` and ``steps`` than the default.

    Predictions are NaN where the largest rate times the time exceeds some 10,000.
    """

    default_design: ClassVar[Design] = {"t1": ("single", 1.0)}

    n_states: int
    n_categories: int
    initial_width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        whole = isinstance(self.n_states, int) and isinstance(self.n_categories, int)
        if not (whole and self.n_states >= 2 and 1 <= self.n_categories <= self.n_states):
            raise ValueError(
                f"{owner}: n_states must be a whole number of at least 2 and n_categories one from 1 to "
                f"n_states, got {self.n_states!r} and {self.n_categories!r}"
            )
        if not 0.0 < self.initial_width < np.inf:
            raise ValueError(
                f"{owner}: initial_width must be positive and finite, got {self.initial_width!r}"
            )

    @property
    def scale(self) -> Scale:
        """The places and categories."""
        return Scale(self.n_states, self.n_categories, self.initial_width)

    @classmethod
    def _check_condition(cls, name: str, condition: Any) -> tuple:
        wanted = f"{cls.__name__}: condition {name!r} must be ('single', t) or ('joint', t1, t2)"
        kind, *times = condition if isinstance(condition, tuple | list) and condition else (None,)
        if {"single": 1, "joint": 2}.get(kind) != len(times):
            raise ValueError(f"{wanted}, got {condition!r}")
        try:
            times = [float(time) for time in times]
        except (TypeError, ValueError):
            raise TypeError(f"{wanted} with numbers as times, got {condition!r}") from None
        if not all(earlier <= later < math.inf for earlier, later in zip([0.0, *times], times, strict=False)):
            raise ValueError(f"{wanted} with finite times of at least 0 that do not fall, got {condition!r}")
        return kind, *times

    def _cells(self, condition: tuple) -> jax.Array:
        labels = tuple(self.options.items())
        rates = jnp.stack([getattr(self, name) for name in self.parameters])
        return _cells_of_rates(type(self), labels, condition, rates)

    def _ratings(self, condition: tuple) -> jax.Array:
        """The cells of a condition, with forward derivatives only."""
        members = jnp.asarray(self.scale.members, float)
        _, first, *second = condition
        opinion = self._moved(self._start(), first)
        if not second:
            return jnp.sum(members * self._places(opinion), axis=-1)

        def later(category: jax.Array) -> jax.Array:
            moved = self._moved(self._collapsed(opinion, category), second[0] - first)
            return jnp.sum(members * self._places(moved), axis=-1)

        return jax.vmap(later)(members).reshape(-1)

    def _moved(self, opinion: Opinion, time: float) -> Opinion:
        """The opinion some time later."""
        size, change = self._generator()
        steps = jnp.clip(jnp.ceil(size * time / _STEP), 1.0, _MOST_STEPS)
        length = jnp.where(size * time > _STEP * _MOST_STEPS, jnp.nan, time / steps)

        def step(_: int, opinion: Opinion) -> Opinion:
            def add(n: int, carry: tuple[Opinion, Opinion]) -> tuple[Opinion, Opinion]:
                term, total = carry
                term = tuple(part * length / n for part in change(term))
                return term, tuple(a + b for a, b in zip(total, term, strict=True))

            return jax.lax.fori_loop(1, _TERMS[size.dtype.name] + 1, add, (opinion, opinion))[1]

        return jax.lax.fori_loop(0, steps.astype(int), step, opinion)

    @abc.abstractmethod
    def _start(self) -> Opinion:
        """The opinion before anything has happened."""

    @abc.abstractmethod
    def _generator(self) -> tuple[jax.Array, Callable[[Opinion], Opinion]]:
        """An upper bound of the size of the generator, and the change per unit of time of an opinion."""

    @abc.abstractmethod
    def _collapsed(self, opinion: Opinion, category: jax.Array) -> Opinion:
        """The opinion restricted to the places of a category ``(N,)``, not normalised."""

    @abc.abstractmethod
    def _places(self, opinion: Opinion) -> jax.Array:
        """Probabilities of the places, shape ``(N,)``."""


class MarkovWalk(BeliefWalk):
    """A classical random walk between reflecting ends: the opinion is at one place at a time.

    Source: quantum-mind's ``MarkovWalk``, after Busemeyer, Wang & Townsend (2006).

    Attributes:
        mu: Probability that a step goes up, in [0, 1].
        gamma: Steps per unit of time, positive.
        n_states: Number of places; the same for all people, as are the next two.
        n_categories: Number of categories.
        initial_width: Width of the first opinion as a fraction of the scale.

    ``mu`` and ``gamma`` are float scalars for one person or have shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    mu: jax.Array = probability(0.6)
    gamma: jax.Array = positive(5.0)
    n_states: int = 21
    n_categories: int = 3
    initial_width: float = 0.15

    def _start(self) -> Opinion:
        return (jnp.asarray(self.scale.start, float),)

    def _generator(self) -> tuple[jax.Array, Callable[[Opinion], Opinion]]:
        up, down = self.mu * self.gamma, (1.0 - self.mu) * self.gamma

        def change(opinion: Opinion) -> Opinion:
            # What crosses each gap between neighbours; nothing crosses the ends.
            flow = jnp.pad(up * opinion[0][:-1] - down * opinion[0][1:], 1)
            return (flow[:-1] - flow[1:],)

        return 2.0 * self.gamma, change

    def _collapsed(self, opinion: Opinion, category: jax.Array) -> Opinion:
        return (opinion[0] * category,)

    def _places(self, opinion: Opinion) -> jax.Array:
        return opinion[0]


class QuantumWalk(BeliefWalk):
    """A quantum walk: the opinion is a superposition of places that spreads as a wave until it is asked.

    The Hamiltonian is a slope ``mu x`` plus hopping between neighbours. Source: quantum-mind's
    ``QuantumWalk``, after Busemeyer, Wang & Townsend (2006).

    Attributes:
        mu: Slope of the potential per unit of time; any number.
        sigma: Rate of hopping per unit of time, positive.
        n_states: Number of places; the same for all people, as are the next two.
        n_categories: Number of categories.
        initial_width: Width of the first opinion as a fraction of the scale.

    ``mu`` and ``sigma`` are float scalars for one person or have shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    mu: jax.Array = real(2.0)
    sigma: jax.Array = positive(5.0)
    n_states: int = 21
    n_categories: int = 3
    initial_width: float = 0.15

    def _start(self) -> Opinion:
        amplitudes = jnp.sqrt(jnp.asarray(self.scale.start, float))
        return amplitudes, jnp.zeros_like(amplitudes)

    def _generator(self) -> tuple[jax.Array, Callable[[Opinion], Opinion]]:
        slope = self.mu * jnp.asarray(self.scale.places, float)

        def energy(part: jax.Array) -> jax.Array:
            framed = jnp.pad(part, 1)
            return slope * part + self.sigma * (framed[2:] + framed[:-2])

        def change(opinion: Opinion) -> Opinion:
            """Schrödinger's equation for the real and imaginary parts of the amplitudes."""
            return energy(opinion[1]), -energy(opinion[0])

        return jnp.abs(self.mu) + 2.0 * self.sigma, change

    def _collapsed(self, opinion: Opinion, category: jax.Array) -> Opinion:
        return opinion[0] * category, opinion[1] * category

    def _places(self, opinion: Opinion) -> jax.Array:
        return opinion[0] ** 2 + opinion[1] ** 2


class OpenSystemWalk(BeliefWalk):
    """A quantum walk that its surroundings keep looking at: with strong dephasing, a classical one.

    The density matrix follows a Lindblad equation with the Hamiltonian of :class:`QuantumWalk` and a jump
    operator ``|j><j|`` of rate ``lam`` for every place: all coherences decay at that rate. Source:
    quantum-mind's ``OpenSystemWalk``.

    Attributes:
        mu: Slope of the potential per unit of time; any number.
        sigma: Rate of hopping per unit of time, positive.
        lam: Rate of dephasing per unit of time, positive.
        n_states: Number of places; the same for all people, as are the next two.
        n_categories: Number of categories.
        initial_width: Width of the first opinion as a fraction of the scale.

    The parameters are float scalars for one person or have shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    mu: jax.Array = real(2.0)
    sigma: jax.Array = positive(2.0)
    lam: jax.Array = positive(1.0)
    n_states: int = 21
    n_categories: int = 3
    initial_width: float = 0.15

    def _start(self) -> Opinion:
        amplitudes = jnp.sqrt(jnp.asarray(self.scale.start, float))
        density = jnp.outer(amplitudes, amplitudes)
        return density, jnp.zeros_like(density)

    def _generator(self) -> tuple[jax.Array, Callable[[Opinion], Opinion]]:
        places = jnp.asarray(self.scale.places, float)
        slope = self.mu * (places[:, None] - places[None, :])
        decay = self.lam * (1.0 - jnp.eye(self.n_states))

        def commutator(part: jax.Array) -> jax.Array:
            framed = jnp.pad(part, 1)
            rows, columns = framed[2:, 1:-1] + framed[:-2, 1:-1], framed[1:-1, 2:] + framed[1:-1, :-2]
            return slope * part + self.sigma * (rows - columns)

        def change(opinion: Opinion) -> Opinion:
            """Lindblad's equation for the real and imaginary parts of the density matrix."""
            real, imaginary = opinion
            return commutator(imaginary) - decay * real, -commutator(real) - decay * imaginary

        return jnp.abs(self.mu) + 4.0 * self.sigma + self.lam, change

    def _collapsed(self, opinion: Opinion, category: jax.Array) -> Opinion:
        kept = jnp.outer(category, category)
        return opinion[0] * kept, opinion[1] * kept

    def _places(self, opinion: Opinion) -> jax.Array:
        return jnp.diagonal(opinion[0])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _cells_of_rates(
    family: type[BeliefWalk], labels: tuple[tuple[str, Any], ...], condition: tuple, rates: jax.Array
) -> jax.Array:
    """Cells from the parameters of a walk.

    The number of steps depends on them, and such a loop has forward derivatives only. With the whole
    Jacobian of the two or three parameters at hand, all other derivatives follow.
    """
    return _walk(family, labels, rates)._ratings(condition)


@_cells_of_rates.defjvp
def _cells_of_rates_jvp(
    family: type[BeliefWalk],
    labels: tuple[tuple[str, Any], ...],
    condition: tuple,
    primals: tuple[jax.Array],
    tangents: tuple[jax.Array],
) -> tuple[jax.Array, jax.Array]:
    def twice(rates: jax.Array) -> tuple[jax.Array, jax.Array]:
        cells = _walk(family, labels, rates)._ratings(condition)
        return cells, cells

    jacobian, cells = jax.jacfwd(twice, has_aux=True)(*primals)
    return cells, jnp.sum(jacobian * tangents[0], axis=-1)


def _walk(family: type[BeliefWalk], labels: tuple[tuple[str, Any], ...], rates: jax.Array) -> BeliefWalk:
    return family(**dict(zip(family.parameters, rates, strict=True)), **dict(labels))
