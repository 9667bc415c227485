"""Meshes over the states of trust, on which a value is known and between which it is interpolated."""

import math
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class Blend:
    """Points as weighted means of nodes.

    Attributes:
        index: Nodes, int32 ``(k, ...)``.
        weight: Their weights, float ``(k, ...)``; they sum to 1.
    """

    index: jax.Array
    weight: jax.Array

    def of(self, values: jax.Array) -> jax.Array:
        """The means of the values at the nodes, float ``(...)``."""
        # Corner by corner: XLA on CPU gathers and sums in one loop then.
        corners = zip(self.index, self.weight, strict=True)
        return sum(values.at[index].get(mode="promise_in_bounds") * weight for index, weight in corners)


class Mesh(Protocol):
    """Nodes ``(z, x)`` and interpolation between them that reproduces linear functions."""

    num_nodes: int

    def nodes(self, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
        """``z`` and ``x`` of all n nodes, float ``(n,)``."""

    def locate(self, z: jax.Array, x: jax.Array) -> Blend:
        """Points of any shape as means of nodes."""

    def unevenness(self, values: jax.Array) -> jax.Array:
        """What interpolation of ``values``, ``(n,)``, may be wrong by around each node, ``(n,)``.

        Half the sum over directions of the second differences: interpolated like the values, it bounds the
        error at one kink, and is four times that of a parabola in the middle between nodes.
        """


class DiscMesh:
    """The Bloch disc in rings and sectors.

    Interpolates over the trapezoids between the nodes, in Cartesian coordinates, so that the error comes
    from the curvature of a function alone.

    Args:
        rings: Number of rings beside the centre, at least 2.
        sectors: Number of sectors, even.
    """

    def __init__(self, rings: int, sectors: int) -> None:
        self.rings = rings
        self.sectors = sectors
        self.num_nodes = (rings + 1) * sectors
        self._angle = 2.0 * math.pi / sectors

    def nodes(self, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
        """Ring after ring from the centre, which occurs once per sector."""
        radius = np.arange(self.rings + 1)[:, None] / self.rings
        angle = np.arange(self.sectors) * self._angle
        z, x = radius * np.cos(angle), radius * np.sin(angle)
        return jnp.asarray(z.ravel(), dtype), jnp.asarray(x.ravel(), dtype)

    def locate(self, z: jax.Array, x: jax.Array) -> Blend:
        """As means of the corners of the trapezoid around each point."""
        sector = jnp.floor(jnp.mod(jax.lax.stop_gradient(jnp.arctan2(x, z)) / self._angle, self.sectors))
        sector = jnp.minimum(sector, self.sectors - 1)
        middle = (sector + 0.5) * self._angle
        along = z * jnp.cos(middle) + x * jnp.sin(middle)
        across = x * jnp.cos(middle) - z * jnp.sin(middle)
        is_centre = along < 1e-6
        slope = across / jnp.where(is_centre, 1.0, along) / math.tan(self._angle / 2)
        turn = jnp.where(is_centre, 0.5, jnp.clip(0.5 * (1.0 + slope), 0.0, 1.0))
        height = along * (self.rings / math.cos(self._angle / 2))
        ring = jnp.clip(jnp.floor(height), 0, self.rings - 1)
        rise = height - ring
        left = (ring * self.sectors + sector).astype(jnp.int32)
        right = (ring * self.sectors + jnp.mod(sector + 1, self.sectors)).astype(jnp.int32)
        index = jnp.stack([left, right, left + self.sectors, right + self.sectors])
        weight = [(1 - rise) * (1 - turn), (1 - rise) * turn, rise * (1 - turn), rise * turn]
        return Blend(index, jnp.stack(weight))

    def unevenness(self, values: jax.Array) -> jax.Array:
        """Along the radius and along the chord."""
        grid = values.reshape(self.rings + 1, self.sectors)
        opposite = jnp.roll(grid[1], self.sectors // 2)
        inner = jnp.concatenate([opposite[None], grid[:-1]])
        radial = jnp.abs(inner[:-1] - 2 * grid[:-1] + grid[1:])
        radial = jnp.concatenate([radial, radial[-1:]])
        # The chord between the neighbours on a ring passes a little inside the node between them.
        sagitta = jnp.arange(self.rings + 1)[:, None] * (1.0 - math.cos(self._angle))
        on_chord = grid - sagitta * (grid - inner)
        chordal = jnp.abs(jnp.roll(grid, 1, axis=1) + jnp.roll(grid, -1, axis=1) - 2 * on_chord)
        return 0.5 * (radial + chordal).ravel()


class IntervalMesh:
    """``z`` in [-1, 1] in equal steps; ``x`` is 0.

    Args:
        cells: Number of steps, at least 2.
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.num_nodes = cells + 1

    def nodes(self, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
        """From -1 to 1."""
        z = jnp.linspace(-1.0, 1.0, self.cells + 1, dtype=dtype)
        return z, jnp.zeros_like(z)

    def locate(self, z: jax.Array, x: jax.Array) -> Blend:
        """As means of the two ends of a step."""
        height = 0.5 * (1.0 + z) * self.cells
        left = jnp.clip(jnp.floor(height), 0, self.cells - 1)
        rise = height - left
        left = left.astype(jnp.int32)
        return Blend(jnp.stack([left, left + 1]), jnp.stack([1 - rise, rise]))

    def unevenness(self, values: jax.Array) -> jax.Array:
        """Half the second difference."""
        second = jnp.abs(values[:-2] - 2 * values[1:-1] + values[2:])
        return 0.5 * jnp.concatenate([second[:1], second, second[-1:]])
