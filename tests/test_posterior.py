"""Posteriors of single people: exact where that can be computed, calibrated everywhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import answers_of, rated, uniformity

from qmind_jax.people import (
    AnchoringOrder,
    BayesOrder,
    BetaTrust,
    MarkovTrust,
    QuantumOrder,
    QuantumOrder4D,
    TrustQubit,
)
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.posteriors import resample_move
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, RatingLikelihood
from qmind_jax.people.posteriors.posterior import absorb, start, update, update_rating
from qmind_jax.people.posteriors.sampling import sample_people

KEY = jax.random.key(0)
COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])
TRUST_DESIGN = {"often": ((1, 0, 1, 1), (0, 1, 2, 3)), "late": ((0, 1, 1), (2,))}


def prior_of(family, **options):
    names = family.free_names(**options)
    return GaussianPrior(family, np.linspace(0.2, 0.8, len(names)), 0.8 * np.eye(len(names)), options)


@jax.jit
def hear_answers(posterior, conditions, outcomes):
    """All answers one by one, ``(T, people)``, in one program."""

    def step(posterior, heard):
        return update(posterior, *heard), None

    return jax.lax.scan(step, posterior, (conditions, outcomes))[0]


@jax.jit
def hear_ratings(posterior, ratings, happened):
    """All ratings one by one, ``(people, T)``; not clipped to [0, 1] as the truth is not."""

    def step(posterior, heard):
        return update_rating(posterior, *heard), None

    return jax.lax.scan(step, posterior, (ratings.T, happened.T))[0]


def ranks_of(posterior, truth):
    """By parameter, how much posterior weight lies below the truth, ``(people,)``."""
    return {
        name: jnp.sum(posterior.weights * (posterior.values(name) < getattr(truth, name)[:, None]), axis=1)
        for name in posterior.prior.names
    }


def check_calibration(posterior, truth, least, most):
    """Coverage of 90 % intervals within bounds, and uniform ranks."""
    for name in posterior.prior.names:
        low, high = posterior.interval(name, 0.9)
        covered = float(((low <= getattr(truth, name)) & (getattr(truth, name) <= high)).mean())
        p_value = uniformity(ranks_of(posterior, truth)[name])
        print(f"{type(truth).__name__} {name}: coverage {covered:.3f}, p {p_value:.3f}")
        assert least <= covered <= most, name
        assert p_value > 0.002, name


ANSWERING = {
    "joint distribution": (BayesOrder, {}, None),
    "projective": (QuantumOrder, {"ranks": (1, 2)}, None),
    "four dimensions": (QuantumOrder4D, {}, None),
    "tied anchors": (AnchoringOrder, {"tied": True}, None),
    "qubit": (TrustQubit, {}, TRUST_DESIGN),
}


def calibrate_answers(name, people, answers, particles):
    family, options, design = ANSWERING[name]
    prior = prior_of(family, **options)
    keys = jax.random.split(jax.random.key(7), 4)
    truth = prior.draw(people, keys[0])
    conditions = jax.random.randint(keys[1], (answers, people), 0, 2)
    outcomes = answers_of(truth, conditions, keys[2], design)
    likelihood = AnswerLikelihood.of(family, design)
    posterior = start(prior, keys[3], likelihood=likelihood, people=people, particles=particles)
    return hear_answers(posterior, conditions, outcomes), truth


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERING)
def test_answers_give_calibrated_posteriors_of_400_people(name):
    posterior, truth = calibrate_answers(name, people=400, answers=30, particles=500)
    check_calibration(posterior, truth, 0.85, 0.95)


def test_answers_give_calibrated_posteriors():
    posterior, truth = calibrate_answers("projective", people=120, answers=15, particles=200)
    assert np.all(posterior.effective_sample_size >= 99.9)
    check_calibration(posterior, truth, 0.82, 0.98)


def calibrate_ratings(family, people, trials, particles):
    prior, noise = prior_of(family), 0.08
    keys = jax.random.split(jax.random.key(11), 4)
    truth = prior.draw(people, keys[0])
    outcomes = jax.random.bernoulli(keys[1], 0.6, (people, trials))
    ratings, happened = rated(truth, outcomes, noise, keys[2])
    likelihood = RatingLikelihood.of(family, noise)
    posterior = start(
        prior, keys[3], likelihood=likelihood, people=people, particles=particles, ratings=trials + 1
    )
    return hear_ratings(posterior, ratings, happened), truth


@pytest.mark.slow
@pytest.mark.parametrize("family", [MarkovTrust, BetaTrust, TrustQubit])
def test_ratings_give_calibrated_posteriors_of_400_people(family):
    posterior, truth = calibrate_ratings(family, people=400, trials=12, particles=500)
    check_calibration(posterior, truth, 0.85, 0.95)


def test_ratings_give_calibrated_posteriors():
    posterior, truth = calibrate_ratings(MarkovTrust, people=120, trials=6, particles=200)
    check_calibration(posterior, truth, 0.82, 0.98)


# --- against numbers known otherwise ------------------------------------------------------------------


def exact_mean_of_p0(prior, counts):
    """By integration over a fine grid, of a Markov person asked before anything has changed its trust."""
    free = np.linspace(-20.0, 20.0, 10001)
    p = 1.0 / (1.0 + np.exp(-free))
    log_density = -0.5 * (free - 0.4) ** 2 / 0.9 + counts[0] * np.log(p) + counts[1] * np.log1p(-p)
    weight = np.exp(log_density - log_density.max())
    return (weight * p).sum() / weight.sum()


@pytest.mark.parametrize(
    ("counts", "at_once"),
    [
        ((1, 0), True),
        ((3, 9), False),
        ((400, 100), True),
        ((0, 5000), True),
        ((1_000_000, 0), True),
        ((0, 1_000_000), True),
    ],
)
def test_posterior_means_are_those_of_integration(counts, at_once, precision):
    """Also of up to a million answers that arrive at once, far in the tail of the prior."""
    prior = GaussianPrior(MarkovTrust, [0.4], [[0.9]], {"up": 0.0, "down": 0.0})
    likelihood = AnswerLikelihood.of(MarkovTrust, {"now": ((1,), (0,))})
    posterior = start(prior, KEY, likelihood=likelihood, people=20, particles=1000)
    news = counts if at_once else [1] * sum(counts)
    outcomes = range(2) if at_once else [0] * counts[0] + [1] * counts[1]
    for outcome, count in zip(outcomes, news, strict=True):
        posterior = update(posterior, "now", outcome, count)
    exact = exact_mean_of_p0(prior, counts)
    spread = float(posterior.values("p0").std(axis=1).mean())
    assert float(posterior.mean("p0").mean()) == pytest.approx(exact, abs=0.05 * spread + 1e-6)
    np.testing.assert_allclose(posterior.mean("p0"), exact, atol=0.35 * spread + 1e-6)
    np.testing.assert_allclose(posterior.predict()["now"][:, 0], posterior.mean("p0"), rtol=1e-5, atol=1e-7)


def test_a_million_equal_answers_convince_every_cloud():
    """The mean of p_a is that of integration over a grid in double precision."""
    prior = GaussianPrior(BayesOrder, np.zeros(3), np.eye(3))
    posterior = update(start(prior, KEY, people=4, particles=500), "AB", 0, 1_000_000)
    np.testing.assert_allclose(1.0 - posterior.mean("p_a"), 1.82e-5, rtol=0.3)
    assert np.all(posterior.effective_sample_size >= 249.9)


def test_the_order_of_answers_and_their_number_per_update_make_no_difference():
    prior = prior_of(BayesOrder)
    one_by_one = start(prior, KEY, people=30, particles=2000)
    at_once = one_by_one
    for condition, outcome, count in (("AB", 0, 4), ("BA", 1, 3), ("AB", 3, 2)):
        at_once = update(at_once, condition, outcome, count)
    for condition, outcome in (("AB", 3), ("BA", 1), ("AB", 0)) * 2 + (("AB", 0), ("BA", 1), ("AB", 0)):
        one_by_one = update(one_by_one, condition, outcome)
    np.testing.assert_array_equal(one_by_one.heard, at_once.heard)
    for name in prior.names:
        difference = one_by_one.mean(name).mean() - at_once.mean(name).mean()
        assert abs(float(difference)) < 0.005, name


def test_log_likelihoods_in_the_state_are_those_of_its_particles():
    posterior = start(prior_of(QuantumOrder, ranks=(2, 1)), KEY, people=3, particles=50)
    for condition, outcome in (("AB", 0), ("BA", 3), ("AB", 1), ("AB", 1)):
        posterior = update(posterior, condition, outcome)
    cells = posterior.people.predict()
    table = jnp.stack([cells["AB"], cells["BA"]], axis=1).reshape(3, 50, 2, 4)
    expected = jnp.sum(posterior.heard[:, None] * jnp.log(jnp.maximum(table, 1e-12)), axis=(2, 3))
    np.testing.assert_allclose(posterior.log_likelihood, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(posterior.weights.sum(axis=1), 1.0, rtol=1e-5)


def test_jit_and_scan_give_what_single_updates_give():
    posterior = start(prior_of(BayesOrder), KEY, people=5, particles=50)
    conditions, outcomes = np.random.default_rng(0).integers(0, [[[2]], [[4]]], (2, 6, 5))
    scanned = hear_answers(posterior, conditions, outcomes)
    for condition, outcome in zip(conditions, outcomes, strict=True):
        posterior = update(posterior, condition, outcome)
    np.testing.assert_array_equal(scanned.heard, posterior.heard)
    np.testing.assert_allclose(scanned.mean("rho"), posterior.mean("rho"), atol=0.05)


def test_people_who_are_silent_stay_as_they_are():
    before = start(prior_of(BayesOrder), KEY, people=3, particles=50)
    after = update(before, "AB", [0, 1, 2], [0, 40, 0])
    for silent in (0, 2):
        np.testing.assert_array_equal(after.particles[silent], before.particles[silent])
        np.testing.assert_array_equal(after.log_weights[silent], before.log_weights[silent])
    assert not np.array_equal(after.particles[1], before.particles[1])
    assert after.heard[1, 0, 1] == 40


@pytest.mark.parametrize(("condition", "outcome"), [(0, -1), (0, 4), (-1, 0), (2, 0)])
def test_indices_out_of_range_are_no_answers_under_jit(beliefs, condition, outcome):
    after = jax.jit(update)(beliefs, jnp.array(condition), jnp.array(outcome))
    np.testing.assert_array_equal(after.heard, 0.0)
    np.testing.assert_array_equal(after.particles, beliefs.particles)


@pytest.mark.parametrize("count", [np.nan, np.inf])
def test_counts_that_are_not_finite_are_no_news_under_jit(count):
    before = start(prior_of(BayesOrder), KEY, people=2, particles=20)
    after = jax.jit(lambda counts: update(before, "AB", 0, counts))(jnp.array([count, 1.0]))
    np.testing.assert_array_equal(after.particles[0], before.particles[0])
    np.testing.assert_allclose(after.log_weights[0], before.log_weights[0], atol=1e-6)
    np.testing.assert_array_equal(after.heard[:, 0], [[0, 0, 0, 0], [1, 0, 0, 0]])
    assert np.all(np.isfinite(update(after, "AB", 0).mean("p_a")))


def test_ratings_that_are_not_finite_are_no_news_under_jit():
    likelihood = RatingLikelihood.of(MarkovTrust, 0.1)
    before = start(prior_of(MarkovTrust), KEY, likelihood=likelihood, people=2, particles=20, ratings=2)
    after = jax.jit(update_rating)(before, jnp.array([jnp.nan, 0.5]))
    np.testing.assert_array_equal(after.heard.length, [0, 1])
    np.testing.assert_array_equal(after.mean("p0")[0], before.mean("p0")[0])
    assert np.all(np.isfinite(after.mean("p0")))


def test_news_that_take_too_many_rounds_are_let_in_at_once(monkeypatch):
    monkeypatch.setattr(resample_move, "_MOST_ROUNDS", 2)
    # No other test has as many particles: what is compiled here has the bound of here.
    posterior = update(start(prior_of(BayesOrder), KEY, people=2, particles=31), "AB", 0, 1_000_000)
    np.testing.assert_array_equal(posterior.heard[:, 0, 0], 1_000_000)
    p = posterior.people.predict()["AB"][:, 0].reshape(2, 31)
    np.testing.assert_allclose(posterior.log_likelihood, 1e6 * jnp.log(p), rtol=1e-4)
    assert np.all(posterior.effective_sample_size < 3.0), "the cloud shows that it could not follow"


def test_more_people_than_a_group_are_all_served():
    posterior = start(prior_of(BayesOrder), KEY, people=150, particles=20)
    posterior = update(posterior, "AB", np.arange(150) % 4, 30)
    assert np.all(posterior.effective_sample_size >= 9.99)
    predicted = posterior.predict()["AB"]
    np.testing.assert_array_equal(np.argmax(predicted, axis=1), np.arange(150) % 4)


def test_posteriors_are_sources_of_people():
    posterior = start(prior_of(QuantumOrder, ranks=(1, 2)), KEY, people=2, particles=100)
    posterior = update(posterior, "AB", [0, 3], 50)
    people = sample_people(posterior, 2000, KEY)
    assert people.ranks == (1, 2) and len(people) == 2000
    expected = posterior.predict()["AB"].mean(axis=0)
    np.testing.assert_allclose(people.predict()["AB"].mean(axis=0), expected, atol=0.05)


def test_ratings_of_few_and_many_are_the_likelihood_of_one():
    """A rating of somebody counts for them alone, and nobody's room runs out unnoticed."""
    likelihood = RatingLikelihood.of(MarkovTrust, 0.1)
    prior = prior_of(MarkovTrust)
    posterior = start(prior, KEY, likelihood=likelihood, people=2, particles=500, ratings=2)
    posterior = update_rating(posterior, [0.1, 0.9])
    posterior = update_rating(posterior, [0.4, 0.5], [1, 0])
    assert posterior.mean("p0")[0] < 0.25 < 0.75 < posterior.mean("p0")[1]
    person = posterior.people[0]
    trust = np.array([person.p0, person.p0 + (1.0 - person.p0) * person.up])
    normal = -0.5 * ((trust - [0.1, 0.4]) / 0.1) ** 2 - np.log(0.1 * np.sqrt(2.0 * np.pi))
    np.testing.assert_allclose(posterior.log_likelihood[0, 0], normal.sum(), rtol=1e-4)
    with pytest.raises(ValueError, match="room for 2 ratings"):
        update_rating(posterior, 0.5, 1)


