"""Fits, comparisons and bootstraps of people."""

import re

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
import scipy.special

from qmind_jax.people import (
    AnchoringOrder,
    BayesOrder,
    Bootstrap,
    MarkovTrust,
    ProjectiveOrder,
    QuantumOrder,
    QuantumOrder4D,
    SaturatedOrder,
    TrustQubit,
    bootstrap,
    compare,
    fit,
    fit_individuals,
    fit_map,
    order_table,
    recovery,
    sample_people,
    simulate_counts,
    stack,
)
from qmind_jax.people.fitting.polishing import polish, surroundings
from qmind_jax.people.fitting.search import Problem
from qmind_jax.people.gaussian_prior import GaussianPrior

KEY = jax.random.key(0)
COUNTS = order_table("clinton_gore")
COURSES = {"end": ((1, 1, 0, 1), (3,)), "both": ((1, 1, 0, 1), (1, 3)), "early": ((0, 1), (0,))}


@pytest.fixture(scope="module")
def saturated():
    return fit(SaturatedOrder, COUNTS, key=KEY)


@pytest.fixture(scope="module")
def replicates():
    return bootstrap(fit(QuantumOrder4D, COUNTS, key=KEY), key=jax.random.key(1))


def test_the_saturated_family_reproduces_its_data(saturated):
    for order, counts in COUNTS.items():
        np.testing.assert_allclose(saturated.predictions[order], counts / counts.sum(), atol=1e-6)
        np.testing.assert_allclose(saturated.person.predict()[order], counts / counts.sum(), atol=1e-6)
    assert saturated.person.x0.dtype == np.float32
    assert saturated.free.dtype == np.float64


def test_standard_errors_are_those_of_log_odds(saturated):
    expected = [np.sqrt(1 / cells[i] + 1 / cells[3]) for cells in COUNTS.values() for i in range(3)]
    np.testing.assert_allclose(list(saturated.standard_errors.values()), expected, rtol=1e-5)


def test_standard_errors_of_probabilities():
    """Of independent answers: the delta method on the logit gives the binomial standard error."""
    counts = {"AB": [60, 60, 20, 20], "BA": [60, 20, 60, 20]}
    found = fit(BayesOrder, counts, key=KEY)
    assert abs(found.standard_errors["p_a"] - np.sqrt(0.75 * 0.25 / 320)) < 1e-4
    assert "p_a = 0.7500 (standard error 0.0242)" in found.summary()


def test_an_undetermined_direction_has_no_standard_error():
    found = fit(AnchoringOrder, {"AB": [20, 5, 5, 20]}, {"AB": "AB"}, key=KEY)
    assert np.isnan(found.standard_errors["w_a"])
    assert np.isfinite(found.standard_errors["p_a"])


def test_people_at_an_open_end_stay_inside_in_single_precision():
    """The best ``a_pos`` is so close to pi that its nearest float32 is not below pi."""
    once = {"b": ((1, 0), (0, 1))}
    found = fit(TrustQubit, {"b": [0, 20, 0, 0]}, once, key=KEY)
    below_pi = np.nextafter(np.float32(np.pi), np.float32(0.0))
    assert found.person.a_pos == below_pi
    np.testing.assert_allclose(found.loglik, 0.0, atol=1e-6)
    problem = Problem.of(TrustQubit, {}, once, "multinomial")
    ends = {"phi0": [1.0, 1.0], "a_pos": [0.0, np.pi], "a_neg": [1.0, 1.0], "gamma": [0.0, 1.0]}
    people = problem.people({name: np.array(values) for name, values in ends.items()})
    np.testing.assert_array_equal(people.gamma, [0.0, 1.0])
    assert 0.0 < people.a_pos[0] < 1e-30
    assert people.a_pos[1] == below_pi
    assert TrustQubit.from_free(np.zeros(3), a_pos=np.nextafter(np.pi, 0.0)).a_pos == below_pi
    assert TrustQubit.from_free(np.zeros(3), a_pos=1e-300).a_pos > 0.0


