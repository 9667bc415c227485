"""What is known of many people as clouds of weighted particles, one cloud per person."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc.ess import log_ess
from flax import struct

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.intervals import tails
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, Likelihood


@struct.dataclass
class Posterior:
    """Beliefs about P people, each a cloud of N weighted particles over k free parameters.

    Attributes:
        prior: What was known of each of them before the first answer.
        likelihood: How probable what they say is.
        heard: What they have said, a pytree with a leading axis of P people.
        particles: Free vectors, float ``(P, N, k)``.
        log_weights: Logarithms of weights that sum to 1 for each person, float ``(P, N)``.
        log_likelihood: Of what was heard, of each particle, float ``(P, N)``.
        key: JAX random key of the next update.
    """

    prior: GaussianPrior
    likelihood: Likelihood
    heard: Any
    particles: jax.Array
    log_weights: jax.Array
    log_likelihood: jax.Array
    key: jax.Array

    @property
    def people(self) -> ParametricPerson:
        """All particles as a population of ``P * N`` people, those of a person side by side."""
        free = self.particles.reshape(-1, self.particles.shape[-1])
        return self.prior.family.from_free(free, **self.prior.options)

    @property
    def weights(self) -> jax.Array:
        """Weights that sum to 1 for each person, float ``(P, N)``."""
        return jnp.exp(self.log_weights)

    @property
    def effective_sample_size(self) -> jax.Array:
        """How many equally weighted particles each cloud is worth, float ``(P,)`` in [1, N]."""
        return jnp.exp(jax.vmap(log_ess)(self.log_weights))

    def values(self, name: str) -> jax.Array:
        """Natural values of a free parameter, float ``(P, N)``.

        Raises:
            ValueError: For a name that is no free parameter.
        """
        if name not in self.prior.names:
            raise ValueError(f"name must be one of {', '.join(self.prior.names)}, got {name!r}")
        parameter = self.prior.family.parameters[name]
        return parameter.from_free(self.particles[..., self.prior.names.index(name)])

    def mean(self, name: str) -> jax.Array:
        """Posterior mean of a parameter on its natural scale, float ``(P,)``."""
        return jnp.sum(self.weights * self.values(name), axis=1)

    def interval(self, name: str, level: float = 0.9) -> tuple[jax.Array, jax.Array]:
        """Central credible interval of a parameter on its natural scale.

        Args:
            name: A free parameter.
            level: Posterior probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, each float ``(P,)``.

        Raises:
            ValueError: For an unknown name or a level outside (0, 1).
        """
        ends = jax.vmap(_weighted_quantiles, (0, 0, None))(self.values(name), self.weights, tails(level))
        return ends[:, 0], ends[:, 1]

    def predict(self, design: Any = None) -> dict[str, jax.Array]:
        """Posterior predictive: probabilities of the next answer, whoever the person is.

        Args:
            design: Conditions by name; by default those of the likelihood, or the family's own.

        Returns:
            By condition, float ``(P, cells)``.

        Raises:
            ValueError: For a condition that the family does not know.
        """
        if design is None and isinstance(self.likelihood, AnswerLikelihood):
            design = dict(self.likelihood.conditions)
        shape = self.log_weights.shape
        cells = self.people.predict(design)
        return {
            name: jnp.sum(self.weights[..., None] * values.reshape(*shape, -1), axis=1)
            for name, values in cells.items()
        }

    def draw(self, n: int, key: jax.Array) -> ParametricPerson:
        """A population of ``n`` people: one of the P drawn evenly, then a particle of theirs by weight."""
        person_key, particle_key = jax.random.split(key)
        person = jax.random.randint(person_key, (n,), 0, len(self.particles))
        particle = jax.random.categorical(particle_key, self.log_weights[person])
        return self.prior.family.from_free(self.particles[person, particle], **self.prior.options)


def _weighted_quantiles(values: jax.Array, weights: jax.Array, levels: np.ndarray) -> jax.Array:
    order = jnp.argsort(values)
    total = jnp.cumsum(weights[order])
    place = jnp.searchsorted(total, jnp.asarray(levels, total.dtype) * total[-1])
    return values[order][jnp.minimum(place, len(values) - 1)]
