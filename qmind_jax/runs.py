"""Run folders: everything needed to evaluate, resume and plot a training run."""

import dataclasses
import json
import pathlib
import platform
from typing import Any

import jax
import numpy as np

import qmind_jax
from qmind_jax.environment import Environment
from qmind_jax.envs.trust_handover import TrustHandover
from qmind_jax.evaluation.mean_optimum import best_possible
from qmind_jax.evaluation.returns import MeanReturn, evaluate
from qmind_jax.names import unknown
from qmind_jax.people.population import Person, as_population
from qmind_jax.people.ratings.fit import TrustFamily, trust_population
from qmind_jax.people.ratings.presets import PEOPLE_PRESETS, preset_people
from qmind_jax.people.ratings.trials import TrustTrials
from qmind_jax.people.storage import load_people, save_people
from qmind_jax.people.variation import vary_states
from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.policies.scripted import yardsticks
from qmind_jax.registry import make
from qmind_jax.training.checkpoint import Checkpoints
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.ppo import Metrics, Runner, TrainResult, advance, policy_of, start

VERSION = 1
BEST_POSSIBLE = "best possible, knowing the person"
"""Name of the optimum among the returns of a run."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run folder says.

    Attributes:
        folder: The folder.
        env_id: Environment id.
        env: The environment.
        params: Its parameters, with the population trained on.
        config: Hyper-parameters.
        seeds: Number of agents.
        seed: Seed of everything random.
    """

    folder: pathlib.Path
    env_id: str
    env: Environment
    params: Any
    config: PPOConfig
    seeds: int
    seed: int


def task(env_id: str, people: Person, overrides: dict[str, Any]) -> tuple[Environment, Any]:
    """The environment and the parameters that a run is about.

    Raises:
        ValueError: If the overrides make no sense, or name people.
    """
    if "people" in overrides:
        raise ValueError("people are chosen with --people, not with --params")
    return make(env_id, people=people, **overrides)


