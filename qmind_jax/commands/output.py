"""Where commands print, and the tables that they print."""

import pathlib

import jax
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from qmind_jax import fits, runs
from qmind_jax.evaluation import MeanReturn
from qmind_jax.evaluation.sweep_files import axes_of
from qmind_jax.people.fitting.comparison import Comparison
from qmind_jax.people.ratings.comparison import FIRST_RATING, LAST_RATING
from qmind_jax.training.halving import hyper_parameters_in

console = Console()
"""Of all commands; quiet in all but the first of several processes."""

_ROWS = 48


def print_returns(run: runs.Run, returns: dict[str, MeanReturn], episodes: int) -> None:
    """Mean returns of the agents of a run, of untrained policies and of the optimum, the best first."""
    console.print(f"\n[bold]{run.env_id}[/]: mean return per episode")
    table = Table("policy", "return", "± s.e.", caption=f"{episodes:,} episodes per policy that plays")
    for name, (mean, error) in sorted(returns.items(), key=lambda item: -item[1].mean):
        style = "bold" if name.startswith("trained") else None
        table.add_row(name, f"{mean:.3f}", f"{error:.3f}", style=style)
    console.print(table)


def print_trust(file: pathlib.Path, fitted: fits.TrustFits, num_people: int) -> None:
    """How well trust families predict people, and how people differ."""
    comparison = fitted.comparison
    print(f"How well each family predicts people in {file} whom it was not fitted to")
    columns = [f"{known}\n{part}" for known in ("1st known", "so far") for part in ("all", "3rd on")]
    table = Table("model", *columns)
    rows = {family: (family, family) for family in fitted.fits} | {"no model": (FIRST_RATING, LAST_RATING)}
    for label, (shared, personal) in rows.items():
        predictions = comparison.population[shared], comparison.personal[personal]
        errors = [comparison.error(values, first) for values in predictions for first in (1, fits.THIRD)]
        table.add_row(label, *(f"{error:.4f}" if error == error else "-" for error in errors))
    console.print(table)
    console.print(
        "Root mean squared error of trust, of all ratings and of each person's from the third on; fitted to "
        "every second participant and judged on the others. '1st known': from the first rating and the "
        "robot's outcomes alone. 'so far': every rating updates the estimate of the person. 'no model': as "
        "the first rating, as the last one.\n"
    )
    print("How people differ: the middle 90 % of people in each parameter")
    table = Table("family", "parameter", "5 %", "median", "95 %")
    for family, fit in fitted.fits.items():
        people = fit.people(jax.random.key(0), 10_000)
        for i, name in enumerate(fit.prior.names):
            quantiles = np.quantile(getattr(people, name), (0.05, 0.5, 0.95))
            table.add_row("" if i else family, name, *(f"{value:.3f}" for value in quantiles))
    console.print(table)
    evidence = ", ".join(f"{family} {fit.log_evidence:.1f}" for family, fit in fitted.fits.items())
    console.print(f"Log evidence, higher is better: {evidence}.")
    console.print(f"{num_people:,} people of each family, to train on with --people, in:")


def print_order(file: pathlib.Path, comparison: Comparison) -> None:
    """How well order families explain a table of counts, and the best one."""
    print(f"How well each family explains {file}")
    caption = f"k: fitted parameters; weight: share of belief by {comparison.criterion.upper()}"
    table = Table("family", "log lik.", "k", "AIC", "BIC", "weight", caption=caption)
    for fitted, weight in zip(comparison.fits, comparison.weights, strict=True):
        scores = f"{fitted.loglik:.2f}", f"{fitted.k}", f"{fitted.aic:.2f}", f"{fitted.bic:.2f}"
        table.add_row(fitted.name, *scores, f"{weight:.3f}")
    console.print(table)
    print(comparison.best.summary())


def print_sweep(table: pd.DataFrame, title: str) -> None:
    """The first rows of the table of a sweep."""
    axes = axes_of(table)
    scores = {"return ± s.e.": ("mean_return", "standard_error")}
    if "regret" in table:
        scores["regret ± s.e."] = ("regret", "regret_standard_error")
    caption = f"the first {_ROWS} of {len(table):,} rows" if len(table) > _ROWS else None
    shown = Table(*axes, "policy", title=title, caption=caption)
    for heading in scores:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in table.head(_ROWS).to_dict("records"):
        numbers = (f"{row[score]:.3f} ± {row[error]:.3f}" for score, error in scores.values())
        shown.add_row(*(f"{row[name]:g}" for name in axes), row["policy"], *numbers)
    console.print(shown)


def print_search(table: pd.DataFrame, title: str) -> None:
    """The first rows of the table of a search for hyper-parameters, the best first."""
    names = hyper_parameters_in(table)
    caption = f"the first {_ROWS} of {len(table):,} rows" if len(table) > _ROWS else None
    shown = Table(*names, "round", "steps", title=title, caption=caption)
    shown.add_column("return ± s.e.", justify="right", no_wrap=True)
    for row in table.head(_ROWS).to_dict("records"):
        values = (f"{row[name]:.3g}" for name in names)
        score = f"{row['mean_return']:.3f} ± {row['standard_error']:.3f}"
        shown.add_row(*values, f"{row['round']}", f"{row['steps']:,}", score)
    console.print(shown)
