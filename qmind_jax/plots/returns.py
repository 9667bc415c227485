"""Pictures of what policies achieve, and of how well they know it."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import COLOURS, GREY, MARKERS, open_frame


def returns_over_people(
    axes: Axes,
    optimum: np.ndarray,
    returns: Mapping[str, np.ndarray],
    errors: Mapping[str, np.ndarray] | None = None,
) -> Axes:
    """Mean return with every person, and the best that is possible with that person.

    People stand in the order of their optimum, the hardest first.

    Args:
        axes: Where to draw.
        optimum: Expected return of the best policy for each person, ``(people,)``.
        returns: Mean return with each person, ``(people,)``, by policy; NaN for people who were not met.
        errors: Standard errors of these means, by policy.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit.
    """
    optimum = array_of("optimum", optimum, "people")
    order, place = np.argsort(optimum), np.arange(len(optimum))
    size = 5 if len(optimum) <= 100 else 3
    for i, (policy, mean) in enumerate(returns.items()):
        mean = array_of(f"returns[{policy!r}]", mean, len(optimum))[order]
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        if errors is not None and policy in errors:
            error = array_of(f"errors[{policy!r}]", errors[policy], len(optimum))[order]
            axes.errorbar(place, mean, error, fmt="none", ecolor=colour, alpha=0.4, linewidth=1)
        axes.plot(place, mean, marker, color=colour, markersize=size, markeredgewidth=0, label=policy)
    axes.plot(place, optimum[order], color="black", linewidth=2, label="best possible", zorder=3)
    axes.set_xlabel("people, by the best possible return")
    axes.set_ylabel("return per episode")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False)
    open_frame(axes)
    return axes


def reliability_diagram(
    axes: Axes, confidence: np.ndarray, frequency: np.ndarray, count: np.ndarray, event: str = 'a "yes"'
) -> Axes:
    """How often something happened against how probable it was said to be; the diagonal is honest.

    Args:
        axes: Where to draw.
        confidence: Mean predicted probability in each bin, ``(bins,)``; NaN in empty ones. As the other two
            from :func:`~qmind_jax.evaluation.reliability_curve`.
        frequency: Fraction of predictions where it happened, ``(bins,)``.
        count: Number of predictions, ``(bins,)``; larger marks stand for more.
        event: What is predicted.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit.
    """
    confidence = array_of("confidence", confidence, "bins")
    frequency = array_of("frequency", frequency, len(confidence))
    count = array_of("count", count, len(confidence))
    filled = count > 0
    confidence, frequency, count = confidence[filled], frequency[filled], count[filled]
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle="--", linewidth=1, label="honest")
    error = np.sqrt(frequency * (1.0 - frequency) / count)
    axes.errorbar(confidence, frequency, error, color=COLOURS[0], linewidth=1.5, capsize=3)
    share = count / max(count.sum(), 1)
    axes.scatter(
        confidence,
        frequency,
        s=20 + 400 * share,
        color=COLOURS[0],
        edgecolors="white",
        zorder=3,
        label=f"{count.sum():,} predictions, ± s.e.",
    )
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    axes.set_xlabel(f"predicted probability of {event}")
    axes.set_ylabel("observed frequency")
    legend = axes.legend(loc="upper left", frameon=False)
    for handle in legend.legend_handles[1:]:
        handle.set_sizes([40])
    open_frame(axes)
    return axes
