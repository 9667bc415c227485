"""The planner that asks while a question is worth its price."""

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.policies.ablation import order_blind as blind_to_order
from qmind_jax.policies.weights import check_weights, normalised


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
        prior: Weight of each hypothesis before the first answer, at least 0, ``(H,)``; None for equal ones.
    """

    people: AnsweringPerson
    ask_cost: jax.Array
    error_cost: jax.Array
    max_questions: jax.Array
    repeat: bool = struct.field(pytree_node=False, default=False)
    prior: jax.Array | None = None

    @classmethod
    def for_params(
        cls,
        params: ClarificationParams,
        *,
        repeat: bool = False,
        order_blind: bool = False,
        prior: jax.Array | None = None,
    ) -> "QuestionPlanner":
        """The planner that knows the costs and takes everybody for the first person.

        Args:
            params: Parameters of the environment.
            repeat: Whether it may ask a question again.
            order_blind: Plan as if every question were the first, see
                :func:`~qmind_jax.policies.order_blind`.
            prior: Weight of each hypothesis, ``(H,)``; None for equal ones, as in the environment.

        Raises:
            ValueError: If the prior has another shape, a negative or infinite weight, or only zeros.
        """
        person = params.people[:1]
        return cls(
            people=blind_to_order(person) if order_blind else person,
            ask_cost=params.ask_cost,
            # Being wrong also forgoes the reward for being right.
            error_cost=params.error_cost + params.success_reward,
            max_questions=params.max_questions,
            repeat=repeat,
            prior=None if prior is None else check_weights("prior", prior, person.num_hypotheses),
        )

    def init(self, params: ClarificationParams) -> QuestionPlannerCarry:
        """Nothing asked."""
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
        posterior = self.posterior(carry)
        value = self.value_of_information(carry.beliefs, posterior)
        if not self.repeat:
            value = jnp.where(carry.asked, -jnp.inf, value)
        asks = (value.max() > self.ask_cost) & (carry.count < self.max_questions - 1)
        act = self.people.num_questions + jnp.argmax(posterior)
        action = jnp.where(asks, jnp.argmax(value), act).astype(jnp.int32)
        return action, carry.replace(action=action)

    def posterior(self, carry: QuestionPlannerCarry) -> jax.Array:
        """Probability of each hypothesis after the answers so far, ``(H,)``; uniform if none is possible."""
        return normalised(carry.likelihoods if self.prior is None else carry.likelihoods * self.prior)

    def confidence(self, carry: QuestionPlannerCarry) -> jax.Array:
        """Believed probability that the hypothesis just acted on is right, or that the answer is "yes"."""
        posterior = self.posterior(carry)
        num_questions = self.people.num_questions
        p_yes = self._p_yes(carry.beliefs, jnp.clip(carry.action, 0, num_questions - 1)) @ posterior
        # Weights that sum to 1 but for rounding can lift certainty above it.
        return jnp.minimum(jnp.where(carry.action < num_questions, p_yes, posterior.max()), 1.0)

    def value_of_information(self, beliefs: jax.Array, posterior: jax.Array) -> jax.Array:
        """Value of each question, in units of reward.

        Args:
            beliefs: The person's belief under each hypothesis, ``(H, ...)``.
            posterior: Probability of each hypothesis, ``(H,)``.

        Returns:
            Shape ``(Q,)``.
        """
        yes, no = self._after_answers(beliefs, posterior)
        return self.error_cost * (yes.max(axis=-1) + no.max(axis=-1) - posterior.max())

    def information_gain(self, beliefs: jax.Array, posterior: jax.Array) -> jax.Array:
        """Expected fall of the entropy of the posterior through each question, in bits.

        Args:
            beliefs: The person's belief under each hypothesis, ``(H, ...)``.
            posterior: Probability of each hypothesis, ``(H,)``.

        Returns:
            Shape ``(Q,)``, at least 0 up to rounding.
        """
        joint = jnp.stack(self._after_answers(beliefs, posterior))
        # Entropy now, less the entropy given the answer: that of both together less that of the answer alone.
        given_answer = _entropy(joint).sum(axis=0) - _entropy(joint.sum(axis=-1, keepdims=True)).sum(axis=0)
        return _entropy(posterior) - given_answer

    def _after_answers(self, beliefs: jax.Array, posterior: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Probability of each hypothesis together with a "yes", and with a "no", ``(Q, H)`` each."""
        questions = jnp.arange(self.people.num_questions)
        p_yes = jax.vmap(lambda question: self._p_yes(beliefs, question))(questions)
        return posterior * p_yes, posterior * (1.0 - p_yes)

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


def _entropy(probabilities: jax.Array) -> jax.Array:
    """Sum of ``-p log2 p`` over the last axis; the sum of the probabilities need not be 1."""
    positive = jnp.where(probabilities > 0.0, probabilities, 1.0)
    return -(positive * jnp.log2(positive)).sum(axis=-1)
