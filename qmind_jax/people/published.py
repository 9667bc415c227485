"""People and populations whose numbers have been published, with their sources."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.answering import ProjectiveAnswers
from qmind_jax.people.trust import MarkovTrust, TrustingPerson, TrustQubit
from qmind_jax.quantum import projector, unit_vector

_OBJECTS = ("red cup", "blue cup", "red bowl")
_QUESTIONS = ("red?", "cup?", "left?")


def default_domain(seed: int = 7) -> ProjectiveAnswers:
    """The object-clarification domain of quantum-mind: one person, three objects, three questions.

    States and questions are random directions of R^4 (hyperspherical angles uniform in (0, pi)); each
    question is the projector on one direction.

    Args:
        seed: Seed of NumPy's generator; 7 is the published domain.
    """
    angles = np.random.default_rng(seed).uniform(0.0, np.pi, (6, 3))
    # Numbers even where this is called under jit, for the default parameters of an environment.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        vectors = np.asarray(unit_vector(angles))
    return ProjectiveAnswers.from_dicts(
        dict(zip(_OBJECTS, vectors[:3], strict=True)),
        {question: projector(v) for question, v in zip(_QUESTIONS, vectors[3:], strict=True)},
    )


def hard_domain(seed: int = 22) -> ProjectiveAnswers:
    """One person for whom order, repeats and memory matter: three states and questions of rank 2 in R^4.

    States are Gaussian directions, questions projectors on random planes. A "yes" to a question of
    rank 1 leaves one state whatever was meant; rank 2 keeps information, so later answers still
    tell something and asking again can be best.

    In the domain of seed 22, with questions at 0.1, the best possible agent earns -0.8975, one that never
    repeats a question -0.9313, one that looks a single question ahead -1.345, and one that does so taking
    answers for independent -1.427.

    Args:
        seed: Seed of NumPy's generator; 22 is the domain of ``ClarificationHard-v0``.
    """
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(3, 4))
    planes = rng.normal(size=(3, 2, 4))
    return ProjectiveAnswers.from_dicts(
        dict(zip(_OBJECTS, states, strict=True)),
        {question: projector(plane) for question, plane in zip(_QUESTIONS, planes, strict=True)},
    )


def handover_population(
    key: jax.Array, n: int, family: Literal["qubit", "markov"] = "qubit"
) -> TrustingPerson:
    """One of the two populations of quantum-mind's published hand-over study.

    Args:
        key: JAX random key.
        n: Number of people, at least 1.
        family: ``"qubit"``: phi0 in U(0.3, 2.6), a_pos in U(0.4, 1.2), a_neg in U(0.8, 1.6), gamma in
            U(0.1, 0.5). ``"markov"``: p0 in U(0.2, 0.9), up in U(0.1, 0.5), down in U(0.2, 0.6).

    Raises:
        ValueError: For an unknown family or fewer than one person.
    """
    families = {
        "qubit": (TrustQubit, (0.3, 0.4, 0.8, 0.1), (2.6, 1.2, 1.6, 0.5)),
        "markov": (MarkovTrust, (0.2, 0.1, 0.2), (0.9, 0.5, 0.6)),
    }
    if family not in families:
        raise ValueError(f"family must be one of {sorted(families)}, got {family!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    kind, low, high = families[family]
    bounds = jnp.array([low, high])[..., None]
    values = jax.random.uniform(key, (len(low), n), minval=bounds[0], maxval=bounds[1])
    return kind(*values)
