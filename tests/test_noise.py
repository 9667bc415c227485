"""The counter-based random numbers: the same bits as JAX's, the same for a lane in every batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax import noise

KEYS = {
    "typed": lambda: jax.random.key(0),
    "typed, large seed": lambda: jax.random.key(2**31 + 12345),
    "typed, split": lambda: jax.random.split(jax.random.key(7), 3)[2],
    "typed, folded": lambda: jax.random.fold_in(jax.random.key(7), 99),
    "raw": lambda: jax.random.PRNGKey(42),
    "raw, split": lambda: jax.random.split(jax.random.PRNGKey(5))[1],
}
SHAPES = [(), (1,), (7,), (4096,), (3, 5), (0,)]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_jax(key, shape):
    ours, theirs = noise.bits(KEYS[key](), shape), jax.random.bits(KEYS[key](), shape, jnp.uint32)
    assert ours.dtype == theirs.dtype == jnp.uint32
    assert ours.shape == shape
    np.testing.assert_array_equal(ours, theirs)


def test_bits_are_those_of_jax_without_partitionable_threefry():
    with jax.threefry_partitionable(False):
        key = jax.random.key(3)
        np.testing.assert_array_equal(noise.bits(key, (10,)), jax.random.bits(key, (10,), jnp.uint32))


def test_bits_are_those_of_jax_under_x64():
    with jax.enable_x64(True):
        key = jax.random.key(3)
        np.testing.assert_array_equal(noise.bits(key, (10,)), jax.random.bits(key, (10,), jnp.uint32))


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers_of_its_authors(key, counter, expected):
    """Vectors of Random123 for Threefry-2x32 with 20 rounds."""
    words = noise.threefry_block(*(tuple(map(jnp.uint32, pair)) for pair in (key, counter)))
    assert tuple(int(word) for word in words) == expected


@pytest.mark.parametrize("key", KEYS)
def test_the_words_of_lane_i_are_the_key_of_split_and_of_fold_in(key):
    key = KEYS[key]()
    words = np.stack(noise.lane_words(key, (9,)), axis=-1)
    data = jax.random.key_data if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else np.asarray
    np.testing.assert_array_equal(words, data(jax.random.split(key, 9)))
    np.testing.assert_array_equal(words, [data(jax.random.fold_in(key, i)) for i in range(9)])


def test_two_lanes_or_two_keys_do_not_share_their_words():
    words = [
        np.stack(noise.lane_words(key, (4096,)), axis=-1) for key in jax.random.split(jax.random.key(0), 4)
    ]
    assert len(np.unique(np.concatenate(words), axis=0)) == 4 * 4096


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 1e-42], np.float32),
        np.array([0, -1, 2**31 - 1], np.int32),
        np.array([0, 2**32 - 1], np.uint32),
        np.array([True, False]),
        np.float32(0.25),
        np.array([-0.0], np.float32),
        np.array([[True]]),
        np.arange(6, dtype=np.float32).reshape(2, 3),
    ],
    ids=lambda values: f"{values.dtype} {values.shape}",
)
def test_computing_numbers_once_does_not_change_a_bit(values):
    for function in (noise.once, jax.jit(noise.once)):
        same = np.asarray(function(jnp.asarray(values)))
        assert same.dtype == values.dtype
        assert same.shape == values.shape
        assert same.tobytes() == np.asarray(values).tobytes()
    if values.ndim:
        assert np.asarray(jax.vmap(noise.once)(jnp.asarray(values))).tobytes() == values.tobytes()


def test_computing_numbers_once_lets_gradients_through():
    cube = jax.jit(jax.grad(lambda x: noise.once(x) ** 3))
    assert cube(jnp.float32(2.0)) == 12.0
    tangents = jax.jvp(lambda x: noise.once(2.0 * x), (jnp.ones(3),), (jnp.arange(3.0),))
    np.testing.assert_array_equal(tangents[1], [0.0, 2.0, 4.0])
    cubes = jax.jit(jax.vmap(jax.grad(lambda x: noise.once(x) ** 3)))
    np.testing.assert_array_equal(cubes(jnp.arange(3.0)), [0.0, 3.0, 12.0])
    sum_of_cubes = jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(noise.once)(x) ** 3)))
    np.testing.assert_array_equal(sum_of_cubes(jnp.arange(3.0)), [0.0, 3.0, 12.0])


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="others fuse without computing again")
@pytest.mark.parametrize("shape", [(), (1,), (5,)])
@pytest.mark.parametrize("many_keys", [False, True])
def test_numbers_are_computed_once_however_often_they_are_used(shape, many_keys):
    def three_uses(key, numbers):
        words = noise.once(noise.lane_words(key, shape)[0])
        return [words + number for number in numbers]

    key, numbers = jax.random.key(0), jnp.arange(3, dtype=jnp.uint32)
    function = jax.vmap(three_uses, in_axes=(0, None)) if many_keys else three_uses
    compiled = jax.jit(function).lower(jax.random.split(key, 4) if many_keys else key, numbers).compile()
    rounds = compiled.as_text().count(" shift-left(")
    assert 0 < rounds < 2 * 20, "one block has 20 rounds"


# --- lanes ------------------------------------------------------------------------------------------


def generator_key(name):
    return jax.random.key(11, impl=name)


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_the_numbers_of_a_lane_do_not_depend_on_the_size_of_the_batch(generator):
    key = generator_key(generator)
    full = np.asarray(noise.uniforms(key, (4096,)))
    assert full.shape == (3, 4096)
    for size in (1, 7):
        np.testing.assert_array_equal(noise.uniforms(key, (size,)), full[:, :size])
    np.testing.assert_array_equal(noise.uniforms(key), full[:, 0])
    np.testing.assert_array_equal(noise.uniforms(key, (64, 64)), full.reshape(3, 64, 64))
    assert not np.array_equal(noise.uniforms(jax.random.split(key)[0], (4096,)), full)


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_jit_does_not_change_a_number(generator):
    key = generator_key(generator)
    compiled = jax.jit(noise.uniforms, static_argnums=1)(key, (33,))
    np.testing.assert_array_equal(compiled, noise.uniforms(key, (33,)))
    with jax.disable_jit():
        np.testing.assert_array_equal(compiled, noise.uniforms(key, (33,)))


def test_vmap_over_keys_equals_a_loop():
    for keys in (jax.random.split(jax.random.key(1), 5), jax.random.split(jax.random.PRNGKey(1), 5)):
        batched = jax.jit(jax.vmap(lambda key: noise.uniforms(key, (6,))))(keys)
        np.testing.assert_array_equal(batched, [noise.uniforms(key, (6,)) for key in keys])


@pytest.mark.parametrize("generator", ["rbg", "unsafe_rbg"])
def test_vmap_over_keys_of_other_generators_gives_different_lanes(generator):
    """JAX itself gives other numbers for these under vmap than in a loop, so only difference is asked."""
    keys = jax.random.split(generator_key(generator), 5)
    batched = np.asarray(jax.jit(jax.vmap(lambda key: noise.uniforms(key, (6,))))(keys))
    assert batched.shape == (5, 3, 6)
    assert len(np.unique(batched[:, :2])) == 5 * 2 * 6


def test_raw_keys_of_another_default_generator_work():
    with jax.default_prng_impl("rbg"):
        key = jax.random.PRNGKey(0)
        assert key.shape == (4,)
        assert not noise.is_threefry(key)
        full = np.asarray(noise.uniforms(key, (100,)))
    assert np.all((full >= 0) & (full < 1))
    assert len(np.unique(full[0])) > 90


def test_is_threefry_tells_the_generators_apart():
    assert noise.is_threefry(jax.random.key(0))
    assert noise.is_threefry(jax.random.PRNGKey(0))
    assert not noise.is_threefry(jax.random.key(0, impl="rbg"))
    assert not noise.is_threefry(jax.random.key(0, impl="unsafe_rbg"))


# --- distribution -----------------------------------------------------------------------------------

SAMPLES = 2**18


@pytest.fixture(scope="module")
def sample():
    """One fixed sample, so the limits of five standard errors below cannot fail by chance."""
    return np.asarray(noise.uniforms(jax.random.key(123), (SAMPLES,)), np.float64)


def test_uniforms_are_float32_in_the_half_open_unit_interval(sample):
    numbers = noise.uniforms(jax.random.key(5), (1000,))
    assert numbers.dtype == jnp.float32
    assert sample.min() >= 0.0
    assert sample.max() < 1.0
    np.testing.assert_array_equal(sample[:2] * 2**24 % 1, 0)
    np.testing.assert_array_equal(sample[2] * 2**16 % 1, 0)


def test_the_largest_words_stay_below_one():
    """The formula of the numbers at its extremes, which no sample of a few million meets."""
    words = jnp.full(4, 0xFFFFFFFF, jnp.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "lane_words", lambda key, shape: (words, words))
        largest = noise.uniforms(jax.random.key(0), (4,))
        patch.setattr(noise, "lane_words", lambda key, shape: (0 * words, 0 * words))
        smallest = noise.uniforms(jax.random.key(0), (4,))
    np.testing.assert_array_equal(largest[:2], 1 - 2.0**-24)
    np.testing.assert_array_equal(largest[2], 1 - 2.0**-16)
    np.testing.assert_array_equal(smallest, 0)


def test_mean_and_variance_are_those_of_the_uniform_distribution(sample):
    # Standard errors: of the mean sqrt(1/12/n), of the variance sqrt((1/80 - 1/144)/n).
    np.testing.assert_allclose(sample.mean(axis=1), 0.5, atol=5 * np.sqrt(1 / 12 / SAMPLES))
    np.testing.assert_allclose(sample.var(axis=1), 1 / 12, atol=5 * np.sqrt((1 / 80 - 1 / 144) / SAMPLES))


def test_the_three_numbers_of_a_lane_are_independent(sample):
    """Counts in an 8 x 8 x 8 grid; their chi-squared has 511 degrees of freedom, deviation sqrt(1022)."""
    cells = (sample * 8).astype(int)
    counts = np.bincount(cells[0] * 64 + cells[1] * 8 + cells[2], minlength=512)
    chi_squared = np.sum((counts - SAMPLES / 512) ** 2) / (SAMPLES / 512)
    assert abs(chi_squared - 511) < 5 * np.sqrt(2 * 511)


def test_the_low_bits_of_the_third_number_are_independent_of_the_other_two(sample):
    """The third number is made of the bits that the other two leave over: its low bits too are fair."""
    low = (sample[2] * 2**16).astype(int) % 16
    high = (sample[1] * 16).astype(int)
    counts = np.bincount(low * 16 + high, minlength=256)
    chi_squared = np.sum((counts - SAMPLES / 256) ** 2) / (SAMPLES / 256)
    assert abs(chi_squared - 255) < 5 * np.sqrt(2 * 255)


def test_neighbouring_lanes_and_steps_are_not_correlated(sample):
    following = np.asarray(noise.uniforms(jax.random.key(124), (SAMPLES,)), np.float64)
    centred, limit = sample - 0.5, 5 / 12 / np.sqrt(SAMPLES)
    for shift in (1, 2, 32):
        assert np.abs(np.mean(centred * np.roll(centred, shift, axis=1), axis=1)).max() < limit
    assert np.abs(np.mean(centred * (following - 0.5), axis=1)).max() < limit


# --- choices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000, 65_537, 10**6])
def test_choose_reaches_every_index_and_never_leaves_the_range(size):
    """All 2**24 numbers that a lane can draw; no index may be more than 5% off its share."""
    every = jnp.arange(2**24, dtype=jnp.float32) * np.float32(2.0**-24)
    index = jax.jit(noise.choose, static_argnums=1)(every, size)
    assert index.dtype == jnp.int32
    counts = np.bincount(index, minlength=size)
    assert len(counts) == size
    share = 2**24 / size
    assert np.abs(counts - share).max() <= max(2.0, 0.05 * share)
    assert counts.min() > 0


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 10, 100, 999, 4097, 65_535, 999_999, 10**6])
def test_choose_of_the_largest_number_is_the_last_index(size):
    assert noise.choose(jnp.float32(1 - 2**-24), size) == size - 1
    assert noise.choose(jnp.float32(0.0), size) == 0
    assert noise.choose(jnp.float32(1 - 2**-16), size) <= size - 1