def test_the_end_of_a_range_has_no_standard_error():
    found = fit(MarkovTrust, {"final": [0, 70]}, key=KEY, restarts=8)
    np.testing.assert_allclose(found.predictions["final"], [0.0, 1.0], atol=1e-6)
    assert np.all(np.isnan(list(found.standard_errors.values())))
    empty = fit(SaturatedOrder, {"AB": [100, 0, 0, 100], "BA": [100, 0, 2, 100]}, key=KEY)
    assert [name for name, error in empty.standard_errors.items() if np.isnan(error)] == ["x1", "x2", "x4"]
    np.testing.assert_allclose(empty.standard_errors["x5"], np.sqrt(1 / 2 + 1 / 100), rtol=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("ab", "ba"),
    [
        ([100, 0, 0, 100], [100, 0, 0, 100]),
        ([0, 50, 60, 0], [0, 45, 55, 0]),
        ([3000, 0, 0, 7000], [3500, 0, 0, 6500]),
        ([100, 1, 0, 100], [100, 0, 0, 100]),
    ],
)
def test_the_best_person_on_a_kink_is_found(ab, ba, seed):
    """Fits of a free joint distribution reach its closed form, the shares of all answers together."""
    found = fit(BayesOrder, {"AB": ab, "BA": ba}, key=jax.random.key(seed))
    joint = np.array(ab) + np.array(ba)[[0, 2, 1, 3]]
    assert abs(found.loglik - np.sum(scipy.special.xlogy(joint, joint / joint.sum()))) < 1e-3


def test_anchoring_at_a_kink_does_not_depend_on_the_starts():
    data = {"AB": [20, 10, 0, 0], "BA": [25, 0, 8, 0]}
    logliks = [fit(AnchoringOrder, data, key=jax.random.key(seed)).loglik for seed in range(3)]
    np.testing.assert_allclose(logliks, -37.37275, rtol=0, atol=1e-4)


def test_structural_options_may_be_arrays_and_bools_of_numpy():
    expected = fit(QuantumOrder, COUNTS, key=KEY, restarts=4, ranks=(1, 2))
    for ranks in ([1, 2], np.array([1, 2])):
        given = fit(QuantumOrder, COUNTS, key=KEY, restarts=4, ranks=ranks)
        assert (given.options, given.loglik) == ({"ranks": (1, 2)}, expected.loglik)
        assert GaussianPrior(QuantumOrder, np.zeros(3), np.eye(3), {"ranks": ranks}).options == given.options
    assert fit(AnchoringOrder, COUNTS, key=KEY, restarts=4, tied=np.True_).options == {"tied": True}
    assert AnchoringOrder(tied=np.True_).tied is True


def test_people_are_sampled_from_a_single_fit(saturated):
    people = sample_people(saturated, 3, KEY)
    np.testing.assert_array_equal(people.x0, np.repeat(saturated.person.x0, 3))


def test_a_bootstrap_does_not_drop_a_prior():
    found = fit_map(GaussianPrior(BayesOrder, np.ones(3), np.eye(3)), COUNTS, key=KEY, restarts=4)
    with pytest.raises(ValueError, match="refits without a prior"):
        bootstrap(found, key=KEY)


def test_options_choose_the_structure_and_hold_parameters():
    free = fit(QuantumOrder, COUNTS, key=KEY)
    assert free.options == {"ranks": (1, 2)}
    assert len(free.per_structure) == 4
    assert "QuantumOrder(ranks=(2, 2)) -1007.93" in free.summary()
    given = fit(QuantumOrder, COUNTS, key=KEY, ranks=[1, 2], g=1.0)
    assert (given.k, float(given.person.g), len(given.per_structure)) == (2, 1.0, 1)
    assert given.loglik < free.loglik


def test_a_fit_does_not_depend_on_the_default_precision(saturated):
    with jax.enable_x64(True):
        again = fit(SaturatedOrder, COUNTS, key=KEY)
        assert again.person.x0.dtype == np.float64
    assert again.loglik == saturated.loglik


