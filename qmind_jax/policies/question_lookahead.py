"""Questions to somebody unknown: infer who it is and what is meant, look a few questions ahead."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.policies.ablation import order_blind as blind_to_order
from qmind_jax.policies.weights import check_weights, normalised


@struct.dataclass
class QuestionLookaheadCarry:
    """What the planner remembers.

    Attributes:
        weights: Probability of each person together with each hypothesis, ``(P, H)``.
        beliefs: The belief that each of them would have by now, ``(P, H, ...)``.
        count: Questions asked, int32.
        action: The last action, int32, -1 before the first.
    """

    weights: jax.Array
    beliefs: jax.Array
    count: jax.Array
    action: jax.Array


@struct.dataclass
class QuestionLookahead:
    """Filter who the person is and what is meant, exactly over a finite set of people, and plan with that.

    Every answer reweights people and hypotheses together by how probable it was for each (Bayes' rule). The
    action is the best of an exact expectimax in which up to ``depth`` more questions, repeats included, are
    asked before acting. With depth 1 and one person it is :class:`~qmind_jax.policies.QuestionPlanner` with
    repeats; with ``depth = max_questions - 1`` the optimum for the believed people. Work grows as
    ``P H (2 Q) ** depth``.

    Attributes:
        people: The P people that the robot reckons with: all that there are, or a sample.
        weights: Probability of each person before the first answer, ``(P,)``.
        ask_cost: Price of a question.
        error_cost: Cost of acting on a wrong hypothesis rather than the right one.
        max_questions: The planner acts before it has asked so many.
        depth: Questions to look ahead, at least 1.
    """

    people: AnsweringPerson
    weights: jax.Array
    ask_cost: jax.Array
    error_cost: jax.Array
    max_questions: jax.Array
    depth: int = struct.field(pytree_node=False, default=2)

    @classmethod
    def for_params(
        cls,
        params: ClarificationParams,
        people: AnsweringPerson | None = None,
        *,
        weights: Any = None,
        depth: int = 2,
        order_blind: bool = False,
    ) -> "QuestionLookahead":
        """The planner that knows the costs and the population.

        Args:
            params: Parameters of the environment.
            people: The people to reckon with; those of the environment if None.
            weights: Probability of each, any scale, ``(P,)``; equal if None.
            depth: Questions to look ahead, at least 1.
            order_blind: Plan as if every question were the first, see
                :func:`~qmind_jax.policies.order_blind`.

        Raises:
            ValueError: If ``depth`` is below 1, the people have other numbers of questions or hypotheses than
                those of the environment, or the weights have another shape, a negative or infinite entry, or
                only zeros.
        """
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        people = params.people if people is None else people
        if people._sizes() != params.people._sizes():
            raise ValueError(
                f"people must have {params.people.num_hypotheses} hypotheses and "
                f"{params.people.num_questions} questions as those of the environment, got {people!r}"
            )
        size = len(people)
        equal = jnp.full(size, 1.0 / size)
        return cls(
            people=blind_to_order(people) if order_blind else people,
            weights=equal if weights is None else check_weights("weights", weights, size),
            ask_cost=params.ask_cost,
            # Being wrong also forgoes the reward for being right.
            error_cost=params.error_cost + params.success_reward,
            max_questions=params.max_questions,
            depth=depth,
        )

    def init(self, params: ClarificationParams) -> QuestionLookaheadCarry:
        """Nothing asked; every hypothesis equally likely."""
        hypotheses = jnp.arange(self.people.num_hypotheses)
        of_person = jax.vmap(self.people.initial_belief, in_axes=(None, 0))
        beliefs = jax.vmap(of_person, in_axes=(0, None))(jnp.arange(len(self.people)), hypotheses)
        weights = jnp.tile(self.weights[:, None] / hypotheses.size, (1, hypotheses.size))
        return QuestionLookaheadCarry(weights, beliefs, jnp.int32(0), jnp.int32(-1))

    def act(
        self, carry: QuestionLookaheadCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, QuestionLookaheadCarry]:
        """Learn the last answer, then ask or act."""
        carry = self._learn(carry, observation)
        left = self.max_questions - 1 - carry.count
        values = self._question_values(carry.weights, carry.beliefs, left, self.depth)
        asks = (values.max() > self._value_of_acting(carry.weights)) & (left > 0)
        act = self.people.num_questions + jnp.argmax(self.posterior(carry))
        action = jnp.where(asks, jnp.argmax(values), act).astype(jnp.int32)
        return action, carry.replace(action=action)

    def posterior(self, carry: QuestionLookaheadCarry) -> jax.Array:
        """Probability of each hypothesis, whoever the person is, ``(H,)``."""
        return carry.weights.sum(axis=0)

    def posterior_of_people(self, carry: QuestionLookaheadCarry) -> jax.Array:
        """Probability of each person, whatever is meant, ``(P,)``."""
        return carry.weights.sum(axis=1)

    def confidence(self, carry: QuestionLookaheadCarry) -> jax.Array:
        """Believed probability that the hypothesis just acted on is right, or that the answer is "yes"."""
        num_questions = self.people.num_questions
        p_yes = self._p_yes(carry.beliefs, jnp.clip(carry.action, 0, num_questions - 1))
        yes, right = (carry.weights * p_yes).sum(), self.posterior(carry).max()
        # Weights that sum to 1 but for rounding can lift certainty above it.
        return jnp.minimum(jnp.where(carry.action < num_questions, yes, right), 1.0)

    def _learn(self, carry: QuestionLookaheadCarry, observation: jax.Array) -> QuestionLookaheadCarry:
        num_questions = self.people.num_questions
        asked = (carry.action >= 0) & (carry.action < num_questions)
        question = jnp.clip(carry.action, 0, num_questions - 1)
        yes = observation[question] > 0
        p_yes = self._p_yes(carry.beliefs, question)
        weights = carry.weights * jnp.where(yes, p_yes, 1.0 - p_yes)
        # What nobody could have answered tells nothing.
        weights = jnp.where(weights.sum() > 0.0, normalised(weights), carry.weights)
        return carry.replace(
            weights=jnp.where(asked, weights, carry.weights),
            beliefs=jnp.where(asked, self._after_answer(carry.beliefs, question, yes), carry.beliefs),
            count=carry.count + asked,
        )

    def _value_of_acting(self, weights: jax.Array) -> jax.Array:
        """Cost avoided by acting on the best hypothesis rather than a wrong one."""
        return self.error_cost * weights.sum(axis=0).max()

    def _question_values(
        self, weights: jax.Array, beliefs: jax.Array, left: jax.Array, depth: int
    ) -> jax.Array:
        """Value of each question with what follows it, ``(Q,)``, times the probability of being here.

        Args:
            weights: Probability of each person and hypothesis and of being here, ``(P, H)``.
            beliefs: Belief of each, ``(P, H, ...)``.
            left: Questions that may still be asked, this one included, int32.
            depth: Questions to look ahead, this one included.
        """

        def ask(question: jax.Array) -> jax.Array:
            joint_yes = weights * self._p_yes(beliefs, question)

            def hear(yes: jax.Array) -> jax.Array:
                joint = jnp.where(yes, joint_yes, weights - joint_yes)
                act = self._value_of_acting(joint)
                if depth == 1:
                    return act
                after = self._after_answer(beliefs, question, yes)
                go_on = self._question_values(joint, after, left - 1, depth - 1).max()
                return jnp.where(left > 1, jnp.maximum(act, go_on), act)

            return jax.vmap(hear)(jnp.array([True, False])).sum() - self.ask_cost * weights.sum()

        return jax.vmap(ask)(jnp.arange(self.people.num_questions))

    def _p_yes(self, beliefs: jax.Array, question: jax.Array) -> jax.Array:
        of_person = jax.vmap(self.people.p_yes, in_axes=(0, None, None))
        return jax.vmap(of_person, in_axes=(0, 0, None))(beliefs, jnp.arange(len(self.people)), question)

    def _after_answer(self, beliefs: jax.Array, question: jax.Array, yes: jax.Array) -> jax.Array:
        of_person = jax.vmap(self.people.after_answer, in_axes=(0, None, None, None))
        everybody = jax.vmap(of_person, in_axes=(0, 0, None, None))
        return everybody(beliefs, jnp.arange(len(self.people)), question, yes)
