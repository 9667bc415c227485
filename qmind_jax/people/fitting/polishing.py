"""The last steps of a single fit: Newton's method with exact derivatives, ends of ranges, and kinks."""

import dataclasses
import functools

import jax
import numpy as np
import scipy.optimize

from qmind_jax.people.fitting.search import Data, Penalty, Problem
from qmind_jax.people.predicting import SMALLEST_PROBABILITY

_FREE_END = 25.0
"""Log odds that are as good as the end of a range: less than 1e-10 of the range is beyond."""

_SIMPLEX = 0.01
"""Size on the free scale of the simplex that looks for the best point of a kink."""


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """The objective of one data set around a free vector.

    Attributes:
        value: The objective.
        gradient: Shape ``(k,)``.
        hessian: Shape ``(k, k)``.
        values: By free parameter, its natural value.
        slopes: Derivative of every natural value with respect to its free one, shape ``(k,)``.
        cells: Predictions by condition.
    """

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    values: dict[str, np.ndarray]
    slopes: np.ndarray
    cells: dict[str, np.ndarray]


def surroundings(problem: Problem, free: np.ndarray, data: Data, penalty: Penalty | None) -> Surroundings:
    """The objective around a free vector ``(k,)``, from exact derivatives of the predictions."""
    (values, cells), (value_slopes, firsts), seconds = jax.tree.map(np.asarray, _derivatives(problem, free))
    k = len(free)
    predicted = np.concatenate([cells[name] for name in data])
    observed = np.concatenate(list(data.values()))
    first = np.concatenate([firsts[name] for name in data])
    second = np.concatenate([seconds[name] for name in data])
    if problem.loss == "squared":
        errors = predicted - observed
        value = np.sum(errors**2)
        weights, curvatures = 2.0 * errors, np.full(len(errors), 2.0)
        n = len(errors)
    else:
        kept = np.clip(predicted, SMALLEST_PROBABILITY, 1.0)
        value = -np.sum(observed * np.log(kept))
        counted = np.where(predicted == kept, observed, 0.0)
        weights, curvatures = -counted / kept, counted / kept**2
        n = observed.sum()
    gradient = weights @ first
    hessian = np.einsum("c,ci,cj->ij", curvatures, first, first) + np.einsum("c,cij->ij", weights, second)
    if penalty is not None:
        value += float(penalty.of(free))
        gradient = gradient + penalty.precision @ (free - penalty.mean)
        hessian = hessian + penalty.precision
    slopes = np.array([value_slopes[name][i] for i, name in enumerate(problem.names)]).reshape(k)
    return Surroundings(float(value) / n, gradient / n, hessian / n, values, slopes, cells)


@functools.partial(jax.jit, static_argnames="problem")
def _derivatives(problem: Problem, free: jax.Array) -> tuple:
    """Natural values and cells of a free vector, their first, and the cells' second derivatives."""

    def natural(free: jax.Array) -> tuple:
        person = problem.person(free)
        values = {name: getattr(person, name) for name in problem.names}
        both = values, person.predict(dict(problem.design))
        return both, both

    def first(free: jax.Array) -> tuple:
        slopes, both = jax.jacfwd(natural, has_aux=True)(free)
        return slopes[1], (slopes, both)

    second, (slopes, both) = jax.jacfwd(first, has_aux=True)(free)
    return both, slopes, second


def polish(problem: Problem, free: np.ndarray, data: Data, penalty: Penalty | None) -> np.ndarray:
    """The minimum next to a free vector ``(k,)``, or the same vector where there is nothing to gain."""

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        around = surroundings(problem, x, data, penalty)
        return around.value, around.gradient

    found = scipy.optimize.minimize(
        value_and_gradient,
        free,
        jac=True,
        hess=lambda x: surroundings(problem, x, data, penalty).hessian,
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": 100},
    )
    better = np.isfinite(found.fun) and found.fun < value_and_gradient(free)[0]
    return _to_ends(problem, found.x if better else free, data, penalty)


def _to_ends(problem: Problem, free: np.ndarray, data: Data, penalty: Penalty | None) -> np.ndarray:
    """A free vector with its parameters moved to ends of their ranges, each in turn, where that is better.

    Families have kinks, such as that of equal probabilities under the largest dependence. Newton's method
    stops on one, short of an end that lies along it; the simplex method then finds the best point on it.
    """

    def value(x: np.ndarray) -> float:
        return surroundings(problem, x, data, penalty).value

    newton, best = free, value(free)
    for i, name in enumerate(problem.names):
        if problem.family.parameters[name].constraint in ("probability", "bounded"):
            for end in (-_FREE_END, _FREE_END):
                moved = np.where(np.arange(len(free)) == i, end, free)
                reached = value(moved)
                if reached < best:
                    free, best = moved, reached
    if free is newton:
        return free
    simplex = np.vstack([free, free + _SIMPLEX * np.eye(len(free))])
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-10}
    return scipy.optimize.minimize(value, free, method="Nelder-Mead", options=options).x
