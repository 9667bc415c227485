"""Counter-based random numbers, computed inside the step that uses them.

Every lane of a batch needs a few random words per step. Splitting one key per lane costs several
times more than a whole environment step, so lane ``i`` instead reads the words of the counter
``(0, i)`` under the one key of the batch: Threefry-2x32 with 20 rounds (Salmon et al. 2011), the
generator of ``jax.random`` itself, written unrolled so that XLA fuses it into the step. What lane
``i`` reads depends on the key and on ``i`` alone, never on the size of the batch or on the devices
it is spread over.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


@jax.custom_jvp
def once(values: jax.Array) -> jax.Array:
    """The same numbers, computed once and not once for every array that they reach.

    XLA on CPU merges cheap arrays into each of their consumers, where they are computed again and, if
    they start from a slice of an array of keys, one lane at a time. It stops at a reduction over the
    leading axis, here the bitwise "or" with zero; a sum of floats would go to a library that is slow
    for many lanes. Other platforms need no such stop and get the array itself.

    Args:
        values: Array of integers, bools or real floats. Gradients pass unchanged.
    """
    return _once(values)


@once.defjvp
def _once_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return once(primals[0]), tangents[0]


@jax.custom_batching.custom_vmap
def _once(values: jax.Array) -> jax.Array:
    return lax.platform_dependent(values, cpu=_reduced, default=lambda values: values)


@_once.def_vmap
def _once_batched(_: int, in_batched: list[bool], values: jax.Array) -> tuple[jax.Array, bool]:
    # What a single number needs would be too much for each number of a batch.
    return _once(values), in_batched[0]


def _reduced(values: jax.Array) -> jax.Array:
    floating = jnp.issubdtype(values.dtype, jnp.floating)
    kind = np.dtype(f"uint{8 * values.dtype.itemsize}") if floating else values.dtype
    bits = lax.bitcast_convert_type(values, kind)
    # One number twice, because XLA turns a reduction to a single number back into an elementwise "or".
    bits = jnp.broadcast_to(bits.reshape(1), (2,)) if values.size == 1 else bits
    pair = jnp.stack([bits, jnp.zeros_like(bits)])
    same = lax.reduce(pair, np.zeros((), kind), lax.bitwise_or, (0,))
    same = same[0].reshape(values.shape) if values.size == 1 else same
    return lax.bitcast_convert_type(same, values.dtype)


def threefry_block(
    key: tuple[jax.Array, jax.Array], counter: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Encrypt a 64-bit counter under a 64-bit key with Threefry-2x32-20.

    Args:
        key: Two uint32 arrays, broadcastable against the counter.
        counter: Two uint32 arrays, the high and the low word.

    Returns:
        Two uint32 arrays of the broadcast shape: 64 random bits per counter.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    high, low = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            high = high + low
            low = (low << np.uint32(rotation)) | (low >> np.uint32(32 - rotation))
            low = low ^ high
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low


def is_single(key: jax.Array) -> bool:
    """Whether this is one key, typed or raw, rather than an array of them."""
    return key.ndim == (0 if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else 1)


def is_threefry(key: jax.Array) -> bool:
    """Whether ``key``, typed or raw, belongs to JAX's default Threefry generator."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return str(jax.random.key_impl(key)) == "threefry2x32"
    return key.shape[-1:] == (2,) and jax.config.jax_default_prng_impl == "threefry2x32"


def key_words(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two uint32 words that seed the counter generator.

    A Threefry key gives its own two words; any other key (``rbg``, ``unsafe_rbg``, custom) gives two
    words drawn from it with ``jax.random``.
    """
    if is_threefry(key):
        typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        words = jax.random.key_data(key) if typed else key
    else:
        words = jax.random.bits(key, (2,), jnp.uint32)
    words = once(words)
    return words[0], words[1]


def fold_in(key: jax.Array, data: jax.Array | int) -> jax.Array:
    """``jax.random.fold_in``, bit for bit, as part of the step that uses the key.

    JAX's own is a loop of small programs on CPU, which costs more than a step of few lanes. Keys other than
    Threefry's are handed to ``jax.random``.

    Args:
        key: One JAX random key.
        data: Integer scalar that fits into 32 bits.

    Returns:
        A key of the same kind.

    Raises:
        TypeError: If ``data`` is no integer scalar.
        OverflowError: If it does not fit.
    """
    if not is_threefry(key):
        return jax.random.fold_in(key, data)
    if jnp.ndim(data) or not jnp.issubdtype(jnp.result_type(data), jnp.integer):
        raise TypeError(f"data must be an integer scalar, got {data!r}")
    counter = jnp.uint32(data)
    words = jnp.stack(threefry_block(key_words(key), (jnp.zeros_like(counter), counter)))
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return jax.random.wrap_key_data(words, impl="threefry2x32") if typed else words


def lane_words(key: jax.Array, batch_shape: tuple[int, ...] = ()) -> tuple[jax.Array, jax.Array]:
    """Two random uint32 words for every lane of a batch.

    Lanes are numbered in row-major order, so a batch of shape ``()`` is lane 0 of any other.

    Args:
        key: One JAX random key.
        batch_shape: Shape of the batch of lanes, at most 2**32 lanes in all.

    Returns:
        Two uint32 arrays of shape ``batch_shape``.
    """
    size = math.prod(batch_shape)
    low = lax.iota(jnp.uint32, size).reshape(batch_shape)
    return threefry_block(key_words(key), (jnp.zeros_like(low), low))


def bits(key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
    """Random uint32 words, equal bit for bit to ``jax.random.bits(key, shape)``.

    Equality holds for Threefry keys under ``jax_threefry_partitionable`` (JAX's default); there the
    words are the XOR of the two of :func:`lane_words`. Every other case is handed to ``jax.random``.
    """
    if is_threefry(key) and jax.config.jax_threefry_partitionable:
        high, low = lane_words(key, shape)
        return high ^ low
    return jax.random.bits(key, shape, jnp.uint32)


def uniforms(key: jax.Array, batch_shape: tuple[int, ...] = ()) -> jax.Array:
    """Three independent uniform numbers in [0, 1) for every lane, from one Threefry block.

    The 64 bits of a block make two numbers of 24 bits, all that a float32 can hold, and from the
    16 bits left over a third one. Use the third where a resolution of 2**-16 is enough.

    Args:
        key: One JAX random key.
        batch_shape: Shape of the batch of lanes.

    Returns:
        float32 array of shape ``(3, *batch_shape)``.
    """
    first, second = lane_words(key, batch_shape)
    third = ((first & np.uint32(0xFF)) << np.uint32(8)) | (second & np.uint32(0xFF))
    integers = (first >> np.uint32(8), second >> np.uint32(8), third)
    scales = np.array([2.0**-24, 2.0**-24, 2.0**-16], np.float32)
    return jnp.stack([n.astype(jnp.float32) * scale for n, scale in zip(integers, scales, strict=True)])


def choose(uniform: jax.Array, size: int) -> jax.Array:
    """Turn a uniform number in [0, 1) into an index in ``0 .. size - 1``.

    Args:
        uniform: float32 array of any shape.
        size: Number of choices, a Python integer of at least 1.

    Returns:
        int32 array of the same shape.
    """
    if size == 1:
        return jnp.zeros_like(uniform, jnp.int32)
    return jnp.minimum((uniform * size).astype(jnp.int32), size - 1)
