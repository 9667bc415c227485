"""The tree of everything that can happen in a hand-over, for all people of a population at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from qmind_jax.people.trust import TrustingPerson, p_trust
from qmind_jax.policies.optimal.handover_costs import HandoverCosts, rewards

BRANCHES = 7
"""Hand-over works or fails, slow hand-over works or fails, yes, no, wait; the order of the events."""

_EVENTS_OF_ACTION = ((0, 1), (2, 3), (4, 5), (6,))


class EventLevel(NamedTuple):
    """All n histories of k events.

    Attributes:
        p_trust: Everybody's probability of trust, float ``(people, n)``.
        weight: Probability of being this person and of the answers and outcomes, ``(people, n)``.
    """

    p_trust: jax.Array
    weight: jax.Array


def grow(people: TrustingPerson, slow_factor: jax.Array, n_steps: int) -> list[EventLevel]:
    """Levels for 0, 1, ... ``n_steps - 1`` events; history i has the successors ``7 i`` to ``7 i + 6``."""

    def follow(person: TrustingPerson) -> list[EventLevel]:
        one = jax.tree.map(lambda leaf: leaf[None], person)
        trust = jax.tree.map(jnp.atleast_1d, one.initial_trust(0))
        weight = jnp.ones_like(trust[0]) / len(people)
        levels = [EventLevel(p_trust(trust), weight)]
        for _ in range(n_steps - 1):
            p_fail = 1.0 - p_trust(trust)
            worked, failed = one.after_outcome(trust, 0, True), one.after_outcome(trust, 0, False)
            yes, no = one.after_answer(trust, 0, True), one.after_answer(trust, 0, False)
            after = [worked, failed, worked, failed, yes, no, one.after_wait(trust, 0)]
            chances = [1.0 - p_fail, p_fail, 1.0 - p_fail * slow_factor, p_fail * slow_factor]
            chances += [1.0 - p_fail, p_fail, jnp.ones_like(p_fail)]
            trust = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=-1).ravel(), *after)
            weight = (weight[:, None] * jnp.stack(chances, axis=-1)).ravel()
            levels.append(EventLevel(p_trust(trust), weight))
        return levels

    return jax.vmap(follow)(people)


def optimum(levels: list[EventLevel], costs: HandoverCosts) -> jax.Array:
    """Value of the best policy that sees all events and knows the population, a scalar."""
    value = jnp.zeros(levels[-1].weight.shape[1] * BRANCHES, levels[0].weight.dtype)
    for level in reversed(levels):
        value = (_weighted_rewards(level, costs) + _sums(value)).max(axis=0)
    return value[0]


def judge(levels: list[EventLevel], costs: HandoverCosts, actions: list[jax.Array]) -> jax.Array:
    """Value of a policy, a scalar.

    Args:
        levels: The tree.
        costs: The costs.
        actions: Action after each history, int32 ``(n,)`` for each level.
    """
    value = jnp.zeros(levels[-1].weight.shape[1] * BRANCHES, levels[0].weight.dtype)
    for level, action in zip(reversed(levels), reversed(actions), strict=True):
        values = _weighted_rewards(level, costs) + _sums(value)
        value = jnp.take_along_axis(values, action[None], axis=0)[0]
    return value[0]


def plan_for(
    levels: list[EventLevel], costs: HandoverCosts, person: jax.Array
) -> tuple[jax.Array, list[jax.Array]]:
    """The optimum for one person, by index: its value with that person, and its actions everywhere.

    It also says what to do after what cannot happen with this person, but does with others.
    """
    value = jnp.zeros(levels[-1].weight.shape[1] * BRANCHES, levels[0].weight.dtype)
    actions = []
    for level in reversed(levels):
        p_fail = 1.0 - level.p_trust[person]
        worked, failed, slow_worked, slow_failed, yes, no, wait = value.reshape(-1, BRANCHES).T
        p_fail_slowly = p_fail * costs.slow_factor
        after = [
            worked + p_fail * (failed - worked),
            slow_worked + p_fail_slowly * (slow_failed - slow_worked),
            yes + p_fail * (no - yes),
            wait,
        ]
        values = rewards(p_fail, costs) + jnp.stack(after)
        value = values.max(axis=0)
        actions.append(jnp.argmax(values, axis=0).astype(jnp.int32))
    return value[0], actions[::-1]


def _weighted_rewards(level: EventLevel, costs: HandoverCosts) -> jax.Array:
    """Expected reward of each action, times the probability of the history, ``(4, n)``."""
    each = rewards(1.0 - level.p_trust, costs)
    # XLA (jaxlib 0.10.2, CPU, float32) gets the sum of this product over people wrong for many histories.
    return jnp.einsum("pn,apn->an", level.weight, each, precision="highest")


def _sums(value: jax.Array) -> jax.Array:
    """Sum of the values of the successors under each action, ``(4, n)``."""
    by_event = value.reshape(-1, BRANCHES).T
    return jnp.stack([sum(by_event[event] for event in events) for events in _EVENTS_OF_ACTION])
