"""What quantum-mind has published of its policies: means per session, and whom the sessions were with."""

import dataclasses

import numpy as np

from qmind_jax.envs.trust_handover import HAND_OVER, SLOW
from qmind_jax.people import MarkovTrust, TrustingPerson, TrustQubit, as_population

Robot = TrustQubit | MarkovTrust | int
"""Whom a robot takes everybody for, following the one-step rule; or its only action."""


@dataclasses.dataclass(frozen=True)
class HandoverTable:
    """Means per session of one population.

    Attributes:
        people: The population.
        sessions: Number of sessions; the people are met in turn.
        robots: By name.
        means: By robot and quantity.
    """

    people: TrustingPerson
    sessions: int
    robots: dict[str, Robot]
    means: dict[str, dict[str, float]]


def handover_tables() -> dict[str, HandoverTable]:
    """The hand-over study, whose 300 people are uniform draws of NumPy with seeds 1 and 2, and tutorial 3."""
    qubits = np.random.default_rng(1).uniform((0.3, 0.4, 0.8, 0.1), (2.6, 1.2, 1.6, 0.5), (300, 4))
    chains = np.random.default_rng(2).uniform((0.2, 0.1, 0.2), (0.9, 0.5, 0.6), (300, 3))
    robots = {
        "qubit robot": TrustQubit(phi0=1.45, a_pos=0.8, a_neg=1.2, gamma=0.3),
        "Markov robot": MarkovTrust(p0=0.55, up=0.3, down=0.4),
        "always hand over": HAND_OVER,
        "always slow": SLOW,
    }
    tutorial_robots = {
        "qubit robot": TrustQubit(),
        "Markov robot": MarkovTrust(),
        "always hand over": HAND_OVER,
    }
    # Standard errors of the costs as published, which hold the spread between people too: 1.5, 1.0, 1.4, 1.1.
    with_qubits = {
        "qubit robot": {"cost": 39.8, "failures": 2.85, "asks": 7.2},
        "Markov robot": {"cost": 56.9, "failures": 4.73, "asks": 4.6},
        "always hand over": {"cost": 93.9, "failures": 9.39, "asks": 0.0},
        "always slow": {"cost": 68.9, "failures": 4.89, "asks": 0.0},
    }
    # 1.9, 1.9, 4.8, 1.6.
    with_chains = {
        "qubit robot": {"cost": 27.8, "failures": 1.88, "asks": 8.2},
        "Markov robot": {"cost": 22.1, "failures": 1.71, "asks": 1.9},
        "always hand over": {"cost": 104.2, "failures": 10.42, "asks": 0.0},
        "always slow": {"cost": 41.0, "failures": 2.10, "asks": 0.0},
    }
    in_tutorial = {
        "qubit robot": {"cost": 42.1},
        "Markov robot": {"cost": 60.9},
        "always hand over": {"cost": 96.2},
    }
    return {
        "qubit people": HandoverTable(TrustQubit(*qubits.T), 300, robots, with_qubits),
        "Markov people": HandoverTable(MarkovTrust(*chains.T), 300, robots, with_chains),
        "tutorial 3": HandoverTable(as_population(TrustQubit()), 40, tutorial_robots, in_tutorial),
    }


TUTORIAL_7_SESSIONS = 300
TUTORIAL_7 = {
    "order-aware planner": {"cost": 2.217, "accuracy": 0.617, "questions": 1.00},
    "order-blind planner": {"cost": 2.390, "accuracy": 0.603, "questions": 1.36},
}
"""Means as its program prints them; its text only says which planner is cheaper."""
