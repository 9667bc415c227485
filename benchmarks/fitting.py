"""Fits, bootstraps and walks against quantum-mind: ``python -m benchmarks.fitting``.

- ``bootstrap``: 200 parametric refits of the 4-D question order model on the Clinton-Gore table. The peer
  does fewer (``--peer-replicates``), and its time is scaled up: each takes it as long as any other.
- ``fit``: one fit of that model. Its compiled program serves the bootstrap as well, so the row ``fit and
  bootstrap`` is the sum of the two: what a user waits for who starts with nothing compiled.
- ``walk``: one prediction of the open-system walk on 21 places, in double precision.

Everything runs one after the other in one process. Ours is timed twice: the first call traces and compiles
all that it needs, as the first call of a user does, the next only runs. Standard output has one JSON line per
row, standard error a table.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from quantum_mind.core import bootstrap as peer_bootstrap
from quantum_mind.core import fit as peer_fit
from quantum_mind.families.dynamics import OpenSystemWalk as PeerWalk
from quantum_mind.families.order_effects import QuantumOrderModel4D as PeerOrder
from rich.console import Console
from rich.table import Table

from qmind_jax.people import OpenSystemWalk, QuantumOrder4D, bootstrap, fit, order_table

REPLICATES = 200
WALK_DESIGN = {"early": ("single", 0.5), "both": ("joint", 0.5, 1.5)}


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        peer_replicates: Refits that the peer really does, at least 2.
        out: File to which the JSON lines are written as well.
    """

    peer_replicates: int = 20
    out: Path | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """Seconds of one task.

    Attributes:
        task: Its name.
        peer: Of quantum-mind.
        first: Of our first call, compilation included.
        again: Of our next call.
    """

    task: str
    peer: float
    first: float
    again: float


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock time of a call."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def fit_rows(peer_replicates: int) -> list[Row]:
    """One fit, then the bootstrap of it."""
    counts = order_table("clinton_gore")
    # Once before the clock starts, so that it does not time the start of JAX.
    jax.block_until_ready(jax.numpy.zeros(3) + 1.0)
    peer = peer_fit(PeerOrder, counts)
    peer_time = seconds(lambda: peer_fit(PeerOrder, counts))
    first, again = (
        seconds(lambda: fit(QuantumOrder4D, counts, key=jax.random.key(0)).free) for _ in range(2)
    )
    rows = [Row("fit", peer_time, first, again)]
    ours = fit(QuantumOrder4D, counts, key=jax.random.key(0))
    first, again = (
        seconds(lambda: bootstrap(ours, key=jax.random.key(1), replicates=REPLICATES).free) for _ in range(2)
    )
    part = seconds(
        lambda: peer_bootstrap(peer, counts, n_boot=peer_replicates, rng=np.random.default_rng(0)).samples
    )
    rows.append(Row("bootstrap", part * REPLICATES / peer_replicates, first, again))
    both = [sum(getattr(row, name) for row in rows) for name in ("peer", "first", "again")]
    return [*rows, Row("fit and bootstrap", *both)]


def walk_row() -> Row:
    """One prediction of the open-system walk."""
    peer, ours = PeerWalk(), OpenSystemWalk()
    peer_time = seconds(lambda: peer.predict(WALK_DESIGN))
    with jax.enable_x64(True):
        predict = jax.jit(lambda person: person.predict(WALK_DESIGN))
        first, again = (seconds(lambda: predict(ours)) for _ in range(2))
    return Row("walk", peer_time, first, again)


def main(config: Config) -> None:
    """Measure all rows and print them."""
    rows = [*fit_rows(config.peer_replicates), walk_row()]
    lines = [json.dumps(dataclasses.asdict(row)) for row in rows]
    print("\n".join(lines))
    if config.out is not None:
        config.out.write_text("\n".join(lines) + "\n")
    table = Table(title=f"Seconds; peer scaled up from {config.peer_replicates} to {REPLICATES} refits")
    for name in ("task", "peer", "ours, first", "ours, again", "peer / first", "peer / again"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for row in rows:
        ratios = (f"{row.peer / row.first:.0f}", f"{row.peer / row.again:.0f}")
        table.add_row(row.task, *(f"{value:.3f}" for value in (row.peer, row.first, row.again)), *ratios)
    Console(file=sys.stderr, width=110).print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
