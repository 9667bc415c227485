"""Returns of a policy over whole episodes."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.evaluation.by_person import ByPerson, by_person
from qmind_jax.evaluation.playing import start
from qmind_jax.evaluation.risk import WorstPeople, worst_people
from qmind_jax.policies.policy import Policy

LANES = 8192
"""Episodes that run side by side; more of them follow one batch after the other, so that memory does not grow
with anything but one row of numbers per episode."""


class MeanReturn(NamedTuple):
    """Mean return of a policy and its standard error."""

    mean: float
    standard_error: float


@struct.dataclass
class Returns:
    """What came of the episodes of a policy, undiscounted.

    Attributes:
        per_episode: Return of each, float ``(episodes,)``.
        lengths: Steps of each, int32 ``(episodes,)``.
        person: Whom each was with, int32 ``(episodes,)``.
        counts: How often things happened in each, by name, int32 ``(episodes,)``. Hand-overs:
            ``hand_overs`` (slow ones too), ``slow``, ``failures``, ``asks``, ``waits``. Clarification:
            ``questions``, and ``correct``, whose mean is the accuracy.
        people: Number of people in the population.
    """

    per_episode: jax.Array
    lengths: jax.Array
    person: jax.Array
    counts: dict[str, jax.Array]
    people: int = struct.field(pytree_node=False)

    @property
    def mean(self) -> jax.Array:
        """Mean return."""
        return self.per_episode.mean(axis=-1)

    @property
    def standard_error(self) -> jax.Array:
        """Standard error of the mean, for these people and other episodes."""
        return _standard_error(self.per_episode)

    @property
    def by_person(self) -> ByPerson:
        """Mean return of each person."""
        return by_person(self.per_episode, self.person, self.people)

    def worst_people(self, share: float = 0.1) -> WorstPeople:
        """Mean over the people of the lowest returns; see :func:`~qmind_jax.evaluation.worst_people`."""
        return worst_people(self.per_episode, self.person, self.people, share)

    @property
    def mean_counts(self) -> dict[str, tuple[jax.Array, jax.Array]]:
        """Mean of every count and its standard error, by name."""
        return {
            name: (count.mean(axis=-1), _standard_error(count.astype(self.per_episode.dtype)))
            for name, count in self.counts.items()
        }


@functools.partial(jax.jit, static_argnames=("env", "episodes", "balanced"))
def evaluate(
    policy: Policy,
    env: Environment,
    params: Any,
    key: jax.Array,
    episodes: int = 10_000,
    *,
    balanced: bool = False,
) -> Returns:
    """Play whole episodes.

    The noise depends on ``key`` alone: two policies evaluated under one key meet the same people with
    the same luck. Episode i depends on the key and on i, not on how many there are.

    Args:
        policy: A policy for one lane.
        env: The environment that the policy acts in; for a trained policy ``config.wrap(env)``.
        params: Its parameters.
        key: JAX random key.
        episodes: How many, at least 2.
        balanced: Meet the people in turn, so that all have equally many episodes (or one more than others),
            instead of drawing one for each episode. The mean then has no luck of the draw.

    Raises:
        ValueError: If ``episodes`` is below 2.
    """
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    people = len(params.people)
    lanes = min(LANES, episodes)

    def batch(number: jax.Array) -> tuple[jax.Array, ...]:
        in_turn = (number * lanes + jnp.arange(lanes)) % people if balanced else None
        play, step, person = start(policy, env, params, jax.random.fold_in(key, number), lanes, in_turn)

        def one_more(loop: tuple[Any, ...]) -> tuple[Any, ...]:
            time, play, total, length, counts = loop
            play, moment = step(play, time)
            counts = {
                name: count + (moment.running & moment.happening.counts[name])
                for name, count in counts.items()
            }
            return time + 1, play, total + moment.reward, length + moment.running, counts

        def going_on(loop: tuple[Any, ...]) -> jax.Array:
            return ~jnp.all(loop[1].over)

        _, first = jax.eval_shape(step, play, jnp.int32(0))
        none = jnp.zeros(lanes, jnp.int32)
        nothing: tuple[Any, ...] = (
            jnp.int32(0),
            play,
            jnp.zeros(lanes, first.reward.dtype),
            none,
            dict.fromkeys(first.happening.counts, none),
        )
        _, _, total, length, counts = lax.while_loop(going_on, one_more, nothing)
        return total, length, person, counts

    batches = -(-episodes // lanes)
    rows = lax.map(batch, jnp.arange(batches)) if batches > 1 else batch(jnp.int32(0))
    total, length, person, counts = jax.tree.map(lambda row: row.reshape(-1)[:episodes], rows)
    return Returns(total, length, person, counts, people)


def _standard_error(values: jax.Array) -> jax.Array:
    return values.std(axis=-1, ddof=1) / jnp.sqrt(values.shape[-1])
