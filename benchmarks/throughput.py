"""Random-policy steps per second: ``python -m benchmarks.throughput``.

Ways to step the same environment with uniformly random actions and automatic resets:

- ``quantum-mind``: the peer package's environment in a Python loop, one lane.
- ``plain``: the same task as a plain gymnax environment (:mod:`benchmarks.plain_envs`), ``vmap``-ped with one
  key per lane: each lane splits its key and resets at every step, as gymnax's own environments do.
- ``gymnax``: the same loop over our kernel under the ``step`` of gymnax's base class.
- ``vmap``: the same loop over our own ``env.step``, which needs no second key.
- ``step_batch``: the same loop with one key per step for the whole batch.
- ``rollout``: ours, :func:`qmind_jax.rollout`.

and two floors that nothing can be faster than:

- ``free noise``: ``rollout`` with a multiplication in the place of every random number.
- ``bytes``: as many arrays of as many bytes as the states have, each multiplied and added to in a loop.

Repeats are interleaved over all rows of an environment, so that a busy machine disturbs every row alike;
compilation is timed apart. Standard output has one JSON line per row, standard error a table of the ratios.
"""

import dataclasses
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from gymnax.environments.environment import Environment as GymnaxEnvironment
from quantum_mind.applications.questioning import ProjectiveAnswerModel
from quantum_mind.envs import ClarificationEnv, TrustHandoverEnv
from rich.console import Console
from rich.table import Table

from benchmarks.floors import FreeChoices, FreeNoise, multiply_and_add
from benchmarks.machine import device_name, threads
from benchmarks.plain_envs import PlainClarification, PlainHandover
from qmind_jax import make
from qmind_jax import noise as random
from qmind_jax.environment import Environment
from qmind_jax.people.answering import ProjectiveAnswers
from qmind_jax.policies import UniformRandom
from qmind_jax.rollouts import rollout

