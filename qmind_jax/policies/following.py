"""How a policy follows the trust of a person whose law it knows, from what it does and sees."""

import jax
import jax.numpy as jnp

from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT
from qmind_jax.people.trust import TrustingPerson, TrustState


def trust_after_step(
    people: TrustingPerson,
    person: jax.Array,
    trust: TrustState,
    action: jax.Array,
    observation: jax.Array,
) -> TrustState:
    """Trust after the robot has acted and seen what came of it.

    Args:
        people: Population.
        person: Index of the person, int32.
        trust: The pair (z, x) before the action.
        action: int32, -1 for none yet: then nothing changes.
        observation: What the environment shows after the action: last outcome, last answer.
    """
    outcome, answer = observation[0] > 0, observation[1] > 0
    moves = {
        HAND_OVER: people.after_outcome(trust, person, outcome),
        SLOW: people.after_outcome(trust, person, outcome),
        ASK: people.after_answer(trust, person, answer),
        WAIT: people.after_wait(trust, person),
    }
    for candidate, moved in moves.items():
        trust = jax.tree.map(
            lambda new, old, taken=action == candidate: jnp.where(taken, new, old), moved, trust
        )
    return trust
