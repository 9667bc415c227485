"""Unit vectors, projectors, the Lüders rule and the Bloch disc."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from quantum_mind.core import projector as peer_projector

from qmind_jax.quantum import is_projector, norm_squared, project, projector, rotate, unit_vector

angles = hnp.arrays(float, st.integers(0, 7), elements=st.floats(-10, 10))
seeds = st.integers(0, 2**32 - 1)


def random_rows(seed, rank, dimension, is_complex):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank, dimension))
    return rows + 1j * rng.normal(size=rows.shape) if is_complex else rows


@given(angles)
def test_unit_vectors_have_length_one_and_one_entry_more_than_angles(angles):
    vector = np.asarray(unit_vector(angles))
    assert vector.shape == (len(angles) + 1,)
    np.testing.assert_allclose(np.sum(vector**2), 1.0, atol=1e-5)


def test_unit_vectors_of_many_angles_are_those_of_each():
    many = np.random.default_rng(0).uniform(0, np.pi, (4, 5, 3))
    vectors = unit_vector(many)
    assert vectors.shape == (4, 5, 4)
    for index in np.ndindex(4, 5):
        np.testing.assert_allclose(vectors[index], unit_vector(many[index]), atol=1e-6)
    assert unit_vector(np.zeros((4, 0))).shape == (4, 1)


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_a_projector_projects_on_the_span_of_its_rows(seed, rank, dimension, is_complex):
    rank = min(rank, dimension)
    rows = random_rows(seed, rank, dimension, is_complex)
    matrix = projector(rows)
    assert matrix.shape == (dimension, dimension)
    np.testing.assert_allclose(matrix, matrix.conj().T, atol=1e-12)
    np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(np.trace(matrix), rank, atol=1e-9)
    # What a row spans as a ket is kept.
    np.testing.assert_allclose(rows @ matrix.T, rows, atol=1e-9)
    assert is_projector(matrix)
    assert is_projector(np.eye(dimension) - matrix)


@given(seeds, st.integers(1, 4), st.booleans())
def test_a_projector_is_that_of_the_peer_for_independent_rows(seed, rank, is_complex):
    rows = random_rows(seed, rank, 5, is_complex)
    np.testing.assert_allclose(projector(rows), peer_projector(rows), atol=1e-9)


@given(seeds, st.booleans(), st.permutations(range(4)))
def test_dependent_rows_in_any_order_change_nothing(seed, is_complex, order):
    """Quantum-mind gets these wrong when the leading rows are dependent."""
    a, b = random_rows(seed, 2, 4, is_complex)
    rows = np.stack([a, 2 * a, b, a - 3 * b])[list(order)]
    np.testing.assert_allclose(projector(rows), projector([a, b]), atol=1e-9)


@given(seeds, st.floats(1e-30, 1e30))
def test_the_length_of_the_rows_does_not_matter(seed, length):
    rows = random_rows(seed, 2, 4, False)
    np.testing.assert_allclose(projector(length * rows), projector(rows), atol=1e-9)


def test_special_projectors():
    np.testing.assert_array_equal(projector([0.0, 0.0]), np.zeros((2, 2)))
    np.testing.assert_allclose(projector([1, 1]), np.full((2, 2), 0.5))
    np.testing.assert_allclose(projector(np.eye(3)), np.eye(3))
    np.testing.assert_allclose(projector([1, 1j]), [[0.5, -0.5j], [0.5j, 0.5]])


@pytest.mark.parametrize("rows", [np.ones((2, 2, 2)), [[1.0, np.nan]], [np.inf, 1.0]])
def test_rows_that_are_no_finite_matrix_are_refused(rows):
    with pytest.raises(ValueError, match="rows must be a finite vector or matrix, got shape"):
        projector(rows)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.5, 0.2], [0.2, 0.9]],
        2 * np.eye(2),
        [[1.0, 1.0], [0.0, 0.0]],
        [[0.5, 0.5j], [0.5j, 0.5]],
        np.ones((2, 3)),
        [1.0, 0.0],
        [[np.nan, 0.0], [0.0, 0.0]],
    ],
)
def test_other_matrices_are_no_projectors(matrix):
    assert not is_projector(matrix)


def test_a_stack_is_a_projector_if_all_are():
    good = np.stack([np.eye(2), np.zeros((2, 2))])
    assert is_projector(good)
    assert not is_projector(np.stack([np.eye(2), 2 * np.eye(2)]))
    assert is_projector(good + 1e-6)
    assert not is_projector(good + 1e-6, tolerance=1e-9)


@given(seeds, st.sampled_from([1, 3]), st.booleans(), st.booleans())
def test_project_is_the_matrix_product(seed, dimension, complex_matrix, complex_vector):
    matrix = random_rows(seed, dimension, dimension, complex_matrix).astype(
        np.complex64 if complex_matrix else np.float32
    )
    psi = random_rows(seed + 1, 1, dimension, complex_vector)[0].astype(
        np.complex64 if complex_vector else np.float32
    )
    got = project(jnp.asarray(matrix), jnp.asarray(psi))
    np.testing.assert_allclose(got, matrix @ psi, rtol=1e-5, atol=1e-5)
    assert got.dtype == (matrix @ psi).dtype


@given(seeds, st.sampled_from([1, 3]), st.booleans())
def test_norm_squared_is_that_of_numpy_and_real(seed, dimension, is_complex):
    vectors = random_rows(seed, 3, dimension, is_complex)
    got = norm_squared(jnp.asarray(vectors))
    assert not jnp.iscomplexobj(got)
    np.testing.assert_allclose(got, np.linalg.norm(vectors, axis=-1) ** 2, rtol=1e-5)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-10, 10), st.floats(-10, 10))
def test_rotations_keep_length_and_add_up(z, x, first, second):
    once = np.array(rotate(z, x, first))
    np.testing.assert_allclose(np.sum(once**2), z**2 + x**2, atol=1e-5)
    np.testing.assert_allclose(rotate(*once, second), rotate(z, x, first + second), atol=1e-5)
    np.testing.assert_allclose(rotate(*once, -first), (z, x), atol=1e-5)


def test_rotation_turns_z_towards_x():
    np.testing.assert_allclose(rotate(1.0, 0.0, np.pi / 2), (0.0, 1.0), atol=1e-6)
    np.testing.assert_allclose(rotate(0.0, 1.0, np.pi / 2), (-1.0, 0.0), atol=1e-6)


@given(st.floats(-4, 7), st.floats(0.01, 3.13), st.booleans(), st.floats(0, 1))
def test_the_bloch_rotation_is_the_rotation_of_the_density_matrix(phi0, angle, success, mixed):
    """Half the angle on kets, as quantum-mind writes it, is the whole angle on the disc."""
    z, x = (1 - mixed) * np.cos(phi0), (1 - mixed) * np.sin(phi0)
    rho = 0.5 * np.array([[1 + z, x], [x, 1 - z]])
    turn = -angle if success else angle
    cosine, sine = np.cos(turn / 2), np.sin(turn / 2)
    unitary = np.array([[cosine, -sine], [sine, cosine]])
    rho = unitary @ rho @ unitary.T
    with jax.enable_x64(True):
        got = rotate(jnp.asarray(z), jnp.asarray(x), jnp.asarray(turn))
        np.testing.assert_allclose(got, (rho[0, 0] - rho[1, 1], 2 * rho[0, 1]), atol=1e-12)
