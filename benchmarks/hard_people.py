"""People on whom a policy fails, and training that fails them less: ``python -m benchmarks.hard_people``.

First table: an agent is trained on people drawn from wide ranges of qubit trust, and the same ranges are
searched for those about whom its regret is highest: by evolution, and by as many random draws. What either
found is judged again on fresh noise; several searches say how much is luck.

Second table: agents trained on Beta people of wide ranges, some of whom hardly ever trust. Plain training,
and training that turns towards the people of the lowest return (CVaR) or of the highest regret, of several
seeds and with as many steps of the environment, those for judging people included. All are judged with the
people trained on and with new ones of the same ranges. Differences from plain training are paired by seed.

Both tasks are ``TrustHandoverRecovery-v0``. Standard output has one JSON line per row, standard error tables.
"""

import dataclasses
import json
import sys
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from qmind_jax.evaluation import evaluate, find_hard_people, optima, regret
from qmind_jax.people import BetaTrust, PeopleWithin, TrustQubit
from qmind_jax.policies import Policy
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train, train_against_hard_people
from qmind_jax.training.presets import PEOPLE_PRESET

ENV_ID = "TrustHandoverRecovery-v0"
QUBITS = PeopleWithin(
    TrustQubit, {"phi0": (0.3, 2.6), "a_pos": (0.4, 1.2), "a_neg": (0.8, 1.6), "gamma": (0.1, 0.5)}
)
COUNTERS = PeopleWithin(BetaTrust, {"p0": (0.1, 0.9), "n0": (1.0, 4.0), "w_s": (0.1, 0.8), "w_f": (0.2, 1.6)})


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        people: People to train on, and as many new ones to judge on, at least 10.
        training_steps: Steps of each agent of the second table, judging not included.
        seeds: Agents of each way of training, and searches of each kind, at least 2.
        candidates: People whom a search judges at once, at least 5.
        generations: How often it does.
        episodes: Episodes with each person for the final judgement, at least 4.
        seed: Seed of everything random.
        quick: Small searches and hardly any training: a smoke test, not a measurement.
    """

    people: int = 64
    training_steps: int = 512_000
    seeds: int = 5
    candidates: int = 32
    generations: int = 20
    episodes: int = 256
    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        _ppo(self.training_steps)
        for name, least in (
            ("people", 10),
            ("seeds", 2),
            ("candidates", 5),
            ("generations", 1),
            ("episodes", 4),
        ):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")

    @property
    def sized(self) -> "Config":
        """These options, small if a quick run is asked for."""
        if not self.quick:
            return self
        steps = 10 * PEOPLE_PRESET.steps_per_update
        return dataclasses.replace(
            self, people=10, training_steps=steps, seeds=2, candidates=8, generations=2, episodes=8
        )


@dataclasses.dataclass(frozen=True)
class Found:
    """What a kind of search finds, averaged over searches; errors are standard errors over searches.

    Attributes:
        search: ``"evolution"``, ``"random"``, or ``"everybody"``: the mean over people of the ranges.
        regret: Mean regret about the person on whom the policy fails most.
        regret_error: Its standard error.
        mean_return: Mean return of the policy with that person.
        mean_return_error: Its standard error.
        seen: Regret that the search itself saw, before it was judged on fresh noise.
    """

    search: str
    regret: float
    regret_error: float
    mean_return: float
    mean_return_error: float
    seen: float | None


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a way of training achieves, averaged over seeds; pairs of a number and its standard error.

    Attributes:
        training: Which.
        people: ``"trained on"`` or ``"new"``.
        mean: Mean return over people.
        worst_tenth: Mean return over the people for whom the agent does worst.
        gain: Worst tenth less that of plain training, paired by seed.
        worst_regret: Mean regret over the people of the highest regret.
    """

    training: str
    people: str
    mean: tuple[float, float]
    worst_tenth: tuple[float, float]
    gain: tuple[float, float]
    worst_regret: tuple[float, float]


def main(config: Config) -> None:
    """Print both tables."""
    console = Console(file=sys.stderr, width=120)
    found = searches(config.sized)
    table = Table("search", "regret", "return", "regret seen by the search", title="who is hardest")
    for row in found:
        print(json.dumps(dataclasses.asdict(row)), flush=True)
        seen = "" if row.seen is None else f"{row.seen:.2f}"
        table.add_row(
            row.search,
            _text(row.regret, row.regret_error),
            _text(row.mean_return, row.mean_return_error),
            seen,
        )
    console.print(table)
    table = Table(
        "training", "people", "mean", "worst tenth", "less plain", "worst regret", title="training for them"
    )
    for row in trainings(config.sized):
        print(json.dumps(dataclasses.asdict(row)), flush=True)
        pairs = (row.mean, row.worst_tenth, row.gain, row.worst_regret)
        table.add_row(row.training, row.people, *(_text(*pair) for pair in pairs))
    console.print(table)


