"""People who differ a little from one person."""

import jax
import jax.numpy as jnp

from qmind_jax.people.answering import ProjectiveAnswers


def vary_states(key: jax.Array, person: ProjectiveAnswers, n: int, spread: float = 0.1) -> ProjectiveAnswers:
    """A population whose states scatter around those of one person; the questions stay the same.

    Every entry of every state gets Gaussian noise, then the state is normalised again.

    Args:
        key: JAX random key.
        person: One person.
        n: Number of people, at least 1.
        spread: Standard deviation of the noise, at least 0; 0.1 turns a state by some 10 degrees in R^4.

    Raises:
        ValueError: If ``person`` is a population, ``n`` is below 1 or ``spread`` is negative.
    """
    if person.is_population:
        raise ValueError(f"person must be one person, got a population of {len(person)}")
    if n < 1 or spread < 0:
        raise ValueError(f"n must be at least 1 and spread at least 0, got n={n}, spread={spread}")
    noise = jax.random.normal(key, (n, *person.states.shape), person.states.dtype)
    return person.replace(
        states=person.states + spread * noise,
        projectors=jnp.broadcast_to(person.projectors, (n, *person.projectors.shape)),
    )