def test_trust_is_fitted_to_answers_along_the_way():
    truth = MarkovTrust(p0=0.3, up=0.25, down=0.6)
    sizes = dict.fromkeys(COURSES, 20_000)
    counts = simulate_counts(truth, sizes, COURSES, key=KEY)
    found = fit(MarkovTrust, {name: rows[0] for name, rows in counts.items()}, COURSES, key=KEY)
    for name, error in found.standard_errors.items():
        assert abs(float(getattr(found.person, name)) - float(getattr(truth, name))) < 4 * error < 0.1, name


def test_squared_errors_of_measured_values():
    truth = TrustQubit(phi0=1.2, a_pos=0.5, a_neg=0.9, gamma=0.4)
    values = {name: np.asarray(cells) for name, cells in truth.predict(COURSES).items()}
    noise = np.random.default_rng(0).normal(scale=1e-3, size=8)
    noisy = {"end": values["end"] + noise[:2], "both": values["both"] + noise[2:6], "early": values["early"]}
    found = fit(TrustQubit, noisy, COURSES, key=KEY, loss="squared")
    mean_square = np.mean(np.concatenate([(found.predictions[name] - noisy[name]) ** 2 for name in COURSES]))
    assert found.n == 8
    np.testing.assert_allclose(found.loglik, -4 * (np.log(2 * np.pi * mean_square) + 1), rtol=1e-9)
    assert mean_square < 1e-6
    replicates = bootstrap(found, key=KEY, replicates=5)
    assert replicates.predictions["both"].shape == (5, 4)


def test_comparison_of_families():
    found = compare([BayesOrder, QuantumOrder4D, (AnchoringOrder, {"tied": True})], COUNTS, key=KEY)
    assert found.best.name == "QuantumOrder4D"
    assert [round(each.bic, 1) for each in found.fits[:2]] == [1981.0, 1984.3]
    np.testing.assert_allclose(found.weights.sum(), 1.0)
    assert "AnchoringOrder(tied=True)" in found.summary()
    by_aic = compare([BayesOrder, QuantumOrder4D], COUNTS, key=KEY, criterion="aic")
    assert by_aic.best.name == "QuantumOrder4D"


def test_individuals_are_fitted_as_if_alone():
    tables = [order_table(name) for name in ("clinton_gore", "gingrich_dole", "lab_racial")]
    data = {order: np.stack([table[order] for table in tables]) for order in ("AB", "BA")}
    group = fit_individuals(BayesOrder, data, key=KEY)
    alone = [fit(BayesOrder, table, key=KEY) for table in tables]
    np.testing.assert_allclose(group.loglik, [each.loglik for each in alone], rtol=0, atol=1e-3)
    np.testing.assert_allclose(group.bic, [each.bic for each in alone], rtol=0, atol=2e-3)
    np.testing.assert_allclose(group.aic, [each.aic for each in alone], rtol=0, atol=2e-3)
    np.testing.assert_allclose(group.people.p_a, [each.person.p_a for each in alone], atol=1e-3)
    assert len(group.people) == 3


def test_individuals_share_the_structure_that_suits_them_together():
    data = {order: np.stack([counts, counts]) for order, counts in COUNTS.items()}
    group = fit_individuals(QuantumOrder, data, key=KEY)
    assert group.name == "QuantumOrder(ranks=(1, 2))"
    assert group.people.ranks == (1, 2)
    assert len(group.per_structure) == 4


def test_the_bootstrap_agrees_with_the_curvature(replicates):
    """Replicates that stay on the hill of the fit scatter as its standard errors say."""
    alone = bootstrap(replicates.fit, key=jax.random.key(2), restarts=1)
    assert isinstance(alone, Bootstrap)
    for name, error in replicates.fit.standard_errors.items():
        assert abs(alone.standard_errors[name] / error - 1.0) < 0.3, name
        low, high = alone.interval()[name]
        assert low < float(getattr(replicates.fit.person, name)) < high
    assert len(alone.people) == 200


