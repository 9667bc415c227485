"""What all pictures share: colours that colour-blind readers can tell apart, and frames."""

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
LINES = (ORANGE, GREEN, PURPLE, RED, SKY)
"""What is compared with the blue main thing."""

COLOURS = (BLUE, *LINES)

MARKERS = ("o", "s", "D", "^", "v", "P")
"""With every colour a shape, for readers who see no colours at all."""

ACTIONS = (BLUE, ORANGE, GREEN, "#DDDDDD")
"""Hand over, hand over slowly, ask, wait."""

COLOUR_MAP = "cividis"
"""Dark to bright, and the same to every eye (Nunez et al. 2018)."""


def open_frame(axes: Axes) -> None:
    """Take the upper and the right side of the frame away."""
    axes.spines[["top", "right"]].set_visible(False)
