"""What is known of single people, updated answer by answer: sequential Monte Carlo for many at once.

Every person is a cloud of weighted particles on the free scale (Chopin 2002, "resample-move"). An answer
changes the weights. Where it leaves too few effective particles it is let in by fractions (tempered), and
after each fraction the particles are resampled and moved by Metropolis steps under everything heard so far.
Only people who need that pay for it: they are served in groups until nobody is left.

The functions are pure and the shapes fixed: ``update`` works under ``jit`` and in a ``scan`` over answers.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc.ess import log_ess
from blackjax.smc.resampling import systematic
from flax import struct

from qmind_jax import noise
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.likelihoods import AnswerLikelihood, Likelihood, RatingLikelihood
from qmind_jax.people.parameters import ParametricPerson

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


@struct.dataclass
class Posterior:
    """Beliefs about P people, each a cloud of N weighted particles over k free parameters.

    Attributes:
        prior: What was known of each of them before the first answer.
        likelihood: How probable what they say is.
        heard: What they have said, a pytree with a leading axis of P people.
        particles: Free vectors, float ``(P, N, k)``.
        log_weights: Logarithms of weights that sum to 1 for each person, float ``(P, N)``.
        log_likelihood: Of what was heard, of each particle, float ``(P, N)``.
        key: JAX random key of the next update.
    """

    prior: GaussianPrior
    likelihood: Likelihood
    heard: Any
    particles: jax.Array
    log_weights: jax.Array
    log_likelihood: jax.Array
    key: jax.Array

    @property
    def people(self) -> ParametricPerson:
        """All particles as a population of ``P * N`` people, those of a person side by side."""
        free = self.particles.reshape(-1, self.particles.shape[-1])
        return self.prior.family.from_free(free, **self.prior.options)

    @property
    def weights(self) -> jax.Array:
        """Weights that sum to 1 for each person, float ``(P, N)``."""
        return jnp.exp(self.log_weights)

    @property
    def effective_sample_size(self) -> jax.Array:
        """How many equally weighted particles each cloud is worth, float ``(P,)`` in [1, N]."""
        return jnp.exp(jax.vmap(log_ess)(self.log_weights))

    def values(self, name: str) -> jax.Array:
        """Natural values of a free parameter, float ``(P, N)``.

        Raises:
            ValueError: For a name that is no free parameter.
        """
        if name not in self.prior.names:
            raise ValueError(f"name must be one of {', '.join(self.prior.names)}, got {name!r}")
        parameter = self.prior.family.parameters[name]
        return parameter.from_free(self.particles[..., self.prior.names.index(name)])

    def mean(self, name: str) -> jax.Array:
        """Posterior mean of a parameter on its natural scale, float ``(P,)``."""
        return jnp.sum(self.weights * self.values(name), axis=1)

    def interval(self, name: str, level: float = 0.9) -> tuple[jax.Array, jax.Array]:
        """Central credible interval of a parameter on its natural scale.

        Args:
            name: A free parameter.
            level: Posterior probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, each float ``(P,)``.

        Raises:
            ValueError: For an unknown name or a level outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie in (0, 1), got {level}")
        tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        ends = jax.vmap(_weighted_quantiles, (0, 0, None))(self.values(name), self.weights, tails)
        return ends[:, 0], ends[:, 1]

    def predict(self, design: Any = None) -> dict[str, jax.Array]:
        """Posterior predictive: probabilities of the next answer, whoever the person is.

        Args:
            design: Conditions by name; by default those of the likelihood, or the family's own.

        Returns:
            By condition, float ``(P, cells)``.

        Raises:
            ValueError: For a condition that the family does not know.
        """
        if design is None and isinstance(self.likelihood, AnswerLikelihood):
            design = dict(self.likelihood.conditions)
        shape = self.log_weights.shape
        cells = self.people.predict(design)
        return {
            name: jnp.sum(self.weights[..., None] * values.reshape(*shape, -1), axis=1)
            for name, values in cells.items()
        }

    def draw(self, n: int, key: jax.Array) -> ParametricPerson:
        """A population of ``n`` people: one of the P drawn evenly, then a particle of theirs by weight."""
        person_key, particle_key = jax.random.split(key)
        person = jax.random.randint(person_key, (n,), 0, len(self.particles))
        particle = jax.random.categorical(particle_key, self.log_weights[person])
        return self.prior.family.from_free(self.particles[person, particle], **self.prior.options)


