"""A planner that talks to something that is not an environment: a program, a prompt, a person."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.answering import AnsweringPerson


class AskingPolicy(Protocol):
    """A policy that asks and that states what it believes: ``QuestionPlanner``, ``QuestionLookahead``."""

    people: AnsweringPerson
    ask_cost: jax.Array
    max_questions: jax.Array

    def init(self, params: Any) -> Any:
        """The carry before the first question."""

    def act(self, carry: Any, observation: jax.Array, key: jax.Array) -> tuple[jax.Array, Any]:
        """The next action."""

    def posterior(self, carry: Any) -> jax.Array:
        """Probability of each hypothesis."""

    def replace(self, **changes: Any) -> "AskingPolicy":
        """A copy with other fields."""


@dataclasses.dataclass(frozen=True)
class Interview:
    """What was asked and what came of it.

    Attributes:
        choice: Label of the hypothesis that the planner acts on.
        probability: What it believes its probability to be.
        history: Each question with its answer, in order.
        cost: Price of the questions, in units of reward.
    """

    choice: str
    probability: float
    history: tuple[tuple[str, bool], ...]
    cost: float


def interview(planner: AskingPolicy, respond: Callable[[str], bool], max_questions: int = 10) -> Interview:
    """Let a planner ask until it acts.

    Args:
        planner: The planner; its own ``max_questions`` is not used.
        respond: Answers a question, given by its label, with True for "yes" or False for "no".
        max_questions: After so many the planner acts on what it believes; at least 0.

    Raises:
        ValueError: If ``max_questions`` is negative.
    """
    if max_questions < 0:
        raise ValueError(f"max_questions must be at least 0, got {max_questions}")
    people = planner.people
    # A planner acts before its questions are used up, as an environment punishes the last one.
    planner = planner.replace(max_questions=jnp.int32(max_questions + 1))
    act, key = jax.jit(planner.act), jax.random.key(0)
    answers = np.zeros(people.num_questions, np.float32)
    history = []
    action, carry = act(planner.init(None), jnp.array(answers), key)
    while action < people.num_questions:
        question = people.questions[int(action)]
        yes = bool(respond(question))
        history.append((question, yes))
        answers[int(action)] = 1.0 if yes else -1.0
        action, carry = act(carry, jnp.array(answers), key)
    hypothesis = int(action) - people.num_questions
    return Interview(
        choice=people.hypotheses[hypothesis],
        probability=float(planner.posterior(carry)[hypothesis]),
        history=tuple(history),
        cost=len(history) * float(planner.ask_cost),
    )
