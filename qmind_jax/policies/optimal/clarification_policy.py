"""A plan for Clarification as a policy: remembers the answers and looks its action up."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.policies.optimal.expectimax import Actions
from qmind_jax.policies.optimal.histories import Histories


@struct.dataclass
class ClarificationPolicyCarry:
    """What the policy remembers.

    Attributes:
        history: Node of the history so far, int32.
        action: Its last action, int32, -1 before the first.
    """

    history: jax.Array
    action: jax.Array


@struct.dataclass
class ClarificationPolicy:
    """Plays a plan in ``Clarification``, for one person.

    Attributes:
        actions: Action after each of n histories, int32 ``(n,)``; the first is that of nothing asked.
        children: History after the answer no (0) or yes (1) to each question, int32 ``(n, Q, 2)``.
    """

    actions: jax.Array
    children: jax.Array

    @classmethod
    def of(cls, actions: Actions, histories: Histories) -> "ClarificationPolicy":
        """The policy of a plan and of the histories that it tells apart."""
        children, first = [], 0
        for level in histories.levels:
            first += len(level.children)
            children.append(np.asarray(level.children) + first)
        # After the longest histories there is no more to look up.
        last = np.asarray(histories.may_ask)
        children.append(np.broadcast_to(first + np.arange(len(last))[:, None, None], (*last.shape, 2)))
        table = np.concatenate(children)
        return cls(
            jnp.concatenate(actions, axis=-1), jnp.asarray(np.minimum(table, len(table) - 1), jnp.int32)
        )

    def init(self, params: Any) -> ClarificationPolicyCarry:
        """Nothing asked."""
        return ClarificationPolicyCarry(jnp.int32(0), jnp.int32(-1))

    def act(
        self, carry: ClarificationPolicyCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, ClarificationPolicyCarry]:
        """Learn the last answer, then look the action up."""
        num_questions = self.children.shape[-2]
        asked = (carry.action >= 0) & (carry.action < num_questions)
        question = jnp.clip(carry.action, 0, num_questions - 1)
        yes = (observation[question] > 0).astype(jnp.int32)
        history = jnp.where(asked, self.children[carry.history, question, yes], carry.history)
        action = self.actions[history]
        return action, ClarificationPolicyCarry(history, action)
