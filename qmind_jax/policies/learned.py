"""A trained network as a policy."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax import noise
from qmind_jax.policies.networks import ActorCritic


@struct.dataclass
class LearnedPolicy:
    """A trained actor-critic; its carry is the hidden state of the network.

    Attributes:
        variables: Weights; with a leading axis they are the policies of many seeds.
        network: The network that they belong to.
        greedy: Take the most probable action instead of drawing one.
    """

    variables: Any
    network: ActorCritic = struct.field(pytree_node=False)
    greedy: bool = struct.field(pytree_node=False, default=True)

    def init(self, params: Any) -> jax.Array:
        """An empty memory."""
        return self.network.initial_hidden(1)[0]

    def act(self, carry: jax.Array, observation: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The most probable action, or a draw.

        Args:
            carry: Hidden state.
            observation: As the network was trained on, ``PPOConfig.wrap(env)``'s.
            key: JAX random key.
        """
        action, hidden = self.act_batch(carry[None], observation[None], key)
        return action[0], hidden[0]

    def act_batch(
        self, carry: jax.Array, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """:meth:`act` for every lane, under one key."""
        starts = jnp.zeros((1, len(observation)), bool)
        hidden, logits, _ = self.network.apply(self.variables, carry, observation[None], starts)
        logits = logits[0]
        if self.greedy:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32), hidden
        return draw_actions(key, jax.nn.log_softmax(logits)), hidden


def draw_actions(key: jax.Array, log_probs: jax.Array) -> jax.Array:
    """One action per lane by inversion, from one uniform number per lane.

    Args:
        key: One JAX random key.
        log_probs: Logarithms of the probabilities of the actions, ``(lanes, actions)``.

    Returns:
        Actions, int32 ``(lanes,)``.
    """
    uniform = noise.uniforms(key, log_probs.shape[:-1])[0]
    passed = uniform[..., None] >= jnp.cumsum(jnp.exp(log_probs), axis=-1)[..., :-1]
    return jnp.sum(passed, axis=-1, dtype=jnp.int32)
