"""The untrained policies that every table compares with."""

from typing import Any

import jax.numpy as jnp

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT, TrustHandoverParams
from qmind_jax.policies.question_planner import QuestionPlanner
from qmind_jax.policies.simple import Constant, UniformRandom
from qmind_jax.policies.trust_rule import TrustRule


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
