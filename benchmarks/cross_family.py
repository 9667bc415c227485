"""Trained on one family of people, judged on every other: ``python -m benchmarks.cross_family``.

Nobody knows by which law real people trust. So agents are trained on qubit, Markov and Beta people and judged
on people of each family whom they have not met, next to policies that nobody trained: the one-step rule and
the planner that infers whom it has met, both of which believe in the people trained on, whatever the truth.

Control tasks: the last family are qubit people whose trust no question changes. There, what was trained on
people whose trust questions change must not win over what was trained on that family itself. Nor may planners
that know about order win over their order-blind twins where questions commute or leave no trace.

The task is ``TrustHandoverRecovery-v0``, where winning back trust pays. Every row meets the same people with
the same luck; differences are paired, by person, and their p-values corrected for the number of rows (Holm).

Standard output has one JSON line per row and column, standard error tables: mean returns, differences, regret
against the best policy that knows each person, the worst tenth of people, and the control tasks.
"""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.controls import commuting_domain, traceless
from qmind_jax.environment import Environment
from qmind_jax.evaluation import Comparison, Returns, compare_policies, evaluate, optima, regret
from qmind_jax.people import BetaTrust, handover_population
from qmind_jax.people.mixed_trust import MixedTrust, mix
from qmind_jax.policies import Policy, QuestionPlanner, TrustLookahead, TrustRule
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train
from qmind_jax.training.presets import PEOPLE_PRESET

ENV_ID = "TrustHandoverRecovery-v0"
TRACELESS = "qubit, no trace"
FAMILIES = ("qubit", "Markov", "Beta", TRACELESS)


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        people: People to train on, and as many others to judge on, of each family, at least 2.
        episodes: Episodes with each person, at least 4.
        training_steps: Steps of each agent; at least those of one update.
        agents: Agents of each family; their mean is reported, at least 1.
        seed: Seed of everything random.
        quick: Few people and hardly any training: a smoke test, not a measurement.
    """

    people: int = 128
    episodes: int = 64
    training_steps: int = 409_600
    agents: int = 3
    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        _ppo(self.training_steps)
        for name, least in (("people", 2), ("episodes", 4), ("agents", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")

    @property
    def sized(self) -> "Config":
        """These options, small if a quick run is asked for."""
        if not self.quick:
            return self
        steps = 2 * PEOPLE_PRESET.steps_per_update
        return dataclasses.replace(self, people=8, episodes=8, training_steps=steps, agents=1)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One policy on one family.

    Attributes:
        policy: ``"agent"``, ``"rule"`` or ``"inferring planner"``.
        believes: Family that it was trained on, or believes in.
        judged_on: Family of the people.
        mean: Mean return over people.
        standard_error: Of that mean as one of new people.
        regret: Mean regret against the best policy that knows each person.
        worst_tenth: Mean return over the people for whom it does worst.
        difference: Mean return less that of the same kind of policy which believes in the truth.
        difference_error: Standard error of the difference, by person.
        p_holm: Of no difference, corrected; None where there is nothing to compare.
    """

    policy: str
    believes: str
    judged_on: str
    mean: float
    standard_error: float
    regret: float
    worst_tenth: float
    difference: float
    difference_error: float
    p_holm: float | None


def main(config: Config) -> None:
    """Print the matrix and the control tasks."""
    cells = cross_family(config.sized)
    controls = control_tasks(config.sized)
    for row in [*cells, *controls]:
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    show(cells, controls)


def family_of(name: str, key: jax.Array, people: int) -> MixedTrust:
    """People of a family, drawn from wide ranges; as mixed people, so that all families share one program.

    Args:
        name: One of :data:`FAMILIES`.
        key: JAX random key.
        people: How many.
    """
    if name == "Markov":
        return mix([handover_population(key, people, "markov")])
    if name == "Beta":
        low, high = np.array([(0.2, 1.0, 0.1, 0.2), (0.9, 4.0, 0.8, 1.6)])
        return mix([BetaTrust(*jax.random.uniform(key, (people, 4), minval=low, maxval=high).T)])
    qubits = handover_population(key, people, "qubit")
    return mix([traceless(qubits) if name == TRACELESS else qubits])


def cross_family(config: Config) -> list[Cell]:
    """Every kind of policy, trained on or believing in every family, judged on every family."""
    key_known, key_new, key_train, key_judge = jax.random.split(jax.random.key(config.seed), 4)
    policies = {}
    for number, family in enumerate(FAMILIES):
        people = family_of(family, jax.random.fold_in(key_known, number), config.people)
        env, params = make(ENV_ID, people=people)
        keys = jax.random.split(jax.random.fold_in(key_train, number), config.agents)
        ppo = _ppo(config.training_steps)
        agents = train(keys, env, params, ppo).policy
        policies["agent", family] = [
            jax.tree.map(lambda leaf, i=i: leaf[i], agents) for i in range(config.agents)
        ]
        policies["rule", family] = [TrustRule.for_params(params)]
        policies["inferring planner", family] = [TrustLookahead.for_params(params, people[:32], depth=2)]

    cells = []
    for number, judged_on in enumerate(FAMILIES):
        people = family_of(judged_on, jax.random.fold_in(key_new, number), config.people)
        env, params = make(ENV_ID, people=people)
        best = optima(params)
        judge = functools.partial(_judge, config, env, params, jax.random.fold_in(key_judge, number))
        for kind in ("agent", "rule", "inferring planner"):
            returns = {family: judge(policies[kind, family], kind == "agent") for family in FAMILIES}
            against_truth = {
                result.name: result for result in compare_policies(returns, judged_on, unit="person")
            }
            cells += [
                _cell(kind, family, judged_on, returns[family], best, against_truth.get(family))
                for family in FAMILIES
            ]
    return cells


