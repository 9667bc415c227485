"""People whose answers under a design have known probabilities: what every fit works on."""

import abc
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import jax

from qmind_jax.people.population import Person

Design = Mapping[str, Any]
"""Conditions by name. What describes a condition is the family's: an order of questions, events, times."""


SMALLEST_PROBABILITY = 1e-12
"""Cells count as at least this probable in likelihoods, as in quantum-mind: no one answer excludes a person
for good."""


class PredictingPerson(Person, abc.ABC):
    """A person of whom each condition of a design makes a distribution over outcomes ("cells")."""

    default_design: ClassVar[Design]
    """The design of predictions and fits that name none."""

    def predict(self, design: Design | None = None) -> dict[str, jax.Array]:
        """Probabilities of the outcomes of every condition.

        A pure function of the person's arrays: works under ``jit``, ``grad`` and ``vmap``. The design
        is static.

        Args:
            design: Conditions by name; :attr:`default_design` if None.

        Returns:
            By condition, floats in [0, 1] that sum to 1: of shape ``(cells,)`` for one person,
            ``(people, cells)`` for a population.

        Raises:
            ValueError: For a design without conditions or a condition that the family does not know.
            TypeError: If the design is no mapping, or a condition is of another type.
        """
        conditions = self.check_design(design)
        if self.is_population:
            return jax.vmap(lambda person: person._cells_of(conditions))(self)
        return self._cells_of(conditions)

    def _cells_of(self, conditions: Mapping[str, Hashable]) -> dict[str, jax.Array]:
        return {name: self._cells(condition) for name, condition in conditions.items()}

    @classmethod
    def check_design(cls, design: Design | None = None) -> dict[str, Hashable]:
        """The design with every condition in its one hashable form.

        Raises:
            ValueError: For a design without conditions or a condition that the family does not know.
            TypeError: If the design is no mapping, or a condition is of another type.
        """
        design = cls.default_design if design is None else design
        if not isinstance(design, Mapping):
            raise TypeError(f"{cls.__name__}: design must map names to conditions, got {design!r}")
        if not design:
            raise ValueError(f"{cls.__name__}: design must hold at least one condition, got none")
        return {str(name): cls._check_condition(str(name), value) for name, value in design.items()}

    @classmethod
    @abc.abstractmethod
    def _check_condition(cls, name: str, condition: Any) -> Hashable:
        """The condition in its one hashable form; raises if it is none of this family."""

    @abc.abstractmethod
    def _cells(self, condition: Any) -> jax.Array:
        """Probabilities of the outcomes of a checked condition for one person, shape ``(cells,)``."""
