"""What a policy is: two pure functions of one lane."""

from typing import Any, Protocol

import jax


class Policy(Protocol):
    """A policy for one lane; batches are ``vmap``.

    Policies are pytrees, so that networks of many seeds, or rules with other costs, are one policy
    with a leading axis.
    """

    def init(self, params: Any) -> Any:
        """The carry at the start of an episode.

        Args:
            params: Parameters of the environment.
        """

    def act(self, carry: Any, observation: jax.Array, key: jax.Array) -> tuple[jax.Array, Any]:
        """Choose an action.

        Args:
            carry: What the policy remembers of the episode.
            observation: What the agent sees.
            key: JAX random key, for policies that draw.

        Returns:
            Action, int32 scalar, and the next carry.
        """
