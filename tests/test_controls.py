"""Control tasks: where questions change nothing, a policy that knows about order must not win."""

import jax
import numpy as np
import pytest

from benchmarks.controls import commuting_domain, traceless
from qmind_jax.envs.trust_handover import WAIT
from qmind_jax.evaluation import compare_policies, evaluate
from qmind_jax.people import TrustQubit, handover_population
from qmind_jax.policies import Constant, QuestionLookahead, QuestionPlanner, TrustLookahead
from qmind_jax.registry import make

KEY = jax.random.key(1)


def test_the_questions_of_the_control_commute_and_its_answers_are_independent():
    person = commuting_domain(0)
    p = np.asarray(person.projectors, float)
    np.testing.assert_allclose(np.einsum("aij,bjk->abik", p, p), np.einsum("bij,ajk->abik", p, p), atol=1e-6)
    table = np.asarray(person.order_free().table)
    for state, row in zip(np.asarray(person.states), table, strict=True):
        for first in range(3):
            for second in set(range(3)) - {first}:
                both = np.linalg.norm(p[second] @ p[first] @ state) ** 2
                assert both == pytest.approx(row[first] * row[second], abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_where_questions_commute_the_planner_that_knows_about_order_does_not_win(seed):
    env, params = make("Clarification-v0", people=commuting_domain(seed), ask_cost=0.1)
    returns = {
        "order-blind": evaluate(
            QuestionPlanner.for_params(params, order_blind=True), env, params, KEY, 4_000
        ),
        "order-aware": evaluate(QuestionPlanner.for_params(params), env, params, KEY, 4_000),
    }
    result = compare_policies(returns, "order-blind", alternative="greater")[0]
    assert result.difference == pytest.approx(0.0, abs=1e-6)
    assert result.p_holm > 0.05


def test_where_questions_do_not_commute_it_does_win():
    """The same comparison can see a difference where there is one."""
    env, params = make("ClarificationHard-v0")
    returns = {
        "order-blind": evaluate(
            QuestionLookahead.for_params(params, order_blind=True), env, params, KEY, 8_000
        ),
        "order-aware": evaluate(QuestionLookahead.for_params(params), env, params, KEY, 8_000),
    }
    result = compare_policies(returns, "order-blind", alternative="greater")[0]
    assert result.difference > 0.3
    assert result.p_holm < 1e-3


def trust_returns(people, believed):
    """Planners that look to the end of a short episode, and so make the best of what they believe."""
    env, params = make("TrustHandoverRecovery-v0", people=people, n_steps=4)
    policies = {
        "order-blind": TrustLookahead.for_params(params, believed, depth=4, order_blind=True),
        "order-aware": TrustLookahead.for_params(params, believed, depth=4),
        "always wait": Constant(np.int32(WAIT)),
    }
    return {
        name: evaluate(policy, env, params, KEY, 4_000, balanced=True) for name, policy in policies.items()
    }


@pytest.mark.slow
def test_where_asking_leaves_no_trace_the_planner_that_expects_one_does_not_win():
    """Looking to the end matters.

    The one-step rule with the wrong belief wins over the one with the right belief (by 9.3 in 20 steps): it
    asks more often, which for a rule that never waits is the way to do nothing.
    """
    people = handover_population(jax.random.key(0), 4)
    returns = trust_returns(traceless(people), people)
    aware, waiting = compare_policies(returns, "order-blind", alternative="greater")
    assert aware.p_holm > 0.05
    assert aware.difference < 2 * aware.standard_error + 1e-6
    against, _ = compare_policies(returns, "order-blind")
    assert against.difference <= 1e-6 or against.p_holm > 0.05
    assert waiting.difference != 0.0


@pytest.mark.slow
def test_where_asking_leaves_a_trace_it_does_win():
    people = TrustQubit(phi0=[1.2, 1.9], a_pos=[1.1, 1.2], a_neg=[1.5, 1.6], gamma=[0.0, 0.0])
    aware, _ = compare_policies(trust_returns(people, people), "order-blind", alternative="greater")
    assert aware.difference > 0.0
    assert aware.p_holm < 0.01
