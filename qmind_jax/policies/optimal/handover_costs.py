"""What the four actions of TrustHandover are worth: their rewards and the means over what may follow."""

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class HandoverCosts:
    """The numbers of ``TrustHandoverParams`` that rewards depend on, float scalars."""

    fail: jax.Array
    slow: jax.Array
    ask: jax.Array
    wait: jax.Array
    slow_factor: jax.Array


def rewards(p_fail: jax.Array, costs: HandoverCosts) -> jax.Array:
    """Expected reward of each action, float ``(4, ...)``; ``p_fail`` is that of an ordinary hand-over."""
    fast = 1.0 - p_fail * (1.0 + costs.fail)
    slow = 1.0 - p_fail * costs.slow_factor * (1.0 + costs.fail) - costs.slow
    return jnp.stack([fast, slow, jnp.full_like(fast, -costs.ask), jnp.full_like(fast, -costs.wait)])


def means_after(
    p_fail: jax.Array,
    slow_factor: jax.Array,
    *,
    success: jax.Array,
    failure: jax.Array,
    yes: jax.Array,
    no: jax.Array,
    wait: jax.Array,
) -> jax.Array:
    """Mean of what follows each action, float ``(4, ...)``, from the value of every state that may follow.

    A hand-over leaves the same state whether it was slow or not; a "no" is as probable as a failure.
    """
    fast = success + p_fail * (failure - success)
    slow = success + p_fail * slow_factor * (failure - success)
    return jnp.stack([fast, slow, yes + p_fail * (no - yes), wait])
