"""Pictures of answers to questions."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from qmind_jax.plots.style import BLUE, COLOURS, GREY, ORANGE, open_frame


def order_effect(axes: Axes, first: np.ndarray, second: np.ndarray, questions: Sequence[str]) -> Axes:
    """How often two questions are answered "yes" when asked first and when asked second.

    Args:
        axes: Where to draw.
        first: Probability of "yes" when asked first, shape ``(2,)``.
        second: Probability of "yes" when asked second, after the other question, shape ``(2,)``.
        questions: Names of the two questions.

    Returns:
        The axes.
    """
    place = np.arange(2)
    axes.bar(place - 0.2, first, 0.4, color=BLUE, label="asked first")
    axes.bar(place + 0.2, second, 0.4, color=ORANGE, label="asked second")
    axes.set_xticks(place, questions)
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel('probability of "yes"')
    axes.legend(frameon=False)
    open_frame(axes)
    return axes


def order_predictions(
    axes: Axes, observed: np.ndarray, predicted: Mapping[str, np.ndarray], errors: np.ndarray | None = None
) -> Axes:
    """How often each pair of answers was given, and how often models say it would be.

    Args:
        axes: Where to draw.
        observed: Proportions of yes-yes, yes-no, no-yes and no-no, ``(4,)``.
        predicted: Probabilities ``(4,)`` by the name of the model.
        errors: Standard errors of the proportions, ``(4,)``.

    Returns:
        The axes.
    """
    place = np.arange(4)
    axes.bar(place, observed, 0.7, color="#DDDDDD", label="observed ± s.e.")
    if errors is not None:
        axes.errorbar(place, observed, errors, fmt="none", ecolor=GREY, capsize=3, linewidth=1)
    width = 0.6 / max(len(predicted), 1)
    for i, (name, values) in enumerate(predicted.items()):
        shift = (i - 0.5 * (len(predicted) - 1)) * width
        colour, marker = COLOURS[i % 6], "osD^v"[i % 5]
        axes.plot(place + shift, values, marker, color=colour, markersize=6, label=name)
    axes.set_xticks(place, ["yes, yes", "yes, no", "no, yes", "no, no"])
    axes.margins(y=0.08)
    axes.set_ylim(bottom=0.0)
    open_frame(axes)
    return axes
