"""What the ratings of one person tell about this person, given how people differ."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.ratings.distribution import TrustDistribution
from qmind_jax.people.ratings.trials import TrustTrials
from qmind_jax.people.trust import p_trust, trust_after

_STEPS = 30
"""Steps from each start to a person's estimate; most people need fewer than ten."""


class Estimates(NamedTuple):
    """Estimates of P people on the free scale; without the axis P, of one.

    Attributes:
        free: Most probable parameters given the ratings, ``(P, k)``.
        covariance: Their uncertainty (Laplace's approximation), ``(P, k, k)``.
        squared_error: Sum of the squared distances of the ratings from trust, ``(P,)``.
        rating_uncertainty: Sum over ratings of the variance of trust that :attr:`covariance` implies,
            ``(P,)``.
        log_evidence: Log probability of the ratings, the person's parameters integrated out by
            Laplace's approximation, ``(P,)``.
    """

    free: jax.Array
    covariance: jax.Array
    squared_error: jax.Array
    rating_uncertainty: jax.Array
    log_evidence: jax.Array


class RatedCourse(NamedTuple):
    """Ratings of one person, or with a leading axis of several, as one row.

    Attributes:
        ratings: The first ``trust_before``, then every ``trust_after``, ``(T + 1,)``.
        robot_correct: bool ``(T,)``.
        seen: 1 where a rating counts, 0 where it is missing or lies ahead, ``(T + 1,)``.
    """

    ratings: jax.Array
    robot_correct: jax.Array
    seen: jax.Array


def rated_courses(trials: TrustTrials) -> RatedCourse:
    """The ratings of all participants, with everything that was observed as seen."""
    first = jnp.ones((trials.num_participants, 1), bool)
    seen = jnp.concatenate([first, trials.observed], axis=1).astype(trials.trust_after.dtype)
    ratings = jnp.concatenate([trials.first_ratings[:, None], trials.trust_after], axis=1)
    return RatedCourse(ratings, trials.robot_correct, seen)


def estimate_people(distribution: TrustDistribution, trials: TrustTrials) -> Estimates:
    """The most probable parameters of each participant, and how sure they are.

    A person's free parameters are normal as in the distribution, ratings scatter normally around the trust
    that they and the robot's outcomes imply. People with few or uninformative ratings stay near the mean
    of the population. Giving a rating leaves no trace, unlike an answer.

    Args:
        distribution: How people differ.
        trials: Ratings.
    """
    return _estimate_people(distribution.prior, distribution.noise**2, rated_courses(trials))


def predict_next(distribution: TrustDistribution, trials: TrustTrials) -> jax.Array:
    """Every ``trust_after`` as predicted from the ratings and outcomes of this person before it.

    Before a trial the person's first rating and the ratings of the earlier trials are known, and the
    robot's outcomes up to and including this trial.

    Args:
        distribution: How people differ, from other people's ratings.
        trials: Ratings.

    Returns:
        Predicted trust, float in [0, 1], shape ``(P, T)``.
    """
    return _predict_next(distribution.prior, distribution.noise**2, rated_courses(trials))


@jax.jit
def _estimate_people(prior: GaussianPrior, variance: jax.Array, courses: RatedCourse) -> Estimates:
    one_person = functools.partial(estimate, prior, variance, scattered_starts(prior), steps=_STEPS)
    return jax.vmap(one_person)(courses)


@jax.jit
def _predict_next(prior: GaussianPrior, variance: jax.Array, courses: RatedCourse) -> jax.Array:
    num_ratings = courses.ratings.shape[1]
    starts = scattered_starts(prior)

    def predict_trial(trial: jax.Array) -> jax.Array:
        def prediction(course: RatedCourse) -> jax.Array:
            known = course._replace(seen=course.seen * (jnp.arange(num_ratings) <= trial))
            reached = estimate(prior, variance, starts, known, steps=_STEPS)
            return trust_course(prior.family, reached.free, course.robot_correct)[trial + 1]

        return jax.vmap(prediction)(courses)

    # One trial after another: all at once, long courses of many people would need gigabytes.
    return jax.lax.map(predict_trial, jnp.arange(num_ratings - 1)).T