def start(
    prior: GaussianPrior,
    key: jax.Array,
    *,
    likelihood: Likelihood | None = None,
    people: int = 1,
    particles: int = 500,
    ratings: int = 100,
) -> Posterior:
    """Beliefs about people who have said nothing yet: particles from the prior.

    Args:
        prior: What is known of each person.
        key: JAX random key, of these particles and all later updates.
        likelihood: An ``AnswerLikelihood`` (by default that of the family's default design) or a
            ``RatingLikelihood``.
        people: P, at least 1.
        particles: N, at least 10.
        ratings: Room for ratings of each person, at least 1; counts of answers need none.

    Raises:
        ValueError: If a number is too small.
        TypeError: If the likelihood is none or that of another family, or the family predicts no answers.
    """
    for name, value, smallest in (
        ("people", people, 1),
        ("particles", particles, 10),
        ("ratings", ratings, 1),
    ):
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")
    likelihood = AnswerLikelihood.of(prior.family) if likelihood is None else likelihood
    if isinstance(likelihood, RatingLikelihood):
        heard = likelihood.nothing(people, ratings)
    elif isinstance(likelihood, AnswerLikelihood):
        heard = likelihood.nothing(people)
    else:
        raise TypeError(f"likelihood must be an AnswerLikelihood or a RatingLikelihood, got {likelihood!r}")
    if likelihood.family is not prior.family:
        raise TypeError(
            f"likelihood must be that of the prior's family {prior.family.__name__}, "
            f"got one of {likelihood.family.__name__}"
        )
    particle_key, next_key = jax.random.split(key)
    free = prior.draw_free(people * particles, particle_key).reshape(people, particles, -1)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        heard=heard,
        particles=free,
        log_weights=jnp.full((people, particles), -np.log(particles), free.dtype),
        log_likelihood=jnp.zeros((people, particles), free.dtype),
        key=next_key,
    )


def update(
    posterior: Posterior,
    condition: Any,
    outcome: Any,
    count: Any = 1,
    *,
    resample_below: float = 0.5,
    moves: int = 3,
) -> Posterior:
    """Beliefs after one more answer of every person, or ``count`` equal ones.

    Args:
        posterior: Beliefs before, with an ``AnswerLikelihood``.
        condition: Name or index of the condition, one for all or ``(P,)`` indices.
        outcome: Index of the cell that the answer fell into, one for all or ``(P,)``.
        count: Number of such answers, at least 0, one for all or ``(P,)``; 0 for who is silent. Beyond some
            million answers of a person, single precision rounds away what they tell: use double.
        resample_below: Fraction of N, in (0, 1): with fewer effective particles they are resampled and moved.
        moves: Metropolis steps of each particle at every move, at least 1.

    Raises:
        TypeError: If the posterior is one of ratings.
        ValueError: If an argument is out of range or of another number of people. Under ``jit`` arrays are
            not checked; an index out of range or a count that is not finite then adds no answer.
    """
    if not isinstance(posterior.likelihood, AnswerLikelihood):
        raise TypeError("update is for answers; update_rating takes ratings of trust")
    heard = posterior.likelihood.add(posterior.heard, condition, outcome, count)
    return absorb(posterior, heard, resample_below=resample_below, moves=moves)


def update_rating(
    posterior: Posterior,
    rating: Any,
    happened: Any = -1,
    *,
    resample_below: float = 0.5,
    moves: int = 3,
) -> Posterior:
    """Beliefs after one more rating of trust of every person.

    Args:
        posterior: Beliefs before, with a ``RatingLikelihood``.
        rating: Trust in [0, 1], one for all or ``(P,)``.
        happened: What the robot did since the rating before: 1 a success, 0 a failure, -1 nothing, as before
            the first trial; one for all or ``(P,)``.
        resample_below: As in :func:`update`.
        moves: As in :func:`update`.

    Raises:
        TypeError: If the posterior is one of answers, or a rating is no number.
        ValueError: If an argument is out of range or of another number of people, or there is no room for
            more ratings. Under ``jit`` arrays are not checked; a rating that is not finite is then no news.
    """
    if not isinstance(posterior.likelihood, RatingLikelihood):
        raise TypeError("update_rating is for ratings of trust; update takes answers")
    heard = posterior.likelihood.add(posterior.heard, rating, happened)
    return absorb(posterior, heard, resample_below=resample_below, moves=moves)


def absorb(posterior: Posterior, heard: Any, *, resample_below: float = 0.5, moves: int = 3) -> Posterior:
    """Beliefs after everything in ``heard``, which holds what was heard before and any amount of news.

    News of a person under which no particle has a finite log-likelihood, such as NaN, are no news: what was
    heard before and what is believed stay as they are.

    Args:
        posterior: Beliefs before.
        heard: Made from ``posterior.heard`` by the ``add`` of its likelihood.
        resample_below: As in :func:`update`.
        moves: As in :func:`update`.

    Raises:
        ValueError: If ``resample_below`` or ``moves`` is out of range.
    """
    if not 0.0 < resample_below < 1.0:
        raise ValueError(f"resample_below must lie in (0, 1), got {resample_below}")
    if moves < 1:
        raise ValueError(f"moves must be at least 1, got {moves}")
    return _absorb(posterior, heard, resample_below * posterior.log_weights.shape[1], moves)


@functools.partial(jax.jit, static_argnames="moves")
def _absorb(posterior: Posterior, heard: Any, smallest: jax.Array, moves: int) -> Posterior:
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


def _weighted_quantiles(values: jax.Array, weights: jax.Array, levels: np.ndarray) -> jax.Array:
    order = jnp.argsort(values)
    total = jnp.cumsum(weights[order])
    place = jnp.searchsorted(total, jnp.asarray(levels, total.dtype) * total[-1])
    return values[order][jnp.minimum(place, len(values) - 1)]
