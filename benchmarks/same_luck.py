"""Our environments with the luck of the printed sessions, number for number."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.published_tables import printed_luck
from benchmarks.sessions import OVER, Sessions
from qmind_jax.environment import Environment
from qmind_jax.envs.clarification import ClarificationNoise, ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandoverNoise, TrustHandoverParams
from qmind_jax.evaluation.happenings import happening
from qmind_jax.policies import Policy


def handover_sessions(
    policy: Policy, env: Environment, params: TrustHandoverParams, sessions: int
) -> Sessions:
    """Sessions of hand-overs with the printed luck; the people are met in turn.

    Args:
        policy: A policy that never waits: waiting uses none of the printed numbers.
        env: The environment.
        params: Its parameters, with the people.
        sessions: How many.
    """
    luck = printed_luck(sessions, int(params.n_steps))
    noise = TrustHandoverNoise(outcome=luck, person=_in_turn(luck, len(params.people)))
    actions, returns, counts = _play(policy, env, params, noise)
    return Sessions(np.asarray(actions), handover_quantities(returns, counts))


def question_sessions(
    policy: Policy, env: Environment, params: ClarificationParams, sessions: int
) -> Sessions:
    """Sessions of questions with the printed luck; the hypotheses are meant in turn.

    Args:
        policy: A policy.
        env: The environment.
        params: Its parameters, with one person and no reward for success.
        sessions: How many.
    """
    luck = printed_luck(sessions, int(params.max_questions))
    # Acting uses no number, so there is always one for the last step.
    luck = np.pad(luck, ((0, 0), (0, 1)))
    intent = _in_turn(luck, len(params.people.hypotheses))
    noise = ClarificationNoise(answer=luck, person=np.zeros_like(luck), intent=intent)
    actions, returns, counts = _play(policy, env, params, noise)
    return Sessions(np.asarray(actions), question_quantities(returns, counts))


def handover_quantities(returns: jax.Array, counts: dict[str, jax.Array]) -> dict[str, np.ndarray]:
    """What the tables of hand-overs tell of sessions, by name; all leaves are ``(sessions,)``."""
    # A success, which the environment rewards with 1, costs nothing in the tables.
    successes = counts["hand_overs"] - counts["failures"]
    quantities = {"cost": successes - returns, "failures": counts["failures"], "asks": counts["asks"]}
    return {name: np.asarray(values, float) for name, values in quantities.items()}


def question_quantities(returns: jax.Array, counts: dict[str, jax.Array]) -> dict[str, np.ndarray]:
    """What the table of questions tells of sessions, by name; all leaves are ``(sessions,)``."""
    quantities = {"cost": -returns, "accuracy": counts["correct"], "questions": counts["questions"]}
    return {name: np.asarray(values, float) for name, values in quantities.items()}


@functools.partial(jax.jit, static_argnames="env")
def _play(
    policy: Policy, env: Environment, params: Any, noise: Any
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    """Play sessions on given noise.

    Args:
        policy: A policy for one lane that draws nothing.
        env: The environment.
        params: Its parameters.
        noise: Of every step of every session, each leaf ``(sessions, steps)``; sessions that are over by the
            last step or before it.

    Returns:
        Actions, int32 ``(sessions, steps)``; returns, float ``(sessions,)``; and counts of happenings by
        name, int32 ``(sessions,)``.
    """
    no_key = jax.random.key(0)

    def session(noise: Any) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        first = env.initial(jax.tree.map(lambda leaf: leaf[0], noise), params)

        def step(play: tuple[Any, Any], noise: Any) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
            state, carry = play
            over = env.is_terminated(state, params) | env.is_truncated(state, params)
            action, carry = policy.act(carry, env.observation(state, params), no_key)
            after = env.transition(noise, state, action, params)
            counts = happening(env, action, after, params).counts
            counts = {name: jnp.where(over, 0, count) for name, count in counts.items()}
            return (after.state, carry), (jnp.where(over, OVER, action), after.reward, counts)

        _, (actions, rewards, counts) = lax.scan(step, (first, policy.init(params)), noise)
        return actions, rewards.sum(), {name: count.sum() for name, count in counts.items()}

    return jax.vmap(session)(noise)


def _in_turn(luck: np.ndarray, choices: int) -> np.ndarray:
    """Uniform numbers that pick choice i % choices in session i, of the shape of ``luck``."""
    number = (np.arange(len(luck)) % choices + 0.5) / choices
    return np.broadcast_to(number[:, None], luck.shape)
