"""Pictures: functions from arrays to matplotlib axes, in colours that colour-blind readers can tell apart."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

# Okabe & Ito (2008).
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#666666",
)
_LINES = (ORANGE, GREEN, PURPLE, RED, SKY)


def learning_curve(
    axes: Axes,
    returns: np.ndarray,
    steps_per_update: int,
    references: Mapping[str, float] | None = None,
    smooth: int = 10,
) -> Axes:
    """Mean return against environment steps: every seed thin, their mean bold.

    Args:
        axes: Where to draw.
        returns: Mean return per update, shape ``(updates,)`` or ``(seeds, updates)``; NaN where no episode
            ended.
        steps_per_update: Environment steps between two updates.
        references: Returns to mark by horizontal lines, by name.
        smooth: Number of updates to average over.

    Returns:
        The axes.
    """
    returns = np.atleast_2d(np.asarray(returns, float))
    window = min(smooth, returns.shape[-1])
    curves = np.stack([_moving_average(seed, window) for seed in returns])
    steps = (np.arange(curves.shape[-1]) + window) * steps_per_update
    for curve in curves:
        axes.plot(steps, curve, color=BLUE, alpha=0.3, linewidth=1)
    axes.plot(steps, np.nanmean(curves, axis=0), color=BLUE, linewidth=2.5, label=f"PPO, {len(curves)} seeds")
    for (name, value), colour in zip((references or {}).items(), _LINES * 4, strict=False):
        axes.axhline(value, color=colour, linestyle="--", linewidth=1.5, label=f"{name} ({value:.2f})")
    axes.set_xlabel("environment steps per seed")
    axes.set_ylabel("return per episode")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    # The first updates of an untrained agent can be so bad that everything else would be a flat line.
    marks = [*np.nanmean(curves[:, len(steps) // 20 :], axis=0), *(references or {}).values()]
    low, high = np.nanmin(marks), np.nanmax(marks)
    axes.set_ylim(low - 0.08 * (high - low) - 0.05, high + 0.08 * (high - low) + 0.05)
    return axes


def _moving_average(values: np.ndarray, window: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    valid = ~np.isnan(windows)
    total = np.where(valid, windows, 0.0).sum(axis=-1)
    return np.divide(total, valid.sum(axis=-1), out=np.full(total.shape, np.nan), where=valid.any(axis=-1))
