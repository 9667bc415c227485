"""What quantum-mind has published of its policies: means per session, and whom the sessions were with."""

import dataclasses

import numpy as np

from qmind_jax.envs.trust_handover import HAND_OVER, SLOW
from qmind_jax.people import MarkovTrust, TrustingPerson, TrustQubit, as_population

Robot = TrustQubit | MarkovTrust | int
"""Whom a robot takes everybody for, following the one-step rule; or its only action."""

STUDY_PEOPLE = 300
"""How many people of each family the hand-over study met, once each."""


@dataclasses.dataclass(frozen=True)
class HandoverTable:
    """Means per session of one population.

    Attributes:
        people: The population.
        others: More people of the same kind, none of whom the published sessions met; where there is only one
            kind of person, that person again.
        sessions: Number of sessions; the people are met in turn.
        robots: By name.
        means: By robot and quantity.
        cost_errors: Published standard error of the mean cost by robot; empty if none was published.
    """

    people: TrustingPerson
    others: TrustingPerson
    sessions: int
    robots: dict[str, Robot]
    means: dict[str, dict[str, float]]
    cost_errors: dict[str, float] = dataclasses.field(default_factory=dict)


def handover_tables(sample: int = 1) -> dict[str, HandoverTable]:
    """The hand-over study, with two populations, and tutorial 3.

    Args:
        sample: How many times as many other people as the study met, at least 1.
    """
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
    with_qubits = {
        "qubit robot": {"cost": 39.8, "failures": 2.85, "asks": 7.2},
        "Markov robot": {"cost": 56.9, "failures": 4.73, "asks": 4.6},
        "always hand over": {"cost": 93.9, "failures": 9.39, "asks": 0.0},
        "always slow": {"cost": 68.9, "failures": 4.89, "asks": 0.0},
    }
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
    qubits, other_qubits = _study_people(sample, 1, ((0.3, 2.6), (0.4, 1.2), (0.8, 1.6), (0.1, 0.5)))
    chains, other_chains = _study_people(sample, 2, ((0.2, 0.9), (0.1, 0.5), (0.2, 0.6)))
    default = as_population(TrustQubit())
    return {
        "qubit people": HandoverTable(
            TrustQubit(*qubits),
            TrustQubit(*other_qubits),
            STUDY_PEOPLE,
            robots,
            with_qubits,
            dict(zip(robots, (1.5, 1.0, 1.4, 1.1), strict=True)),
        ),
        "Markov people": HandoverTable(
            MarkovTrust(*chains),
            MarkovTrust(*other_chains),
            STUDY_PEOPLE,
            robots,
            with_chains,
            dict(zip(robots, (1.9, 1.9, 4.8, 1.6), strict=True)),
        ),
        "tutorial 3": HandoverTable(default, default, 40, tutorial_robots, in_tutorial),
    }


def _study_people(
    sample: int, seed: int, ranges: tuple[tuple[float, float], ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Parameters, float ``(parameters, people)``: of the people met, and of those drawn right after them."""
    low, high = zip(*ranges, strict=True)
    shape = ((1 + sample) * STUDY_PEOPLE, len(ranges))
    draws = np.random.default_rng(seed).uniform(low, high, shape)
    return draws[:STUDY_PEOPLE].T, draws[STUDY_PEOPLE:].T


TUTORIAL_7_SESSIONS = 300
TUTORIAL_7 = {
    "order-aware planner": {"cost": 2.217, "accuracy": 0.617, "questions": 1.00},
    "order-blind planner": {"cost": 2.390, "accuracy": 0.603, "questions": 1.36},
}
"""Means as its program prints them; its text only says which planner is cheaper. The hypotheses are what the
person means in turn."""


def printed_luck(sessions: int, steps: int) -> np.ndarray:
    """The uniform numbers of the printed sessions, of which each has a generator of NumPy of its own.

    A session uses one of them for every hand-over, and for every question, in order.

    Args:
        sessions: How many sessions; session i has seed i.
        steps: How many numbers of each.

    Returns:
        Float ``(sessions, steps)`` in [0, 1).
    """
    return np.stack([np.random.default_rng(i).random(steps) for i in range(sessions)])
