"""Planners beyond the published decisions: priors, information gain, interviews, order-blind twins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import (
    BetaTrust,
    IndependentAnswers,
    MarkovTrust,
    TrustQubit,
    as_population,
    default_domain,
    hard_domain,
)
from qmind_jax.people.mixed_trust import MixedTrust
from qmind_jax.people.trust_answers import question_effect
from qmind_jax.policies import QuestionLookahead, QuestionPlanner, TrustRule, interview, order_blind
from qmind_jax.registry import make

KEY = jax.random.key(0)


@jax.jit
def hear(planner, carry, question, yes):
    """The planner's memory after an answer to a question that it was made to ask."""
    observation = jnp.full(3, jnp.where(yes, 1.0, -1.0))
    return planner.act(carry.replace(action=question), observation, KEY)[1]


def after_history(planner, history):
    carry = planner.init(None)
    for question, answer in history:
        carry = hear(planner, carry, jnp.int32(question), jnp.bool_(answer))
    return carry


@pytest.mark.parametrize("model", ["aware", "order_blind"])
def test_information_gain_is_as_published(precision, golden, model):
    _, params = make("Clarification-v0")
    planner = QuestionPlanner.for_params(params, repeat=True, order_blind=model == "order_blind")
    rows = golden("information_gain")[model]
    assert len(rows) > 30
    for row in rows:
        carry = after_history(planner, row["history"])
        gain = planner.information_gain(carry.beliefs, planner.posterior(carry))
        np.testing.assert_allclose(gain, row["gain_bits"], atol=20 * precision.tolerance, err_msg=str(row))


def test_a_prior_is_one_more_piece_of_evidence(precision):
    _, params = make("Clarification-v0")
    plain = QuestionPlanner.for_params(params)
    prior = [2.0, 1.0, 7.0]
    planner = QuestionPlanner.for_params(params, prior=prior)
    for history in ([], [(2, 1)], [(0, 0), (1, 1)]):
        carry = after_history(planner, history)
        product = np.asarray(plain.posterior(after_history(plain, history))) * prior
        np.testing.assert_allclose(
            planner.posterior(carry), product / product.sum(), atol=10 * precision.tolerance
        )
    # Sure enough of the bowl, no question is worth its price.
    sure = QuestionPlanner.for_params(params, prior=[0.0, 0.01, 0.99])
    assert sure.act(sure.init(params), jnp.zeros(3), KEY)[0] == 3 + 2


@pytest.mark.parametrize(
    "prior", [[1.0, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0], [[1.0, 1.0, 1.0]]]
)
def test_a_prior_that_is_none_is_refused(prior):
    _, params = make("Clarification-v0")
    with pytest.raises(ValueError, match="prior must be 3 finite numbers of at least 0, and not all 0; got"):
        QuestionPlanner.for_params(params, prior=prior)


# --- interviews --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.parametrize("repeat", [False, True])
def test_interviews_end_as_published(golden, answer, repeat):
    published = golden("planner")["run"][f"always_{answer}_repeat_{repeat}"]
    _, params = make("Clarification-v0", ask_cost=0.05, success_reward=0.0)
    result = interview(QuestionPlanner.for_params(params, repeat=repeat), lambda question: answer == "yes")
    assert [[question, int(yes)] for question, yes in result.history] == published["history"]
    assert result.choice == published["choice"]
    assert result.probability == pytest.approx(published["probability"], abs=1e-5)
    assert result.cost == pytest.approx(published["cost"])


@pytest.mark.parametrize("limit", [0, 1, 4])
@pytest.mark.parametrize("kind", [QuestionPlanner, QuestionLookahead])
def test_interviews_stop_at_their_limit(kind, limit):
    # Paid for asking, a planner asks as long as it may.
    _, params = make("Clarification-v0", ask_cost=-1.0)
    options = {"repeat": True} if kind is QuestionPlanner else {"depth": 1}
    asked = []

    def respond(question):
        asked.append(question)
        return len(asked) % 2 == 0

    result = interview(kind.for_params(params, **options), respond, limit)
    assert len(result.history) == len(asked) == limit
    assert result.cost == -limit
    assert result.choice in params.people.hypotheses
    assert 0.0 < result.probability <= 1.0


def test_an_interview_hears_the_last_answer_to_each_question():
    """Every answer is the one to the question asked, also where a question comes again."""
    _, params = make("ClarificationHard-v0", ask_cost=-1.0)
    planner = QuestionPlanner.for_params(params, repeat=True)
    answers = iter([True, False, False, True, True])
    result = interview(planner, lambda question: next(answers), 5)
    history = [(params.people.questions.index(question), yes) for question, yes in result.history]
    carry = after_history(planner.replace(max_questions=jnp.int32(20)), history)
    assert result.probability == pytest.approx(float(planner.posterior(carry).max()), abs=1e-5)


def test_a_negative_number_of_questions_is_refused():
    _, params = make("Clarification-v0")
    with pytest.raises(ValueError, match="max_questions must be at least 0, got -1"):
        interview(QuestionPlanner.for_params(params), lambda question: True, -1)


# --- order-blind twins ------------------------------------------------------------------------------


def test_the_order_blind_twin_answers_every_question_as_if_it_were_the_first():
    people = as_population(hard_domain())
    twin = order_blind(people)
    assert isinstance(twin, IndependentAnswers)
    assert order_blind(twin) is twin
    first = [[float(people.p_yes(people.initial_belief(0, h), 0, q)) for q in range(3)] for h in range(3)]
    np.testing.assert_allclose(twin.table[0], first, atol=1e-6)


def test_no_question_changes_the_trust_of_an_order_blind_twin():
    events = (1, 1, 0, 1, 0, 1)
    assert abs(float(question_effect(TrustQubit(), events, 5, 2))) > 0.05
    assert float(question_effect(order_blind(TrustQubit()), events, 5, 2)) == pytest.approx(0.0, abs=1e-6)
    for person in (MarkovTrust(), BetaTrust()):
        assert order_blind(person) is person


def test_of_mixed_people_only_the_qubits_have_another_twin():
    mixed = MixedTrust(
        family=[0, 1, 2],
        initial=[1.6, 0.5, 0.5],
        success=0.3 * np.ones(3),
        failure=0.2 * np.ones(3),
        memory=[0.3, 0.0, 2.0],
    )
    np.testing.assert_allclose(order_blind(mixed).memory, [1.0, 0.0, 2.0])
    _, params = make("TrustHandover-v0", people=mixed)
    assert len(TrustRule.for_params(params, order_blind=True).people) == 1


def test_strangers_have_no_order_blind_twin():
    with pytest.raises(TypeError, match="people must be one of ProjectiveAnswers, TrustQubit"):
        order_blind("people")


def test_the_trust_rule_can_believe_in_other_people_than_there_are():
    _, params = make("TrustHandover-v0")
    rule = TrustRule.for_params(params, as_population(MarkovTrust(0.55, 0.3, 0.4)))
    assert isinstance(rule.people, MarkovTrust)
    assert float(rule.fail_cost) == 10.0
    blind = TrustRule.for_params(params, order_blind=True)
    assert float(blind.people.gamma[0]) == 1.0


def test_the_planner_for_the_default_domain_can_be_told_to_ignore_order():
    _, params = make("Clarification-v0")
    planner = QuestionPlanner.for_params(params, order_blind=True)
    np.testing.assert_allclose(planner.people.table[0], default_domain().order_free().table, atol=1e-6)
