"""Paired comparisons: differences, tests and Holm's correction, against other implementations of them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quantum_mind.evaluation import holm_bonferroni
from scipy import stats

from qmind_jax.envs.trust_handover import HAND_OVER, SLOW
from qmind_jax.evaluation import Returns, compare_policies, evaluate, holm
from qmind_jax.people import handover_population
from qmind_jax.policies import Constant, UniformRandom
from qmind_jax.registry import make


def returns_of(values, person=None, people=5):
    values = np.asarray(values, np.float32)
    person = np.arange(values.size) % people if person is None else person
    return Returns(values, np.ones(values.size, np.int32), person, {}, people)


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    base = rng.normal(size=60)
    shifts = {"same": 0.0, "better": 0.5, "worse": -0.4}
    return {"base": returns_of(base)} | {
        name: returns_of(base + shift + 0.8 * rng.normal(size=60)) for name, shift in shifts.items()
    }


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_the_t_test_is_that_of_scipy(sample, alternative):
    results = compare_policies(sample, "base", alternative=alternative)
    assert [result.name for result in results] == ["same", "better", "worse"]
    for result in results:
        other, base = (np.asarray(sample[name].per_episode, float) for name in (result.name, "base"))
        expected = stats.ttest_rel(other, base, alternative=alternative)
        assert result.p_value == pytest.approx(expected.pvalue, rel=1e-6)
        assert result.difference == pytest.approx((other - base).mean())
        assert result.standard_error == pytest.approx((other - base).std(ddof=1) / np.sqrt(60))
        assert result.effect_size == pytest.approx((other - base).mean() / (other - base).std(ddof=1))
        assert result.pairs == 60


def test_the_permutation_test_agrees_with_the_t_test(sample):
    by_t = compare_policies(sample, "base")
    by_signs = compare_policies(sample, "base", test="permutation", resamples=20_000)
    for one, other in zip(by_t, by_signs, strict=True):
        assert other.p_value == pytest.approx(one.p_value, abs=0.02)
        assert other.difference == one.difference
    again = compare_policies(sample, "base", test="permutation", resamples=20_000)
    assert again == by_signs, "one seed gives one result"


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_of_few_pairs_all_swaps_are_tried(alternative):
    differences = np.array([0.5, -0.125, 1.0, 0.25, -2.0, 4.0])
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=6)))
    swapped, mean = (signs * differences).mean(axis=1), differences.mean() - 1e-12
    as_high, as_low = np.mean(swapped >= mean), np.mean(swapped <= mean + 2e-12)
    expected = {"greater": as_high, "less": as_low, "two-sided": 2 * min(as_high, as_low)}
    pair = {"base": returns_of(np.zeros(6)), "other": returns_of(differences)}
    result = compare_policies(pair, "base", test="permutation", alternative=alternative)[0]
    assert result.p_value == pytest.approx(expected[alternative])


def test_people_are_the_sample_when_asked_for(sample):
    result = compare_policies(sample, "base", unit="person")[1]
    difference = np.asarray(sample["better"].per_episode, float) - sample["base"].per_episode
    means = [difference[i::5].mean() for i in range(5)]
    assert result.pairs == 5
    assert result.difference == pytest.approx(np.mean(means), rel=1e-6)
    assert result.p_value == pytest.approx(stats.ttest_1samp(means, 0.0).pvalue, rel=1e-5)


def test_holm_is_that_of_the_peer_and_of_the_textbook(sample):
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == [0.2]
    results = compare_policies(sample, "base")
    assert [result.p_holm for result in results] == pytest.approx(
        holm([result.p_value for result in results])
    )
    values = np.random.default_rng(2).uniform(size=7) ** 3
    assert holm(values) == pytest.approx(holm_bonferroni(values)["adjusted_p_values"])


@pytest.mark.parametrize("values", [[1.2], [-0.1], [float("nan")], 0.5])
def test_numbers_that_are_no_p_values_are_refused(values):
    with pytest.raises(ValueError, match=r"p_values must be a sequence of numbers in \[0, 1\]"):
        holm(values)


def test_luck_that_two_policies_share_cancels():
    env, params = make("TrustHandover-v0", people=handover_population(jax.random.key(0), 50), slow_factor=1.0)
    key = jax.random.key(1)
    fast, slow = (evaluate(Constant(jnp.int32(a)), env, params, key, 500) for a in (HAND_OVER, SLOW))
    result = compare_policies({"fast": fast, "slow": slow}, "fast", alternative="less")[0]
    # Slowness costs 1 a step and does not help here, whatever happens.
    assert result.difference == pytest.approx(-20.0, rel=1e-5)
    assert result.standard_error < 1e-4 < float(fast.standard_error)
    assert result.p_value < 1e-6
    same = compare_policies({"fast": fast, "again": fast}, "fast")[0]
    assert (same.difference, same.standard_error, same.effect_size, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    for test in ("t", "permutation"):
        assert compare_policies({"a": fast, "b": fast}, "a", test=test)[0].p_value == 1.0


def test_differences_that_are_always_the_same_are_sure():
    base = returns_of(np.arange(6.0))
    shifted = returns_of(np.arange(6.0) + 1.0)
    for alternative, p_value in (("two-sided", 0.0), ("greater", 0.0), ("less", 1.0)):
        result = compare_policies({"base": base, "up": shifted}, "base", alternative=alternative)[0]
        assert (result.effect_size, result.p_value) == (np.inf, p_value)


def test_comparisons_that_make_no_sense_are_refused(sample):
    env, params = make("TrustHandover-v0", people=handover_population(jax.random.key(0), 50), n_steps=2)
    one, other = (evaluate(UniformRandom(4), env, params, jax.random.key(seed), 100) for seed in (0, 1))
    with pytest.raises(ValueError, match="'b' and the baseline did not meet the same people"):
        compare_policies({"a": one, "b": other}, "a")
    with pytest.raises(ValueError, match="must hold the baseline 'c' and at least one more policy"):
        compare_policies({"a": one, "b": other}, "c")
    with pytest.raises(ValueError, match="must hold the baseline 'a' and at least one more policy"):
        compare_policies({"a": one}, "a")
    for options in ({"unit": "day"}, {"test": "z"}, {"alternative": "up"}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be one of"):
            compare_policies(sample, "base", **options)
    with pytest.raises(ValueError, match="resamples must be at least 99, got 9"):
        compare_policies(sample, "base", resamples=9)
    alone = {name: returns_of(np.arange(4.0), people=1) for name in ("a", "b")}
    with pytest.raises(ValueError, match="unit 'person' needs at least two people"):
        compare_policies(alone, "a", unit="person")
    stacked = {name: returns_of(np.zeros(4)).replace(per_episode=np.zeros((2, 4))) for name in "ab"}
    with pytest.raises(ValueError, match="compare policies one by one"):
        compare_policies(stacked, "a")
