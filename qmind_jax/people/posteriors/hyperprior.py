"""What is known of a whole population before any data: how its people may be spread, and around what."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.parameters import ParametricPerson


class Spread(NamedTuple):
    """A Gaussian population on the free scale.

    Attributes:
        mean: Float ``(k,)``.
        spread: Standard deviation between people of each parameter, positive, ``(k,)``.
        factor: Cholesky factor of the correlation between parameters, lower triangular ``(k, k)``.
    """

    mean: jax.Array
    spread: jax.Array
    factor: jax.Array


@struct.dataclass
class Hyperprior:
    """Distribution over Gaussian populations of one family, on the free scale.

    Independently: the mean of each parameter is normal, its standard deviation between people half-normal,
    and the correlation matrix has density proportional to ``det(C) ** (concentration - 1)`` (Lewandowski,
    Kurowicka & Joe 2009, "LKJ"). The noise of ratings, if there are any, is half-normal.

    Attributes:
        family: Family of all people.
        options: Structural options and parameters that are held, as pairs of name and value.
        mean: Mean of the population means, float ``(k,)``.
        mean_scale: Standard deviation of the population means, positive, ``(k,)``.
        spread_scale: Scale of the half-normal spread between people, positive, ``(k,)``.
        concentration: Positive; 1 for uniform correlation matrices, larger for weaker correlations.
        noise_scale: Scale of the half-normal noise of ratings on [0, 1], positive.
    """

    family: type[ParametricPerson] = struct.field(pytree_node=False)
    options: tuple[tuple[str, Hashable], ...] = struct.field(pytree_node=False)
    mean: jax.Array
    mean_scale: jax.Array
    spread_scale: jax.Array
    concentration: jax.Array
    noise_scale: jax.Array

    @classmethod
    def of(
        cls,
        family: type[ParametricPerson],
        *,
        mean: Any = None,
        mean_scale: Any = 1.5,
        spread_scale: Any = 1.0,
        concentration: float = 2.0,
        noise_scale: float = 0.2,
        **options: Hashable,
    ) -> Self:
        """A hyperprior with checked numbers; scalars count for every parameter.

        Args:
            family: A family with parameters.
            mean: Free vector, by default that of a person who has all defaults.
            mean_scale: See the attributes.
            spread_scale: See the attributes.
            concentration: See the attributes.
            noise_scale: See the attributes.
            **options: Structural options, and parameters to hold.

        Raises:
            TypeError: If the family has no parameters, or for an unknown or unhashable option.
            ValueError: If shapes do not fit, or a number is not finite or positive where it must be.
        """
        if not (isinstance(family, type) and issubclass(family, ParametricPerson)):
            raise TypeError(f"family must be a class with parameters, got {family!r}")
        family.check_options(options)
        names = family.free_names(**options)
        defaults = [family.parameters[name].to_free(family.parameters[name].default) for name in names]
        # Checks the mean, the family and the options, too.
        center = GaussianPrior(family, defaults if mean is None else mean, np.eye(len(names)), options).mean
        scales = {
            "mean_scale": (mean_scale, center.shape),
            "spread_scale": (spread_scale, center.shape),
            "concentration": (concentration, ()),
            "noise_scale": (noise_scale, ()),
        }
        checked = {}
        for name, (value, shape) in scales.items():
            array = np.asarray(value, float)
            if array.shape not in ((), shape):
                raise ValueError(f"{name} must be a number or of shape {shape}, got {array.shape}")
            if not np.all((array > 0.0) & np.isfinite(array)):
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
            checked[name] = jnp.broadcast_to(jnp.asarray(array, float), shape)
        return cls(family=family, options=tuple(options.items()), mean=center, **checked)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the k free parameters."""
        return self.family.free_names(**dict(self.options))

    def prior(self, population: Spread) -> GaussianPrior:
        """One population as the prior of its people."""
        scaled = population.spread[:, None] * population.factor
        covariance = jnp.matmul(scaled, scaled.T, precision="highest")
        return GaussianPrior(self.family, population.mean, covariance, dict(self.options))

    def of_position(self, position: Mapping[str, jax.Array]) -> Spread:
        """A population from numbers that may be any: ``mean`` and ``log_spread`` ``(k,)`` and ``partial``."""
        k = len(self.mean)
        return Spread(
            mean=self.mean + self.mean_scale * position["mean"],
            spread=jnp.exp(position["log_spread"]),
            factor=correlation_factor(jnp.tanh(position["partial"]), k),
        )

    def log_density(self, position: Mapping[str, jax.Array]) -> jax.Array:
        """Log-density of these numbers under the hyperprior, up to a constant."""
        spread = jnp.exp(position["log_spread"])
        # A partial correlation z of column j is a Beta(a, a) variable stretched to (-1, 1); of atanh(z) the
        # density is (1 - z^2)^a up to a constant.
        columns = np.tril_indices(len(self.mean), -1)[1]
        shape = self.concentration + 0.5 * (len(self.mean) - 2 - columns)
        partial = position["partial"]
        log_square = 2.0 * (np.log(2.0) - partial - jax.nn.softplus(-2.0 * partial))
        return (
            -0.5 * jnp.sum(position["mean"] ** 2)
            + jnp.sum(position["log_spread"] - 0.5 * (spread / self.spread_scale) ** 2)
            + jnp.sum(shape * log_square)
        )

    def log_density_of_noise(self, log_noise: jax.Array) -> jax.Array:
        """Log-density of the logarithm of the noise of ratings, up to a constant."""
        return log_noise - 0.5 * (jnp.exp(log_noise) / self.noise_scale) ** 2


def correlation_factor(partial: jax.Array, k: int) -> jax.Array:
    """Cholesky factor of the correlation matrix with some partial correlations.

    Args:
        partial: In (-1, 1), float ``(k (k - 1) / 2,)``, of the entries below the diagonal row by row: that of
            entry (i, j) is between parameters i and j given those before j.
        k: Number of parameters.

    Returns:
        Lower triangular float ``(k, k)`` whose rows have length 1.
    """
    values = iter(partial)
    rows = []
    for i in range(k):
        left, row = jnp.ones((), partial.dtype), []
        for _ in range(i):
            z = next(values)
            row.append(z * jnp.sqrt(left))
            left = left * (1.0 - z * z)
        rows.append(jnp.stack([*row, jnp.sqrt(left), *[jnp.zeros_like(left)] * (k - 1 - i)]))
    return jnp.stack(rows)
