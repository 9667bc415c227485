"""Pictures of what is known of a person."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import BLUE, ORANGE, open_frame


def posterior_over_answers(
    axes: Axes,
    mean: np.ndarray,
    intervals: Mapping[float, tuple[np.ndarray, np.ndarray]],
    name: str,
    truth: float | None = None,
    yes: np.ndarray | None = None,
) -> Axes:
    """A parameter of a person as it becomes known, answer by answer.

    Args:
        axes: Where to draw.
        mean: Posterior mean before the first and after every answer, ``(answers + 1,)``.
        intervals: Lower and upper ends of credible intervals, ``(answers + 1,)`` each, by their probability;
            see :meth:`~qmind_jax.people.posteriors.particle_clouds.Posterior.interval`.
        name: Name of the parameter.
        truth: Its true value, if known.
        yes: Whether each answer was "yes", ``(answers,)``, to mark it.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit, or a probability is outside (0, 1).
    """
    mean = array_of("mean", mean, "answers + 1")
    heard = np.arange(len(mean))
    for level, alpha in zip(
        sorted(intervals, reverse=True), np.linspace(0.2, 0.45, len(intervals)), strict=True
    ):
        if not 0.0 < level < 1.0:
            raise ValueError(f"intervals must be named by probabilities in (0, 1), got {level!r}")
        low, high = (array_of(f"intervals[{level!r}]", end, len(mean)) for end in intervals[level])
        label = f"{level:.0%} of belief"
        axes.fill_between(heard, low, high, color=BLUE, alpha=alpha, linewidth=0, label=label)
    axes.plot(heard, mean, color=BLUE, linewidth=2.5, label="mean")
    if truth is not None:
        axes.axhline(truth, color=ORANGE, linestyle="--", linewidth=2, label=f"truth ({truth:.2f})")
    if yes is not None:
        yes = array_of("yes", yes, len(mean) - 1).astype(bool)
        # Along the upper edge, whatever the range.
        edge = axes.get_xaxis_transform()
        axes.margins(y=0.12)
        for kind, face, label in ((yes, "black", '"yes"'), (~yes, "white", '"no"')):
            place = heard[1:][kind]
            axes.scatter(
                place,
                np.full(place.size, 0.97),
                s=18,
                facecolors=face,
                edgecolors="black",
                linewidths=0.8,
                transform=edge,
                zorder=3,
                label=label,
            )
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("answers heard")
    axes.set_ylabel(name)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False)
    open_frame(axes)
    return axes
