"""Control tasks: people for whom the order of questions cannot matter.

A policy that knows about order has nothing to win there over its order-blind twin, if both make the best of
what they believe. A win would mean that something else than order is measured.
"""

import functools

import numpy as np

from qmind_jax.people import ProjectiveAnswers, TrustQubit
from qmind_jax.people.trust import TrustingPerson
from qmind_jax.policies import order_blind


def commuting_domain(seed: int, hypotheses: int = 3, questions: int = 3) -> ProjectiveAnswers:
    """One person whose questions commute and whose answers are independent given what is meant.

    Every question looks at a qubit of its own, in a state of its own: then no answer changes another.
    Questions that only commute would not do: their answers can depend on each other, which the order-blind
    twin, that takes them for independent, does not know either.

    Args:
        seed: Seed of NumPy's generator.
        hypotheses: H, at least 1.
        questions: Q, at least 1; states have ``2 ** Q`` entries.
    """
    angles = np.random.default_rng(seed).uniform(0.0, np.pi, (hypotheses, questions))
    qubits = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    up, same = np.diag([1.0, 0.0]), np.eye(2)
    return ProjectiveAnswers(
        states=np.stack([functools.reduce(np.kron, row) for row in qubits]),
        projectors=np.stack(
            [
                functools.reduce(np.kron, [up if i == question else same for i in range(questions)])
                for question in range(questions)
            ]
        ),
    )


def traceless(people: TrustQubit) -> TrustingPerson:
    """The same people, but with coherence lost at once: on average a question about trust changes nothing."""
    return order_blind(people)
