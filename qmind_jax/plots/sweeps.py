"""Pictures of sweeps over people and costs."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import COLOUR_MAP, COLOURS, MARKERS, open_frame

_MOST_TICKS = 8
_MOST_NUMBERS = 64


def sweep_curves(
    axes: Axes, x: np.ndarray, scores: Mapping[str, tuple[np.ndarray, np.ndarray]], name: str, score: str
) -> Axes:
    """What policies achieve over one parameter, with bands of one standard error.

    Args:
        axes: Where to draw.
        x: Values of the parameter, ``(n,)``.
        scores: Means ``(n,)`` and their standard errors ``(n,)``, by policy.
        name: Name of the parameter.
        score: What the means are of, such as ``"regret"``.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit.
    """
    x = array_of("x", x, "n")
    for i, (policy, (mean, error)) in enumerate(scores.items()):
        mean = array_of(f"the means of {policy!r}", mean, len(x))
        error = array_of(f"the standard errors of {policy!r}", error, len(x))
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        axes.fill_between(x, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
        axes.plot(x, mean, color=colour, marker=marker, markersize=5, linewidth=2, label=policy)
    axes.set_xlabel(name)
    axes.set_ylabel(f"{score}, ± s.e.")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    open_frame(axes)
    return axes


def sweep_heat_map(
    axes: Axes,
    x: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    names: tuple[str, str],
    score: str,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """One number, such as the regret of a policy, over two parameters; brighter is more.

    Every point of the grid is one cell of the same size, whatever the distance of the values. The numbers
    stand in the cells where there are few.

    Args:
        axes: Where to draw.
        x: Values of the first parameter, ``(n,)``.
        y: Values of the second, ``(m,)``.
        values: The number at each point, ``(m, n)``.
        names: Names of the two parameters.
        score: What the numbers are, for the colour bar.
        limits: Ends of the colours, to compare pictures; by default the smallest and largest number.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit.
    """
    x, y = array_of("x", x, "n"), array_of("y", y, "m")
    values = array_of("values", values, len(y), len(x))
    low, high = limits or (np.nanmin(values), np.nanmax(values))
    image = axes.imshow(values, origin="lower", aspect="auto", cmap=COLOUR_MAP, vmin=low, vmax=high)
    axes.figure.colorbar(image, ax=axes, label=score)
    for axis, numbers in ((axes.xaxis, x), (axes.yaxis, y)):
        step = -(-len(numbers) // _MOST_TICKS)
        axis.set_ticks(np.arange(0, len(numbers), step), [f"{number:.3g}" for number in numbers[::step]])
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    if values.size <= _MOST_NUMBERS:
        middle = 0.5 * (low + high)
        for (row, column), value in np.ndenumerate(values):
            colour = "black" if value > middle else "white"
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=8)
    return axes
