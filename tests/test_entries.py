"""Short vectors written entry by entry are the same vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.entries import LONGEST, entries, put, select


@pytest.mark.parametrize("shape", [(), (1,), (4,), (LONGEST,), (LONGEST + 1,), (0,), (2, 3)])
@pytest.mark.parametrize("condition", [False, True])
def test_select_is_where(shape, condition):
    first, second = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    for function in (select, jax.jit(select)):
        got = function(jnp.bool_(condition), jnp.asarray(first), jnp.asarray(second))
        np.testing.assert_array_equal(got, first if condition else second)
        assert got.dtype == jnp.float32


def test_entries_put_together_are_the_vector():
    vector = jnp.arange(5)
    np.testing.assert_array_equal(jnp.stack(entries(vector)), vector)
    assert [entry.shape for entry in entries(vector)] == [()] * 5


@pytest.mark.parametrize("size", [1, 4, LONGEST, LONGEST + 1])
@pytest.mark.parametrize("condition", [False, True])
def test_put_replaces_one_entry(size, condition):
    vector = jnp.arange(float(size))
    for index in {0, size - 1}:
        got = jax.jit(put)(vector, jnp.int32(index), jnp.float32(-7.0), jnp.bool_(condition))
        expected = np.arange(float(size))
        if condition:
            expected[index] = -7.0
        np.testing.assert_array_equal(got, expected)
