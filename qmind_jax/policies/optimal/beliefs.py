"""What an agent with full recall believes after every history, for all hypotheses at once.

Beliefs are not normalised: their weight is the probability of the history under each hypothesis.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from qmind_jax.people.answering import AnsweringPerson, ProjectiveAnswers

Beliefs = Any
"""A pytree of arrays for H hypotheses and n histories."""


class BeliefModel(Protocol):
    """How the beliefs about one person change with the answers."""

    def start(self) -> Beliefs:
        """Before any answer: a single history."""

    def split(self, beliefs: Beliefs) -> Beliefs:
        """After either answer to every question: ``2 * Q * n`` histories, in the order (answer, Q, n)."""

    def pick(self, beliefs: Beliefs, index: jax.Array) -> Beliefs:
        """Those of some histories, by index."""

    def weights(self, beliefs: Beliefs) -> jax.Array:
        """Probability of each history under each hypothesis, float ``(H, n)``."""


def belief_model(people: AnsweringPerson) -> BeliefModel:
    """The belief model of a population of one."""
    return ProjectedStates(people) if isinstance(people, ProjectiveAnswers) else Likelihoods(people)


class ProjectedStates:
    """Projected state vectors ``(H, d, n)`` that are not normalised; the histories are innermost.

    The squared length of a vector is the probability of the answers that led to it.
    """

    def __init__(self, people: ProjectiveAnswers) -> None:
        self.states = people.states[0]
        self.projectors = people.projectors[0]

    def start(self) -> jax.Array:
        """The states."""
        return self.states[..., None]

    def split(self, beliefs: jax.Array) -> jax.Array:
        """``psi - P psi`` and ``P psi``."""
        yes = jnp.einsum("qij,hjn->hiqn", self.projectors, beliefs, precision=jax.lax.Precision.HIGHEST)
        both = jnp.stack([beliefs[:, :, None] - yes, yes], axis=2)
        return both.reshape(*beliefs.shape[:2], -1)

    def pick(self, beliefs: jax.Array, index: jax.Array) -> jax.Array:
        """By the last axis."""
        return beliefs[..., index]

    def weights(self, beliefs: jax.Array) -> jax.Array:
        """Squared lengths."""
        return jnp.sum(jnp.real(beliefs) ** 2 + jnp.imag(beliefs) ** 2, axis=1)


class Likelihoods:
    """The family's own belief beside the likelihood of the answers; serves every family."""

    def __init__(self, people: AnsweringPerson) -> None:
        self.people = people

    def start(self) -> Beliefs:
        """Likelihood one."""
        hypotheses = jnp.arange(self.people.num_hypotheses)
        belief = jax.vmap(self.people.initial_belief, in_axes=(None, 0))(0, hypotheses)
        likelihood = jnp.ones((len(hypotheses), 1), jnp.finfo(belief.dtype).dtype)
        return likelihood, belief[:, None]

    def split(self, beliefs: Beliefs) -> Beliefs:
        """Bayes' rule for the likelihood, the family's rule for the belief."""
        likelihood, belief = beliefs

        def answered(
            likelihood: jax.Array, belief: jax.Array, question: jax.Array, yes: jax.Array
        ) -> Beliefs:
            p_yes = self.people.p_yes(belief, 0, question)
            after = self.people.after_answer(belief, 0, question, yes)
            return likelihood * jnp.where(yes, p_yes, 1.0 - p_yes), after

        over_histories = jax.vmap(answered, in_axes=(0, 0, None, None))
        over_questions = jax.vmap(over_histories, in_axes=(None, None, 0, None))
        over_answers = jax.vmap(over_questions, in_axes=(None, None, None, 0))
        over_hypotheses = jax.vmap(over_answers, in_axes=(0, 0, None, None))
        questions, answers = jnp.arange(self.people.num_questions), jnp.array([False, True])
        both = over_hypotheses(likelihood, belief, questions, answers)
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[4:]), both)

    def pick(self, beliefs: Beliefs, index: jax.Array) -> Beliefs:
        """By the axis of histories, the second."""
        return jax.tree.map(lambda leaf: leaf[:, index], beliefs)

    def weights(self, beliefs: Beliefs) -> jax.Array:
        """The likelihood."""
        return beliefs[0]
