"""Actor-critic networks in flax: one code path for feed-forward and recurrent agents."""

from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

# Gaussian rather than orthogonal: an orthogonal start needs a QR decomposition of every layer, and several of
# those at once, as many seeds ask for, were seen to deadlock XLA on a two-core CPU.


def _gaussian(gain: float) -> nn.initializers.Initializer:
    """Independent weights with the variance that keeps signals at ``gain`` times their size."""
    return nn.initializers.variance_scaling(gain**2, "fan_in", "normal")


_HIDDEN = _gaussian(2.0**0.5)


class GRU(nn.Module):
    """Gated recurrent unit over a sequence (Cho et al. 2014), with resets.

    The projection of the inputs is taken out of the loop over time and done at once.

    Attributes:
        features: Size of the hidden state.
    """

    features: int

    @nn.compact
    def __call__(
        self, hidden: jax.Array, inputs: jax.Array, resets: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Run over a sequence.

        Args:
            hidden: State before the sequence, ``(lanes, features)``.
            inputs: ``(steps, lanes, inputs)``.
            resets: Bool ``(steps, lanes)``: start from a zero state at this step.

        Returns:
            State after the sequence, and the states ``(steps, lanes, features)``.
        """
        gate_inputs = nn.Dense(2 * self.features, kernel_init=_HIDDEN)(inputs)
        candidate_inputs = nn.Dense(self.features, kernel_init=_HIDDEN)(inputs)
        recurrent = _gaussian(1.0)
        gate_kernel = self.param("gate_kernel", recurrent, (self.features, 2 * self.features))
        candidate_kernel = self.param("candidate_kernel", recurrent, (self.features, self.features))

        def step(
            state: jax.Array, now: tuple[jax.Array, jax.Array, jax.Array]
        ) -> tuple[jax.Array, jax.Array]:
            gates, candidate, reset = now
            state = jnp.where(reset[:, None], 0.0, state)
            update, forget = jnp.split(nn.sigmoid(gates + state @ gate_kernel), 2, axis=-1)
            proposal = jnp.tanh(candidate + (forget * state) @ candidate_kernel)
            state = update * state + (1.0 - update) * proposal
            return state, state

        return lax.scan(step, hidden, (gate_inputs, candidate_inputs, resets))


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
        actor = critic = inputs
        if self.kind == "gru":
            embedding = nn.tanh(nn.Dense(self.features, kernel_init=_HIDDEN)(inputs))
            hidden, memory = GRU(self.features)(hidden, embedding, resets)
            actor = critic = jnp.concatenate([memory, embedding], axis=-1)
        for _ in range(2 if self.kind == "mlp" else 1):
            actor = nn.tanh(nn.Dense(self.features, kernel_init=_HIDDEN)(actor))
            critic = nn.tanh(nn.Dense(self.features, kernel_init=_HIDDEN)(critic))
        logits = nn.Dense(self.num_actions, kernel_init=_gaussian(0.01))(actor)
        value = nn.Dense(1, kernel_init=_gaussian(1.0))(critic)
        return hidden, logits, value[..., 0]
