"""Published tables, again with our environments: ``python -m benchmarks.published``.

quantum-mind has published what its policies cost simulated people: a hand-over study with two populations and
four policies, a tutorial on trust (3) and one on questions (7). This plays the same policies with the same
people in our environments, with ten times as many sessions, and compares the means with those published, and
with those of quantum-mind's own program run again for as many sessions, in standard errors of the difference.
Costs are those of the tables: what failures, slowness, asking and waiting cost in a session, without the
reward of 1 for a success that the environment pays on top.

The people are theirs, number for number; the luck is not. So standard errors are those of luck, from the
spread of sessions with one person.

Standard output has one JSON line per row, standard error a table.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.peer_program import Sessions, handover_sessions, question_sessions
from benchmarks.published_tables import TUTORIAL_7, TUTORIAL_7_SESSIONS, Robot, handover_tables
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.evaluation import evaluate
from qmind_jax.people import as_population
from qmind_jax.policies import Constant, Policy, QuestionPlanner, TrustRule
from qmind_jax.registry import make


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        sample: How many times the published number of sessions to play, at least 2.
        seed: Seed of everything random.
    """

    sample: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sample < 2:
            raise ValueError(f"sample must be at least 2, got {self.sample}")


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    error: float


@dataclasses.dataclass(frozen=True)
class Row:
    """One number: published, of their program run again, and ours.

    Attributes:
        table: Which table.
        policy: Which policy.
        quantity: What is measured, per session.
        published: As published, with the standard error of as many sessions of ours.
        again: Of their program, run again.
        ours: In our environment.
    """

    table: str
    policy: str
    quantity: str
    published: Mean
    again: Mean
    ours: Mean

    @property
    def from_published(self) -> float:
        """Ours less the published number, in standard errors of the difference."""
        return _in_errors(self.ours, self.published)

    @property
    def from_again(self) -> float:
        """Ours less that of their program run again, in standard errors of the difference."""
        return _in_errors(self.ours, self.again)


def main(config: Config) -> None:
    """Print the tables."""
    rows = []
    for row in every_row(config):
        rows.append(row)
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    show(rows)


def every_row(config: Config) -> Iterator[Row]:
    """All rows of all tables."""
    for number, (name, table) in enumerate(handover_tables().items()):
        env, params = make("TrustHandover-v0", people=table.people)
        key = jax.random.fold_in(jax.random.key(config.seed), number)
        sessions = table.sessions * config.sample
        for policy, robot in table.robots.items():
            returns = evaluate(trust_policy(robot, params), env, params, key, sessions, balanced=True)
            successes = returns.counts["hand_overs"] - returns.counts["failures"]
            ours = {
                # Successes, which the environment rewards with 1, are taken out of the return.
                "cost": np.asarray(successes - returns.per_episode, float),
                "failures": np.asarray(returns.counts["failures"], float),
                "asks": np.asarray(returns.counts["asks"], float),
            }
            again = handover_sessions(table.people, robot, sessions, config.seed)
            published, people = table.means[policy], len(table.people)
            yield from compared(name, policy, published, table.sessions, again, ours, people)
    env, params = make("Clarification-v0", success_reward=0.0)
    for policy, published in TUTORIAL_7.items():
        blind = policy.startswith("order-blind")
        sessions = TUTORIAL_7_SESSIONS * config.sample
        planner = QuestionPlanner.for_params(params, order_blind=blind)
        returns = evaluate(planner, env, params, jax.random.key(config.seed), sessions)
        ours = {
            "cost": -np.asarray(returns.per_episode, float),
            "accuracy": np.asarray(returns.counts["correct"], float),
            "questions": np.asarray(returns.counts["questions"], float),
        }
        again = question_sessions(blind, sessions, config.seed)
        yield from compared("tutorial 7", policy, published, TUTORIAL_7_SESSIONS, again, ours, people=1)


def trust_policy(robot: Robot, params: TrustHandoverParams) -> Policy:
    """The rule of a robot that takes everybody for one person, or always the same action."""
    if isinstance(robot, int):
        return Constant(jnp.int32(robot))
    return TrustRule.for_params(params, as_population(robot))


def compared(
    table: str,
    policy: str,
    published: dict[str, float],
    sessions: int,
    again: Sessions,
    ours: Sessions,
    people: int,
) -> Iterator[Row]:
    """One row for each published quantity.

    Args:
        table: Name of the table.
        policy: Name of the policy.
        published: Means by quantity.
        sessions: Number of sessions that they are means over.
        again: Sessions of their program run again, the people in turn.
        ours: Ours, the people in turn.
        people: How many there are.
    """
    for quantity, value in published.items():
        mine = _mean(ours[quantity], people)
        error = mine.error * math.sqrt(ours[quantity].size / sessions)
        yield Row(table, policy, quantity, Mean(value, error), _mean(again[quantity], people), mine)


def show(rows: Sequence[Row]) -> None:
    """Print the rows as a table to standard error."""
    table = Table("table", "policy", "quantity", "published", "again", "ours", "from published", "from again")
    for row in rows:
        means = [f"{mean.value:.3f} ± {mean.error:.3f}" for mean in (row.published, row.again, row.ours)]
        distances = [f"{distance:+.2f} s.e." for distance in (row.from_published, row.from_again)]
        table.add_row(row.table, row.policy, row.quantity, *means, *distances)
    Console(file=sys.stderr, width=140).print(table)


def _mean(sessions: np.ndarray, people: int) -> Mean:
    """Mean over sessions with people in turn, its error from the spread of sessions with one person."""
    person = np.arange(sessions.size) % people
    person_mean = np.bincount(person, sessions) / np.bincount(person)
    variance = np.sum((sessions - person_mean[person]) ** 2) / (sessions.size - people)
    return Mean(float(sessions.mean()), math.sqrt(variance / sessions.size))


def _in_errors(mean: Mean, other: Mean) -> float:
    difference, error = mean.value - other.value, math.hypot(mean.error, other.error)
    if error > 0.0:
        return difference / error
    # Where nothing varies the two must be equal, up to the digits that were printed.
    return 0.0 if abs(difference) < 5e-3 else math.copysign(math.inf, difference)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
