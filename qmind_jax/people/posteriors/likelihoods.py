"""How probable what people said is: answers to questions, and ratings of trust.

A likelihood keeps what one person said as a pytree of fixed shape ("heard") and gives its log-probability
under a person. Posteriors of single people and of whole populations are built on these.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.names import unknown
from qmind_jax.people.counts import check_whole
from qmind_jax.people.population import Person, check_range
from qmind_jax.people.predicting import SMALLEST_PROBABILITY, Design, PredictingPerson
from qmind_jax.people.ratings.trials import TrustTrials
from qmind_jax.people.trust import TrustingPerson, p_trust


class Likelihood(Protocol):
    """What posteriors need to know of what was heard."""

    def log_likelihood(self, person: Person, heard: Any) -> jax.Array:
        """Log-probability of what one person said, float scalar, up to a constant."""
        ...

    def between(self, before: Any, after: Any, fraction: jax.Array) -> Any:
        """What was heard of one person with only a fraction of the news.

        Its log-likelihood lies that fraction of the way from the one before to the one after.
        """
        ...


@struct.dataclass
class AnswerLikelihood:
    """Answers that fall into the cells of ``predict``: independent given the person.

    Heard are counts, float ``(conditions, cells)``: as many numbers after a thousand answers as after one.

    Attributes:
        conditions: Name and description of each condition.
        cells: Number of cells of each condition; rows of ``counts`` with fewer are padded with zeros.
        family: The people who answer.
    """

    conditions: tuple[tuple[str, Hashable], ...] = struct.field(pytree_node=False)
    cells: tuple[int, ...] = struct.field(pytree_node=False)
    family: type[PredictingPerson] = struct.field(pytree_node=False)

    @classmethod
    def of(cls, family: type[PredictingPerson], design: Design | None = None) -> Self:
        """The likelihood of answers under a design; the family's default one if None.

        Raises:
            TypeError: If the family predicts no answers, or the design is no mapping.
            ValueError: For a condition that the family does not know.
        """
        if not (isinstance(family, type) and issubclass(family, PredictingPerson)):
            raise TypeError(f"family must be a class of people with predict, got {family!r}")
        conditions = family.check_design(design)
        shapes = jax.eval_shape(lambda: family().predict(conditions))
        return cls(tuple(conditions.items()), tuple(shapes[name].shape[0] for name in conditions), family)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the conditions, in the order of the counts."""
        return tuple(name for name, _ in self.conditions)

    def nothing(self, people: int) -> jax.Array:
        """Counts of people who have said nothing, float ``(people, conditions, cells)``."""
        return jnp.zeros((people, len(self.cells), max(self.cells)))

    def counts(self, data: Mapping[str, Any]) -> jax.Array:
        """Counts of people from tables by condition.

        Args:
            data: By condition, whole numbers of at least 0, shape ``(people, cells)``.

        Returns:
            Float ``(people, conditions, cells)``.

        Raises:
            ValueError: If a condition is missing or unknown, shapes do not fit, or a number is no count.
            TypeError: If the data are no mapping of numbers.
        """
        arrays = check_whole(data, dict(zip(self.names, self.cells, strict=True)), people=True)
        widest = max(self.cells)
        padded = [np.pad(values, ((0, 0), (0, widest - values.shape[1]))) for values in arrays.values()]
        return jnp.asarray(np.stack(padded, axis=1), float)

    def add(self, heard: jax.Array, condition: Any, outcome: Any, count: Any = 1) -> jax.Array:
        """Counts after one more answer of each person, or ``count`` equal ones.

        Args:
            heard: Counts, ``(people, conditions, cells)``.
            condition: Name or index, one for all or ``(people,)`` indices.
            outcome: Index of the cell, one for all or ``(people,)``.
            count: Whole number of at least 0, one for all or ``(people,)``; 0 for who is silent.

        Returns:
            Counts of the same shape.

        Raises:
            ValueError: For an unknown condition, an index that is out of range or no integer, a count that
                is none, or another number of people. Under ``jit`` only names and shapes are checked; there
                an index out of range adds nothing.
        """
        if isinstance(condition, str):
            if condition not in self.names:
                raise ValueError(unknown("condition", condition, self.names))
            condition = self.names.index(condition)
        people = len(heard)
        condition = _per_person("condition", condition, people, len(self.cells))
        outcome = _per_person("outcome", outcome, people, max(self.cells))
        count = _per_person("count", count, people)
        if not any(isinstance(values, jax.core.Tracer) for values in (condition, outcome)):
            sizes = np.asarray(self.cells)[condition]
            if np.any(outcome >= sizes):
                i = int(np.argmax(outcome >= sizes))
                raise ValueError(
                    f"outcome must lie in 0 to {sizes[i] - 1} for condition {self.names[condition[i]]!r}, "
                    f"got {outcome[i]}"
                )
        return heard.at[jnp.arange(people), condition, outcome].add(
            jnp.asarray(count, heard.dtype), mode="drop"
        )

    def log_likelihood(self, person: PredictingPerson, heard: jax.Array) -> jax.Array:
        """Sum of counts times log-probabilities of one person, without the multinomial constant."""
        cells = person.predict(dict(self.conditions))
        total = jnp.zeros((), heard.dtype)
        for i, (name, _) in enumerate(self.conditions):
            for j in range(self.cells[i]):
                total += heard[i, j] * jnp.log(jnp.maximum(cells[name][j], SMALLEST_PROBABILITY))
        return total

    def between(self, before: jax.Array, after: jax.Array, fraction: jax.Array) -> jax.Array:
        """Counts of one person, with only a fraction of the new answers."""
        return before + fraction * (after - before)


