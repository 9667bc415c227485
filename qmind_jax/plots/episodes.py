"""Episodes in motion."""

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import ACTIONS, GREY
from qmind_jax.plots.trust import draw_disc

_TAIL = 3


def animate_episodes(
    axes: Axes, z: np.ndarray, x: np.ndarray, actions: np.ndarray, names: Sequence[str]
) -> FuncAnimation:
    """A batch of hand-over episodes on the Bloch disc, a picture per step.

    Every person is a dot in the colour of the action just taken, with a short tail to where trust was.

    Args:
        axes: Where to draw; its figure is animated.
        z: Trust before the first and after every step, in [-1, 1], ``(episodes, steps + 1)``.
        x: Coherence, same shape.
        actions: What was done at each step, int ``(episodes, steps)``.
        names: Of the actions, at most four.

    Returns:
        The animation, to be shown or saved by :func:`save_gif`.

    Raises:
        ValueError: If shapes do not fit, or an action has no name.
    """
    z = array_of("z", z, "episodes", "steps + 1")
    x = array_of("x", x, *z.shape)
    actions = array_of("actions", actions, z.shape[0], z.shape[1] - 1)
    if not 1 <= len(names) <= len(ACTIONS):
        raise ValueError(f"names must be of one to {len(ACTIONS)} actions, got {list(names)}")
    if actions.size and not (actions.min() >= 0 and actions.max() < len(names)):
        raise ValueError(f"actions must lie in 0 .. {len(names) - 1}, got {actions.min()} .. {actions.max()}")
    draw_disc(axes)
    for name, colour in zip(names, ACTIONS, strict=False):
        axes.plot([], [], "o", color=colour, markeredgecolor=GREY, label=name)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    tails = [axes.plot([], [], color=GREY, alpha=0.35, linewidth=1)[0] for _ in z]
    dots = axes.scatter(x[:, 0], z[:, 0], s=36, color="white", edgecolors=GREY, linewidths=0.8, zorder=3)
    colours = np.array(ACTIONS, object)

    def draw(step: int) -> list[Artist]:
        since = max(step - _TAIL, 0)
        for tail, path_x, path_z in zip(tails, x, z, strict=True):
            tail.set_data(path_x[since : step + 1], path_z[since : step + 1])
        dots.set_offsets(np.stack([x[:, step], z[:, step]], axis=-1))
        dots.set_facecolor(["white"] * len(z) if step == 0 else colours[actions[:, step - 1]].tolist())
        trust = 0.5 * (1.0 + z[:, step].mean())
        axes.set_title(f"step {step}: mean probability of trust {trust:.2f}")
        return [*tails, dots]

    return FuncAnimation(axes.figure, draw, frames=z.shape[1], interval=250)


def save_gif(path: str | pathlib.Path, animation: FuncAnimation, frames_per_second: float = 4.0) -> None:
    """Write an animation to a new GIF file.

    Args:
        path: File to write, ending in ``.gif``.
        animation: What to write.
        frames_per_second: Speed, above 0.

    Raises:
        ValueError: If the file name ends otherwise or the speed is not above 0.
        FileExistsError: If the file exists.
    """
    path = pathlib.Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"path must end in .gif, got {path}")
    if not frames_per_second > 0:
        raise ValueError(f"frames_per_second must be above 0, got {frames_per_second!r}")
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    animation.save(path, writer=PillowWriter(fps=frames_per_second), dpi=80)
