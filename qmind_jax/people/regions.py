"""Sets of plausible people, as the images of a cube: where to look for somebody."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from qmind_jax.names import unknown
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.population import Person


class Region(Protocol):
    """A set of people, each named by a point of the unit cube."""

    @property
    def dimension(self) -> int:
        """Number of coordinates k of a point, at least 1."""

    def people(self, points: jax.Array) -> Person:
        """The population of some points.

        Args:
            points: In [0, 1], float ``(n, k)``.
        """


@dataclasses.dataclass(frozen=True)
class PeopleWithin:
    """Everybody of a family whose parameters lie in given ranges.

    Attributes:
        family: A family with parameters, such as ``TrustQubit``.
        ranges: Lowest and highest value of each parameter that varies, by name, in its unit; all others are
            those of the family's default person.

    Raises:
        TypeError: If ``family`` has no parameters.
        ValueError: If a name is unknown (the nearest known one is named), a range is empty, not finite, or
            holds values that nobody of the family may have.
    """

    family: type[ParametricPerson]
    ranges: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        if not (isinstance(self.family, type) and issubclass(self.family, ParametricPerson)):
            raise TypeError(f"family must be a class of people with parameters, got {self.family!r}")
        if not self.ranges:
            raise ValueError("ranges must hold at least one parameter, got none")
        for name, (low, high) in self.ranges.items():
            if name not in self.family.parameters:
                raise ValueError(unknown("parameter", name, self.family.parameters))
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(f"ranges[{name!r}] must go from a number to a larger one, got {low}, {high}")
        ends = zip(*self.ranges.values(), strict=True)
        for values in ends:
            self.family(**dict(zip(self.ranges, values, strict=True)))

    @property
    def dimension(self) -> int:
        """Number of parameters that vary."""
        return len(self.ranges)

    def people(self, points: jax.Array) -> ParametricPerson:
        """The population of points in [0, 1], float ``(n, k)``: each coordinate its place in the range."""
        columns = {
            name: low + (high - low) * points[:, i]
            for i, (name, (low, high)) in enumerate(self.ranges.items())
        }
        same = jnp.ones_like(points[:, 0])
        return self.family(
            **{name: columns.get(name, same * each.default) for name, each in self.family.parameters.items()}
        )


@dataclasses.dataclass(frozen=True)
class CredibleRegion:
    """The most plausible people of a prior: the ellipsoid of highest density.

    Attributes:
        prior: A Gaussian over people.
        probability: Of a draw to lie in the region, in (0, 1).

    Raises:
        ValueError: If ``probability`` is outside (0, 1).
    """

    prior: GaussianPrior
    probability: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 < self.probability < 1.0:
            raise ValueError(f"probability must lie in (0, 1), got {self.probability!r}")

    @property
    def dimension(self) -> int:
        """Number of free parameters."""
        return len(self.prior.names)

    def people(self, points: jax.Array) -> ParametricPerson:
        """The population of points in [0, 1], float ``(n, k)``.

        The cube is pulled to a ball along the rays from its middle, so that its faces become the surface.
        """
        radius = float(np.sqrt(stats.chi2.ppf(self.probability, self.dimension)))
        cube = 2.0 * jnp.asarray(points, float) - 1.0
        largest = jnp.max(jnp.abs(cube), axis=1, keepdims=True)
        length = jnp.sqrt(jnp.sum(cube**2, axis=1, keepdims=True))
        ball = radius * cube * largest / jnp.where(length > 0.0, length, 1.0)
        axes = jnp.linalg.cholesky(self.prior.covariance)
        free = self.prior.mean + jnp.matmul(ball, axes.T, precision="highest")
        return self.prior.family.from_free(free, **self.prior.options)
