"""The optimum for an agent who meets one of a finite set of people and does not know which.

What the agent learns about the person is part of its state (Bayes-adaptive), so the trees of histories here
tell every order of events apart and serve short horizons.
"""

import functools

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.checks import check_people
from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson
from qmind_jax.policies.optimal import event_tree
from qmind_jax.policies.optimal.clarification import (
    clarification_optimum,
    costs_of,
    history_graph,
    questions_before_truncation,
    require_memory,
)
from qmind_jax.policies.optimal.expectimax import Actions, ClarificationCosts, judge, plan
from qmind_jax.policies.optimal.handover import costs_of as handover_costs_of
from qmind_jax.policies.optimal.handover import steps_of
from qmind_jax.policies.optimal.handover_costs import HandoverCosts
from qmind_jax.policies.optimal.histories import Histories
from qmind_jax.policies.optimal.mixture import Mixture


@struct.dataclass
class UnknownPersonOptimum:
    """Expected returns over people who are all equally likely; float scalars.

    Attributes:
        value: The optimum of an agent who knows the population and learns about the person from what it does.
        knows_person: That of an agent who is told the person; no agent does better.
        best_single_plan: That of an agent who takes everybody for the same member of the population, the one
            whose optimum does best on all: it knows the population alone and does not learn about the person.
    """

    value: jax.Array
    knows_person: jax.Array
    best_single_plan: jax.Array


def clarification_unknown_person(
    people: AnsweringPerson, params: ClarificationParams, *, memory_limit: int = 2**30
) -> UnknownPersonOptimum:
    """The Bayes-adaptive optimum of ``Clarification`` for a population, and the bounds around it.

    Args:
        people: The population that a person is drawn from.
        params: Costs and ``max_questions``.
        memory_limit: Bytes for the histories.

    Raises:
        ValueError: If the histories need more than ``memory_limit`` or a number makes no sense.
        TypeError: If the people answer no questions.
    """
    people = as_population(people)
    check_people(people, AnsweringPerson)
    known = clarification_optimum(people, params, memory_limit=memory_limit)
    costs, depth = costs_of(params, people), questions_before_truncation(params)
    graph = history_graph(people, params, depth, one_person=False)
    require_memory(graph, people, memory_limit, together=len(people))
    value, single = _clarification(people, costs, graph.build(), known.histories, known.actions)
    return UnknownPersonOptimum(value, known.value.mean(), single)


@jax.jit
def _clarification(
    people: AnsweringPerson,
    costs: ClarificationCosts,
    histories: Histories,
    known_histories: Histories,
    known_plans: Actions,
) -> tuple[jax.Array, jax.Array]:
    """Value of the optimum, and of the best of the plans for single people."""
    mixture = Mixture(people)
    _, actions = jax.lax.stop_gradient(plan(mixture, histories, costs, truncated=True))
    value = judge(mixture, histories, costs, actions).value
    singles = jax.lax.map(lambda one: judge(mixture, known_histories, costs, one).value, known_plans)
    return value, singles.max()


def handover_unknown_person(
    people: TrustingPerson, params: TrustHandoverParams, *, memory_limit: int = 2**30
) -> UnknownPersonOptimum:
    """The Bayes-adaptive optimum of ``TrustHandover`` for a population, and the bounds around it.

    Every step has seven events (two hand-overs that work or fail, two answers, waiting), so this serves up to
    some eight steps.

    Args:
        people: The population that a person is drawn from.
        params: Costs and ``n_steps``.
        memory_limit: Bytes for the histories.

    Raises:
        ValueError: If the histories need more than ``memory_limit`` or a number makes no sense.
        TypeError: If the people do not trust.
    """
    people = as_population(people)
    check_people(people, TrustingPerson)
    costs, n_steps = handover_costs_of(params, people), steps_of(params)
    histories = sum(event_tree.BRANCHES**k for k in range(n_steps))
    # Trust, its memory and the weight of everybody; the rewards of four actions and the value.
    size = histories * (3 * len(people) + 5) * jax.tree.leaves(people)[0].dtype.itemsize
    if size > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {size} bytes, got {memory_limit}: the tree has {histories} "
            f"histories of up to {n_steps - 1} steps for {len(people)} people; lower n_steps or raise "
            "memory_limit"
        )
    return _handover(people, costs, n_steps)


@functools.partial(jax.jit, static_argnames=("n_steps",))
def _handover(people: TrustingPerson, costs: HandoverCosts, n_steps: int) -> UnknownPersonOptimum:
    levels = event_tree.grow(people, costs.slow_factor, n_steps)
    value = event_tree.optimum(levels, costs)

    def of_one(index: jax.Array) -> tuple[jax.Array, jax.Array]:
        known, actions = event_tree.plan_for(levels, costs, index)
        return known, event_tree.judge(levels, costs, actions)

    known, single = jax.lax.map(of_one, jnp.arange(len(people)))
    return UnknownPersonOptimum(value, known.mean(), single.max())
