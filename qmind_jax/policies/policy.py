"""What a policy is: two pure functions of one lane, and a third for many if it pays."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp


class Policy(Protocol):
    """A policy for one lane; batches are ``vmap``.

    A policy may also have ``act_batch(carry, observation, key)``, which acts for all lanes under one key;
    everything then has a leading axis of lanes. What lane i does depends on the key and on i alone.

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


def act_batch(policy: Policy, carry: Any, observation: jax.Array, key: jax.Array) -> tuple[jax.Array, Any]:
    """One action for every lane: by the policy's own ``act_batch``, or else with a key for every lane.

    Args:
        policy: A policy for one lane.
        carry: What it remembers, each leaf with a leading axis of lanes.
        observation: What the agent sees, with a leading axis of lanes.
        key: One JAX random key.

    Returns:
        Actions, int32 ``(lanes,)``, and the next carry.
    """
    if hasattr(policy, "act_batch"):
        return policy.act_batch(carry, observation, key)
    return jax.vmap(policy.act)(carry, observation, jax.random.split(key, observation.shape[0]))


def fresh_carry(policy: Policy, params: Any, lanes: int) -> Any:
    """What a policy remembers at the start of an episode, for every lane.

    Args:
        policy: A policy for one lane.
        params: Parameters of the environment.
        lanes: How many.

    Returns:
        Each leaf with a leading axis of lanes.
    """
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *jnp.shape(leaf))), policy.init(params))
