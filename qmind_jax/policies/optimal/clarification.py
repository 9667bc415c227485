"""The exact optimum of Clarification, for every person of a population."""

import functools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.envs.checks import check_cost, check_count, check_people
from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.people.answering import AnsweringPerson, IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.population import as_population
from qmind_jax.policies.optimal.beliefs import belief_model
from qmind_jax.policies.optimal.chunks import map_people, people_at_a_time
from qmind_jax.policies.optimal.clarification_policy import ClarificationPolicy
from qmind_jax.policies.optimal.expectimax import Actions, ClarificationCosts, Judged, judge, plan
from qmind_jax.policies.optimal.histories import AnswerCounts, Histories, HistoryTree, Repeats
from qmind_jax.policies.optimal.memoryless import memoryless_plans

Variant = Literal["full recall", "no repeats", "order blind", "memoryless"]


@struct.dataclass
class ClarificationOptimum:
    """The best an agent can do who knows the person's answers but not what the person means.

    Attributes:
        value: Expected return, float ``(people,)``.
        accuracy: Probability of acting on the right hypothesis, float ``(people,)``.
        questions: Expected number of questions, float ``(people,)``.
        knows_intent: Expected return of an agent who also knows what the person means, float scalar.
        actions: The plan: for histories of 0, 1, ... answers the action after each, int32 ``(people, n)``.
        histories: The histories that the plan tells apart.
    """

    value: jax.Array
    accuracy: jax.Array
    questions: jax.Array
    knows_intent: jax.Array
    actions: Actions
    histories: Histories

    def policy(self, person: int = 0) -> ClarificationPolicy:
        """The plan for one person as a policy for ``Clarification``."""
        return ClarificationPolicy.of(tuple(level[person] for level in self.actions), self.histories)

    @property
    def value_of_intent(self) -> jax.Array:
        """What it would be worth to know what the person means, float ``(people,)``."""
        return self.knows_intent - self.value


def clarification_optimum(
    people: AnsweringPerson,
    params: ClarificationParams,
    *,
    variant: Variant = "full recall",
    memory_limit: int = 2**30,
    max_searched: int = 100_000,
) -> ClarificationOptimum:
    """The exact optimum of ``Clarification`` for every person: expectimax over answer histories.

    Every hypothesis is equally likely, and a question may be repeated. Differentiable in the people, for
    whom the plan is constant almost everywhere.

    Args:
        people: A population or one person; ``params.people`` is not looked at.
        params: Costs and ``max_questions``.
        variant: What the agent may do.
            ``"full recall"``: everything; the optimum.
            ``"no repeats"``: ask every question at most once.
            ``"order blind"``: plan as if answers were independent, for ``people.order_free()``; the plan is
            judged with the people themselves.
            ``"memoryless"``: act by a fixed function of the raw observation, the last answer to each
            question. Found by a search in Python, so the people must not be traced.
        memory_limit: Bytes for the histories of the people who are solved at a time.
        max_searched: Partial policies that the search for a memoryless one may look at, for each person.

    Raises:
        ValueError: If the histories of one person need more than ``memory_limit``, or a number or the variant
            makes no sense.
        TypeError: If the people answer no questions.
    """
    people = as_population(people)
    check_people(people, AnsweringPerson)
    if not isinstance(params, ClarificationParams):
        raise TypeError(f"params must be ClarificationParams, got {type(params).__name__}")
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {get_args(Variant)}, got {variant!r}")
    costs = costs_of(params, people)
    depth = questions_before_truncation(params)
    if variant == "memoryless":
        return _memoryless_optimum(people, costs, depth, memory_limit, max_searched)
    planned_for = _order_free(people) if variant == "order blind" else people
    graph = history_graph(planned_for, params, depth, never_repeat=variant == "no repeats")
    batch_size = people_at_a_time(require_memory(graph, people, memory_limit), memory_limit)
    histories = graph.build()
    judged, actions = _solve(
        people, planned_for, histories, costs, truncated=graph.depth == depth, batch_size=batch_size
    )
    return _optimum(judged, costs, depth, actions, histories)


def _memoryless_optimum(
    people: AnsweringPerson, costs: ClarificationCosts, depth: int, memory_limit: int, max_searched: int
) -> ClarificationOptimum:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((people, costs))):
        raise TypeError("people and costs must not be traced for variant 'memoryless'")
    graph = HistoryTree(people.num_questions, depth)
    batch_size = people_at_a_time(require_memory(graph, people, memory_limit), memory_limit)
    histories = graph.build()
    actions = memoryless_plans(people, histories, costs, max_searched)
    judged = judge_plans(people, histories, costs, actions, batch_size=batch_size)
    return _optimum(judged, costs, depth, actions, histories)


def _optimum(
    judged: Judged, costs: ClarificationCosts, depth: int, actions: Actions, histories: Histories
) -> ClarificationOptimum:
    return ClarificationOptimum(
        value=judged.value,
        accuracy=judged.accuracy,
        questions=judged.questions,
        knows_intent=_knowing_the_intent(costs, depth),
        actions=actions,
        histories=histories,
    )


@functools.partial(jax.jit, static_argnames=("batch_size",))
def judge_plans(
    people: AnsweringPerson,
    histories: Histories,
    costs: ClarificationCosts,
    actions: Actions,
    *,
    batch_size: int,
) -> Judged:
    """What everybody's plan is worth with them; differentiable in the people."""

    def judge_one(pair: tuple[AnsweringPerson, Actions]) -> Judged:
        person, plan_of_person = pair
        model = belief_model(jax.tree.map(lambda leaf: leaf[None], person))
        return judge(model, histories, costs, plan_of_person)

    return map_people(judge_one, (people, actions), batch_size)


