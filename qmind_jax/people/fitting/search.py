"""The search for the person who explains data best, behind every fit; works in double precision.

The objective is a mean per observation, so one learning rate suits data of any size. Adam runs from every
start of every data set at once; :mod:`qmind_jax.people.fitting.polishing` takes the last steps of a
single fit. People have few parameters: forward derivatives cost little and compile in half the time of
backward ones.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from qmind_jax.people.counts import check_counts, check_values, numpy_generator
from qmind_jax.people.parameters import ParametricPerson, as_label
from qmind_jax.people.predicting import SMALLEST_PROBABILITY, Design, PredictingPerson

Loss = Literal["multinomial", "squared"]
Data = dict[str, np.ndarray]

_LEARNING_RATE = 0.3

_PACE_NEAR_THE_BEST = 0.1
"""Fraction of the learning rate that does not throw a start out of the valley that it begins in."""

_SMALLEST_MEAN_SQUARE = 1e-12

_BLOCKS = (8, 64, 4096)
"""Numbers of starts, of one data set or of many, that one call of the compiled search takes. A few sizes
suffice for all fits, so that new numbers of people, replicates or restarts seldom compile anything."""

_TIE = 1e-6
"""Difference of the objective, a mean per observation, up to which two ends of a search are equally good."""


@dataclasses.dataclass(frozen=True)
class Penalty:
    """The negative logarithm of a Gaussian prior on the free scale, without its constant.

    Attributes:
        mean: Shape ``(k,)``.
        precision: Inverse of the covariance, shape ``(k, k)``.
    """

    mean: np.ndarray
    precision: np.ndarray

    def of(self, free: jax.Array) -> jax.Array:
        """``(free - mean) precision (free - mean) / 2``."""
        off = free - self.mean
        return 0.5 * off @ self.precision @ off


jax.tree_util.register_dataclass(Penalty, ["mean", "precision"], [])


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is fitted, apart from the data: one compiled program each.

    Attributes:
        family: A family with parameters and predictions.
        options: Structural options and held parameters, by name.
        design: Checked conditions, by name.
        loss: ``"multinomial"`` for counts, ``"squared"`` for measured values.
    """

    family: type[ParametricPerson]
    options: tuple[tuple[str, Hashable], ...]
    design: tuple[tuple[str, Hashable], ...]
    loss: Loss

    @classmethod
    def of(
        cls, family: type[ParametricPerson], options: Mapping[str, Any], design: Design | None, loss: Loss
    ) -> "Problem":
        """A checked problem; raises ``TypeError`` or ``ValueError`` as ``fit`` documents."""
        fittable = isinstance(family, type) and issubclass(family, ParametricPerson)
        if not (fittable and issubclass(family, PredictingPerson)):
            raise TypeError(f"family must be a class of people with parameters, got {family!r}")
        if loss not in ("multinomial", "squared"):
            raise ValueError(f"loss must be 'multinomial' or 'squared', got {loss!r}")
        family.check_options(options)
        hashable = tuple(
            (name, _held(name, value) if name in family.parameters else as_label(value))
            for name, value in options.items()
        )
        problem = cls(family, hashable, tuple(family.check_design(design).items()), loss)
        if not problem.names:
            raise ValueError(f"{family.__name__}: no parameter is left to fit, as options hold all of them")
        return problem

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free parameters."""
        return self.family.free_names(**dict(self.options))

    def person(self, free: jax.Array) -> Any:
        """The person of a free vector, or the population of an array of them."""
        return self.family.from_free(free, **dict(self.options))

    def people(self, values: Mapping[str, np.ndarray]) -> Any:
        """The person or population with these natural values of the free parameters."""
        options = dict(self.options)
        shape = np.shape(values[self.names[0]])
        for name, parameter in self.family.parameters.items():
            value = values[name] if name in values else np.full(shape, options.get(name, parameter.default))
            options[name] = parameter.in_working_precision(value)
        return self.family(**options)

    def predict(self, free: jax.Array) -> dict[str, jax.Array]:
        """Cells of every condition."""
        return self.person(free).predict(dict(self.design))

    def check_data(self, data: Mapping[str, Any], *, people: bool = False) -> Data:
        """The data as arrays; see :func:`qmind_jax.people.counts.check_counts`."""
        shapes = jax.eval_shape(self.predict, jnp.zeros(len(self.names)))
        cells = {name: shape.shape[-1] for name, shape in shapes.items()}
        check = check_counts if self.loss == "multinomial" else check_values
        return check(data, cells, people=people)

    def size(self, data: Data) -> np.ndarray:
        """Number of observations: answers of a multinomial loss, cells of a squared one."""
        if self.loss == "multinomial":
            return sum(values.sum(axis=-1) for values in data.values())
        first = next(iter(data.values()))
        return np.full(first.shape[:-1], float(sum(values.shape[-1] for values in data.values())))

    def loglik(self, value: np.ndarray, data: Data) -> np.ndarray:
        """Log likelihood from the value of the objective (without a penalty)."""
        n = self.size(data)
        if self.loss == "multinomial":
            return -n * value
        return -0.5 * n * (np.log(2.0 * np.pi * np.maximum(value, _SMALLEST_MEAN_SQUARE)) + 1.0)

    def information(self, hessian: np.ndarray, value: float, n: float) -> np.ndarray:
        """Observed information on the free scale from the Hessian of the objective at its minimum."""
        if self.loss == "multinomial":
            return n * hessian
        return 0.5 * n * hessian / max(value, _SMALLEST_MEAN_SQUARE)


@dataclasses.dataclass(frozen=True)
class Found:
    """Where a search has ended in every lane, or for every data set.

    Attributes:
        free: Free vectors ``(sets, k)``; NumPy or JAX arrays of float64, like all that follows.
        objective: Mean negative log likelihood per answer, or mean squared error, ``(sets,)``.
        values: By free parameter, natural values ``(sets,)``.
        cells: By condition, predictions ``(sets, cells)``.
    """

    free: Any
    objective: Any
    values: dict[str, Any]
    cells: dict[str, Any]


jax.tree_util.register_dataclass(Found, ["free", "objective", "values", "cells"], [])


def objective(problem: Problem, free: jax.Array, data: Data, penalty: Penalty | None) -> tuple:
    """What a fit minimises, a mean per observation; and natural values and cells on the way."""
    person = problem.person(free)
    cells = person.predict(dict(problem.design))
    values = {name: getattr(person, name) for name in problem.names}
    if problem.loss == "squared":
        squares = [(cells[name] - observed) ** 2 for name, observed in data.items()]
        return jnp.mean(jnp.concatenate(squares)), (values, cells)
    total = 0.0 if penalty is None else penalty.of(free)
    for name, counts in data.items():
        total = total - jnp.sum(counts * jnp.log(jnp.clip(cells[name], SMALLEST_PROBABILITY, 1.0)))
    return total / sum(jnp.sum(counts) for counts in data.values()), (values, cells)


def search(
    problem: Problem,
    key: jax.Array,
    data: Data,
    first: np.ndarray | None,
    penalty: Penalty | None,
    *,
    restarts: int,
    steps: int,
) -> Found:
    """The best that Adam finds for every data set from all its starts.

    Args:
        problem: What is fitted.
        key: JAX random key of the starts.
        data: Arrays of shape ``(sets, cells)``.
        first: Free vectors ``(sets, k)`` near the best, in the place of a random start each, or None.
        penalty: Added to the negative log likelihood, or None.
        restarts: Starts per data set.
        steps: Steps of Adam, with a learning rate that falls to 0 along a cosine.
    """
    sets = len(next(iter(data.values())))
    lanes = sets * restarts
    shape = (sets, restarts, len(problem.names))
    near, given = np.zeros(shape[:2], bool), np.zeros(shape)
    if first is not None:
        near[:, 0], given[:, 0] = True, first
    uniform = numpy_generator(key).uniform(size=shape)
    columns = jax.tree.map(lambda leaf: leaf.reshape(lanes, *leaf.shape[2:]), (uniform, given, near))
    repeated = {name: np.repeat(values, restarts, axis=0) for name, values in data.items()}
    block = max(size for size in _BLOCKS if size <= max(lanes, _BLOCKS[0]))
    parts = []
    for begin in range(0, lanes, block):
        # The last block is filled up with its last lane, so that one program serves any number of lanes.
        index = np.minimum(np.arange(begin, begin + block), lanes - 1)
        part, counts = jax.tree.map(lambda leaf, index=index: leaf[index], (columns, repeated))
        parts.append(_search_lanes(problem, *part, counts, penalty, steps=steps))
    found = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:lanes].reshape(*shape[:2], -1), *parts)
    # Mirror images of a person are equally good: the one that the first start leads to is kept.
    reached = found.objective[..., 0]
    best = np.argmin(np.concatenate([reached[:, :1] - _TIE, reached[:, 1:]], axis=1), axis=1)
    found = jax.tree.map(lambda leaf: leaf[np.arange(sets), best], found)
    values = {name: column[:, 0] for name, column in found.values.items()}
    return Found(found.free, found.objective[:, 0], values, found.cells)


@functools.partial(jax.jit, static_argnames=("problem", "steps"))
def _search_lanes(
    problem: Problem,
    uniform: jax.Array,
    given: jax.Array,
    near: jax.Array,
    data: Data,
    penalty: Penalty | None,
    *,
    steps: int,
) -> Found:
    """Adam from one start in every lane: a given one that is near the best, or one from random numbers."""
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, steps))
    drawn = problem.family.starts(uniform, **dict(problem.options))
    starts = jnp.where(near[:, None], given, drawn)
    paces = jnp.where(near, _PACE_NEAR_THE_BEST, 1.0)

    def run(start: jax.Array, pace: jax.Array, one: Data) -> Found:
        gradient = jax.jacfwd(lambda free: objective(problem, free, one, penalty)[0])

        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            free, state = carry
            updates, state = optimiser.update(gradient(free), state)
            return (free + pace * updates, state), None

        (free, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), length=steps)
        reached, (values, cells) = objective(problem, free, one, penalty)
        return Found(free, jnp.where(jnp.isnan(reached), jnp.inf, reached), values, cells)

    return jax.vmap(run)(starts, paces, data)


def _held(name: str, value: Any) -> float:
    if np.ndim(value) != 0:
        raise ValueError(f"option {name} must be one number, held for all people, got {value!r}")
    return float(value)
