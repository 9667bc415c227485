"""What the best policy that knows the person would still earn, looked up in a table."""

import functools

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.people.mixed_trust import MixedTrust
from qmind_jax.people.trust import BetaTrust, TrustingPerson, TrustState, p_trust

Z_NODES, X_NODES = 65, 17
"""Nodes of the table, both odd: 0 is one."""


@struct.dataclass
class Axis:
    """An interval of x, in which positions run from 0 to 1.

    Attributes:
        low: Its beginning.
        high: Its end.
        by_ratio: Whether equal steps are equal ratios, not equal differences: so for experience, of which one
            more outcome matters the less, the more there is.
    """

    low: jax.Array
    high: jax.Array
    by_ratio: jax.Array

    def position(self, x: jax.Array) -> jax.Array:
        """Position of x, in [0, 1]."""
        by_difference = (x - self.low) / (self.high - self.low)
        low, high, inside = (jnp.where(self.by_ratio, end, 1.0) for end in (self.low, self.high, x))
        span = jnp.where(self.by_ratio, jnp.log(high / low), 1.0)
        ratio = jnp.log(jnp.maximum(inside / low, 1.0)) / span
        return jnp.clip(jnp.where(self.by_ratio, ratio, by_difference), 0.0, 1.0)

    def place(self, position: jax.Array) -> jax.Array:
        """The x of a position in [0, 1]."""
        ratio = jnp.where(self.by_ratio, self.high / self.low, 1.0)
        return jnp.where(
            self.by_ratio, self.low * ratio**position, self.low + (self.high - self.low) * position
        )


@struct.dataclass
class TrustValues:
    """Expected return to come, for every person, number of steps left and state of trust.

    A quick approximation for planners, by interpolation between the nodes of a grid; the optimum with a bound
    on its error is :func:`~qmind_jax.policies.optimal.handover_optimum`.

    Attributes:
        table: Values at the nodes, ``(P, n_steps + 1, Z_NODES * X_NODES)``.
        axis: Where the grid of each person lies along x, each leaf ``(P,)``; along z it spans [-1, 1].
    """

    table: jax.Array
    axis: Axis

    def of(self, trust: TrustState, left: jax.Array) -> jax.Array:
        """The value of every person with a trust of their own, ``(P,)``.

        Args:
            trust: ``(z, x)`` of each person, ``(P,)`` each.
            left: Steps left, int32 in ``0 .. n_steps``.
        """
        node, weight = _corners(trust, self.axis)
        person = jnp.arange(len(self.table))
        return sum(self.table[person, left, n] * w for n, w in zip(node, weight, strict=True))


def trust_values(people: TrustingPerson, params: TrustHandoverParams) -> TrustValues:
    """Solve every person on a grid, backwards in time.

    Args:
        people: Population of any family.
        params: Costs and ``n_steps``, which must be concrete; their people are not looked at.
    """
    n_steps = int(params.n_steps)
    axis = _axis(people, n_steps)
    return TrustValues(_solve(people, params.replace(people=None, n_steps=None), axis, n_steps), axis)


@functools.partial(jax.jit, static_argnames="n_steps")
def _solve(people: TrustingPerson, costs: TrustHandoverParams, axis: Axis, n_steps: int) -> jax.Array:
    def one(person: jax.Array, axis: Axis) -> jax.Array:
        z = jnp.repeat(jnp.linspace(-1.0, 1.0, Z_NODES), X_NODES)
        x = jnp.tile(axis.place(jnp.linspace(0.0, 1.0, X_NODES)), Z_NODES)
        trust = (z, x)

        def corners(move: object, *how: bool) -> tuple[jax.Array, jax.Array]:
            return _corners(jax.vmap(lambda state: move(state, person, *how))(trust), axis)

        success, failure = (corners(people.after_outcome, works) for works in (True, False))
        yes, no = (corners(people.after_answer, says) for says in (True, False))
        wait = corners(people.after_wait)
        p = p_trust(trust)

        def earlier(value: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            def after(where: tuple[jax.Array, jax.Array]) -> jax.Array:
                return (value[where[0]] * where[1]).sum(axis=0)

            works, works_not = 1.0 + after(success), after(failure) - costs.fail_cost
            fails, fails_slowly = 1.0 - p, (1.0 - p) * costs.slow_factor
            best = jnp.stack(
                [
                    (1.0 - fails) * works + fails * works_not,
                    (1.0 - fails_slowly) * works + fails_slowly * works_not - costs.slow_cost,
                    p * after(yes) + (1.0 - p) * after(no) - costs.ask_cost,
                    after(wait) - costs.wait_cost,
                ]
            ).max(axis=0)
            return best, best

        nothing = jnp.zeros_like(z)
        _, values = lax.scan(earlier, nothing, None, length=n_steps)
        return jnp.concatenate([nothing[None], values])

    return jax.vmap(one)(jnp.arange(len(people)), axis)


def _corners(trust: TrustState, axis: Axis) -> tuple[jax.Array, jax.Array]:
    """The four nodes around each state and their weights, ``(4, ...)`` each."""
    z = jnp.clip((trust[0] + 1.0) * 0.5, 0.0, 1.0) * (Z_NODES - 1)
    x = axis.position(trust[1]) * (X_NODES - 1)
    row = jnp.minimum(z.astype(jnp.int32), Z_NODES - 2)
    column = jnp.minimum(x.astype(jnp.int32), X_NODES - 2)
    up, right = z - row, x - column
    node = row * X_NODES + column
    nodes = jnp.stack([node, node + 1, node + X_NODES, node + X_NODES + 1])
    weights = [(1 - up) * (1 - right), (1 - up) * right, up * (1 - right), up * right]
    return nodes, jnp.stack(weights)


def _axis(people: TrustingPerson, n_steps: int) -> Axis:
    """Coherence lies in [-1, 1]; experience grows from its start by at most the larger weight a step."""

    def experience(start: jax.Array, success: jax.Array, failure: jax.Array) -> Axis:
        most = jnp.maximum(jnp.maximum(success, failure), 1e-3)
        return Axis(start, start + n_steps * most, jnp.ones(len(people), bool))

    if isinstance(people, BetaTrust):
        return experience(people.n0, people.w_s, people.w_f)
    one = jnp.ones(len(people))
    coherence = Axis(-one, one, jnp.zeros(len(people), bool))
    if isinstance(people, MixedTrust):
        is_beta = people.family == people.families.index(BetaTrust)
        of_beta = experience(people.memory, people.success, people.failure)
        return jax.tree.map(lambda beta, other: jnp.where(is_beta, beta, other), of_beta, coherence)
    return coherence
