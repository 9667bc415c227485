"""What is known of single people, updated answer by answer: sequential Monte Carlo for many at once.

Every person is a cloud of weighted particles on the free scale;
:mod:`qmind_jax.people.posteriors.resample_move` says how an answer changes it. The functions are pure and
the shapes fixed: ``update`` works under ``jit`` and in a ``scan`` over answers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, Likelihood, RatingLikelihood
from qmind_jax.people.posteriors.particle_clouds import Posterior
from qmind_jax.people.posteriors.resample_move import let_in_news


def start(
    prior: GaussianPrior,
    key: jax.Array,
    *,
    likelihood: Likelihood | None = None,
    people: int = 1,
    particles: int = 500,
    ratings: int = 100,
) -> Posterior:
    """Beliefs about people who have said nothing yet: particles from the prior.

    Args:
        prior: What is known of each person.
        key: JAX random key, of these particles and all later updates.
        likelihood: An ``AnswerLikelihood`` (by default that of the family's default design) or a
            ``RatingLikelihood``.
        people: P, at least 1.
        particles: N, at least 10.
        ratings: Room for ratings of each person, at least 1; counts of answers need none.

    Raises:
        ValueError: If a number is too small.
        TypeError: If the likelihood is none or that of another family, or the family predicts no answers.
    """
    for name, value, smallest in (
        ("people", people, 1),
        ("particles", particles, 10),
        ("ratings", ratings, 1),
    ):
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")
    likelihood = AnswerLikelihood.of(prior.family) if likelihood is None else likelihood
    if isinstance(likelihood, RatingLikelihood):
        heard = likelihood.nothing(people, ratings)
    elif isinstance(likelihood, AnswerLikelihood):
        heard = likelihood.nothing(people)
    else:
        raise TypeError(f"likelihood must be an AnswerLikelihood or a RatingLikelihood, got {likelihood!r}")
    if likelihood.family is not prior.family:
        raise TypeError(
            f"likelihood must be that of the prior's family {prior.family.__name__}, "
            f"got one of {likelihood.family.__name__}"
        )
    particle_key, next_key = jax.random.split(key)
    free = prior.draw_free(people * particles, particle_key).reshape(people, particles, -1)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        heard=heard,
        particles=free,
        log_weights=jnp.full((people, particles), -np.log(particles), free.dtype),
        log_likelihood=jnp.zeros((people, particles), free.dtype),
        key=next_key,
    )


def update(
    posterior: Posterior,
    condition: Any,
    outcome: Any,
    count: Any = 1,
    *,
    resample_below: float = 0.5,
    moves: int = 3,
) -> Posterior:
    """Beliefs after one more answer of every person, or ``count`` equal ones.

    Args:
        posterior: Beliefs before, with an ``AnswerLikelihood``.
        condition: Name or index of the condition, one for all or ``(P,)`` indices.
        outcome: Index of the cell that the answer fell into, one for all or ``(P,)``.
        count: Number of such answers, at least 0, one for all or ``(P,)``; 0 for who is silent. Beyond some
            million answers of a person, single precision rounds away what they tell: use double.
        resample_below: Fraction of N, in (0, 1): with fewer effective particles they are resampled and moved.
        moves: Metropolis steps of each particle at every move, at least 1.

    Raises:
        TypeError: If the posterior is one of ratings.
        ValueError: If an argument is out of range or of another number of people. Under ``jit`` arrays are
            not checked; an index out of range or a count that is not finite then adds no answer.
    """
    if not isinstance(posterior.likelihood, AnswerLikelihood):
        raise TypeError("update is for answers; update_rating takes ratings of trust")
    heard = posterior.likelihood.add(posterior.heard, condition, outcome, count)
    return absorb(posterior, heard, resample_below=resample_below, moves=moves)


def update_rating(
    posterior: Posterior,
    rating: Any,
    happened: Any = -1,
    *,
    resample_below: float = 0.5,
    moves: int = 3,
) -> Posterior:
    """Beliefs after one more rating of trust of every person.

    Args:
        posterior: Beliefs before, with a ``RatingLikelihood``.
        rating: Trust in [0, 1], one for all or ``(P,)``.
        happened: What the robot did since the rating before: 1 a success, 0 a failure, -1 nothing, as before
            the first trial; one for all or ``(P,)``.
        resample_below: As in :func:`update`.
        moves: As in :func:`update`.

    Raises:
        TypeError: If the posterior is one of answers, or a rating is no number.
        ValueError: If an argument is out of range or of another number of people, or there is no room for
            more ratings. Under ``jit`` arrays are not checked; a rating that is not finite is then no news.
    """
    if not isinstance(posterior.likelihood, RatingLikelihood):
        raise TypeError("update_rating is for ratings of trust; update takes answers")
    heard = posterior.likelihood.add(posterior.heard, rating, happened)
    return absorb(posterior, heard, resample_below=resample_below, moves=moves)


def absorb(posterior: Posterior, heard: Any, *, resample_below: float = 0.5, moves: int = 3) -> Posterior:
    """Beliefs after everything in ``heard``, which holds what was heard before and any amount of news.

    News of a person under which no particle has a finite log-likelihood, such as NaN, are no news: what was
    heard before and what is believed stay as they are.

    Args:
        posterior: Beliefs before.
        heard: Made from ``posterior.heard`` by the ``add`` of its likelihood.
        resample_below: As in :func:`update`.
        moves: As in :func:`update`.

    Raises:
        ValueError: If ``resample_below`` or ``moves`` is out of range.
    """
    if not 0.0 < resample_below < 1.0:
        raise ValueError(f"resample_below must lie in (0, 1), got {resample_below}")
    if moves < 1:
        raise ValueError(f"moves must be at least 1, got {moves}")
    return let_in_news(posterior, heard, resample_below * posterior.log_weights.shape[1], moves)
