"""A million people in a million episodes: ``python -m benchmarks.memory``.

Every person is another, every lane plays 20 steps with random actions. Standard output has one JSON line
per environment: the time of the first run, the compilation left out, and the most memory that it added to
what was in use before, next to what :func:`qmind_jax.rollouts.rollout_bytes` says. Memory is read from
``/proc``, so that this needs Linux with the GNU C library.
"""

import ctypes
import dataclasses
import gc
import json
import time
from pathlib import Path
from typing import Any

import jax
import tyro

from benchmarks.throughput import random_domains
from qmind_jax.environment import Environment
from qmind_jax.people import handover_population
from qmind_jax.policies import UniformRandom
from qmind_jax.registry import make
from qmind_jax.rollouts import rollout, rollout_bytes

STEPS = 20


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        people: Number of people, at least 2.
        lanes: Number of episodes side by side, at least 1.
    """

    people: int = 1_000_000
    lanes: int = 1_000_000

    def __post_init__(self) -> None:
        for name, least in (("people", 2), ("lanes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


def main(config: Config) -> None:
    """Print a line per environment."""
    crowds = {
        "TrustHandover-v0": lambda: handover_population(jax.random.key(0), config.people),
        "Clarification-v0": lambda: random_domains(config.people),
    }
    for env_id, crowd in crowds.items():
        env, params = make(env_id, people=crowd())
        print(json.dumps({"environment": env_id, **measure(env, params, config)}), flush=True)


def measure(env: Environment, params: Any, config: Config) -> dict[str, Any]:
    """Time and memory of one rollout."""
    policy = UniformRandom(env.action_space(params).n)

    def run(key: jax.Array, params: Any) -> Any:
        return rollout(env, params, policy, key, config.lanes, STEPS)

    compiled = jax.jit(run).lower(jax.random.key(0), params).compile()
    of_people = sum(leaf.nbytes for leaf in jax.tree.leaves(params.people))
    # The people are there already.
    said = rollout_bytes(env, params, policy, config.lanes, STEPS) - of_people
    before = _forget_peak()
    began = time.perf_counter()
    result = jax.block_until_ready(compiled(jax.random.key(0), params))
    seconds = time.perf_counter() - began
    added = _memory("VmHWM") - before
    del result
    return {
        "people": config.people,
        "lanes": config.lanes,
        "steps": STEPS,
        "seconds": round(seconds, 2),
        "bytes_per_person": round(of_people / config.people, 1),
        "bytes_per_lane_said": round(said / config.lanes, 1),
        "bytes_per_lane_measured": round(added / config.lanes, 1),
        "peak_of_process_mb": round(_memory("VmHWM") / 2**20),
    }


def _forget_peak() -> int:
    """Make the memory in use now the largest so far, and return it, in bytes."""
    # What was freed goes back to the system first: used again, it would not show.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    """A number of bytes that Linux keeps of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {name} in /proc/self/status")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
