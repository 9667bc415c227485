"""Exact optima of Clarification: published values, a solver written apart, Monte Carlo, gradients."""

import itertools
import re
import time

import exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs import Clarification, ClarificationParams, TrustHandoverParams
from qmind_jax.evaluation import evaluate
from qmind_jax.people import (
    IndependentAnswers,
    ProjectiveAnswers,
    TrustQubit,
    default_domain,
    hard_domain,
    stack,
)
from qmind_jax.people.population import as_population
from qmind_jax.policies.optimal import clarification_optimum
from qmind_jax.policies.optimal.beliefs import belief_model
from qmind_jax.policies.optimal.clarification import costs_of
from qmind_jax.policies.optimal.expectimax import judge
from qmind_jax.policies.optimal.histories import HistoryTree
from qmind_jax.registry import make

# Values of the published domain for ten seeds: optimum, without repeats, order-blind plan.
PUBLISHED = {
    "full recall": [
        -1.62192,
        -1.27956,
        -2.07278,
        -1.44769,
        -2.44640,
        -1.74472,
        -2.18581,
        -1.61078,
        -1.14865,
        -1.79021,
    ],
    "no repeats": [
        -1.62192,
        -1.37554,
        -2.07278,
        -1.44769,
        -2.44640,
        -1.79196,
        -2.18581,
        -1.61078,
        -1.22546,
        -1.79021,
    ],
    "order blind": [
        -2.64180,
        -2.17762,
        -2.44082,
        -2.44420,
        -2.65539,
        -2.08794,
        -2.89838,
        -2.28317,
        -1.77414,
        -2.29981,
    ],
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def params_for(people, **changes):
    return ClarificationParams(people=as_population(people)).replace(**changes)


def default_domains():
    return stack([default_domain(seed) for seed in range(10)])


# --- published values --------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", PUBLISHED)
def test_the_values_of_ten_domains_are_the_published_ones(variant):
    people = default_domains()
    optimum = clarification_optimum(people, params_for(people), variant=variant)
    np.testing.assert_allclose(optimum.value, PUBLISHED[variant], atol=5.1e-6)


@pytest.mark.parametrize("variant", ["full recall", "no repeats", "memoryless"])
def test_the_published_domain_is_a_problem_of_one_question(variant):
    person = default_domain()
    optimum = clarification_optimum(person, params_for(person), variant=variant)
    np.testing.assert_allclose(optimum.value, [-1.6107759820], atol=1e-10)
    np.testing.assert_allclose(optimum.accuracy, [0.6148706697], atol=1e-10)
    np.testing.assert_allclose(optimum.questions, [1.0], atol=1e-12)
    np.testing.assert_allclose(optimum.value_of_intent, [2.6107759820], atol=1e-10)


def test_the_order_blind_plan_asks_in_vain():
    person = default_domain()
    optimum = clarification_optimum(person, params_for(person), variant="order blind")
    np.testing.assert_allclose(optimum.value, [-2.2831733761], atol=1e-10)
    np.testing.assert_allclose(optimum.accuracy, [0.614871], atol=1e-6)
    np.testing.assert_allclose(optimum.questions, [3.24], atol=5e-3)


@pytest.mark.parametrize("max_questions", [1, 2, 8])
def test_the_value_depends_on_the_number_of_questions_as_published(max_questions):
    person = default_domain()
    optimum = clarification_optimum(person, params_for(person, max_questions=max_questions))
    np.testing.assert_allclose(optimum.value, [-3.0 if max_questions == 1 else -1.6107759820], atol=1e-10)


def test_the_hard_domain_needs_repeats_and_memory():
    person = hard_domain()
    params = params_for(person, ask_cost=0.1)
    values = {
        v: float(clarification_optimum(person, params, variant=v).value[0])
        for v in (*PUBLISHED, "memoryless")
    }
    assert values["full recall"] == pytest.approx(-0.8975, abs=1e-4)
    assert values["no repeats"] == pytest.approx(-0.9313, abs=1e-4)
    assert values["order blind"] < values["memoryless"] < values["full recall"]


# --- a solver written apart --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        {"dimension": 4, "ranks": (2,)},
        {"dimension": 4, "ranks": (1, 2, 3)},
        {"dimension": 2, "ranks": (1,), "complex_states": True, "complex_projectors": True},
        {"dimension": 3, "ranks": (1,), "hypotheses": 4, "questions": 2},
        {"dimension": 5, "ranks": (2, 3), "hypotheses": 2, "complex_projectors": True},
        {"dimension": 3, "ranks": (1, 2), "hypotheses": 3, "questions": 1},
    ],
)
def test_random_people_agree_with_a_solver_written_apart(random_answering, kind):
    people = random_answering(3, people=3, **kind)
    params = params_for(people, ask_cost=0.1, success_reward=1.5, error_cost=3.0, max_questions=4)
    expected = [exact.clarification_optimum(person, 0.1, 1.5, 3.0, 4) for person in people]
    np.testing.assert_allclose(clarification_optimum(people, params).value, expected, atol=1e-10)


