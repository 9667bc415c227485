"""One check of an accelerator, a few minutes long: ``python -m benchmarks.gpu``.

- *Correctness*: the same rollout, from the same key, on the CPU and on the accelerator. Random numbers are
  equal bit for bit; floats differ by rounding, so that an answer can flip where a number lies that near
  its probability. The share of lanes with another course is printed.
- *Throughput*: random-policy person-steps per second of :func:`qmind_jax.rollout`, 2**10 to 2**22 lanes.
- *Training*: PPO on ``TrustHandover-v0`` with the preset, and with as many lanes as fill an accelerator.

Standard output has one JSON line per row, standard error a table. Without an accelerator the first part is
left out, and the others measure the CPU.
"""

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.throughput import random_domains
from qmind_jax.environment import Environment
from qmind_jax.people import handover_population
from qmind_jax.policies import UniformRandom
from qmind_jax.registry import make
from qmind_jax.rollouts import Rollout, rollout
from qmind_jax.training import PPOConfig, train
from qmind_jax.training.presets import PRESETS

PEOPLE = 4096
MANY_LANES = 8192


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the check.

    Attributes:
        powers: Throughput is measured with two to each of these powers of lanes.
        steps: Steps of every lane in one repeat, at least 1.
        repeats: Repeats of every measurement, at least 1.
        training_updates: Updates of each agent, at least 1.
        quick: Few lanes, one repeat and hardly any training: a smoke test, not a measurement.
    """

    powers: tuple[int, ...] = (10, 12, 14, 16, 18, 20, 22)
    steps: int = 100
    repeats: int = 5
    training_updates: int = 50
    quick: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "repeats", "training_updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.powers:
            raise ValueError("powers must name at least one number of lanes, got none")
        for power in self.powers:
            if not 0 <= power <= 32:
                raise ValueError(f"powers must lie between 0 and 32, got {power}")

    @property
    def sized(self) -> "Config":
        """These options, small if a quick run is asked for."""
        small = {"powers": (6,), "steps": 10, "repeats": 1, "training_updates": 2}
        return dataclasses.replace(self, **small) if self.quick else self


def main(config: Config) -> None:
    """Print every row, then a table of them."""
    device = jax.devices()[0]
    table = Table(
        "check", "environment", "lanes", "result", title=f"{device.device_kind}, jax {jax.__version__}"
    )
    for row in every_row(config.sized, device):
        record = {"device": device.device_kind, "jax": jax.__version__, **row}
        print(json.dumps(record), flush=True)
        result = {name: value for name, value in row.items() if name not in ("check", "environment", "lanes")}
        text = ", ".join(f"{name} {value:,}" for name, value in result.items())
        table.add_row(row["check"], row["environment"], f"{row['lanes']:,}", text)
    Console(file=sys.stderr, width=140).print(table)


def every_row(config: Config, device: jax.Device) -> Iterator[dict[str, Any]]:
    """All measurements, one after the other."""
    for env_id, env, params in tasks():
        if device.platform != "cpu":
            yield agreement(env_id, env, params, config)
        for power in config.powers:
            yield throughput(env_id, env, params, 2**power, config)
    yield from training(config)


def tasks() -> list[tuple[str, Environment, Any]]:
    """Both environments with thousands of different people."""
    crowds = {
        "TrustHandover-v0": handover_population(jax.random.key(0), PEOPLE),
        "Clarification-v0": random_domains(PEOPLE),
    }
    return [(env_id, *make(env_id, people=people)) for env_id, people in crowds.items()]


def random_rollout(
    env: Environment, params: Any, lanes: int, steps: int
) -> Callable[[jax.Array, Any], Rollout]:
    """A rollout of the random policy, to be compiled."""
    policy = UniformRandom(env.action_space(params).n)
    return lambda key, params: rollout(env, params, policy, key, lanes, steps)


def agreement(env_id: str, env: Environment, params: Any, config: Config) -> dict[str, Any]:
    """The same lanes on the CPU and on the accelerator."""
    lanes = 2 ** min(config.powers[0], 14)
    program = jax.jit(random_rollout(env, params, lanes, config.steps))
    results = []
    for where in (jax.devices("cpu")[0], jax.devices()[0]):
        arguments = jax.device_put((jax.random.key(0), params), where)
        results.append(jax.tree.map(np.asarray, program(*arguments)))
    here, there = results
    return {
        "check": "agreement",
        "environment": env_id,
        "lanes": lanes,
        "steps": config.steps,
        "lanes_with_another_course": share_of_other_courses(here, there),
        "mean_reward_cpu": round(float(here.reward.mean()), 4),
        "mean_reward_accelerator": round(float(there.reward.mean()), 4),
    }


def share_of_other_courses(here: Rollout, there: Rollout) -> float:
    """In which part of the lanes something else happened, so that rewards differ by more than rounding."""
    same = np.isclose(here.reward, there.reward, atol=1e-3) & (here.episodes == there.episodes)
    return float(np.mean(~same))


def throughput(env_id: str, env: Environment, params: Any, lanes: int, config: Config) -> dict[str, Any]:
    """Person-steps per second."""
    began = time.perf_counter()
    compiled = (
        jax.jit(random_rollout(env, params, lanes, config.steps)).lower(jax.random.key(0), params).compile()
    )
    compile_seconds = time.perf_counter() - began
    jax.block_until_ready(compiled(jax.random.key(0), params))
    seconds = [_seconds(compiled, jax.random.key(seed), params) for seed in range(1, config.repeats + 1)]
    return {
        "check": "throughput",
        "environment": env_id,
        "lanes": lanes,
        "steps_per_second": round(lanes * config.steps / statistics.median(seconds)),
        "compile_seconds": round(compile_seconds, 2),
    }


def training(config: Config) -> Iterator[dict[str, Any]]:
    """Environment steps per second of PPO."""
    env, params = make("TrustHandover-v0")
    preset = PRESETS["TrustHandover-v0"]
    for lanes in (preset.lanes, 16 * preset.lanes if config.quick else MANY_LANES):
        ppo = _of_length(dataclasses.replace(preset, lanes=lanes), config.training_updates)
        first = _seconds(train, jax.random.key(0), env, params, ppo)
        seconds = [_seconds(train, jax.random.key(1 + i), env, params, ppo) for i in range(config.repeats)]
        steady = statistics.median(seconds)
        yield {
            "check": "training",
            "environment": "TrustHandover-v0",
            "lanes": lanes,
            "steps_per_second": round(ppo.num_updates * ppo.steps_per_update / steady),
            "compile_seconds": round(max(0.0, first - steady), 2),
        }


def _of_length(config: PPOConfig, updates: int) -> PPOConfig:
    return dataclasses.replace(config, total_steps=updates * config.lanes * config.rollout_steps)


def _seconds(run: Callable[..., Any], *args: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(run(*args))
    return time.perf_counter() - began


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
