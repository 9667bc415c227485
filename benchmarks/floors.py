"""What a step would cost if some of it were free: floors for the throughput benchmark."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax import noise
from qmind_jax.policies import UniformRandom
from qmind_jax.wrappers.wrapper import Wrapper

WEYL = jnp.uint32(0x9E3779B9)


def free_uniforms(key: jax.Array, lanes: int) -> jax.Array:
    """Numbers in [0, 1) that fill the interval evenly and cost one multiplication, ``(lanes,)``."""
    words = noise.key_words(key)[0] + lax.iota(jnp.uint32, lanes) * WEYL
    return (words >> 8).astype(jnp.float32) * 2.0**-24


class FreeNoise(Wrapper):
    """An environment whose noise is free: every leaf is the same even filling of [0, 1)."""

    def sample_noise(self, key: jax.Array, batch_shape: tuple[int, ...] = ()) -> Any:
        """Free uniform numbers of the structure of the wrapped environment's noise."""
        if not batch_shape:
            return self.env.sample_noise(key)
        like = jax.eval_shape(lambda: self.env.sample_noise(jax.random.key(0), batch_shape))
        return jax.tree.map(lambda leaf: free_uniforms(key, leaf.shape[0]).astype(leaf.dtype), like)


@struct.dataclass
class FreeChoices(UniformRandom):
    """Every action equally often, from free numbers."""

    def act_batch(
        self, carry: tuple[()], observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, tuple[()]]:
        """An action for every lane."""
        return noise.choose(free_uniforms(key, len(observation)), self.num_actions), carry


def multiply_and_add(state: Any, steps: int) -> Callable[[jax.Array], Any]:
    """A loop that does the least to arrays of the sizes of a state: one multiplication, one addition.

    Args:
        state: Arrays or shapes, with a leading axis of lanes.
        steps: Turns of the loop.

    Returns:
        A function of a key, to be compiled.
    """
    columns = [
        (leaf.shape[0], leaf.dtype)
        for leaf in jax.tree.leaves(state)
        for _ in range(leaf.size // leaf.shape[0])
    ]

    def update(value: jax.Array) -> jax.Array:
        if value.dtype == bool:
            return ~value
        return value * jnp.asarray(3, value.dtype) + jnp.asarray(1, value.dtype)

    def play(key: jax.Array) -> list[jax.Array]:
        # Not constants, which the compiler would fold.
        start = [
            (noise.key_words(key)[0] + lax.iota(jnp.uint32, size)).astype(kind) for size, kind in columns
        ]
        return lax.scan(lambda values, _: ([update(v) for v in values], None), start, length=steps)[0]

    return play