def test_questions_that_are_paid_for_are_repeated_at_once(random_answering):
    people = random_answering(3, people=2, dimension=3, ranks=(1,), questions=2)
    params = params_for(people, ask_cost=-0.05, max_questions=4)
    expected = [exact.clarification_optimum(person, -0.05, max_questions=4) for person in people]
    optimum = clarification_optimum(people, params)
    np.testing.assert_allclose(optimum.value, expected, atol=1e-10)
    np.testing.assert_allclose(optimum.questions, 3.0)


def independent_value(table, weights, costs, left):
    """Expectimax with independent answers by plain recursion; ``weights`` are not normalised."""
    ask_cost, success, error = costs
    total = sum(weights)
    best = (success + error) * max(weights) - error * total
    for column in np.asarray(table).T:
        if left == 1:
            asked = -(ask_cost + error) * total
        else:
            asked = -ask_cost * total
            asked += independent_value(table, weights * column, costs, left - 1)
            asked += independent_value(table, weights * (1 - column), costs, left - 1)
        best = max(best, asked)
    return best


@pytest.mark.parametrize("variant", ["full recall", "order blind"])
def test_independent_answers_agree_with_plain_recursion(random_answering, variant):
    people = random_answering(5, people=3, hypotheses=4, questions=2)
    params = params_for(people, ask_cost=0.1, max_questions=5)
    expected = [independent_value(table, np.full(4, 0.25), (0.1, 1.0, 5.0), 5) for table in people.table]
    np.testing.assert_allclose(
        clarification_optimum(people, params, variant=variant).value, expected, atol=1e-12
    )


def test_the_memoryless_policy_is_the_best_of_all(random_answering):
    people = random_answering(11, people=2, hypotheses=2, questions=2, dimension=4, ranks=(2,))
    params = params_for(people, ask_cost=0.05, max_questions=4)
    found = clarification_optimum(people, params, variant="memoryless")
    histories = jax.tree.map(jnp.asarray, HistoryTree(2, 3).build())
    costs = costs_of(params, people)
    digits = np.zeros((1, 2), int)
    observations = []
    for level in (*histories.levels, None):
        observations.append(digits @ [1, 3])
        if level is not None:
            answer, question, parent = np.unravel_index(level.origin, (2, 2, len(digits)))
            digits = digits[parent]
            digits[np.arange(len(digits)), question] = 1 + answer
    policies = jnp.asarray(list(itertools.product(range(4), repeat=9)))

    @jax.jit
    def best_of_all(person):
        model = belief_model(person)
        values = jax.vmap(
            lambda policy: judge(model, histories, costs, [policy[o] for o in observations]).value
        )
        return jax.lax.map(lambda some: values(some).max(), policies.reshape(64, -1, 9)).max()

    for i in range(2):
        np.testing.assert_allclose(found.value[i], best_of_all(people[i : i + 1]), atol=1e-12)


# --- Monte Carlo in the environment -------------------------------------------------------------------


def standard_deviations_from_monte_carlo(people, params, variant, episodes):
    """How far episodes in the environment are from the value, for every person."""
    optimum = clarification_optimum(people, params, variant=variant)
    policies = optimum.policy(slice(None))

    def play(actions, person, key):
        alone = params.replace(people=jax.tree.map(lambda leaf: leaf[None], person))
        returns = evaluate(policies.replace(actions=actions), Clarification(), alone, key, episodes)
        return returns.mean, returns.standard_error

    keys = jax.random.split(jax.random.key(0), len(people))
    mean, error = jax.lax.map(lambda one: play(*one), (policies.actions, people, keys), batch_size=8)
    return np.asarray((mean - optimum.value) / error)


@pytest.mark.parametrize("variant", ["full recall", "memoryless"])
def test_playing_the_plan_earns_its_value(random_answering, variant):
    people = random_answering(2, people=8, dimension=4, ranks=(1, 2, 3))
    deviations = standard_deviations_from_monte_carlo(people, params_for(people, ask_cost=0.1), variant, 2000)
    assert np.abs(deviations).max() < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(1,), (2,), (3,), (0,)])
def test_playing_the_plans_of_many_people_earns_their_values(random_answering, ranks):
    people = random_answering(2, people=200, dimension=4 if ranks[0] else 0, ranks=ranks)
    deviations = standard_deviations_from_monte_carlo(
        people, params_for(people, ask_cost=0.1), "full recall", 4000
    )
    # Of 200 deviations some 0.5 lie beyond 3; more than 4 would have a chance of 1 in 5,000.
    assert np.sum(np.abs(deviations) > 3.0) <= 4
    assert np.abs(deviations).max() < 5.0
    assert abs(deviations.mean()) < 4 / np.sqrt(200)


# --- precision, memory, speed, gradients ---------------------------------------------------------------


