"""Populations drawn from whatever is known of people, and populations divided for honest tests."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from qmind_jax.people.fitting.maximum_likelihood import Fit
from qmind_jax.people.population import Person, as_population


@runtime_checkable
class PeopleSource(Protocol):
    """Anything that people can be drawn from: priors, posteriors, fitted distributions."""

    def draw(self, n: int, key: jax.Array) -> Person:
        """A population of ``n`` people."""
        ...


def sample_people(source: Person | Fit | PeopleSource, n: int, key: jax.Array) -> Person:
    """A population drawn from a source of people.

    - One person, or a ``Fit`` of one: ``n`` copies.
    - A population: people drawn with replacement, each as likely as any other.
    - What holds a population as ``people``, such as the results of ``bootstrap`` and ``fit_individuals``:
      the same from that population.
    - What has ``draw(n, key)``: a ``GaussianPrior``, a ``Posterior`` (particles by weight), a
      ``HierarchicalFit`` (new people of the fitted population).

    Everyone keeps the structural options of the source. Pure: under ``jit`` with ``n`` static, new draws need
    no new compilation.

    Args:
        source: Where the people come from.
        n: How many, at least 1.
        key: JAX random key.

    Returns:
        A population of ``n`` people, of the family of the source.

    Raises:
        TypeError: If the source is none of these or ``n`` is no integer.
        ValueError: If ``n`` is below 1.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"n must be an integer, got {n!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    # A method comes first: a posterior has both, and its particles differ in weight.
    if isinstance(source, PeopleSource):
        return source.draw(n, key)
    people = source.person if isinstance(source, Fit) else getattr(source, "people", source)
    if not isinstance(people, Person):
        raise TypeError(
            "source must be a person, a population, a fit (fit, bootstrap, fit_individuals), or have "
            f"draw(n, key) as priors and posteriors have; got {type(source).__name__}: {source!r}"
        )
    people = as_population(people)
    return people[jax.random.randint(key, (n,), 0, len(people))]


class Split(NamedTuple):
    """Three populations without a person in common.

    Attributes:
        train: To fit or to train on.
        validation: To choose between models or agents.
        test: To judge the chosen one, once.
    """

    train: Person
    validation: Person
    test: Person


def split(
    people: Person,
    key: jax.Array,
    *,
    train: float = 0.7,
    validation: float = 0.15,
    test: float = 0.15,
) -> Split:
    """Divide a population at random: everybody is in exactly one part.

    Args:
        people: A population of at least three.
        key: JAX random key.
        train: Fraction of the people, positive.
        validation: Fraction of the people, positive.
        test: Fraction of the people, positive.

    Returns:
        Parts of the fractions, rounded, but of at least one person each.

    Raises:
        TypeError: If ``people`` is no person.
        ValueError: If there are fewer than three people, or the fractions are not positive with sum 1.
    """
    fractions = {"train": train, "validation": validation, "test": test}
    if not isinstance(people, Person):
        raise TypeError(f"people must be a population, got {type(people).__name__}: {people!r}")
    if not people.is_population or len(people) < 3:
        raise ValueError(f"people must be a population of at least three, got {people!r}")
    if not all(fraction > 0.0 for fraction in fractions.values()):
        raise ValueError(f"train, validation and test must be positive, got {fractions}")
    if abs(sum(fractions.values()) - 1.0) > 1e-6:
        raise ValueError(f"train, validation and test must sum to 1, got {fractions}")
    size = len(people)
    first = int(np.clip(round(train * size), 1, size - 2))
    second = int(np.clip(round((train + validation) * size), first + 1, size - 1))
    order = np.asarray(jax.random.permutation(key, size))
    return Split(*(people[part] for part in np.split(order, [first, second])))
