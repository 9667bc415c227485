"""Small quantum mechanics: unit vectors, projectors and the Bloch disc.

Everything here is a pure function of arrays. "Probability" and "collapse" follow the Lüders rule: a
"yes" to the question with projector P has probability ``|P psi|^2`` and leaves ``P psi``, normalised.
"""

import jax
import jax.numpy as jnp
import numpy as np


def unit_vector(angles: jax.Array) -> jax.Array:
    """Unit vector from hyperspherical angles.

    Args:
        angles: Angles in radians, shape ``(..., d - 1)``.

    Returns:
        Real vectors of shape ``(..., d)``: entry i is ``cos(angles[i])`` times the sines of all
        angles before it, the last entry the product of all sines.
    """
    angles = jnp.asarray(angles, float)
    one = jnp.ones((*angles.shape[:-1], 1), angles.dtype)
    sines = jnp.concatenate([one, jnp.cumprod(jnp.sin(angles), axis=-1)], axis=-1)
    return sines * jnp.concatenate([jnp.cos(angles), one], axis=-1)


def projector(rows: jax.Array, tolerance: float = 1e-6) -> np.ndarray:
    """Orthogonal projector on the span of some vectors.

    Args:
        rows: One vector of shape ``(d,)`` or several of shape ``(k, d)``, real or complex. They may
            be linearly dependent and of any length; the rank of the projector is that of the rows.
        tolerance: Singular values below this fraction of the largest count as zero.

    Returns:
        Hermitian idempotent NumPy matrix of shape ``(d, d)`` in double precision.

    Raises:
        ValueError: If the rows are not a vector or matrix of finite numbers.
    """
    rows = np.atleast_2d(np.asarray(rows))
    if rows.ndim != 2 or not np.all(np.isfinite(rows)):
        raise ValueError(f"rows must be a finite vector or matrix, got shape {rows.shape}: {rows}")
    _, singular, basis = np.linalg.svd(rows.astype(np.result_type(rows, np.float64)))
    rank = int(np.sum(singular > tolerance * max(singular.max(initial=0.0), np.finfo(float).tiny)))
    kept = basis[:rank]
    return kept.T @ kept.conj()


def is_projector(matrix: np.ndarray, tolerance: float = 1e-4) -> bool:
    """Whether a matrix, or each of a stack of them, is Hermitian and idempotent within a tolerance."""
    matrix = np.asarray(matrix)
    square = matrix.ndim >= 2 and matrix.shape[-1] == matrix.shape[-2]
    return bool(square and np.all(are_projectors(matrix, tolerance)))


def are_projectors(matrices: np.ndarray, tolerance: float = 1e-4) -> np.ndarray:
    """Which matrices of a stack are Hermitian and idempotent within a tolerance.

    Args:
        matrices: Shape ``(..., d, d)``, real or complex.
        tolerance: Largest difference of an entry.

    Returns:
        Bool ``(...)``; False for a matrix that is not finite.
    """
    matrices = np.asarray(matrices)
    finite = np.isfinite(matrices)
    kept = np.where(finite, matrices, 0.0)
    hermitian = np.abs(kept - kept.conj().swapaxes(-1, -2))
    idempotent = np.abs(kept @ kept - kept)
    error = np.maximum(hermitian, idempotent).max(axis=(-1, -2), initial=0.0)
    return (error <= tolerance) & finite.all(axis=(-1, -2))


def project(matrix: jax.Array, psi: jax.Array) -> jax.Array:
    """``matrix @ psi``, unrolled over a small Hilbert space so that batches of lanes vectorise.

    Args:
        matrix: Shape ``(d, d)``, or nested sequences of scalars.
        psi: Shape ``(d,)``.
    """
    return jnp.stack([sum(entry * psi[j] for j, entry in enumerate(row)) for row in matrix])


def norm_squared(psi: jax.Array) -> jax.Array:
    """Squared length of a real or complex vector over its last axis."""
    entries = [psi[..., i] for i in range(psi.shape[-1])]
    if jnp.iscomplexobj(psi):
        return sum(entry.real**2 + entry.imag**2 for entry in entries)
    return sum(entry**2 for entry in entries)


def normalised(psi: jax.Array) -> jax.Array:
    """A vector over the last axis, real or complex and not zero, brought to length 1."""
    # To a largest entry of 1 first, as the square of a long or short vector can be too large or small.
    psi = psi / jnp.abs(psi).max(axis=-1, keepdims=True)
    return psi / jnp.sqrt(norm_squared(psi))[..., None]


def rotate(z: jax.Array, x: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rotate a Bloch vector in the z-x plane by an angle in radians, from z towards x."""
    return turn(z, x, jnp.cos(angle), jnp.sin(angle))


def turn(z: jax.Array, x: jax.Array, cosine: jax.Array, sine: jax.Array) -> tuple[jax.Array, jax.Array]:
    """:func:`rotate`, given the cosine and the sine of the angle."""
    return z * cosine - x * sine, x * cosine + z * sine
