"""Training speed of PPO, ours and others': ``python -m benchmarks.training``.

Ways to train an agent on the same task:

- ``qmind_jax``: :func:`qmind_jax.training.train`.
- ``plain loop``: PPO as users of PureJaxRL write it over ``jax.vmap(env.step)``, feed-forward and recurrent.
- ``plain loop, 4 lanes``: the recurrent one batched as PureJaxRL's own example is by default: 4 lanes of 128
  steps, 4 minibatches, a step size of 2.5e-4.
- ``rejax``: the PPO of rejax, feed-forward only.
- ``stable-baselines3``: its PPO with its own default settings on quantum-mind's environments, feed-forward.

All but the last and that of 4 lanes share lanes, length of rollouts, epochs, minibatches, width of layers and
every other number of one ``PPOConfig``, the environment's preset, but for what rejax lacks
(:mod:`benchmarks.rejax_ppo`); the recurrent agents have that preset with a GRU. The last has settings of its
own, but as many environment steps and as wide layers; it sees no previous action.

Every way trains one agent at a time, with several keys, interleaved over the ways that are compiled; the
first run of each holds the compilation, which is what it takes longer than the median of the others.

*Time to level*: the level lies 95 % of the way from the random policy's return to the exact optimum. What
must reach it is the return while training, of the policy that explores: the running mean over the last 1,000
finished episodes (:mod:`benchmarks.learning_curves`). It is the one number that every way shows. The time is
the number of updates until then, median over keys, times the seconds per update; with compilation it is what
a user waits who trains once. ``null`` says that half of the runs or more never reach the level.

Ways whose library is missing are skipped with a message; ``pip install ".[benchmark]"`` installs all of them.
Standard output has one JSON line per row, standard error a table.
"""

import dataclasses
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks import plain_ppo, plain_recurrent_ppo
from benchmarks.learning_curves import LearningCurve
from benchmarks.machine import device_name, threads
from qmind_jax.environment import Environment
from qmind_jax.evaluation import evaluate, optima
from qmind_jax.policies import UniformRandom
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train
from qmind_jax.training.presets import PEOPLE_PRESET, PRESETS

