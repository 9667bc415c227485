"""The command ``tune``."""

import pathlib
import sys
import time
from typing import Annotated, Literal

import jax
import tyro

from qmind_jax import runs
from qmind_jax.commands import output
from qmind_jax.commands.arguments import configure, make_people, parse_assignments, parse_space
from qmind_jax.folders import check_new, new_folder
from qmind_jax.people.ratings.fit import TrustFamily
from qmind_jax.training.checkpoint import Checkpoints
from qmind_jax.training.halving import Search, successive_halving
from qmind_jax.training.presets import preset_for
from qmind_jax.training.progress import TrainingProgress
from qmind_jax.training.search_space import check_space

DEFAULT_SPACE = ("learning_rate=log:3e-4:3e-2", "entropy_bonus=log:1e-3:0.1", "trace_decay=0.5:1")
"""What to look for if nobody says."""

_TABLE = "search.csv"


def tune(
    env_id: Annotated[str, tyro.conf.Positional],
    space: tuple[str, ...] = DEFAULT_SPACE,
    people: str | None = None,
    num_people: int = 1000,
    family: TrustFamily = "qubit",
    members: int = 16,
    rounds: int = 4,
    eta: int = 2,
    seeds: int = 4,
    seed: int = 0,
    network: Literal["mlp", "gru"] | None = None,
    steps: int | None = None,
    params: tuple[str, ...] = (),
    ppo: tuple[str, ...] = (),
    episodes: int = 2000,
    out: pathlib.Path | None = None,
) -> None:
    """Look for hyper-parameters of PPO by successive halving; save a table and the best agents as a run.

    Args:
        env_id: Environment, such as TrustHandover-v0; the command `list` shows all.
        space: Ranges of hyper-parameters, as clip=0.1:0.3, or as learning_rate=log:1e-4:1e-2 where what
            counts is the order of magnitude.
        people: Whom to train on, as for the command `train`.
        num_people: Size of a population made from ratings or from a preset.
        family: Family of trusting people.
        members: Combinations of hyper-parameters to begin with, drawn from the ranges.
        rounds: How often agents are judged, and some given up.
        eta: The best part that goes on after each round is one in so many, for so many times as long.
        seeds: Agents per combination.
        seed: Seed of everything random.
        network: Feed-forward or recurrent, as for the command `train`.
        steps: Environment steps per agent of the best combination.
        params: Parameters of the environment, as fail_cost=2.
        ppo: Other hyper-parameters of PPO, as lanes=64.
        episodes: Episodes per agent and judgement.
        out: Folder of the run; must not exist yet. By default a new one under runs/.
    """
    folder = out or new_folder("runs", env_id)
    check_new(folder)
    ranges = parse_space(space)
    population = make_people(env_id, people, num_people, family, jax.random.key(seed))
    overrides = parse_assignments("parameter", params)
    env, env_params = runs.task(env_id, population, overrides)
    preset = preset_for(env_id, len(population))
    config = configure(preset, network, steps, parse_assignments("hyper-parameter", ppo))
    check_space(ranges, config)
    output.console.print(
        f"[bold]{env_id}[/]: {members} combinations of {', '.join(ranges)}, {seeds} agents "
        f"({config.network}) each, on {len(population)} simulated people ({type(population).__name__})"
    )
    began = time.perf_counter()
    try:
        with TrainingProgress(config.num_updates) as progress:
            search = successive_halving(
                jax.random.key(seed),
                env,
                env_params,
                config,
                ranges,
                members=members,
                rounds=rounds,
                eta=eta,
                seeds=seeds,
                episodes=episodes,
                report=progress,
            )
    except KeyboardInterrupt:
        print("\nstopped; of an unfinished search nothing is kept")
        sys.exit(130)
    seconds = time.perf_counter() - began
    run = runs.create(folder, env_id, population, overrides, search.config, seeds, seed)
    path = _write_search(run, search)
    returns = runs.compare(run, search.best.policy, episodes, jax.random.key(seed + 1))
    runs.write_results(run, search.best, returns, seconds, episodes)
    output.print_search(search.table, f"{env_id}: {episodes:,} episodes per agent and judgement")
    output.print_returns(run, returns, episodes)
    output.console.print(f"searched in {seconds:.0f} s, compilation included")
    for file in (path, *(folder / name for name in ("learning_curve.png", "summary.json", "checkpoints"))):
        print(f"  {file}")


def _write_search(run: runs.Run, search: Search) -> pathlib.Path:
    """Write the table and, as a checkpoint, the best agents into the folder of a run.

    Args:
        run: The run of the best, made with the config that was found.
        search: The search.

    Returns:
        File of the table.
    """
    path = run.folder / _TABLE
    search.table.to_csv(path, index=False)
    checkpoints = Checkpoints(run.folder / "checkpoints")
    checkpoints.save(search.best.runner, search.best.metrics)
    checkpoints.close()
    return path
