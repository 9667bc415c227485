"""Weights of hypotheses and of people."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def normalised(weights: jax.Array) -> jax.Array:
    """Weights divided by their sum; uniform where all are zero."""
    total = weights.sum()
    return jnp.where(total > 0.0, weights / jnp.where(total > 0.0, total, 1.0), 1.0 / weights.size)


def check_weights(name: str, weights: Any, size: int) -> jax.Array:
    """The weights as a float array ``(size,)`` that sums to 1.

    Raises:
        ValueError: If they have another shape, one is negative or not finite, or all are zero.
    """
    values = np.asarray(weights, float)
    if values.shape != (size,) or not np.all(np.isfinite(values)) or np.any(values < 0) or values.sum() == 0:
        raise ValueError(
            f"{name} must be {size} finite numbers of at least 0, and not all 0; got {weights!r}"
        )
    return jnp.asarray(values / values.sum(), float)
