"""People on whom a policy fails, and training that fails them less: ``python -m benchmarks.hard_people``.

First table: an agent is trained on people drawn from wide ranges of qubit trust, and the same ranges are
searched for those about whom its regret is highest, and for those with whom its return is lowest: by
evolution, and by as many random draws. What either found is judged again on fresh noise; several searches say
how much is luck. The margin is how much worse evolution did to the agent than random draws, paired by search.

Second table: agents trained on Beta people of wide ranges, some of whom hardly ever trust. Plain training,
and training that turns towards the people of the lowest return (CVaR) or of the highest regret, of several
seeds and with as many steps of the environment, those for judging people included. All are judged with the
people trained on and with new ones of the same ranges. Differences from plain training are paired by seed.

Both tasks are ``TrustHandoverRecovery-v0``. Standard output has one JSON line per row, standard error tables.
"""

import dataclasses
import json
import sys
from typing import Any, get_args

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from qmind_jax.evaluation import HardPeople, evaluate, find_hard_people, optima, regret
from qmind_jax.evaluation.hard_people import Measure
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
        seeds: Agents of each way of training, at least 2.
        searches: Searches of each kind, at least 2.
        candidates: People whom a search judges at once, at least 5.
        generations: How often it does.
        episodes: Episodes with each person for the final judgement, at least 4.
        seed: Seed of everything random.
        quick: Small searches and hardly any training: a smoke test, not a measurement.
    """

    people: int = 64
    training_steps: int = 512_000
    seeds: int = 5
    searches: int = 20
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
            ("searches", 2),
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
            self,
            people=10,
            training_steps=steps,
            seeds=2,
            searches=2,
            candidates=8,
            generations=2,
            episodes=8,
        )


@dataclasses.dataclass(frozen=True)
class Found:
    """What a kind of search finds, averaged over searches; errors are standard errors over searches.

    Attributes:
        measure: Who counts as hard, ``"regret"`` or ``"return"``; None for everybody.
        search: ``"evolution"``, ``"random"``, or ``"everybody"``: the mean over people of the ranges.
        regret: Mean regret about the hardest person, and its standard error.
        mean_return: Mean return of the policy with that person, and its standard error.
        seen: The measure as the search itself saw it, before it was judged on fresh noise.
        margin: How much higher the regret is, or how much lower the return, than what random draws found;
            paired by search, with its standard error.
    """

    measure: str | None
    search: str
    regret: tuple[float, float]
    mean_return: tuple[float, float]
    seen: float | None = None
    margin: tuple[float, float] | None = None


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
    table = Table(
        "hard by", "search", "regret", "return", "seen by the search", "margin", title="who is hardest"
    )
    for row in found:
        print(json.dumps(dataclasses.asdict(row)), flush=True)
        table.add_row(
            row.measure or "",
            row.search,
            _text(*row.regret),
            _text(*row.mean_return),
            "" if row.seen is None else f"{row.seen:.2f}",
            "" if row.margin is None else _text(*row.margin),
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
    """One agent, searched for its hardest people in every way, by every measure."""
    key_people, key_train, key_judge, key_search = jax.random.split(jax.random.key(config.seed), 4)
    env, params = make(ENV_ID, people=_draw(QUBITS, key_people, config.people))
    ppo = _ppo(config.training_steps)
    policy, env = train(key_train, env, params, ppo).policy, ppo.wrap(env)
    options = {
        "number": 4,
        "candidates": config.candidates,
        "generations": config.generations,
        "judging_episodes": 32 * config.episodes,
    }
    rows = []
    for measure in get_args(Measure):
        evolved, drawn = (
            [
                find_hard_people(policy, env, params, QUBITS, key, search=search, measure=measure, **options)
                for key in jax.random.split(key_search, config.searches)
            ]
            for search in ("evolution", "random")
        )
        rows.append(_found(measure, "evolution", evolved, margin=_margin(measure, evolved, drawn)))
        rows.append(_found(measure, "random", drawn))
    returns = evaluate(policy, env, params, key_judge, config.people * config.episodes, balanced=True)
    means = (
        (float(of_people.mean_over_people), float(of_people.standard_error_over_people))
        for of_people in (regret(returns, optima(params)).by_person, returns.by_person)
    )
    rows.append(Found(None, "everybody", *means))
    return rows


def _found(
    measure: str, search: str, found: list[HardPeople], margin: tuple[float, float] | None = None
) -> Found:
    """The hardest person of each search, averaged."""
    return Found(
        measure,
        search,
        _mean([each.regret[0] for each in found]),
        _mean([each.mean_return[0] for each in found]),
        seen=float(np.mean([each.found[0] for each in found])),
        margin=margin,
    )


def _margin(measure: str, evolved: list[HardPeople], drawn: list[HardPeople]) -> tuple[float, float]:
    """How much harder the hardest person of evolution is than that of as many random draws."""
    if measure == "regret":
        return _mean([one.regret[0] - other.regret[0] for one, other in zip(evolved, drawn, strict=True)])
    return _mean(
        [other.mean_return[0] - one.mean_return[0] for one, other in zip(evolved, drawn, strict=True)]
    )


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