@dataclasses.dataclass(frozen=True)
class Control:
    """A task where knowing about order must not win.

    Attributes:
        task: What it is.
        difference: Mean return of the order-aware policy less that of its order-blind twin.
        standard_error: Of the difference.
        p_value: That the order-aware policy is no better (one-sided); small if it wins.
    """

    task: str
    difference: float
    standard_error: float
    p_value: float


def control_tasks(config: Config) -> list[Control]:
    """Planners that look to the end, and so make the best of what they believe, where order cannot matter."""
    key = jax.random.key(config.seed + 1)
    controls = []
    env, params = make("Clarification-v0", people=commuting_domain(config.seed), ask_cost=0.1)
    blind, aware = (QuestionPlanner.for_params(params, order_blind=choice) for choice in (True, False))
    controls.append(_control("questions that commute", env, params, blind, aware, key, 64 * config.episodes))

    believed = handover_population(key, 4, "qubit")
    env, params = make(ENV_ID, people=traceless(believed), n_steps=4)
    blind, aware = (
        TrustLookahead.for_params(params, believed, depth=4, order_blind=choice) for choice in (True, False)
    )
    controls.append(_control("trust without a trace", env, params, blind, aware, key, 64 * config.episodes))
    return controls


def show(cells: list[Cell], controls: list[Control]) -> None:
    """Print tables to standard error."""
    console = Console(file=sys.stderr, width=130)
    titles: dict[str, Callable[[Cell], str]] = {
        "mean return on people not met before (± standard error over people)": lambda cell: (
            f"{cell.mean:.2f} ± {cell.standard_error:.2f}"
        ),
        "less that of the same kind of policy that believes in the truth (p after Holm)": lambda cell: (
            ""
            if cell.p_holm is None
            else f"{cell.difference:+.2f} ± {cell.difference_error:.2f} (p {cell.p_holm:.2g})"
        ),
        "regret against the best policy that knows the person": lambda cell: f"{cell.regret:.2f}",
        "mean return over the worst tenth of people": lambda cell: f"{cell.worst_tenth:.2f}",
    }
    rows = list(dict.fromkeys((cell.policy, cell.believes) for cell in cells))
    for title, text in titles.items():
        table = Table("policy", "believes", *FAMILIES, title=title)
        for row in rows:
            table.add_row(*row, *(text(cell) for cell in cells if (cell.policy, cell.believes) == row))
        console.print(table)
    table = Table(
        "task", "order-aware less order-blind", "p (one-sided)", title="controls: must not be a win"
    )
    for control in controls:
        difference = f"{control.difference:+.4f} ± {control.standard_error:.4f}"
        table.add_row(control.task, difference, f"{control.p_value:.3g}")
    console.print(table)


def _ppo(steps: int) -> PPOConfig:
    return dataclasses.replace(PEOPLE_PRESET, total_steps=steps)


def _judge(
    config: Config, env: Environment, params: object, key: jax.Array, policies: list[Policy], wrapped: bool
) -> Returns:
    """Returns of a policy, or the mean returns of several agents, episode by episode."""
    seen = _ppo(config.training_steps).wrap(env) if wrapped else env
    episodes = config.people * config.episodes
    results = [evaluate(policy, seen, params, key, episodes, balanced=True) for policy in policies]
    mean = sum(result.per_episode for result in results) / len(results)
    return results[0].replace(per_episode=mean)


def _cell(
    policy: str,
    believes: str,
    judged_on: str,
    returns: Returns,
    best: jax.Array,
    comparison: Comparison | None,
) -> Cell:
    by_person = returns.by_person
    return Cell(
        policy=policy,
        believes=believes,
        judged_on=judged_on,
        mean=float(by_person.mean_over_people),
        standard_error=float(by_person.standard_error_over_people),
        regret=float(regret(returns, best).mean),
        worst_tenth=float(returns.worst_people().mean),
        difference=0.0 if comparison is None else comparison.difference,
        difference_error=0.0 if comparison is None else comparison.standard_error,
        p_holm=None if comparison is None else comparison.p_holm,
    )


def _control(
    task: str,
    env: Environment,
    params: object,
    blind: Policy,
    aware: Policy,
    key: jax.Array,
    episodes: int,
) -> Control:
    returns = {
        name: evaluate(policy, env, params, key, episodes, balanced=True)
        for name, policy in (("blind", blind), ("aware", aware))
    }
    (result,) = compare_policies(returns, "blind", alternative="greater")
    return Control(task, result.difference, result.standard_error, result.p_value)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
