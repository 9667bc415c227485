"""Evaluation on more people than fit into memory at once."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from qmind_jax.environment import Environment
from qmind_jax.evaluation.by_person import ByPerson
from qmind_jax.evaluation.returns import evaluate
from qmind_jax.people.population import Person
from qmind_jax.policies.policy import Policy
from qmind_jax.registry import override


def evaluate_in_parts(
    policy: Policy,
    env: Environment,
    params: Any,
    parts: Iterable[Person],
    key: jax.Array,
    episodes_per_person: int = 16,
) -> ByPerson:
    """Mean return of every person of a population that comes in parts.

    At most two parts are in memory at a time, so that a generator which draws or reads them goes through any
    number of people. Parts of equal size share one compiled program.

    Args:
        policy: A policy for one lane.
        env: The environment that it acts in; for a trained policy ``config.wrap(env)``.
        params: Parameters of the environment; their people are not looked at.
        parts: Populations, one after the other, of one family.
        key: JAX random key. The luck of a person depends on the key, the number of the part, and the
            person's place in it.
        episodes_per_person: At least 2.

    Returns:
        NumPy arrays over all people, in order.

    Raises:
        ValueError: If there are no parts or ``episodes_per_person`` is below 2.
        TypeError: If a part is no population that fits the environment.
    """
    if episodes_per_person < 2:
        raise ValueError(f"episodes_per_person must be at least 2, got {episodes_per_person}")
    rows = []
    for number, people in enumerate(parts):
        with_them = override(env, params, people=people)
        episodes = episodes_per_person * len(people)
        returns = evaluate(policy, env, with_them, jax.random.fold_in(key, number), episodes, balanced=True)
        rows.append(jax.tree.map(np.asarray, returns.by_person))
    if not rows:
        raise ValueError("parts must be at least one population, got none")
    return jax.tree.map(lambda *parts: np.concatenate(parts), *rows)
