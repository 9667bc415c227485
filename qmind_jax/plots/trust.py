"""Pictures of people who trust."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle, Patch

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import ACTIONS, COLOURS, GREY, open_frame

_TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)


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
    draw_disc(axes)
    for i, (path_z, path_x) in enumerate(zip(z, x, strict=True)):
        colour = COLOURS[i % 6]
        label = labels[i] if i < len(labels) else None
        axes.plot(path_x, path_z, color=colour, linewidth=1.5, marker="o", markersize=3, label=label)
        axes.plot(path_x[0], path_z[0], color=colour, marker="s", markersize=7)
    if labels:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    return axes


def disc_grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The points ``z`` and ``x`` for :func:`policy_on_disc`, float ``(size, size)`` each.

    Row i has one ``z``, from -1 up; column j one ``x``. Corners lie outside the disc.

    Raises:
        ValueError: If ``size`` is below 2.
    """
    if size < 2:
        raise ValueError(f"size must be at least 2, got {size}")
    # The middles of cells that tile the square.
    places = (2.0 * np.arange(size) + 1.0) / size - 1.0
    z, x = np.meshgrid(places, places, indexing="ij")
    return z, x


def policy_on_disc(axes: Axes, actions: np.ndarray, names: Sequence[str], legend: bool = True) -> Axes:
    """What a policy does in every state of trust at one time.

    Args:
        axes: Where to draw.
        actions: Its action at the points of :func:`disc_grid`, int ``(size, size)``, such as
            :meth:`~qmind_jax.policies.optimal.HandoverPolicy.action` gives; what lies outside the disc is not
            shown.
        names: Of the actions, at most four.
        legend: Whether to name the colours below.

    Returns:
        The axes.

    Raises:
        ValueError: If ``actions`` is no square, or an action has no name.
    """
    actions = np.asarray(actions)
    array_of("actions", actions, "size", actions.shape[0] if actions.ndim else "size")
    if not 1 <= len(names) <= len(ACTIONS):
        raise ValueError(f"names must be of one to {len(ACTIONS)} actions, got {list(names)}")
    z, x = disc_grid(len(actions))
    shown = np.ma.masked_where(z**2 + x**2 > 1.0, actions)
    if not (shown.min() >= 0 and shown.max() < len(names)):
        raise ValueError(f"actions must lie in 0 .. {len(names) - 1}, got {shown.min()} .. {shown.max()}")
    colours = ListedColormap(ACTIONS[: len(names)])
    image = axes.imshow(
        actions, origin="lower", extent=(-1, 1, -1, 1), cmap=colours, vmin=-0.5, vmax=len(names) - 0.5
    )
    image.set_clip_path(Circle((0.0, 0.0), 1.0, transform=axes.transData))
    draw_disc(axes)
    if legend:
        handles = _patches(names)
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    return axes


def policy_over_time(
    axes: Sequence[Axes], actions: np.ndarray, times: Sequence[int], names: Sequence[str]
) -> Sequence[Axes]:
    """What a policy does in every state of trust, as time passes.

    Args:
        axes: Where to draw, one for each time, side by side in a figure of compressed or constrained
            layout.
        actions: Its actions, int ``(times, size, size)``; see :func:`policy_on_disc`.
        times: Steps taken before.
        names: Of the actions, at most four.

    Returns:
        The axes.

    Raises:
        ValueError: If shapes do not fit, or an action has no name.
    """
    axes = list(axes)
    actions = array_of("actions", actions, len(times), "size", "size")
    if len(axes) != len(times):
        raise ValueError(f"axes must be as many as times, {len(times)}, got {len(axes)}")
    for i, (panel, at_once, time) in enumerate(zip(axes, actions, times, strict=True)):
        policy_on_disc(panel, at_once, names, legend=False)
        panel.set_title(f"after {time} steps")
        if i:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
    axes[0].figure.legend(
        handles=_patches(names), loc="outside lower center", ncols=len(names), frameon=False
    )
    # Where shapes are fixed the layout settles only when it is done again.
    axes[0].figure.draw_without_rendering()
    return axes


def draw_disc(axes: Axes) -> None:
    """The Bloch disc: full trust at the top, full distrust at the bottom."""
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    axes.plot(np.sin(angle), np.cos(angle), color=GREY, linewidth=1)
    axes.axhline(0.0, color=GREY, linewidth=0.5, linestyle=":")
    axes.set_xlabel("coherence x")
    axes.set_ylabel("trust z, with P(trust) = (1 + z) / 2")
    axes.set_xticks(_TICKS)
    axes.set_yticks(_TICKS)
    axes.set_xlim(-1.08, 1.08)
    axes.set_ylim(-1.08, 1.08)
    axes.set_aspect("equal")
    open_frame(axes)


def trust_over_time(axes: Axes, trust: Mapping[str, np.ndarray]) -> Axes:
    """Mean trust of groups of people over time.

    Args:
        axes: Where to draw.
        trust: Probability of trust, in [0, 1], shape ``(people, steps)``, by the name of the group.

    Returns:
        The axes.
    """
    for (name, values), colour in zip(trust.items(), COLOURS, strict=False):
        axes.plot(values.mean(axis=0), color=colour, linewidth=2.5, marker="o", markersize=4, label=name)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("step")
    axes.set_ylabel("probability of trust")
    axes.legend(frameon=False)
    open_frame(axes)
    return axes


def _patches(names: Sequence[str]) -> list[Patch]:
    return [Patch(facecolor=colour, label=name) for colour, name in zip(ACTIONS, names, strict=False)]
