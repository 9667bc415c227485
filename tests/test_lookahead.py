"""Planners that infer whom they have met: Bayes' rule, exact values, and what they earn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT
from qmind_jax.evaluation import evaluate, expected_calibration_error, optima, regret, stated_beliefs
from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit, handover_population, vary_states
from qmind_jax.people.mixed_trust import mix
from qmind_jax.people.published import hard_domain
from qmind_jax.people.trust import p_trust
from qmind_jax.policies import QuestionLookahead, QuestionPlanner, TrustLookahead, TrustRule
from qmind_jax.policies.optimal import clarification_optimum
from qmind_jax.policies.trust_values import trust_values
from qmind_jax.registry import make

KEY = jax.random.key(0)


# --- hand-overs -------------------------------------------------------------------------------------


def expectimax(people, weights, params, n_steps):
    """Bayes-adaptive optimum by plain recursion in double precision, written apart from the package."""
    costs = {
        name: float(getattr(params, name)) for name in ("fail_cost", "slow_cost", "ask_cost", "wait_cost")
    }
    factor = float(params.slow_factor)
    persons = range(len(people))

    def moved(how, trusts, *args):
        return [getattr(people, how)(trust, i, *args) for i, trust in zip(persons, trusts, strict=True)]

    def value(weights, trusts, left):
        if left == 0 or weights.sum() < 1e-12:
            return 0.0
        p = np.array([float(p_trust(trust)) for trust in trusts])
        best = value(weights, moved("after_wait", trusts), left - 1) - costs["wait_cost"] * weights.sum()
        for scale, price in ((1.0, 0.0), (factor, costs["slow_cost"])):
            fails = weights * (1 - p) * scale
            total = (weights - fails).sum() - costs["fail_cost"] * fails.sum() - price * weights.sum()
            total += value(weights - fails, moved("after_outcome", trusts, True), left - 1)
            best = max(best, total + value(fails, moved("after_outcome", trusts, False), left - 1))
        asked = value(weights * p, moved("after_answer", trusts, True), left - 1)
        asked += value(weights * (1 - p), moved("after_answer", trusts, False), left - 1)
        return max(best, asked - costs["ask_cost"] * weights.sum())

    return value(np.asarray(weights, float), [people.initial_trust(i) for i in persons], n_steps)


def value_of(planner):
    """What the planner expects at the start."""
    carry = planner.init(None)
    left = jnp.int32(planner.params.n_steps)
    return float(planner._value(carry.weights, carry.trust, left, planner.depth))


@pytest.mark.parametrize(
    "people",
    [
        TrustQubit([0.6, 2.0], [0.4, 1.1], [0.9, 1.5], [0.1, 0.5]),
        MarkovTrust([0.9, 0.2], [0.5, 0.1], [0.1, 0.6]),
        BetaTrust([0.7, 0.3], [2.0, 1.0], [0.5, 1.0], [0.2, 0.8]),
    ],
    ids=["qubit", "markov", "beta"],
)
def test_looking_ahead_to_the_end_is_the_bayes_adaptive_optimum(people):
    _, params = make("TrustHandoverRecovery-v0", people=people, n_steps=3, fail_cost=1.0)
    planner = TrustLookahead.for_params(params, weights=[1.0, 3.0], depth=3)
    assert value_of(planner) == pytest.approx(expectimax(people, [0.25, 0.75], params, 3), abs=2e-6)


@pytest.mark.parametrize(("n_steps", "value"), [(1, -0.3), (2, -0.168980), (3, -0.468980), (4, -0.330732)])
def test_for_a_known_person_it_expects_the_published_values_by_horizon(n_steps, value):
    _, params = make("TrustHandover-v0", n_steps=n_steps)
    assert value_of(TrustLookahead.for_params(params, depth=n_steps)) == pytest.approx(value, abs=2e-6)


def test_looking_beyond_the_end_changes_nothing():
    _, params = make("TrustHandover-v0", n_steps=2)
    assert value_of(TrustLookahead.for_params(params, depth=4)) == pytest.approx(-0.168980, abs=2e-6)


@functools.partial(jax.jit, static_argnames="action")
def see(planner, carry, action, observation):
    return planner.act(carry.replace(action=jnp.int32(action)), jnp.asarray(observation), KEY)[1]


@pytest.mark.parametrize("kind", ["qubit", "markov", "mixed"])
def test_the_planner_infers_by_bayes_rule(precision, kind):
    qubits = handover_population(jax.random.key(1), 3)
    people = {
        "qubit": qubits,
        "markov": MarkovTrust([0.9, 0.2, 0.5], [0.5, 0.1, 0.3], [0.1, 0.6, 0.3]),
        "mixed": mix([qubits, MarkovTrust(0.4), BetaTrust(0.7)]),
    }[kind]
    _, params = make("TrustHandover-v0", people=people)
    planner = TrustLookahead.for_params(params, depth=1)
    carry = planner.init(params)
    trusts = [people.initial_trust(i) for i in range(len(people))]
    weights = np.full(len(people), 1.0 / len(people))
    course = [
        (HAND_OVER, [1.0, 0.0, 0.05]),
        (SLOW, [-1.0, 0.0, 0.1]),
        (ASK, [-1.0, -1.0, 0.15]),
        (WAIT, [-1.0, -1.0, 0.2]),
        (SLOW, [1.0, -1.0, 0.25]),
        (HAND_OVER, [-1.0, -1.0, 0.3]),
        (ASK, [-1.0, 1.0, 0.35]),
    ]
    for action, observation in course:
        works, yes = observation[0] > 0, observation[1] > 0
        p = np.array([float(p_trust(trust)) for trust in trusts])
        fails = (1.0 - p) * (0.5 if action == SLOW else 1.0)
        likelihood = {ASK: p if yes else 1.0 - p, WAIT: np.ones_like(p)}
        weights = weights * likelihood.get(action, 1.0 - fails if works else fails)
        how, args = {WAIT: ("after_wait", ()), ASK: ("after_answer", (yes,))}.get(
            action, ("after_outcome", (works,))
        )
        trusts = [getattr(people, how)(trust, i, *args) for i, trust in enumerate(trusts)]
        carry = see(planner, carry, action, observation)
        np.testing.assert_allclose(
            planner.posterior(carry), weights / weights.sum(), atol=30 * precision.tolerance
        )
        np.testing.assert_allclose(
            np.transpose(carry.trust), np.array(trusts, float), atol=10 * precision.tolerance
        )
    assert np.ptp(weights / weights.sum()) > 0.1, "the course should tell the people apart"


def test_what_nobody_could_have_done_tells_nothing():
    never = MarkovTrust([0.0, 0.0], [0.1, 0.2], [0.1, 0.2])
    _, params = make("TrustHandover-v0", people=never)
    planner = TrustLookahead.for_params(params, weights=[1.0, 2.0], depth=1)
    carry = see(planner, planner.init(params), HAND_OVER, [1.0, 0.0, 0.05])
    np.testing.assert_allclose(planner.posterior(carry), [1 / 3, 2 / 3], rtol=1e-6)


def test_inferring_who_it_is_beats_taking_everybody_for_the_average():
    """People who always trust and people who never do: a question tells them apart."""
    people = MarkovTrust([0.999, 0.001], [0.0, 0.0], [0.0, 0.0])
    env, params = make("TrustHandover-v0", people=people)
    key = jax.random.key(1)
    filtering = evaluate(TrustLookahead.for_params(params), env, params, key, 2_000)
    knowing = []
    for known in (people[:1], people[1:]):
        planner = TrustLookahead.for_params(params, known)
        knowing.append(float(evaluate(planner, env, params.replace(people=known), key, 2_000).mean))
    bound = sum(knowing) / 2
    # It pays for one question where it could have handed over, or waited, at once.
    error = float(filtering.standard_error)
    assert bound - 1.5 - 4 * error < float(filtering.mean) < bound + 4 * error
    average = TrustLookahead.for_params(params, MarkovTrust([0.5], [0.0], [0.0]))
    assert float(filtering.mean) > float(evaluate(average, env, params, key, 2_000).mean) - 4 * error


def test_the_planner_knows_how_sure_it_is_of_people_that_it_reckons_with():
    env, params = make("TrustHandoverRecovery-v0", people=handover_population(jax.random.key(3), 12))
    planner = TrustLookahead.for_params(params)
    said = stated_beliefs(planner, env, params, jax.random.key(4), 3_000, 20)
    for probabilities, outcomes in (said.of_actions, said.of_answers):
        assert outcomes.size > 1_000
        error = 4 * 0.5 / np.sqrt(outcomes.size)
        assert abs(probabilities.mean() - outcomes.mean()) < error
        assert expected_calibration_error(probabilities, outcomes) < 0.03


@pytest.mark.parametrize(
    ("env_id", "optimum"), [("TrustHandover-v0", -3.3368264), ("TrustHandoverRecovery-v0", 2.8934)]
)
def test_who_knows_the_person_earns_the_optimum(env_id, optimum):
    env, params = make(env_id)
    returns = evaluate(TrustLookahead.for_params(params, depth=1), env, params, KEY, 8_000)
    assert abs(float(returns.mean) - optimum) < 4 * float(returns.standard_error)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qubit", "markov", "beta", "mixed"])
def test_what_it_expects_of_people_it_knows_is_close_to_their_optimum(kind):
    key = jax.random.key(7)
    families = {
        "qubit": handover_population(key, 10),
        "markov": handover_population(key, 10, "markov"),
        "beta": BetaTrust(*jax.random.uniform(key, (4, 10), minval=0.1)),
    }
    families["mixed"] = mix([person for people in list(families.values()) for person in people[:3]])
    people = families[kind]
    _, params = make("TrustHandoverRecovery-v0", people=people)
    values = trust_values(people, params)
    start = jax.vmap(people.initial_trust)(jnp.arange(len(people)))
    best = optima(params)
    np.testing.assert_allclose(values.of(start, jnp.int32(20)), best, atol=0.15)
    np.testing.assert_array_equal(values.of(start, jnp.int32(0)), 0.0)


@pytest.mark.slow
def test_who_knows_the_population_comes_close_to_who_knows_everybody():
    people = handover_population(jax.random.key(0), 32, "markov")
    env, params = make("TrustHandoverRecovery-v0", people=people)
    policies = {"infers": TrustLookahead.for_params(params), "rule": TrustRule.for_params(params)}
    losses = {
        name: regret(evaluate(policy, env, params, KEY, 4_096, balanced=True), optima(params))
        for name, policy in policies.items()
    }
    assert -4 * float(losses["infers"].standard_error) < float(losses["infers"].mean) < 1.2
    assert float(losses["rule"].mean) > 2.0


# --- questions --------------------------------------------------------------------------------------


def test_one_question_ahead_of_one_person_it_is_the_planner_with_repeats():
    env, params = make("ClarificationHard-v0")
    key = jax.random.key(2)
    one_ahead = evaluate(QuestionLookahead.for_params(params, depth=1), env, params, key, 4_000)
    planner = evaluate(QuestionPlanner.for_params(params, repeat=True), env, params, key, 4_000)
    np.testing.assert_array_equal(one_ahead.lengths, planner.lengths)
    np.testing.assert_array_equal(one_ahead.per_episode, planner.per_episode)


@pytest.mark.slow
def test_far_enough_ahead_it_earns_the_exact_optimum():
    env, params = make("ClarificationHard-v0", max_questions=4)
    best = float(clarification_optimum(params.people, params).value[0])
    planner = QuestionLookahead.for_params(params, depth=3)
    carry = planner.init(params)
    acting = planner._value_of_acting(carry.weights)
    asking = planner._question_values(carry.weights, carry.beliefs, jnp.int32(3), 3).max()
    # The planner counts what acting rightly saves, the optimum what is paid.
    assert float(jnp.maximum(acting, asking)) - 5.0 == pytest.approx(best, abs=1e-5)
    returns = evaluate(planner, env, params, jax.random.key(5), 20_000)
    assert abs(float(returns.mean) - best) < 4 * float(returns.standard_error)


@functools.partial(jax.jit, static_argnames="question")
def hear(planner, carry, question, yes):
    observation = jnp.where(jnp.arange(3) == question, 1.0, -1.0) * jnp.where(yes, 1.0, -1.0)
    return planner.act(carry.replace(action=jnp.int32(question)), observation, KEY)[1]


def test_the_planner_infers_person_and_intent_together(precision):
    people = vary_states(jax.random.key(0), hard_domain(), 4, spread=0.6)
    _, params = make("ClarificationHard-v0", people=people)
    prior = np.array([1.0, 2.0, 3.0, 4.0])
    planner = QuestionLookahead.for_params(params, weights=prior, depth=1)
    carry = planner.init(params)
    history = [(0, True), (2, False), (1, False), (0, True)]
    joint = np.repeat(prior[:, None], 3, axis=1)
    for person in range(4):
        for intent in range(3):
            belief = people.initial_belief(person, intent)
            for question, yes in history:
                p = float(people.p_yes(belief, person, question))
                joint[person, intent] *= p if yes else 1.0 - p
                belief = people.after_answer(belief, person, question, yes)
    joint /= joint.sum()
    for question, yes in history:
        carry = hear(planner, carry, question, yes)
    np.testing.assert_allclose(carry.weights, joint, atol=30 * precision.tolerance)
    np.testing.assert_allclose(planner.posterior(carry), joint.sum(axis=0), atol=30 * precision.tolerance)
    np.testing.assert_allclose(
        planner.posterior_of_people(carry), joint.sum(axis=1), atol=30 * precision.tolerance
    )


def test_the_question_planner_knows_how_sure_it_is_of_people_that_it_reckons_with():
    people = vary_states(jax.random.key(0), hard_domain(), 6, spread=0.5)
    env, params = make("ClarificationHard-v0", people=people)
    said = stated_beliefs(QuestionLookahead.for_params(params), env, params, jax.random.key(4), 6_000, 6)
    for probabilities, outcomes in (said.of_actions, said.of_answers):
        assert outcomes.size > 3_000
        assert abs(probabilities.mean() - outcomes.mean()) < 4 * 0.5 / np.sqrt(outcomes.size)


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "env_id"), [(TrustLookahead, "TrustHandover-v0"), (QuestionLookahead, "Clarification-v0")]
)
def test_bad_input_is_refused(kind, env_id):
    _, params = make(env_id)
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        kind.for_params(params, depth=0)
    with pytest.raises(ValueError, match="weights must be 1 finite numbers of at least 0"):
        kind.for_params(params, weights=[1.0, 2.0])


def test_people_with_other_questions_are_refused(random_answering):
    _, params = make("Clarification-v0")
    with pytest.raises(ValueError, match="people must have 3 hypotheses and 3 questions as those"):
        QuestionLookahead.for_params(params, random_answering(0, questions=2))
