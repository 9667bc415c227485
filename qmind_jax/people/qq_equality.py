"""What two-question order tables show without any model: rates of "yes" and the QQ equality.

Tables are mappings ``{"AB": cells, "BA": cells}`` of counts or probabilities, as
:meth:`qmind_jax.people.predicting.PredictingPerson.predict` returns them; cells are yes-yes, yes-no,
no-yes, no-no, the answer to the question asked first coming first.
"""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.counts import check_counts

Table = Mapping[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class QQTest:
    """Test of the QQ equality, which every pair of projective questions satisfies.

    Attributes:
        q: The QQ statistic of the proportions, 0 under the equality.
        z: ``q`` over its standard error; 0 if the standard error is, as when everybody answers alike in each
            order. Pooled, two such orders that differ have a standard error.
        p_value: Two-sided, from the normal distribution.
    """

    q: float
    z: float
    p_value: float


def rates(table: Table) -> jax.Array:
    """Rates of "yes" ``[A asked first, B first, A second, B second]``, floats of shape ``(..., 4)``.

    Args:
        table: Counts or probabilities, each of shape ``(..., 4)``.

    Raises:
        ValueError: If a condition or a cell is missing, or the cells of one order are no counts or all 0.
    """
    ab, ba = _proportions(table)
    return jnp.stack(
        [
            ab[..., 0] + ab[..., 1],
            ba[..., 0] + ba[..., 1],
            ba[..., 0] + ba[..., 2],
            ab[..., 0] + ab[..., 2],
        ],
        axis=-1,
    )


def qq_statistic(table: Table) -> jax.Array:
    """Share of unequal answers with A first minus that with B first, floats of shape ``(...)``.

    Args:
        table: Counts or probabilities, each of shape ``(..., 4)``.

    Raises:
        ValueError: If a condition or a cell is missing, or the cells of one order are no counts or all 0.
    """
    ab, ba = _proportions(table)
    return ab[..., 1] + ab[..., 2] - ba[..., 1] - ba[..., 2]


def qq_test(counts: Table, *, pooled: bool = False) -> QQTest:
    """Test whether the share of unequal answers is the same in both orders.

    Args:
        counts: Numbers of people, each of shape ``(4,)``.
        pooled: Whether both orders share one estimate of the variance, as in Wang & Busemeyer (2013); by
            default each has its own, as in quantum-mind.

    Raises:
        ValueError: If a condition is missing or without people, or the counts are no counts.
    """
    _check_conditions(counts)
    checked = check_counts(counts, {"AB": 4, "BA": 4})
    unequal, totals = np.array(
        [(cells[1] + cells[2], cells.sum()) for cells in (checked["AB"], checked["BA"])]
    ).T
    if np.any(totals == 0):
        raise ValueError("counts must hold at least one person in each order, got none in one of them")
    shares = unequal / totals
    q = float(shares[0] - shares[1])
    share = unequal.sum() / totals.sum() if pooled else shares
    error = math.sqrt(np.sum(share * (1.0 - share) / totals))
    z = q / error if error > 0 else 0.0
    return QQTest(q, z, math.erfc(abs(z) / math.sqrt(2.0)))


def _check_conditions(table: Table) -> None:
    for order in ("AB", "BA"):
        if order not in table:
            raise ValueError(f"the table must have the conditions 'AB' and 'BA', got {sorted(table)}")


def _proportions(table: Table) -> tuple[jax.Array, jax.Array]:
    _check_conditions(table)
    pair = tuple(jnp.asarray(table[order], float) for order in ("AB", "BA"))
    for order, cells in zip(("AB", "BA"), pair, strict=True):
        if cells.ndim == 0 or cells.shape[-1] != 4:
            raise ValueError(f"the table must have four cells in {order!r}, got shape {cells.shape}")
        if isinstance(cells, jax.core.Tracer):
            continue
        if not np.all(np.isfinite(cells)) or np.any(cells < 0) or np.any(np.sum(cells, axis=-1) == 0):
            raise ValueError(
                f"the table must hold finite numbers of at least 0, not all 0, in {order!r}; got {cells}"
            )
    return tuple(cells / jnp.sum(cells, axis=-1, keepdims=True) for cells in pair)
