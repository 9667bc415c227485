"""Both tasks as an author of a gymnax environment would write them: the obvious implementation.

One person and one lane at a time, a key of its own for every step, which ``jax.random`` splits; the episode
starts afresh at every step and is selected where the last one has ended (gymnax's ``step``); matrices and
gathers where the formulas have them. Batches are ``vmap``.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments.environment import Environment

from qmind_jax.envs import ClarificationParams, TrustHandoverParams
from qmind_jax.envs.trust_handover import ASK, SLOW

Step = tuple[jax.Array, Any, jax.Array, jax.Array, dict[str, jax.Array]]


@struct.dataclass
class HandoverState:
    """A person's Bloch vector, what the agent has seen, and the time."""

    person: jax.Array
    z: jax.Array
    x: jax.Array
    outcome: jax.Array
    answer: jax.Array
    time: jax.Array


class PlainHandover(Environment):
    """``TrustHandover-v0`` with people of the qubit family."""

    def reset_env(self, key: jax.Array, params: TrustHandoverParams) -> tuple[jax.Array, HandoverState]:
        """Draw a person."""
        people = params.people
        person = jax.random.randint(key, (), 0, people.phi0.shape[0])
        angle, nothing = people.phi0[person], jnp.float32(0.0)
        state = HandoverState(person, jnp.cos(angle), jnp.sin(angle), nothing, nothing, jnp.int32(0))
        return self.get_obs(state, params), state

    def step_env(
        self, key: jax.Array, state: HandoverState, action: jax.Array, params: TrustHandoverParams
    ) -> Step:
        """Hand over, ask or wait."""
        key_success, key_answer = jax.random.split(key)
        people, person = params.people, state.person
        trust = (1.0 + state.z) / 2.0
        slow, hands_over, asks = action == SLOW, action <= SLOW, action == ASK

        p_fail = (1.0 - trust) * jnp.where(slow, params.slow_factor, 1.0)
        success = jax.random.uniform(key_success) >= p_fail
        yes = jax.random.uniform(key_answer) < trust

        angle = jnp.where(success, -people.a_pos[person], people.a_neg[person])
        coherence = 1.0 - people.gamma[person]
        rotation = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
        rotated = rotation @ jnp.array([state.z, state.x])
        handed_over = rotated * jnp.array([1.0, coherence])
        asked = jnp.array([jnp.where(yes, 1.0, -1.0), 0.0])
        waited = jnp.array([state.z, state.x * coherence])
        z, x = jnp.where(hands_over, handed_over, jnp.where(asks, asked, waited))

        reward = jnp.where(
            hands_over,
            jnp.where(success, 1.0, -params.fail_cost) - jnp.where(slow, params.slow_cost, 0.0),
            jnp.where(asks, -params.ask_cost, -params.wait_cost),
        )
        state = HandoverState(
            person=person,
            z=z,
            x=x,
            outcome=jnp.where(hands_over, jnp.where(success, 1.0, -1.0), state.outcome),
            answer=jnp.where(asks, jnp.where(yes, 1.0, -1.0), state.answer),
            time=state.time + 1,
        )
        return self.get_obs(state, params), state, reward, jnp.bool_(False), {"p_trust": (1.0 + z) / 2.0}

    def get_obs(
        self, state: HandoverState, params: TrustHandoverParams | None = None, key: jax.Array | None = None
    ) -> jax.Array:
        """Last outcome, last answer, fraction of the episode."""
        return jnp.array([state.outcome, state.answer, state.time / params.n_steps])

    def is_truncated(self, state: HandoverState, params: TrustHandoverParams) -> jax.Array:
        """Whether all steps have been taken."""
        return state.time >= params.n_steps


@struct.dataclass
class QuestionState:
    """A person's intent and state vector, the answers, the number of questions, and whether it is over."""

    person: jax.Array
    intent: jax.Array
    psi: jax.Array
    answers: jax.Array
    count: jax.Array


class PlainClarification(Environment):
    """``Clarification-v0`` with people of projective answers."""

    def reset_env(self, key: jax.Array, params: ClarificationParams) -> tuple[jax.Array, QuestionState]:
        """Draw a person and what the person means."""
        key_person, key_intent = jax.random.split(key)
        people, hypotheses, _ = params.people.states.shape
        person = jax.random.randint(key_person, (), 0, people)
        intent = jax.random.randint(key_intent, (), 0, hypotheses)
        psi = params.people.states[person, intent]
        answers = jnp.zeros(params.people.projectors.shape[1])
        state = QuestionState(person, intent, psi, answers, jnp.int32(0))
        return answers, state

    def step_env(
        self, key: jax.Array, state: QuestionState, action: jax.Array, params: ClarificationParams
    ) -> Step:
        """Ask or act."""
        questions = params.people.projectors.shape[1]
        asks = action < questions
        question = jnp.minimum(action, questions - 1)
        kept = params.people.projectors[state.person, question] @ state.psi
        yes = jax.random.uniform(key) < jnp.sum(kept**2)
        collapsed = jnp.where(yes, kept, state.psi - kept)
        collapsed = collapsed / jnp.maximum(jnp.linalg.norm(collapsed), 1e-7)

        count = state.count + asks
        correct = action - questions == state.intent
        out_of_questions = asks & (count >= params.max_questions)
        reward = jnp.where(
            asks,
            -params.ask_cost - jnp.where(out_of_questions, params.error_cost, 0.0),
            jnp.where(correct, params.success_reward, -params.error_cost),
        )
        answers = jnp.where(asks, state.answers.at[question].set(jnp.where(yes, 1.0, -1.0)), state.answers)
        psi = jnp.where(asks, collapsed, state.psi)
        state = QuestionState(state.person, state.intent, psi, answers, count)
        return answers, state, reward, ~asks, {"correct": correct & ~asks}

    def is_truncated(self, state: QuestionState, params: ClarificationParams) -> jax.Array:
        """Whether the questions are used up."""
        return state.count >= params.max_questions
