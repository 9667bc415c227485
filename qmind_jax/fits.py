"""Folders of fits: people fitted to a file of data, how well the families do, and a picture."""

import json
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

import qmind_jax
from qmind_jax.folders import check_new
from qmind_jax.people.fitting.comparison import Comparison, Criterion, compare
from qmind_jax.people.order import AnchoringOrder, BayesOrder, QuantumOrder, QuantumOrder4D, SaturatedOrder
from qmind_jax.people.order_files import load_order_table
from qmind_jax.people.ratings.comparison import TrustComparison, compare_trust_families
from qmind_jax.people.ratings.fit import TRUST_FAMILIES
from qmind_jax.people.ratings.population_fit import TrustPopulationFit, fit_trust_population
from qmind_jax.people.ratings.trials import load_trust_trials
from qmind_jax.people.storage import save_people

VERSION = 1
THIRD = 3
"""From this rating of a person on, two answers of this person are known besides the first rating."""

ORDER_FAMILIES = (QuantumOrder, QuantumOrder4D, BayesOrder, AnchoringOrder, SaturatedOrder)

# What success and failure do, for the axes of a picture: names of the parameters and their units.
_REACTIONS = {
    "beta": ("w_s", "w_f", "weight"),
    "markov": ("up", "down", "probability"),
    "qubit": ("a_pos", "a_neg", "rad"),
}


class TrustFits(NamedTuple):
    """All families fitted to one file of ratings.

    Attributes:
        comparison: Predictions of the participants left out of fits to the others.
        fits: Fits to all participants, by family.
    """

    comparison: TrustComparison
    fits: dict[str, TrustPopulationFit]

    @property
    def best(self) -> str:
        """The family that predicts left-out participants best, their ratings so far known."""
        errors = {name: self.comparison.error(self.comparison.personal[name]) for name in self.fits}
        return min(errors, key=errors.get)


def fit_trust(path: pathlib.Path) -> TrustFits:
    """Fit all trust families to a file of ratings.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no file of ratings, or cannot determine the parameters; the message names it.
    """
    trials = load_trust_trials(path)
    try:
        comparison = compare_trust_families(trials)
        fits = {family: fit_trust_population(trials, family) for family in TRUST_FAMILIES}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return TrustFits(comparison, fits)


def write_trust(
    folder: pathlib.Path, source: pathlib.Path, fitted: TrustFits, num_people: int, key: jax.Array
) -> list[pathlib.Path]:
    """Write a population of each family, ``fit.json`` and ``fit.png``; returns the files.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If ``num_people`` is below 1.
    """
    people = {name: fit.people(key, num_people) for name, fit in fitted.fits.items()}
    comparison = fitted.comparison
    description = {
        "participants": len(next(iter(fitted.fits.values())).free_estimates),
        "ratings": next(iter(fitted.fits.values())).num_ratings,
        "families": {
            name: {
                "names": fit.prior.names,
                "mean": np.asarray(fit.mean).tolist(),
                "covariance": np.asarray(fit.covariance).tolist(),
                "noise": fit.noise,
                "log_evidence": fit.log_evidence,
            }
            for name, fit in fitted.fits.items()
        },
        "held_out_errors": {
            "first rating known": _errors(comparison, comparison.population),
            "ratings so far known": _errors(comparison, comparison.personal),
        },
    }
    _start(folder, "trust", source, description)
    for name, population in people.items():
        save_people(folder / f"{name}.npz", population)
    _draw_trust(folder / "fit.png", fitted)
    return [*(folder / f"{name}.npz" for name in people), folder / "fit.json", folder / "fit.png"]


def fit_order(path: pathlib.Path, criterion: Criterion, key: jax.Array) -> Comparison:
    """Fit all order families to a file of counts, best first.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no table of counts; the message names it.
    """
    return compare(ORDER_FAMILIES, load_order_table(path), key=key, criterion=criterion)