def searches(config: Config) -> list[Found]:
    """One agent, searched for its hardest people in every way."""
    key_people, key_train, key_judge, key_search = jax.random.split(jax.random.key(config.seed), 4)
    env, params = make(ENV_ID, people=_draw(QUBITS, key_people, config.people))
    ppo = _ppo(config.training_steps)
    policy, env = train(key_train, env, params, ppo).policy, ppo.wrap(env)
    rows = []
    for search in ("evolution", "random"):
        found = [
            find_hard_people(
                policy,
                env,
                params,
                QUBITS,
                key,
                number=4,
                candidates=config.candidates,
                generations=config.generations,
                judging_episodes=32 * config.episodes,
                search=search,
            )
            for key in jax.random.split(key_search, config.seeds)
        ]
        judged, earned = (
            _mean([getattr(each, name)[0] for each in found]) for name in ("regret", "mean_return")
        )
        rows.append(Found(search, *judged, *earned, seen=float(np.mean([each.found[0] for each in found]))))
    returns = evaluate(policy, env, params, key_judge, config.people * config.episodes, balanced=True)
    everybody = regret(returns, optima(params)).by_person
    of_people = returns.by_person
    rows.append(
        Found(
            "everybody",
            float(everybody.mean_over_people),
            float(everybody.standard_error_over_people),
            float(of_people.mean_over_people),
            float(of_people.standard_error_over_people),
            seen=None,
        )
    )
    return rows


def trainings(config: Config) -> list[Trained]:
    """Agents trained in every way, judged with everybody."""
    key_known, key_new, key_train, key_judge = jax.random.split(jax.random.key(config.seed + 1), 4)
    env, params = make(ENV_ID, people=_draw(COUNTERS, key_known, config.people))
    new = params.replace(people=_draw(COUNTERS, key_new, config.people))
    keys, ppo = jax.random.split(key_train, config.seeds), _ppo(config.training_steps)
    turned = {
        "towards the lowest return": train_against_hard_people(keys, env, params, ppo),
        "towards the highest regret": train_against_hard_people(
            keys, env, params, ppo, optimum=optima(params)
        ),
    }
    # As many steps as any agent of the others had, for training and judging.
    steps = max(int(np.max(result.steps)) for result in turned.values())
    agents = {
        "plain": train(keys, env, params, _ppo(steps)).policy,
        **{name: result.policy for name, result in turned.items()},
    }
    rows = []
    for name, judged_on in (("trained on", params), ("new", new)):
        best = optima(judged_on)
        plain = None
        for training, policies in agents.items():
            each = [jax.tree.map(lambda leaf, i=i: leaf[i], policies) for i in range(config.seeds)]
            scores = np.array([_scores(policy, judged_on, best, key_judge, config) for policy in each])
            plain = scores[:, 1] if plain is None else plain
            rows.append(
                Trained(
                    training,
                    name,
                    mean=_mean(scores[:, 0]),
                    worst_tenth=_mean(scores[:, 1]),
                    gain=_mean(scores[:, 1] - plain),
                    worst_regret=_mean(scores[:, 2]),
                )
            )
    return rows


def _scores(policy: Policy, params: Any, best: jax.Array, key: jax.Array, config: Config) -> list[float]:
    """Mean return, worst tenth of returns and worst tenth of regrets."""
    env = _ppo(config.training_steps).wrap(make(ENV_ID)[0])
    returns = evaluate(policy, env, params, key, config.people * config.episodes, balanced=True)
    worst = returns.worst_people(), regret(returns, best).worst_people()
    return [float(returns.mean), *(float(each.mean) for each in worst)]


def _draw(region: PeopleWithin, key: jax.Array, people: int) -> Any:
    return region.people(jax.random.uniform(key, (people, region.dimension)))


def _mean(values: Any) -> tuple[float, float]:
    """Mean and standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def _text(mean: float, error: float) -> str:
    return f"{mean:.2f} ± {error:.2f}"


def _ppo(steps: int) -> PPOConfig:
    return dataclasses.replace(PEOPLE_PRESET, total_steps=steps)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
