"""News let into clouds of particles: tempering, resampling, and moves (Chopin 2002, "resample-move").

News change the weights. Where they leave too few effective particles they are let in by fractions
(tempered), and after each fraction the particles are resampled and moved by Metropolis steps under everything
heard so far. Only people who need that pay for it: they are served in groups until nobody is left.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc.ess import log_ess
from blackjax.smc.resampling import systematic

from qmind_jax import noise
from qmind_jax.people.posteriors.particle_clouds import Posterior

_GROUP = 64
"""People who are resampled and moved together: enough to fill vectors, few enough to waste little."""

_HALVINGS = 12
"""Steps of the search for the fraction of the news to let in."""

_SMALLEST_FRACTION = 2.0**-40
"""Of the news to let in at once: few enough even of a thousand million equal answers."""

_MOST_ROUNDS = 200
"""Resamplings of a person per update; what is left of the news then changes the weights alone.

A million equal answers take about 40, a thousand million 70; more only news that no cloud can follow.
"""


@functools.partial(jax.jit, static_argnames="moves")
def let_in_news(posterior: Posterior, heard: Any, smallest: jax.Array, moves: int) -> Posterior:
    """Beliefs after everything in ``heard``.

    Args:
        posterior: Beliefs before.
        heard: What was heard before, and news.
        smallest: Effective particles with fewer of which a cloud is resampled and moved.
        moves: Metropolis steps of each particle at every move.
    """
    target = _log_likelihood(posterior, posterior.particles, heard)
    # Taken in, news that exclude everything could be let in by no fraction, and would spoil all later ones.
    possible = jnp.any(target > _impossible(target.dtype), axis=1)
    target = jnp.where(possible[:, None], target, posterior.log_likelihood)
    heard = _choose(possible, heard, posterior.heard)
    after = _let_in(posterior, heard, target)
    done = after.effective_sample_size >= smallest
    next_key, key = jax.random.split(posterior.key)
    group = min(_GROUP, len(done))

    def waiting(loop: tuple) -> jax.Array:
        return ~jnp.all(loop[2])

    def serve(loop: tuple) -> tuple:
        state, target, done, key, rounds = loop
        key, group_key = jax.random.split(key)
        chosen = jnp.argsort(done)[:group]  # who waits stands first
        part, news = _take(state, chosen), jax.tree.map(lambda leaf: leaf[chosen], heard)
        moved, moved_target, finished = _resample_move(
            part.replace(key=group_key), news, target[chosen], smallest, moves, rounds[chosen] == 1
        )
        # A group may be filled up with people who do not wait; they stay as they are.
        moved = _where(done[chosen], part, moved)
        return (
            _put(state, chosen, moved),
            target.at[chosen].set(moved_target),
            done.at[chosen].set(done[chosen] | finished),
            key,
            rounds.at[chosen].add(-1),
        )

    loop = (_where(done, after, posterior), target, done, key, jnp.full(len(done), _MOST_ROUNDS))
    return jax.lax.while_loop(waiting, serve, loop)[0].replace(key=next_key)


def _let_in(posterior: Posterior, heard: Any, target: jax.Array) -> Posterior:
    """Everything heard changes the weights alone; ``target`` is its log-likelihood, ``(P, N)``."""
    log_weights = jax.nn.log_softmax(posterior.log_weights + target - posterior.log_likelihood)
    return posterior.replace(heard=heard, log_weights=log_weights, log_likelihood=target)


def _resample_move(
    posterior: Posterior, heard: Any, target: jax.Array, smallest: jax.Array, moves: int, last: jax.Array
) -> tuple[Posterior, jax.Array, jax.Array]:
    """Let in as much of the news as the clouds can bear, resample, move, and let in the rest if possible.

    Where it is the ``last`` round, ``(P,)``, the rest is let in anyway.

    Returns:
        The posterior, the log-likelihood of everything heard of its particles, and for whom that was all.
    """
    people, size, k = posterior.particles.shape
    resample_key, move_key = jax.random.split(posterior.key)
    gain = target - posterior.log_likelihood
    fraction = jax.vmap(_bearable_fraction, (0, 0, None))(posterior.log_weights, gain, smallest)
    between = jax.vmap(posterior.likelihood.between)(posterior.heard, heard, fraction)
    log_weights = jax.nn.log_softmax(posterior.log_weights + fraction[:, None] * gain)
    chosen = jax.vmap(systematic, (0, 0, None))(
        jax.random.split(resample_key, people), jnp.exp(log_weights), size
    )
    cloud = jnp.take_along_axis(posterior.particles, chosen[..., None], axis=1)
    log_likelihood = posterior.log_likelihood + fraction[:, None] * gain
    log_likelihood = jnp.take_along_axis(log_likelihood, chosen, axis=1)
    log_prior = posterior.prior.log_density(cloud)

    def move(state: tuple, key: jax.Array) -> tuple[tuple, None]:
        particles, log_prior, log_likelihood = state
        first_key, second_key = jax.random.split(key)
        left, right, _ = noise.uniforms(first_key, (people, size))
        accept, stretch, _ = noise.uniforms(second_key, (people, size))
        # The difference of two particles of the cloud before the moves (ter Braak 2006) has the shape of the
        # posterior, bent or of several modes as it may be; how far to go along it varies.
        pair = (noise.choose(place, size)[..., None] for place in (left, right))
        away = functools.reduce(jnp.subtract, (jnp.take_along_axis(cloud, i, axis=1) for i in pair))
        scale = 2.38 / np.sqrt(2.0 * k) * 1.2 * jnp.sqrt(stretch)
        proposal = noise.once(particles + scale[..., None] * away)
        new_prior = posterior.prior.log_density(proposal)
        new_likelihood = _log_likelihood(posterior, proposal, between)
        ratio = new_prior + new_likelihood - log_prior - log_likelihood
        accepted = jnp.log1p(-accept) < ratio
        return (
            jnp.where(accepted[..., None], proposal, particles),
            jnp.where(accepted, new_prior, log_prior),
            jnp.where(accepted, new_likelihood, log_likelihood),
        ), None

    keys = jax.random.split(move_key, moves)
    (particles, _, log_likelihood), _ = jax.lax.scan(move, (cloud, log_prior, log_likelihood), keys)
    moved = posterior.replace(
        heard=between,
        particles=particles,
        log_weights=jnp.full_like(log_weights, -np.log(size)),
        log_likelihood=log_likelihood,
    )
    target = _log_likelihood(posterior, particles, heard)
    complete = _let_in(moved, heard, target)
    finished = last | (complete.effective_sample_size >= smallest)
    return _where(finished, complete, moved), target, finished


def _bearable_fraction(log_weights: jax.Array, gain: jax.Array, smallest: jax.Array) -> jax.Array:
    """Largest fraction of the news of one person that leaves enough effective particles."""

    def enough(fraction: jax.Array) -> jax.Array:
        return log_ess(log_weights + fraction * gain) >= jnp.log(smallest)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        good = enough(jnp.exp2(middle))
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    # Of logarithms, as a cloud can bear a tiny fraction of a million answers. The lower end lets in a little
    # even where rounding would say nothing, so that an update gets on.
    ends = jnp.array([np.log2(_SMALLEST_FRACTION), 0.0], gain.dtype)
    return jnp.exp2(jax.lax.fori_loop(0, _HALVINGS, halve, (ends[0], ends[1]))[0])


def _log_likelihood(posterior: Posterior, particles: jax.Array, heard: Any) -> jax.Array:
    """Of all particles ``(P, N, k)`` of all people, float ``(P, N)``."""

    def of_particle(free: jax.Array, heard: Any) -> jax.Array:
        person = posterior.prior.family.from_free(free, **posterior.prior.options)
        return posterior.likelihood.log_likelihood(person, heard)

    # Once, or XLA would compute it anew for every array that it reaches in a move.
    values = noise.once(jax.vmap(jax.vmap(of_particle, (0, None)))(particles, heard))
    return jnp.where(jnp.isfinite(values), values, _impossible(values.dtype))


def _impossible(dtype: jnp.dtype) -> float:
    """Log-likelihood of a particle that has no finite one: no weight, but differences stay finite."""
    return 0.25 * float(jnp.finfo(dtype).min)


_PER_PERSON = ("heard", "particles", "log_weights", "log_likelihood")
"""Fields of a posterior with a leading axis of people."""


def _per_person(posterior: Posterior) -> dict[str, Any]:
    return {name: getattr(posterior, name) for name in _PER_PERSON}


def _take(posterior: Posterior, chosen: jax.Array) -> Posterior:
    return posterior.replace(**jax.tree.map(lambda leaf: leaf[chosen], _per_person(posterior)))


def _put(posterior: Posterior, chosen: jax.Array, part: Posterior) -> Posterior:
    fields = jax.tree.map(
        lambda leaf, new: leaf.at[chosen].set(new, unique_indices=True),
        _per_person(posterior),
        _per_person(part),
    )
    return posterior.replace(**fields)


def _where(condition: jax.Array, yes: Posterior, no: Posterior) -> Posterior:
    """Person by person ``yes`` where the condition ``(P,)`` holds; the rest is that of ``no``."""
    return no.replace(**_choose(condition, _per_person(yes), _per_person(no)))


def _choose(condition: jax.Array, yes: Any, no: Any) -> Any:
    """Of two pytrees with leading axes of people, ``yes`` where the condition ``(P,)`` holds."""

    def choose(left: jax.Array, right: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(-1, *(1,) * (left.ndim - 1)), left, right)

    return jax.tree.map(choose, yes, no)
