"""Expectimax over a graph of answer histories, for one person; and what a plan is worth to a person."""

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.policies.optimal.beliefs import BeliefModel
from qmind_jax.policies.optimal.histories import Histories

Actions = tuple[jax.Array, ...]
"""A plan: the action after every history, int32 ``(n,)`` for each level; a question below Q, or Q plus a
hypothesis."""


@struct.dataclass
class ClarificationCosts:
    """The numbers of ``ClarificationParams`` that a plan depends on, float scalars."""

    ask: jax.Array
    success: jax.Array
    error: jax.Array


@struct.dataclass
class Judged:
    """What a plan does with a person, float scalars.

    Attributes:
        value: Expected return.
        accuracy: Probability of acting on the right hypothesis.
        questions: Expected number of questions.
    """

    value: jax.Array
    accuracy: jax.Array
    questions: jax.Array


def plan(
    model: BeliefModel, histories: Histories, costs: ClarificationCosts, *, truncated: bool
) -> tuple[jax.Array, Actions]:
    """The best plan and its expected return, a scalar.

    Args:
        model: The person.
        histories: The graph.
        costs: The costs.
        truncated: Whether a question after the longest histories truncates the episode; if not, no further
            question can be asked there.
    """
    weights = history_weights(model, histories)
    weight = weights[-1]
    last_question = -(costs.ask + costs.error) * weight.sum(axis=0)
    may_ask = histories.may_ask.T & truncated
    value, action = _best(weight, jnp.where(may_ask, last_question, -jnp.inf), costs)
    actions = [action]
    for level, weight in zip(histories.levels[::-1], weights[-2::-1], strict=True):
        # The index behind the last history stands for a question that must not be asked.
        value = jnp.append(value, -jnp.inf)
        asked = value[level.children].sum(axis=-1).T - costs.ask * weight.sum(axis=0)
        value, action = _best(weight, asked, costs)
        actions.append(action)
    return value[0], tuple(actions[::-1])


def history_weights(model: BeliefModel, histories: Histories) -> list[jax.Array]:
    """Probability of every history together with every hypothesis, float ``(H, n)`` for each level."""
    beliefs, weights = model.start(), []
    for level in histories.levels:
        weights.append(model.weights(beliefs))
        beliefs = model.pick(model.split(beliefs), level.origin)
    weights.append(model.weights(beliefs))
    return [weight / len(weight) for weight in weights]


def _best(weight: jax.Array, asked: jax.Array, costs: ClarificationCosts) -> tuple[jax.Array, jax.Array]:
    """Value and action of every history, from its weight ``(H, n)`` and the values of asking ``(Q, n)``.

    Of actions that are equally good up to rounding it takes acting before asking, then the first.
    """
    total = weight.sum(axis=0)
    acted = (costs.success + costs.error) * weight - costs.error * total
    value = jnp.maximum(acted.max(axis=0), asked.max(axis=0))
    scale = jnp.abs(costs.success) + jnp.abs(costs.error) + jnp.abs(costs.ask)
    slack = 64 * jnp.finfo(value.dtype).eps * scale * total
    good = jnp.concatenate([acted, asked]) >= value - slack
    first = jnp.argmax(good, axis=0)
    num_hypotheses, num_questions = len(acted), len(asked)
    action = jnp.where(first < num_hypotheses, first + num_questions, first - num_hypotheses)
    return value, action.astype(jnp.int32)


def judge(model: BeliefModel, histories: Histories, costs: ClarificationCosts, actions: Actions) -> Judged:
    """What a plan is worth, exactly; the person need not be the one that it was made for.

    Follows the answers to the questions that the plan asks, ``2 ** k`` histories of k answers.

    Args:
        model: The person.
        histories: The graph that the plan was made on.
        costs: The costs.
        actions: The plan.
    """
    beliefs, num_questions = model.start(), histories.may_ask.shape[1]
    weight = model.weights(beliefs)
    node, alive = jnp.zeros(1, jnp.int32), jnp.full(1, 1.0 / len(weight), weight.dtype)
    right = wrong = questions = unheard = jnp.zeros((), weight.dtype)
    for depth, action in enumerate(actions):
        weight = model.weights(beliefs) * alive
        total, chosen = weight.sum(axis=0), action[node]
        asks = chosen < num_questions
        hypothesis = jnp.maximum(chosen - num_questions, 0)
        correct = jnp.where(asks, 0.0, jnp.take_along_axis(weight, hypothesis[None], axis=0)[0])
        asked = jnp.where(asks, total, 0.0).sum()
        right, questions = right + correct.sum(), questions + asked
        wrong = wrong + jnp.where(asks, 0.0, total - correct).sum()
        if depth == len(histories.levels):
            unheard = asked
            break
        question = jnp.minimum(chosen, num_questions - 1)
        size = len(node)
        no = question * size + jnp.arange(size)
        beliefs = model.pick(model.split(beliefs), jnp.concatenate([no, no + num_questions * size]))
        children = histories.levels[depth].children[node, question]
        node = jnp.minimum(children.T.reshape(-1), len(actions[depth + 1]) - 1)
        alive = jnp.tile(jnp.where(asks, alive, 0.0), 2)
    value = costs.success * right - costs.error * (wrong + unheard) - costs.ask * questions
    return Judged(value=value, accuracy=right, questions=questions)
