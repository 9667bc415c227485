"""The same computation for every person, so many people at a time as memory allows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def map_people(function: Callable[[Any], Any], people: Any, batch_size: int) -> Any:
    """``vmap`` over the leading axis of a pytree, ``batch_size`` entries at a time.

    Gradients are computed as many at a time: nothing but the result of a batch is kept.

    Args:
        function: Of one person.
        people: Leaves of shape ``(people, ...)``.
        batch_size: At least 1.
    """
    size = jax.tree.leaves(people)[0].shape[0]
    batched = jax.vmap(function)
    if size <= batch_size:
        return batched(people)
    num_batches = -(-size // batch_size)
    batch_size = -(-size // num_batches)
    # Filled up with the last person, so that one program serves all batches.
    index = jnp.minimum(jnp.arange(num_batches * batch_size), size - 1).reshape(num_batches, batch_size)
    batches = jax.tree.map(lambda leaf: leaf[index], people)
    results = jax.lax.map(jax.checkpoint(batched), batches)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:size], results)


def people_at_a_time(bytes_per_person: int, memory_limit: int) -> int:
    """How many people fit into ``memory_limit`` bytes, at least 1."""
    if jax.default_backend() == "cpu":
        # More than fits into the caches of a CPU makes everybody slower.
        memory_limit = min(memory_limit, 2**24)
    return max(memory_limit // bytes_per_person, 1)
