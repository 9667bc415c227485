"""The commands ``train`` and ``evaluate``."""

import pathlib
import shlex
import sys
import time
from typing import Annotated, Literal

import jax
import numpy as np
import tyro
from rich.console import Console

from qmind_jax import processes, runs
from qmind_jax.commands import output
from qmind_jax.commands.arguments import CHECKPOINTS, configure, make_people, parse_assignments
from qmind_jax.folders import new_folder
from qmind_jax.people.ratings.fit import TrustFamily
from qmind_jax.training.checkpoint import train_with_checkpoints
from qmind_jax.training.presets import preset_for
from qmind_jax.training.progress import TrainingProgress
from qmind_jax.training.sharding import replicate, widest_mesh


def train(
    env_id: Annotated[str, tyro.conf.Positional],
    people: str | None = None,
    num_people: int = 1000,
    family: TrustFamily = "qubit",
    seeds: int = 5,
    seed: int = 0,
    network: Literal["mlp", "gru"] | None = None,
    steps: int | None = None,
    params: tuple[str, ...] = (),
    ppo: tuple[str, ...] = (),
    episodes: int = 20_000,
    out: pathlib.Path | None = None,
    resume: bool = False,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Train agents on simulated people; save a table, a plot, and checkpoints.

    Args:
        env_id: Environment, such as TrustHandover-v0; the command `list` shows all.
        people: Whom to train on. For trust, a file of ratings (CSV with the columns participant, trial,
            robot_correct, trust_before, trust_after), a preset such as trust_real_world_qubit (100 real
            people, who differ in how they react), or nothing for people as fitted to the same 100 who differ
            in their initial trust alone.
            For clarification, a number of people around the published one. "published" is the one person
            of the environment's source; a number N is N people of the default kind; a .npz file is a
            saved population, such as the command `fit` writes.
        num_people: Size of a population made from ratings or from a preset.
        family: Family of trusting people.
        seeds: Agents to train side by side.
        seed: Seed of everything random.
        network: Feed-forward or recurrent. By default recurrent for more than one person, as the agent must
            find out whom it has met, and otherwise what suits the environment.
        steps: Environment steps per agent.
        params: Parameters of the environment, as fail_cost=2.
        ppo: Other hyper-parameters of PPO, as learning_rate=0.001.
        episodes: Episodes per evaluation.
        out: Folder of the run; must not exist yet. By default a new one under runs/.
        resume: Go on with the interrupted run in --out, as it was made.
        coordinator: For one training by several processes, each started with this same command: host:port of
            process 0, reachable by all. --out must then name a folder that all of them share.
        num_processes: How many processes there are.
        process_id: Which of them this is, from 0.
    """
    processes.join(coordinator, num_processes, process_id)
    output.console.quiet = not processes.is_first()
    if coordinator is not None and out is None:
        raise ValueError("several processes need --out, a folder that all of them share")
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    if resume:
        if out is None:
            raise ValueError("resume needs --out, the folder of the run to go on with")
        chosen = {"people": people, "network": network, "steps": steps, "params": params, "ppo": ppo}
        for name, value in chosen.items():
            if value:
                raise ValueError(f"--resume goes on with the run as it was made; --{name} cannot change it")
        run = runs.load(out)
        if run.env_id != env_id:
            raise ValueError(f"the run in {out} is of {run.env_id}, not of {env_id}")
    elif not processes.is_first():
        processes.wait_for_all("the run has its folder")
        run = runs.load(out)
    else:
        population = make_people(env_id, people, num_people, family, jax.random.key(seed))
        preset = preset_for(env_id, len(population))
        run = runs.create(
            out or new_folder("runs", env_id),
            env_id,
            population,
            parse_assignments("parameter", params),
            configure(preset, network, steps, parse_assignments("hyper-parameter", ppo)),
            seeds,
            seed,
        )
        processes.wait_for_all("the run has its folder")
    _train(run, episodes)


def evaluate(
    run: Annotated[pathlib.Path, tyro.conf.Positional], episodes: int = 100_000, seed: int = 1
) -> None:
    """Evaluate the agents of a run again, next to untrained policies and the optimum.

    Args:
        run: Folder of the run.
        episodes: Episodes per policy.
        seed: Seed of the evaluation.
    """
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    loaded = runs.load(run)
    policy = runs.trained_policy(loaded)
    output.print_returns(loaded, runs.compare(loaded, policy, episodes, jax.random.key(seed)), episodes)


def _train(run: runs.Run, episodes: int) -> None:
    env, params, config = run.env, run.params, run.config
    output.console.print(
        f"[bold]{run.env_id}[/]: {run.seeds} agents ({config.network}), {config.total_steps:,} steps each, "
        f"on {len(params.people)} simulated people ({type(params.people).__name__})"
    )
    keys = jax.random.split(jax.random.key(run.seed), run.seeds)
    mesh = widest_mesh(run.seeds, config.lanes)
    if jax.process_count() > 1 and mesh.size < jax.device_count():
        raise ValueError(
            f"{run.seeds} seeds and {config.lanes} lanes cannot be divided evenly among the "
            f"{jax.device_count()} devices of all processes; change --seeds or --ppo lanes=..."
        )
    resume = f"python -m qmind_jax train {run.env_id} --out {shlex.quote(str(run.folder))} --resume"
    errors = Console(stderr=True, quiet=output.console.quiet)
    began = time.perf_counter()
    try:
        with (
            processes.stop_together(resume),
            TrainingProgress(config.num_updates, errors) as progress,
        ):
            result = train_with_checkpoints(
                run.folder / "checkpoints",
                keys,
                env,
                params,
                config,
                num_checkpoints=CHECKPOINTS,
                mesh=mesh if mesh.size > 1 else None,
                report=progress,
            )
            policy = jax.tree.map(np.asarray, replicate(result.policy, mesh))
        if not processes.is_first():
            return
        seconds = time.perf_counter() - began
        returns = runs.compare(run, policy, episodes, jax.random.key(run.seed + 1))
    except KeyboardInterrupt:
        print(f"\nstopped; the checkpoints so far are kept. Go on with\n  {resume}")
        sys.exit(130)
    runs.write_results(run, result, returns, seconds, episodes)
    output.print_returns(run, returns, episodes)
    output.console.print(f"trained in {seconds:.0f} s, compilation included")
    for name in ("learning_curve.png", "summary.json", "checkpoints"):
        print(f"  {run.folder / name}")
