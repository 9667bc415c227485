"""The search for the person who explains data best, behind every fit; works in double precision.

The objective is a mean per observation, so one learning rate suits data of any size. Adam runs from
every start of every data set at once. A single fit is then polished by SciPy's trust-region Newton
method with exact derivatives.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize

from qmind_jax.people.counts import check_counts, check_values
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.predicting import Design, PredictingPerson

Loss = Literal["multinomial", "squared"]
Data = dict[str, np.ndarray]

_LEARNING_RATE = 0.3

_PACE_NEAR_THE_BEST = 0.1
"""Fraction of the learning rate that does not throw a start out of the valley that it begins in."""

_SMALLEST_PROBABILITY = 1e-12
_SMALLEST_MEAN_SQUARE = 1e-12

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
            (name, _as_hashable(name, value, name in family.parameters)) for name, value in options.items()
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
            if name not in values:
                options[name] = np.full(shape, options.get(name, parameter.default))
        return self.family(**values, **options)

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
        """Log likelihood from the value of the objective (without a prior)."""
        n = self.size(data)
        if self.loss == "multinomial":
            return _saturated(data, np) - n * value
        return -0.5 * n * (np.log(2.0 * np.pi * np.maximum(value, _SMALLEST_MEAN_SQUARE)) + 1.0)

    def information(self, hessian: np.ndarray, value: float, n: float) -> np.ndarray:
        """Observed information on the free scale from the Hessian of the objective at its minimum."""
        if self.loss == "multinomial":
            return n * hessian
        return 0.5 * n * hessian / max(value, _SMALLEST_MEAN_SQUARE)


def objective(problem: Problem, free: jax.Array, data: Data, penalty: Penalty | None) -> jax.Array:
    """Mean deviance from the data's own proportions per answer, or mean squared error.

    Differences from the proportions keep the digits that a log likelihood of thousands of answers loses.
    """
    predicted = problem.predict(free)
    if problem.loss == "squared":
        squares = [(predicted[name] - values) ** 2 for name, values in data.items()]
        return jnp.mean(jnp.concatenate(squares))
    fitted = sum(
        jnp.sum(values * jnp.log(jnp.clip(predicted[name], _SMALLEST_PROBABILITY, 1.0)))
        for name, values in data.items()
    )
    total = _saturated(data, jnp) - fitted + (0.0 if penalty is None else penalty.of(free))
    return total / sum(jnp.sum(values) for values in data.values())


def _saturated(data: Data, numpy: Any) -> Any:
    """Log likelihood of the proportions of every condition, over the last axis."""
    total = 0.0
    for values in data.values():
        sums = numpy.maximum(values.sum(axis=-1, keepdims=True), 1.0)
        shares = numpy.clip(values / sums, _SMALLEST_PROBABILITY, 1.0)
        total = total + numpy.sum(values * numpy.log(shares), axis=-1)
    return total


@functools.partial(jax.jit, static_argnames=("problem", "restarts", "steps"))
def search(
    problem: Problem,
    key: jax.Array,
    data: Data,
    first: jax.Array | None,
    penalty: Penalty | None,
    *,
    restarts: int,
    steps: int,
) -> tuple[jax.Array, jax.Array]:
    """The best that Adam finds for every data set from all its starts.

    Args:
        problem: What is fitted.
        key: JAX random key of the starts.
        data: Arrays of shape ``(sets, cells)``.
        first: Free vectors ``(sets, k)`` near the best, in the place of a random start each, or None.
        penalty: Added to the negative log likelihood, or None.
        restarts: Starts per data set.
        steps: Steps of Adam, with a learning rate that falls to 0 along a cosine.

    Returns:
        Free vectors ``(sets, k)`` and values of the objective ``(sets,)``.
    """
    sets = len(next(iter(data.values())))
    k = len(problem.names)
    starts = problem.family.random_free(key, sets * restarts, **dict(problem.options))
    starts = starts.reshape(sets, restarts, k)
    paces = jnp.ones((sets, restarts))
    if first is not None:
        starts, paces = starts.at[:, 0].set(first), paces.at[:, 0].set(_PACE_NEAR_THE_BEST)
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, steps))

    def run(start: jax.Array, pace: jax.Array, one: Data) -> tuple[jax.Array, jax.Array]:
        gradient = jax.grad(lambda free: objective(problem, free, one, penalty))

        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            free, state = carry
            updates, state = optimiser.update(gradient(free), state)
            return (free + pace * updates, state), None

        (free, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), length=steps)
        return free, objective(problem, free, one, penalty)

    free, values = jax.vmap(jax.vmap(run, (0, 0, None)))(starts, paces, data)
    values = jnp.where(jnp.isnan(values), jnp.inf, values)
    # Mirror images of a person are equally good: the one that the first start leads to is kept.
    best = jnp.argmin(values.at[:, 0].add(-_TIE), axis=1)
    return free[jnp.arange(sets), best], values[jnp.arange(sets), best]


@functools.partial(jax.jit, static_argnames="problem")
def derivatives(
    problem: Problem, free: jax.Array, data: Data, penalty: Penalty | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Value, gradient ``(k,)`` and Hessian ``(k, k)`` of the objective for one data set."""

    def value_and_gradient(free: jax.Array) -> tuple:
        value, gradient = jax.value_and_grad(lambda x: objective(problem, x, data, penalty))(free)
        return gradient, (value, gradient)

    hessian, (value, gradient) = jax.jacfwd(value_and_gradient, has_aux=True)(free)
    return value, gradient, hessian


@functools.partial(jax.jit, static_argnames="problem")
def natural(problem: Problem, free: jax.Array) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Free parameters on their natural scale ``(sets,)``, and cells ``(sets, cells)`` of every condition.

    Args:
        problem: What is fitted.
        free: Free vectors ``(sets, k)``.
    """
    people = problem.person(free)
    return {name: getattr(people, name) for name in problem.names}, people.predict(dict(problem.design))


@functools.partial(jax.jit, static_argnames="problem")
def natural_slopes(problem: Problem, free: jax.Array) -> jax.Array:
    """Derivative of every natural parameter with respect to its free one, shape ``(k,)``."""
    declared = problem.family.parameters
    slopes = [jax.grad(declared[name].from_free)(free[i]) for i, name in enumerate(problem.names)]
    return jnp.stack(slopes)


def polish(problem: Problem, free: np.ndarray, data: Data, penalty: Penalty | None) -> np.ndarray:
    """The minimum next to a free vector ``(k,)``, or the same vector where there is nothing to gain."""

    def at(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(part) for part in derivatives(problem, x, data, penalty))

    found = scipy.optimize.minimize(
        lambda x: at(x)[:2],
        free,
        jac=True,
        hess=lambda x: at(x)[2],
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": 100},
    )
    return found.x if np.isfinite(found.fun) and found.fun < at(free)[0] else free


def _as_hashable(name: str, value: Any, is_parameter: bool) -> Hashable:
    if is_parameter:
        if np.ndim(value) != 0:
            raise ValueError(f"option {name} must be one number, held for all people, got {value!r}")
        return float(value)
    return tuple(value) if isinstance(value, list) else value
