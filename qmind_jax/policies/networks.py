"""Actor-critic networks in flax: one code path for feed-forward and recurrent agents."""

from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from qmind_jax.noise import once
from qmind_jax.policies.layers import GRU, Dense


class ActorCritic(nn.Module):
    """Policy and value function over sequences.

    Attributes:
        num_actions: Number of discrete actions.
        kind: ``"mlp"`` (two hidden layers each for actor and critic) or ``"gru"`` (a shared GRU between
            a shared first layer and one layer each).
        features: Width of every hidden layer.
    """

    num_actions: int
    kind: Literal["mlp", "gru"] = "mlp"
    features: int = 64

    def initial_hidden(self, lanes: int) -> jax.Array:
        """Hidden state at the start of an episode, ``(lanes, features)``; for MLPs one idle zero a lane."""
        return jnp.zeros((lanes, self.features if self.kind == "gru" else 1), jnp.float32)

    @nn.compact
    def __call__(
        self, hidden: jax.Array, inputs: jax.Array, resets: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Run over a sequence.

        Args:
            hidden: Hidden state before the sequence, see :meth:`initial_hidden`.
            inputs: float32 ``(steps, lanes, inputs)``.
            resets: Bool ``(steps, lanes)``: this step starts an episode.

        Returns:
            Hidden state after the sequence, logits ``(steps, lanes, num_actions)`` and values
            ``(steps, lanes)``.
        """
        # Turned once, not again in every product that it goes into.
        actor = critic = once(inputs.reshape(-1, inputs.shape[-1]).T)
        if self.kind == "gru":
            embedding = nn.tanh(Dense(self.features)(actor))
            memory = GRU(self.features)(hidden.T, embedding, resets.reshape(-1))
            hidden = memory[:, -len(hidden) :].T
            actor = critic = jnp.concatenate([memory, embedding])
        for _ in range(2 if self.kind == "mlp" else 1):
            actor = nn.tanh(Dense(self.features)(actor))
            critic = nn.tanh(Dense(self.features)(critic))
        logits = Dense(self.num_actions, gain=0.01)(actor)
        value = Dense(1, gain=1.0)(critic)
        return hidden, logits.T.reshape(*resets.shape, -1), value.reshape(resets.shape)
