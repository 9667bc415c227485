"""How people differ in their trust: fits, estimates of single people, presets. All ratings are made here."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.ratings.comparison import FIRST_RATING, LAST_RATING, compare_trust_families
from qmind_jax.people.ratings.distribution import TrustDistribution
from qmind_jax.people.ratings.estimates import estimate_people, predict_next, rated_courses, trust_course
from qmind_jax.people.ratings.fit import TRUST_FAMILIES, held_out_errors
from qmind_jax.people.ratings.population_fit import fit_trust_population
from qmind_jax.people.ratings.presets import PEOPLE_PRESETS, preset_distribution, preset_people
from qmind_jax.people.ratings.trials import TrustTrials, load_trust_trials

REAL_FILE = "QMIND_JAX_TRUST_RATINGS"
FAMILIES = tuple(TRUST_FAMILIES)
TRUE = {
    "beta": TrustDistribution.of("beta", [0.2, -1.5, -1.0], np.diag([1.0, 0.5, 0.3]), 0.05),
    "markov": TrustDistribution.of("markov", [0.2, -2.0, -1.5], np.diag([1.0, 0.4, 0.4]), 0.05),
    "qubit": TrustDistribution.of("qubit", [0.0, -2.2, -2.0, -2.0], np.diag([0.3, 0.2, 0.2, 0.2]), 0.05),
}


def rated(family, participants=60, trials=12, seed=0, noise=True):
    """Trials of people of the true distribution, and the people."""
    distribution = TRUE[family]
    people = distribution.people(jax.random.key(seed), participants)
    rng = np.random.default_rng(seed)
    correct = rng.integers(0, 2, (participants, trials)).astype(bool)
    course = jax.vmap(lambda free, outcomes: trust_course(type(people), free, outcomes))
    trust = np.asarray(course(people.to_free(), correct))
    ratings = np.clip(trust + noise * distribution.noise * rng.normal(size=trust.shape), 0.0, 1.0)
    return (
        TrustTrials(
            robot_correct=jnp.asarray(correct),
            trust_before=jnp.asarray(ratings[:, :-1], float),
            trust_after=jnp.asarray(ratings[:, 1:], float),
            observed=jnp.ones((participants, trials), bool),
            participants=tuple(map(str, range(participants))),
        ),
        people,
    )


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request):
    """Family, trials, the people who gave the ratings, and the fit."""
    trials, people = rated(request.param)
    return request.param, trials, people, fit_trust_population(trials, request.param)


# --- fits -----------------------------------------------------------------------------------------


def test_the_distribution_that_made_the_ratings_is_found_again(fitted):
    family, _, people, fit = fitted
    assert (fit.family, fit.num_ratings) == (family, 60 * 13)
    free = np.asarray(people.to_free())
    spread = free.std(axis=0)
    # Against the people who were drawn: what is left is the uncertainty of ratings alone.
    assert np.all(np.abs(fit.mean - free.mean(axis=0)) < 0.35 * spread + 0.05)
    found = np.sqrt(np.diag(fit.covariance))
    assert np.all((found > 0.5 * spread) & (found < 1.6 * spread)), (found, spread)
    assert fit.noise == pytest.approx(0.05, rel=0.12)
    drawn = fit.people(jax.random.key(1), 5000)
    assert isinstance(drawn, TRUST_FAMILIES[family])
    np.testing.assert_allclose(drawn.to_free().mean(axis=0), fit.mean, atol=0.1)
    np.testing.assert_allclose(np.cov(np.asarray(drawn.to_free()).T), fit.covariance, atol=0.1)


def test_every_participant_is_estimated_better_than_by_the_average_person(fitted):
    _, _, people, fit = fitted
    free = np.asarray(people.to_free())
    away = np.abs(np.asarray(fit.free_estimates) - free).mean(axis=0)
    by_average = np.abs(np.asarray(fit.mean) - free).mean(axis=0)
    assert np.all(away < by_average)
    assert away[0] < 0.4 * by_average[0], "initial trust shows in every rating"
    assert len(fit.estimates) == len(people)
    # The uncertainty that is stated is the one there is.
    deviations = np.sqrt(np.diagonal(fit.free_uncertainty, axis1=1, axis2=2))
    standard = (np.asarray(fit.free_estimates) - free) / deviations
    assert 0.7 < np.sqrt((standard**2).mean()) < 1.4


def test_estimates_are_the_most_probable_and_the_evidence_is_the_integral(fitted):
    family, trials, _, _ = fitted
    distribution = TRUE[family]
    few = trials.select(slice(0, 5))
    estimates = estimate_people(distribution, few)
    courses = rated_courses(few)

    def log_joint(free, course):
        errors = course.ratings - trust_course(TRUST_FAMILIES[family], free, course.robot_correct)
        log_ratings = jax.scipy.stats.norm.logpdf(errors, 0.0, distribution.noise).sum()
        return log_ratings + distribution.prior.log_density(free)

    slopes = jax.vmap(jax.grad(log_joint))(estimates.free, courses)
    # In units of the uncertainty: a tenth of it away from the top at most.
    np.testing.assert_allclose(
        jnp.einsum("pi,pij,pj->p", slopes, estimates.covariance, slopes), 0.0, atol=0.01
    )

    for person in range(5):
        course = jax.tree.map(lambda leaf, i=person: leaf[i], courses)
        proposal = GaussianPrior(
            TRUST_FAMILIES[family], estimates.free[person], 1.5 * estimates.covariance[person]
        )
        free = proposal.draw_free(4000, jax.random.key(0))
        weights = jax.vmap(lambda x, c=course: log_joint(x, c))(free) - proposal.log_density(free)
        integral = jax.scipy.special.logsumexp(weights) - np.log(4000)
        assert float(estimates.log_evidence[person]) == pytest.approx(float(integral), abs=0.25)


def test_predictions_use_the_ratings_before_and_no_others(fitted):
    family, trials, _, _ = fitted
    distribution, few = TRUE[family], trials.select(slice(0, 4))
    predicted = predict_next(distribution, few)
    assert predicted.shape == (4, 12)
    changed = predict_next(distribution, few.replace(trust_after=few.trust_after.at[:, 5].set(0.99)))
    np.testing.assert_array_equal(changed[:, :6], predicted[:, :6])
    assert np.all(np.abs(changed - predicted)[:, 6] > 1e-4)
    flipped = few.replace(robot_correct=few.robot_correct.at[:, 6:].set(~few.robot_correct[:, 6:]))
    np.testing.assert_array_equal(predict_next(distribution, flipped)[:, :6], predicted[:, :6])


def test_ratings_of_a_person_improve_the_predictions_of_this_person(fitted):
    family, trials, _, _ = fitted
    even, odd = trials.select(slice(0, None, 2)), trials.select(slice(1, None, 2))
    predicted = predict_next(fit_trust_population(even, family), odd)
    error = np.sqrt(np.mean((predicted - odd.trust_after)[:, 2:] ** 2))
    assert error < 0.8 * held_out_errors(trials)[family]
    assert error < 1.5 * 0.05, "not far above the noise, which nobody can predict"


def test_a_fit_is_deterministic_and_padding_does_not_count():
    trials, _ = rated("markov", participants=10)
    length = 3 + np.arange(10) % 4
    observed = np.arange(12) < length[:, None]
    ragged = trials.replace(observed=jnp.asarray(observed))
    filled = ragged.replace(
        trust_after=jnp.where(observed, trials.trust_after, 0.9),
        robot_correct=jnp.where(observed, trials.robot_correct, True),
    )
    one, again, other = (fit_trust_population(t, "markov") for t in (ragged, ragged, filled))
    assert one.num_ratings == length.sum() + 10
    for name in ("mean", "covariance", "free_estimates"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["noiseless", "always 0 or 1", "never moves", "two people", "opposite"])
def test_strange_ratings_give_finite_people(family, kind):
    trials, _ = rated(family, participants=2 if kind == "two people" else 12, trials=5, noise=False)
    after = np.asarray(trials.trust_after)
    if kind == "always 0 or 1":
        after = np.asarray(trials.robot_correct, float)
    elif kind == "never moves":
        after = np.broadcast_to(np.asarray(trials.first_ratings)[:, None], after.shape)
    elif kind == "opposite":
        after = 1.0 - np.asarray(trials.robot_correct, float)
    fit = fit_trust_population(trials.replace(trust_after=jnp.asarray(after, float)), family)
    for value in (fit.mean, fit.covariance, fit.noise, fit.free_estimates, fit.log_evidence):
        assert np.all(np.isfinite(value))
    assert fit.noise >= 0.0049
    assert np.all(np.diag(fit.covariance) > 0.0)
    for people in (fit.estimates, fit.people(jax.random.key(0), 100)):
        people.replace()  # checks every value


def test_fits_in_double_precision(precision):
    trials, _ = rated("beta", participants=8, trials=6)
    fit = fit_trust_population(trials, "beta")
    assert fit.free_estimates.dtype == precision.name
    assert fit.people(jax.random.key(0), 3).p0.dtype == precision.name


def test_what_cannot_be_fitted_is_an_error():
    trials, _ = rated("markov", participants=4, trials=4)
    with pytest.raises(ValueError, match=r"unknown family 'qbit'\. Did you mean 'qubit'\?"):
        fit_trust_population(trials, "qbit")
    with pytest.raises(ValueError, match="at least two participants to tell how people differ, got 1"):
        fit_trust_population(trials.select(slice(0, 1)), "markov")
    with pytest.raises(ValueError, match="got only successes"):
        fit_trust_population(trials.replace(robot_correct=jnp.ones((4, 4), bool)), "markov")
    with pytest.raises(ValueError, match=r"at least four participants, two to fit.*got 3"):
        compare_trust_families(trials.select(slice(0, 3)))


# --- distributions and presets --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("quark", [0.0], [[1.0]], 0.1), "unknown family 'quark'"),
        (("beta", [0.0] * 4, np.eye(4), 0.1), r"BetaTrust has 3 free parameters p0, w_s, w_f"),
        (("beta", [0.0, np.nan, 0.0], np.eye(3), 0.1), "mean must be finite"),
        (("beta", [0.0] * 3, -np.eye(3), 0.1), "covariance must be positive definite"),
        (("beta", [0.0] * 3, np.eye(3), 0.0), "noise must be positive, got 0"),
        (("beta", [0.0] * 3, np.eye(3), np.nan), "noise must be positive, got nan"),
    ],
)
def test_numbers_that_make_no_distribution_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrustDistribution.of(*arguments)


def test_other_people_have_no_distribution_of_trust():
    from qmind_jax.people import BayesOrder

    with pytest.raises(ValueError, match="family of prior must be one of BetaTrust, MarkovTrust, TrustQubit"):
        TrustDistribution(GaussianPrior(BayesOrder, np.zeros(3), np.eye(3)), 0.1)


@pytest.mark.parametrize("name", PEOPLE_PRESETS)
def test_presets_are_people_who_differ_as_the_distribution_says(name):
    people = preset_people(name, jax.random.key(0), 4000)
    assert (
        type(people) is {"beta": BetaTrust, "markov": MarkovTrust, "qubit": TrustQubit}[name.split("_")[-1]]
    )
    assert len(people) == 4000
    distribution = preset_distribution(name)
    free = np.asarray(people.to_free())
    np.testing.assert_allclose(free.mean(axis=0), distribution.mean, atol=0.08)
    np.testing.assert_allclose(np.cov(free.T), distribution.covariance, atol=0.15)
    assert 0.05 < distribution.noise < 0.06
    jax.tree.map(np.testing.assert_array_equal, people, preset_people(name, jax.random.key(0), 4000))


def test_preset_people_react_more_to_failures_than_to_successes_in_the_classical_families():
    beta, markov = (PEOPLE_PRESETS[f"trust_real_world_{family}"]["mean"] for family in ("beta", "markov"))
    assert beta[1] < beta[2]
    assert markov[1] < markov[2]


def test_presets_are_drawn_inside_jit_by_one_program():
    traces = []

    @jax.jit
    def draw(key):
        traces.append(key)
        return preset_people("trust_real_world_qubit", key, 10)

    first, second = draw(jax.random.key(0)), draw(jax.random.key(1))
    assert len(traces) == 1
    assert not np.array_equal(first.phi0, second.phi0)


def test_unknown_presets_and_empty_populations_are_refused():
    message = r"unknown people preset 'trust_real_world_qbit'\. Did you mean 'trust_real_world_qubit'\?"
    with pytest.raises(ValueError, match=message):
        preset_people("trust_real_world_qbit", jax.random.key(0), 3)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        preset_people("trust_real_world_beta", jax.random.key(0), 0)


# --- comparison -----------------------------------------------------------------------------------


def test_a_comparison_has_all_families_and_both_baselines():
    trials, _ = rated("markov", participants=8, trials=4)
    comparison = compare_trust_families(trials)
    assert set(comparison.population) == {*FAMILIES, FIRST_RATING}
    assert set(comparison.personal) == {*FAMILIES, LAST_RATING}
    errors = held_out_errors(trials)
    for family in FAMILIES:
        assert comparison.error(comparison.population[family]) == pytest.approx(errors[family], rel=1e-5)
    assert comparison.error(comparison.population[FIRST_RATING]) == pytest.approx(errors["persistence"])
    last = comparison.personal[LAST_RATING]
    left_out = trials.select(slice(1, None, 2))
    np.testing.assert_array_equal(last[:, 0], left_out.first_ratings)
    np.testing.assert_array_equal(last[:, 1:], left_out.trust_after[:, :-1])
    by_rating = comparison.errors_by_rating(last)
    assert by_rating.shape == (4,)
    assert comparison.error(last, first=3) == pytest.approx(np.sqrt((by_rating[2:] ** 2).mean()))
    assert np.isnan(comparison.error(last, first=5)), "nobody has a fifth rating"


@pytest.mark.skipif(
    REAL_FILE not in os.environ,
    reason=f"the ratings are not part of this project; {REAL_FILE} must name the file to check against them",
)
def test_real_ratings_give_the_presets_and_the_errors_that_are_quoted():
    trials = load_trust_trials(os.environ[REAL_FILE])
    for family, evidence in (("beta", 1292.4), ("markov", 1294.3), ("qubit", 1280.2)):
        fit, preset = fit_trust_population(trials, family), preset_distribution(f"trust_real_world_{family}")
        np.testing.assert_allclose(fit.mean, preset.mean, atol=2e-3)
        np.testing.assert_allclose(fit.covariance, preset.covariance, atol=2e-3)
        assert fit.noise == pytest.approx(preset.noise, abs=1e-4)
        assert fit.log_evidence == pytest.approx(evidence, abs=0.1)
    comparison = compare_trust_families(trials)
    quoted = {"beta": (0.0970, 0.0652), "markov": (0.0992, 0.0662), "qubit": (0.1200, 0.0668)}
    for family, errors in quoted.items():
        both = comparison.population[family], comparison.personal[family]
        assert [comparison.error(predicted, first=3) for predicted in both] == pytest.approx(errors, abs=5e-4)
        by_rating = [comparison.errors_by_rating(predicted)[2:] for predicted in both]
        assert np.all(by_rating[1] < by_rating[0]), "better at every rating from the third on"
    assert comparison.error(comparison.personal[LAST_RATING], first=3) == pytest.approx(0.0695, abs=1e-4)
