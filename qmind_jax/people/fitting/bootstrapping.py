"""Parametric bootstrap: how far a fit would move on other answers of the same person."""

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

from qmind_jax.people.counts import draw_counts, numpy_generator
from qmind_jax.people.fitting.maximum_likelihood import STEPS, Fit, check_effort
from qmind_jax.people.fitting.search import Problem, search
from qmind_jax.people.intervals import tails
from qmind_jax.people.parameters import ParametricPerson

RESTARTS = 4


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """Refits of data that the fitted person was made to give.

    Attributes:
        fit: The fit that the replicates come from.
        people: The refitted people: a population of R replicates.
        free: Their free vectors, float64 of shape ``(R, k)``.
        samples: By free parameter, natural values ``(R,)``.
        predictions: By condition, cells ``(R, cells)``.
    """

    fit: Fit
    people: ParametricPerson
    free: np.ndarray
    samples: Mapping[str, np.ndarray]
    predictions: Mapping[str, np.ndarray]

    @property
    def standard_errors(self) -> dict[str, float]:
        """Standard deviation of every parameter over the replicates."""
        return {name: float(np.std(values, ddof=1)) for name, values in self.samples.items()}

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Percentile confidence interval of every parameter; ``level`` in (0, 1).

        Where the likelihood has several hills, some replicates are fitted best on another than the fit is,
        and the interval spans both; ``restarts=1`` of :func:`bootstrap` stays on the hill of the fit.
        """
        ends = tails(level)
        return {name: tuple(np.quantile(values, ends).tolist()) for name, values in self.samples.items()}

    def predictive_interval(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """Percentile interval of every cell: by condition ``(2, cells)``, lower ends first."""
        ends = tails(level)
        return {name: np.quantile(cells, ends, axis=0) for name, cells in self.predictions.items()}


def bootstrap(
    fit: Fit, *, key: jax.Array, replicates: int = 200, restarts: int = RESTARTS, steps: int = STEPS
) -> Bootstrap:
    """Refit data sets simulated from a fit, all of them and all their starts together.

    The refits run in the compiled program of the fit.

    Counts are drawn with the observed number of answers of every condition; after a squared loss, values
    with normal errors of the fit's mean square. The structure stays that of the fit.

    Args:
        fit: A fit without a prior.
        key: JAX random key of the data and the starts.
        replicates: Number of simulated data sets, at least 2.
        restarts: Starts per data set, at least 1; the first is the fit itself, the others are random.
        steps: Steps of the search from each start, at least 1.

    Raises:
        ValueError: For fewer than two replicates, other numbers below 1, or a fit with a prior.
    """
    if fit.penalty:
        raise ValueError("bootstrap refits without a prior, and this fit, a result of fit_map, has one")
    check_effort(replicates=replicates, restarts=restarts, steps=steps)
    if replicates < 2:
        raise ValueError(f"replicates must be at least 2, got {replicates}")
    problem = Problem.of(type(fit.person), fit.options, fit.design, fit.loss)
    data_key, start_key = jax.random.split(key)
    data = _simulate(fit, data_key, replicates)
    first = np.tile(fit.free, (replicates, 1))
    with jax.enable_x64(True):
        found = search(problem, start_key, data, first, None, restarts=restarts, steps=steps)
    return Bootstrap(fit, problem.people(found.values), found.free, found.values, found.cells)


def _simulate(fit: Fit, key: jax.Array, replicates: int) -> dict[str, np.ndarray]:
    if fit.loss == "multinomial":
        sizes = {name: int(counts.sum()) for name, counts in fit.data.items()}
        return draw_counts(key, fit.predictions, sizes, (replicates,))
    generator = numpy_generator(key)
    errors = np.concatenate([fit.predictions[name] - values for name, values in fit.data.items()])
    spread = np.sqrt(np.mean(errors**2))
    return {
        name: cells + spread * generator.normal(size=(replicates, cells.size))
        for name, cells in fit.predictions.items()
    }
