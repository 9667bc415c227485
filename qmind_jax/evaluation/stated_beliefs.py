"""What a policy says it believes, against what then happens."""

import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.evaluation.playing import Play, start
from qmind_jax.policies.policy import Policy


class StatingPolicy(Policy, Protocol):
    """A policy that states how sure it is, as the planners of :mod:`qmind_jax.policies` do."""

    def confidence(self, carry: Any) -> jax.Array:
        """Believed probability that the action just chosen works, or that the answer is "yes"."""


@struct.dataclass
class StatedBeliefs:
    """Statements of many episodes; every leaf has shape ``(steps, episodes)``.

    Attributes:
        probability: What the policy gave to success, or to a "yes", in [0, 1].
        well: Whether it came so, bool.
        acts: Steps that handed over or acted on a hypothesis, bool.
        asks: Steps that asked, bool.
    """

    probability: jax.Array
    well: jax.Array
    acts: jax.Array
    asks: jax.Array

    @property
    def of_actions(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and outcomes of actions, float and bool ``(n,)``, as scores take them."""
        return self._where(self.acts)

    @property
    def of_answers(self) -> tuple[np.ndarray, np.ndarray]:
        """The same of answers: probability of "yes", and whether it was."""
        return self._where(self.asks)

    def _where(self, mask: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        mask = np.asarray(mask)
        return np.asarray(self.probability)[mask], np.asarray(self.well)[mask]


@functools.partial(jax.jit, static_argnames=("env", "episodes", "steps"))
def stated_beliefs(
    policy: StatingPolicy, env: Environment, params: Any, key: jax.Array, episodes: int, steps: int
) -> StatedBeliefs:
    """Play episodes and keep what the policy believed at every step.

    Args:
        policy: A policy with a method ``confidence``.
        env: The environment that it acts in.
        params: Its parameters.
        key: JAX random key.
        episodes: How many, all at once: every step of each is kept.
        steps: Steps to play of each: the horizon, or fewer.

    Raises:
        ValueError: If ``episodes`` or ``steps`` is below 1.
    """
    if episodes < 1 or steps < 1:
        raise ValueError(f"episodes and steps must be at least 1, got episodes={episodes}, steps={steps}")
    play, step, _ = start(policy, env, params, key, episodes)

    def one_more(play: Play, time: jax.Array) -> tuple[Play, StatedBeliefs]:
        play, moment = step(play, time)
        happened = moment.happening
        return play, StatedBeliefs(
            probability=jax.vmap(policy.confidence)(moment.carry),
            well=happened.well,
            acts=happened.acts & moment.running,
            asks=happened.asks & moment.running,
        )

    return lax.scan(one_more, play, jnp.arange(steps))[1]
