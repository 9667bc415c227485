"""What a step of an episode was, in the words of its environment."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.environment import Environment, Transition
from qmind_jax.envs.clarification import Clarification
from qmind_jax.envs.trust_handover import ASK, SLOW, WAIT, TrustHandover
from qmind_jax.wrappers.wrapper import Wrapper


@struct.dataclass
class Happening:
    """One step, as it is counted. All leaves are bool scalars.

    Attributes:
        counts: What tables count, by name. Hand-overs: ``hand_overs`` (slow ones too), ``slow``,
            ``failures``, ``asks``, ``waits``. Clarification: ``questions``, ``correct``.
        acts: Whether the agent did something that can go wrong: handed over, or acted on a hypothesis.
        asks: Whether it asked a question.
        well: Whether what it did worked, or the answer was "yes".
    """

    counts: dict[str, jax.Array]
    acts: jax.Array
    asks: jax.Array
    well: jax.Array


def happening(env: Environment, action: jax.Array, after: Transition, params: Any) -> Happening:
    """What one step of one lane was.

    Args:
        env: The environment, wrapped or not. Of one that is not known here nothing is counted.
        action: The action, int32.
        after: What came of it.
        params: Parameters of the environment.
    """
    base, state = unwrapped(env, after.state)
    action = jnp.clip(action, 0, env.action_space(params).n - 1)
    if isinstance(base, TrustHandover):
        acts, asks = action <= SLOW, action == ASK
        worked = state.outcome > 0
        counts = {
            "hand_overs": acts,
            "slow": action == SLOW,
            "failures": acts & ~worked,
            "asks": asks,
            "waits": action == WAIT,
        }
        return Happening(counts, acts, asks, jnp.where(acts, worked, asks & (state.answer > 0)))
    if isinstance(base, Clarification):
        answer, correct = after.info["question_answer"], after.info["correct"]
        asks = action < params.people.num_questions
        return Happening({"questions": asks, "correct": correct}, ~asks, asks, correct | (answer == 1))
    nothing = jnp.bool_(False)
    return Happening({}, nothing, nothing, nothing)


def unwrapped(env: Environment, state: Any) -> tuple[Environment, Any]:
    """The innermost environment and its part of a state."""
    while isinstance(env, Wrapper):
        env, state = env.env, env.inner_state(state)
    return env, state