@struct.dataclass
class HeardRatings:
    """Ratings of one person, or of people with a leading axis; T is the largest number of ratings.

    Attributes:
        happened: What the robot did before each rating: 1 a success, 0 a failure, -1 nothing; int8 ``(T,)``.
        rating: Trust in [0, 1], float ``(T,)``.
        weight: 1 where there is a rating and 0 behind the last one, float ``(T,)``.
        length: Number of ratings so far, int32 scalar.
    """

    happened: jax.Array
    rating: jax.Array
    weight: jax.Array
    length: jax.Array


@struct.dataclass
class RatingLikelihood:
    """Ratings of trust: the probability of trust plus Gaussian noise, independent given the person.

    Nobody's trust is changed by rating it: ratings are no answers to "do you trust the robot?", yes or no.

    Attributes:
        noise: Standard deviation of a rating, positive, on the scale of trust in [0, 1]; float scalar.
        family: The people who rate.
    """

    noise: jax.Array
    family: type[TrustingPerson] = struct.field(pytree_node=False)

    @classmethod
    def of(cls, family: type[TrustingPerson], noise: float) -> Self:
        """The likelihood of ratings by people of a family, with this noise.

        Raises:
            TypeError: If the family is none of people who trust.
            ValueError: Unless the noise is positive and finite.
        """
        if not (isinstance(family, type) and issubclass(family, TrustingPerson)):
            raise TypeError(f"family must be a class of people who trust, got {family!r}")
        noise = jnp.asarray(noise, float)
        if not isinstance(noise, jax.core.Tracer) and not (noise.ndim == 0 and 0.0 < noise < np.inf):
            raise ValueError(f"noise must be a positive finite number, got {noise}")
        return cls(noise, family)

    def nothing(self, people: int, ratings: int) -> HeardRatings:
        """What is known of people who have rated nothing, with room for so many ratings of each."""
        shape = (people, ratings)
        return HeardRatings(
            happened=jnp.full(shape, -1, jnp.int8),
            rating=jnp.zeros(shape),
            weight=jnp.zeros(shape),
            length=jnp.zeros(people, jnp.int32),
        )

    def ratings(self, trials: TrustTrials) -> HeardRatings:
        """All ratings of some participants: the first ``trust_before`` and every ``trust_after``.

        Later ``trust_before`` are left out: nothing happened since the ``trust_after`` before them.
        """
        first = jnp.zeros((trials.num_participants, 1))
        return HeardRatings(
            happened=jnp.concatenate(
                [first.astype(jnp.int8) - 1, jnp.asarray(trials.robot_correct, jnp.int8)], axis=1
            ),
            rating=jnp.concatenate([trials.trust_before[:, :1], trials.trust_after], axis=1),
            weight=jnp.concatenate([first + 1.0, trials.observed.astype(first.dtype)], axis=1),
            length=1 + trials.observed.sum(axis=1).astype(jnp.int32),
        )

    def add(self, heard: HeardRatings, rating: Any, happened: Any = -1) -> HeardRatings:
        """What is known after one more rating of each person.

        Args:
            heard: Ratings so far, with a leading axis of people.
            rating: Trust in [0, 1], one for all or ``(people,)``.
            happened: What the robot did since the rating before: 1 a success, 0 a failure, -1 nothing, as
                before the first trial; one for all or ``(people,)``.

        Raises:
            TypeError: If a rating is no number.
            ValueError: If a value is out of range, there is no room for one more rating, or there is another
                number of people. Under ``jit`` only shapes are checked; there a rating too many is dropped.
        """
        people, room = heard.rating.shape
        if not isinstance(rating, jax.core.Tracer):
            if np.asarray(rating).dtype.kind not in "biuf":
                raise TypeError(f"rating must hold numbers in [0, 1], got {rating!r}")
            check_range("add", "rating", rating, 0.0, 1.0)
        if not isinstance(happened, jax.core.Tracer) and not np.all(np.isin(happened, (-1, 0, 1))):
            raise ValueError(f"happened must be 1 (success), 0 (failure) or -1 (nothing), got {happened!r}")
        if not isinstance(heard.length, jax.core.Tracer) and np.any(np.asarray(heard.length) >= room):
            raise ValueError(f"there is room for {room} ratings of each person, and somebody has given them")
        rating = jnp.asarray(rating, heard.rating.dtype)
        happened = jnp.asarray(happened, jnp.int8)
        for name, values in (("rating", rating), ("happened", happened)):
            if values.shape not in ((), (people,)):
                raise ValueError(f"{name} must be a scalar or of shape ({people},), got {values.shape}")
        place = jnp.arange(people), heard.length
        return HeardRatings(
            happened=heard.happened.at[place].set(happened, mode="drop"),
            rating=heard.rating.at[place].set(rating, mode="drop"),
            weight=heard.weight.at[place].set(1.0, mode="drop"),
            length=heard.length + 1,
        )

    def log_likelihood(self, person: TrustingPerson, heard: HeardRatings) -> jax.Array:
        """Log-density of the ratings of one person."""
        error = (heard.rating - _trust_after(person, heard.happened)) / self.noise
        constant = jnp.log(self.noise) + 0.5 * np.log(2.0 * np.pi)
        return -jnp.sum(heard.weight * (0.5 * error**2 + constant))

    def between(self, before: HeardRatings, after: HeardRatings, fraction: jax.Array) -> HeardRatings:
        """Ratings of one person, the newest with a fraction of their weight."""
        weight = before.weight + fraction * (after.weight - before.weight)
        return after.replace(weight=weight)


