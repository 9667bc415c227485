"""The commands behind ``python -m qmind_jax``."""

import dataclasses
import os
import pathlib
import shlex
import sys
import time
from typing import Annotated, Any, Literal

import jax
import numpy as np
import pandas as pd
import tyro
from rich.console import Console
from rich.table import Table

from qmind_jax import fits, processes, runs, sweeps, tuning
from qmind_jax.folders import new_folder
from qmind_jax.names import unknown
from qmind_jax.people.fitting.comparison import Comparison, Criterion
from qmind_jax.people.ratings.comparison import FIRST_RATING, LAST_RATING
from qmind_jax.people.ratings.fit import TrustFamily, held_out_errors
from qmind_jax.people.ratings.trials import TrustTrials, load_trust_trials
from qmind_jax.registry import REGISTRY
from qmind_jax.sweep_specs import load_spec
from qmind_jax.training.checkpoint import train_with_checkpoints
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.halving import successive_halving
from qmind_jax.training.presets import PEOPLE_PRESET, PRESETS
from qmind_jax.training.progress import TrainingProgress
from qmind_jax.training.search_space import check_space
from qmind_jax.training.sharding import replicate, widest_mesh

console = Console()

_CHECKPOINTS = 10
_ROWS = 48


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
    console.quiet = not processes.is_first()
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
        preset = PRESETS[env_id] if len(population) == 1 else PEOPLE_PRESET
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
    """Evaluate the agents of a run again, next to the untrained policies.

    Args:
        run: Folder of the run.
        episodes: Episodes per policy.
        seed: Seed of the evaluation.
    """
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    loaded = runs.load(run)
    policy = runs.trained_policy(loaded)
    _print_returns(loaded, runs.compare(loaded, policy, episodes, jax.random.key(seed)), episodes)


def fit(
    kind: Annotated[Literal["trust", "order"], tyro.conf.Positional],
    file: Annotated[pathlib.Path, tyro.conf.Positional],
    num_people: int = 1000,
    criterion: Criterion = "bic",
    seed: int = 0,
    out: pathlib.Path | None = None,
) -> None:
    """Fit people to data; save tables, people to train on, and a plot.

    Args:
        kind: What the file holds: trust for ratings of trust over time (CSV with the columns participant,
            trial, robot_correct, trust_before, trust_after), order for counts of two yes/no questions asked
            in both orders (JSON {"AB": [yes-yes, yes-no, no-yes, no-no], "BA": [...]}).
        file: The data.
        num_people: People to draw of each family fitted to ratings.
        criterion: What the order families are compared by.
        seed: Seed of everything random.
        out: Folder of the fit; must not exist yet. By default a new one under fits/.
    """
    if num_people < 1:
        raise ValueError(f"num-people must be at least 1, got {num_people}")
    folder = out or new_folder("fits", kind)
    fits.check_new(folder)
    key = jax.random.key(seed)
    if kind == "trust":
        fitted = fits.fit_trust(file)
        files = fits.write_trust(folder, file, fitted, num_people, key)
        _print_trust(file, fitted, num_people)
    else:
        comparison = fits.fit_order(file, criterion, key)
        files = fits.write_order(folder, file, comparison)
        _print_order(file, comparison)
    for path in files:
        print(f"  {path}")


def sweep(
    spec: Annotated[pathlib.Path, tyro.conf.Positional],
    out: pathlib.Path | None = None,
    resume: bool = False,
) -> None:
    """Evaluate policies over a grid of people and costs; save a table and a heat map.

    Args:
        spec: File in TOML or JSON: environment, axes (lists of numbers, or from, to and number), policies
            (names as in the tables of the command train); and if wanted episodes, seed, optimum (true: the
            regret too), params, people, num_people, family.
        out: Folder of the sweep; must not exist yet. By default a new one under sweeps/.
        resume: Go on with the interrupted sweep in --out.
    """
    if resume and out is None:
        raise ValueError("resume needs --out, the folder of the sweep to go on with")
    described = load_spec(spec)
    folder = out or new_folder("sweeps", described.environment)
    try:
        table = sweeps.run(spec, described, folder, resume=resume)
    except KeyboardInterrupt:
        command = f"sweep {shlex.quote(str(spec))} --out {shlex.quote(str(folder))} --resume"
        advice = f"; what is done is kept. Go on with\n  python -m qmind_jax {command}"
        print(f"\nstopped{advice if folder.exists() else ' before anything was done'}")
        sys.exit(130)
    _print_sweep(table, f"{described.environment}: {described.episodes:,} episodes per row")
    for path in sweeps.files_in(folder):
        print(f"  {path}")


