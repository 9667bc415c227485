"""What tests of posteriors share: people who answer, and the statistics of simulation-based calibration."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood


def answers_of(truth, conditions, key, design=None):
    """Index of the cell of one answer of each person to each of some conditions, ``(T, people)``."""
    likelihood = AnswerLikelihood.of(type(truth), design)
    cells = truth.predict(dict(likelihood.conditions))
    widest = max(likelihood.cells)
    padded = [
        jnp.pad(cells[name], ((0, 0), (0, widest - n)))
        for name, n in zip(likelihood.names, likelihood.cells, strict=True)
    ]
    table = jnp.stack(padded, axis=1)
    return jax.random.categorical(key, jnp.log(table[jnp.arange(len(truth)), conditions]))


def rated(truth, outcomes, noise, key):
    """Ratings of each person before the first and after each outcome, and what happened before each.

    Both of shape ``(people, T + 1)``. Ratings are not cut off at 0 and 1: that would be another likelihood.
    """

    def one_person(person, outcomes):
        people = jax.tree.map(lambda leaf: leaf[None], person)

        def step(trust, success):
            trust = people.after_outcome(trust, 0, success)
            return trust, trust[0]

        first = people.initial_trust(0)
        return jnp.concatenate([first[0][None], jax.lax.scan(step, first, outcomes)[1]])

    trust = 0.5 * (1.0 + jax.vmap(one_person)(truth, outcomes))
    happened = np.concatenate([-np.ones((len(truth), 1), int), np.asarray(outcomes, int)], axis=1)
    return trust + noise * jax.random.normal(key, trust.shape), happened


def uniformity(ranks, bins=10):
    """Chi-square p-value that ranks in [0, 1] are uniform."""
    counts = np.histogram(np.asarray(ranks), bins=bins, range=(0.0, 1.0))[0]
    return scipy.stats.chisquare(counts).pvalue