WAYS = PEER, PLAIN, GYMNAX, VMAP, BATCH, ROLLOUT, FREE, BYTES = (
    "quantum-mind",
    "plain",
    "gymnax",
    "vmap",
    "step_batch",
    "rollout",
    "free noise",
    "bytes",
)
LOOPS = (PLAIN, GYMNAX, VMAP, BATCH)
LANES = (1, 1024, 16384, 65536)
"""Where all ways are compared."""
CURVE = tuple(4**power for power in range(11))
"""Where ``rollout`` and its floors are measured as well with ``curve``: 1 to 2**20 lanes."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        quick: Fewer repeats, shorter runs and at most 1,024 lanes: a smoke test, not a measurement.
        curve: Measure ``rollout`` and its floors at 1 to 2**20 lanes as well.
        out: File to which the JSON lines are written as well.
    """

    quick: bool = False
    curve: bool = False
    out: Path | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One environment with its people, ours and the peer's.

    Attributes:
        env_id: Registered id of our environment.
        people: Number of people.
        env: Our environment.
        params: Its parameters.
        peer: Makes the peer's environment with the same people.
        plain: Makes the plain gymnax environment, which takes our parameters.
    """

    env_id: str
    people: int
    env: Environment
    params: Any
    peer: Callable[[], Any]
    plain: Callable[[], GymnaxEnvironment]


@dataclasses.dataclass
class Row:
    """One way of stepping one case.

    Attributes:
        case: What is stepped.
        way: One of :data:`WAYS`.
        lanes: Size of the batch.
        steps: Steps per lane in one repeat.
        run: Runs one repeat with a seed and waits for its end.
        compile_seconds: Time to trace and compile, 0 without compilation.
        seconds: Duration of every repeat so far.
        cpu_seconds: Processor time of every repeat, all threads together.
    """

    case: Case
    way: str
    lanes: int
    steps: int
    run: Callable[[int], None]
    compile_seconds: float
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)

    def nanoseconds(self, seconds: Sequence[float]) -> list[float]:
        """Nanoseconds per step of one lane: median, least and most of the repeats."""
        times = [1e9 * value / (self.lanes * self.steps) for value in seconds]
        return [statistics.median(times), min(times), max(times)]

    def record(self) -> dict[str, Any]:
        """The row as a JSON object; lists are [median, min, max] over the repeats."""
        median, least, most = self.nanoseconds(self.seconds)
        return {
            "environment": self.case.env_id,
            "way": self.way,
            "lanes": self.lanes,
            "people": self.case.people,
            "steps_per_second": [round(1e9 / ns) for ns in (median, most, least)],
            "ns_per_step": [round(ns, 2) for ns in (median, least, most)],
            "cpu_ns_per_step": [round(ns, 2) for ns in self.nanoseconds(self.cpu_seconds)],
            "compile_seconds": round(self.compile_seconds, 3),
            "repeats": len(self.seconds),
            "jax": jax.__version__,
            "device": device_name(),
            "threads": threads(),
        }


def random_domains(num: int, seed: int = 0) -> ProjectiveAnswers:
    """People with the questions of the default domain but random directions of R^4 behind them."""
    directions = np.random.default_rng(seed).normal(size=(2, num, 3, 4))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    states, rows = directions
    projectors = rows[..., :, None] * rows[..., None, :]
    _, params = make("Clarification-v0")
    return ProjectiveAnswers(states, projectors, params.people.hypotheses, params.people.questions)


def peer_models(people: ProjectiveAnswers) -> list[ProjectiveAnswerModel]:
    """The same people as models of quantum-mind."""
    states, projectors = np.asarray(people.states, float), np.asarray(people.projectors, float)
    return [
        ProjectiveAnswerModel(
            dict(zip(people.hypotheses, states[i], strict=True)),
            dict(zip(people.questions, projectors[i], strict=True)),
        )
        for i in range(len(people))
    ]


def cases(quick: bool) -> list[Case]:
    """The environments to measure."""
    crowd = random_domains(64 if quick else 4096)
    models = peer_models(crowd)
    return [
        Case("TrustHandover-v0", 1, *make("TrustHandover-v0"), TrustHandoverEnv, PlainHandover),
        Case("Clarification-v0", 1, *make("Clarification-v0"), ClarificationEnv, PlainClarification),
        Case(
            "Clarification-v0",
            len(crowd),
            *make("Clarification-v0", people=crowd),
            lambda: ClarificationEnv(people=models),
            PlainClarification,
        ),
    ]


def peer_row(case: Case, steps: int) -> Row:
    """quantum-mind's environment in a Python loop."""
    env = case.peer()

    def run(seed: int) -> None:
        actions = np.random.default_rng(seed).integers(env.action_space.n, size=steps)
        env.reset(seed=seed)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return Row(case, PEER, 1, steps, run, compile_seconds=0.0)


def our_row(case: Case, way: str, lanes: int, steps: int) -> Row:
    """One of the ways that are compiled."""
    env, params = case.env, case.params
    num_actions = env.action_space(params).n

    def rolled(env: Environment, policy: Any) -> Callable[[jax.Array], Any]:
        return lambda key: rollout(env, params, policy, key, lanes, steps)

    if way in LOOPS:
        play = loop(case, way, lanes, steps)
    elif way == ROLLOUT:
        play = rolled(env, UniformRandom(num_actions))
    elif way == FREE:
        play = rolled(FreeNoise(env), FreeChoices(num_actions))
    else:
        state = jax.eval_shape(lambda key: env.reset_batch(key, params, lanes)[1], jax.random.key(0))
        play = multiply_and_add(state, steps)

    began = time.perf_counter()
    compiled = jax.jit(play).lower(jax.random.key(0)).compile()
    compile_seconds = time.perf_counter() - began
    jax.block_until_ready(compiled(jax.random.key(0)))

    def run(seed: int) -> None:
        jax.block_until_ready(compiled(jax.random.key(seed)))

    return Row(case, way, lanes, steps, run, compile_seconds)


