"""Pictures of many people."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import BLUE, COLOUR_MAP, ORANGE, RED, open_frame


def people_in_parameter_space(
    axes: Axes, population: np.ndarray, participants: np.ndarray, names: Sequence[str]
) -> Axes:
    """Two parameters of a drawn population, and of the participants it was fitted to.

    Args:
        axes: Where to draw.
        population: ``(people, 2)``.
        participants: Estimates ``(P, 2)``.
        names: What the two parameters are called.

    Returns:
        The axes.
    """
    drawn, estimated = f"{len(population):,} drawn", f"{len(participants)} participants, estimated"
    axes.scatter(*population.T, s=9, color=ORANGE, alpha=0.5, linewidths=0, label=drawn)
    axes.scatter(*participants.T, s=18, color=BLUE, linewidths=0, label=estimated)
    # A few people drawn from the tails would leave everybody else in a corner.
    shown = np.quantile(population, 0.985, axis=0)
    most = np.maximum(shown, participants.max(axis=0)) * 1.05
    axes.set_xlim(0.0, most[0])
    axes.set_ylim(0.0, most[1])
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, markerscale=1.5)
    open_frame(axes)
    return axes


def hard_people_in_parameter_space(
    axes: Axes,
    people: np.ndarray,
    hard: np.ndarray,
    names: Sequence[str],
    regret: np.ndarray | None = None,
) -> Axes:
    """Two parameters of a population, with rings around the people with whom a policy fails.

    Args:
        axes: Where to draw.
        people: Values of the two parameters, ``(people, 2)``.
        hard: Indices of the hard people, ``(n,)``.
        names: What the two parameters are called.
        regret: Of the policy with each person, ``(people,)``, for the colour; brighter is more.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit or an index is out of range.
    """
    people = array_of("people", people, "people", 2)
    hard = array_of("hard", hard, "n").astype(int)
    if hard.size and not (hard.min() >= 0 and hard.max() < len(people)):
        raise ValueError(f"hard must hold indices in 0 .. {len(people) - 1}, got {hard}")
    if regret is None:
        axes.scatter(*people.T, s=18, color=BLUE, alpha=0.6, linewidths=0, label=f"{len(people):,} people")
    else:
        regret = array_of("regret", regret, len(people))
        # The highest regrets on top.
        order = np.argsort(regret)
        dots = axes.scatter(
            *people[order].T,
            s=18,
            c=regret[order],
            cmap=COLOUR_MAP,
            linewidths=0,
            label=f"{len(people):,} people",
        )
        axes.figure.colorbar(dots, ax=axes, label="regret")
    label = f"{len(hard)} hardest"
    axes.scatter(*people[hard].T, s=110, facecolors="none", edgecolors=RED, linewidths=1.8, label=label)
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    open_frame(axes)
    return axes
