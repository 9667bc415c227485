"""A trained network as a policy."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

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
        hidden, logits, _ = self.network.apply(
            self.variables, carry[None], observation[None, None], jnp.zeros((1, 1), bool)
        )
        logits = logits[0, 0]
        action = jnp.argmax(logits) if self.greedy else jax.random.categorical(key, logits)
        return action.astype(jnp.int32), hidden[0]
