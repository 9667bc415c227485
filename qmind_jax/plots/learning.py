"""Pictures of training."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.lib.stride_tricks import sliding_window_view

from qmind_jax.plots.style import BLUE, LINES, open_frame


def learning_curve(
    axes: Axes,
    returns: np.ndarray,
    steps_per_update: int,
    references: Mapping[str, float] | None = None,
    smooth: int = 10,
) -> Axes:
    """Mean return against environment steps: every seed thin, their mean bold ± one standard error.

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
    curves = np.stack([_mean(sliding_window_view(seed, window), axis=-1) for seed in returns])
    mean = _mean(curves, axis=0)
    steps = (np.arange(curves.shape[-1]) + window) * steps_per_update
    for curve in curves:
        axes.plot(steps, curve, color=BLUE, alpha=0.3, linewidth=1)
    label = f"PPO, {len(curves)} seeds"
    if len(curves) > 1:
        error = _standard_error(curves, mean)
        axes.fill_between(steps, mean - error, mean + error, color=BLUE, alpha=0.2, linewidth=0)
        label += ", mean ± s.e."
    axes.plot(steps, mean, color=BLUE, linewidth=2.5, label=label)
    for (name, value), colour in zip((references or {}).items(), LINES * 4, strict=False):
        axes.axhline(value, color=colour, linestyle="--", linewidth=1.5, label=f"{name} ({value:.2f})")
    axes.set_xlabel("environment steps per seed")
    axes.set_ylabel("return per episode")
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.0f}")
    axes.legend(loc="best", framealpha=0.9, edgecolor="none")
    open_frame(axes)
    # The first updates of an untrained agent can be so bad that everything else would be a flat line.
    marks = np.array([*mean[len(steps) // 20 :], *(references or {}).values()])
    marks = marks[np.isfinite(marks)]
    if marks.size:
        margin = 0.08 * np.ptp(marks) + 0.05
        axes.set_ylim(marks.min() - margin, marks.max() + margin)
    return axes


def _standard_error(curves: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Of the mean over the seeds that have a number, ``(updates,)``; NaN of fewer than two."""
    count = np.maximum((~np.isnan(curves)).sum(axis=0), 1)
    squares = _mean((curves - mean) ** 2, axis=0)
    return np.sqrt(np.divide(squares, count - 1, out=np.full_like(squares, np.nan), where=count > 1))


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean of what is not NaN; NaN where nothing is."""
    valid = ~np.isnan(values)
    total, count = np.where(valid, values, 0.0).sum(axis=axis), valid.sum(axis=axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
