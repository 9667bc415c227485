"""How people who trust differ from each other, and how noisily they rate their trust."""

import dataclasses
from typing import Self

import jax
import numpy as np

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.ratings.fit import TRUST_FAMILIES, TrustFamily, check_trust_family
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustQubit


@dataclasses.dataclass(frozen=True, eq=False)
class TrustDistribution:
    """A population of trusting people of any size, and how their ratings scatter.

    The people drawn do not have the noise: in an environment they act on their trust, not on ratings.

    Attributes:
        prior: Distribution of the free parameters, initial trust among them.
        noise: Standard deviation of a rating around trust, on the scale of [0, 1], positive.

    Raises:
        ValueError: If the family of the prior is none of :data:`TRUST_FAMILIES` or the noise is not
            positive.
    """

    prior: GaussianPrior
    noise: float

    def __post_init__(self) -> None:
        if self.prior.family not in TRUST_FAMILIES.values():
            names = ", ".join(family.__name__ for family in TRUST_FAMILIES.values())
            raise ValueError(f"the family of prior must be one of {names}, got {self.prior.family!r}")
        if not (np.isfinite(self.noise) and self.noise > 0.0):
            raise ValueError(f"noise must be positive, got {self.noise}")

    @classmethod
    def of(cls, family: TrustFamily, mean: np.ndarray, covariance: np.ndarray, noise: float) -> Self:
        """From the name of a family and numbers on the free scale; see :class:`GaussianPrior`.

        Raises:
            ValueError: For an unknown family (the nearest known one is named) or numbers that make no
                distribution.
        """
        check_trust_family(family)
        return cls(GaussianPrior(TRUST_FAMILIES[family], mean, covariance), noise)

    @property
    def family(self) -> TrustFamily:
        """``"beta"``, ``"markov"`` or ``"qubit"``."""
        return next(name for name, family in TRUST_FAMILIES.items() if family is self.prior.family)

    @property
    def mean(self) -> jax.Array:
        """Mean of the free parameters, float ``(k,)``, in the order of ``prior.names``."""
        return self.prior.mean

    @property
    def covariance(self) -> jax.Array:
        """Covariance of the free parameters between people, float ``(k, k)``."""
        return self.prior.covariance

    def people(self, key: jax.Array, n: int) -> TrustQubit | MarkovTrust | BetaTrust:
        """A new population of ``n`` people; works inside ``jit``, where new keys need no new program.

        Raises:
            ValueError: If ``n`` is below 1.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        return self.prior.draw(n, key)

    def draw(self, n: int, key: jax.Array) -> TrustQubit | MarkovTrust | BetaTrust:
        """:meth:`people`, as :func:`~qmind_jax.people.sample_people` asks for them."""
        return self.people(key, n)
