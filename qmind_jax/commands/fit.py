"""The command ``fit``."""

import pathlib
from typing import Annotated, Literal

import jax
import tyro

from qmind_jax import fits
from qmind_jax.commands import output
from qmind_jax.folders import check_new, new_folder
from qmind_jax.people.fitting.comparison import Criterion


def fit(
    kind: Annotated[Literal["trust", "order"], tyro.conf.Positional],
    file: Annotated[pathlib.Path, tyro.conf.Positional],
    num_people: int = 1000,
    criterion: Criterion = "bic",
    seed: int = 0,
    out: pathlib.Path | None = None,
) -> None:
    """Fit people to data; save tables, people to train on, and a plot.

    Args:
        kind: What the file holds: trust for ratings of trust over time (CSV with the columns participant,
            trial, robot_correct, trust_before, trust_after), order for counts of two yes/no questions asked
            in both orders (JSON {"AB": [yes-yes, yes-no, no-yes, no-no], "BA": [...]}).
        file: The data.
        num_people: People to draw of each family fitted to ratings.
        criterion: What the order families are compared by.
        seed: Seed of everything random.
        out: Folder of the fit; must not exist yet. By default a new one under fits/.
    """
    if num_people < 1:
        raise ValueError(f"num-people must be at least 1, got {num_people}")
    folder = out or new_folder("fits", kind)
    check_new(folder)
    key = jax.random.key(seed)
    if kind == "trust":
        fitted = fits.fit_trust(file)
        files = fits.write_trust(folder, file, fitted, num_people, key)
        output.print_trust(file, fitted, num_people)
    else:
        comparison = fits.fit_order(file, criterion, key)
        files = fits.write_order(folder, file, comparison)
        output.print_order(file, comparison)
    for path in files:
        print(f"  {path}")
