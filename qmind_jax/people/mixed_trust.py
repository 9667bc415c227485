"""People of several trust families side by side, in one population and one compiled program."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.population import Person, as_population, field_of, stack
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit, TrustState

FamilyType = TypeVar("FamilyType", TrustQubit, MarkovTrust, BetaTrust)

# The families have parameters of the same kinds, and share their columns: every column is one lookup per
# lane and step.
_COLUMNS: Mapping[type[TrustingPerson], Mapping[str, str]] = MappingProxyType(
    {
        TrustQubit: {"phi0": "initial", "a_pos": "success", "a_neg": "failure", "gamma": "memory"},
        MarkovTrust: {"p0": "initial", "up": "success", "down": "failure"},
        BetaTrust: {"p0": "initial", "w_s": "success", "w_f": "failure", "n0": "memory"},
    }
)
_QUBIT, _MARKOV, _BETA = range(3)


class MixedTrust(TrustingPerson):
    """People who each trust by a family of their own; :func:`mix` makes them.

    Each person moves exactly as in the pure family. Which family that is is data: people of other
    families need no new compilation.

    Attributes:
        family: Index into :attr:`families`, int32.
        initial: ``phi0`` of a qubit (radians), ``p0`` of the others.
        success: What a success does: ``a_pos`` (radians), ``up`` or ``w_s``.
        failure: What a failure does: ``a_neg`` (radians), ``down`` or ``w_f``.
        memory: ``gamma`` of a qubit, ``n0`` of a Beta person; 0, and without meaning, for a Markov chain.

    Each is a scalar for one person or has shape ``(people,)``. Gradients by the float fields are those
    of the families; ``jax.grad`` needs ``allow_int=True`` because of ``family``.

    Raises:
        ValueError: If there is no family of an index, or a value is outside its range in the person's
            family.
        TypeError: If ``family`` does not hold integers.
    """

    family: jax.Array
    initial: jax.Array
    success: jax.Array
    failure: jax.Array
    memory: jax.Array

    families: ClassVar[tuple[type[TrustingPerson], ...]] = tuple(_COLUMNS)
    """The families that a population may hold."""

    _person_ndims = dict.fromkeys(("family", "initial", "success", "failure", "memory"), 0)
    _integers = frozenset({"family"})

    def members(self, family: type[TrustingPerson]) -> np.ndarray:
        """Indices of the people of one family, in their order.

        Raises:
            ValueError: If there is no such family.
            TypeError: If this is one person, or inside ``jit``, where their number is not known.
        """
        if family not in self.families:
            names = ", ".join(known.__name__ for known in self.families)
            raise ValueError(f"family must be one of {names}, got {family!r}")
        if isinstance(self.family, jax.core.Tracer):
            raise TypeError("the people of one family cannot be taken inside jit")
        if not self.is_population:
            raise TypeError(f"one person has no members, got {self!r}")
        return np.flatnonzero(np.asarray(self.family) == self.families.index(family))

    def only(self, family: type[FamilyType]) -> FamilyType:
        """The people of one family, in their order, as a population of that family.

        Raises:
            ValueError: If there is no such family.
            TypeError: If this is one person, or inside ``jit``, where their number is not known.
        """
        chosen = self[self.members(family)]
        return family(**{name: getattr(chosen, column) for name, column in _COLUMNS[family].items()})

    def average(self) -> Self:
        """The population of one person: the average of the most frequent family, the first on ties."""
        counts = jnp.stack([jnp.sum(self.family == i) for i in range(len(self.families))])
        commonest = jnp.argmax(counts).astype(jnp.int32)
        members = self.family == commonest
        means = {
            name: jnp.mean(getattr(self, name), where=members, keepdims=True)
            for name in self._person_ndims
            if name != "family"
        }
        return type(self)(family=commonest[None], **means)

    def initial_trust(self, person: jax.Array) -> TrustState:
        """That of the person's family."""
        return self._select(person, [people.initial_trust(person) for people in self._as_each_family()])

    def after_outcome(self, trust: TrustState, person: jax.Array, success: jax.Array) -> TrustState:
        """That of the person's family."""
        qubit, markov, beta = self._as_each_family()
        z, x = trust
        # A population of Beta people divides by experience, which the x of other people is not: without
        # this the branch that is not taken would make their gradients NaN.
        experience = jnp.where(self._family_of(person) == _BETA, x, jnp.ones_like(x))
        return self._select(
            person,
            [
                qubit.after_outcome(trust, person, success),
                markov.after_outcome(trust, person, success),
                beta.after_outcome((z, experience), person, success),
            ],
        )

    def after_answer(self, trust: TrustState, person: jax.Array, yes: jax.Array) -> TrustState:
        """That of the person's family."""
        each = self._as_each_family()
        return self._select(person, [people.after_answer(trust, person, yes) for people in each])

    def after_wait(self, trust: TrustState, person: jax.Array) -> TrustState:
        """That of the person's family."""
        each = self._as_each_family()
        return self._select(person, [people.after_wait(trust, person) for people in each])

    def _family_of(self, person: jax.Array) -> jax.Array:
        return field_of(self.family, person)

    def _as_each_family(self) -> list[TrustingPerson]:
        """Everybody taken for a qubit, a Markov chain and a Beta person; only one of these is true."""
        # Around the constructors, whose checks hold only for the people of their family.
        return [
            jax.tree.unflatten(structure, [getattr(self, column) for column in columns.values()])
            for structure, columns in _STRUCTURES
        ]

    def _select(self, person: jax.Array, states: Sequence[TrustState]) -> TrustState:
        family = self._family_of(person)
        is_qubit, is_markov = family == _QUBIT, family == _MARKOV
        z, x = (
            jnp.where(is_qubit, qubit, jnp.where(is_markov, markov, beta))
            for qubit, markov, beta in zip(*states, strict=True)
        )
        return z, x

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        family = values["family"]
        unknown = (family < 0) | (family >= len(self.families))
        if np.any(unknown):
            worst = family if family.ndim == 0 else family[unknown][0]
            raise ValueError(
                f"MixedTrust: family must be an index below {len(self.families)} and at least 0, got {worst}"
            )
        for index, kind in enumerate(self.families):
            members = family == index
            if np.any(members):
                kind(**{name: values[column][members] for name, column in _COLUMNS[kind].items()})


