"""The program behind the published tables: quantum-mind's own sessions, each with its generator of NumPy."""

import numpy as np
from quantum_mind.applications.handover import TrustAwareHandover, simulate_handover_session
from quantum_mind.applications.questioning import QuestionPlanner as PeerPlanner
from quantum_mind.envs.hri import default_domain
from quantum_mind.families.dynamics import MarkovBelief, OpenSystemBelief

from benchmarks.published_tables import Robot
from benchmarks.sessions import Sessions, padded
from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT
from qmind_jax.people import MarkovTrust, TrustingPerson, TrustQubit

_ACTIONS = {"handover": HAND_OVER, "slow_handover": SLOW, "ask": ASK, "wait": WAIT}


def handover_sessions(people: TrustingPerson, robot: Robot, sessions: int) -> Sessions:
    """Sessions of hand-overs; the people are met in turn, session i has seed i.

    Args:
        people: Population.
        robot: Whom the robot takes everybody for, or its only action.
        sessions: How many.
    """
    models = [_model(person) for person in people]
    results = [
        simulate_handover_session(
            _Always(robot) if isinstance(robot, int) else TrustAwareHandover(_model(robot)),
            TrustAwareHandover(models[i % len(models)]),
            np.random.default_rng(i),
        )
        for i in range(sessions)
    ]
    quantities = {
        name: np.array([result[name] for result in results], float) for name in ("cost", "failures", "asks")
    }
    actions = [[_ACTIONS[name] for name in result["actions"]] for result in results]
    return Sessions(padded(actions), quantities)


def question_sessions(order_blind: bool, sessions: int) -> Sessions:
    """Sessions of questions in the published domain, at 0.3 a question and 5 an error.

    The hypotheses are meant in turn, session i has seed i.

    Args:
        order_blind: Whether the planner takes answers for independent.
        sessions: How many.
    """
    truth = default_domain()
    planner = PeerPlanner(truth.order_free() if order_blind else truth, ask_cost=0.3, error_cost=5.0)
    intents = [truth.hypotheses[i % len(truth.hypotheses)] for i in range(sessions)]
    results = [planner.simulate(truth, intent, np.random.default_rng(i)) for i, intent in enumerate(intents)]
    quantities = {
        "cost": np.array([result["total_cost"] for result in results]),
        "accuracy": np.array([result["correct"] for result in results], float),
        "questions": np.array([len(result["history"]) for result in results], float),
    }
    actions = [
        [
            *(truth.questions.index(question) for question, _ in result["history"]),
            len(truth.questions) + truth.hypotheses.index(result["choice"]),
        ]
        for result in results
    ]
    return Sessions(padded(actions), quantities)


def _model(person: TrustingPerson) -> OpenSystemBelief | MarkovBelief:
    """The same person as a model of quantum-mind."""
    if isinstance(person, TrustQubit):
        names, kind = ("phi0", "a_pos", "a_neg", "gamma"), OpenSystemBelief
    elif isinstance(person, MarkovTrust):
        names, kind = ("p0", "up", "down"), MarkovBelief
    else:
        raise TypeError(f"person must be a TrustQubit or a MarkovTrust, got {person!r}")
    return kind(**{name: float(getattr(person, name)) for name in names})


class _Always(TrustAwareHandover):
    """A robot that hands over, fast or slowly, whatever happens."""

    def __init__(self, action: int) -> None:
        super().__init__(MarkovBelief())
        self.action = "handover" if action == HAND_OVER else "slow_handover"

    def decide(self) -> dict[str, str]:
        return {"action": self.action}
