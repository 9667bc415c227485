"""What the best policies would earn on average: an optimum to stand beside the returns of agents."""

from typing import Any

import numpy as np

from qmind_jax.envs.clarification import ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.evaluation.regret import optima
from qmind_jax.evaluation.returns import MeanReturn

FEWEST_SOLVED, MOST_SOLVED = 30, 1000
"""People who may stand for a larger population."""


def best_possible(params: Any) -> MeanReturn | None:
    """Mean over the people of what the best policy earns that knows the person, if that takes seconds only.

    Of many people, or of people whose optimum takes long, evenly spaced ones stand for all. The standard
    error is that of their choice, 0 where everybody counts; the error of interpolation, which
    :func:`~qmind_jax.policies.optimal.handover_optimum` estimates, is not in it.

    Args:
        params: Parameters of ``Clarification`` or ``TrustHandover``.

    Returns:
        None if not even a few people can be solved.

    Raises:
        TypeError: For the parameters of another environment.
    """
    number = len(params.people)
    solved = min(number, MOST_SOLVED, _solved_in_seconds(params))
    if solved < min(number, FEWEST_SOLVED):
        return None
    chosen = np.linspace(0, number - 1, solved).astype(np.int32)
    values = np.asarray(optima(params.replace(people=params.people[chosen])))
    left_out = 1.0 - solved / number
    error = values.std(ddof=1) * np.sqrt(left_out / solved) if left_out else 0.0
    return MeanReturn(float(values.mean()), float(error))


def _solved_in_seconds(params: Any) -> int:
    """Roughly how many people can be solved in some seconds."""
    if isinstance(params, ClarificationParams):
        histories = (2 * params.people.num_questions) ** int(params.max_questions)
        return 50_000_000 // histories
    if isinstance(params, TrustHandoverParams):
        return 20_000 // int(params.n_steps)
    return MOST_SOLVED  # Of others optima says that it does not know them.
