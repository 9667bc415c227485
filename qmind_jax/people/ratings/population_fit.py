"""How people differ in their trust, fitted to ratings: empirical Bayes, all participants at once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.ratings.distribution import TrustDistribution
from qmind_jax.people.ratings.estimates import (
    Estimates,
    RatedCourse,
    estimate,
    rated_courses,
    scattered_starts,
)
from qmind_jax.people.ratings.fit import TrustFamily, check_trust_family, fit_trust_family
from qmind_jax.people.ratings.trials import TrustTrials
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustQubit

_ROUNDS = 200
_STEPS = 4
_SMALLEST_NOISE = 0.005
_SPREAD = 0.5
_FARTHEST_START = 4.0


@dataclasses.dataclass(frozen=True, eq=False)
class TrustPopulationFit(TrustDistribution):
    """A distribution of people fitted to ratings, and the participants as it sees them.

    Attributes:
        prior: See :class:`TrustDistribution`, as for ``noise``.
        noise: See above.
        free_estimates: Most probable free parameters of each participant, float ``(P, k)``.
        free_uncertainty: Covariance of what the ratings leave open about each participant, float
            ``(P, k, k)``.
        log_evidence: Log probability of all ratings with the participants' parameters integrated out
            (Laplace's approximation): comparable between families fitted to the same ratings.
        num_ratings: Number of ratings fitted, the first one of each participant included.
    """

    free_estimates: jax.Array
    free_uncertainty: jax.Array
    log_evidence: float
    num_ratings: int

    @property
    def estimates(self) -> TrustQubit | MarkovTrust | BetaTrust:
        """The participants as a population, in their order."""
        return self.prior.family.from_free(self.free_estimates)


def fit_trust_population(trials: TrustTrials, family: TrustFamily) -> TrustPopulationFit:
    """Fit how people of one family differ, and each participant with it (partial pooling).

    Every participant has free parameters of their own, initial trust among them, drawn from one normal
    distribution; ratings scatter normally around trust. Mean, covariance and noise maximise the
    probability of the ratings: expectation maximisation with Laplace's approximation of each participant,
    starting from the least-squares fit of :func:`fit_trust_family`. Deterministic.

    The covariance is estimated as if one more participant lay half a unit from the mean in every
    direction, which keeps it invertible where the ratings say nothing about a spread; the noise is kept
    above .005, the rounding of a scale of 100 steps.

    Args:
        trials: Ratings, as :func:`fit_trust_family` needs them, of at least two participants.
        family: ``"beta"``, ``"markov"`` or ``"qubit"``.

    Raises:
        ValueError: For an unknown family, a single participant, or trials that cannot determine the
            parameters.
    """
    check_trust_family(family)
    if trials.num_participants < 2:
        raise ValueError(
            f"trials must hold at least two participants to tell how people differ, got "
            f"{trials.num_participants}"
        )
    shared = fit_trust_family(trials, family).people(trials.first_ratings.mean(keepdims=True))
    # From the very end of a range no step leads away, as trust does not change there.
    start = jnp.clip(shared.to_free()[0], -_FARTHEST_START, _FARTHEST_START)
    prior, variance, people = _maximise(type(shared), start, rated_courses(trials))
    return TrustPopulationFit(
        prior=prior,
        noise=float(jnp.sqrt(variance)),
        free_estimates=people.free,
        free_uncertainty=people.covariance,
        log_evidence=float(people.log_evidence.sum()),
        num_ratings=trials.num_ratings + trials.num_participants,
    )


@functools.partial(jax.jit, static_argnames="family")
def _maximise(
    family: type[TrustQubit | MarkovTrust | BetaTrust], start: jax.Array, courses: RatedCourse
) -> tuple[GaussianPrior, jax.Array, Estimates]:
    """Expectation maximisation: in each round first the participants, then the population."""
    num_people, size = len(courses.ratings), len(start)

    def everybody(prior: GaussianPrior, variance: jax.Array, free: jax.Array, turn: jax.Array) -> Estimates:
        # From where each was, and from another place in each round.
        others = scattered_starts(prior)
        other = others[turn % len(others)]

        def one_person(free: jax.Array, course: RatedCourse) -> Estimates:
            return estimate(prior, variance, jnp.stack([free, other]), course, steps=_STEPS)

        return jax.vmap(one_person)(free, courses)

    def one_round(carry: tuple, turn: jax.Array) -> tuple[tuple, None]:
        people = everybody(*carry, turn)
        mean = people.free.mean(axis=0)
        away = people.free - mean
        scatter = away.T @ away + people.covariance.sum(axis=0) + _SPREAD**2 * jnp.eye(size)
        prior = GaussianPrior(family, mean, scatter / (num_people + 1))
        variance = (people.squared_error + people.rating_uncertainty).sum() / courses.seen.sum()
        return (prior, jnp.maximum(variance, _SMALLEST_NOISE**2), people.free), None

    prior = GaussianPrior(family, start, jnp.eye(size))
    variance = jnp.asarray(0.01, start.dtype)
    free = jnp.broadcast_to(start, (num_people, size))
    rounds = jnp.arange(_ROUNDS)
    (prior, variance, free), _ = jax.lax.scan(one_round, (prior, variance, free), rounds)
    return prior, variance, everybody(prior, variance, free, rounds[0])
