"""The sessions behind the published tables, with quantum-mind's program and with ours on the same numbers."""

import numpy as np
import pytest

from benchmarks import peer_program, same_luck
from benchmarks.published import trust_policy
from benchmarks.published_tables import handover_tables
from benchmarks.sessions import OVER
from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW
from qmind_jax.policies import QuestionPlanner
from qmind_jax.registry import make

TABLES = handover_tables()
SESSIONS = 40


def both(name, robot, sessions=SESSIONS):
    """Sessions of hand-overs of their program, and ours."""
    table = TABLES[name]
    env, params = make("TrustHandover-v0", people=table.people)
    policy = trust_policy(table.robots[robot], params)
    theirs = peer_program.handover_sessions(table.people, table.robots[robot], sessions)
    return theirs, same_luck.handover_sessions(policy, env, params, sessions)


@pytest.mark.parametrize("name", ["qubit people", "Markov people"])
@pytest.mark.parametrize("robot", ["qubit robot", "Markov robot"])
def test_hand_over_sessions_are_the_same_action_for_action(name, robot):
    theirs, ours = both(name, robot)
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    for quantity, values in theirs.quantities.items():
        np.testing.assert_allclose(ours.quantities[quantity], values, 1e-6, err_msg=quantity)
    assert ours.alike(theirs) == SESSIONS


def test_the_sessions_hold_every_action_of_the_rule():
    theirs, _ = both("Markov people", "qubit robot")
    assert set(np.unique(theirs.actions)) == {HAND_OVER, SLOW, ASK}
    assert theirs.actions.shape == (SESSIONS, 20)


@pytest.mark.parametrize("blind", [False, True])
def test_question_sessions_are_the_same_action_for_action(blind):
    theirs = peer_program.question_sessions(blind, SESSIONS)
    env, params = make("Clarification-v0", success_reward=0.0)
    planner = QuestionPlanner.for_params(params, order_blind=blind)
    ours = same_luck.question_sessions(planner, env, params, SESSIONS)
    steps = theirs.actions.shape[1]
    np.testing.assert_array_equal(ours.actions[:, :steps], theirs.actions)
    assert np.all(ours.actions[:, steps:] == OVER)
    assert ours.alike(theirs) == SESSIONS


def test_with_other_luck_sessions_differ(monkeypatch):
    luck = same_luck.printed_luck
    monkeypatch.setattr(same_luck, "printed_luck", lambda *shape: np.roll(luck(*shape), 1, axis=1))
    theirs, ours = both("qubit people", "qubit robot")
    assert ours.alike(theirs) < SESSIONS // 2
