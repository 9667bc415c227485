"""How bad it gets: the worst episodes, and the people for whom it is worst."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.evaluation.by_person import by_person


def cvar(values: jax.Array, alpha: float) -> jax.Array:
    """Conditional value at risk: mean of the worst fraction of returns.

    Where ``alpha`` times the number of returns is no integer, the last return counts in part, so that this is
    the exact CVaR of the returns as a distribution.

    Args:
        values: Returns (higher is better), float ``(..., episodes)``.
        alpha: Fraction of the episodes, in (0, 1]; 1 gives the mean.

    Returns:
        Float ``(...)``.

    Raises:
        ValueError: If there are no returns or ``alpha`` is outside (0, 1].
    """
    values = jnp.asarray(values, jnp.result_type(float))
    if values.ndim < 1 or values.shape[-1] < 1:
        raise ValueError(f"values must hold at least one return, got shape {values.shape}")
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha!r}")
    size = values.shape[-1]
    # Weights in double precision, as a million of them must add up.
    weights = np.clip(alpha * size - np.arange(size), 0.0, 1.0) / (alpha * size)
    return (jnp.sort(values, axis=-1) * jnp.asarray(weights, values.dtype)).sum(axis=-1)


@struct.dataclass
class WorstPeople:
    """The people of the lowest means.

    Attributes:
        mean: Mean over these people, of episodes that had no part in choosing them.
        standard_error: Of that mean, for these people and other episodes.
        people: Their indices, worst first, int32 ``(n,)``.
    """

    mean: jax.Array
    standard_error: jax.Array
    people: jax.Array


def worst_people(values: jax.Array, person: jax.Array, people: int, share: float = 0.1) -> WorstPeople:
    """Mean over the people for whom a policy does worst, by default a tenth of them.

    The people are chosen by every other of their episodes and judged by the rest: chosen and judged by the
    same episodes, the worst of many noisy means look worse than they are.

    Args:
        values: A number of every episode (higher is better), float ``(episodes,)``: returns, or regrets with
            the sign changed.
        person: Whom each episode was with, int32 ``(episodes,)``.
        people: Number of people, static under ``jit``. All need at least four episodes; ``balanced`` in
            :func:`evaluate` sees to that.
        share: Fraction of the people, in (0, 1]; at least one is taken.

    Raises:
        ValueError: If ``share`` is outside (0, 1], or (outside ``jit``) somebody has under four episodes.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must lie in (0, 1], got {share!r}")
    if not isinstance(person, jax.core.Tracer):
        fewest = np.bincount(np.asarray(person), minlength=people).min()
        if fewest < 4:
            raise ValueError(f"everybody needs at least four episodes, and somebody has {fewest}")
    chosen_by, judged_by = (
        by_person(values, jnp.where(_odd_episode(person) == odd, person, people), people)
        for odd in (False, True)
    )
    number = max(1, round(share * people))
    worst = jnp.argsort(chosen_by.mean)[:number].astype(jnp.int32)
    error = jnp.sqrt(jnp.sum(judged_by.standard_error[worst] ** 2)) / number
    return WorstPeople(judged_by.mean[worst].mean(), error, worst)


def _odd_episode(person: jax.Array) -> jax.Array:
    """Whether an episode is the second, fourth, ... of its person, bool ``(episodes,)``."""
    order = jnp.argsort(person, stable=True)
    in_order = person[order]
    rank = jnp.arange(person.size) - jnp.searchsorted(in_order, in_order)
    return jnp.zeros(person.size, bool).at[order].set(rank % 2 == 1)
