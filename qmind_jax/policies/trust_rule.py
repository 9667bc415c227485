"""The published one-step rule for hand-overs."""

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.trust_handover import SLOW, TrustHandoverParams
from qmind_jax.people.trust import TrustingPerson, p_trust
from qmind_jax.policies.ablation import order_blind as blind_to_order
from qmind_jax.policies.following import trust_after_step


@struct.dataclass
class TrustRuleCarry:
    """What the trust rule remembers.

    Attributes:
        trust: The pair (z, x) that the robot believes the person to have.
        action: Its last action, int32, -1 before the first.
    """

    trust: tuple[jax.Array, jax.Array]
    action: jax.Array


@struct.dataclass
class TrustRule:
    """The published one-step rule: follow the person's trust, take the cheapest next action.

    Expected costs with F = fail_cost, S = slow_cost, s = slow_factor and trust p: hand over F(1-p);
    slowly S + F(1-p)s; ask A + p min(0, S) + (1-p) min(F, S + Fs); wait W + the cheaper hand-over. It
    looks one step ahead, so it never waits. Source: quantum-mind's ``TrustAwareHandover``.

    Attributes:
        people: Population whose person 0 the robot takes everybody for.
        fail_cost: As in the environment; so are the other costs.
        slow_cost: See above.
        ask_cost: See above.
        wait_cost: See above.
        slow_factor: See above.
    """

    people: TrustingPerson
    fail_cost: jax.Array
    slow_cost: jax.Array
    ask_cost: jax.Array
    wait_cost: jax.Array
    slow_factor: jax.Array

    @classmethod
    def for_params(
        cls,
        params: TrustHandoverParams,
        people: TrustingPerson | None = None,
        *,
        order_blind: bool = False,
    ) -> "TrustRule":
        """The rule that knows the costs and takes everybody for the average person.

        Args:
            params: Parameters of the environment.
            people: Population of whose parameters the average is taken, of any family; that of the
                environment if None. Of mixed people it is the average of the most frequent family.
            order_blind: Ignore that questions change trust, see :func:`~qmind_jax.policies.order_blind`.
        """
        people = params.people if people is None else people
        average = people.average()
        return cls(
            people=blind_to_order(average) if order_blind else average,
            fail_cost=params.fail_cost,
            slow_cost=params.slow_cost,
            ask_cost=params.ask_cost,
            wait_cost=params.wait_cost,
            slow_factor=params.slow_factor,
        )

    def init(self, params: TrustHandoverParams) -> TrustRuleCarry:
        """The trust that the person starts with."""
        return TrustRuleCarry(self.people.initial_trust(jnp.int32(0)), jnp.int32(-1))

    def act(
        self, carry: TrustRuleCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, TrustRuleCarry]:
        """Learn what the last action did, then take the cheapest one."""
        trust = trust_after_step(self.people, jnp.int32(0), carry.trust, carry.action, observation)
        p = p_trust(trust)
        fail, slow = self.fail_cost, self.slow_cost
        hand_over = fail * (1.0 - p)
        hand_over_slowly = slow + fail * (1.0 - p) * self.slow_factor
        after_no = jnp.minimum(fail, slow + fail * self.slow_factor)
        ask = self.ask_cost + p * jnp.minimum(0.0, slow) + (1.0 - p) * after_no
        wait = self.wait_cost + jnp.minimum(hand_over, hand_over_slowly)
        action = jnp.argmin(jnp.stack([hand_over, hand_over_slowly, ask, wait])).astype(jnp.int32)
        return action, TrustRuleCarry(trust, action)

    def confidence(self, carry: TrustRuleCarry) -> jax.Array:
        """Believed probability that the action just chosen works, or that the answer is "yes"."""
        p = p_trust(carry.trust)
        return jnp.where(carry.action == SLOW, 1.0 - (1.0 - p) * self.slow_factor, p)
