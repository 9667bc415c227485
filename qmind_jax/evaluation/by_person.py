"""Means over the episodes of each person."""

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class ByPerson:
    """A number of every episode, averaged over the episodes of each person.

    Attributes:
        episodes: How many episodes each person had, int32 ``(people,)``.
        mean: Float ``(people,)``; NaN for people without an episode.
        standard_error: Of each mean, float ``(people,)``; NaN for people with fewer than two episodes.
    """

    episodes: jax.Array
    mean: jax.Array
    standard_error: jax.Array

    @property
    def mean_over_people(self) -> jax.Array:
        """Every person who was met counts the same, however many episodes they had."""
        return jnp.nanmean(self.mean)

    @property
    def standard_error_over_people(self) -> jax.Array:
        """Standard error of that mean as one of *new* people of the same kind: people are the sample."""
        met = jnp.sum(self.episodes > 0)
        return jnp.nanstd(self.mean, ddof=1) / jnp.sqrt(met)


def by_person(values: jax.Array, person: jax.Array, people: int) -> ByPerson:
    """Average a number of every episode over the episodes of each person.

    Args:
        values: Real ``(episodes,)``.
        person: Whom each episode was with, int32 ``(episodes,)`` in ``0 .. people - 1``.
        people: Number of people, static under ``jit``.
    """
    values = jnp.asarray(values, jnp.result_type(float))

    def sums(of: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(of, person, people)

    episodes = sums(jnp.ones_like(person))
    mean = jnp.where(episodes > 0, sums(values) / jnp.maximum(episodes, 1), jnp.nan)
    # Second pass: the squares of the distances, not the difference of two large numbers.
    squares = sums((values - mean[person]) ** 2)
    variance = squares / jnp.maximum(episodes - 1, 1) / jnp.maximum(episodes, 1)
    return ByPerson(episodes, mean, jnp.where(episodes > 1, jnp.sqrt(variance), jnp.nan))
