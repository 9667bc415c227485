"""Short vectors, entry by entry.

A trailing axis of two to four numbers does not vectorise over lanes. Written as one scalar per entry the
same arithmetic does, and XLA takes apart the stack that goes around the entries wherever single ones are
asked for again.
"""

import jax
import jax.numpy as jnp

LONGEST = 16
"""Longer vectors stay whole: every entry is a line of the compiled program."""


def entries(vector: jax.Array) -> list[jax.Array]:
    """The scalars of a vector of shape ``(n,)``."""
    return [vector[i] for i in range(vector.shape[0])]


def select(condition: jax.Array, when_true: jax.Array, when_false: jax.Array) -> jax.Array:
    """``jnp.where`` for one condition and two arrays of the same shape.

    Args:
        condition: Bool scalar.
        when_true: Array of any shape.
        when_false: Array of the same shape.
    """
    shape = jnp.shape(when_true)
    if len(shape) != 1 or not 0 < shape[0] <= LONGEST:
        return jnp.where(condition, when_true, when_false)
    pairs = zip(entries(when_true), entries(when_false), strict=True)
    return jnp.stack([jnp.where(condition, *pair) for pair in pairs])


def put(vector: jax.Array, index: jax.Array, value: jax.Array, condition: jax.Array) -> jax.Array:
    """The vector with one entry replaced, if a condition holds.

    Args:
        vector: Shape ``(n,)``.
        index: Which entry, int scalar.
        value: Scalar.
        condition: Bool scalar.
    """
    if vector.shape[0] > LONGEST:
        return jnp.where(condition & (jnp.arange(vector.shape[0]) == index), value, vector)
    return jnp.stack([jnp.where(condition & (index == i), value, old) for i, old in enumerate(vector)])
