"""Beliefs of an agent who does not know whom it asks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.policies.optimal.beliefs import BeliefModel, Beliefs, belief_model


class Mixture:
    """The belief models of all people of a population, each as likely as the others.

    The beliefs have a leading axis of people, and hold for each the probability of the answers: what an agent
    knows about the person is part of what it believes.
    """

    def __init__(self, people: AnsweringPerson) -> None:
        self.people = people

    def start(self) -> Beliefs:
        """Of everybody."""
        return self._each(lambda model: model.start())

    def split(self, beliefs: Beliefs) -> Beliefs:
        """Of everybody."""
        return self._each(lambda model, belief: model.split(belief), beliefs)

    def pick(self, beliefs: Beliefs, index: jax.Array) -> Beliefs:
        """Of everybody."""
        return self._each(lambda model, belief: model.pick(belief, index), beliefs)

    def weights(self, beliefs: Beliefs) -> jax.Array:
        """Probability of each history under each hypothesis, whoever the person is, ``(H, n)``."""
        return jnp.mean(self._each(lambda model, belief: model.weights(belief), beliefs), axis=0)

    def _each(self, function: Callable[..., Beliefs], *beliefs: Beliefs) -> Beliefs:
        def of_one(person: AnsweringPerson, *belief: Beliefs) -> Beliefs:
            model: BeliefModel = belief_model(jax.tree.map(lambda leaf: leaf[None], person))
            return function(model, *belief)

        return jax.vmap(of_one)(self.people, *beliefs)
