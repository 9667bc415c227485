"""Many lanes, many steps: the loop under training, benchmarks and whatever else plays on and on.

Inside, lanes lie along the last axis and short vectors are taken apart into their entries, so that every
operation of a step runs over one long array. Nothing of that shows outside.
"""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax import noise
from qmind_jax.entries import LONGEST
from qmind_jax.environment import Environment
from qmind_jax.policies.policy import Policy, act_batch, fresh_carry

FEW_LANES = 8192
"""Up to so many lanes, steps derive their keys with :func:`qmind_jax.noise.fold_in`, beyond with JAX's own.

The keys are the same. JAX's own takes long against a step of few lanes. Against one of many that is nothing,
and XLA's threads hinder each other less: at 16,384 lanes two of them took 4.6 instead of 6.3 ns for the step
of a lane of TrustHandover.
"""


@struct.dataclass
class Lanes:
    """Episodes in progress, each leaf with a leading axis of lanes.

    Attributes:
        state: States of the environment.
        carry: What the policy remembers.
    """

    state: Any
    carry: Any


@struct.dataclass
class Moment:
    """One step of every lane; each leaf has a leading axis of lanes.

    Attributes:
        observation: What was acted on.
        action: int32.
        carry: What the policy remembered right after choosing the action.
        reward: Of the step.
        terminated: The episode came to its natural end at this step, bool.
        truncated: The episode hit its limit at this step, bool.
        info: Of :meth:`~qmind_jax.environment.Environment.step`, the last observation of an episode included.
    """

    observation: jax.Array
    action: jax.Array
    carry: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: dict[str, jax.Array]

    @property
    def done(self) -> jax.Array:
        """Whether the episode ended at this step, bool."""
        return self.terminated | self.truncated


@struct.dataclass
class Rollout:
    """What came of it.

    Attributes:
        lanes: The episodes in progress at the end, to go on from.
        reward: Sum of the rewards of each lane, ``(lanes,)``.
        episodes: Number of episodes that each lane has finished, int32 ``(lanes,)``.
        trajectory: What ``record`` said of every step, each leaf ``(steps, lanes, ...)``; None without it.
    """

    lanes: Lanes
    reward: jax.Array
    episodes: jax.Array
    trajectory: Any


def start_lanes(env: Environment, params: Any, policy: Policy, key: jax.Array, lanes: int) -> Lanes:
    """Start an episode in every lane.

    Args:
        env: The environment.
        params: Its parameters.
        policy: A policy for one lane.
        key: JAX random key. Lane i depends on the key and on i alone.
        lanes: How many.
    """
    _, state = env.reset_batch(key, params, lanes)
    return Lanes(state, fresh_carry(policy, params, lanes))


