"""People as a robot sees them that does not know that its questions change anything."""

from typing import TypeVar

import jax.numpy as jnp

from qmind_jax.people.answering import IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.mixed_trust import MixedTrust
from qmind_jax.people.population import Person
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustQubit

PersonType = TypeVar("PersonType", bound=Person)

_NOTHING_TO_FORGET = (IndependentAnswers, MarkovTrust, BetaTrust)


def order_blind(people: PersonType) -> PersonType | IndependentAnswers:
    """The twin of a population in which a question leaves no trace.

    - ``ProjectiveAnswers``: every question is answered as if it were asked first (``order_free``).
    - ``TrustQubit``: coherence is lost at once (``gamma`` 1), so that on average an answer changes nothing.
    - ``MixedTrust``: the same for the qubits among the people.
    - Families whose questions leave no trace on average stay as they are.

    A planner that believes in the twin differs from one that knows the people only in that it ignores order:
    the ablation that shows what knowing about order is worth.

    Args:
        people: A person or a population.

    Raises:
        TypeError: For a family without a twin.
    """
    if isinstance(people, ProjectiveAnswers):
        return people.order_free()
    if isinstance(people, TrustQubit):
        return people.replace(gamma=jnp.ones_like(people.gamma))
    if isinstance(people, MixedTrust):
        qubit = people.family == people.families.index(TrustQubit)
        return people.replace(memory=jnp.where(qubit, 1.0, people.memory))
    if isinstance(people, _NOTHING_TO_FORGET):
        return people
    known = ", ".join(
        kind.__name__ for kind in (ProjectiveAnswers, TrustQubit, MixedTrust, *_NOTHING_TO_FORGET)
    )
    raise TypeError(f"people must be one of {known}; got {type(people).__name__}: {people!r}")
