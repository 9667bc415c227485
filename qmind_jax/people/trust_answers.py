"""What people who trust answer when they are asked along the way, and what the asking does."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.predicting import PredictingPerson


class Trusting(Protocol):
    """What is needed here of :class:`qmind_jax.people.trust.TrustingPerson`."""

    def initial_trust(self, person: jax.Array) -> Any:
        """Trust before anything has happened."""

    def after_outcome(self, trust: Any, person: jax.Array, success: jax.Array) -> Any:
        """Trust after a success or failure."""

    def after_answer(self, trust: Any, person: jax.Array, yes: jax.Array) -> Any:
        """Trust after an answer."""


def check_course(name: str, events: Sequence[int], queries: Collection[int]) -> tuple:
    """Events as a tuple of bools and queries as a rising tuple of indices.

    Args:
        name: What the errors call this course of events.
        events: Outcomes of the robot in order: 1 or True for a success, 0 or False for a failure.
        queries: Indices of the events after which the person is asked "do you trust the robot?".

    Raises:
        ValueError: If there are no events or queries, an event is neither 0 nor 1, or a query is
            repeated or no index of an event.
        TypeError: If the queries are no collection.
    """
    outcomes = np.asarray(events)
    if outcomes.ndim != 1 or outcomes.size == 0 or not np.isin(outcomes, (0, 1)).all():
        raise ValueError(f"{name}: events must be a non-empty sequence of 0 (failure) or 1, got {events!r}")
    if not isinstance(queries, Iterable):
        raise TypeError(f"{name}: queries must be a collection of indices such as (2,), got {queries!r}")
    asked = np.asarray(list(queries))
    if asked.size == 0 or asked.dtype.kind not in "iu" or len(set(asked.tolist())) < asked.size:
        raise ValueError(f"{name}: queries must be one or more different indices of events, got {queries!r}")
    outside = asked[(asked < 0) | (asked >= outcomes.size)]
    if outside.size:
        raise ValueError(
            f"{name}: query {outside[0]} is outside the events; with {outcomes.size} events the queries lie "
            f"in 0 to {outcomes.size - 1}"
        )
    return tuple(bool(outcome) for outcome in outcomes), tuple(sorted(asked.tolist()))


def answer_probabilities(person: Trusting, events: Sequence[int], queries: Collection[int]) -> jax.Array:
    """Probability of every string of answers of one person.

    Args:
        person: One person, of any trust family.
        events: Outcomes of the robot in order: 1 for a success, 0 for a failure.
        queries: Indices of the k events after which the person is asked.

    Returns:
        Floats of shape ``(2 ** k,)`` that sum to 1. "Yes" comes before "no" and the first answer varies
        slowest: yes-yes, yes-no, no-yes, no-no. Differentiable in the person.

    Raises:
        ValueError: For events that are not 0 or 1, or queries that are no indices of events.
    """
    events, queries = check_course("answer_probabilities", events, queries)
    people = jax.tree.map(lambda leaf: leaf[None], person)
    after_outcome = jax.vmap(people.after_outcome, (0, None, None))
    after_answer = jax.vmap(people.after_answer, (0, None, None))
    # All courses that the answers can take so far, side by side.
    trust = jax.tree.map(lambda leaf: leaf[None], people.initial_trust(0))
    probabilities = jnp.ones_like(trust[0])
    for index, success in enumerate(events):
        trust = after_outcome(trust, 0, success)
        if index in queries:
            p_yes = jnp.clip(0.5 * (1.0 + trust[0]), 0.0, 1.0)
            probabilities = _interleave(probabilities * p_yes, probabilities * (1.0 - p_yes))
            trust = jax.tree.map(_interleave, after_answer(trust, 0, True), after_answer(trust, 0, False))
    return probabilities


def final_yes(person: PredictingPerson, events: Sequence[int], queries: Collection[int]) -> jax.Array:
    """Probability of "yes" at the last query, whatever was answered before.

    Args:
        person: A person, or a population, of any trust family.
        events: Outcomes of the robot in order: 1 for a success, 0 for a failure.
        queries: Indices of the events after which the person is asked.

    Returns:
        Float in [0, 1], a scalar for one person, ``(people,)`` for a population.

    Raises:
        ValueError: For events that are not 0 or 1, or queries that are no indices of events.
    """
    cells = person.predict({"course": (events, queries)})["course"]
    return jnp.sum(cells[..., ::2], axis=-1)


def question_effect(
    person: PredictingPerson, events: Sequence[int], last: int, intermediate: int
) -> jax.Array:
    """How much an earlier question changes the probability of "yes" to the last one.

    Exactly 0 for people whom asking does not change on average: a Markov chain, Beta trust, and a qubit
    that dephases at once (``gamma`` 1).

    Args:
        person: A person, or a population, of any trust family.
        events: Outcomes of the robot in order: 1 for a success, 0 for a failure.
        last: Index of the event after which everybody is asked.
        intermediate: Index of an earlier event after which only some are asked.

    Returns:
        Probability with the earlier question minus probability without it, in [-1, 1]; a scalar for one
        person, ``(people,)`` for a population.

    Raises:
        ValueError: If the indices are outside the events or ``intermediate`` is not before ``last``.
    """
    if not intermediate < last:
        raise ValueError(f"intermediate must lie before last, got intermediate={intermediate}, last={last}")
    return final_yes(person, events, (intermediate, last)) - final_yes(person, events, (last,))


def _interleave(first: jax.Array, second: jax.Array) -> jax.Array:
    return jnp.stack([first, second], axis=1).reshape(-1)
