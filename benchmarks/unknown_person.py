"""What can be earned with somebody unknown: ``python -m benchmarks.unknown_person``.

One of a few people is met, and nobody says which. Two bounds are known exactly: the best plan that is made
for one of them and used with all (it knows the population and learns nothing of the person), and the best
policy of somebody who is told the person. Between them lies the Bayes-adaptive optimum, the most that anybody
can earn who has to find out. The planner that filters its belief about the person, and a recurrent agent that
learned from playing alone, are judged against these three on short horizons, where all can be computed.

Standard output has one JSON line per row, standard error a table.
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from qmind_jax.environment import Environment
from qmind_jax.evaluation import evaluate
from qmind_jax.people import handover_population, hard_domain, stack
from qmind_jax.policies import Policy, QuestionLookahead, TrustLookahead
from qmind_jax.policies.optimal import (
    UnknownPersonOptimum,
    clarification_unknown_person,
    handover_unknown_person,
)
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train
from qmind_jax.training.presets import PEOPLE_PRESET

_DOUBLE = {"f": float, "c": complex}
"""Types of double precision by kind of number; others stay as they are."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        people: People of each task who are all equally likely, at least 2.
        hand_overs: Steps of an episode of hand-over, at least 2.
        questions: Questions after which clarification ends, at least 2.
        training_steps: Steps of each agent; at least those of one update.
        agents: Agents of each task, at least 2: the standard error is one of new agents.
        episodes: Episodes that judge the planner, and each agent; at least 2.
        seed: Seed of everything random.
        quick: Hardly any training and few episodes: a smoke test, not a measurement.
    """

    people: int = 4
    hand_overs: int = 6
    questions: int = 4
    training_steps: int = 1_024_000
    agents: int = 4
    episodes: int = 200_000
    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        _ppo(self.training_steps)
        for name in ("people", "hand_overs", "questions", "agents", "episodes"):
            value = getattr(self, name)
            if value < 2:
                raise ValueError(f"{name} must be at least 2, got {value}")

    @property
    def sized(self) -> "Config":
        """These options, small if a quick run is asked for."""
        if not self.quick:
            return self
        steps = 2 * PEOPLE_PRESET.steps_per_update
        return dataclasses.replace(self, training_steps=steps, agents=2, episodes=20_000, hand_overs=4)


@dataclasses.dataclass(frozen=True)
class Row:
    """What somebody earns.

    Attributes:
        task: Which task.
        who: Who earns it.
        value: Expected return.
        standard_error: Of episodes for the planner, of new agents for the agent; None if exact.
        short: How much less that is than the Bayes-adaptive optimum; negative above it.
    """

    task: str
    who: str
    value: float
    standard_error: float | None
    short: float


def main(config: Config) -> None:
    """Print the comparison."""
    rows = unknown_person(config.sized)
    for row in rows:
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    table = Table("task", "who", "return", "short of the optimum", title="with somebody unknown")
    for row in rows:
        error = "exact" if row.standard_error is None else f"± {row.standard_error:.4f}"
        table.add_row(row.task, row.who, f"{row.value:.4f} {error}", f"{row.short:.4f}")
    Console(file=sys.stderr, width=110).print(table)


def unknown_person(config: Config) -> list[Row]:
    """All rows of both tasks, from the lower bound to the upper one."""
    people = handover_population(jax.random.key(config.seed), config.people)
    env, params = make("TrustHandoverRecovery-v0", people=people, n_steps=config.hand_overs)
    bounds = _exact(handover_unknown_person, params)
    rows = _rows("hand-over", env, params, TrustLookahead.for_params(params), bounds, config)
    domains = stack([hard_domain(config.seed + number) for number in range(config.people)])
    env, params = make("Clarification-v0", people=domains, ask_cost=0.1, max_questions=config.questions)
    bounds = _exact(clarification_unknown_person, params)
    return rows + _rows("clarification", env, params, QuestionLookahead.for_params(params), bounds, config)


def _rows(
    task: str,
    env: Environment,
    params: Any,
    planner: Policy,
    bounds: UnknownPersonOptimum,
    config: Config,
) -> list[Row]:
    key_judge, key_train = jax.random.split(jax.random.key(config.seed + 1))
    ppo = _ppo(config.training_steps)
    agents = train(jax.random.split(key_train, config.agents), env, params, ppo).policy
    means = [
        float(
            evaluate(
                jax.tree.map(lambda leaf, i=i: leaf[i], agents),
                ppo.wrap(env),
                params,
                key_judge,
                config.episodes,
                balanced=True,
            ).mean
        )
        for i in range(config.agents)
    ]
    planned = evaluate(planner, env, params, key_judge, config.episodes, balanced=True)
    best = float(bounds.value)
    found = [
        ("best single plan", float(bounds.best_single_plan), None),
        ("recurrent agent", float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(len(means)))),
        ("belief-filtering planner", float(planned.mean), float(planned.standard_error)),
        ("Bayes-adaptive optimum", best, None),
        ("told the person", float(bounds.knows_person), None),
    ]
    return [Row(task, who, value, error, best - value) for who, value, error in found]


def _exact(optimum: Callable[..., UnknownPersonOptimum], params: Any) -> UnknownPersonOptimum:
    """The bounds, in double precision."""
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, _DOUBLE.get(leaf.dtype.kind)), params)
        return optimum(double.people, double)


def _ppo(steps: int) -> PPOConfig:
    return dataclasses.replace(PEOPLE_PRESET, total_steps=steps)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
