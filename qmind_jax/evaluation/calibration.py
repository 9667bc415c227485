"""Calibration: whether events given probability p happen a fraction p of the time.

The reliability curve sorts predictions into bins of equal width and compares, in each, the mean probability
with the frequency of "yes". Its errors depend on the bins: compare them only under the same number of bins.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.evaluation.scores import check_predictions


class Reliability(NamedTuple):
    """Predictions by bin, from probability 0 to 1. Float and int32 arrays of shape ``(bins,)``.

    Attributes:
        confidence: Mean predicted probability of "yes"; NaN in empty bins.
        frequency: Fraction of predictions where "yes" happened; NaN in empty bins.
        count: Number of predictions.
    """

    confidence: jax.Array
    frequency: jax.Array
    count: jax.Array


def reliability_curve(probabilities: jax.Array, outcomes: jax.Array, bins: int = 10) -> Reliability:
    """Mean probability and frequency of "yes" in bins of equal width.

    Args:
        probabilities: Of "yes", in [0, 1], float ``(n,)``.
        outcomes: Bools or 0 and 1, ``(n,)``.
        bins: At least 1. A bin has its left end but not its right one; the last has both. Rounding decides
            about probabilities at an end: 0.6 in single precision can be in another bin than in double.

    Raises:
        ValueError: If there are no outcomes, shapes do not fit, a value is outside its range, or ``bins`` is
            below 1. Under ``jit`` only shapes and ``bins`` are checked.
    """
    probabilities, outcomes = check_predictions(probabilities, outcomes)
    if probabilities.ndim != 1:
        raise ValueError(
            f"probabilities must have shape (n,); of one class against the rest, got {probabilities.shape}"
        )
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    edges = jnp.asarray(np.linspace(0.0, 1.0, bins + 1)[1:-1], probabilities.dtype)
    place = jnp.searchsorted(edges, probabilities, side="right")
    count = jnp.zeros(bins, jnp.int32).at[place].add(1)
    total = jnp.zeros(bins, probabilities.dtype)
    return Reliability(
        confidence=total.at[place].add(probabilities) / count,
        frequency=total.at[place].add(outcomes) / count,
        count=count,
    )


def expected_calibration_error(probabilities: jax.Array, outcomes: jax.Array, bins: int = 10) -> jax.Array:
    """Mean gap between confidence and frequency, bins weighted by their predictions: a float in [0, 1].

    Arguments and errors as in :func:`reliability_curve`.
    """
    curve = reliability_curve(probabilities, outcomes, bins)
    return jnp.sum(_gaps(curve) * curve.count) / jnp.sum(curve.count)


def maximum_calibration_error(probabilities: jax.Array, outcomes: jax.Array, bins: int = 10) -> jax.Array:
    """Largest gap between confidence and frequency over the bins that are not empty: a float in [0, 1].

    Arguments and errors as in :func:`reliability_curve`.
    """
    return jnp.max(_gaps(reliability_curve(probabilities, outcomes, bins)))


def _gaps(curve: Reliability) -> jax.Array:
    return jnp.where(curve.count > 0, jnp.abs(curve.confidence - curve.frequency), 0.0)
