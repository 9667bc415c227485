"""Policies that nobody had to train: the yardsticks of every table."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT, TrustHandoverParams
from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.people.trust import TrustingPerson, p_trust


@struct.dataclass
class Constant:
    """Always the same action.

    Attributes:
        action: int32 scalar.
    """

    action: jax.Array

    def init(self, params: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def act(self, carry: tuple[()], observation: jax.Array, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        """The action."""
        return jnp.asarray(self.action, jnp.int32), carry


@struct.dataclass
class UniformRandom:
    """Every action with the same probability.

    Attributes:
        num_actions: How many there are.
    """

    num_actions: int = struct.field(pytree_node=False)

    def init(self, params: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def act(self, carry: tuple[()], observation: jax.Array, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        """A draw."""
        return jax.random.randint(key, (), 0, self.num_actions), carry


@struct.dataclass
class TrustRuleCarry:
    """What the trust rule remembers.

    Attributes:
        trust: The pair (z, x) that the robot believes the person to have.
        action: Its last action, int32, -1 before the first.
    """

    trust: tuple[jax.Array, jax.Array]
    action: jax.Array


@struct.dataclass
class TrustRule:
    """The published one-step rule: follow the person's trust, take the cheapest next action.

    Expected costs with F = fail_cost, S = slow_cost, s = slow_factor and trust p: hand over F(1-p);
    slowly S + F(1-p)s; ask A + p min(0, S) + (1-p) min(F, S + Fs); wait W + the cheaper hand-over. It
    looks one step ahead, so it never waits. Source: quantum-mind's ``TrustAwareHandover``.

    Attributes:
        people: Population whose person 0 the robot takes everybody for.
        fail_cost: As in the environment; so are the other costs.
        slow_cost: See above.
        ask_cost: See above.
        wait_cost: See above.
        slow_factor: See above.
    """

    people: TrustingPerson
    fail_cost: jax.Array
    slow_cost: jax.Array
    ask_cost: jax.Array
    wait_cost: jax.Array
    slow_factor: jax.Array

    @classmethod
    def for_params(cls, params: TrustHandoverParams) -> "TrustRule":
        """The rule that knows the costs and takes everybody for the average person."""
        average = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0, keepdims=True), params.people)
        return cls(
            people=average,
            fail_cost=params.fail_cost,
            slow_cost=params.slow_cost,
            ask_cost=params.ask_cost,
            wait_cost=params.wait_cost,
            slow_factor=params.slow_factor,
        )

    def init(self, params: TrustHandoverParams) -> TrustRuleCarry:
        """The trust that the person starts with."""
        return TrustRuleCarry(self.people.initial_trust(jnp.int32(0)), jnp.int32(-1))

    def act(
        self, carry: TrustRuleCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, TrustRuleCarry]:
        """Learn what the last action did, then take the cheapest one."""
        trust = self._follow(carry, observation)
        p = p_trust(trust)
        fail, slow = self.fail_cost, self.slow_cost
        hand_over = fail * (1.0 - p)
        hand_over_slowly = slow + fail * (1.0 - p) * self.slow_factor
        after_no = jnp.minimum(fail, slow + fail * self.slow_factor)
        ask = self.ask_cost + p * jnp.minimum(0.0, slow) + (1.0 - p) * after_no
        wait = self.wait_cost + jnp.minimum(hand_over, hand_over_slowly)
        action = jnp.argmin(jnp.stack([hand_over, hand_over_slowly, ask, wait])).astype(jnp.int32)
        return action, TrustRuleCarry(trust, action)

    def _follow(self, carry: TrustRuleCarry, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        person = jnp.int32(0)
        outcome, answer = observation[0] > 0, observation[1] > 0
        moves = {
            HAND_OVER: self.people.after_outcome(carry.trust, person, outcome),
            SLOW: self.people.after_outcome(carry.trust, person, outcome),
            ASK: self.people.after_answer(carry.trust, person, answer),
            WAIT: self.people.after_wait(carry.trust, person),
        }
        trust = carry.trust
        for action, moved in moves.items():
            trust = jax.tree.map(
                lambda new, old, taken=carry.action == action: jnp.where(taken, new, old), moved, trust
            )
        return trust


@struct.dataclass
class QuestionPlannerCarry:
    """What the planner remembers.

    Attributes:
        beliefs: The person's belief under each hypothesis, ``(H, ...)``.
        likelihoods: Probability of the answers so far under each hypothesis, ``(H,)``.
        asked: Which questions have been asked, bool ``(Q,)``.
        count: Questions asked, int32.
        action: Its last action, int32, -1 before the first.
    """

    beliefs: jax.Array
    likelihoods: jax.Array
    asked: jax.Array
    count: jax.Array
    action: jax.Array


@struct.dataclass
class QuestionPlanner:
    """Ask the question of the largest value of information while that exceeds its price.

    The value of information of a question is how much it lowers the expected cost of acting on the best
    hypothesis. It looks one question ahead. Source: quantum-mind's ``QuestionPlanner``.

    Attributes:
        people: Population whose person 0 the robot takes everybody for.
        ask_cost: Price of a question.
        error_cost: Cost of acting on a wrong hypothesis rather than the right one.
        max_questions: The planner acts before it has asked so many.
        repeat: Whether it may ask a question again.
    """

    people: AnsweringPerson
    ask_cost: jax.Array
    error_cost: jax.Array
    max_questions: jax.Array
    repeat: bool = struct.field(pytree_node=False, default=False)

    @classmethod
    def for_params(cls, params: ClarificationParams, *, repeat: bool = False) -> "QuestionPlanner":
        """The planner that knows the costs and takes everybody for the first person."""
        return cls(
            people=params.people[:1],
            ask_cost=params.ask_cost,
            # Being wrong also forgoes the reward for being right.
            error_cost=params.error_cost + params.success_reward,
            max_questions=params.max_questions,
            repeat=repeat,
        )

    def init(self, params: ClarificationParams) -> QuestionPlannerCarry:
        """Nothing asked; every hypothesis equally likely."""
        hypotheses = jnp.arange(self.people.num_hypotheses)
        beliefs = jax.vmap(self.people.initial_belief, in_axes=(None, 0))(jnp.int32(0), hypotheses)
        return QuestionPlannerCarry(
            beliefs=beliefs,
            likelihoods=jnp.ones(self.people.num_hypotheses),
            asked=jnp.zeros(self.people.num_questions, bool),
            count=jnp.int32(0),
            action=jnp.int32(-1),
        )

    def act(
        self, carry: QuestionPlannerCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, QuestionPlannerCarry]:
        """Learn the last answer, then ask or act."""
        carry = self._learn(carry, observation)
        posterior = _normalised(carry.likelihoods)
        value = self.value_of_information(carry.beliefs, posterior)
        if not self.repeat:
            value = jnp.where(carry.asked, -jnp.inf, value)
        asks = (value.max() > self.ask_cost) & (carry.count < self.max_questions - 1)
        act = self.people.num_questions + jnp.argmax(posterior)
        action = jnp.where(asks, jnp.argmax(value), act).astype(jnp.int32)
        return action, carry.replace(action=action)

    def value_of_information(self, beliefs: jax.Array, posterior: jax.Array) -> jax.Array:
        """Value of each question, in units of reward.

        Args:
            beliefs: The person's belief under each hypothesis, ``(H, ...)``.
            posterior: Probability of each hypothesis, ``(H,)``.

        Returns:
            Shape ``(Q,)``.
        """
        questions = jnp.arange(self.people.num_questions)
        p_yes = jax.vmap(lambda question: self._p_yes(beliefs, question))(questions)
        right = posterior.max()
        right_after_yes = (posterior * p_yes).max(axis=-1)
        right_after_no = (posterior * (1.0 - p_yes)).max(axis=-1)
        return self.error_cost * (right_after_yes + right_after_no - right)

    def _p_yes(self, beliefs: jax.Array, question: jax.Array) -> jax.Array:
        return jax.vmap(self.people.p_yes, in_axes=(0, None, None))(beliefs, jnp.int32(0), question)

    def _learn(self, carry: QuestionPlannerCarry, observation: jax.Array) -> QuestionPlannerCarry:
        num_questions = self.people.num_questions
        asked = (carry.action >= 0) & (carry.action < num_questions)
        question = jnp.clip(carry.action, 0, num_questions - 1)
        yes = observation[question] > 0
        p_yes = self._p_yes(carry.beliefs, question)
        after = jax.vmap(self.people.after_answer, in_axes=(0, None, None, None))
        beliefs = after(carry.beliefs, jnp.int32(0), question, yes)
        likelihoods = carry.likelihoods * jnp.where(yes, p_yes, 1.0 - p_yes)
        return carry.replace(
            beliefs=jnp.where(asked, beliefs, carry.beliefs),
            likelihoods=jnp.where(asked, likelihoods, carry.likelihoods),
            asked=carry.asked | (asked & (jnp.arange(num_questions) == question)),
            count=carry.count + asked,
        )


def _normalised(weights: jax.Array) -> jax.Array:
    """Weights divided by their sum; uniform where all are zero."""
    total = weights.sum()
    return jnp.where(total > 0.0, weights / jnp.where(total > 0.0, total, 1.0), 1.0 / weights.size)


def yardsticks(params: TrustHandoverParams | ClarificationParams, num_actions: int) -> dict[str, Any]:
    """The untrained policies that a trained one is compared with, by name.

    Args:
        params: Parameters of the environment.
        num_actions: Number of its actions.
    """
    if isinstance(params, TrustHandoverParams):
        constants = {
            HAND_OVER: "always hand over",
            SLOW: "always slow",
            ASK: "always ask",
            WAIT: "always wait",
        }
        rule = {"published trust rule": TrustRule.for_params(params)}
    else:
        people = params.people
        constants = {action: f"always ask {label!r}" for action, label in enumerate(people.questions)} | {
            people.num_questions + i: f"act on {label!r} at once" for i, label in enumerate(people.hypotheses)
        }
        rule = {"question planner": QuestionPlanner.for_params(params)}
    fixed = {name: Constant(jnp.int32(action)) for action, name in constants.items()}
    return rule | {"random": UniformRandom(num_actions)} | fixed
