"""Maximum likelihood, least squares and penalised fits of people to counts of their answers."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from qmind_jax.people.fitting.polishing import polish, surroundings
from qmind_jax.people.fitting.search import Data, Loss, Penalty, Problem, search
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.predicting import Design

RESTARTS = 64
STEPS = 400

_LEAST_INFORMATION = 1e-9
"""Information in a direction, as a fraction of that in the best known one, below which there is none."""

_LARGEST_FREE_ERROR = 100.0
"""Standard error on the free scale that says as little as none: the log odds of all but certain parameters
are below 10."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """The person who explains the data best.

    Attributes:
        person: One person, in JAX's default precision.
        options: Structural options and held parameters of that person.
        free: Free vector of the person in double precision, shape ``(k,)``.
        loglik: Log likelihood: the sum of ``n log p`` over all cells, without the multinomial constant, p
            clipped at 1e-12 from below; under a squared loss that of normal errors, their variance at its
            best value.
        k: Number of free parameters. The choice of a structure and a variance are not counted.
        n: Number of observations: answers, or cells under a squared loss.
        standard_errors: By free parameter, on its natural scale, from the curvature of the (penalised)
            log likelihood by the delta method; NaN where the data leave a direction undetermined, as at
            the end of a range.
        per_structure: Log likelihood of each structure that was compared, by its options as text.
        loss: ``"multinomial"`` or ``"squared"``.
        design: Conditions by name.
        data: Observations by condition, float64.
        predictions: Cells of the person by condition, float64.
        penalty: Negative log prior of the person without its constant; 0 without a prior.
    """

    person: ParametricPerson
    options: Mapping[str, Any]
    free: np.ndarray
    loglik: float
    k: int
    n: float
    standard_errors: Mapping[str, float]
    per_structure: Mapping[str, float]
    loss: Loss
    design: Mapping[str, Any]
    data: Mapping[str, np.ndarray]
    predictions: Mapping[str, np.ndarray]
    penalty: float = 0.0

    @property
    def name(self) -> str:
        """The family with its options, such as ``QuantumOrder(ranks=(1, 2))``."""
        return describe(type(self.person), self.options)

    @property
    def aic(self) -> float:
        """Akaike's criterion, ``2 k - 2 loglik``."""
        return 2.0 * self.k - 2.0 * self.loglik

    @property
    def bic(self) -> float:
        """Bayesian criterion, ``k log(n) - 2 loglik``."""
        return self.k * math.log(self.n) - 2.0 * self.loglik

    def summary(self) -> str:
        """A few lines to print: scores, then every parameter with its standard error."""
        lines = [
            f"{self.name}: log likelihood {self.loglik:.3f}, {self.k} parameters, n = {self.n:g}, "
            f"AIC {self.aic:.2f}, BIC {self.bic:.2f}"
        ]
        for name, error in self.standard_errors.items():
            unit = self.person.parameters[name].unit
            value = float(getattr(self.person, name))
            lines.append(f"  {name} = {value:.4f}{f' {unit}' if unit else ''} (standard error {error:.4f})")
        if len(self.per_structure) > 1:
            others = ", ".join(f"{name} {value:.2f}" for name, value in self.per_structure.items())
            lines.append(f"  log likelihood by structure: {others}")
        return "\n".join(lines)


def fit(
    family: type[ParametricPerson],
    data: Mapping[str, Any],
    design: Design | None = None,
    *,
    key: jax.Array,
    restarts: int = RESTARTS,
    steps: int = STEPS,
    loss: Loss = "multinomial",
    **options: Any,
) -> Fit:
    """Fit one person to data: the best of many starts, and of all structures of the family.

    All starts of a structure run in one call, and one compiled program serves all data of a design. Fits
    work in double precision whatever JAX's default.

    Args:
        family: A family with parameters, such as ``QuantumOrder``.
        data: By condition of the design, counts ``(cells,)``; under a squared loss measured values. For
            question orders ``{"AB": counts, "BA": counts}``, cells yes-yes, yes-no, no-yes, no-no, the
            answer to the question asked first coming first.
        design: Conditions by name; the family's default design if None.
        key: JAX random key of the starts.
        restarts: Number of random starts for each structure, at least 1.
        steps: Steps of the search from each start, at least 1.
        loss: ``"multinomial"`` for counts, ``"squared"`` for measured values.
        **options: Structural options, such as ``ranks=(1, 2)``, which then are not compared; and
            parameters to hold, such as ``gamma=0.3``.

    Raises:
        ValueError: If the data are empty, have missing, unknown or misshapen conditions, or are no counts;
            for a held value that no person may have; or for a wrong loss, ``restarts`` or ``steps``.
        TypeError: For an unknown option (the nearest known name is given) or what is no family.
    """
    problems = structures(family, options, design, loss)
    check_effort(restarts=restarts, steps=steps)
    checked = problems[0].check_data(data)
    with jax.enable_x64(True):
        found = [best_of(problem, key, checked, None, None, restarts, steps) for problem in problems]
    return _finish(problems, found, checked, None)


