"""What a training run shows of itself, and when it reached a level."""

import dataclasses
from typing import Any, Self

import numpy as np

WINDOW = 1_000
"""Episodes that a running mean is over."""


@dataclasses.dataclass(frozen=True)
class LearningCurve:
    """The episodes that finished while an agent trained, played by the policy in training.

    Attributes:
        total: Sum of the returns of the episodes that finished in each update, ``(updates,)``.
        episodes: Their number, ``(updates,)``.
    """

    total: np.ndarray
    episodes: np.ndarray

    @classmethod
    def of(cls, total: Any, episodes: Any) -> Self:
        """From arrays of any library; waits for them."""
        return cls(np.asarray(total, np.float64), np.asarray(episodes, np.float64))

    def __len__(self) -> int:
        return len(self.total)

    @property
    def running_mean(self) -> np.ndarray:
        """Mean return of the last episodes after each update, NaN before the first has finished.

        It is over whole updates: as few as hold :data:`WINDOW` episodes, or all where there are fewer. The
        luck of single episodes then counts as much whatever the number of episodes in an update.
        """
        totals, counts = (np.concatenate([[0.0], np.cumsum(x)]) for x in (self.total, self.episodes))
        before = np.maximum(np.searchsorted(counts, counts[1:] - WINDOW, side="right") - 1, 0)
        episodes = counts[1:] - counts[before]
        return np.divide(
            totals[1:] - totals[before], episodes, out=np.full(len(self), np.nan), where=episodes > 0
        )

    def updates_to(self, level: float) -> int | None:
        """Number of updates after which the running mean has first reached a level, None if it never did."""
        reached = np.flatnonzero(self.running_mean >= level)
        return int(reached[0]) + 1 if reached.size else None
