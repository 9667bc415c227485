"""The worst episodes, the worst people, and what was lost against the best policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.trust_handover import WAIT
from qmind_jax.evaluation import cvar, evaluate, optima, regret, worst_people
from qmind_jax.people import MarkovTrust, hard_domain, vary_states
from qmind_jax.policies import Constant, QuestionLookahead, QuestionPlanner
from qmind_jax.registry import make

# Returns of the optimal agent in TrustHandover-v0 and their probabilities.
RETURNS = np.array([-6.2, -5.1, -4.0, -2.9, -1.8, -0.7, 0.4, 1.5, 2.6, 3.7, 5.0])
PROBABILITIES = np.array(
    [0.51460, 0.07361, 0.06245, 0.05298, 0.04494, 0.03813, 0.03235, 0.02744, 0.02328, 0.01975, 0.11048]
)


@pytest.mark.parametrize(
    ("alpha", "value"), [(0.5, -6.2), (0.6, -6.022), (0.75, -5.402), (0.9, -4.263), (1.0, -3.337)]
)
def test_cvar_of_the_published_distribution_of_returns(alpha, value):
    episodes = np.repeat(RETURNS, np.round(PROBABILITIES * 100_000).astype(int))
    rng = np.random.default_rng(0)
    assert float(cvar(rng.permutation(episodes), alpha)) == pytest.approx(value, abs=2e-3)


def test_cvar_counts_the_last_return_in_part():
    assert float(cvar(jnp.array([4.0, 1.0, 2.0]), 0.5)) == pytest.approx((1.0 + 0.5 * 2.0) / 1.5)
    assert float(cvar(jnp.array([4.0, 1.0, 2.0]), 0.1)) == 1.0
    assert float(cvar(jnp.array([4.0, 1.0, 2.0]), 1.0)) == pytest.approx(7 / 3)
    np.testing.assert_allclose(cvar(jnp.array([[1.0, 2.0], [5.0, 3.0]]), 0.5), [1.0, 3.0])


def test_cvar_of_a_million_returns_adds_up():
    assert float(cvar(jnp.full(1_000_000, 1.0), 0.3)) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, float("nan")])
def test_a_fraction_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\], got"):
        cvar(jnp.zeros(3), alpha)
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\], got"):
        worst_people(jnp.zeros(8), jnp.arange(8) % 2, 2, alpha)


def test_no_returns_have_no_cvar():
    with pytest.raises(ValueError, match="values must hold at least one return"):
        cvar(jnp.zeros(0), 0.5)


def test_the_worst_people_are_found_and_judged_by_other_episodes():
    rng = np.random.default_rng(0)
    people, each = 40, 50
    truth = np.linspace(-3.0, 1.0, people)
    person = rng.permutation(np.repeat(np.arange(people), each))
    values = truth[person] + rng.normal(size=person.size)
    worst = worst_people(jnp.asarray(values), jnp.asarray(person, jnp.int32), people)
    assert worst.people.shape == (4,)
    assert set(worst.people.tolist()) <= set(range(10))
    expected = truth[np.asarray(worst.people)].mean()
    assert float(worst.standard_error) == pytest.approx(1 / np.sqrt(4 * 25), rel=0.2)
    assert abs(float(worst.mean) - expected) < 4 * float(worst.standard_error)


def test_the_worst_of_equal_people_are_no_worse_than_the_rest():
    """Chosen and judged by the same episodes, they would be lower by some 1.75 standard errors of a mean."""
    rng = np.random.default_rng(1)
    person = np.arange(400 * 20) % 400
    worst = worst_people(jnp.asarray(rng.normal(size=person.size)), jnp.asarray(person), 400)
    assert abs(float(worst.mean)) < 4 * float(worst.standard_error)
    assert float(worst.standard_error) < 0.06


def test_too_few_episodes_to_choose_and_judge_by_are_refused():
    with pytest.raises(ValueError, match="everybody needs at least four episodes, and somebody has 3"):
        worst_people(jnp.zeros(11), jnp.asarray([0] * 8 + [1] * 3), 2)


# --- regret -----------------------------------------------------------------------------------------


def test_a_planner_that_knows_everybody_has_no_regret_and_one_that_does_not_has():
    people = vary_states(jax.random.key(0), hard_domain(), 6, spread=0.3)
    env, params = make("ClarificationHard-v0", people=people, max_questions=4)
    best = optima(params)
    assert best.shape == (6,)
    losses = []
    for i in range(6):
        alone = params.replace(people=people[i : i + 1])
        returns = evaluate(QuestionLookahead.for_params(alone, depth=3), env, alone, jax.random.key(i), 2_000)
        loss = regret(returns, best[i : i + 1])
        losses.append((float(loss.mean), float(loss.standard_error)))
    mean, error = np.mean(losses, axis=0)
    assert abs(mean) < 4 * error / np.sqrt(6)
    planner = evaluate(
        QuestionPlanner.for_params(params), env, params, jax.random.key(9), 6_000, balanced=True
    )
    loss = regret(planner, best)
    assert float(loss.mean) > 4 * float(loss.standard_error)
    np.testing.assert_allclose(
        loss.per_episode, np.asarray(best)[np.asarray(planner.person)] - planner.per_episode
    )
    np.testing.assert_allclose(loss.by_person.mean, best - planner.by_person.mean, atol=1e-5)
    worst = loss.worst_people(0.2)
    assert worst.people.shape == (1,)
    assert int(worst.people[0]) in np.argsort(-np.asarray(loss.by_person.mean))[:2]
    assert float(worst.mean) > float(loss.mean)


def test_one_optimum_per_person_is_needed():
    people = MarkovTrust(*np.full((3, 3), 0.5))
    env, params = make("TrustHandover-v0", people=people)
    returns = evaluate(Constant(jnp.int32(WAIT)), env, params, jax.random.key(0), 10)
    with pytest.raises(ValueError, match=r"optima must have shape \(3,\), one per person, got \(2,\)"):
        regret(returns, jnp.zeros(2))
    loss = regret(returns, jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(loss.per_episode, np.asarray(returns.person) + 1.0 + 6.0, rtol=1e-6)


def test_the_optimum_of_hand_overs_is_that_of_the_person():
    _, params = make("TrustHandover-v0")
    np.testing.assert_allclose(optima(params), [-3.3368263996], atol=2e-5)


def test_strange_parameters_have_no_optimum():
    with pytest.raises(TypeError, match="params must be ClarificationParams or TrustHandoverParams, got int"):
        optima(3)
