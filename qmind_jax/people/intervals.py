"""Central intervals of what was drawn or fitted."""

import numpy as np


def tails(level: float) -> np.ndarray:
    """Probabilities below the two ends of a central interval, ``(2,)``.

    Args:
        level: Probability of the interval, in (0, 1).

    Raises:
        ValueError: If ``level`` is outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    return np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
