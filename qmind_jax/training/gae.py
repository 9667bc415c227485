"""Generalised advantage estimation that knows how an episode ended."""

import jax
import jax.numpy as jnp
from jax import lax


def generalised_advantages(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    discount: float | jax.Array,
    trace_decay: float | jax.Array,
    bootstrap_at_truncation: bool,
) -> jax.Array:
    """Advantages after Schulman et al. (2016), cut at every end of an episode.

    ``delta_t = r_t + discount * V(s_{t+1}) - V(s_t)`` and
    ``A_t = delta_t + discount * trace_decay * A_{t+1}``, where the second term is dropped at an end and
    ``V(s_{t+1})`` counts as 0 where nothing more can be earned.

    Args:
        reward: Shape ``(steps, lanes)``.
        value: V of the observation acted on, same shape.
        next_value: V of what followed: the final observation at an end, not the first one of the next
            episode. Same shape; the last row is the bootstrap at the edge of the rollout.
        terminated: Bool, same shape: the episode came to its natural end.
        truncated: Bool, same shape: the episode hit its limit.
        discount: In [0, 1].
        trace_decay: Lambda, in [0, 1].
        bootstrap_at_truncation: True where the limit merely cuts an endless task, so that
            ``V(final observation)`` still counts; False where it belongs to the task.

    Returns:
        Advantages, same shape.
    """
    worthless = terminated if bootstrap_at_truncation else terminated | truncated
    delta = reward + discount * jnp.where(worthless, 0.0, next_value) - value
    carry_on = discount * trace_decay * ~(terminated | truncated)

    def backwards(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = step[0] + step[1] * later
        return advantage, advantage

    _, advantages = lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, carry_on), reverse=True)
    return advantages
