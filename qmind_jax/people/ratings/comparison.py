"""How well families of trusting people predict people who were left out of the fit."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from qmind_jax.people.ratings.estimates import predict_next
from qmind_jax.people.ratings.fit import TRUST_FAMILIES, fit_trust_family, predict_trust
from qmind_jax.people.ratings.population_fit import fit_trust_population
from qmind_jax.people.ratings.trials import TrustTrials

FIRST_RATING, LAST_RATING = "first rating", "last rating"
"""Names of the predictions without a model: trust never changes, and it stays as it was rated last."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrustComparison:
    """Predictions of participants who were left out of the fits.

    Attributes:
        left_out: Their trials, P participants with up to T trials.
        population: Trust after each trial, ``(P, T)``, by ``"beta"``, ``"markov"``, ``"qubit"`` and
            :data:`FIRST_RATING`: from the first rating and the robot's outcomes alone, by the least-squares
            fit that all people share.
        personal: Also from this person's ratings of the trials before, by the same families and
            :data:`LAST_RATING`: each rating updates the estimate of the person.
    """

    left_out: TrustTrials
    population: Mapping[str, np.ndarray]
    personal: Mapping[str, np.ndarray]

    def error(self, predicted: np.ndarray, first: int = 1) -> float:
        """Root mean squared error of all ratings from a participant's ``first`` one on; NaN if none."""
        observed = np.asarray(self.left_out.observed)[:, first - 1 :]
        squares = (predicted - np.asarray(self.left_out.trust_after))[:, first - 1 :] ** 2
        return float(np.sqrt(squares[observed].mean())) if observed.any() else float("nan")

    def errors_by_rating(self, predicted: np.ndarray) -> np.ndarray:
        """Root mean squared error of the first, second, ... rating after a trial, ``(T,)``."""
        observed = np.asarray(self.left_out.observed)
        squares = (predicted - np.asarray(self.left_out.trust_after)) ** 2
        return np.sqrt((squares * observed).sum(axis=0) / np.maximum(observed.sum(axis=0), 1))


def compare_trust_families(trials: TrustTrials) -> TrustComparison:
    """Predict participants 1, 3, 5, ... after fits to participants 0, 2, 4, ...

    Args:
        trials: Ratings of at least four participants: two to fit how people differ.

    Raises:
        ValueError: If there are fewer, or those to be fitted cannot determine the parameters of a family.
    """
    if trials.num_participants < 4:
        raise ValueError(
            f"trials must hold at least four participants, two to fit and others to judge, got "
            f"{trials.num_participants}"
        )
    fitted, left_out = trials.select(slice(0, None, 2)), trials.select(slice(1, None, 2))
    first = left_out.first_ratings
    population, personal = {}, {}
    for family in TRUST_FAMILIES:
        shared = fit_trust_family(fitted, family).people(first)
        population[family] = np.asarray(predict_trust(shared, left_out.robot_correct))
        personal[family] = np.asarray(predict_next(fit_trust_population(fitted, family), left_out))
    first = np.asarray(first)[:, None]
    after = np.asarray(left_out.trust_after)
    population[FIRST_RATING] = np.broadcast_to(first, after.shape)
    personal[LAST_RATING] = np.concatenate([first, after[:, :-1]], axis=1)
    return TrustComparison(left_out, population, personal)
