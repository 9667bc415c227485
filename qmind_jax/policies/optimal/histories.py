"""Graphs of answer histories: what can have been asked and answered, level by level.

A graph depends on the number of questions only, not on the person, so one graph serves a whole population.
It is a tree where the order of the answers matters and has shared nodes where it does not.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import jax
import numpy as np
from flax import struct

Repeats = Literal["any", "not at once", "never"]


@struct.dataclass
class Level:
    """The step from the histories of k answers (n of them) to those of k + 1 answers (m of them).

    Attributes:
        children: Int32 ``(n, Q, 2)``: the history after the answer no (0) or yes (1) to a question, in
            ``0 .. m - 1``; m where the question must not be asked.
        origin: Int32 ``(m,)``: index into ``(2, Q, n)``, flattened, of one way to come to each history.
    """

    children: jax.Array
    origin: jax.Array


@struct.dataclass
class Histories:
    """All histories up to a number of answers.

    Attributes:
        levels: One per answer; the histories without any answer are a single one.
        may_ask: Bool ``(m, Q)``: which questions may be asked after each of the longest histories.
    """

    levels: tuple[Level, ...]
    may_ask: jax.Array


class HistoryTree:
    """Every order of questions and answers is a history of its own.

    Args:
        num_questions: Q, at least 1.
        depth: Answers of the longest histories, at least 0.
        repeats: Whether a question may be asked again: ``"any"`` time, ``"not at once"``, ``"never"``.
        closing: Answers, as pairs (question, yes), after which nothing is worth asking.
    """

    def __init__(
        self,
        num_questions: int,
        depth: int,
        repeats: Repeats = "any",
        closing: frozenset[tuple[int, bool]] = frozenset(),
    ) -> None:
        if num_questions > 62:
            raise ValueError(f"people must have at most 62 questions, got {num_questions}")
        self.num_questions = num_questions
        self.depth = min(depth, num_questions) if repeats == "never" else depth
        self.repeats = repeats
        self.closing = closing

    def sizes(self) -> list[int]:
        """Number of histories of 0, 1, ... answers, without making them."""
        blocked, sizes = Counter({0: 1}), [1]
        for _ in range(self.depth):
            after: Counter[int] = Counter()
            for mask, number in blocked.items():
                for question, yes in self._answers(mask):
                    after[self._blocked(mask, question, yes)] += number
            if not after:
                break
            blocked = after
            sizes.append(blocked.total())
        return sizes

    def build(self) -> Histories:
        """Make the graph."""
        masks, levels = np.zeros(1, np.int64), []
        everything, bits = 2**self.num_questions - 1, 2 ** np.arange(self.num_questions)
        closes = np.zeros((self.num_questions, 2), bool)
        for question, yes in self.closing:
            closes[question, int(yes)] = True
        for _ in range(self.depth):
            parent, question = np.nonzero((masks[:, None] & bits) == 0)
            count = len(parent)
            if count == 0:
                break
            children = np.full((len(masks), self.num_questions, 2), 2 * count, np.int32)
            children[parent, question] = np.arange(2 * count).reshape(count, 2)
            answer = np.tile([0, 1], count)
            parent, question = np.repeat(parent, 2), np.repeat(question, 2)
            origin = np.ravel_multi_index((answer, question, parent), (2, self.num_questions, len(masks)))
            levels.append(Level(children, origin.astype(np.int32)))
            kept = {"any": 0, "not at once": bits[question], "never": masks[parent] | bits[question]}
            masks = np.where(closes[question, answer], everything, kept[self.repeats])
        return Histories(tuple(levels), (masks[:, None] & bits) == 0)

    def _answers(self, mask: int) -> Iterator[tuple[int, bool]]:
        open_questions = (q for q in range(self.num_questions) if not mask >> q & 1)
        return itertools.product(open_questions, (False, True))

    def _blocked(self, mask: int, question: int, yes: bool) -> int:
        if (question, yes) in self.closing:
            return 2**self.num_questions - 1
        return {"any": 0, "not at once": 1 << question, "never": mask | 1 << question}[self.repeats]


class AnswerCounts:
    """Histories of independent answers: those with the same answers in another order are one.

    Args:
        num_questions: Q, at least 1.
        depth: Answers of the longest histories, at least 0.
    """

    def __init__(self, num_questions: int, depth: int) -> None:
        self.num_questions = num_questions
        self.depth = depth

    def sizes(self) -> list[int]:
        """Number of histories of 0, 1, ... ``depth`` answers, without making them."""
        kinds = 2 * self.num_questions
        return [math.comb(count + kinds - 1, count) for count in range(self.depth + 1)]

    def build(self) -> Histories:
        """Make the graph."""
        kinds = 2 * self.num_questions
        counts, levels = np.zeros((1, kinds), np.int32), []
        for _ in range(self.depth):
            after = counts[:, None] + np.eye(kinds, dtype=np.int32)
            unique, first, index = np.unique(
                after.reshape(-1, kinds), axis=0, return_index=True, return_inverse=True
            )
            children = index.reshape(len(counts), self.num_questions, 2)
            parent, question, answer = np.unravel_index(first, children.shape)
            origin = np.ravel_multi_index((answer, question, parent), (2, self.num_questions, len(counts)))
            levels.append(Level(children.astype(np.int32), origin.astype(np.int32)))
            counts = unique
        return Histories(tuple(levels), np.ones((len(counts), self.num_questions), bool))
