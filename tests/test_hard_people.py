"""The search for people on whom a policy fails, where the answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.trust_handover import SLOW
from qmind_jax.evaluation import find_hard_people
from qmind_jax.people import BetaTrust, CredibleRegion, GaussianPrior, MarkovTrust, PeopleWithin, TrustQubit
from qmind_jax.policies import Constant, TrustRule
from qmind_jax.registry import make

KEY = jax.random.key(3)
MARKOV = PeopleWithin(MarkovTrust, {"p0": (0.2, 0.9), "up": (0.1, 0.5), "down": (0.2, 0.6)})
QUBIT = PeopleWithin(
    TrustQubit, {"phi0": (0.3, 2.6), "a_pos": (0.4, 1.2), "a_neg": (0.8, 1.6), "gamma": (0.1, 0.5)}
)
SMALL = {"number": 4, "candidates": 16, "generations": 12, "episodes": 64, "judging_episodes": 1024}


@pytest.fixture(scope="module")
def task():
    env, params = make("TrustHandoverRecovery-v0", n_steps=6)
    return TrustRule.for_params(params), env, params


@pytest.fixture(scope="module")
def hard(task):
    return find_hard_people(*task, MARKOV, KEY, **SMALL)


def test_evolution_finds_harder_people_than_as_many_random_ones(task):
    options = SMALL | {"judging_episodes": 8192}
    hard, random = (
        find_hard_people(*task, QUBIT, KEY, **options, search=search) for search in ("evolution", "random")
    )
    difference = hard.regret.mean() - random.regret.mean()
    error = np.sqrt(np.sum(hard.standard_error**2 + random.standard_error**2)) / len(hard.regret)
    assert difference > 3.0 * error
    for found in (hard, random):
        assert found.history.shape == (12,)
        assert np.all(np.diff(found.history) >= 0.0)
        np.testing.assert_allclose(found.history[-1], found.found[0])


def test_whoever_never_tries_fails_most_on_those_who_would_have_trusted():
    env, params = make("TrustHandoverRecovery-v0", n_steps=5)
    waits = Constant(jnp.int32(3))
    region = PeopleWithin(BetaTrust, {"p0": (0.5, 1.0)})
    found = find_hard_people(waits, env, params, region, KEY, **SMALL)
    np.testing.assert_allclose(found.people.p0, 1.0, atol=1e-3)
    np.testing.assert_allclose(found.people.w_s, 0.3)
    # Waiting costs what it costs, every time: no noise, and the optimum is to hand over five times.
    np.testing.assert_allclose(found.regret, 5.0 + 5.0 * 0.3, atol=0.02)
    np.testing.assert_allclose(found.mean_return, -1.5, atol=1e-5)
    np.testing.assert_allclose(found.regret, found.optimum - found.mean_return, atol=1e-3)
    np.testing.assert_allclose(found.standard_error, 0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("measure", "hardest", "value"),
    [
        # Fast, somebody of trust 0.9 would succeed as often as is worth 0.85 more.
        ("regret", 0.9, 1.0 - 0.5 * 0.1 * 3.0),
        # With trust 0.1 nothing better than slowness can be done, but it fails often.
        ("return", 0.1, 0.0 - 0.5 * 0.9 * 3.0),
    ],
)
def test_the_hardest_by_regret_and_by_return_are_not_the_same_people(measure, hardest, value):
    costs = {"fail_cost": 2.0, "slow_cost": 1.0, "slow_factor": 0.5, "ask_cost": 10.0, "wait_cost": 10.0}
    env, params = make("TrustHandover-v0", n_steps=1, **costs)
    slow = Constant(jnp.int32(SLOW))
    region = PeopleWithin(MarkovTrust, {"p0": (0.1, 0.9)})
    options = SMALL | {"episodes": 1024, "measure": measure}
    found = find_hard_people(slow, env, params, region, KEY, **options)
    np.testing.assert_allclose(found.people.p0, hardest, atol=0.02)
    judged = found.regret if measure == "regret" else found.mean_return
    np.testing.assert_allclose(judged, value, atol=5.0 * found.standard_error.max())
    assert 0.0 < found.standard_error.max() < 0.1
    np.testing.assert_allclose(found.found, judged, atol=0.3)
    worse = np.diff(found.history) * (1.0 if measure == "regret" else -1.0)
    assert np.all(worse >= 0.0)
    np.testing.assert_allclose(found.history[-1], found.found[0])


def test_a_search_is_reproducible_and_its_regrets_are_of_the_people_returned(task, hard):
    again = find_hard_people(*task, MARKOV, KEY, **SMALL)
    np.testing.assert_array_equal(again.points, hard.points)
    np.testing.assert_array_equal(again.regret, hard.regret)
    same = MARKOV.people(jnp.asarray(hard.points, float))
    np.testing.assert_allclose(same.up, hard.people.up)
    assert np.all(hard.regret > -4.0 * hard.standard_error)


def test_judged_again_the_winners_look_less_bad(task):
    """Of one generation with few episodes the highest regrets are mostly bad luck."""
    few = {"number": 8, "candidates": 64, "generations": 1, "episodes": 4, "judging_episodes": 512}
    found = find_hard_people(*task, MARKOV, KEY, **few, search="random")
    assert np.all(np.diff(found.found) <= 0.0)
    assert found.found.mean() > found.regret.mean() + 0.5


def test_a_credible_region_is_the_ellipsoid_of_its_prior(task):
    covariance = np.array([[0.5, 0.3, 0.0], [0.3, 0.4, 0.1], [0.0, 0.1, 0.3]])
    prior = GaussianPrior(MarkovTrust, (-0.2, -1.0, -0.5), covariance)
    region = CredibleRegion(prior, 0.8)
    corners = np.array(np.meshgrid(*[[0.0, 0.5, 1.0]] * 3)).reshape(3, -1).T
    away = np.asarray(region.people(jnp.asarray(corners)).to_free() - prior.mean)
    distance = np.einsum("pi,ij,pj->p", away, np.linalg.inv(covariance), away)
    middle = np.all(corners == 0.5, axis=1)
    np.testing.assert_allclose(distance[~middle], 4.6416, rtol=1e-3)  # 0.8 quantile of chi squared, 3 d.f.
    np.testing.assert_allclose(distance[middle], 0.0, atol=1e-6)
    found = find_hard_people(*task, region, KEY, **SMALL)
    assert len(found.people) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": 4}, "candidates must be at least 5, got 4"),
        ({"generations": 0}, "generations must be at least 1, got 0"),
        ({"episodes": 1}, "episodes must be at least 2, got 1"),
        ({"number": 193}, "number must be at most candidates \\* generations = 192, got 193"),
        ({"search": "grid"}, "search must be one of .*'evolution'.*, got 'grid'"),
        ({"measure": "cost"}, "measure must be one of .*'regret'.*'return'.*, got 'cost'"),
    ],
)
def test_searches_that_make_no_sense_are_refused(task, changes, message):
    with pytest.raises(ValueError, match=message):
        find_hard_people(*task, MARKOV, KEY, **SMALL | changes)


@pytest.mark.parametrize(
    ("family", "ranges", "error", "message"),
    [
        (int, {"p0": (0.0, 1.0)}, TypeError, "family must be a class of people with parameters"),
        (TrustQubit, {}, ValueError, "at least one parameter"),
        (TrustQubit, {"gama": (0.0, 1.0)}, ValueError, "gamma"),
        (TrustQubit, {"gamma": (0.5, 0.5)}, ValueError, "'gamma'.* to a larger one, got 0.5, 0.5"),
        (TrustQubit, {"gamma": (0.5, 1.5)}, ValueError, "gamma must lie in .*, got 1.5"),
    ],
)
def test_regions_where_nobody_can_be_are_refused(family, ranges, error, message):
    with pytest.raises(error, match=message):
        PeopleWithin(family, ranges)


def test_a_credible_region_needs_a_probability():
    prior = GaussianPrior(MarkovTrust, np.zeros(3), np.eye(3))
    with pytest.raises(ValueError, match=r"probability must lie in \(0, 1\), got 1.0"):
        CredibleRegion(prior, 1.0)
