"""The whole distribution of returns of a hand-over policy that knows the person, exactly."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.envs.checks import check_people
from qmind_jax.envs.trust_handover import ACTION_NAMES, ASK, SLOW, WAIT, TrustHandoverParams
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson, TrustState, p_trust
from qmind_jax.policies.optimal.handover import costs_of, steps_of

PlanOfTrust = Callable[[TrustState, jax.Array], jax.Array]
"""From the person's trust (z, x) and the steps taken to an action, as ``HandoverPolicy.action``; scalars."""


@struct.dataclass
class ReturnDistribution:
    """Returns of whole episodes and how likely they are.

    Attributes:
        returns: Different returns in ascending order, float ``(k,)``.
        probabilities: Float ``(k,)``.
        actions: Expected number of each action in an episode, float ``(4,)``.
        failures: Expected number of hand-overs that fail, float scalar.
        states: Number of different states of trust that the policy meets.
    """

    returns: np.ndarray
    probabilities: np.ndarray
    actions: np.ndarray
    failures: float
    states: int = struct.field(pytree_node=False)

    @property
    def mean(self) -> float:
        """Expected return."""
        return float(self.returns @ self.probabilities)

    def cvar(self, level: float) -> float:
        """Mean of the worst fraction ``level`` of episodes.

        Raises:
            ValueError: If ``level`` is not in (0, 1].
        """
        if not 0.0 < level <= 1.0:
            raise ValueError(f"level must lie in (0, 1], got {level!r}")
        before = np.cumsum(self.probabilities) - self.probabilities
        share = np.clip(level - before, 0.0, self.probabilities)
        return float(self.returns @ share / share.sum())


def handover_returns(
    person: TrustingPerson, params: TrustHandoverParams, plan: PlanOfTrust, *, max_states: int = 2_000_000
) -> ReturnDistribution:
    """Play a plan against every luck.

    Follows all states of trust and returns that the plan can come to; what agrees up to rounding is one.

    Args:
        person: One person.
        params: Costs and ``n_steps``.
        plan: A function of the person's trust and of time that JAX can trace, such as
            ``handover_policy(person, params).action``.
        max_states: Refuse to follow more pairs of state and return at a time.

    Raises:
        ValueError: If there are more people than one, or more states than ``max_states``.
        TypeError: If the person does not trust.
    """
    people = as_population(person)
    check_people(people, TrustingPerson)
    if len(people) != 1:
        raise ValueError(f"person must be one person, got {len(people)} people")
    costs, n_steps = costs_of(params, people), steps_of(params)
    fail, slow, ask, wait, slow_factor = (float(cost) for cost in jax.tree.leaves(costs))

    @jax.jit
    def look(trust: TrustState, time: jax.Array) -> tuple[jax.Array, ...]:
        action = jax.vmap(plan, in_axes=(0, None))(trust, time)
        after = (
            people.after_outcome(trust, 0, True),
            people.after_outcome(trust, 0, False),
            people.after_answer(trust, 0, jnp.ones_like(action, bool)),
            people.after_answer(trust, 0, jnp.zeros_like(action, bool)),
            people.after_wait(trust, 0),
        )
        return action, p_trust(trust), after

    start = np.stack(jax.tree.map(lambda leaf: np.asarray(leaf, float), people.initial_trust(0)))
    states, returns, chances = start[None], np.zeros(1), np.ones(1)
    counts, failures, met = np.zeros(len(ACTION_NAMES)), 0.0, set()
    digits = 10 if jax.tree.leaves(people)[0].dtype == np.float64 else 5
    for time in range(n_steps):
        met |= set(map(bytes, np.round(states, digits) + 0.0))
        size = len(states)
        # A power of two, so that few programs serve all numbers.
        padded = np.pad(states, ((0, 2 ** (size - 1).bit_length() - size), (0, 0)), mode="edge")
        trust = tuple(jnp.asarray(padded[:, i], costs.fail.dtype) for i in range(2))
        seen = look(trust, time)
        action, p_yes, after = jax.tree.map(lambda leaf, size=size: np.asarray(leaf)[:size], seen)
        counts += np.bincount(action, chances, len(counts))
        hands_over = action <= SLOW
        p_fail = (1.0 - p_yes) * np.where(action == SLOW, slow_factor, 1.0)
        failures += float(chances @ np.where(hands_over, p_fail, 0.0))
        extra = np.where(action == SLOW, slow, 0.0)
        branches = [
            (hands_over, 1.0 - p_fail, 1.0 - extra, after[0]),
            (hands_over, p_fail, -fail - extra, after[1]),
            (action == ASK, p_yes, np.full(len(action), -ask), after[2]),
            (action == ASK, 1.0 - p_yes, np.full(len(action), -ask), after[3]),
            (action == WAIT, np.ones(len(action)), np.full(len(action), -wait), after[4]),
        ]
        parts = [
            (np.stack(trust, axis=-1)[taken], (returns + reward)[taken], (chances * chance)[taken])
            for taken, chance, reward, trust in branches
        ]
        states, returns, chances = (np.concatenate(part) for part in zip(*parts, strict=True))
        states, returns, chances = _merged(states, returns, chances, digits)
        if len(returns) > max_states:
            raise ValueError(
                f"max_states must be at least {len(returns)} to follow the plan for {time + 1} steps, got "
                f"{max_states}"
            )
    _, returns, chances = _merged(np.zeros((len(returns), 2)), returns, chances, digits)
    return ReturnDistribution(returns, chances, counts, failures, len(met))


def _merged(
    states: np.ndarray, returns: np.ndarray, chances: np.ndarray, digits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal pairs of state and return taken together, in the order of returns; impossible ones dropped."""
    possible = chances > 0
    states, returns, chances = states[possible], returns[possible], chances[possible]
    keys = np.round(np.column_stack([returns, states]), digits) + 0.0
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return states[first], returns[first], np.bincount(group.ravel(), chances)