def _trust_after(person: TrustingPerson, happened: jax.Array) -> jax.Array:
    """Probability of trust after each of some events (as in :class:`HeardRatings`), float ``(T,)``."""
    people = jax.tree.map(lambda leaf: leaf[None], person)

    def step(trust: tuple[jax.Array, jax.Array], event: jax.Array) -> tuple:
        after = people.after_outcome(trust, 0, event == 1)
        trust = jax.tree.map(lambda new, old: jnp.where(event >= 0, new, old), after, trust)
        return trust, p_trust(trust)

    # Steps are so small that the turns of a loop would take longer than they.
    return jax.lax.scan(step, people.initial_trust(0), happened, unroll=min(len(happened), 8))[1]


def _per_person(name: str, values: Any, people: int, size: int | None = None) -> Any:
    """Integers of shape ``(people,)``, in ``0 .. size - 1`` if a size is given, or ``ValueError``."""
    array = values if isinstance(values, jax.core.Tracer) else np.asarray(values)
    if array.shape not in ((), (people,)):
        raise ValueError(f"{name} must be a scalar or of shape ({people},), got {array.shape}")
    if isinstance(array, jax.core.Tracer):
        if size is not None:
            array = jnp.where(array < 0, size, array)  # out of range, or it would count from the end
        return jnp.broadcast_to(array, (people,))
    numbers = np.broadcast_to(array, (people,))
    whole = numbers.dtype.kind in "iuf" and np.all(numbers == np.round(numbers))
    if not whole or np.any(numbers < 0) or (size is not None and np.any(numbers >= size)):
        upper = "of at least 0" if size is None else f"from 0 to {size - 1}"
        raise ValueError(f"{name} must hold integers {upper}, got {values!r}")
    return numbers.astype(int)