# --- bad input -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def beliefs():
    return start(prior_of(BayesOrder), KEY, people=2, particles=20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("AC", 0), "unknown condition 'AC'.*Did you mean"),
        ((2, 0), r"condition must hold integers from 0 to 1, got 2"),
        (("AB", 4), r"outcome must hold integers from 0 to 3, got 4"),
        (("AB", -1), r"outcome must hold integers from 0 to 3, got -1"),
        (("AB", 0.5), r"outcome must hold integers from 0 to 3, got 0.5"),
        (("AB", 0, -1), "count must hold integers of at least 0, got -1"),
        (("AB", 0, 0.5), "count must hold integers of at least 0, got 0.5"),
        (("AB", 0, np.nan), "count must hold integers of at least 0, got nan"),
        (("AB", [0, 1, 2]), r"outcome must be a scalar or of shape \(2,\)"),
    ],
)
def test_bad_answers_are_refused(beliefs, arguments, message):
    with pytest.raises(ValueError, match=message):
        update(beliefs, *arguments)


@settings(max_examples=15)
@given(st.floats().filter(lambda value: not 0.0 <= value <= 1.0))
def test_bad_ratings_are_refused(rating):
    likelihood = RatingLikelihood.of(BetaTrust, 0.1)
    with pytest.raises(ValueError, match=r"rating must lie in \[0, 1\]"):
        likelihood.add(likelihood.nothing(1, 3), rating)


