"""rejax's PPO on our environments, through gymnax's wrapper for the step of five values.

rejax keeps the step size and the entropy bonus constant, clips every entry of a gradient instead of its norm
and initialises layers as flax does; everything else follows the ``PPOConfig``. It has no recurrent agent.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.wrappers import LegacyStepAPIWrapper
from gymnax.wrappers.purerl import GymnaxWrapper
from rejax import PPO

from benchmarks.plain_ppo import Episodes
from qmind_jax.environment import Environment
from qmind_jax.training import PPOConfig


@struct.dataclass
class CountedState:
    """State of one lane.

    Attributes:
        inner: State of the environment.
        running: Return of the running episode so far.
        total: Sum of the returns of all episodes that have finished.
        episodes: Their number.
    """

    inner: Any
    running: jax.Array
    total: jax.Array
    episodes: jax.Array


class CountedEpisodes(GymnaxWrapper):
    """Adds up the episodes that finish: rejax drops ``info``, but its state can be read between updates.

    Args:
        env: A gymnax environment.
        reward_scale: What the agent sees rewards multiplied by.
    """

    def __init__(self, env: Environment, reward_scale: float) -> None:
        super().__init__(env)
        self.reward_scale = reward_scale

    def reset(self, key: jax.Array, params: Any = None) -> tuple[jax.Array, CountedState]:
        """Start an episode, and count from 0."""
        observation, inner = self._env.reset(key, params)
        return observation, CountedState(inner, jnp.float32(0.0), jnp.float32(0.0), jnp.int32(0))

    def step(self, key: jax.Array, state: CountedState, action: jax.Array, params: Any = None) -> Any:
        """The environment's step; the rewards of the episode that it ends are added to the total."""
        observation, inner, reward, terminated, truncated, info = self._env.step(
            key, state.inner, action, params
        )
        done, running = terminated | truncated, state.running + reward
        state = CountedState(
            inner=inner,
            running=jnp.where(done, 0.0, running),
            total=state.total + jnp.where(done, running, 0.0),
            episodes=state.episodes + done,
        )
        return observation, state, self.reward_scale * reward, terminated, truncated, info


class FiveValues(LegacyStepAPIWrapper):
    """gymnax's wrapper made fit for rejax, which copies its settings."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "FiveValues":
        return self


def train(key: jax.Array, env: Environment, params: Any, config: PPOConfig) -> Episodes:
    """Train one agent; to be jitted.

    Args:
        key: JAX random key.
        env: The environment, unwrapped.
        params: Its parameters.
        config: Hyper-parameters, of the feed-forward agent.

    Returns:
        For every update, shape ``(updates,)`` each.
    """
    algorithm = PPO.create(
        env=FiveValues(CountedEpisodes(config.wrap(env), config.reward_scale)),
        env_params=params,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (config.features, config.features)},
        total_timesteps=config.num_updates * config.steps_per_update,
        num_envs=config.lanes,
        num_steps=config.rollout_steps,
        num_epochs=config.epochs,
        num_minibatches=config.minibatches,
        learning_rate=config.learning_rate,
        max_grad_norm=config.max_gradient_norm,
        gamma=config.discount,
        gae_lambda=config.trace_decay,
        clip_eps=config.clip,
        vf_coef=config.value_weight,
        ent_coef=config.entropy_bonus,
        # Its evaluation after every update does nothing but read the counters.
        eval_freq=config.steps_per_update,
        skip_initial_evaluation=True,
    ).replace(eval_callback=_counters)
    _, (total, episodes) = algorithm.train(key)
    return _increase(total), _increase(episodes)


def _counters(algorithm: PPO, state: Any, key: jax.Array) -> Episodes:
    return state.env_state.total.sum(), state.env_state.episodes.sum()


def _increase(counter: jax.Array) -> jax.Array:
    return jnp.diff(counter, prepend=0)