def fit_map(
    prior: GaussianPrior,
    data: Mapping[str, Any],
    design: Design | None = None,
    *,
    key: jax.Array,
    restarts: int = RESTARTS,
    steps: int = STEPS,
) -> Fit:
    """The most probable person of a family given counts and a prior.

    A prior that describes other people pulls the fit of someone who answered little towards them.

    Args:
        prior: A Gaussian on the free scale; it names the family and its structural options.
        data: Counts by condition, as for :func:`fit`.
        design: Conditions by name; the family's default design if None.
        key: JAX random key of the starts; the first start is the mean of the prior.
        restarts: Number of starts, at least 1.
        steps: Steps of the search from each start, at least 1.

    Returns:
        A fit whose ``loglik`` is without the prior; ``-loglik + penalty`` is what is minimal.

    Raises:
        ValueError: If the data are empty, have missing, unknown or misshapen conditions, or are no counts.
        TypeError: If ``prior`` is no prior of a family with predictions.
    """
    if not isinstance(prior, GaussianPrior):
        raise TypeError(f"prior must be a GaussianPrior, got {prior!r}")
    problem = Problem.of(prior.family, prior.options, design, "multinomial")
    check_effort(restarts=restarts, steps=steps)
    checked = problem.check_data(data)
    mean, covariance = np.asarray(prior.mean, np.float64), np.asarray(prior.covariance, np.float64)
    penalty = Penalty(mean, np.linalg.inv(covariance))
    with jax.enable_x64(True):
        found = best_of(problem, key, checked, mean, penalty, restarts, steps)
    return _finish([problem], [found], checked, penalty)


def structures(
    family: type[ParametricPerson], options: Mapping[str, Any], design: Design | None, loss: Loss
) -> list[Problem]:
    """One problem for each structure of the family that agrees with the options."""
    given = Problem.of(family, options, design, loss)
    fixed = dict(given.options)
    agreeing = [
        structure
        for structure in family.structures
        if all(fixed.get(name, value) == value for name, value in structure.items())
    ]
    return [Problem.of(family, {**structure, **fixed}, design, loss) for structure in agreeing] or [given]


def best_of(
    problem: Problem,
    key: jax.Array,
    data: Data,
    first: np.ndarray | None,
    penalty: Penalty | None,
    restarts: int,
    steps: int,
) -> tuple[np.ndarray, float]:
    """Free vector and objective of the best start for one data set."""
    one = {name: values[None] for name, values in data.items()}
    first = None if first is None else first[None]
    found = search(problem, key, one, first, penalty, restarts=restarts, steps=steps)
    return found.free[0], float(found.objective[0])


def describe(family: type[ParametricPerson], options: Mapping[str, Any]) -> str:
    """A family with its options, such as ``QuantumOrder(ranks=(1, 2))``."""
    text = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{family.__name__}({text})" if text else family.__name__


def _finish(
    problems: list[Problem], found: list[tuple[np.ndarray, float]], data: Data, penalty: Penalty | None
) -> Fit:
    """Polish the best structure and say how well it is determined."""
    best = int(np.argmin([value for _, value in found]))
    problem = problems[best]
    n = float(problem.size(data))
    with jax.enable_x64(True):
        free = polish(problem, found[best][0], data, penalty)
        around = surroundings(problem, free, data, penalty)
        paid = 0.0 if penalty is None else float(penalty.of(free))
    per_structure = {
        describe(each.family, dict(each.options)): float(each.loglik(np.asarray(reached), data))
        for each, (_, reached) in zip(problems, found, strict=True)
    }
    loglik = float(problem.loglik(np.asarray(around.value - paid / n), data))
    per_structure[describe(problem.family, dict(problem.options))] = loglik
    information = problem.information(around.hessian, around.value, n)
    errors = np.abs(around.slopes) * _free_errors(information)
    return Fit(
        person=problem.people(around.values),
        options=dict(problem.options),
        free=free,
        loglik=loglik,
        k=len(problem.names),
        n=n,
        standard_errors=dict(zip(problem.names, errors.tolist(), strict=True)),
        per_structure=per_structure,
        loss=problem.loss,
        design=dict(problem.design),
        data=data,
        predictions=around.cells,
        penalty=paid,
    )


def _free_errors(information: np.ndarray) -> np.ndarray:
    """Standard errors on the free scale; NaN for what lies in a direction without information."""
    strengths, directions = np.linalg.eigh(information)
    known = strengths > max(_LEAST_INFORMATION * strengths.max(), _LARGEST_FREE_ERROR**-2)
    weights = directions**2
    undetermined = weights[:, ~known].sum(axis=1) > 1e-6
    variances = weights[:, known] @ (1.0 / strengths[known])
    return np.where(undetermined, np.nan, np.sqrt(variances))


def check_effort(**numbers: int) -> None:
    """Raise ``ValueError`` unless every number is a whole number of at least 1."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