@functools.partial(jax.jit, static_argnames=("truncated", "batch_size"))
def _solve(
    people: AnsweringPerson,
    planned_for: AnsweringPerson,
    histories: Histories,
    costs: ClarificationCosts,
    *,
    truncated: bool,
    batch_size: int,
) -> tuple[Judged, Actions]:
    """Plan for everybody and judge everybody's plan, ``batch_size`` people at a time."""

    def solve(pair: tuple[AnsweringPerson, AnsweringPerson]) -> tuple[Judged, Actions]:
        person, model = (belief_model(jax.tree.map(lambda leaf: leaf[None], one)) for one in pair)
        # The best plan stays the best for people who differ infinitely little.
        _, actions = jax.lax.stop_gradient(plan(model, histories, costs, truncated=truncated))
        return judge(person, histories, costs, actions), actions

    return map_people(solve, (people, planned_for), batch_size)


def costs_of(params: ClarificationParams, people: AnsweringPerson) -> ClarificationCosts:
    """The costs, checked unless traced, in the precision of the people."""
    dtype = jnp.finfo(jax.tree.leaves(people)[0].dtype).dtype
    values = {name: getattr(params, name) for name in ("ask_cost", "success_reward", "error_cost")}
    for name, value in values.items():
        if not isinstance(value, jax.core.Tracer):
            check_cost(name, value)
    return ClarificationCosts(*(jnp.asarray(value, dtype) for value in values.values()))


def questions_before_truncation(params: ClarificationParams) -> int:
    """One less than ``max_questions``, which must be a number: histories are made for it."""
    if isinstance(params.max_questions, jax.core.Tracer):
        raise TypeError("max_questions must be a concrete integer, got a traced one")
    check_count("max_questions", params.max_questions)
    return int(params.max_questions) - 1


def history_graph(
    people: AnsweringPerson,
    params: ClarificationParams,
    depth: int,
    *,
    never_repeat: bool = False,
    one_person: bool = True,
) -> HistoryTree | AnswerCounts:
    """The smallest graph of histories that is known to hold the best plan.

    Args:
        people: The population that is planned for.
        params: The costs.
        depth: Answers of the longest histories.
        never_repeat: Whether each question may be asked once at most.
        one_person: Whether it is known whom one asks.
    """
    num_questions = people.num_questions
    if isinstance(people, IndependentAnswers) and not never_repeat:
        return AnswerCounts(num_questions, depth)
    repeats: Repeats = "never" if never_repeat else "any"
    closing: frozenset[tuple[int, bool]] = frozenset()
    # Where time is worth something, nobody asks what tells nothing. Lüders' rule repeats an answer.
    if isinstance(people, ProjectiveAnswers) and _asking_never_pays(params):
        # An answer that says no more of what is meant can still say who the person is.
        closing = _closing_answers(people) if one_person else closing
        repeats = "never" if never_repeat else "not at once"
    return HistoryTree(num_questions, depth, repeats, closing)


def _asking_never_pays(params: ClarificationParams) -> bool:
    """Whether a question that tells nothing is known not to be worth asking."""
    numbers = (params.ask_cost, params.success_reward, params.error_cost)
    if any(isinstance(number, jax.core.Tracer) for number in numbers):
        return False
    # As NumPy arrays: inside jit, arithmetic on concrete JAX arrays would be traced.
    ask_cost, success_reward, error_cost = map(np.asarray, numbers)
    return bool(np.all(ask_cost >= 0) and np.all(success_reward >= -error_cost))


def _closing_answers(people: ProjectiveAnswers) -> frozenset[tuple[int, bool]]:
    """Answers that leave one state, whatever was meant: nothing that is asked later tells more."""
    if isinstance(people.projectors, jax.core.Tracer):
        return frozenset()
    ranks = np.rint(np.trace(np.asarray(people.projectors), axis1=-2, axis2=-1).real)
    dimension = people.projectors.shape[-1]
    yes, no = np.all(ranks <= 1, axis=0), np.all(ranks >= dimension - 1, axis=0)
    return frozenset((q, answer) for answer in (False, True) for q in np.flatnonzero(yes if answer else no))


def require_memory(
    graph: HistoryTree | AnswerCounts, people: AnsweringPerson, memory_limit: int, *, together: int = 1
) -> int:
    """Bytes that the histories of one person need, or of some who are solved together.

    Raises:
        ValueError: If that is more than ``memory_limit``.
    """
    sizes = graph.sizes()
    leaves = jax.tree.leaves(people)
    per_hypothesis = leaves[0].shape[-1] * people.num_hypotheses
    numbers = per_hypothesis * (2 * people.num_questions * max(sizes[:-1], default=0) + sizes[-1])
    numbers += sum(sizes) * (people.num_hypotheses + people.num_questions)
    size = together * numbers * max(leaf.dtype.itemsize for leaf in leaves)
    if size > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {size} bytes, got {memory_limit}: the tree has {sum(sizes)} "
            f"histories of up to {graph.depth} answers to {people.num_questions} questions, for "
            f"{people.num_hypotheses} hypotheses and {together} people at a time; lower max_questions or "
            "raise memory_limit"
        )
    return size


def _order_free(people: AnsweringPerson) -> IndependentAnswers:
    if isinstance(people, IndependentAnswers):
        return people
    if not isinstance(people, ProjectiveAnswers):
        raise TypeError(f"variant 'order blind' needs people with order_free(), got {type(people).__name__}")
    return people.order_free()


def _knowing_the_intent(costs: ClarificationCosts, depth: int) -> jax.Array:
    """Act at once, unless questions are paid for."""
    acted = jnp.maximum(costs.success, -costs.error)
    later = jnp.maximum(acted - depth * costs.ask, -(depth + 1) * costs.ask - costs.error)
    return jnp.maximum(acted, later)
