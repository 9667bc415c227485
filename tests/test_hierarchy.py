"""Populations and their people fitted jointly: calibrated where the truth is drawn from the hyperprior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simulated import answers_of, rated, uniformity

from qmind_jax.people import BayesOrder, BetaTrust, MarkovTrust, QuantumOrder, TrustTrials
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.posteriors.hierarchy import fit_hierarchy, likelihood_of, sample_hierarchy
from qmind_jax.people.posteriors.hyperprior import Hyperprior, correlation_factor
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood
from qmind_jax.people.posteriors.sampling import sample_people

KEY = jax.random.key(0)


def counts_of(truth, answers, key):
    """Counts of so many answers of each person to each of the two orders, by condition."""
    likelihood = AnswerLikelihood.of(type(truth))
    counts = {}
    for i, name in enumerate(likelihood.names):
        conditions = np.full((answers, len(truth)), i)
        cells = answers_of(truth, conditions, jax.random.fold_in(key, i))
        counts[name] = np.asarray(jax.nn.one_hot(cells, 4).sum(axis=0))
    return counts


def trials_of(truth, outcomes, noise, key):
    """Ratings as of real people, but not cut off at 0 and 1."""
    ratings, _ = rated(truth, outcomes, noise, key)
    return TrustTrials(
        robot_correct=outcomes,
        trust_before=ratings[:, :-1],
        trust_after=ratings[:, 1:],
        observed=jnp.ones(outcomes.shape, bool),
        participants=tuple(map(str, range(len(truth)))),
    )


# --- hyperpriors -----------------------------------------------------------------------------------------


def test_correlation_factors_have_rows_of_length_one_and_the_partial_correlations(precision):
    partial = jnp.array([0.3, -0.5, 0.8])
    factor = correlation_factor(partial, 3)
    correlation = factor @ factor.T
    np.testing.assert_allclose(jnp.diagonal(correlation), 1.0, atol=precision.tolerance)
    np.testing.assert_allclose(correlation[1, 0], 0.3, atol=precision.tolerance)
    np.testing.assert_allclose(correlation[2, 0], -0.5, atol=precision.tolerance)
    inverse = np.linalg.inv(correlation)
    of_two_given_first = -inverse[2, 1] / np.sqrt(inverse[1, 1] * inverse[2, 2])
    np.testing.assert_allclose(of_two_given_first, 0.8, atol=10 * precision.tolerance)


def test_the_density_of_correlations_is_a_power_of_the_determinant():
    """Of the matrix itself; ours is of the unbounded numbers, so the Jacobian stands between them."""
    hyperprior = Hyperprior.of(MarkovTrust, concentration=1.7)

    def matrix(numbers):
        factor = correlation_factor(jnp.tanh(numbers), 3)
        return (factor @ factor.T)[np.tril_indices(3, -1)]

    def ours(numbers):
        position = {"mean": jnp.zeros(3), "log_spread": jnp.zeros(3), "partial": numbers}
        return hyperprior.log_density(position)

    def expected(numbers):
        factor = correlation_factor(jnp.tanh(numbers), 3)
        jacobian = jnp.linalg.slogdet(jax.jacobian(matrix)(numbers))[1]
        return 0.7 * jnp.linalg.slogdet(factor @ factor.T)[1] + jacobian

    with jax.enable_x64(True):
        hyperprior = Hyperprior.of(MarkovTrust, concentration=1.7)
        numbers = np.random.default_rng(0).normal(size=(5, 3))
        offsets = [float(ours(row) - expected(row)) for row in numbers]
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-9)


def test_hyperpriors_start_at_the_default_person_and_know_what_is_held():
    hyperprior = Hyperprior.of(QuantumOrder, ranks=(1, 2), b=0.5)
    assert hyperprior.names == ("a", "g")
    np.testing.assert_allclose(hyperprior.mean, [0.8, 0.3], rtol=1e-6)
    assert hyperprior.spread_scale.shape == (2,)


@pytest.mark.parametrize(
    ("family", "arguments", "error", "message"),
    [
        (dict, {}, TypeError, "class with parameters"),
        (MarkovTrust, {"upp": 0.1}, TypeError, "Did you mean 'up'"),
        (MarkovTrust, {"mean": [0.0]}, ValueError, r"mean must have shape \(3,\)"),
        (
            MarkovTrust,
            {"mean_scale": [1.0, 1.0]},
            ValueError,
            r"mean_scale must be a number or of shape \(3,\)",
        ),
        (MarkovTrust, {"spread_scale": 0.0}, ValueError, "spread_scale must be positive"),
        (MarkovTrust, {"concentration": -1.0}, ValueError, "concentration must be positive"),
        (MarkovTrust, {"noise_scale": np.nan}, ValueError, "noise_scale must be positive"),
    ],
)
def test_bad_hyperpriors_are_refused(family, arguments, error, message):
    with pytest.raises(error, match=message):
        Hyperprior.of(family, **arguments)


# --- fits ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    """A fit of people whose population is known, these people, and what they answered."""
    prior = GaussianPrior(BayesOrder, [0.8, -0.5], [[0.6, 0.3], [0.3, 0.4]], {"rho": 0.25})
    truth = prior.draw(24, jax.random.key(3))
    counts = counts_of(truth, 15, jax.random.key(4))
    hyperprior = Hyperprior.of(BayesOrder, rho=0.25)
    return fit_hierarchy(hyperprior, counts, key=KEY, chains=2, warmup=200, draws=200), truth, counts


def test_chains_agree_and_find_the_people(fitted):
    fit, truth, _ = fitted
    assert fit.divergences == 0 and fit.noise is None
    assert set(fit.r_hat) == {"mean", "spread", "correlation", "people"}
    assert max(fit.r_hat.values()) < 1.1
    assert min(fit.effective_sample_size.values()) > 40
    for name in ("p_a", "p_b"):
        low, high = fit.interval(name, 0.9)
        covered = ((low <= getattr(truth, name)) & (getattr(truth, name) <= high)).mean()
        assert covered > 0.75
        error = jnp.abs(fit.mean(name) - getattr(truth, name)).mean()
        assert error < 0.09
        low, high = fit.population_interval(name, 0.99)
        assert low < jax.nn.sigmoid({"p_a": 0.8, "p_b": -0.5}[name]) < high


def test_people_are_drawn_towards_the_population(fitted):
    """What a hierarchy is for: extreme answers of one person count less."""
    fit, _, counts = fitted
    frequency = counts["AB"][:, :2].sum(axis=1) / counts["AB"].sum(axis=1)
    assert fit.mean("p_a").std() < 0.95 * frequency.std()
    prior = fit.prior
    assert prior.options == {"rho": 0.25}
    assert np.linalg.eigvalsh(prior.covariance)[0] > 0.0
    people = sample_people(fit, 4000, KEY)
    np.testing.assert_allclose(people.rho, 0.25)
    np.testing.assert_allclose(people.to_free(rho=0.25).mean(axis=0), prior.mean, atol=0.1)
    np.testing.assert_allclose(np.cov(people.to_free(rho=0.25).T), prior.covariance, atol=0.2)


def test_both_forms_sample_one_posterior(fitted):
    fit, _, counts = fitted
    other = fit_hierarchy(
        fit.hyperprior, counts, key=jax.random.key(9), chains=2, warmup=200, draws=200, centred=True
    )
    for name in ("mean", "spread"):
        values = [np.asarray(getattr(f.populations, name)).reshape(-1, 2) for f in (fit, other)]
        near = 0.3 * values[0].std(axis=0)
        assert np.all(np.abs(values[0].mean(axis=0) - values[1].mean(axis=0)) < near), name
    for name in ("p_a", "p_b"):
        np.testing.assert_allclose(other.mean(name), fit.mean(name), atol=0.04)
        for mine, theirs in zip(fit.interval(name), other.interval(name), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=0.12)


def test_predictions_and_single_people(fitted):
    fit, _, _ = fitted
    cells = fit.predict()
    assert cells["AB"].shape == (24, 4)
    np.testing.assert_allclose(cells["AB"].sum(axis=1), 1.0, rtol=1e-5)
    person = fit.person(-1)
    assert len(person) == 400
    np.testing.assert_allclose(person.predict()["BA"].mean(axis=0), cells["BA"][-1], rtol=1e-4)
    with pytest.raises(IndexError, match="person 24 of a population of 24"):
        fit.person(24)
    with pytest.raises(ValueError, match="name must be one of p_a, p_b"):
        fit.mean("rho")
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
        fit.interval("p_a", 0.0)


def test_ratings_tell_their_noise_and_one_parameter_has_no_correlations():
    truth = GaussianPrior(BetaTrust, [0.0], [[1.0]], {"w_s": 0.3, "w_f": 0.5}).draw(20, KEY)
    outcomes = jax.random.bernoulli(jax.random.key(1), 0.6, (20, 5))
    trials = trials_of(truth, outcomes, 0.07, jax.random.key(2))
    hyperprior = Hyperprior.of(BetaTrust, w_s=0.3, w_f=0.5)
    fit = fit_hierarchy(hyperprior, trials, key=KEY, chains=2, warmup=150, draws=150, centred=True)
    assert "correlation" not in fit.r_hat and max(fit.r_hat.values()) < 1.1
    assert float(fit.noise.mean()) == pytest.approx(0.07, abs=0.015)
    assert np.abs(fit.mean("p0") - truth.p0).mean() < 0.05


def test_bad_data_are_refused():
    hyperprior, good = Hyperprior.of(BayesOrder), {"AB": np.ones((2, 4)), "BA": np.ones((2, 4))}
    for name in ("chains", "warmup", "draws"):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            fit_hierarchy(hyperprior, good, key=KEY, **{name: 1})
    for wrong in (-1.0, np.nan, 0.5):
        with pytest.raises(ValueError, match="data"):
            fit_hierarchy(hyperprior, good | {"AB": np.full((2, 4), wrong)}, key=KEY)
    with pytest.raises(ValueError, match="'BA' is missing"):
        fit_hierarchy(hyperprior, {"AB": good["AB"]}, key=KEY)
    with pytest.raises(TypeError, match="data must map"):
        fit_hierarchy(hyperprior, [1, 2], key=KEY)
    trials = trials_of(MarkovTrust([0.5], [0.1], [0.1]), jnp.ones((1, 2), bool), 0.1, KEY)
    with pytest.raises(TypeError, match="people who trust"):
        fit_hierarchy(hyperprior, trials, key=KEY)
    with pytest.raises(ValueError, match="design is for counts"):
        fit_hierarchy(Hyperprior.of(MarkovTrust), trials, key=KEY, design={"now": ((1,), (0,))})


# --- simulation-based calibration ----------------------------------------------------------------------


def draw_populations(hyperprior, people, key, runs):
    """Populations of two free parameters from the hyperprior, and their people, in our own formulas."""
    keys = jax.random.split(key, 5)
    mean = hyperprior.mean + hyperprior.mean_scale * jax.random.normal(keys[0], (runs, 2))
    spread = hyperprior.spread_scale * jnp.abs(jax.random.normal(keys[1], (runs, 2)))
    beta = jax.random.beta(keys[2], hyperprior.concentration, hyperprior.concentration, (runs,))
    correlation = 2.0 * beta - 1.0
    x, y = jax.random.normal(keys[3], (2, runs, people))
    y = correlation[:, None] * x + jnp.sqrt(1.0 - correlation[:, None] ** 2) * y
    free = mean[:, None] + spread[:, None] * jnp.stack([x, y], axis=-1)
    noise = hyperprior.noise_scale * jnp.abs(jax.random.normal(keys[4], (runs,)))
    return {"mean": mean, "spread": spread, "correlation": correlation[:, None], "free": free, "noise": noise}


def check_ranks(hyperprior, truth, heard, likelihood, warmup, draws, centred=False):
    """Ranks of the truth among thinned draws, of all runs at once."""
    runs, thin = len(truth["mean"]), 10

    def run(heard, key):
        return sample_hierarchy(hyperprior, likelihood, heard, key[None], warmup, draws, centred)

    sample = jax.jit(jax.vmap(run))(heard, jax.random.split(jax.random.key(8), runs))
    factor = sample.populations.factor
    drawn = {
        "mean": sample.populations.mean,
        "spread": sample.populations.spread,
        "correlation": (factor[..., 1:, 0] * factor[..., 0:1, 0]),
        "first person": sample.free[..., 0, :],
    }
    values = {**truth, "first person": truth["free"][:, 0]}
    if sample.noise is not None:
        drawn["noise"], values["noise"] = sample.noise[..., None], truth["noise"][:, None]
    jitter = np.random.default_rng(0)
    for name, draws_of_name in drawn.items():
        thinned = np.asarray(draws_of_name)[:, 0, ::thin]
        below = (thinned < np.asarray(values[name])[:, None]).sum(axis=1)
        for i in range(below.shape[1]):
            ranks = (below[:, i] + jitter.uniform(size=runs)) / (thinned.shape[1] + 1)
            p_value = uniformity(ranks)
            print(f"{name} {i}: p {p_value:.3f}")
            assert p_value > 0.002, f"{name} {i}"
    # So few people who say so little are a funnel for the centred form: a warning is due, and not more.
    assert float(sample.diverged.mean()) < (0.1 if centred else 0.02)


@pytest.mark.slow
def test_answers_of_populations_give_uniform_ranks():
    hyperprior = Hyperprior.of(BayesOrder, mean_scale=1.0, spread_scale=0.8, rho=0.25)
    truth = draw_populations(hyperprior, people=6, key=jax.random.key(5), runs=200)
    people = BayesOrder.from_free(truth["free"].reshape(-1, 2), rho=0.25)
    counts = counts_of(people, 12, jax.random.key(6))
    likelihood = AnswerLikelihood.of(BayesOrder)
    heard = likelihood.counts(counts).reshape(200, 6, 2, 4)
    check_ranks(hyperprior, truth, heard, likelihood, warmup=300, draws=300)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [False, True])
def test_ratings_of_populations_give_uniform_ranks(centred):
    runs, people, trials = 120, 4, 4
    hyperprior = Hyperprior.of(BetaTrust, mean_scale=0.7, spread_scale=0.5, noise_scale=0.2, w_f=0.4)
    truth = draw_populations(hyperprior, people=people, key=jax.random.key(5), runs=runs)
    everybody = BetaTrust.from_free(truth["free"].reshape(-1, 2), w_f=0.4)
    outcomes = jax.random.bernoulli(jax.random.key(6), 0.6, (runs * people, trials))
    noise = jnp.repeat(truth["noise"], people)[:, None]
    ratings = trials_of(everybody, outcomes, noise, jax.random.key(7))
    likelihood, heard = likelihood_of(hyperprior, ratings, None)
    heard = jax.tree.map(lambda leaf: leaf.reshape(runs, people, *leaf.shape[1:]), heard)
    check_ranks(hyperprior, truth, heard, likelihood, warmup=200, draws=200, centred=centred)