def test_single_precision_is_close(random_answering):
    people = random_answering(4, people=16, dimension=4, ranks=(2,))
    value = clarification_optimum(people, params_for(people, ask_cost=0.1)).value
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), people)
    got = clarification_optimum(single, params_for(single, ask_cost=0.1)).value
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, value, atol=2e-5)


def test_people_solved_a_few_at_a_time_have_the_same_values(random_answering):
    people = random_answering(4, people=7, dimension=4, ranks=(2,))
    params = params_for(people, ask_cost=0.1, max_questions=5)
    together = clarification_optimum(people, params)
    with pytest.raises(ValueError, match="memory_limit must be at least") as refusal:
        clarification_optimum(people, params, memory_limit=1)
    size = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    few = clarification_optimum(people, params, memory_limit=3 * size)
    np.testing.assert_allclose(few.value, together.value, atol=1e-14)
    assert [level.shape for level in few.actions] == [level.shape for level in together.actions]


@pytest.mark.parametrize(("variant", "batched"), [("full recall", True), ("order blind", False)])
def test_gradients_agree_with_finite_differences(random_answering, variant, batched):
    people = random_answering(6, people=3, dimension=4, ranks=(2,))
    params = params_for(people, ask_cost=0.1, max_questions=3)
    size = 30_000 if batched else 2**30
    direction = jnp.asarray(np.random.default_rng(0).normal(size=people.states.shape))

    def value(shift):
        moved = people.replace(states=people.states + shift * direction)
        return clarification_optimum(moved, params, variant=variant, memory_limit=size).value

    slope = jax.jacobian(value)(0.0)
    difference = (value(1e-5) - value(-1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, atol=1e-7)
    assert np.all(np.abs(slope) > 1e-4)


def test_gradients_of_tables_agree_with_finite_differences(random_answering):
    people = random_answering(6, people=3)
    params = params_for(people, ask_cost=0.1)

    def value(shift):
        return clarification_optimum(IndependentAnswers(people.table * (1 - shift)), params).value

    np.testing.assert_allclose(jax.jacobian(value)(0.0), (value(1e-6) - value(0.0)) / 1e-6, atol=1e-4)


@pytest.mark.slow
def test_a_thousand_people_take_less_than_a_minute(random_answering):
    people = random_answering(0, people=1000, dimension=4, ranks=(2,))
    params = params_for(people, ask_cost=0.1, max_questions=7)
    # Processor time: what else runs on the machine does not count.
    start = time.process_time()
    value = clarification_optimum(people, params).value.block_until_ready()
    assert time.process_time() - start < 60
    assert value.shape == (1000,)
    np.testing.assert_allclose(
        value[:2], [exact.clarification_optimum(people[i], 0.1, 1.0, 5.0, 7) for i in range(2)]
    )


# --- wrong input ---------------------------------------------------------------------------------------


def test_the_params_of_an_environment_serve_inside_jit():
    _, params = make("Clarification-v0", max_questions=3)
    value = jax.jit(lambda people: clarification_optimum(people, params).value)(default_domain())
    np.testing.assert_allclose(value, -1.6107759820, atol=1e-6)


def test_wrong_input_is_refused_by_name():
    person = default_domain()
    params = params_for(person)
    with pytest.raises(ValueError, match=r"variant must be one of .*'psychic'"):
        clarification_optimum(person, params, variant="psychic")
    with pytest.raises(ValueError, match="max_questions must be an integer"):
        clarification_optimum(person, params.replace(max_questions=0))
    with pytest.raises(ValueError, match="ask_cost must be a finite real number"):
        clarification_optimum(person, params.replace(ask_cost=np.nan))
    with pytest.raises(TypeError, match="people must be one of"):
        clarification_optimum(TrustQubit(), TrustHandoverParams(people=TrustQubit()))
    with pytest.raises(TypeError, match="params must be ClarificationParams, got TrustHandoverParams"):
        clarification_optimum(person, TrustHandoverParams(people=TrustQubit()))
    with pytest.raises(TypeError, match="max_questions must be a concrete integer"):
        jax.jit(lambda n: clarification_optimum(person, params.replace(max_questions=n)).value)(3)
    with pytest.raises(TypeError, match="must not be traced for variant 'memoryless'"):
        jax.jit(lambda p: clarification_optimum(p, params, variant="memoryless").value)(params.people)
    with pytest.raises(ValueError, match="max_searched must be larger than 1 "):
        clarification_optimum(person, params, variant="memoryless", max_searched=1)


def test_a_tree_too_large_is_refused_with_its_size():
    rng = np.random.default_rng(0)
    person = ProjectiveAnswers(rng.normal(size=(3, 4)), np.stack([np.diag([1.0, 1.0, 0.0, 0.0])] * 3))
    histories = 1 + sum(6 * 4**k for k in range(19))
    with pytest.raises(
        ValueError, match=f"the tree has {histories} histories of up to 19 answers to 3 questions"
    ):
        clarification_optimum(person, params_for(person, max_questions=20))