def _structure(family: type[TrustingPerson]) -> tuple[Any, dict[str, str]]:
    """Tree structure of a family and its columns in the order of the leaves."""
    columns = _COLUMNS[family]
    return jax.tree.structure(family()), {name: columns[name] for name in family._person_ndims}


_STRUCTURES = [_structure(family) for family in MixedTrust.families]


def mix(people: Sequence[Person]) -> MixedTrust:
    """One population of people of several trust families.

    Args:
        people: At least one person or population of :class:`TrustQubit`, :class:`MarkovTrust`,
            :class:`BetaTrust` or :class:`MixedTrust`, in any order.

    Returns:
        Everybody, in the order given.

    Raises:
        ValueError: If there is nobody.
        TypeError: If somebody is of another family.
    """
    if isinstance(people, Person):
        people = [people]
    people = list(people)
    for i, somebody in enumerate(people):
        if not isinstance(somebody, (MixedTrust, *MixedTrust.families)):
            names = ", ".join(family.__name__ for family in (*MixedTrust.families, MixedTrust))
            raise TypeError(f"people[{i}] must be of {names}, got {type(somebody).__name__}: {somebody!r}")
    return stack([_as_mixed(as_population(somebody)) for somebody in people])


def _as_mixed(people: TrustingPerson) -> MixedTrust:
    if isinstance(people, MixedTrust):
        return people
    columns = {column: getattr(people, name) for name, column in _COLUMNS[type(people)].items()}
    nothing = jnp.zeros_like(columns["initial"])
    family = jnp.full(len(people), MixedTrust.families.index(type(people)), jnp.int32)
    return MixedTrust(family=family, **{"memory": nothing} | columns)