def test_a_cell_that_another_condition_has_is_refused():
    posterior = start(
        prior_of(TrustQubit), KEY, likelihood=AnswerLikelihood.of(TrustQubit, TRUST_DESIGN), particles=10
    )
    with pytest.raises(ValueError, match="outcome must lie in 0 to 1 for condition 'late', got 2"):
        update(posterior, "late", 2)


def test_other_bad_arguments_are_refused(beliefs):
    prior = prior_of(BayesOrder)
    for name in ("people", "particles", "ratings"):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            start(prior, KEY, **{name: 0})
    with pytest.raises(TypeError, match="likelihood must be"):
        start(prior, KEY, likelihood="answers")
    for likelihood in (RatingLikelihood.of(MarkovTrust, 0.1), AnswerLikelihood.of(MarkovTrust)):
        with pytest.raises(TypeError, match="prior's family BayesOrder, got one of MarkovTrust"):
            start(prior, KEY, likelihood=likelihood)
    with pytest.raises(TypeError, match="people who trust"):
        RatingLikelihood.of(BayesOrder, 0.1)
    for noise in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="noise must be a positive finite number"):
            RatingLikelihood.of(BetaTrust, noise)
    with pytest.raises(TypeError, match="update_rating is for ratings"):
        update_rating(beliefs, 0.5)
    ratings = start(prior_of(BetaTrust), KEY, likelihood=RatingLikelihood.of(BetaTrust, 0.1), particles=10)
    with pytest.raises(TypeError, match="update is for answers"):
        update(ratings, 0, 0)
    for rating in ("a", None, 0.5j):
        with pytest.raises(TypeError, match=r"rating must hold numbers in \[0, 1\], got"):
            update_rating(ratings, rating)
    with pytest.raises(ValueError, match="happened must be"):
        update_rating(ratings, 0.5, 2)
    for resample_below in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match=r"resample_below must lie in \(0, 1\)"):
            absorb(beliefs, beliefs.heard, resample_below=resample_below)
    with pytest.raises(ValueError, match="moves must be at least 1"):
        absorb(beliefs, beliefs.heard, moves=0)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
        beliefs.interval("rho", 1.0)
    with pytest.raises(ValueError, match="name must be one of p_a, p_b, rho"):
        beliefs.mean("p_c")


def test_tables_of_counts_are_checked():
    likelihood = AnswerLikelihood.of(BayesOrder)
    good = {"AB": np.ones((2, 4)), "BA": np.zeros((2, 4))}
    np.testing.assert_array_equal(likelihood.counts(good)[:, 0], 1.0)
    for wrong, message in (
        ({"AB": good["AB"]}, "'BA' is missing"),
        (good | {"BA": np.ones((3, 4))}, "same people"),
        (good | {"BA": -good["AB"]}, "whole numbers"),
        (good | {"BA": 0.5 * good["AB"]}, "whole numbers"),
        (good | {"BA": np.ones((2, 3))}, r"shape \(people, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            likelihood.counts(wrong)
