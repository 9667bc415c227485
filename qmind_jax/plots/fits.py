"""Pictures of fits to ratings."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from qmind_jax.plots.style import BLUE, COLOURS, GREY, open_frame


def errors_by_rating(
    axes: Axes, population: Mapping[str, np.ndarray], personal: Mapping[str, np.ndarray]
) -> Axes:
    """How far predictions of ratings are off, the first rating to the last.

    Args:
        axes: Where to draw.
        population: Root mean squared errors ``(T,)`` of what knows a person's first rating only, by name;
            dashed.
        personal: The same of what knows all ratings before, by name; solid. A name in both has one colour.

    Returns:
        The axes.
    """
    names = dict.fromkeys([*population, *personal])
    colours = dict(zip(names, COLOURS, strict=False))
    for errors, style in ((population, "--"), (personal, "-")):
        for name, values in errors.items():
            trials = 1 + np.arange(len(values))
            axes.plot(trials, values, style, color=colours[name], linewidth=2, marker="o", markersize=3)
    for name, colour in colours.items():
        axes.plot([], [], color=colour, linewidth=2, label=name)
    for style, knows in (("--", "first rating known"), ("-", "ratings so far known")):
        axes.plot([], [], style, color=GREY, linewidth=2, label=knows)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("rating after trial")
    axes.set_ylabel("root mean squared error")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=9)
    open_frame(axes)
    return axes


def predictions_against_ratings(axes: Axes, predicted: np.ndarray, rated: np.ndarray) -> Axes:
    """Every rating at its prediction; perfect predictions lie on the diagonal.

    Args:
        axes: Where to draw.
        predicted: Predictions in [0, 1], any shape.
        rated: Ratings in [0, 1], same shape.

    Returns:
        The axes.
    """
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=1)
    axes.scatter(np.ravel(predicted), np.ravel(rated), s=10, color=BLUE, alpha=0.35, linewidths=0)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    axes.set_xlabel("predicted trust")
    axes.set_ylabel("rated trust")
    open_frame(axes)
    return axes
