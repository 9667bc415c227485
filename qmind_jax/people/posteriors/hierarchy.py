"""A whole population and each of its people, fitted jointly: NUTS on a hierarchical model.

People are draws from a Gaussian population on the free scale, whose mean, spread and correlations are
unknown; what each person said has the likelihood of :mod:`qmind_jax.people.posteriors.likelihoods`. The
sampler is NUTS with window adaptation, of blackjax. It works on one of two forms of the posterior
(Papaspiliopoulos, Roberts & Sköld 2007): on people themselves ("centred"), which suits people who say
much, or on their standardised distances from the mean ("non-centred"), which has no funnel where people
say little.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.diagnostics import ess_bulk, rhat
from flax import struct

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.intervals import tails
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.posteriors.hyperprior import Hyperprior, Spread
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, Likelihood, RatingLikelihood
from qmind_jax.people.predicting import Design
from qmind_jax.people.ratings.trials import TrustTrials

_TARGET_ACCEPTANCE = 0.9
"""Above blackjax's 0.8: hierarchies need smaller steps than most posteriors."""


@dataclasses.dataclass(frozen=True, eq=False)
class HierarchicalFit:
    """Draws from the joint posterior of a population and its P people: C chains of D draws.

    Attributes:
        hyperprior: What was known before the data; its family and options are those of the people.
        likelihood: How probable what people say is; the noise of ratings is that of :attr:`noise`.
        populations: Mean, spread and correlations on the free scale, leaves with leading axes ``(C, D)``.
        free: Free vectors of the people, float ``(C, D, P, k)``.
        noise: Noise of ratings, float ``(C, D)``; None for answers.
        divergences: Number of draws whose trajectory went astray; more than a few are a warning that parts
            of the posterior were not reached.
    """

    hyperprior: Hyperprior
    likelihood: Likelihood
    populations: Spread
    free: jax.Array
    noise: jax.Array | None
    divergences: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the k free parameters."""
        return self.hyperprior.names

    @property
    def num_people(self) -> int:
        """P, the number of people who gave data."""
        return self.free.shape[2]

    @property
    def correlation(self) -> jax.Array:
        """Correlation matrices of the population, float ``(C, D, k, k)``."""
        factor = self.populations.factor
        return jnp.einsum("...ij,...lj->...il", factor, factor, precision="highest")

    @functools.cached_property
    def r_hat(self) -> dict[str, float]:
        """Rank-normalised split R-hat, the largest of each kind of number; 1 if all chains agree."""
        return {name: float(np.max(jax.jit(rhat)(values))) for name, values in self._monitored().items()}

    @functools.cached_property
    def effective_sample_size(self) -> dict[str, float]:
        """How many independent draws the chains are worth, the smallest of each kind of number."""
        return {name: float(np.min(jax.jit(ess_bulk)(values))) for name, values in self._monitored().items()}

    def _monitored(self) -> dict[str, np.ndarray]:
        below = np.tril_indices(len(self.names), -1)
        kinds = {
            "mean": self.populations.mean,
            "spread": self.populations.spread,
            "correlation": self.correlation[..., below[0], below[1]],
            "people": self.free.reshape(*self.free.shape[:2], -1),
        }
        if self.noise is not None:
            kinds["noise"] = self.noise[..., None]
        # One parameter alone has no correlations.
        return {name: np.asarray(values) for name, values in kinds.items() if values.shape[-1]}

    def person(self, index: int) -> ParametricPerson:
        """The posterior of one person as a population of ``C * D`` draws.

        Raises:
            IndexError: If there is no such person.
        """
        if not -self.num_people <= index < self.num_people:
            raise IndexError(f"person {index} of a population of {self.num_people}")
        free = self.free[:, :, index].reshape(-1, len(self.names))
        return self.hyperprior.family.from_free(free, **dict(self.hyperprior.options))

    def mean(self, name: str) -> jax.Array:
        """Posterior mean of a parameter of each person, on its natural scale, float ``(P,)``."""
        return self._values(name).mean(axis=0)

    def interval(self, name: str, level: float = 0.9) -> tuple[jax.Array, jax.Array]:
        """Central credible interval of a parameter of each person, on its natural scale.

        Args:
            name: A free parameter.
            level: Posterior probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, each float ``(P,)``.

        Raises:
            ValueError: For an unknown name or a level outside (0, 1).
        """
        return _central(self._values(name), level)

    def population_interval(self, name: str, level: float = 0.9) -> tuple[jax.Array, jax.Array]:
        """Central credible interval of the median person's parameter, natural scale, two float scalars.

        Arguments and errors as in :meth:`interval`.
        """
        free = self.populations.mean[..., self._index(name)].reshape(-1)
        return _central(self.hyperprior.family.parameters[name].from_free(free), level)

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f"name must be one of {', '.join(self.names)}, got {name!r}")
        return self.names.index(name)

    def _values(self, name: str) -> jax.Array:
        free = self.free[..., self._index(name)].reshape(-1, self.num_people)
        return self.hyperprior.family.parameters[name].from_free(free)

    def predict(self, design: Design | None = None) -> dict[str, jax.Array]:
        """Posterior predictive of each person's next answer.

        Args:
            design: Conditions by name; by default those of the data, or for ratings the family's own.

        Returns:
            By condition, float ``(P, cells)``.

        Raises:
            ValueError: For a condition that the family does not know.
        """
        if design is None and isinstance(self.likelihood, AnswerLikelihood):
            design = dict(self.likelihood.conditions)
        free = self.free.reshape(-1, len(self.names))
        people = self.hyperprior.family.from_free(free, **dict(self.hyperprior.options))
        return {
            name: cells.reshape(-1, self.num_people, cells.shape[-1]).mean(axis=0)
            for name, cells in people.predict(design).items()
        }

    def draw(self, n: int, key: jax.Array) -> ParametricPerson:
        """``n`` new people, each of a population drawn from the posterior: as uncertain as we are."""
        draw_key, person_key = jax.random.split(key)
        chosen = jax.random.randint(draw_key, (n,), 0, self.populations.mean[..., 0].size)
        population = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[chosen], self.populations)
        standard = jax.random.normal(person_key, population.mean.shape, population.mean.dtype)
        free = jax.vmap(_free)(population, standard)
        return self.hyperprior.family.from_free(free, **dict(self.hyperprior.options))

    @property
    def prior(self) -> GaussianPrior:
        """The prior for one more person: a Gaussian with the mean and the covariance of :meth:`draw`."""
        scaled = self.populations.spread[..., None] * self.populations.factor
        covariance = jnp.einsum("cdij,cdlj->il", scaled, scaled, precision="highest")
        means = self.populations.mean.reshape(-1, len(self.names))
        away = means - means.mean(axis=0)
        between = jnp.einsum("di,dj->ij", away, away, precision="highest")
        return GaussianPrior(
            self.hyperprior.family,
            means.mean(axis=0),
            (covariance + between) / len(means),
            dict(self.hyperprior.options),
        )


def fit_hierarchy(
    hyperprior: Hyperprior,
    data: Mapping[str, Any] | TrustTrials,
    *,
    key: jax.Array,
    design: Design | None = None,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 500,
    centred: bool = False,
) -> HierarchicalFit:
    """Sample the joint posterior of a population and all of its people.

    Args:
        hyperprior: The family, and what is known before the data.
        data: Counts by condition, each ``(people, cells)``; a person without data may have zeros. Or trust
            ratings, whose noise is then unknown, too, and the same for all.
        key: JAX random key.
        design: Conditions of the counts; by default the family's own. Not for ratings.
        chains: Independent chains, at least 2, or their agreement could not be told.
        warmup: Steps of adaptation, at least 100, that are thrown away.
        draws: Draws of each chain, at least 4.
        centred: Which form of the posterior to sample: standardised distances (False), safe where people are
            few or say little, or people themselves (True), which gives several times as many effective draws
            where there are dozens of people with some ten ratings each, but divergences where there are not.

    Raises:
        TypeError: If ``data`` are neither, or a family that does not trust is to explain ratings.
        ValueError: If counts do not fit the design or are none, or a number is too small.
    """
    for name, value, smallest in (("chains", chains, 2), ("warmup", warmup, 100), ("draws", draws, 4)):
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")
    likelihood, heard = likelihood_of(hyperprior, data, design)
    keys = jax.random.split(key, chains)
    sample = sample_hierarchy(hyperprior, likelihood, heard, keys, warmup, draws, centred)
    return HierarchicalFit(
        hyperprior=hyperprior,
        likelihood=likelihood,
        populations=sample.populations,
        free=sample.free,
        noise=sample.noise,
        divergences=int(sample.diverged.sum()),
    )


def likelihood_of(
    hyperprior: Hyperprior, data: Mapping[str, Any] | TrustTrials, design: Design | None
) -> tuple[Likelihood, Any]:
    """The likelihood for the data, and what was heard of each person."""
    if isinstance(data, TrustTrials):
        if design is not None:
            raise ValueError("design is for counts of answers; ratings have none")
        likelihood = RatingLikelihood.of(hyperprior.family, 1.0)
        return likelihood, likelihood.ratings(data)
    likelihood = AnswerLikelihood.of(hyperprior.family, design)
    return likelihood, likelihood.counts(data)


@struct.dataclass
class HierarchyDraws:
    """Draws of C chains, leaves with leading axes ``(C, D)``; see :class:`HierarchicalFit`.

    Attributes:
        populations: Mean, spread and correlations.
        free: Free vectors of the people, ``(C, D, P, k)``.
        noise: Noise of ratings, or None.
        diverged: Whether the trajectory went astray, bool ``(C, D)``.
    """

    populations: Spread
    free: jax.Array
    noise: jax.Array | None
    diverged: jax.Array


def _standard(population: Spread, free: jax.Array) -> jax.Array:
    """The inverse of :func:`_free`, by forward substitution: few steps, and no batches of small solves."""
    away = (free - population.mean) / population.spread
    columns = []
    for i in range(len(population.mean)):
        known = sum((population.factor[i, j] * column for j, column in enumerate(columns)), start=0.0)
        columns.append((away[..., i] - known) / population.factor[i, i])
    return jnp.stack(columns, axis=-1)


def _free(population: Spread, standard: jax.Array) -> jax.Array:
    """Free vectors ``(..., k)`` of people at a standard normal distance ``(..., k)`` from the mean."""
    # Not a matrix product: those of accelerators are of low precision unless told otherwise.
    away = jnp.sum(population.factor * standard[..., None, :], axis=-1)
    return population.mean + population.spread * away


@functools.partial(jax.jit, static_argnames=("warmup", "draws", "centred"))
def sample_hierarchy(
    hyperprior: Hyperprior,
    likelihood: Likelihood,
    heard: Any,
    keys: jax.Array,
    warmup: int,
    draws: int,
    centred: bool = False,
) -> HierarchyDraws:
    """The draws of :func:`fit_hierarchy`, as a pure function that can be mapped over data sets.

    Args:
        hyperprior: The family, and what is known before the data.
        likelihood: From :func:`likelihood_of`.
        heard: What was heard of each person, from there, too.
        keys: One JAX random key per chain.
        warmup: Steps of adaptation.
        draws: Draws of each chain.
        centred: As in :func:`fit_hierarchy`.
    """
    people = len(jax.tree.leaves(heard)[0])
    with_noise = isinstance(likelihood, RatingLikelihood)

    def of_person(likelihood: Likelihood, free: jax.Array, heard: Any) -> jax.Array:
        person = hyperprior.family.from_free(free, **dict(hyperprior.options))
        return likelihood.log_likelihood(person, heard)

    def people_of(position: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Free vectors of the people, and their log-density in the form that is sampled."""
        population = hyperprior.of_position(position)
        if not centred:
            return _free(population, position["people"]), -0.5 * jnp.sum(position["people"] ** 2)
        free = hyperprior.mean + hyperprior.spread_scale * position["people"]
        log_volume = jnp.sum(jnp.log(population.spread) + jnp.log(jnp.diagonal(population.factor)))
        distance = jnp.sum(_standard(population, free) ** 2)
        return free, -0.5 * distance - people * log_volume

    def log_density(position: dict[str, jax.Array]) -> jax.Array:
        free, total = people_of(position)
        total += hyperprior.log_density(position)
        noisy = likelihood
        if with_noise:
            total += hyperprior.log_density_of_noise(position["log_noise"])
            noisy = likelihood.replace(noise=jnp.exp(position["log_noise"]))
        return total + jnp.sum(jax.vmap(of_person, (None, 0, 0))(noisy, free, heard))

    def start(key: jax.Array) -> dict[str, jax.Array]:
        """Somewhere in the bulk of the hyperprior, another place for each chain."""
        k = len(hyperprior.mean)
        center = {
            "mean": jnp.zeros(k),
            "log_spread": jnp.log(0.5 * hyperprior.spread_scale),
            "partial": jnp.zeros(k * (k - 1) // 2),
            "people": jnp.zeros((people, k)),
        }
        if with_noise:
            center["log_noise"] = jnp.log(hyperprior.noise_scale)
        places, tree = jax.tree.flatten(center)
        moved = [
            place + 0.5 * jax.random.normal(part, place.shape, place.dtype)
            for place, part in zip(places, jax.random.split(key, len(places)), strict=True)
        ]
        return jax.tree.unflatten(tree, moved)

    def chain(key: jax.Array) -> HierarchyDraws:
        start_key, warmup_key, draw_key = jax.random.split(key, 3)
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            log_density,
            target_acceptance_rate=_TARGET_ACCEPTANCE,
            adaptation_info_fn=get_filter_adapt_info_fn(),  # keeps nothing
        )
        (state, tuned), _ = adaptation.run(warmup_key, start(start_key), warmup)
        kernel = blackjax.nuts(log_density, **tuned).step

        def step(state: Any, key: jax.Array) -> tuple[Any, HierarchyDraws]:
            state, info = kernel(key, state)
            population = hyperprior.of_position(state.position)
            noise = jnp.exp(state.position["log_noise"]) if with_noise else None
            return state, HierarchyDraws(population, people_of(state.position)[0], noise, info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(draw_key, draws))[1]

    return jax.vmap(chain)(keys)


def _central(values: jax.Array, level: float) -> tuple[jax.Array, jax.Array]:
    """Ends of the central interval over the leading axis."""
    ends = jnp.quantile(values, jnp.asarray(tails(level), values.dtype), axis=0)
    return ends[0], ends[1]