def trust_course(family: type[ParametricPerson], free: jax.Array, robot_correct: jax.Array) -> jax.Array:
    """Trust of one person before anything and after each outcome, nobody asked; ``(T + 1,)``."""
    person = family.from_free(free[None])
    return jnp.concatenate([p_trust(person.initial_trust(0))[None], trust_after(person, robot_correct)])


def scattered_starts(prior: GaussianPrior) -> jax.Array:
    """The mean, and people on both sides of it in every parameter, ``(2 k + 1, k)``.

    The same ratings of a qubit may come from either side of a pole: one start would not find both.
    """
    away = 1.5 * prior.covariance / jnp.sqrt(jnp.diagonal(prior.covariance))
    return prior.mean + jnp.concatenate([jnp.zeros_like(away[:1]), away.T, -away.T])


def estimate(
    prior: GaussianPrior, variance: jax.Array, starts: jax.Array, course: RatedCourse, *, steps: int
) -> Estimates:
    """Estimate of one person: the best that a few damped Gauss-Newton steps reach from some starts.

    A step that makes things worse is not taken and the next one is shorter: the estimate is never less
    probable than a start, and always finite.

    Args:
        prior: How people differ.
        variance: Of ratings around trust.
        starts: Free parameters ``(starts, k)``.
        course: The person's ratings.
        steps: Number of steps from each start.
    """
    precision = jnp.linalg.inv(prior.covariance)

    def trust_of(free: jax.Array) -> jax.Array:
        return trust_course(prior.family, free, course.robot_correct)

    def errors(free: jax.Array) -> jax.Array:
        return (course.ratings - trust_of(free)) * course.seen

    def improbability(free: jax.Array) -> jax.Array:
        away = free - prior.mean
        return 0.5 * jnp.sum(errors(free) ** 2) / variance + 0.5 * away @ precision @ away

    def slopes(free: jax.Array) -> jax.Array:
        return jax.jacfwd(trust_of)(free) * course.seen[:, None]

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        free, damping, value = carry
        jacobian = slopes(free)
        downhill = jacobian.T @ errors(free) / variance - precision @ (free - prior.mean)
        shortened = prior.covariance / (1.0 + damping)
        moved = free + _after_ratings(shortened, jacobian, variance)[0] @ downhill
        moved_value = improbability(moved)
        better = moved_value < value
        damping = jnp.where(better, 0.3 * damping, jnp.minimum(4.0 * damping + 1e-3, 1e4))
        return (jnp.where(better, moved, free), damping, jnp.where(better, moved_value, value)), None

    def descend(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        damping = jnp.asarray(0.01, start.dtype)
        (free, _, value), _ = jax.lax.scan(step, (start, damping, improbability(start)), length=steps)
        return free, value

    reached, values = jax.vmap(descend)(starts)
    best = jnp.argmin(values)
    free, value = reached[best], values[best]
    jacobian = slopes(free)
    covariance, log_shrinkage = _after_ratings(prior.covariance, jacobian, variance)
    return Estimates(
        free=free,
        covariance=covariance,
        squared_error=jnp.sum(errors(free) ** 2),
        rating_uncertainty=jnp.sum((jacobian @ covariance) * jacobian),
        log_evidence=0.5 * log_shrinkage - value - 0.5 * course.seen.sum() * jnp.log(2.0 * np.pi * variance),
    )


def _after_ratings(
    covariance: jax.Array, jacobian: jax.Array, variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Covariance after ratings of these slopes, and the logarithm of how much its determinant shrank."""

    # One rating at a time (Kalman's update) needs no factorisation: batches of those can stop for ever on
    # small CPUs.
    def update(covariance: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
        gain = covariance @ slope
        total = variance + slope @ gain
        return covariance - jnp.outer(gain, gain) / total, jnp.log(variance / total)

    covariance, log_shrinkages = jax.lax.scan(update, covariance, jacobian)
    return covariance, log_shrinkages.sum()