ENV_IDS = ("Clarification-v0", "TrustHandover-v0")
NETWORKS = ("mlp", "gru")
WAYS = OURS, PLAIN, FEW_LANES, REJAX, SB3 = (
    "qmind_jax",
    "plain loop",
    "plain loop, 4 lanes",
    "rejax",
    "stable-baselines3",
)
LIBRARIES = {REJAX: ("rejax",), SB3: ("stable_baselines3", "quantum_mind")}
PART_OF_THE_WAY = 0.95


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        env_ids: Environments to train on.
        networks: Feed-forward agents, recurrent ones, or both.
        features: Width of every layer; the preset's if None. PureJaxRL's recurrent example has 128.
        ways: Ways to train.
        repeats: Runs of each compiled way after the first one, at least 1.
        sb3_repeats: Runs of Stable-Baselines3, minutes each, at least 1.
        sb3_steps: Environment steps of each of them; as many as of the others if None.
        quick: Tiny networks, one repeat and hardly any training: a smoke test, not a measurement.
        out: File to which the JSON lines are written as well.
    """

    env_ids: tuple[str, ...] = ENV_IDS
    networks: tuple[str, ...] = NETWORKS
    features: int | None = None
    ways: tuple[str, ...] = WAYS
    repeats: int = 5
    sb3_repeats: int = 1
    sb3_steps: int | None = None
    quick: bool = False
    out: Path | None = None

    def __post_init__(self) -> None:
        for name, known in (("env_ids", ENV_IDS), ("networks", NETWORKS), ("ways", WAYS)):
            for value in getattr(self, name):
                if value not in known:
                    raise ValueError(f"{name} must be among {', '.join(known)}, got {value!r}")
        for name in ("features", "repeats", "sb3_repeats", "sb3_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    @property
    def sized(self) -> "Config":
        """These options, small if a quick run is asked for: Stable-Baselines3 then does one rollout."""
        return dataclasses.replace(self, repeats=1, sb3_steps=1) if self.quick else self


@dataclasses.dataclass(frozen=True)
class Case:
    """One task.

    Attributes:
        env_id: Registered id of the environment.
        env: The environment.
        params: Its parameters.
        random: Mean return of the uniformly random policy.
        optimum: Expected return of the best policy.
    """

    env_id: str
    env: Environment
    params: Any
    random: float
    optimum: float

    @property
    def level(self) -> float:
        """The return that an agent must reach."""
        return self.random + PART_OF_THE_WAY * (self.optimum - self.random)


@dataclasses.dataclass
class Row:
    """One way of training on one task.

    Attributes:
        case: The task.
        way: One of :data:`WAYS`.
        network: One of :data:`NETWORKS`.
        settings: Lanes, length of rollouts, epochs, minibatches and features, for the record.
        run: Trains an agent with a seed and waits for its end.
        compiled: Whether the first run is longer, as it compiles.
        curves: What was learnt in every run so far.
        seconds: Duration of every run so far.
    """

    case: Case
    way: str
    network: str
    settings: dict[str, int]
    run: Callable[[int], LearningCurve]
    compiled: bool = True
    curves: list[LearningCurve] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)

    def repeat(self) -> None:
        """Train once more, with a seed of its own."""
        began = time.perf_counter()
        curve = self.run(len(self.curves))
        self.seconds.append(time.perf_counter() - began)
        self.curves.append(curve)

    @property
    def steady_seconds(self) -> list[float]:
        """Duration of the runs that compiled nothing."""
        return self.seconds[1:] if self.compiled else self.seconds

    @property
    def compile_seconds(self) -> float:
        """What the first run took longer than the others."""
        return max(0.0, self.seconds[0] - statistics.median(self.steady_seconds)) if self.compiled else 0.0

    @property
    def updates(self) -> int:
        """Updates of one run."""
        return len(self.curves[0])

    @property
    def steps(self) -> int:
        """Environment steps of one run."""
        return self.updates * self.settings["lanes"] * self.settings["rollout_steps"]

    @property
    def updates_to_level(self) -> float | None:
        """Median number of updates until the level is reached, None if half of the runs never reach it."""
        never = float("inf")
        needed = [curve.updates_to(self.case.level) or never for curve in self.curves]
        median = statistics.median(needed)
        return None if median == never else median

    @property
    def seconds_to_level(self) -> float | None:
        """Time to level without compilation."""
        if self.updates_to_level is None:
            return None
        return statistics.median(self.steady_seconds) * self.updates_to_level / self.updates

    def record(self) -> dict[str, Any]:
        """The row as a JSON object; lists are [median, min, max] over the runs."""
        times, reached = self.steady_seconds, self.seconds_to_level
        level = self.case.level
        return {
            "environment": self.case.env_id,
            "network": self.network,
            "way": self.way,
            **self.settings,
            "total_steps": self.steps,
            "steps_per_second": [
                round(self.steps / x) for x in (statistics.median(times), max(times), min(times))
            ],
            "train_seconds": round(statistics.median(times), 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "final_return": round(
                statistics.fmean(float(curve.running_mean[-1]) for curve in self.curves), 4
            ),
            "random_return": round(self.case.random, 4),
            "optimal_return": round(self.case.optimum, 4),
            "level": round(level, 4),
            "runs_at_level": sum(curve.updates_to(level) is not None for curve in self.curves),
            "runs": len(self.curves),
            "updates_to_level": self.updates_to_level,
            "seconds_to_level": _rounded(reached),
            "seconds_to_level_with_compilation": _rounded(
                None if reached is None else reached + self.compile_seconds
            ),
            "jax": jax.__version__,
            "device": device_name(),
            "threads": threads(),
        }


def case_of(env_id: str) -> Case:
    """A task with its published person."""
    env, params = make(env_id)
    policy = UniformRandom(env.action_space(params).n)
    random = evaluate(policy, env, params, jax.random.key(0), 100_000).mean
    return Case(env_id, env, params, float(random), float(optima(params)[0]))


def config_of(env_id: str, network: str, quick: bool, features: int | None = None) -> PPOConfig:
    """The hyper-parameters that ours and all others are trained with."""
    config = PRESETS[env_id]
    if network == "gru":
        config = dataclasses.replace(config, network="gru", features=PEOPLE_PRESET.features)
    if quick:
        small = {"lanes": 16, "rollout_steps": 20, "minibatches": 2, "epochs": 2, "features": 8}
        config = dataclasses.replace(config, total_steps=25_600, **small)
    return config if features is None else dataclasses.replace(config, features=features)


def missing_libraries(way: str) -> list[str]:
    """What has to be installed before a way can be measured."""
    return [name for name in LIBRARIES.get(way, ()) if importlib.util.find_spec(name) is None]


def row_of(case: Case, way: str, config: PPOConfig, sb3_steps: int | None = None) -> Row:
    """One way on one task; its library is there.

    Args:
        case: The task.
        way: One of :data:`WAYS`.
        config: Hyper-parameters.
        sb3_steps: Environment steps of Stable-Baselines3; as many as of the others if None.
    """
    if way == SB3:
        return _sb3_row(case, config, config.total_steps if sb3_steps is None else sb3_steps)
    if way == FEW_LANES:
        config = dataclasses.replace(config, lanes=4, rollout_steps=128, minibatches=4, learning_rate=2.5e-4)
    names = ("lanes", "rollout_steps", "epochs", "minibatches", "features")
    settings = {name: getattr(config, name) for name in names}
    run = _our_run(case, config) if way == OURS else _their_run(case, way, config)
    return Row(case, way, config.network, settings, run)


def _our_run(case: Case, config: PPOConfig) -> Callable[[int], LearningCurve]:
    def run(seed: int) -> LearningCurve:
        metrics = train(jax.random.key(seed), case.env, case.params, config).metrics
        episodes = metrics["episodes"]
        # An update in which no episode finished has no mean return.
        total = jnp.where(episodes > 0, metrics["return"] * episodes, 0.0)
        return LearningCurve.of(total, episodes)

    return run


def _their_run(case: Case, way: str, config: PPOConfig) -> Callable[[int], LearningCurve]:
    if way == REJAX:
        from benchmarks import rejax_ppo as module
    else:
        module = plain_ppo if config.network == "mlp" else plain_recurrent_ppo
    program = jax.jit(lambda key: module.train(key, case.env, case.params, config))
    return lambda seed: LearningCurve.of(*program(jax.random.key(seed)))


def _sb3_row(case: Case, config: PPOConfig, total_steps: int) -> Row:
    from benchmarks import peer_ppo as peer

    settings = {
        "lanes": peer.LANES,
        "rollout_steps": peer.ROLLOUT_STEPS,
        "epochs": peer.EPOCHS,
        "minibatches": peer.LANES * peer.ROLLOUT_STEPS // peer.BATCH_SIZE,
        "features": config.features,
    }

    def run(seed: int) -> LearningCurve:
        return LearningCurve.of(*peer.train(seed, case.env_id, total_steps, config.features))

    return Row(case, SB3, config.network, settings, run, compiled=False)


def measured(case: Case, network: str, ways: Sequence[str], config: Config) -> list[Row]:
    """Train in every way that there is for a network, in turn."""
    ppo = config_of(case.env_id, network, config.quick, config.features)
    recurrent = network == "gru"
    only_recurrent, only_feed_forward = (FEW_LANES,), tuple(LIBRARIES)
    skipped = only_feed_forward if recurrent else only_recurrent
    rows = [row_of(case, way, ppo, config.sb3_steps) for way in ways if way not in skipped]
    for number in range(1 + config.repeats):
        for row in rows:
            if row.compiled or number < config.sb3_repeats:
                row.repeat()
    return rows


def speed_table(rows: Sequence[Row]) -> Table:
    """Medians, how many times faster ours is, and times to level without and with compilation."""
    title = f"Training one agent; the level is {PART_OF_THE_WAY:.0%} of the way from random to optimal"
    table = Table(title=title)
    for heading in ("environment", "network", "way"):
        table.add_column(heading, no_wrap=True)
    for heading in ("steps/s", "ours is", "compile s", "train s", "level s", "+ compile", "return", "level"):
        table.add_column(heading, justify="right", no_wrap=True)
    ours = {(row.case.env_id, row.network): row.record() for row in rows if row.way == OURS}
    for row in rows:
        record = row.record()
        speed = record["steps_per_second"][0]
        mine = ours.get((row.case.env_id, row.network))
        table.add_row(
            row.case.env_id,
            row.network,
            row.way,
            f"{speed:,}",
            "" if mine is None else f"{mine['steps_per_second'][0] / speed:.1f}x",
            f"{record['compile_seconds']:.1f}",
            f"{record['train_seconds']:.2f}",
            _text(record["seconds_to_level"]),
            _text(record["seconds_to_level_with_compilation"]),
            f"{record['final_return']:.3f}",
            f"{record['level']:.3f}",
        )
    return table


def main(config: Config) -> None:
    """Measure all rows, print them and the table."""
    config, console = config.sized, Console(file=sys.stderr, width=140)
    ways = []
    for way in config.ways:
        if missing := missing_libraries(way):
            needed = " and ".join(missing)
            console.print(f"{way} skipped: {needed} not installed (pip install '.\\[benchmark]')")
        else:
            ways.append(way)
    rows: list[Row] = []
    for env_id in config.env_ids:
        case = case_of(env_id)
        for network in config.networks:
            group = measured(case, network, ways, config)
            rows += group
            for row in group:
                print(json.dumps(row.record()), flush=True)
    if config.out is not None:
        config.out.write_text("".join(json.dumps(row.record()) + "\n" for row in rows))
    console.print(speed_table(rows))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _text(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f}"


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
