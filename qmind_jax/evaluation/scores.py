"""Scores of predicted probabilities against what happened: smaller is better.

Log loss and Brier score are proper: nobody does better than by saying what they believe. scikit-learn has
them for NumPy; these run inside ``jit``, ``vmap`` and ``grad``, one line each.
"""

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.population import check_range

_SMALLEST_PROBABILITY = 1e-15
"""Probabilities count as at least this much, so that the log loss of one impossible outcome is finite."""


def log_loss(probabilities: jax.Array, outcomes: jax.Array) -> jax.Array:
    """Mean of minus the natural logarithm of the probability given to what happened, in nats.

    Args:
        probabilities: In [0, 1]: of "yes", float ``(n,)``; or of each class, float ``(n, classes)``, every
            row summing to 1.
        outcomes: Bools or 0 and 1, ``(n,)``; or the index of the class, integer ``(n,)``.

    Returns:
        Float scalar, at least 0 and at most about 34.5.

    Raises:
        ValueError: If there are no outcomes, shapes do not fit, or a value is outside its range. Under
            ``jit`` only shapes are checked.
    """
    probabilities, outcomes = check_predictions(probabilities, outcomes)
    return -jnp.mean(jnp.log(jnp.maximum(_of_outcome(probabilities, outcomes), _SMALLEST_PROBABILITY)))


def brier_score(probabilities: jax.Array, outcomes: jax.Array) -> jax.Array:
    """Mean squared distance of the probabilities from what happened.

    Of ``(n,)`` probabilities of "yes" the mean of ``(p - y)^2``, in [0, 1]. Of ``(n, classes)`` the mean of
    the squares summed over classes, in [0, 2]: with two classes twice the former (Brier 1950).

    Args:
        probabilities: As in :func:`log_loss`.
        outcomes: As in :func:`log_loss`.

    Returns:
        Float scalar.

    Raises:
        ValueError: As in :func:`log_loss`.
    """
    probabilities, outcomes = check_predictions(probabilities, outcomes)
    if probabilities.ndim == 1:
        return jnp.mean((probabilities - outcomes) ** 2)
    happened = jax.nn.one_hot(outcomes, probabilities.shape[1], dtype=probabilities.dtype)
    return jnp.mean(jnp.sum((probabilities - happened) ** 2, axis=1))


def root_mean_square_error(
    predicted: jax.Array, observed: jax.Array, where: jax.Array | None = None
) -> jax.Array:
    """Root of the mean squared error of predictions, in their unit; of held-out data an honest score.

    Args:
        predicted: Float array of any shape.
        observed: Float array of the same shape.
        where: Which entries count, bool of the same shape; all if None.

    Returns:
        Float scalar.

    Raises:
        ValueError: If shapes differ, no entry counts, or an entry that counts is not finite. Under ``jit``
            only shapes are checked.
    """
    predicted, observed = jnp.asarray(predicted, float), jnp.asarray(observed, float)
    where = jnp.ones(predicted.shape, bool) if where is None else jnp.asarray(where)
    if not predicted.shape == observed.shape == where.shape or where.dtype != bool:
        raise ValueError(
            "predicted, observed and where must have one shape, where of bools; got "
            f"{predicted.shape}, {observed.shape} and {where.dtype}{list(where.shape)}"
        )
    if not _traced(predicted, observed, where):
        if not np.any(where):
            raise ValueError("where must be True somewhere: no entry counts")
        for name, values in (("predicted", predicted), ("observed", observed)):
            if not np.all(np.isfinite(np.asarray(values)[np.asarray(where)])):
                raise ValueError(f"{name} must be finite where it counts, got {values}")
    # The square of an entry that does not count could be infinite, and so spoil gradients.
    error = jnp.where(where, predicted - observed, 0.0)
    return jnp.sqrt(jnp.sum(error**2) / jnp.sum(where))


def check_predictions(probabilities: jax.Array, outcomes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Both as arrays, the outcomes as integers, or ``ValueError`` if they are no predictions."""
    probabilities, outcomes = jnp.asarray(probabilities, float), jnp.asarray(outcomes)
    if probabilities.ndim not in (1, 2) or outcomes.shape != probabilities.shape[:1] or outcomes.size == 0:
        raise ValueError(
            "probabilities must have shape (n,) or (n, classes) and outcomes (n,) with n at least 1, got "
            f"{probabilities.shape} and {outcomes.shape}"
        )
    if not _traced(probabilities):
        check_range("predictions", "probabilities", probabilities, 0.0, 1.0)
        total = np.asarray(probabilities).sum(axis=-1) if probabilities.ndim == 2 else np.ones(1)
        worst = int(np.argmax(np.abs(total - 1.0)))
        if np.abs(total[worst] - 1.0) > 1e-4:
            raise ValueError(f"probabilities must sum to 1 over classes, row {worst} sums to {total[worst]}")
    if not _traced(outcomes):
        last = 1 if probabilities.ndim == 1 else probabilities.shape[1] - 1
        values = np.asarray(outcomes)
        wrong = ~np.isin(values, np.arange(last + 1))
        if np.any(wrong):
            raise ValueError(f"outcomes must be integers from 0 to {last}, got {values[wrong][0]}")
    return probabilities, outcomes.astype(int)


def _of_outcome(probabilities: jax.Array, outcomes: jax.Array) -> jax.Array:
    if probabilities.ndim == 1:
        return jnp.where(outcomes == 1, probabilities, 1.0 - probabilities)
    return jnp.take_along_axis(probabilities, outcomes[:, None], axis=1)[:, 0]


def _traced(*arrays: jax.Array) -> bool:
    return any(isinstance(array, jax.core.Tracer) for array in arrays)
