"""Clarification: find out by questions what a person means, then act on it.

Source: ``ClarificationEnv`` of quantum-mind. People and answers are simulated.
"""

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces

from qmind_jax import noise as random
from qmind_jax.entries import put, select
from qmind_jax.environment import Environment, Transition
from qmind_jax.envs.checks import check_cost, check_count, check_people
from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.people.population import as_population
from qmind_jax.people.published import default_domain


@struct.dataclass
class ClarificationNoise:
    """Uniform numbers in [0, 1), float32.

    Attributes:
        answer: The answer is "yes" if this is below its probability.
        person: Which person the next episode has.
        intent: What that person means; all hypotheses are equally likely.
    """

    answer: jax.Array
    person: jax.Array
    intent: jax.Array


@struct.dataclass
class ClarificationState:
    """State of one lane.

    Attributes:
        person: Index into the population, int32.
        intent: The hypothesis that the person means, int32, hidden from the agent.
        belief: What the next answer depends on, float or complex, shape ``(d,)``; see the family.
        answers: Last answer to each question, float32 ``(Q,)``: +1 yes, -1 no, 0 never asked.
        count: Questions asked so far, int32.
        finished: Whether the agent has acted, bool.
    """

    person: jax.Array
    intent: jax.Array
    belief: jax.Array
    answers: jax.Array
    count: jax.Array
    finished: jax.Array


@struct.dataclass
class ClarificationParams:
    """Parameters; replace ``people`` to change the domain, nothing else needs rebuilding.

    Attributes:
        people: A population that answers questions; each episode draws one person.
        ask_cost: Cost of one question.
        success_reward: Reward for acting on the right hypothesis.
        error_cost: Cost of acting on a wrong one, and of running out of questions.
        max_questions: The episode is truncated when so many have been asked; at least 1.
    """

    people: AnsweringPerson
    ask_cost: jax.Array | float = 0.3
    success_reward: jax.Array | float = 1.0
    error_cost: jax.Array | float = 5.0
    max_questions: jax.Array | int = 6


class Clarification(Environment[ClarificationState, ClarificationParams, ClarificationNoise]):
    """Ask a person questions at a price, then act on the hypothesis that seems right.

    **Actions** (``Discrete(Q + H)``): ``0 .. Q-1`` ask a question, ``Q .. Q+H-1`` act on a hypothesis.
    **Observation** (float32 ``(Q,)`` in [-1, 1]): the last answer to each question, 0 if never asked.
    **Reward**: ``-ask_cost`` per question; acting gives ``success_reward`` or ``-error_cost``.
    **End**: acting terminates. The last allowed question truncates and costs ``error_cost`` more.
    **Info**: ``question_answer`` (int32; 1 yes, 0 no, -1 nothing asked), ``correct`` (bool; acted on
    the right hypothesis), ``intent`` (int32; hidden from the agent, for evaluation only).

    Inside ``jit`` an action outside the space is clipped into it.
    """

    @property
    def default_params(self) -> ClarificationParams:
        """The published domain: three objects, three questions, one person."""
        return ClarificationParams(people=as_population(default_domain()))

    def sample_noise(self, key: jax.Array, batch_shape: tuple[int, ...] = ()) -> ClarificationNoise:
        """One Threefry block per lane; ``intent`` has a resolution of 2**-16."""
        answer, person, intent = random.uniforms(key, batch_shape)
        return ClarificationNoise(answer=answer, person=person, intent=intent)

    def initial(self, noise: ClarificationNoise, params: ClarificationParams) -> ClarificationState:
        """Draw a person and what the person means."""
        people = params.people
        person = random.choose(noise.person, len(people))
        intent = random.choose(noise.intent, people.num_hypotheses)
        return ClarificationState(
            person=person,
            intent=intent,
            belief=people.initial_belief(person, intent),
            answers=jnp.zeros(people.num_questions, jnp.float32),
            count=jnp.int32(0),
            finished=jnp.bool_(False),
        )

    def transition(
        self,
        noise: ClarificationNoise,
        state: ClarificationState,
        action: jax.Array,
        params: ClarificationParams,
    ) -> Transition:
        """Ask or act."""
        people = params.people
        num_questions = people.num_questions
        action = jnp.clip(action, 0, num_questions + people.num_hypotheses - 1)
        over = state.finished | self.is_truncated(state, params)
        asks = (action < num_questions) & ~over
        acts = (action >= num_questions) & ~over

        question = jnp.minimum(action, num_questions - 1)
        yes, belief = people.answer(state.belief, state.person, question, noise.answer)
        next_state = state.replace(
            belief=select(asks, belief, state.belief),
            answers=put(state.answers, question, jnp.where(yes, 1.0, -1.0), asks),
            count=state.count + asks,
            finished=state.finished | acts,
        )

        correct = acts & (action - num_questions == state.intent)
        out_of_questions = asks & self.is_truncated(next_state, params)
        reward = jnp.where(
            asks,
            -params.ask_cost - jnp.where(out_of_questions, params.error_cost, 0.0),
            jnp.where(acts, jnp.where(correct, params.success_reward, -params.error_cost), 0.0),
        )
        info = {
            "question_answer": jnp.where(asks, yes.astype(jnp.int32), -1),
            "correct": correct,
            **self.state_info(next_state, params),
        }
        return Transition(next_state, reward, next_state.finished, info)

    def observation(self, state: ClarificationState, params: ClarificationParams) -> jax.Array:
        """The last answers; neither their order nor their number is seen."""
        return state.answers

    def is_truncated(self, state: ClarificationState, params: ClarificationParams) -> jax.Array:
        """Whether the questions are used up."""
        return state.count >= params.max_questions

    def state_info(self, state: ClarificationState, params: ClarificationParams) -> dict[str, jax.Array]:
        """``intent``."""
        return {"intent": state.intent}

    def is_terminated(self, state: ClarificationState, params: ClarificationParams) -> jax.Array:
        """Whether the agent has acted."""
        return state.finished

    def action_space(self, params: ClarificationParams) -> spaces.Discrete:
        """``Discrete(Q + H)``."""
        return spaces.Discrete(params.people.num_questions + params.people.num_hypotheses)

    def observation_space(self, params: ClarificationParams) -> spaces.Box:
        """``Box(-1, 1, (Q,))``."""
        return spaces.Box(-1.0, 1.0, (params.people.num_questions,), jnp.float32)

    def check_params(self, params: ClarificationParams) -> None:
        """Raise if the people answer no questions or a number makes no sense."""
        check_people(params.people, AnsweringPerson)
        check_cost("ask_cost", params.ask_cost)
        check_cost("success_reward", params.success_reward)
        check_cost("error_cost", params.error_cost)
        check_count("max_questions", params.max_questions)
