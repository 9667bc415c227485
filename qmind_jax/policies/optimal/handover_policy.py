"""The optimum of TrustHandover as a policy, a function of the person's trust and of time."""

import functools

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.checks import check_people
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson, TrustState, p_trust
from qmind_jax.policies.following import trust_after_step
from qmind_jax.policies.optimal.chunks import map_people
from qmind_jax.policies.optimal.handover import backward, batch_size_for, costs_of, steps_of
from qmind_jax.policies.optimal.handover_costs import HandoverCosts, means_after, rewards
from qmind_jax.policies.optimal.resolution import MEDIUM, Resolution, layout_for


@struct.dataclass
class HandoverPolicyCarry:
    """What the policy remembers.

    Attributes:
        trust: The person's trust, the pair (z, x).
        time: Steps taken, int32.
        action: Its last action, int32, -1 before the first.
    """

    trust: TrustState
    time: jax.Array
    action: jax.Array


@struct.dataclass
class HandoverPolicy:
    """Takes the action of the highest expected return, for a person whom it knows.

    Attributes:
        people: A population of one: the person.
        costs: The costs.
        later: Expected return from each of n states on, when 0, 1, ... ``n_steps - 1`` steps are left, float
            ``(n_steps, n)``.
        resolution: What the states are.
    """

    people: TrustingPerson
    costs: HandoverCosts
    later: jax.Array
    resolution: Resolution = struct.field(pytree_node=False)

    def action_values(self, trust: TrustState, time: jax.Array) -> jax.Array:
        """Expected return of each action, float ``(4,)``.

        Args:
            trust: Any state of trust (z, x) of the person's family, float scalars.
            time: Steps taken, int scalar in ``0 .. n_steps - 1``.
        """
        n_steps = self.later.shape[0]
        layout = layout_for(type(self.people), n_steps, self.resolution)
        left = jnp.clip(n_steps - 1 - time, 0, n_steps - 1)

        def later(trust: TrustState) -> jax.Array:
            place = layout.place(self.people, trust)
            return jnp.sum(self.later[left, place.index] * place.weight)

        people = self.people
        p_fail = 1.0 - p_trust(trust)
        means = means_after(
            p_fail,
            self.costs.slow_factor,
            success=later(people.after_outcome(trust, 0, True)),
            failure=later(people.after_outcome(trust, 0, False)),
            yes=later(people.after_answer(trust, 0, True)),
            no=later(people.after_answer(trust, 0, False)),
            wait=later(people.after_wait(trust, 0)),
        )
        return rewards(p_fail, self.costs) + means

    def action(self, trust: TrustState, time: jax.Array) -> jax.Array:
        """The best action, int32; the first of those that are equally good up to rounding."""
        values = self.action_values(trust, time)
        slack = 64 * jnp.finfo(values.dtype).eps * (1.0 + jnp.abs(values).max())
        return jnp.argmax(values >= values.max() - slack).astype(jnp.int32)

    def init(self, params: TrustHandoverParams) -> HandoverPolicyCarry:
        """The trust that the person starts with."""
        return HandoverPolicyCarry(self.people.initial_trust(0), jnp.int32(0), jnp.int32(-1))

    def act(
        self, carry: HandoverPolicyCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, HandoverPolicyCarry]:
        """Follow the person's trust through the last action, then take the best one."""
        trust = trust_after_step(self.people, jnp.int32(0), carry.trust, carry.action, observation)
        action = self.action(trust, carry.time)
        return action, HandoverPolicyCarry(trust, carry.time + 1, action)


def handover_policy(
    people: TrustingPerson,
    params: TrustHandoverParams,
    *,
    resolution: Resolution = MEDIUM,
    memory_limit: int = 2**30,
) -> HandoverPolicy:
    """The policy of the optimum, one for every person.

    Args:
        people: A population or one person.
        params: Costs and ``n_steps``.
        resolution: How finely it is solved. The policy is exact where no two actions are nearer to each other
            than the error of ``handover_optimum`` at this resolution.
        memory_limit: Bytes for the people who are solved at a time. The policies come on top of it.

    Returns:
        For a population a policy whose leaves have a leading axis of people, for use with ``vmap``; for one
        person a policy.

    Raises:
        ValueError: As ``handover_optimum``.
        TypeError: As ``handover_optimum``.
    """
    population = as_population(people)
    check_people(population, TrustingPerson)
    costs, n_steps = costs_of(params, population), steps_of(params)
    batch_size = batch_size_for(population, n_steps, resolution, memory_limit)
    policies = _solve(population, costs, n_steps, resolution, batch_size)
    return policies if people.is_population else jax.tree.map(lambda leaf: leaf[0], policies)


@functools.partial(jax.jit, static_argnames=("n_steps", "resolution", "batch_size"))
def _solve(
    people: TrustingPerson, costs: HandoverCosts, n_steps: int, resolution: Resolution, batch_size: int
) -> HandoverPolicy:
    layout = layout_for(type(people), n_steps, resolution)

    def solve(person: TrustingPerson) -> HandoverPolicy:
        person = jax.tree.map(lambda leaf: leaf[None], person)
        _, _, later = backward(layout, layout.graph(person), costs, n_steps, keep=True)
        return HandoverPolicy(person, costs, later, resolution)

    return map_people(solve, people, batch_size)