def create(
    folder: pathlib.Path,
    env_id: str,
    people: Person,
    overrides: dict[str, Any],
    config: PPOConfig,
    seeds: int,
    seed: int,
) -> Run:
    """Make the folder of a new run.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If the arguments make no sense.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    env, params = task(env_id, people, overrides)
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise FileExistsError(
            f"{folder} exists already; choose another --out, or add --resume to go on with that run"
        ) from error
    save_people(folder / "people.npz", params.people)
    description = {
        "version": VERSION,
        "qmind_jax": qmind_jax.__version__,
        "env_id": env_id,
        "params": overrides,
        "config": dataclasses.asdict(config),
        "seeds": seeds,
        "seed": seed,
    }
    (folder / "run.json").write_text(json.dumps(description, indent=2) + "\n")
    return Run(folder, env_id, env, params, config, seeds, seed)


def load(folder: pathlib.Path) -> Run:
    """Read the folder of a run.

    Raises:
        FileNotFoundError: If there is no run in the folder.
        ValueError: If it is of a version that this package does not know.
    """
    path = folder / "run.json"
    if not path.is_file():
        raise FileNotFoundError(f"no run in {folder}: {path} is missing")
    try:
        described = json.loads(path.read_text())
        version = described["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no description of a run") from error
    if version != VERSION:
        raise ValueError(f"{path} has version {version}; this package reads {VERSION}")
    people = load_people(folder / "people.npz")
    env, params = make(described["env_id"], people=people, **described["params"])
    config = PPOConfig(**described["config"])
    return Run(folder, described["env_id"], env, params, config, described["seeds"], described["seed"])


def population(
    env_id: str,
    people: str | None,
    num_people: int,
    family: TrustFamily,
    key: jax.Array,
    trials: TrustTrials | None = None,
) -> Person:
    """The population that a short description asks for.

    Args:
        env_id: Environment id.
        people: ``"published"``, a number, one of :data:`PEOPLE_PRESETS`, a ``.npz`` file of
            :func:`save_people`, None for the default, or (with ``trials``) the name of a file of ratings.
        num_people: Size of the population where ``people`` names none.
        family: Family of trusting people.
        key: JAX random key.
        trials: Trust ratings to fit the people to.

    Raises:
        ValueError: If the description is not understood.
    """
    env, params = make(env_id)
    trusting = isinstance(env, TrustHandover)
    if people == "published" or (people is None and not trusting):
        return params.people
    if people is not None and people.endswith(".npz"):
        return as_population(load_people(people))
    if trials is not None and not trusting:
        raise ValueError(f"ratings of trust do not say how people answer; {env_id} needs other people")
    if people in PEOPLE_PRESETS:
        if not trusting:
            raise ValueError(f"{people} does not say how people answer; {env_id} needs other people")
        return preset_people(people, key, num_people)
    if people is not None and trials is None:
        if not people.isdigit() or int(people) < 1:
            raise ValueError(
                f"people must be a number, 'published', a preset, or a file ending in .csv or .npz; "
                f"{unknown('preset', people, PEOPLE_PRESETS)}"
            )
        num_people = int(people)
    if trusting:
        return trust_population(key, num_people, family, trials)
    return vary_states(key, params.people[0], num_people)


def trained_policy(run: Run) -> LearnedPolicy:
    """The policies of the newest checkpoint, one per seed.

    Raises:
        FileNotFoundError: If the run has no checkpoint yet.
    """
    checkpoints = Checkpoints(run.folder / "checkpoints")
    try:
        done = checkpoints.latest or 0
        keys = jax.random.split(jax.random.key(run.seed), run.seeds)

        def whole_training() -> tuple[Runner, Metrics]:
            runner = start(keys, run.env, run.params, run.config)
            return advance(runner, run.env, run.params, run.config, num_updates=done)

        runner, _ = checkpoints.restore(jax.eval_shape(whole_training))
    finally:
        checkpoints.close()
    return policy_of(runner, run.env, run.params, run.config)


def compare(run: Run, policy: LearnedPolicy, episodes: int, key: jax.Array) -> dict[str, MeanReturn]:
    """Mean returns of the trained agents and of the untrained policies under the same noise, and the optimum.

    Args:
        run: The run.
        policy: The trained policies, with a leading axis of seeds.
        episodes: Episodes per policy.
        key: JAX random key.
    """
    wrapped = run.config.wrap(run.env)
    trained = jax.vmap(lambda p: evaluate(p, wrapped, run.params, key, episodes))(policy)
    returns = {
        f"trained, seed {i}": MeanReturn(float(mean), float(error))
        for i, (mean, error) in enumerate(zip(trained.mean, trained.standard_error, strict=True))
    }
    num_actions = run.env.action_space(run.params).n
    for name, untrained in yardsticks(run.params, num_actions).items():
        result = evaluate(untrained, run.env, run.params, key, episodes)
        returns[name] = MeanReturn(float(result.mean), float(result.standard_error))
    if (best := best_possible(run.params)) is not None:
        returns[BEST_POSSIBLE] = best
    return returns


def write_results(
    run: Run,
    result: TrainResult,
    returns: dict[str, MeanReturn],
    seconds: float,
    episodes: int,
) -> None:
    """Write ``summary.json``, ``metrics.npz`` and ``learning_curve.png`` into the folder of a run."""
    from qmind_jax.plots import learning_curve
    from qmind_jax.plots.files import headless_pyplot

    pyplot = headless_pyplot()

    np.savez(run.folder / "metrics.npz", **{name: np.asarray(m) for name, m in result.metrics.items()})
    summary = {
        "env_id": run.env_id,
        "people": {"family": type(run.params.people).__name__, "number": len(run.params.people)},
        "returns": {name: value._asdict() for name, value in returns.items()},
        "episodes_per_policy": episodes,
        "training_seconds": round(seconds, 1),
        "steps_per_agent": run.config.num_updates * run.config.steps_per_update,
        "agents": run.seeds,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
    }
    (run.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")

    references = {name: value.mean for name, value in returns.items() if not name.startswith("trained")}
    best = sorted(references, key=references.get, reverse=True)[:4]
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    learning_curve(
        axes,
        np.asarray(result.metrics["return"]),
        run.config.steps_per_update,
        {name: references[name] for name in best},
        smooth=max(1, run.config.num_updates // 25),
    )
    axes.set_title(f"{run.env_id}: learning on {len(run.params.people)} simulated people")
    figure.savefig(run.folder / "learning_curve.png", dpi=150)
    pyplot.close(figure)