def test_predictive_intervals_hold_the_data(replicates):
    for order, (low, high) in replicates.predictive_interval().items():
        shares = COUNTS[order] / COUNTS[order].sum()
        assert np.all((low < shares) & (shares < high)), order
        assert np.all(high - low < 0.12)
    with pytest.raises(ValueError, match="level must lie in"):
        replicates.interval(1.0)


def test_searches_of_many_data_sets_end_where_newton_does(replicates):
    sizes = {order: int(counts.sum()) for order, counts in COUNTS.items()}
    data = simulate_counts(replicates.fit.person, sizes, key=KEY, sets=20)
    group = fit_individuals(QuantumOrder4D, data, key=KEY)
    problem = Problem.of(QuantumOrder4D, {}, None, "multinomial")
    with jax.enable_x64(True):
        for i, free in enumerate(group.free):
            one = {order: counts[i] for order, counts in data.items()}
            best = surroundings(problem, polish(problem, free, one, None), one, None)
            assert abs(-group.n[i] * best.value - group.loglik[i]) < 1e-3
            np.testing.assert_allclose(best.gradient, 0.0, atol=1e-7)


def test_the_generating_family_is_recovered_where_it_can_be_told_apart():
    makers = {
        "projective": fit(QuantumOrder, COUNTS, key=KEY).person,
        "classical": fit(BayesOrder, COUNTS, key=KEY).person,
        "rotated": QuantumOrder4D(t1=0.8, t2=1.2, t3=0.9, phi=0.4),
    }
    candidates = [QuantumOrder4D, QuantumOrder, BayesOrder, SaturatedOrder]
    sizes = {"AB": 447, "BA": 432}
    shares = recovery(makers, candidates, sizes, key=jax.random.key(3), sets=60)
    assert shares["projective"]["QuantumOrder"] >= 0.9
    assert shares["classical"]["BayesOrder"] >= 0.9
    assert shares["rotated"]["QuantumOrder4D"] >= 0.9
    for each in shares.values():
        assert abs(sum(each.values()) - 1.0) < 1e-9


def test_simulated_counts_have_the_right_sizes():
    people = stack([BayesOrder(p_a=0.9), BayesOrder(p_a=0.1)])
    counts = simulate_counts(people, {"AB": 1000, "BA": 0}, key=KEY)
    assert counts["AB"].shape == (2, 4)
    np.testing.assert_array_equal(counts["AB"].sum(axis=1), 1000)
    np.testing.assert_array_equal(counts["BA"], 0)
    assert counts["AB"][0, :2].sum() > 800 > 200 > counts["AB"][1, :2].sum()
    again = simulate_counts(people, {"AB": 1000, "BA": 0}, key=KEY)
    np.testing.assert_array_equal(counts["AB"], again["AB"])


@hypothesis.given(
    order=st.sampled_from(["AB", "BA"]),
    cell=st.integers(0, 3),
    value=st.one_of(
        st.floats(max_value=-1e-6),
        st.just(np.nan),
        st.just(np.inf),
        st.floats(0.01, 0.99),
        st.integers(-9, -1),
    ),
)
def test_what_is_no_count_is_refused(order, cell, value):
    data = {name: counts.copy() for name, counts in COUNTS.items()}
    data[order][cell] = value
    with pytest.raises(ValueError, match=rf"data\['{order}'\] must"):
        fit(BayesOrder, data, key=KEY)


