"""Sessions as the published tables see them: what was done, what it cost, how often things happened."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

OVER = -1
"""Stands for the action of a step after the end of a session."""


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    error: float

    @classmethod
    def over(cls, values: np.ndarray, kinds: int = 1) -> "Mean":
        """Mean over sessions, its error from their spread.

        Args:
            values: One number per session, ``(sessions,)``.
            kinds: Sessions come in so many kinds in turn, each of them equally often by design, so that only
                the spread of sessions of one kind is luck. More sessions than kinds are needed.
        """
        kind = np.arange(values.size) % kinds
        kind_mean = np.bincount(kind, values) / np.bincount(kind)
        variance = np.sum((values - kind_mean[kind]) ** 2) / (values.size - kinds)
        return cls(float(values.mean()), math.sqrt(variance / values.size))


@dataclasses.dataclass(frozen=True)
class Sessions:
    """Sessions of one policy.

    Attributes:
        actions: In the numbers of our environments, int ``(sessions, steps)``, ``OVER`` after the end.
        quantities: By name, one number per session, float ``(sessions,)``.
    """

    actions: np.ndarray
    quantities: dict[str, np.ndarray]

    def alike(self, other: "Sessions") -> int:
        """In how many sessions all actions and all quantities are those of the same session of the other.

        Quantities may differ by the rounding of sums in single precision.
        """
        steps = max(self.actions.shape[1], other.actions.shape[1])
        same = np.all(padded(self.actions, steps) == padded(other.actions, steps), axis=1)
        for name, values in self.quantities.items():
            same &= np.isclose(values, other.quantities[name], rtol=1e-5, atol=1e-5)
        return int(same.sum())


def padded(actions: Sequence[Sequence[int]], steps: int | None = None) -> np.ndarray:
    """Sessions of various lengths as one array, int ``(sessions, steps)``.

    Args:
        actions: Of each session.
        steps: At least those of the longest session, which they are if None.
    """
    steps = max(len(session) for session in actions) if steps is None else steps
    return np.array([[*session, *[OVER] * (steps - len(session))] for session in actions], int)
