"""The program behind the published tables, run again: quantum-mind's own sessions with other luck."""

import numpy as np
from quantum_mind.applications.handover import TrustAwareHandover, simulate_handover_session
from quantum_mind.applications.questioning import QuestionPlanner as PeerPlanner
from quantum_mind.envs.hri import default_domain
from quantum_mind.families.dynamics import MarkovBelief, OpenSystemBelief

from benchmarks.published_tables import Robot
from qmind_jax.envs.trust_handover import HAND_OVER
from qmind_jax.people import MarkovTrust, TrustingPerson, TrustQubit

Sessions = dict[str, np.ndarray]
"""Every quantity by name, one number per session."""


def handover_sessions(people: TrustingPerson, robot: Robot, sessions: int, seed: int) -> Sessions:
    """Sessions of hand-overs; the people are met in turn.

    Args:
        people: Population.
        robot: Whom the robot takes everybody for, or its only action.
        sessions: How many.
        seed: Session i has the generator of NumPy seeded with (seed, i).
    """
    models = [_model(person) for person in people]
    results = [
        simulate_handover_session(
            _Always(robot) if isinstance(robot, int) else TrustAwareHandover(_model(robot)),
            TrustAwareHandover(models[i % len(models)]),
            np.random.default_rng((seed, i)),
        )
        for i in range(sessions)
    ]
    return {
        name: np.array([result[name] for result in results], float) for name in ("cost", "failures", "asks")
    }


def question_sessions(order_blind: bool, sessions: int, seed: int) -> Sessions:
    """Sessions of questions in the published domain, at 0.3 a question and 5 an error.

    Args:
        order_blind: Whether the planner takes answers for independent.
        sessions: How many.
        seed: Seed of the generator of NumPy that all sessions share.
    """
    rng, truth = np.random.default_rng(seed), default_domain()
    planner = PeerPlanner(truth.order_free() if order_blind else truth, ask_cost=0.3, error_cost=5.0)
    intents = [truth.hypotheses[i] for i in rng.integers(len(truth.hypotheses), size=sessions)]
    results = [planner.simulate(truth, intent, rng) for intent in intents]
    return {
        "cost": np.array([result["total_cost"] for result in results]),
        "accuracy": np.array([result["correct"] for result in results], float),
        "questions": np.array([len(result["history"]) for result in results], float),
    }


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
