"""PPO as users of PureJaxRL write it: everything over ``jax.vmap(env.step)`` with a key per lane.

One jitted function with nested scans: over updates, over the steps of a rollout, over epochs and minibatches.
Rewards come through gymnax's ``LogWrapper``; each epoch gathers the whole rollout in a new order; the value
function is clipped like the policy. Weights start Gaussian, as ours do, instead of orthogonal.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from flax.training.train_state import TrainState
from gymnax.wrappers import LogWrapper
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.training import PPOConfig

Episodes = tuple[jax.Array, jax.Array]
"""Sum of the returns of finished episodes, and their number."""


@struct.dataclass
class Transition:
    """One step of every lane.

    Attributes:
        observation: What was acted on.
        action: What was done.
        log_prob: Logarithm of the probability of doing it.
        value: V of the observation.
        reward: Scaled reward.
        done: Whether the episode ended at this step.
        episode_return: Unscaled return of the lane's last finished episode.
    """

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    episode_return: jax.Array


class ActorCritic(nn.Module):
    """Two hidden layers for the actor, two for the critic.

    Attributes:
        num_actions: Number of discrete actions.
        features: Width of the hidden layers.
    """

    num_actions: int
    features: int

    @nn.compact
    def __call__(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Logits ``(..., num_actions)`` and values ``(...)``."""
        actor = critic = observation
        for _ in range(2):
            actor = nn.tanh(dense(self.features, 2.0**0.5)(actor))
            critic = nn.tanh(dense(self.features, 2.0**0.5)(critic))
        return dense(self.num_actions, 0.01)(actor), dense(1, 1.0)(critic)[..., 0]


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
    env = LogWrapper(config.wrap(env))
    network = ActorCritic(env.action_space(params).n, config.features)
    key, key_network, key_reset = jax.random.split(key, 3)
    reset_keys = jax.random.split(key_reset, config.lanes)
    observation, env_state = jax.vmap(env.reset, in_axes=(0, None))(reset_keys, params)
    agent = TrainState.create(
        apply_fn=network.apply, params=network.init(key_network, observation), tx=optimiser(config)
    )

    def update(carry: tuple[Any, ...], index: jax.Array) -> tuple[tuple[Any, ...], Episodes]:
        agent, env_state, observation, key = carry

        def step(carry: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], Transition]:
            env_state, observation, key = carry
            key, key_action, key_step = jax.random.split(key, 3)
            logits, value = network.apply(agent.params, observation)
            action = jax.random.categorical(key_action, logits)
            step_keys = jax.random.split(key_step, config.lanes)
            following, env_state, reward, terminated, truncated, info = jax.vmap(
                env.step, in_axes=(0, 0, 0, None)
            )(step_keys, env_state, action, params)
            transition = Transition(
                observation=observation,
                action=action,
                log_prob=log_prob_of(logits, action),
                value=value,
                reward=config.reward_scale * reward,
                done=terminated | truncated,
                episode_return=info["returned_episode_returns"],
            )
            return (env_state, following, key), transition

        (env_state, observation, key), rollout = lax.scan(
            step, (env_state, observation, key), length=config.rollout_steps
        )
        _, last_value = network.apply(agent.params, observation)
        advantage = advantages(rollout, last_value, config)
        entropy_bonus = entropy_bonus_at(index, config)

        def minibatch(agent: TrainState, batch: tuple[Transition, jax.Array]) -> tuple[TrainState, None]:
            def loss(weights: Any) -> jax.Array:
                logits, value = network.apply(weights, batch[0].observation)
                return clipped_loss(logits, value, *batch, entropy_bonus, config)

            return agent.apply_gradients(grads=jax.grad(loss)(agent.params)), None

        def epoch(carry: tuple[TrainState, jax.Array], _: None) -> tuple[tuple[TrainState, jax.Array], None]:
            agent, key = carry
            key, key_order = jax.random.split(key)
            order = jax.random.permutation(key_order, config.steps_per_update)

            def shuffled(x: jax.Array) -> jax.Array:
                flat = x.reshape(config.steps_per_update, *x.shape[2:])
                return flat[order].reshape(config.minibatches, -1, *x.shape[2:])

            agent, _ = lax.scan(minibatch, agent, jax.tree.map(shuffled, (rollout, advantage)))
            return (agent, key), None

        (agent, key), _ = lax.scan(epoch, (agent, key), length=config.epochs)
        return (agent, env_state, observation, key), finished(rollout)

    _, episodes = lax.scan(update, (agent, env_state, observation, key), jnp.arange(config.num_updates))
    return episodes


def dense(features: int, gain: float) -> nn.Dense:
    """A layer with Gaussian weights that keep signals at ``gain`` times their size."""
    return nn.Dense(features, kernel_init=nn.initializers.variance_scaling(gain**2, "fan_in", "normal"))


def optimiser(config: PPOConfig) -> optax.GradientTransformation:
    """Adam on clipped gradients, its step size falling linearly if asked for."""
    steps = config.num_updates * config.epochs * config.minibatches
    rate = optax.linear_schedule(config.learning_rate, 0.0, steps) if config.anneal else config.learning_rate
    return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(rate, eps=1e-5))


def entropy_bonus_at(update: jax.Array, config: PPOConfig) -> jax.Array:
    """Weight of the entropy in an update; it falls as the step size does."""
    remaining = 1.0 - update / config.num_updates if config.anneal else 1.0
    return jnp.float32(config.entropy_bonus * remaining)


def advantages(rollout: Transition, last_value: jax.Array, config: PPOConfig) -> jax.Array:
    """Generalised advantages; the value of what follows an end counts as 0."""

    def backwards(
        carry: tuple[jax.Array, jax.Array], step: Transition
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        advantage, next_value = carry
        going_on = config.discount * (1.0 - step.done)
        delta = step.reward + going_on * next_value - step.value
        advantage = delta + going_on * config.trace_decay * advantage
        return (advantage, step.value), advantage

    _, result = lax.scan(backwards, (jnp.zeros_like(last_value), last_value), rollout, reverse=True)
    return result


def clipped_loss(
    logits: jax.Array,
    value: jax.Array,
    batch: Transition,
    advantage: jax.Array,
    entropy_bonus: jax.Array,
    config: PPOConfig,
) -> jax.Array:
    """PPO's loss with both the policy and the value function clipped."""
    target = advantage + batch.value
    near = batch.value + jnp.clip(value - batch.value, -config.clip, config.clip)
    value_loss = 0.5 * jnp.maximum(jnp.square(value - target), jnp.square(near - target)).mean()
    ratio = jnp.exp(log_prob_of(logits, batch.action) - batch.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    log_probs = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1).mean()
    return policy_loss + config.value_weight * value_loss - entropy_bonus * entropy


def log_prob_of(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Logarithm of the probability of each action."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def finished(rollout: Transition) -> Episodes:
    """The episodes that ended in a rollout."""
    return jnp.sum(rollout.episode_return * rollout.done), jnp.sum(rollout.done)
