"""Regret: what a policy earns less than the best policy for the same people."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.evaluation.by_person import ByPerson, by_person
from qmind_jax.evaluation.returns import Returns
from qmind_jax.evaluation.risk import WorstPeople, worst_people
from qmind_jax.policies.optimal import clarification_optimum, handover_optimum


@struct.dataclass
class Regret:
    """Optimum of the person met, minus return.

    One episode can beat the optimum, which is an expectation; a mean cannot, beyond its standard error.

    Attributes:
        per_episode: Float ``(episodes,)``.
        person: Whom each episode was with, int32 ``(episodes,)``.
        people: Number of people.
    """

    per_episode: jax.Array
    person: jax.Array
    people: int = struct.field(pytree_node=False)

    @property
    def mean(self) -> jax.Array:
        """Mean regret, in units of reward."""
        return self.per_episode.mean()

    @property
    def standard_error(self) -> jax.Array:
        """Standard error of the mean, for these people and other episodes."""
        return self.per_episode.std(ddof=1) / jnp.sqrt(self.per_episode.size)

    @property
    def by_person(self) -> ByPerson:
        """Mean regret about each person."""
        return by_person(self.per_episode, self.person, self.people)

    def worst_people(self, share: float = 0.1) -> WorstPeople:
        """Mean over the people of the highest regret; see :func:`~qmind_jax.evaluation.worst_people`."""
        worst = worst_people(-self.per_episode, self.person, self.people, share)
        return worst.replace(mean=-worst.mean)


def regret(returns: Returns, optima: Any) -> Regret:
    """Regret of a policy against the optimum of every person.

    Args:
        returns: What the policy earned.
        optima: Expected return of the best policy for each person, float ``(people,)``; see :func:`optima`.

    Raises:
        ValueError: If there is not one optimum per person.
    """
    optima = jnp.asarray(optima, returns.per_episode.dtype)
    if optima.shape != (returns.people,):
        raise ValueError(f"optima must have shape ({returns.people},), one per person, got {optima.shape}")
    return Regret(optima[returns.person] - returns.per_episode, returns.person, returns.people)


def optima(params: Any, **options: Any) -> jax.Array:
    """Expected return of the best policy that knows the person, for every person.

    A policy that has to find out whom it has met cannot reach this; the regret then holds the price of not
    knowing too.

    Args:
        params: Parameters of ``Clarification`` or ``TrustHandover``, with any number of people.
        **options: Of :func:`~qmind_jax.policies.optimal.clarification_optimum` or
            :func:`~qmind_jax.policies.optimal.handover_optimum`.

    Returns:
        Float ``(people,)``.

    Raises:
        TypeError: For the parameters of another environment.
    """
    if isinstance(params, ClarificationParams):
        return clarification_optimum(params.people, params, **options).value
    if isinstance(params, TrustHandoverParams):
        return handover_optimum(params.people, params, **options).value
    raise TypeError(f"params must be ClarificationParams or TrustHandoverParams, got {type(params).__name__}")
