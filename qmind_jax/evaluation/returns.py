"""Returns of a policy over whole episodes."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.policies.policy import Policy


@struct.dataclass
class Returns:
    """Undiscounted returns of a policy.

    Attributes:
        per_episode: Float ``(episodes,)``.
        lengths: Steps of each episode, int32 ``(episodes,)``.
    """

    per_episode: jax.Array
    lengths: jax.Array

    @property
    def mean(self) -> jax.Array:
        """Mean return."""
        return self.per_episode.mean(axis=-1)

    @property
    def standard_error(self) -> jax.Array:
        """Standard error of the mean."""
        episodes = self.per_episode.shape[-1]
        return self.per_episode.std(axis=-1, ddof=1) / jnp.sqrt(episodes)


@functools.partial(jax.jit, static_argnames=("env", "episodes"))
def evaluate(
    policy: Policy, env: Environment, params: Any, key: jax.Array, episodes: int = 10_000
) -> Returns:
    """Play whole episodes, all at once.

    The noise depends on ``key`` alone: two policies evaluated under one key meet the same people with
    the same luck.

    Args:
        policy: A policy for one lane.
        env: The environment that the policy acts in; for a trained policy ``config.wrap(env)``.
        params: Its parameters.
        key: JAX random key.
        episodes: How many, at least 2.
    """
    initial = jax.vmap(env.initial, in_axes=(0, None))
    observe = jax.vmap(env.observation, in_axes=(0, None))
    transition = jax.vmap(env.transition, in_axes=(0, 0, 0, None))
    act = jax.vmap(policy.act)
    key_start, key_env, key_policy = jax.random.split(key, 3)

    def ended(state: Any) -> jax.Array:
        over = jax.vmap(lambda s: env.is_terminated(s, params) | env.is_truncated(s, params))
        return over(state)

    def running(loop: tuple[Any, ...]) -> jax.Array:
        return ~jnp.all(ended(loop[1]))

    def step(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        time, state, carry, total, length = loop
        keys = jax.random.split(jax.random.fold_in(key_policy, time), episodes)
        action, carry = act(carry, observe(state, params), keys)
        noise = env.sample_noise(jax.random.fold_in(key_env, time), (episodes,))
        # A step after the end changes nothing and pays nothing, so finished lanes just wait.
        length = length + ~ended(state)
        after = transition(noise, state, action, params)
        return time + 1, after.state, carry, total + after.reward, length

    state = initial(env.sample_noise(key_start, (episodes,)), params)
    carry = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (episodes, *jnp.shape(leaf))), policy.init(params)
    )
    reward = jax.eval_shape(
        transition, env.sample_noise(key, (episodes,)), state, jnp.zeros(episodes, int), params
    )
    total = jnp.zeros(episodes, reward.reward.dtype)
    loop = (jnp.int32(0), state, carry, total, jnp.zeros(episodes, jnp.int32))
    _, _, _, total, length = lax.while_loop(running, step, loop)
    return Returns(per_episode=total, lengths=length)