def tune(
    env_id: Annotated[str, tyro.conf.Positional],
    space: tuple[str, ...] = tuning.DEFAULT_SPACE,
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
    fits.check_new(folder)
    ranges = tuning.parse_space(space)
    population = make_people(env_id, people, num_people, family, jax.random.key(seed))
    overrides = parse_assignments("parameter", params)
    env, env_params = runs.task(env_id, population, overrides)
    preset = PRESETS[env_id] if len(population) == 1 else PEOPLE_PRESET
    config = configure(preset, network, steps, parse_assignments("hyper-parameter", ppo))
    check_space(ranges, config)
    console.print(
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
    path = tuning.write_search(run, search)
    returns = runs.compare(run, search.best.policy, episodes, jax.random.key(seed + 1))
    runs.write_results(run, search.best, returns, seconds, episodes)
    _print_search(search.table, f"{env_id}: {episodes:,} episodes per agent and judgement")
    _print_returns(run, returns, episodes)
    console.print(f"searched in {seconds:.0f} s, compilation included")
    for file in (path, *(folder / name for name in ("learning_curve.png", "summary.json", "checkpoints"))):
        print(f"  {file}")


def list_environments() -> None:
    """List the environments."""
    table = Table("environment", "what it is", title="qmind_jax environments")
    for env_id, registration in REGISTRY.items():
        table.add_row(env_id, registration.summary)
    console.print(table)


def make_people(env_id: str, people: str | None, num_people: int, family: TrustFamily, key: jax.Array) -> Any:
    """The population that the command line asks for; see :func:`train`."""
    trials = _load_ratings(people) if people is not None and people.endswith(".csv") else None
    return runs.population(env_id, people, num_people, family, key, trials)


def configure(
    preset: PPOConfig, network: str | None, steps: int | None, changes: dict[str, Any]
) -> PPOConfig:
    """A preset with some values changed.

    Raises:
        ValueError: For an unknown hyper-parameter, or a value that makes no sense.
    """
    known = [field.name for field in dataclasses.fields(PPOConfig)]
    for name in changes:
        if name not in known:
            raise ValueError(unknown("hyper-parameter", name, known))
    if network is not None:
        changes["network"] = network
    if steps is not None:
        changes["total_steps"] = steps
    config = dataclasses.replace(preset, **changes)
    if config.num_updates <= _CHECKPOINTS:
        return config
    # A whole number of updates between checkpoints, so that one compilation serves all parts.
    updates = config.num_updates // _CHECKPOINTS * _CHECKPOINTS
    return dataclasses.replace(config, total_steps=updates * config.steps_per_update)


def parse_assignments(kind: str, assignments: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` texts as a dictionary; values are numbers, true, false, or words.

    Raises:
        ValueError: If a text is no assignment.
    """
    words = {"true": True, "false": False}
    parsed: dict[str, Any] = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise ValueError(f"a {kind} must be written name=value, got {text!r}")
        if value.lower() in words:
            parsed[name] = words[value.lower()]
            continue
        try:
            parsed[name] = int(value)
        except ValueError:
            try:
                parsed[name] = float(value)
            except ValueError:
                parsed[name] = value
    return parsed


def main() -> None:
    """Run the command line; a mistake of the user ends in one clear line, not in a traceback."""
    _keep_compilations()
    commands = {
        "fit": fit,
        "train": train,
        "tune": tune,
        "evaluate": evaluate,
        "sweep": sweep,
        "list": list_environments,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m qmind_jax")
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _keep_compilations() -> None:
    """Let JAX find again what it has compiled in an earlier run, unless the user has chosen a folder."""
    if jax.config.jax_compilation_cache_dir is None:
        root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(root) / "qmind_jax"))


def _load_ratings(path: str) -> TrustTrials:
    trials = load_trust_trials(path)
    print(f"How well each family predicts people in {path}")
    table = Table("model", "held-out error")
    for name, error in sorted(held_out_errors(trials).items(), key=lambda item: item[1]):
        table.add_row(name, f"{error:.4f}")
    console.print(table)
    console.print(
        "Root mean squared error of trust, from the first rating and the robot's outcomes alone, "
        "fitted to every second participant and judged on the others.\n"
    )
    return trials


def _print_trust(file: pathlib.Path, fitted: fits.TrustFits, num_people: int) -> None:
    comparison = fitted.comparison
    print(f"How well each family predicts people in {file} whom it was not fitted to")
    columns = [f"{known}\n{part}" for known in ("1st known", "so far") for part in ("all", "3rd on")]
    table = Table("model", *columns)
    rows = {family: (family, family) for family in fitted.fits} | {"no model": (FIRST_RATING, LAST_RATING)}
    for label, (shared, personal) in rows.items():
        predictions = comparison.population[shared], comparison.personal[personal]
        errors = [comparison.error(values, first) for values in predictions for first in (1, fits.THIRD)]
        table.add_row(label, *(f"{error:.4f}" if error == error else "-" for error in errors))
    console.print(table)
    console.print(
        "Root mean squared error of trust, of all ratings and of each person's from the third on; fitted to "
        "every second participant and judged on the others. '1st known': from the first rating and the "
        "robot's outcomes alone. 'so far': every rating updates the estimate of the person. 'no model': as "
        "the first rating, as the last one.\n"
    )
    print("How people differ: the middle 90 % of people in each parameter")
    table = Table("family", "parameter", "5 %", "median", "95 %")
    for family, fit in fitted.fits.items():
        people = fit.people(jax.random.key(0), 10_000)
        for i, name in enumerate(fit.prior.names):
            quantiles = np.quantile(getattr(people, name), (0.05, 0.5, 0.95))
            table.add_row("" if i else family, name, *(f"{value:.3f}" for value in quantiles))
    console.print(table)
    evidence = ", ".join(f"{family} {fit.log_evidence:.1f}" for family, fit in fitted.fits.items())
    console.print(f"Log evidence, higher is better: {evidence}.")
    console.print(f"{num_people:,} people of each family, to train on with --people, in:")


def _print_order(file: pathlib.Path, comparison: Comparison) -> None:
    print(f"How well each family explains {file}")
    caption = f"k: fitted parameters; weight: share of belief by {comparison.criterion.upper()}"
    table = Table("family", "log lik.", "k", "AIC", "BIC", "weight", caption=caption)
    for fitted, weight in zip(comparison.fits, comparison.weights, strict=True):
        scores = f"{fitted.loglik:.2f}", f"{fitted.k}", f"{fitted.aic:.2f}", f"{fitted.bic:.2f}"
        table.add_row(fitted.name, *scores, f"{weight:.3f}")
    console.print(table)
    print(comparison.best.summary())


def _print_sweep(table: pd.DataFrame, title: str) -> None:
    axes = sweeps.axes_of(table)
    scores = {"return ± s.e.": ("mean_return", "standard_error")}
    if "regret" in table:
        scores["regret ± s.e."] = ("regret", "regret_standard_error")
    caption = f"the first {_ROWS} of {len(table):,} rows" if len(table) > _ROWS else None
    shown = Table(*axes, "policy", title=title, caption=caption)
    for heading in scores:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in table.head(_ROWS).to_dict("records"):
        numbers = (f"{row[score]:.3f} ± {row[error]:.3f}" for score, error in scores.values())
        shown.add_row(*(f"{row[name]:g}" for name in axes), row["policy"], *numbers)
    console.print(shown)


def _print_search(table: pd.DataFrame, title: str) -> None:
    names = tuning.hyper_parameters_in(table)
    caption = f"the first {_ROWS} of {len(table):,} rows" if len(table) > _ROWS else None
    shown = Table(*names, "round", "steps", title=title, caption=caption)
    shown.add_column("return ± s.e.", justify="right", no_wrap=True)
    for row in table.head(_ROWS).to_dict("records"):
        values = (f"{row[name]:.3g}" for name in names)
        score = f"{row['mean_return']:.3f} ± {row['standard_error']:.3f}"
        shown.add_row(*values, f"{row['round']}", f"{row['steps']:,}", score)
    console.print(shown)


def _train(run: runs.Run, episodes: int) -> None:
    env, params, config = run.env, run.params, run.config
    console.print(
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
    began = time.perf_counter()
    try:
        with (
            processes.stop_together(resume),
            TrainingProgress(config.num_updates, Console(stderr=True, quiet=console.quiet)) as progress,
        ):
            result = train_with_checkpoints(
                run.folder / "checkpoints",
                keys,
                env,
                params,
                config,
                num_checkpoints=_CHECKPOINTS,
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
    _print_returns(run, returns, episodes)
    console.print(f"trained in {seconds:.0f} s, compilation included")
    for name in ("learning_curve.png", "summary.json", "checkpoints"):
        print(f"  {run.folder / name}")


def _print_returns(run: runs.Run, returns: dict[str, runs.MeanReturn], episodes: int) -> None:
    console.print(f"\n[bold]{run.env_id}[/]: mean return per episode")
    table = Table("policy", "return", "± s.e.", caption=f"{episodes:,} episodes per policy")
    for name, (mean, error) in sorted(returns.items(), key=lambda item: -item[1].mean):
        style = "bold" if name.startswith("trained") else None
        table.add_row(name, f"{mean:.3f}", f"{error:.3f}", style=style)
    console.print(table)
