"""Time of one answer in the posterior of one person: ``python -m benchmarks.posterior``.

Sequential Monte Carlo with 500 particles over the parameters of the four-dimensional quantum order model:

- ``quantum-mind``: the peer package's ``OnlinePersonModel``, one person, as its defaults have it.
- ``qmind_jax``: :func:`qmind_jax.people.posteriors.posterior.update` of many people at once.

Both hear answers simulated from people of the prior, and the posterior is brought to its end in every run:
late answers change less than early ones and so cost less. Runs of the two alternate, so that a busy machine
disturbs both alike; compilation is timed apart. Standard output has one JSON line per row, standard error the
ratio.
"""

import dataclasses
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import jax
import numpy as np
import tyro
from quantum_mind.core.online import OnlinePersonModel
from quantum_mind.families.order_effects.models import QuantumOrderModel4D

from qmind_jax.people import GaussianPrior, QuantumOrder4D, posterior

PARTICLES = 500


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        people: People whose posteriors are updated at once.
        answers: Answers of each person.
        repeats: Runs of each package; the median counts.
        out: File to which the JSON lines are written as well.
    """

    people: int = 1000
    answers: int = 50
    repeats: int = 3
    out: Path | None = None


def time_peer(answers: np.ndarray) -> float:
    """Seconds per answer of quantum-mind, for one person; answers are pairs (condition, cell), ``(T, 2)``."""
    model = OnlinePersonModel(QuantumOrderModel4D, n_particles=PARTICLES, rng=np.random.default_rng(0))
    begin = time.perf_counter()
    for condition, cell in answers:
        model.update(("AB", "BA")[condition], int(cell))
    return (time.perf_counter() - begin) / len(answers)


def time_ours(prior: GaussianPrior, conditions: np.ndarray, cells: np.ndarray) -> float:
    """Seconds per person and answer of qmind_jax, with a call per answer as in an episode."""
    answers, people = conditions.shape
    beliefs = posterior.start(prior, jax.random.key(1), people=people, particles=PARTICLES)
    jax.block_until_ready(beliefs)
    begin = time.perf_counter()
    for condition, cell in zip(conditions, cells, strict=True):
        beliefs = posterior.update(beliefs, condition, cell)
    jax.block_until_ready(beliefs)
    return (time.perf_counter() - begin) / (answers * people)


def main(config: Config) -> None:
    """Run the benchmark and print its rows."""
    # The prior of the peer by default: standard normal around the default person, on the free scale.
    prior = GaussianPrior(QuantumOrder4D, QuantumOrder4D().to_free(), np.eye(4))
    truth = prior.draw(config.people, jax.random.key(0))
    rng = np.random.default_rng(0)
    conditions = rng.integers(0, 2, (config.answers, config.people))
    predicted = np.stack([np.asarray(cells) for cells in truth.predict().values()], axis=1)
    chances = predicted[np.arange(config.people), conditions]
    cells = (rng.uniform(size=conditions.shape)[..., None] > np.cumsum(chances, axis=-1)[..., :3]).sum(
        axis=-1
    )
    begin = time.perf_counter()
    time_ours(prior, conditions[:1], cells[:1])
    compile_seconds = time.perf_counter() - begin
    peer, ours = [], []
    for i in range(config.repeats):
        peer.append(time_peer(np.stack([conditions[:, i], cells[:, i]], axis=1)))
        ours.append(time_ours(prior, conditions, cells))
    shared = {
        "benchmark": "posterior",
        "particles": PARTICLES,
        "answers": config.answers,
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "backend": jax.default_backend(),
    }
    rows = [
        {"way": "quantum-mind", "people": 1, "compile_s": 0.0, "seconds": peer},
        {
            "way": "qmind_jax",
            "people": config.people,
            "compile_s": round(compile_seconds, 2),
            "seconds": ours,
        },
    ]
    lines = [
        json.dumps(
            {
                **shared,
                **row,
                "seconds": [float(f"{value:.4g}") for value in row["seconds"]],
                "ms_per_person_and_answer": float(f"{1e3 * statistics.median(row['seconds']):.4g}"),
            }
        )
        for row in rows
    ]
    print("\n".join(lines))
    if config.out is not None:
        config.out.write_text("\n".join(lines) + "\n")
    ratio = statistics.median(peer) / statistics.median(ours)
    print(f"qmind_jax is {ratio:,.0f} times as fast per person and answer", file=sys.stderr)


if __name__ == "__main__":
    main(tyro.cli(Config))