def loop(case: Case, way: str, lanes: int, steps: int) -> Callable[[jax.Array], Any]:
    """A scan that carries its key and splits it at every step, as users of gymnax write it."""
    env, params = case.env, case.params
    plain = case.plain()
    step_lane = {
        PLAIN: plain.step,
        GYMNAX: functools.partial(GymnaxEnvironment.step, env),
        VMAP: env.step,
    }.get(way)
    reset_lane = plain.reset if way == PLAIN else env.reset
    num_actions = env.action_space(params).n

    def start(key: jax.Array) -> Any:
        if way == BATCH:
            return env.reset_batch(key, params, lanes)[1]
        return jax.vmap(reset_lane, in_axes=(0, None))(jax.random.split(key, lanes), params)[1]

    def step(
        carry: tuple[jax.Array, Any, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, Any, jax.Array], None]:
        key, state, total = carry
        key, action_key, step_key = jax.random.split(key, 3)
        if way == BATCH:
            action = random.choose(random.uniforms(action_key, (lanes,))[0], num_actions)
            _, state, reward, *_ = env.step_batch(step_key, state, action, params)
        else:
            action = jax.random.randint(action_key, (lanes,), 0, num_actions)
            lane_keys = jax.random.split(step_key, lanes)
            stepped = jax.vmap(step_lane, in_axes=(0, 0, 0, None))(lane_keys, state, action, params)
            _, state, reward, *_ = stepped
        return (key, state, total + reward), None

    def play(key: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        start_key, key = jax.random.split(key)
        total = jnp.zeros(lanes, jnp.result_type(float))
        return jax.lax.scan(step, (key, start(start_key), total), length=steps)[0]

    return play


def measure(rows: Sequence[Row], repeats: int) -> None:
    """Time every row ``repeats`` times, one after the other in turn."""
    for seed in range(1, repeats + 1):
        for row in rows:
            began, cpu_began = time.perf_counter(), time.process_time()
            row.run(seed)
            row.seconds.append(time.perf_counter() - began)
            row.cpu_seconds.append(time.process_time() - cpu_began)


def ratio_table(rows: Sequence[Row]) -> Table:
    """Medians, and how ``rollout`` compares: how many times faster than others, how far from the floors."""
    table = Table(title="Nanoseconds per step of one lane, random policy")
    others = (PEER, *LOOPS)
    headings = ("people", "lanes", *WAYS, *(f"vs {way}" for way in others), "of free", "cpu/wall")
    table.add_column("environment", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    medians = {(id(row.case), row.way, row.lanes): row.nanoseconds(row.seconds)[0] for row in rows}
    for row in rows:
        if row.way != ROLLOUT:
            continue
        key = id(row.case)
        times = {way: medians.get((key, way, 1 if way == PEER else row.lanes)) for way in WAYS}
        ours = times[ROLLOUT]
        table.add_row(
            row.case.env_id,
            f"{row.case.people:,}",
            f"{row.lanes:,}",
            *("" if ns is None else f"{ns:,.1f}" for ns in times.values()),
            *("" if times[way] is None else f"{times[way] / ours:,.1f}x" for way in others),
            f"{ours / times[FREE]:.2f}x",
            f"{sum(row.cpu_seconds) / sum(row.seconds):.2f}",
        )
    return table


def main(config: Config) -> None:
    """Measure all rows, print them and the table of ratios."""
    compared = tuple(n for n in LANES if not config.quick or n <= 1024)
    repeats, lane_steps, peer_steps = (3, 2**18, 500) if config.quick else (7, 2**23, 5000)
    rows: list[Row] = []
    for case in cases(config.quick):
        group = [peer_row(case, peer_steps)]
        for num in sorted({*compared, *(CURVE if config.curve else ())}):
            steps = min(max(lane_steps // num, 20), 20_000)
            ways = WAYS[1:] if num in compared else (ROLLOUT, FREE, BYTES)
            group += [our_row(case, way, num, steps) for way in ways]
        measure(group, repeats)
        rows += group
        for row in group:
            print(json.dumps(row.record()), flush=True)
    if config.out is not None:
        config.out.write_text("".join(json.dumps(row.record()) + "\n" for row in rows))
    Console(file=sys.stderr, width=190).print(ratio_table(rows))


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
