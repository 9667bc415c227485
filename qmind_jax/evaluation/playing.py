"""Many episodes side by side, one step at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.environment import Environment
from qmind_jax.evaluation.happenings import Happening, happening, unwrapped
from qmind_jax.policies.policy import Policy, act_batch, fresh_carry


@struct.dataclass
class Play:
    """Episodes in mid-play, each leaf with a leading axis of lanes.

    Attributes:
        state: States of the environment.
        carry: What the policy remembers.
        over: Whether the episode has ended, bool ``(lanes,)``.
    """

    state: Any
    carry: Any
    over: jax.Array


@struct.dataclass
class PlayedStep:
    """One step of every lane.

    Attributes:
        reward: Float ``(lanes,)``.
        running: Whether the episode was still going on before the step, bool ``(lanes,)``.
        happening: What happened; without meaning where the episode was over.
        carry: What the policy remembered right after choosing the action.
    """

    reward: jax.Array
    running: jax.Array
    happening: Happening
    carry: Any


def start(
    policy: Policy, env: Environment, params: Any, key: jax.Array, lanes: int, person: jax.Array | None = None
) -> tuple[Play, Callable[[Play, jax.Array], tuple[Play, PlayedStep]], jax.Array]:
    """Start episodes.

    The noise of a lane depends on the key and the number of the lane alone.

    Args:
        policy: A policy for one lane.
        env: The environment.
        params: Its parameters.
        key: JAX random key.
        lanes: Number of episodes.
        person: Whom each lane meets, int32 ``(lanes,)``; drawn if None.

    Returns:
        The episodes; a function that takes them, and the number of steps taken so far, to the episodes after
        one more step and what happened in it; and whom each lane has met, int32 ``(lanes,)``.
    """
    key_start, key_env, key_policy = jax.random.split(key, 3)
    transition = jax.vmap(env.transition, in_axes=(0, 0, 0, None))
    observe = jax.vmap(env.observation, in_axes=(0, None))
    tell = jax.vmap(lambda action, after: happening(env, action, after, params))
    over = jax.vmap(lambda state: env.is_terminated(state, params) | env.is_truncated(state, params))

    noise = env.sample_noise(key_start, (lanes,))
    if person is not None:
        # The middle of the interval of uniform numbers that stands for this person.
        noise = noise.replace(person=(person.astype(jnp.float32) + 0.5) / len(params.people))
    state = jax.vmap(env.initial, in_axes=(0, None))(noise, params)
    carry = fresh_carry(policy, params, lanes)

    def step(play: Play, time: jax.Array) -> tuple[Play, PlayedStep]:
        key_act = jax.random.fold_in(key_policy, time)
        action, carry = act_batch(policy, play.carry, observe(play.state, params), key_act)
        noise = env.sample_noise(jax.random.fold_in(key_env, time), (lanes,))
        # A step after the end changes nothing and pays nothing, so finished lanes just wait.
        after = transition(noise, play.state, action, params)
        played = PlayedStep(after.reward, ~play.over, tell(action, after), carry)
        return Play(after.state, carry, over(after.state)), played

    return Play(state, carry, over(state)), step, unwrapped(env, state)[1].person