@hypothesis.given(size=st.integers(0, 9).filter(lambda size: size != 4))
def test_wrong_numbers_of_cells_are_refused(size):
    with pytest.raises(ValueError, match=re.escape(f"must have shape (4,), got ({size},)")):
        fit(BayesOrder, {"AB": np.ones(size), "BA": np.ones(4)}, key=KEY)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fit(BayesOrder, {"AB": [1, 2, 3, 4]}, key=KEY), ValueError, "'BA' is missing"),
        (lambda: fit(BayesOrder, {**COUNTS, "ABB": [1] * 4}, key=KEY), ValueError, "Did you mean 'AB'"),
        (lambda: fit(BayesOrder, {"AB": [0] * 4, "BA": [0] * 4}, key=KEY), ValueError, "at least one answer"),
        (lambda: fit(BayesOrder, [1, 2, 3, 4], key=KEY), TypeError, "must map the conditions"),
        (lambda: fit(BayesOrder, {"AB": "many", "BA": [1] * 4}, key=KEY), TypeError, "must hold numbers"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, rank=(1, 2)), TypeError, "unknown option 'rank'"),
        (lambda: fit(QuantumOrder, COUNTS, key=KEY, rank=(1, 2)), TypeError, "Did you mean 'ranks'"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, rho=[0.1, 0.2]), ValueError, "rho must be one number"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, p_a=0.1, p_b=0.1, rho=0.1), ValueError, "no parameter is"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, restarts=0), ValueError, "restarts must be a whole number"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, steps=0.5), ValueError, "steps must be a whole number"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, loss="absolute"), ValueError, "loss must be"),
        (lambda: fit(ProjectiveOrder, COUNTS, key=KEY), TypeError, "class of people with parameters"),
        (lambda: fit(BayesOrder(), COUNTS, key=KEY), TypeError, "class of people with parameters"),
        (lambda: fit(BayesOrder, COUNTS, {"AB": "AB", "BA": "CA"}, key=KEY), ValueError, "'AB' or 'BA'"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, restarts=True), ValueError, "restarts must be a whole"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, p_a=np.nan), ValueError, "BayesOrder: p_a must be finite"),
        (lambda: fit(BayesOrder, COUNTS, key=KEY, p_a=2.0), ValueError, "p_a must lie in [0, 1], got 2.0"),
        (lambda: fit(QuantumOrder, COUNTS, key=KEY, ranks=1), ValueError, "ranks must be two numbers"),
        (lambda: compare(BayesOrder, COUNTS, key=KEY), TypeError, "candidates must be a list of families"),
        (lambda: compare([], COUNTS, key=KEY), ValueError, "at least one family"),
        (lambda: compare([BayesOrder], COUNTS, key=KEY, criterion="dic"), ValueError, "criterion must be"),
        (lambda: fit_individuals(BayesOrder, COUNTS, key=KEY), ValueError, "(people, 4)"),
        (
            lambda: fit_individuals(BayesOrder, {"AB": np.ones((0, 4)), "BA": np.ones((0, 4))}, key=KEY),
            ValueError,
            "at least one person",
        ),
        (
            lambda: recovery({"maker": BayesOrder()}, [BayesOrder], {"AB": 9, "BA": 9}, key=KEY, sets=0),
            ValueError,
            "sets must be a whole number of at least 1",
        ),
        (
            lambda: fit_individuals(BayesOrder, {"AB": np.eye(4), "BA": np.zeros((4, 4))[:3]}, key=KEY),
            ValueError,
            "same people in every condition",
        ),
        (
            lambda: fit_individuals(BayesOrder, {o: [[1] * 4, [0] * 4] for o in COUNTS}, key=KEY),
            ValueError,
            "counts of person 1 that are all 0",
        ),
        (lambda: fit_map(BayesOrder, COUNTS, key=KEY), TypeError, "prior must be a GaussianPrior"),
        (
            lambda: fit_map(GaussianPrior(BayesOrder, np.zeros(2), np.eye(2)), COUNTS, key=KEY),
            ValueError,
            "mean must have shape",
        ),
        (lambda: simulate_counts(BayesOrder(), {"AB": 3}, key=KEY), ValueError, "'BA' is missing"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_bad_numbers_of_replicates(replicates):
    with pytest.raises(ValueError, match="replicates must be at least 2"):
        bootstrap(replicates.fit, key=KEY, replicates=1)