def rollout(
    env: Environment,
    params: Any,
    policy: Policy,
    key: jax.Array,
    lanes: int | Lanes,
    steps: int,
    *,
    record: Callable[[Moment], Any] | None = None,
    unroll: int = 1,
) -> Rollout:
    """Let a policy act in many lanes for some steps; an episode that ends is followed by the next one.

    To be called under ``jit``. The luck of a lane depends on the key, the step and the number of the lane
    alone, neither on how many lanes there are nor on the devices that they are spread over.

    :func:`rollout_bytes` says how much memory that takes.

    Args:
        env: The environment that the policy acts in; for a trained policy ``config.wrap(env)``.
        params: Its parameters.
        policy: A policy for one lane. One with ``act_batch`` acts for all lanes at once, which is much
            faster than a key for every lane.
        key: JAX random key, a fresh one for every call: steps are counted from 0.
        lanes: How many episodes to start, or the lanes of an earlier rollout to go on with.
        steps: Steps of every lane, at least 1.
        record: What to keep of every step; nothing if None.
        unroll: Steps to an iteration of the compiled loop.

    Raises:
        ValueError: If ``lanes``, ``steps`` or ``unroll`` is below 1.
    """
    for name, value in (("lanes", lanes), ("steps", steps), ("unroll", unroll)):
        if not isinstance(value, Lanes) and operator.index(value) < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    key_start, key_steps = jax.random.split(key)
    if not isinstance(lanes, Lanes):
        lanes = start_lanes(env, params, policy, key_start, lanes)
    carry, number = lanes.carry, _number(lanes)
    observe = jax.vmap(env.observation, in_axes=(-1, None))
    fresh = fresh_carry(policy, params, number)
    fold_in = noise.fold_in if number <= FEW_LANES else jax.random.fold_in

    def step(loop: tuple[Any, ...], time: jax.Array) -> tuple[tuple[Any, ...], Any]:
        columns, carry, total, episodes = loop
        state = _put_together(columns)
        observation = observe(state, params)
        action, carry = act_batch(policy, carry, observation, fold_in(key_steps, 2 * time))
        _, state, reward, terminated, truncated, info = env.step_batch(
            fold_in(key_steps, 2 * time + 1), state, action, params, lanes_last=True
        )
        moment = Moment(observation, action, carry, reward, terminated, truncated, _first(info))
        carry = jax.tree.map(lambda new, old: _where(moment.done, new, old), fresh, carry)
        loop = (_take_apart(state), carry, total + reward, episodes + moment.done)
        return loop, None if record is None else record(moment)

    columns = _take_apart(jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), lanes.state))
    nothing = jnp.zeros(number, jnp.result_type(float)), jnp.zeros(number, jnp.int32)
    loop, trajectory = lax.scan(step, (columns, carry, *nothing), jnp.arange(steps), unroll=unroll)
    columns, carry, total, episodes = loop
    return Rollout(Lanes(_first(_put_together(columns)), carry), total, episodes, trajectory)


def rollout_bytes(
    env: Environment,
    params: Any,
    policy: Policy,
    lanes: int,
    steps: int,
    *,
    record: Callable[[Moment], Any] | None = None,
) -> int:
    """How much memory a compiled :func:`rollout` takes: arguments, results, and what it works with.

    The compiler is asked about two small numbers of lanes, between which memory grows in proportion. People
    are counted once, however many lanes meet them; copies that the caller makes are not.

    Args:
        env: The environment.
        params: Its parameters.
        policy: A policy for one lane.
        lanes: Number of lanes.
        steps: Steps of every lane.
        record: As in :func:`rollout`.

    Returns:
        Bytes.
    """

    def needed(lanes: int) -> int:
        def run(key: jax.Array, params: Any, policy: Policy) -> Rollout:
            return rollout(env, params, policy, key, lanes, steps, record=record)

        compiled = jax.jit(run).lower(jax.random.key(0), params, policy).compile()
        memory = compiled.memory_analysis()
        return memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes

    few, more = 1024, 2048
    first, second = needed(few), needed(more)
    return first + (second - first) * (lanes - few) // (more - few)


def _number(lanes: Lanes) -> int:
    return jax.tree.leaves(lanes.state)[0].shape[0]


def _where(condition: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """``jnp.where`` with a condition per lane."""
    return jnp.where(condition.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _first(tree: Any) -> Any:
    """With the axis of lanes first instead of last."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), tree)


@struct.dataclass
class _Entries:
    """A short vector in parts, one array of lanes for each entry."""

    parts: tuple[jax.Array, ...]


def _take_apart(state: Any) -> Any:
    """Every short vector in parts; lanes are last."""
    return jax.tree.map(
        lambda leaf: _Entries(tuple(leaf)) if leaf.ndim == 2 and 0 < leaf.shape[0] <= LONGEST else leaf, state
    )


def _put_together(columns: Any) -> Any:
    """The inverse of :func:`_take_apart`."""
    return jax.tree.map(
        lambda leaf: jnp.stack(leaf.parts) if isinstance(leaf, _Entries) else leaf,
        columns,
        is_leaf=lambda leaf: isinstance(leaf, _Entries),
    )
