"""Fits of every person of a group at once."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from qmind_jax.people.fitting.maximum_likelihood import STEPS, check_effort, describe, structures
from qmind_jax.people.fitting.search import Loss, search
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.predicting import Design

RESTARTS = 16
"""Starts per person: fewer than for a single fit, as a group has many people."""


@dataclasses.dataclass(frozen=True)
class IndividualFits:
    """The people who explain the data of each person best.

    All share one structure, as the people of a population do: the one with the best sum of log
    likelihoods.

    Attributes:
        people: A population in the order of the data.
        options: Structural options and held parameters.
        free: Free vectors, float64 of shape ``(people, k)``.
        loglik: Log likelihood of each person, float64 ``(people,)``.
        k: Number of free parameters of each person.
        n: Number of observations of each person, float64 ``(people,)``.
        per_structure: Log likelihoods of all people under each structure, by its options as text.
    """

    people: ParametricPerson
    options: Mapping[str, Any]
    free: np.ndarray
    loglik: np.ndarray
    k: int
    n: np.ndarray
    per_structure: Mapping[str, np.ndarray]

    @property
    def name(self) -> str:
        """The family with its options, such as ``QuantumOrder(ranks=(1, 2))``."""
        return describe(type(self.people), self.options)

    @property
    def aic(self) -> np.ndarray:
        """Akaike's criterion of each person; its sum is that of the group."""
        return 2.0 * self.k - 2.0 * self.loglik

    @property
    def bic(self) -> np.ndarray:
        """Bayesian criterion of each person, from the number of their own observations."""
        return self.k * np.log(self.n) - 2.0 * self.loglik


def fit_individuals(
    family: type[ParametricPerson],
    data: Mapping[str, Any],
    design: Design | None = None,
    *,
    key: jax.Array,
    restarts: int = RESTARTS,
    steps: int = STEPS,
    loss: Loss = "multinomial",
    **options: Any,
) -> IndividualFits:
    """Fit one person to each row of the data, thousands of people and starts in one call.

    Args:
        family: A family with parameters.
        data: By condition of the design, counts ``(people, cells)``, or measured values under a squared
            loss. A condition that somebody has not met is a row of zeros.
        design: Conditions by name; the family's default design if None.
        key: JAX random key of the starts.
        restarts: Number of random starts per person and structure, at least 1.
        steps: Steps of the search from each start, at least 1.
        loss: ``"multinomial"`` for counts, ``"squared"`` for measured values.
        **options: Structural options, which then are not compared, and parameters to hold.

    Raises:
        ValueError: If there is nobody, somebody has no data, conditions are missing, unknown or misshapen, or
            the data are no counts; or for a wrong loss, ``restarts`` or ``steps``.
        TypeError: For an unknown option (the nearest known name is given) or what is no family.
    """
    problems = structures(family, options, design, loss)
    check_effort(restarts=restarts, steps=steps)
    checked = problems[0].check_data(data, people=True)
    if len(next(iter(checked.values()))) == 0:
        raise ValueError("data must hold at least one person, got arrays without rows")
    found, logliks = [], []
    with jax.enable_x64(True):
        for problem in problems:
            found.append(search(problem, key, checked, None, None, restarts=restarts, steps=steps))
            logliks.append(problem.loglik(found[-1].objective, checked))
    best = int(np.argmax([loglik.sum() for loglik in logliks]))
    problem = problems[best]
    names = [describe(family, dict(each.options)) for each in problems]
    return IndividualFits(
        people=problem.people(found[best].values),
        options=dict(problem.options),
        free=found[best].free,
        loglik=logliks[best],
        k=len(problem.names),
        n=problem.size(checked),
        per_structure=dict(zip(names, logliks, strict=True)),
    )
