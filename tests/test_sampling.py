"""Priors over people, populations drawn from every kind of source, and populations divided."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmind_jax.people import (
    AnchoringOrder,
    BayesOrder,
    BetaTrust,
    MarkovTrust,
    QuantumOrder,
    SaturatedOrder,
    TrustQubit,
    default_domain,
)
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.posteriors.sampling import sample_people, split
from qmind_jax.people.variation import vary_states

KEY = jax.random.key(0)
COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])


def fields_of(people):
    return np.concatenate([np.asarray(leaf).reshape(len(people), -1) for leaf in jax.tree.leaves(people)], 1)


# --- Gaussian priors ---------------------------------------------------------------------------------


def test_the_density_is_that_of_a_normal_distribution(precision):
    prior = GaussianPrior(MarkovTrust, [0.1, -0.5, 2.0], COVARIANCE)
    free = np.random.default_rng(0).normal(size=(4, 5, 3))
    expected = jax.scipy.stats.multivariate_normal.logpdf(free, prior.mean, prior.covariance)
    np.testing.assert_allclose(prior.log_density(free), expected, atol=100 * precision.tolerance)


def test_draws_have_the_mean_the_covariance_and_the_options():
    prior = GaussianPrior(QuantumOrder, [0.1, -0.5, 2.0], COVARIANCE, {"ranks": (1, 2)})
    people = prior.draw(20_000, KEY)
    assert people.ranks == (1, 2) and len(people) == 20_000
    np.testing.assert_allclose(people.to_free().mean(axis=0), prior.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(people.to_free().T), COVARIANCE, atol=0.03)


def test_a_prior_of_drawn_people_is_the_prior_they_were_drawn_from():
    prior = GaussianPrior(MarkovTrust, [0.1, -0.5, 2.0], COVARIANCE)
    again = GaussianPrior.from_people(prior.draw(20_000, KEY), shrink=0.0)
    np.testing.assert_allclose(again.mean, prior.mean, atol=0.03)
    np.testing.assert_allclose(again.covariance, COVARIANCE, atol=0.05)
    shrunk = GaussianPrior.from_people(prior.draw(2, KEY), shrink=0.5)
    assert np.linalg.eigvalsh(shrunk.covariance)[0] >= 0.5 - 1e-5


def test_a_prior_of_fits_keeps_what_they_held():
    free = np.random.default_rng(0).normal(size=(20, 2))
    options = {"p0": 0.25}
    people = MarkovTrust.from_free(free, **options)
    group = SimpleNamespace(people=people, free=free, options=options)
    single = [
        SimpleNamespace(person=person, free=row, options=options)
        for person, row in zip(people, free, strict=True)
    ]
    for fits in (group, single):
        prior = GaussianPrior.from_fits(fits, shrink=0.1)
        assert prior.names == ("up", "down")
        np.testing.assert_allclose(prior.covariance, np.cov(free.T) + 0.1 * np.eye(2), atol=1e-5)
        np.testing.assert_allclose(prior.draw(5, KEY).p0, 0.25)


def test_priors_pass_through_jit_and_vmap():
    prior = GaussianPrior(QuantumOrder, np.zeros(3), COVARIANCE, {"ranks": (2, 2)})
    assert jax.jit(lambda p, key: p.draw(3, key))(prior, KEY).ranks == (2, 2)
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), prior)
    densities = jax.vmap(lambda p: p.log_density(jnp.ones(3)))(several)
    np.testing.assert_allclose(densities, prior.log_density(jnp.ones(3)), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((MarkovTrust, np.zeros(2), COVARIANCE), ValueError, r"mean must have shape \(3,\)"),
        ((MarkovTrust, np.zeros(3), np.eye(2)), ValueError, r"covariance \(3, 3\)"),
        ((MarkovTrust, [0, 0, np.nan], COVARIANCE), ValueError, "mean must be finite"),
        ((MarkovTrust, np.zeros(3), np.full((3, 3), np.inf)), ValueError, "covariance must be finite"),
        ((MarkovTrust, np.zeros(3), np.triu(np.ones((3, 3)))), ValueError, "must be symmetric"),
        ((MarkovTrust, np.zeros(3), -np.eye(3)), ValueError, "smallest eigenvalue is -1"),
        ((MarkovTrust, np.zeros(3), COVARIANCE, {"upp": 1}), TypeError, "Did you mean 'up'"),
        ((MarkovTrust, np.zeros(2), np.eye(2), {"up": [0.5]}), TypeError, "one value for all"),
        ((dict, np.zeros(3), COVARIANCE), TypeError, "class with parameters"),
    ],
)
def test_bad_priors_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        GaussianPrior(*arguments)


def test_priors_of_too_few_or_strange_people_are_refused():
    with pytest.raises(ValueError, match="at least two"):
        GaussianPrior.from_people(MarkovTrust())
    with pytest.raises(TypeError, match="family with parameters"):
        GaussianPrior.from_people(default_domain())
    with pytest.raises(ValueError, match="shrink must be at least 0"):
        GaussianPrior.from_people(MarkovTrust([0.1, 0.2], [0.1, 0.2], [0.1, 0.2]), shrink=-1.0)
    with pytest.raises(TypeError, match="result of fit_individuals"):
        GaussianPrior.from_fits([1, 2])
    fits = [
        SimpleNamespace(person=QuantumOrder(), free=np.zeros(3), options={"ranks": ranks})
        for ranks in ((1, 1), (1, 2))
    ]
    with pytest.raises(ValueError, match=r"fits\[1\]"):
        GaussianPrior.from_fits(fits)
    with pytest.raises(ValueError, match="at least two people"):
        GaussianPrior.from_fits(fits[:1])


# --- sampling ------------------------------------------------------------------------------------------


def test_one_person_is_copied(random_answering):
    for person in (TrustQubit(0.3), default_domain(), QuantumOrder(ranks=(2, 1))):
        people = sample_people(person, 4, KEY)
        assert len(people) == 4
        assert np.all(fields_of(people) == fields_of(people[:1]))
    assert people.ranks == (2, 1)


def test_a_population_is_drawn_with_replacement():
    people = BetaTrust(np.linspace(0.1, 0.9, 5), np.ones(5), np.arange(5.0), np.zeros(5))
    drawn = sample_people(people, 5000, KEY)
    whose = np.asarray(drawn.w_s).astype(int)
    np.testing.assert_array_equal(drawn.p0, people.p0[whose])
    assert np.all(np.abs(np.bincount(whose, minlength=5) - 1000) < 150)


def test_results_that_hold_people_are_sources():
    people = AnchoringOrder([0.1, 0.2], [0.3, 0.4], [0.1, 0.1], [0.1, 0.1], tied=True)
    drawn = sample_people(SimpleNamespace(people=people), 10, KEY)
    assert drawn.tied and set(np.asarray(drawn.p_a).tolist()) <= set(np.asarray(people.p_a).tolist())


def test_redrawing_compiles_once():
    traces = []

    @jax.jit
    def redraw(prior, key):
        traces.append(key)
        return sample_people(prior, 8, key)

    prior = GaussianPrior(BayesOrder, np.zeros(3), COVARIANCE)
    drawn = [redraw(prior, key) for key in jax.random.split(KEY, 20)]
    assert len(traces) == 1
    assert not np.array_equal(drawn[0].rho, drawn[1].rho)
    np.testing.assert_array_equal(drawn[0].rho, redraw(prior, jax.random.split(KEY, 20)[0]).rho)


@given(st.sampled_from([None, 3, "people", object(), np.zeros(3)]))
def test_what_is_no_source_is_refused(source):
    with pytest.raises(TypeError, match="source must be a person"):
        sample_people(source, 3, KEY)


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_numbers_of_people_are_checked(n, error):
    with pytest.raises(error, match="n must be"):
        sample_people(TrustQubit(), n, KEY)


# --- splitting -----------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(st.sampled_from([3, 20]), st.integers(0, 5), st.floats(0.05, 0.9), st.floats(0.05, 0.95))
def test_parts_are_disjoint_and_cover_everybody(size, seed, train, rest):
    people = MarkovTrust(np.arange(size) / size, np.zeros(size), np.zeros(size))
    validation = (1.0 - train) * rest
    test = 1.0 - train - validation
    parts = split(people, jax.random.key(seed), train=train, validation=validation, test=test)
    everybody = np.concatenate([np.asarray(part.p0) for part in parts])
    np.testing.assert_array_equal(np.sort(everybody), people.p0)
    for part, fraction in zip(parts, (train, validation, test), strict=True):
        assert len(part) >= 1
        assert abs(len(part) - fraction * size) <= 2.0


def test_splits_follow_the_key_and_keep_whole_people():
    people = vary_states(KEY, default_domain(), 20)
    first, second = split(people, jax.random.key(1)), split(people, jax.random.key(2))
    assert [len(part) for part in first] == [14, 3, 3]
    assert first.train.questions == people.questions
    assert not np.array_equal(first.train.states, second.train.states)
    np.testing.assert_array_equal(first.test.states, split(people, jax.random.key(1)).test.states)


def test_bad_splits_are_refused():
    people = SaturatedOrder(*np.zeros((6, 10)))
    with pytest.raises(ValueError, match="at least three"):
        split(people[:2], KEY)
    with pytest.raises(ValueError, match="at least three"):
        split(people[0], KEY)
    with pytest.raises(TypeError, match="must be a population"):
        split([1, 2, 3], KEY)
    with pytest.raises(ValueError, match="sum to 1"):
        split(people, KEY, train=0.5)
    for wrong in (0.0, -0.1, np.nan):
        with pytest.raises(ValueError, match="must be positive"):
            split(people, KEY, validation=wrong)
