"""The two policies that look at nothing."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax import noise


@struct.dataclass
class Constant:
    """Always the same action.

    Attributes:
        action: int32 scalar.
    """

    action: jax.Array

    def init(self, params: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def act(self, carry: tuple[()], observation: jax.Array, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        """The action."""
        return jnp.asarray(self.action, jnp.int32), carry

    def act_batch(
        self, carry: tuple[()], observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, tuple[()]]:
        """The action, for every lane."""
        return jnp.full(observation.shape[0], self.action, jnp.int32), carry


@struct.dataclass
class UniformRandom:
    """Every action with the same probability.

    Attributes:
        num_actions: How many there are.
    """

    num_actions: int = struct.field(pytree_node=False)

    def init(self, params: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def act(self, carry: tuple[()], observation: jax.Array, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        """A draw."""
        return noise.choose(noise.uniforms(key)[0], self.num_actions), carry

    def act_batch(
        self, carry: tuple[()], observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, tuple[()]]:
        """A draw for every lane."""
        return noise.choose(noise.uniforms(key, observation.shape[:1])[0], self.num_actions), carry
