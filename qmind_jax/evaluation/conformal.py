"""Conformal prediction: sets of answers that hold the true one as often as promised, whatever the model.

Split conformal sets promise it for people like those of the calibration data, on average over both (Vovk et
al. 2005). Adaptive sets (Gibbs & Candès 2021) keep the promise in the long run even when people change.
The score of an answer is one minus its predicted probability.
"""

import math
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.evaluation.scores import check_predictions


def conformal_threshold(probabilities: jax.Array, labels: jax.Array, alpha: float = 0.1) -> jax.Array:
    """Largest score that a set should hold, from calibration data.

    Args:
        probabilities: Predicted for each class, float ``(n, classes)``, rows summing to 1; of people to whom
            the predictor was not fitted.
        labels: What happened, integer ``(n,)``.
        alpha: How often a set may miss the truth, in (0, 1).

    Returns:
        Float scalar in [0, 1]: the ``ceil((n + 1)(1 - alpha))``-th smallest score of what happened; 1, which
        lets in everything, if n is too small to promise anything less.

    Raises:
        ValueError: If there are no labels, shapes do not fit, or a value is outside its range. Under ``jit``
            only shapes and ``alpha`` are checked.
    """
    probabilities, labels = check_predictions(probabilities, labels)
    if probabilities.ndim != 2:
        raise ValueError(f"probabilities must have shape (n, classes), got {probabilities.shape}")
    _check_alpha(alpha)
    scores = 1.0 - jnp.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    # Rounding must not lift 9 of (9 + 1)(1 - 0.1) to the next integer.
    rank = math.ceil((len(labels) + 1) * (1.0 - alpha) - 1e-9)
    return jnp.sort(scores)[rank - 1] if rank <= len(labels) else jnp.ones((), scores.dtype)


def conformal_sets(probabilities: jax.Array, threshold: jax.Array) -> jax.Array:
    """Which classes are in the set: those whose score is at most the threshold.

    Args:
        probabilities: Float ``(..., classes)`` in [0, 1].
        threshold: Float scalar, of :func:`conformal_threshold`.

    Returns:
        Bool of the shape of ``probabilities``. A set may be empty, and more than one class in it is a reason
        to ask.
    """
    return 1.0 - jnp.asarray(probabilities, float) <= threshold


@struct.dataclass
class AdaptiveConformal:
    """Conformal sets whose level follows the mistakes that they make, one answer at a time.

    A pytree of fixed shape, so that ``step`` can be scanned over answers and mapped over people. After each
    answer the level moves by ``rate * (alpha - missed)``. The fraction of sets that miss then differs from
    ``alpha`` by at most ``(max(alpha, 1 - alpha) + rate) / (rate * answers)``, whatever happens.

    Attributes:
        alpha: How often sets should miss the truth, float scalar.
        rate: How far one answer moves the level, float scalar.
        level: Level that the next set uses, float scalar; it may leave [0, 1].
        scores: Scores of the latest answers, float ``(window,)``; infinite where there is none yet.
        answers: Number of answers so far, int32 scalar.
        missed: Number of answers that their set did not hold, int32 scalar.
        seen: Number of scores put into the window so far, int32 scalar.
    """

    alpha: jax.Array
    rate: jax.Array
    level: jax.Array
    scores: jax.Array
    answers: jax.Array
    missed: jax.Array
    seen: jax.Array

    @classmethod
    def start(
        cls,
        alpha: float = 0.1,
        rate: float = 0.01,
        calibration_scores: jax.Array = (),
        window: int = 1000,
    ) -> Self:
        """Before the first answer.

        Args:
            alpha: How often sets may miss the truth, in (0, 1).
            rate: Positive; a larger one adapts faster and makes sets vary more.
            calibration_scores: Scores ``1 - p`` of earlier answers, in [0, 1], ``(n,)``; n is at
                most ``window``.
            window: Number of latest scores that are kept, at least 1.

        Raises:
            ValueError: If an argument is outside its range.
        """
        _check_alpha(alpha)
        if not (rate > 0.0 and math.isfinite(rate)):
            raise ValueError(f"rate must be positive and finite, got {rate}")
        known = np.asarray(calibration_scores, float)
        if known.ndim != 1 or not np.all((known >= 0.0) & (known <= 1.0)):
            raise ValueError(f"calibration_scores must be numbers in [0, 1] of shape (n,), got {known}")
        if window < max(1, len(known)):
            raise ValueError(
                f"window must be at least 1 and hold all {len(known)} calibration_scores, got {window}"
            )
        return cls(
            alpha=jnp.asarray(alpha, float),
            rate=jnp.asarray(rate, float),
            level=jnp.asarray(alpha, float),
            scores=jnp.full(window, jnp.inf, float).at[: len(known)].set(known),
            answers=jnp.int32(0),
            missed=jnp.int32(0),
            seen=jnp.int32(len(known)),
        )

    @property
    def threshold(self) -> jax.Array:
        """Largest score in the next set: infinite for everything, minus infinity for nothing."""
        known = jnp.minimum(self.seen, len(self.scores))
        # The level is a sum of many terms: what it is off by must not lift an integer to the next one.
        rounding = 64.0 * float(jnp.finfo(self.scores.dtype).eps)
        rank = jnp.ceil((known + 1) * (1.0 - self.level) * (1.0 - rounding)).astype(int)
        ranked = jnp.sort(self.scores)[jnp.clip(rank, 1, len(self.scores)) - 1]
        return jnp.where(rank < 1, -jnp.inf, jnp.where(rank > known, jnp.inf, ranked))

    def step(self, probabilities: jax.Array, answer: jax.Array) -> tuple[Self, jax.Array]:
        """The set for one prediction, then what its answer teaches.

        Args:
            probabilities: Predicted for each class, float ``(classes,)`` summing to 1.
            answer: Index of the class that happened, integer scalar.

        Returns:
            The next state and the set, bool ``(classes,)``, made before the answer was known.

        Raises:
            ValueError: If the shapes do not fit or a value is outside its range; under ``jit`` only shapes
                are checked.
        """
        probabilities, answer = jnp.asarray(probabilities, float), jnp.asarray(answer)
        if probabilities.ndim != 1 or answer.ndim != 0:
            raise ValueError(
                "probabilities must have shape (classes,) and answer be a scalar, got "
                f"{probabilities.shape} and {answer.shape}"
            )
        check_predictions(probabilities[None], answer[None])
        members = conformal_sets(probabilities, self.threshold)
        missed = ~members[answer]
        following = self.replace(
            level=self.level + self.rate * (self.alpha - missed),
            scores=self.scores.at[self.seen % len(self.scores)].set(1.0 - probabilities[answer]),
            answers=self.answers + 1,
            missed=self.missed + missed,
            seen=self.seen + 1,
        )
        return following, members

    @property
    def miscoverage(self) -> jax.Array:
        """Fraction of sets so far that missed the answer, a float; NaN before the first."""
        return self.missed / self.answers

    @property
    def bound(self) -> jax.Array:
        """How far :attr:`miscoverage` can be from ``alpha`` at most; infinite before the first answer."""
        return (jnp.maximum(self.alpha, 1.0 - self.alpha) + self.rate) / (self.rate * self.answers)


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie in (0, 1), got {alpha}")
