"""What is known of a person before their first answer: a Gaussian on the free parameters of a family."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.parameters import ParametricPerson, as_label


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPrior:
    """A Gaussian over people of one family, on the free scale of :mod:`qmind_jax.people.parameters`.

    Everyone whom it draws has its structural options. A pytree of ``mean`` and ``covariance``; the rest is
    static.

    Attributes:
        family: A family with free parameters, such as ``MarkovTrust``.
        mean: Free vector, float ``(k,)``.
        covariance: Float ``(k, k)``, symmetric and positive definite.
        options: Structural options (such as ``ranks``) and values of parameters that are held, by name.

    Raises:
        TypeError: If the family has no free parameters, or for an unknown or unhashable option.
        ValueError: If shapes do not fit, a number is not finite, or the covariance is not symmetric and
            positive definite.
    """

    family: type[ParametricPerson]
    mean: jax.Array
    covariance: jax.Array
    options: Mapping[str, Hashable] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isinstance(self.family, type) and issubclass(self.family, ParametricPerson)):
            raise TypeError(f"family must be a class with parameters, got {self.family!r}")
        self.family.check_options(self.options)
        options = {
            name: value if name in self.family.parameters else as_label(value)
            for name, value in self.options.items()
        }
        for name, value in options.items():
            try:
                hash(value)
            except TypeError:
                raise TypeError(
                    f"options[{name!r}] must be one value for all people, such as a number or a tuple, "
                    f"got {value!r}"
                ) from None
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "mean", jnp.asarray(self.mean, float))
        object.__setattr__(self, "covariance", jnp.asarray(self.covariance, float))
        k = len(self.names)
        if k == 0 or self.mean.shape != (k,) or self.covariance.shape != (k, k):
            raise ValueError(
                f"{self.family.__name__} has {k} free parameters {', '.join(self.names)}: mean must have "
                f"shape ({k},) and covariance ({k}, {k}), got {self.mean.shape} and {self.covariance.shape}"
            )
        if not isinstance(self.mean, jax.core.Tracer) and not np.all(np.isfinite(self.mean)):
            raise ValueError(f"mean must be finite, got {self.mean}")
        if not isinstance(self.covariance, jax.core.Tracer):
            _check_covariance(np.asarray(self.covariance, np.float64))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the k free parameters, in the order of ``mean``."""
        return self.family.free_names(**self.options)

    @classmethod
    def from_people(cls, people: ParametricPerson, shrink: float = 0.01) -> Self:
        """The Gaussian with the mean and the covariance of some people, with their structural options.

        Args:
            people: A population of at least two, for instance of one fit per person.
            shrink: Added to each variance, at least 0; keeps the covariance positive definite where people
                are few or alike.

        Raises:
            TypeError: If ``people`` are of no family with parameters.
            ValueError: If ``people`` is no population of at least two, ``shrink`` is negative, or the
                covariance is not positive definite.
        """
        if not isinstance(people, ParametricPerson):
            raise TypeError(f"people must be a population of a family with parameters, got {people!r}")
        if not people.is_population or len(people) < 2:
            raise ValueError(f"people must be a population of at least two, got {people!r}")
        return cls._of_sample(type(people), people.options, people.to_free(), shrink)

    @classmethod
    def from_fits(cls, fits: Any, shrink: float = 0.01) -> Self:
        """The Gaussian with the mean and the covariance of fitted people; what the fits held stays held.

        Args:
            fits: Of at least two people: the result of ``fit_individuals``, or a sequence of results of
                ``fit``, all of one family with the same options.
            shrink: Added to each variance, at least 0.

        Raises:
            TypeError: If ``fits`` are no fits.
            ValueError: If there are fewer than two, they differ in family or options, ``shrink`` is negative,
                or the covariance is not positive definite.
        """
        try:
            if isinstance(fits, Sequence):
                kinds = [(type(fit.person), dict(fit.options)) for fit in fits]
                free = np.array([fit.free for fit in fits])
            else:
                kinds, free = [(type(fits.people), dict(fits.options))], np.asarray(fits.free)
        except AttributeError as error:
            raise TypeError(
                f"fits must be the result of fit_individuals or a sequence of fits, got {fits!r}"
            ) from error
        if len(free) < 2:
            raise ValueError(f"fits must be of at least two people, got {len(free)}")
        for i, kind in enumerate(kinds):
            if kind != kinds[0]:
                raise ValueError(f"fits[{i}] is of {kind} but fits[0] of {kinds[0]}; a prior is of one kind")
        return cls._of_sample(*kinds[0], free, shrink)

    @classmethod
    def _of_sample(
        cls, family: type[ParametricPerson], options: Mapping[str, Any], free: jax.Array, shrink: float
    ) -> Self:
        if not shrink >= 0.0:
            raise ValueError(f"shrink must be at least 0, got {shrink}")
        free = jnp.asarray(free, float)
        mean = free.mean(axis=0)
        spread = free - mean
        covariance = jnp.einsum("pi,pj->ij", spread, spread, precision="highest") / (len(free) - 1)
        return cls(family, mean, covariance + shrink * jnp.eye(len(mean)), options)

    def draw_free(self, n: int, key: jax.Array) -> jax.Array:
        """Free vectors of ``n`` people, float ``(n, k)``."""
        normal = jax.random.normal(key, (n, len(self.names)), self.mean.dtype)
        return self.mean + jnp.matmul(normal, jnp.linalg.cholesky(self.covariance).T, precision="highest")

    def draw(self, n: int, key: jax.Array) -> ParametricPerson:
        """A population of ``n`` people, with the structural options of the prior."""
        return self.family.from_free(self.draw_free(n, key), **self.options)

    @property
    def whitening(self) -> jax.Array:
        """Matrix W with ``W (x - mean)`` standard normal for a draw x: lower triangular, ``(k, k)``."""
        lower = jnp.linalg.cholesky(self.covariance)
        return jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(lower), dtype=lower.dtype), lower=True)

    def log_density(self, free: jax.Array) -> jax.Array:
        """Logarithm of the normalised density at free vectors.

        Args:
            free: Float ``(..., k)``.

        Returns:
            Float of shape ``(...,)``.
        """
        whitening = self.whitening
        away = (jnp.asarray(free, float) - self.mean)[..., None, :]
        # Not a matrix product: those of accelerators are of low precision unless told otherwise.
        standard = jnp.sum(whitening * away, axis=-1)
        log_volume = jnp.sum(jnp.log(jnp.diagonal(whitening))) - 0.5 * len(self.mean) * np.log(2.0 * np.pi)
        return log_volume - 0.5 * jnp.sum(standard**2, axis=-1)


def _check_covariance(covariance: np.ndarray) -> None:
    if not np.all(np.isfinite(covariance)):
        raise ValueError(f"covariance must be finite, got {covariance.tolist()}")
    if not np.allclose(covariance, covariance.T, rtol=1e-4, atol=1e-6 * np.abs(covariance).max()):
        raise ValueError(f"covariance must be symmetric, got {covariance.tolist()}")
    smallest = np.linalg.eigvalsh(covariance)[0]
    if smallest <= 0.0:
        raise ValueError(f"covariance must be positive definite, its smallest eigenvalue is {smallest:.3g}")


def _flatten(prior: GaussianPrior) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (prior.mean, prior.covariance), (prior.family, tuple(prior.options.items()))


def _unflatten(static: tuple[Any, ...], leaves: tuple[Any, ...]) -> GaussianPrior:
    # Without the checks of the constructor: JAX builds trees of things that are no numbers.
    prior = object.__new__(GaussianPrior)
    values = {"family": static[0], "options": dict(static[1]), "mean": leaves[0], "covariance": leaves[1]}
    for name, value in values.items():
        object.__setattr__(prior, name, value)
    return prior


jax.tree_util.register_pytree_node(GaussianPrior, _flatten, _unflatten)
