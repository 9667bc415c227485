"""Published answers of real people to two yes/no questions in both orders.

Counts of Wang & Busemeyer (2013), *Topics in Cognitive Science* 5, 689-710, Table 1: four Gallup surveys
reported by Moore (2002), *Public Opinion Quarterly* 66, 80-91, and two laboratory studies. They were taken
from independent public transcriptions of the published proportions, not from the paper itself; every
proportion times its number of people is a whole number within rounding, so the counts are exact. People who
gave no answer to one of the questions are left out, so the rates of "yes" differ from those of Moore.

Read them with care. No family of :mod:`qmind_jax.people.order` explains all of them best: by BIC a
projective one wins on the first table and the fifth, :class:`~qmind_jax.people.order.BayesOrder`, which
has no order effects, on the second and the sixth, and the saturated family on the third and fourth.
Boyer-Kassem, Duchêne & Guerci (2016, arXiv:1501.04901) find that non-degenerate projective models, whose
answers are directions and not planes, fail on most data of this kind; Kellen, Singmann & Batchelder
(2018) explain mirrored order effects classically; Moreira & Wichert (2017, arXiv:1706.05080) argue that
projection needs no quantum interference.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from qmind_jax.names import unknown


@dataclasses.dataclass(frozen=True)
class OrderTable:
    """One study.

    Attributes:
        name: Key in :data:`ORDER_TABLES`.
        title: The study in words.
        question_a: What question A was about.
        question_b: What question B was about.
        ab: Counts yes-yes, yes-no, no-yes, no-no of the people asked A first; the first answer is to A.
        ba: The same of those asked B first; the first answer is to B.
        caution: What a reader of the numbers should know.
    """

    name: str
    title: str
    question_a: str
    question_b: str
    ab: tuple[int, int, int, int]
    ba: tuple[int, int, int, int]
    caution: str = ""

    @property
    def counts(self) -> dict[str, np.ndarray]:
        """The table as fits take it: ``{"AB": counts, "BA": counts}``, float64 of shape ``(4,)``."""
        return {"AB": np.array(self.ab, np.float64), "BA": np.array(self.ba, np.float64)}


_TABLES = (
    OrderTable(
        "clinton_gore",
        "Are Bill Clinton and Al Gore honest and trustworthy? Gallup, September 1997",
        "Clinton is honest",
        "Gore is honest",
        (219, 20, 79, 129),
        (243, 86, 11, 92),
    ),
    OrderTable(
        "gingrich_dole",
        "Are Newt Gingrich and Bob Dole honest and trustworthy? Gallup, 1995",
        "Gingrich is honest",
        "Dole is honest",
        (172, 36, 140, 89),
        (130, 129, 24, 94),
        "The likelihood of the three-dimensional projective family has a poor local optimum that searches "
        "from few starts end in.",
    ),
    OrderTable(
        "white_black",
        "Do many white people dislike black people, and many black people white people? Gallup, 1996",
        "White people dislike black people",
        "Black people dislike white people",
        (183, 8, 74, 194),
        (195, 29, 67, 195),
        "The 4-D projective family fits poorly although the QQ equality holds.",
    ),
    OrderTable(
        "rose_jackson",
        "Should Pete Rose and Shoeless Joe Jackson be in the Hall of Fame of baseball? Gallup, 1999",
        "Rose should be admitted",
        "Jackson should be admitted",
        (171, 164, 9, 162),
        (192, 31, 57, 182),
        "The QQ equality fails: background text on each man came between the questions.",
    ),
    OrderTable(
        "lab_racial",
        "Racial hostility, laboratory study",
        "First statement on racial hostility",
        "Second statement on racial hostility",
        (29, 7, 34, 46),
        (35, 7, 23, 43),
        "Some 110 people in each order; one public transcription mislabels the two laboratory tables.",
    ),
    OrderTable(
        "lab_affirmative",
        "Affirmative action, laboratory study",
        "First statement on affirmative action",
        "Second statement on affirmative action",
        (57, 5, 19, 37),
        (60, 14, 3, 29),
        "Some 110 people in each order; one public transcription mislabels the two laboratory tables.",
    ),
)

ORDER_TABLES: Mapping[str, OrderTable] = MappingProxyType({table.name: table for table in _TABLES})
"""The six tables by name."""


def order_table(name: str) -> dict[str, np.ndarray]:
    """Counts of a published table, ``{"AB": counts, "BA": counts}``.

    Args:
        name: A key of :data:`ORDER_TABLES`, such as ``"clinton_gore"``.

    Raises:
        ValueError: For an unknown name; the nearest known one is given.
    """
    if name not in ORDER_TABLES:
        raise ValueError(unknown("order table", str(name), ORDER_TABLES))
    return ORDER_TABLES[name].counts


def proportions_to_counts(proportions: Any, n: int) -> np.ndarray:
    """Whole counts with a given sum that are nearest to published proportions.

    Args:
        proportions: Numbers of at least 0, shape ``(cells,)``, that sum to 1 within 0.01, as rounded
            proportions do; scaled to 1 here.
        n: Number of people, at least 1.

    Returns:
        Float64 counts of shape ``(cells,)`` that sum to ``n``. What rounding down leaves goes to the cells
        with the largest remainders.

    Raises:
        ValueError: If the proportions are negative, not finite or sum to something else, or n is no whole
            number of at least 1.
    """
    shares = np.asarray(proportions, np.float64)
    if shares.ndim != 1 or not np.all(np.isfinite(shares)) or np.any(shares < 0):
        raise ValueError(f"proportions must be a row of finite numbers of at least 0, got {proportions!r}")
    if not abs(shares.sum() - 1.0) <= 0.01:
        raise ValueError(f"proportions must sum to 1 within 0.01, got a sum of {shares.sum():g}")
    if not n >= 1 or n != int(n):
        raise ValueError(f"n must be a whole number of at least 1, got {n!r}")
    expected = shares / shares.sum() * int(n)
    # A proportion of a whole number of people must not fall below it by rounding.
    counts = np.floor(expected + 1e-9)
    left = int(n - counts.sum())
    counts[np.argsort(counts - expected, kind="stable")[:left]] += 1.0
    return counts
