"""Pictures: functions from arrays to matplotlib axes, in colours that colour-blind readers can tell apart."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.lib.stride_tricks import sliding_window_view

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
    curves = np.stack([_mean(sliding_window_view(seed, window), axis=-1) for seed in returns])
    mean = _mean(curves, axis=0)
    steps = (np.arange(curves.shape[-1]) + window) * steps_per_update
    for curve in curves:
        axes.plot(steps, curve, color=BLUE, alpha=0.3, linewidth=1)
    axes.plot(steps, mean, color=BLUE, linewidth=2.5, label=f"PPO, {len(curves)} seeds")
    for (name, value), colour in zip((references or {}).items(), _LINES * 4, strict=False):
        axes.axhline(value, color=colour, linestyle="--", linewidth=1.5, label=f"{name} ({value:.2f})")
    axes.set_xlabel("environment steps per seed")
    axes.set_ylabel("return per episode")
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.0f}")
    axes.legend(loc="best", framealpha=0.9, edgecolor="none")
    axes.spines[["top", "right"]].set_visible(False)
    # The first updates of an untrained agent can be so bad that everything else would be a flat line.
    marks = np.array([*mean[len(steps) // 20 :], *(references or {}).values()])
    marks = marks[np.isfinite(marks)]
    if marks.size:
        margin = 0.08 * np.ptp(marks) + 0.05
        axes.set_ylim(marks.min() - margin, marks.max() + margin)
    return axes


def trust_disc(axes: Axes, z: np.ndarray, x: np.ndarray, labels: Sequence[str] = ()) -> Axes:
    """Paths of trust qubits on the Bloch disc: full trust at the top, full distrust at the bottom.

    Args:
        axes: Where to draw.
        z: Trust of each person after each step, in [-1, 1], shape ``(people, steps)``.
        x: Coherence, same shape.
        labels: Names of the people, for the legend.

    Returns:
        The axes.
    """
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    axes.plot(np.sin(angle), np.cos(angle), color=GREY, linewidth=1)
    axes.axhline(0.0, color=GREY, linewidth=0.5, linestyle=":")
    for i, (path_z, path_x) in enumerate(zip(z, x, strict=True)):
        colour = (BLUE, *_LINES)[i % 6]
        label = labels[i] if i < len(labels) else None
        axes.plot(path_x, path_z, color=colour, linewidth=1.5, marker="o", markersize=3, label=label)
        axes.plot(path_x[0], path_z[0], color=colour, marker="s", markersize=7)
    axes.set_xlabel("coherence x")
    axes.set_ylabel("trust z: the probability of trust is (1 + z) / 2")
    axes.set_aspect("equal")
    if labels:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def trust_over_time(axes: Axes, trust: Mapping[str, np.ndarray]) -> Axes:
    """Mean trust of groups of people over time.

    Args:
        axes: Where to draw.
        trust: Probability of trust, in [0, 1], shape ``(people, steps)``, by the name of the group.

    Returns:
        The axes.
    """
    for (name, values), colour in zip(trust.items(), (BLUE, *_LINES), strict=False):
        axes.plot(values.mean(axis=0), color=colour, linewidth=2.5, marker="o", markersize=4, label=name)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("step")
    axes.set_ylabel("probability of trust")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


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
    axes.spines[["top", "right"]].set_visible(False)
    return axes


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
    colours = dict(zip(names, (BLUE, *_LINES), strict=False))
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
    axes.spines[["top", "right"]].set_visible(False)
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
    axes.spines[["top", "right"]].set_visible(False)
    return axes


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
    axes.spines[["top", "right"]].set_visible(False)
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
        colour, marker = (BLUE, *_LINES)[i % 6], "osD^v"[i % 5]
        axes.plot(place + shift, values, marker, color=colour, markersize=6, label=name)
    axes.set_xticks(place, ["yes, yes", "yes, no", "no, yes", "no, no"])
    axes.margins(y=0.08)
    axes.set_ylim(bottom=0.0)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean of what is not NaN; NaN where nothing is."""
    valid = ~np.isnan(values)
    total, count = np.where(valid, values, 0.0).sum(axis=axis), valid.sum(axis=axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
