"""Which family explains data best, and how often that finds the family that made them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from qmind_jax.people.counts import simulate_counts
from qmind_jax.people.fitting.individuals import fit_individuals
from qmind_jax.people.fitting.maximum_likelihood import Fit, check_effort, describe, fit
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
        data: Observations by condition, as for :func:`qmind_jax.people.fitting.maximum_likelihood.fit`.
        design: Conditions by name; the default design of each family if None.
        key: JAX random key of the starts.
        criterion: ``"aic"`` or ``"bic"``.
        **settings: ``restarts``, ``steps`` and ``loss`` of the fits.

    Raises:
        ValueError: For no candidates, an unknown criterion, or bad data.
        TypeError: If a candidate is no family, or ``candidates`` no sequence.
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

    A criterion can tell families apart only on people whose answers no simpler candidate gives as well.
    With all the question order families as candidates, anchoring also with tied weights, 100 data sets each
    and about 450 people in each order, as in published surveys, BIC finds the family of

    - :class:`QuantumOrder` in 99 to 100 % of the sets made by its fits to the four Gallup tables;
    - :class:`BayesOrder` in 96 % on Clinton-Gore and Rose-Jackson, 88 % on Gingrich-Dole, 72 % on
      White-Black, where ``p_a`` and ``p_b`` are close and tied anchoring of as many parameters says much
      the same;
    - :class:`QuantumOrder4D` in 97 to 100 % at ``phi`` 0.3 and (made by two states) 91 and 99 % at 0.5,
      but in 9 to 73 % at 0.1 and in 18 to 64 % of sets made by its fits to the Gallup tables: there its
      order effects are so small that three parameters, of Bayes or of tied anchoring, do;
    - :class:`AnchoringOrder` in 100 % on Rose-Jackson, whose weights differ, and in 0 to 3 % elsewhere,
      where the tied weights win instead;
    - :class:`SaturatedOrder` in 100 % on Rose-Jackson, where the QQ equality fails, 68 % on White-Black
      and never on Clinton-Gore and Gingrich-Dole, which satisfy it.

    With some 110 people in each order, as in the laboratory tables, hardly any family is found in 90 % of
    the sets.

    Args:
        people: By name, a person who makes all data sets, or a population whose people make one each.
        candidates: Families, or pairs of a family and its options.
        sizes: Number of answers in each condition.
        design: Conditions by name; the default design of each family if None.
        key: JAX random key of the data and the starts.
        sets: Number of data sets made by a single person, at least 1.
        criterion: ``"aic"`` or ``"bic"``.
        **settings: ``restarts`` and ``steps`` of the fits.

    Returns:
        By name of the people, then by candidate, the share of data sets that it wins, in [0, 1].

    Raises:
        ValueError: For no candidates, an unknown criterion, ``sets`` below 1, or sizes that are no counts of
            the design's conditions.
        TypeError: If a candidate is no family, or ``candidates`` no sequence.
    """
    named = _check_candidates(candidates, criterion)
    check_effort(sets=sets)
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
    if not isinstance(candidates, Sequence):
        raise TypeError(f"candidates must be a list of families, got {candidates!r}")
    if not candidates:
        raise ValueError("candidates must hold at least one family, got none")
    return [each if isinstance(each, tuple) else (each, {}) for each in candidates]
