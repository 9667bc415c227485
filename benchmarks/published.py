"""Published tables, again with our environments: ``python -m benchmarks.published``.

quantum-mind has published what its policies cost simulated people: a hand-over study with two populations and
four policies, a tutorial on trust (3) and one on questions (7). Three numbers stand next to every published
one.

*Their program* is quantum-mind's own code with the seeds of the printed sessions. *Their luck* are the same
sessions in our environments: the same people, the same policies, the very uniform numbers that their program
draws. Both must agree with what was printed, and with each other, action for action.

*Ours* is a sample of our own, ten times the published one: ten times as many other people, whom the generator
of the study draws right after those that it met, once each, with luck of our own. The distance from the
published number is in standard errors of the difference. Those come from the spread of sessions, so they hold
differences between people as well as luck; that of a published number is of the printed sessions themselves.
Of some thirty numbers one or two lie beyond 2 standard errors by chance.

Costs are those of the tables: what failures, slowness, asking and waiting cost in a session, without the
reward of 1 for a success that the environment pays on top.

Standard output has one JSON line per row, standard error a table.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks import peer_program, same_luck
from benchmarks.published_tables import TUTORIAL_7, TUTORIAL_7_SESSIONS, Robot, handover_tables
from benchmarks.sessions import Mean, Sessions
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.evaluation import evaluate
from qmind_jax.people import as_population
from qmind_jax.policies import Constant, Policy, QuestionPlanner, TrustRule
from qmind_jax.registry import make


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the benchmark.

    Attributes:
        sample: How many times the published number of sessions to play, at least 1.
        seed: Seed of our luck.
    """

    sample: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise ValueError(f"sample must be at least 1, got {self.sample}")


@dataclasses.dataclass(frozen=True)
class Row:
    """One published number and what it is compared with.

    Attributes:
        table: Which table.
        policy: Which policy.
        quantity: What is measured, per session.
        published: As published, with the standard error of the printed sessions.
        program: Of their program with the seeds of the printed sessions.
        their_luck: Ours with their luck.
        alike: In how many of the printed sessions ours did the same as their program, action for action.
        sessions: How many were printed.
        ours: Of our own sample.
    """

    table: str
    policy: str
    quantity: str
    published: Mean
    program: float
    their_luck: float
    alike: int
    sessions: int
    ours: Mean

    @property
    def distance(self) -> float:
        """Our own sample less the published number, in standard errors of the difference."""
        difference = self.ours.value - self.published.value
        error = math.hypot(self.ours.error, self.published.error)
        if error > 0.0:
            return difference / error
        # Where nothing varies the two must be equal, up to the digits that were printed.
        return 0.0 if abs(difference) < 5e-3 else math.copysign(math.inf, difference)


def main(config: Config) -> None:
    """Print the tables."""
    rows = []
    for row in every_row(config):
        rows.append(row)
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    show(rows)


def every_row(config: Config) -> Iterator[Row]:
    """All rows of all tables."""
    yield from handover_rows(config)
    yield from question_rows(config)


def handover_rows(config: Config) -> Iterator[Row]:
    """The rows of the hand-over study and of tutorial 3."""
    for number, (name, table) in enumerate(handover_tables(config.sample).items()):
        env, params = make("TrustHandover-v0", people=table.people)
        others = params.replace(people=table.others)
        key = jax.random.fold_in(jax.random.key(config.seed), number)
        for policy, robot in table.robots.items():
            rule = trust_policy(robot, params)
            returns = evaluate(rule, env, others, key, table.sessions * config.sample, balanced=True)
            yield from compared(
                name,
                policy,
                table.means[policy],
                peer_program.handover_sessions(table.people, robot, table.sessions),
                same_luck.handover_sessions(rule, env, params, table.sessions),
                same_luck.handover_quantities(returns.per_episode, returns.counts),
            )


def question_rows(config: Config) -> Iterator[Row]:
    """The rows of tutorial 7."""
    env, params = make("Clarification-v0", success_reward=0.0)
    for policy, published in TUTORIAL_7.items():
        blind = policy.startswith("order-blind")
        planner = QuestionPlanner.for_params(params, order_blind=blind)
        returns = evaluate(
            planner, env, params, jax.random.key(config.seed), TUTORIAL_7_SESSIONS * config.sample
        )
        yield from compared(
            "tutorial 7",
            policy,
            published,
            peer_program.question_sessions(blind, TUTORIAL_7_SESSIONS),
            same_luck.question_sessions(planner, env, params, TUTORIAL_7_SESSIONS),
            same_luck.question_quantities(returns.per_episode, returns.counts),
            kinds=len(params.people.hypotheses),
        )


def trust_policy(robot: Robot, params: TrustHandoverParams) -> Policy:
    """The rule of a robot that takes everybody for one person, or always the same action."""
    if isinstance(robot, int):
        return Constant(jnp.int32(robot))
    return TrustRule.for_params(params, as_population(robot))


def compared(
    table: str,
    policy: str,
    published: dict[str, float],
    program: Sessions,
    their_luck: Sessions,
    ours: dict[str, np.ndarray],
    kinds: int = 1,
) -> Iterator[Row]:
    """One row for each published quantity.

    Args:
        table: Name of the table.
        policy: Name of the policy.
        published: Means by quantity.
        program: The printed sessions, of their program.
        their_luck: Ours with their luck.
        ours: Quantities of our own sessions.
        kinds: In how many kinds the printed sessions came in turn, equally often by design.
    """
    alike, sessions = their_luck.alike(program), len(program.actions)
    for quantity, value in published.items():
        printed = Mean.over(program.quantities[quantity], kinds)
        same = float(their_luck.quantities[quantity].mean())
        yield Row(
            table,
            policy,
            quantity,
            published=Mean(value, printed.error),
            program=printed.value,
            their_luck=same,
            alike=alike,
            sessions=sessions,
            ours=Mean.over(ours[quantity]),
        )


def show(rows: Sequence[Row]) -> None:
    """Print the rows as a table to standard error."""
    table = Table(
        "table", "policy", "quantity", "published", "their program", "their luck", "alike", "ours", "distance"
    )
    for row in rows:
        table.add_row(
            row.table,
            row.policy,
            row.quantity,
            _text(row.published),
            f"{row.program:.3f}",
            f"{row.their_luck:.3f}",
            f"{row.alike}/{row.sessions}",
            _text(row.ours),
            f"{row.distance:+.2f} s.e.",
        )
    beyond = [sum(abs(row.distance) > limit for row in rows) for limit in (2.0, 3.0)]
    table.caption = f"{len(rows)} numbers: {beyond[0]} beyond 2 standard errors, {beyond[1]} beyond 3"
    Console(file=sys.stderr, width=150).print(table)


def _text(mean: Mean) -> str:
    return f"{mean.value:.3f} ± {mean.error:.3f}"


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