def write_order(folder: pathlib.Path, source: pathlib.Path, comparison: Comparison) -> list[pathlib.Path]:
    """Write the best person, ``fit.json`` and ``fit.png``; returns the files.

    Raises:
        FileExistsError: If the folder exists.
    """
    fits = {
        fit.name: {
            "loglik": fit.loglik,
            "parameters": {name: float(getattr(fit.person, name)) for name in fit.standard_errors},
            # JSON has no word for "cannot be told"
            "standard_errors": {
                name: float(error) if np.isfinite(error) else None
                for name, error in fit.standard_errors.items()
            },
            "aic": fit.aic,
            "bic": fit.bic,
        }
        for fit in comparison.fits
    }
    description = {
        "counts": {name: counts.tolist() for name, counts in comparison.best.data.items()},
        "criterion": comparison.criterion,
        "fits": fits,
    }
    _start(folder, "order", source, description)
    save_people(folder / "person.npz", comparison.best.person)
    _draw_order(folder / "fit.png", comparison)
    return [folder / name for name in ("person.npz", "fit.json", "fit.png")]


def _start(folder: pathlib.Path, kind: str, source: pathlib.Path, description: dict[str, Any]) -> None:
    """Make the folder and describe the fit in it."""
    check_new(folder)
    folder.mkdir(parents=True)
    head = {"version": VERSION, "qmind_jax": qmind_jax.__version__, "kind": kind, "source": source.name}
    (folder / "fit.json").write_text(json.dumps(head | description, indent=2) + "\n")


def _errors(comparison: TrustComparison, predictions: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    errors = {}
    for name, predicted in predictions.items():
        later = comparison.error(predicted, THIRD)
        errors[name] = {
            "all": comparison.error(predicted),
            "from the third rating on": later if np.isfinite(later) else None,
            "by rating": comparison.errors_by_rating(predicted).tolist(),
        }
    return errors


def _draw_trust(path: pathlib.Path, fitted: TrustFits) -> None:
    from qmind_jax.plots import errors_by_rating, people_in_parameter_space, predictions_against_ratings
    from qmind_jax.plots.files import headless_pyplot

    pyplot = headless_pyplot()

    comparison, best = fitted.comparison, fitted.best
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    errors_by_rating(
        axes[0],
        {name: comparison.errors_by_rating(values) for name, values in comparison.population.items()},
        {name: comparison.errors_by_rating(values) for name, values in comparison.personal.items()},
    )
    axes[0].set_title(f"Predicting {comparison.left_out.num_participants} people left out of the fit")
    observed = np.asarray(comparison.left_out.observed)
    predictions_against_ratings(
        axes[1], comparison.personal[best][observed], np.asarray(comparison.left_out.trust_after)[observed]
    )
    axes[1].set_title(f"Their ratings and the {best} family, ratings so far known")
    success, failure, unit = _REACTIONS[best]
    fit = fitted.fits[best]

    def reactions(people: Any) -> np.ndarray:
        return np.stack([getattr(people, success), getattr(people, failure)], axis=-1)

    people_in_parameter_space(
        axes[2],
        reactions(fit.people(jax.random.key(0), 1000)),
        reactions(fit.estimates),
        (f"what a success does: {success} ({unit})", f"what a failure does: {failure} ({unit})"),
    )
    axes[2].set_title(f"How people differ ({best} family)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_order(path: pathlib.Path, comparison: Comparison) -> None:
    from qmind_jax.plots import order_predictions
    from qmind_jax.plots.files import headless_pyplot

    pyplot = headless_pyplot()

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
    for axis, condition, title in zip(axes, ("AB", "BA"), ("A asked first", "B asked first"), strict=True):
        counts = comparison.best.data[condition]
        share = counts / max(counts.sum(), 1.0)
        order_predictions(
            axis,
            share,
            {fit.name: fit.predictions[condition] for fit in comparison.fits},
            np.sqrt(share * (1.0 - share) / max(counts.sum(), 1.0)),
        )
        axis.set_title(f"{title}: {counts.sum():.0f} people")
        axis.set_xlabel("answer to the first question, answer to the second")
    axes[0].set_ylabel("share of people")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
