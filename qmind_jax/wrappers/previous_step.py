"""Show the agent what it has just done."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import spaces

from qmind_jax.environment import Environment, Transition
from qmind_jax.wrappers.wrapper import Wrapper


@struct.dataclass
class PreviousStepState:
    """State of one lane.

    Attributes:
        inner: State of the wrapped environment.
        previous_action: int32, -1 at the start of an episode.
        previous_reward: float32, 0 at the start of an episode.
    """

    inner: Any
    previous_action: jax.Array
    previous_reward: jax.Array


class PreviousStep(Wrapper):
    """Append the previous action (one-hot) and, if asked for, the previous reward to the observation.

    Without it an observation of "last answer: yes" cannot tell a question asked just now from one
    asked long ago. At the start of an episode the appended numbers are 0.

    Args:
        env: Environment with a flat observation and discrete actions.
        action: Append the action, one-hot.
        reward: Append the reward.
    """

    def __init__(self, env: Environment, *, action: bool = True, reward: bool = False) -> None:
        super().__init__(env)
        self.action = action
        self.reward = reward

    def inner_state(self, state: PreviousStepState) -> Any:
        """The state without the previous action and reward."""
        return state.inner

    def initial(self, noise: Any, params: Any) -> PreviousStepState:
        """The wrapped environment's start, and nothing done yet."""
        return PreviousStepState(self.env.initial(noise, params), jnp.int32(-1), jnp.float32(0.0))

    def transition(self, noise: Any, state: PreviousStepState, action: jax.Array, params: Any) -> Transition:
        """The wrapped environment's step; remembers the action and the reward."""
        over = self.is_terminated(state, params) | self.is_truncated(state, params)
        action = jnp.clip(action, 0, self.env.action_space(params).n - 1).astype(jnp.int32)
        after = self.env.transition(noise, state.inner, action, params)
        next_state = PreviousStepState(
            inner=after.state,
            previous_action=jnp.where(over, state.previous_action, action),
            previous_reward=jnp.where(over, state.previous_reward, after.reward.astype(jnp.float32)),
        )
        return after.replace(state=next_state)

    def observation(self, state: PreviousStepState, params: Any) -> jax.Array:
        """The wrapped observation, the one-hot action and the reward, float32."""
        parts = [self.env.observation(state.inner, params)]
        if self.action:
            parts.append(jax.nn.one_hot(state.previous_action, self.env.action_space(params).n))
        if self.reward:
            parts.append(state.previous_reward[None])
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def observation_space(self, params: Any) -> spaces.Box:
        """The wrapped box, one [0, 1] per action, and the real line for the reward."""
        # Numbers also under ``jit``: bounds of a space never depend on traced values.
        with jax.ensure_compile_time_eval():
            inner = self.env.observation_space(params)
            low = [np.broadcast_to(inner.low, inner.shape)]
            high = [np.broadcast_to(inner.high, inner.shape)]
            if self.action:
                low.append(np.zeros(self.env.action_space(params).n))
                high.append(np.ones(self.env.action_space(params).n))
            if self.reward:
                low.append(np.full(1, -np.inf))
                high.append(np.full(1, np.inf))
            low, high = (jnp.asarray(np.concatenate(side), jnp.float32) for side in (low, high))
        return spaces.Box(low, high, low.shape, jnp.float32)
