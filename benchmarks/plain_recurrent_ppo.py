"""Recurrent PPO as users of PureJaxRL write it: a scanned GRU cell, minibatches of whole lanes.

As :mod:`benchmarks.plain_ppo`, but the hidden state travels with the rollout, is emptied where an episode
starts, and the gradient runs through the rollout from the state at its start.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.training.train_state import TrainState
from gymnax.wrappers import LogWrapper
from jax import lax

from benchmarks.plain_ppo import (
    Episodes,
    Transition,
    advantages,
    clipped_loss,
    dense,
    entropy_bonus_at,
    finished,
    log_prob_of,
    optimiser,
)
from qmind_jax.environment import Environment
from qmind_jax.training import PPOConfig


class ResettingCell(nn.Module):
    """One step of a GRU, from an empty state where an episode starts.

    Attributes:
        features: Size of the hidden state.
    """

    features: int

    @nn.compact
    def __call__(self, hidden: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """The next hidden state, twice."""
        inputs, starts = now
        hidden = jnp.where(starts[:, None], 0.0, hidden)
        gaussian = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
        return nn.GRUCell(self.features, recurrent_kernel_init=gaussian)(hidden, inputs)


class RecurrentActorCritic(nn.Module):
    """A layer, a GRU, and a layer each for actor and critic that see the outputs of both.

    Attributes:
        num_actions: Number of discrete actions.
        features: Width of all of them.
    """

    num_actions: int
    features: int

    @nn.compact
    def __call__(
        self, hidden: jax.Array, observation: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Run over a sequence.

        Args:
            hidden: State before the sequence, ``(lanes, features)``.
            observation: ``(steps, lanes, inputs)``.
            starts: Bool ``(steps, lanes)``: this step starts an episode.

        Returns:
            State after the sequence, logits ``(steps, lanes, num_actions)`` and values ``(steps, lanes)``.
        """
        embedding = nn.tanh(dense(self.features, 2.0**0.5)(observation))
        scanned = nn.scan(ResettingCell, variable_broadcast="params", split_rngs={"params": False})
        hidden, memory = scanned(self.features)(hidden, (embedding, starts))
        seen = jnp.concatenate([memory, embedding], axis=-1)
        actor = nn.tanh(dense(self.features, 2.0**0.5)(seen))
        critic = nn.tanh(dense(self.features, 2.0**0.5)(seen))
        return hidden, dense(self.num_actions, 0.01)(actor), dense(1, 1.0)(critic)[..., 0]


def train(key: jax.Array, env: Environment, params: Any, config: PPOConfig) -> Episodes:
    """Train one agent; to be jitted.

    Args:
        key: JAX random key.
        env: The environment, unwrapped.
        params: Its parameters.
        config: Hyper-parameters, of the recurrent agent.

    Returns:
        For every update, shape ``(updates,)`` each.
    """
    env = LogWrapper(config.wrap(env))
    network = RecurrentActorCritic(env.action_space(params).n, config.features)
    key, key_network, key_reset = jax.random.split(key, 3)
    reset_keys = jax.random.split(key_reset, config.lanes)
    observation, env_state = jax.vmap(env.reset, in_axes=(0, None))(reset_keys, params)
    starts = jnp.ones(config.lanes, bool)
    hidden = jnp.zeros((config.lanes, config.features))
    weights = network.init(key_network, hidden, observation[None], starts[None])
    agent = TrainState.create(apply_fn=network.apply, params=weights, tx=optimiser(config))

    def update(carry: tuple[Any, ...], index: jax.Array) -> tuple[tuple[Any, ...], Episodes]:
        agent, env_state, observation, starts, first_hidden, key = carry

        def step(carry: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], tuple[Transition, jax.Array]]:
            env_state, observation, starts, hidden, key = carry
            key, key_action, key_step = jax.random.split(key, 3)
            hidden, (logits,), (value,) = network.apply(agent.params, hidden, observation[None], starts[None])
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
            return (env_state, following, transition.done, hidden, key), (transition, starts)

        (env_state, observation, starts, hidden, key), (rollout, all_starts) = lax.scan(
            step, (env_state, observation, starts, first_hidden, key), length=config.rollout_steps
        )
        _, _, (last_value,) = network.apply(agent.params, hidden, observation[None], starts[None])
        advantage = advantages(rollout, last_value, config)
        entropy_bonus = entropy_bonus_at(index, config)

        def minibatch(agent: TrainState, batch: tuple[Any, ...]) -> tuple[TrainState, None]:
            (hidden,), rollout, starts, advantage = batch

            def loss(weights: Any) -> jax.Array:
                _, logits, value = network.apply(weights, hidden, rollout.observation, starts)
                return clipped_loss(logits, value, rollout, advantage, entropy_bonus, config)

            return agent.apply_gradients(grads=jax.grad(loss)(agent.params)), None

        def epoch(carry: tuple[TrainState, jax.Array], _: None) -> tuple[tuple[TrainState, jax.Array], None]:
            agent, key = carry
            key, key_order = jax.random.split(key)
            order = jax.random.permutation(key_order, config.lanes)

            def shuffled(x: jax.Array) -> jax.Array:
                parts = x[:, order].reshape(x.shape[0], config.minibatches, -1, *x.shape[2:])
                return jnp.swapaxes(parts, 0, 1)

            batches = jax.tree.map(shuffled, (first_hidden[None], rollout, all_starts, advantage))
            agent, _ = lax.scan(minibatch, agent, batches)
            return (agent, key), None

        (agent, key), _ = lax.scan(epoch, (agent, key), length=config.epochs)
        return (agent, env_state, observation, starts, hidden, key), finished(rollout)

    carry = (agent, env_state, observation, starts, hidden, key)
    _, episodes = lax.scan(update, carry, jnp.arange(config.num_updates))
    return episodes
