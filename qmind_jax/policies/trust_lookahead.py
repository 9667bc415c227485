"""Hand-overs to somebody unknown: infer who it is, look a few steps ahead."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.trust_handover import ASK, SLOW, TrustHandoverParams
from qmind_jax.people.trust import TrustingPerson, TrustState, p_trust
from qmind_jax.policies.ablation import order_blind as blind_to_order
from qmind_jax.policies.following import trust_after_step
from qmind_jax.policies.trust_values import TrustValues, trust_values
from qmind_jax.policies.weights import check_weights, normalised


@struct.dataclass
class TrustLookaheadCarry:
    """What the planner remembers.

    Attributes:
        weights: Probability of each person, ``(P,)``.
        trust: What the trust (z, x) of each would be by now, ``(P,)`` each.
        time: Steps taken, int32.
        action: The last action, int32, -1 before the first.
    """

    weights: jax.Array
    trust: TrustState
    time: jax.Array
    action: jax.Array


@struct.dataclass
class TrustLookahead:
    """Filter who the person is, exactly over a finite set of people, and plan with the believed mixture.

    Every outcome and every answer reweights the people by how probable it was for each (Bayes' rule). The
    action is the best of an exact expectimax over the next ``depth`` steps, in which the belief is updated
    too, so that what an action would tell is part of its value. After those steps the planner reckons as if
    it knew who the person is: with the mean over the people of what the best policy for each would earn. With
    depth 1 this is known as QMDP (Littman et al. 1995), and it never asks just to find out; with one person
    it is the optimum but for interpolation; with as many steps as the episode has, the Bayes-adaptive
    optimum. Work grows as ``P 7 ** depth``.

    Attributes:
        people: The P people that the robot reckons with, of any family: all that there are, or a sample.
        weights: Probability of each before anything has happened, ``(P,)``.
        params: Costs and horizon that the planner reckons with; its own ``people`` are not used.
        values: What the best policy for each would earn from any state of trust on.
        depth: Steps to look ahead, at least 1.
    """

    people: TrustingPerson
    weights: jax.Array
    params: TrustHandoverParams
    values: TrustValues
    depth: int = struct.field(pytree_node=False, default=2)

    @classmethod
    def for_params(
        cls,
        params: TrustHandoverParams,
        people: TrustingPerson | None = None,
        *,
        weights: Any = None,
        depth: int = 2,
        order_blind: bool = False,
    ) -> "TrustLookahead":
        """The planner that knows the costs and the population.

        Args:
            params: Parameters of the environment; ``n_steps`` must be concrete.
            people: The people to reckon with; those of the environment if None.
            weights: Probability of each, any scale, ``(P,)``; equal if None.
            depth: Steps to look ahead, at least 1.
            order_blind: Ignore that questions change trust, see :func:`~qmind_jax.policies.order_blind`.

        Raises:
            ValueError: If ``depth`` is below 1, or the weights have another shape, a negative or infinite
                entry, or only zeros.
        """
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        people = params.people if people is None else people
        people = blind_to_order(people) if order_blind else people
        size = len(people)
        equal = jnp.full(size, 1.0 / size)
        return cls(
            people=people,
            weights=equal if weights is None else check_weights("weights", weights, size),
            # The planner reads costs and the horizon alone: no need to carry everybody about twice.
            params=params.replace(people=params.people[:1]),
            values=trust_values(people, params),
            depth=depth,
        )

    def init(self, params: TrustHandoverParams) -> TrustLookaheadCarry:
        """Nobody met yet."""
        trust = jax.vmap(self.people.initial_trust)(jnp.arange(len(self.people)))
        return TrustLookaheadCarry(self.weights, trust, jnp.int32(0), jnp.int32(-1))

    def act(
        self, carry: TrustLookaheadCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, TrustLookaheadCarry]:
        """Learn what the last action tells, then take the best one."""
        carry = self._learn(carry, observation)
        left = self.params.n_steps - carry.time
        action = jnp.argmax(self._action_values(carry.weights, carry.trust, left, self.depth))
        return action.astype(jnp.int32), carry.replace(time=carry.time + 1, action=action.astype(jnp.int32))

    def posterior(self, carry: TrustLookaheadCarry) -> jax.Array:
        """Probability of each person, ``(P,)``."""
        return carry.weights

    def confidence(self, carry: TrustLookaheadCarry) -> jax.Array:
        """Believed probability that the action just chosen works, or that the answer is "yes"."""
        # Weights that sum to 1 but for rounding can lift certainty above it.
        p = jnp.minimum(carry.weights @ p_trust(carry.trust), 1.0)
        return jnp.where(carry.action == SLOW, 1.0 - (1.0 - p) * self.params.slow_factor, p)

    def _learn(self, carry: TrustLookaheadCarry, observation: jax.Array) -> TrustLookaheadCarry:
        p = p_trust(carry.trust)
        p_works = 1.0 - (1.0 - p) * jnp.where(carry.action == SLOW, self.params.slow_factor, 1.0)
        p_outcome = jnp.where(observation[0] > 0, p_works, 1.0 - p_works)
        p_answer = jnp.where(observation[1] > 0, p, 1.0 - p)
        handed_over = (carry.action >= 0) & (carry.action <= SLOW)
        probability = jnp.where(handed_over, p_outcome, jnp.where(carry.action == ASK, p_answer, 1.0))
        weights = carry.weights * probability
        # What nobody could have done tells nothing about who it is.
        weights = jnp.where(weights.sum() > 0.0, normalised(weights), carry.weights)
        follow = jax.vmap(trust_after_step, in_axes=(None, 0, 0, None, None))
        trust = follow(self.people, jnp.arange(len(self.people)), carry.trust, carry.action, observation)
        return carry.replace(weights=weights, trust=trust)

    def _action_values(self, weights: jax.Array, trust: TrustState, left: jax.Array, depth: int) -> jax.Array:
        """Expected return to come of each action, ``(4,)``, times the probability of being here.

        Args:
            weights: Probability of each person and of being here, ``(P,)``; sums to the latter.
            trust: Trust of each, ``(P,)`` each.
            left: Steps left, int32.
            depth: Steps to look ahead, this one included.
        """
        params, people = self.params, self.people
        person = jnp.arange(len(people))
        after_outcome = jax.vmap(people.after_outcome, in_axes=(0, 0, None))
        after_answer = jax.vmap(people.after_answer, in_axes=(0, 0, None))
        here, p = weights.sum(), p_trust(trust)
        fails, fails_slowly = weights * (1.0 - p), weights * (1.0 - p) * params.slow_factor
        success, failure = (after_outcome(trust, person, works) for works in (True, False))
        yes, no = (after_answer(trust, person, says) for says in (True, False))
        branches = (
            (weights - fails, success),
            (fails, failure),
            (weights - fails_slowly, success),
            (fails_slowly, failure),
            (weights * p, yes),
            (weights * (1.0 - p), no),
            (weights, jax.vmap(people.after_wait)(trust, person)),
        )
        branches = jax.tree.map(lambda *leaves: jnp.stack(leaves), *branches)
        to_come = jax.vmap(self._value, in_axes=(0, 0, None, None))(*branches, left - 1, depth - 1)
        handover = here - (1.0 + params.fail_cost) * fails.sum()
        slowly = (1.0 - params.slow_cost) * here - (1.0 + params.fail_cost) * fails_slowly.sum()
        return jnp.stack(
            [
                handover + to_come[0] + to_come[1],
                slowly + to_come[2] + to_come[3],
                -params.ask_cost * here + to_come[4] + to_come[5],
                -params.wait_cost * here + to_come[6],
            ]
        )

    def _value(self, weights: jax.Array, trust: TrustState, left: jax.Array, depth: int) -> jax.Array:
        if depth == 0:
            return weights @ self.values.of(trust, jnp.maximum(left, 0))
        best = self._action_values(weights, trust, left, depth).max()
        return jnp.where(left > 0, best, 0.0)
