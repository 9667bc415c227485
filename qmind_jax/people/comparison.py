"""Which family explains data best, and how often that finds the family that made them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from qmind_jax.people.counts import simulate_counts
from qmind_jax.people.fitting import Fit, describe, fit
from qmind_jax.people.individuals import fit_individuals
from qmind_jax.people.parameters import ParametricPerson
from qmind_jax.people.predicting import Design, PredictingPerson

Criterion = Literal["aic", "bic"]
Candidate = type[ParametricPerson] | tuple[type[ParametricPerson], Mapping[str, Any]]
"""A family, or a family and its options."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Fits of several families to the same data.

    Attributes:
        fits: The fits, best first.
        criterion: ``"aic"`` or ``"bic"``: what the order and the weights go by.
    """

    fits: tuple[Fit, ...]
    criterion: Criterion

    @property
    def best(self) -> Fit:
        """The fit with the lowest criterion."""
        return self.fits[0]

    @property
    def weights(self) -> np.ndarray:
        """Share of each fit in the belief of all, ``exp(-criterion / 2)`` normalised, in [0, 1]."""
        scores = np.array([getattr(each, self.criterion) for each in self.fits])
        relative = np.exp(-0.5 * (scores - scores.min()))
        return relative / relative.sum()

    def summary(self) -> str:
        """A table to print: log likelihood, number of parameters, AIC, BIC and weight."""
        width = max(len(each.name) for each in self.fits)
        lines = [f"{'':{width}}  log lik.   k        AIC        BIC  {self.criterion.upper()} weight"]
        for each, weight in zip(self.fits, self.weights, strict=True):
            lines.append(
                f"{each.name:{width}} {each.loglik:9.2f} {each.k:3d} {each.aic:10.2f} {each.bic:10.2f} "
                f"{weight:11.3f}"
            )
        return "\n".join(lines)


def compare(
    candidates: Sequence[Candidate],
    data: Mapping[str, Any],
    design: Design | None = None,
    *,
    key: jax.Array,
    criterion: Criterion = "bic",
    **settings: Any,
) -> Comparison:
    """Fit several families to the same data and put them in order.

    Args:
        candidates: Families, or pairs of a family and its options.
        data: Observations by condition, as for :func:`qmind_jax.people.fitting.fit`.
        design: Conditions by name; the default design of each family if None.
        key: JAX random key of the starts.
        criterion: ``"aic"`` or ``"bic"``.
        **settings: ``restarts``, ``steps`` and ``loss`` of the fits.

    Raises:
        ValueError: For no candidates, an unknown criterion, or bad data.
        TypeError: If a candidate is no family.
    """
    named = _check_candidates(candidates, criterion)
    fits = [fit(family, data, design, key=key, **settings, **options) for family, options in named]
    return Comparison(tuple(sorted(fits, key=lambda each: getattr(each, criterion))), criterion)


def recovery(
    people: Mapping[str, PredictingPerson],
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    design: Design | None = None,
    *,
    key: jax.Array,
    sets: int = 100,
    criterion: Criterion = "bic",
    **settings: Any,
) -> dict[str, dict[str, float]]:
    """How often each candidate wins on data simulated from known people.

    A criterion can only tell families apart on people whose data no simpler candidate fits as well. Of
    the question order families, with the sizes of published surveys (some 450 people in each order):

    - A :class:`QuantumOrder4D` whose ``phi`` is near 0 answers as a :class:`BayesOrder`, which has a
      parameter less and wins. The same holds for an :class:`AnchoringOrder` with weights of equal
      strength that leave the order effects small.
    - A :class:`SaturatedOrder` that nearly satisfies the QQ equality, which 4-D and 3-D projective people
      satisfy exactly, loses to them.
    - :class:`BayesOrder` and :class:`QuantumOrder` (restricted to one structure) win on their own data
      because nothing simpler contains them.

    Args:
        people: By name, a person who makes all data sets, or a population whose people make one each.
        candidates: Families, or pairs of a family and its options.
        sizes: Number of answers in each condition.
        design: Conditions by name; the default design of each family if None.
        key: JAX random key of the data and the starts.
        sets: Number of data sets made by a single person.
        criterion: ``"aic"`` or ``"bic"``.
        **settings: ``restarts`` and ``steps`` of the fits.

    Returns:
        By name of the people, then by candidate, the share of data sets that it wins, in [0, 1].

    Raises:
        ValueError: For no candidates, an unknown criterion, or sizes that are no counts of the design's
            conditions.
        TypeError: If a candidate is no family.
    """
    named = _check_candidates(candidates, criterion)
    shares = {}
    for label, makers in people.items():
        data_key, start_key, key = jax.random.split(key, 3)
        data = simulate_counts(makers, sizes, design, key=data_key, sets=sets)
        scores = []
        for family, options in named:
            fits = fit_individuals(family, data, design, key=start_key, **settings, **options)
            # Each data set on its own may have the structure that suits it.
            loglik = np.max(list(fits.per_structure.values()), axis=0)
            penalty = fits.k * (np.log(fits.n) if criterion == "bic" else 2.0)
            scores.append(penalty - 2.0 * loglik)
        wins = np.bincount(np.argmin(scores, axis=0), minlength=len(named)) / len(scores[0])
        names = [describe(family, options) for family, options in named]
        shares[label] = dict(zip(names, wins.tolist(), strict=True))
    return shares


def _check_candidates(
    candidates: Sequence[Candidate], criterion: str
) -> list[tuple[type[ParametricPerson], Mapping[str, Any]]]:
    if criterion not in ("aic", "bic"):
        raise ValueError(f"criterion must be 'aic' or 'bic', got {criterion!r}")
    if not candidates:
        raise ValueError("candidates must hold at least one family, got none")
    return [each if isinstance(each, tuple) else (each, {}) for each in candidates]
