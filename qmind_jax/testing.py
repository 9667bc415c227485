"""Conformance check for environments: ours, and those that users write.

One call runs an environment through everything that the contract of
:class:`~qmind_jax.environment.Environment` promises::

    from qmind_jax.testing import check_environment

    def test_my_environment():
        env = MyEnvironment()
        check_environment(env, env.default_params)
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces

from qmind_jax.environment import Environment

_LANES = 16
_FEW_STEPS = 4


def check_environment(
    env: Environment, params: Any, *, key: jax.Array | None = None, steps: int = 200
) -> None:
    """Check that an environment keeps the contract of this package.

    Plays random actions and checks that

    - observations of ``reset``, ``step`` and ``final_observation`` have the shape and dtype of the
      observation space and lie in it; rewards are float scalars, ends bool scalars, nothing is NaN;
    - ``step`` maps a state to one of the same structure, shapes and dtypes, so that it can be scanned
      and is compiled once; ``info`` has one structure at all times and holds ``state_info``;
    - lane i of a batch depends on the key and i alone, and ``reset_batch`` and ``step_batch`` do to each
      lane what ``initial``, ``transition``, ``observation`` and ``is_truncated`` do to one;
    - ``is_terminated`` agrees with what ``transition`` returns;
    - an end starts the next episode and keeps the last observation of the old one, a step after the
      end (of ``transition``, which knows no next episode) changes nothing and pays 0;
    - actions outside a discrete space are clipped into it;
    - ``jit`` changes nothing.

    Integers and bools are compared exactly, floats up to rounding.

    Args:
        env: The environment.
        params: Its parameters, as given to ``step``.
        key: JAX random key of the check; a fixed one if None.
        steps: How many steps to play in each of 16 lanes. Some episode must end within them.

    Raises:
        AssertionError: If the environment breaks the contract; the message says where.
        ValueError: If the parameters do not pass ``env.check_params``.
        TypeError: As ValueError.
    """
    env.check_params(params)
    key = jax.random.key(0) if key is None else key
    keys = jax.random.split(key, 3)
    _check_signatures(env, params, keys[0])
    _check_noise(env, keys[0])
    _check_actions(env, params, keys[0])
    _check_ends(env, params, keys[1], steps)
    _check_play(env, params, keys[2], steps)


# --- shapes and dtypes ------------------------------------------------------------------------------


def _check_signatures(env: Environment, params: Any, key: jax.Array) -> None:
    """Shapes, dtypes and tree structures; nothing is computed."""
    action = jax.eval_shape(env.action_space(params).sample, key)
    observation, state = jax.eval_shape(env.reset, key, params)
    space = env.observation_space(params)
    _same("observation of reset", observation, jax.ShapeDtypeStruct(space.shape, space.dtype), weak=False)
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        _require(
            not leaf.weak_type, f"state{_name(path)} is weakly typed: give its dtype, as jnp.float32(0.0)"
        )

    noise = jax.eval_shape(env.sample_noise, key)
    after = jax.eval_shape(env.transition, noise, state, action, params)
    _same("state after transition against state after reset", after.state, state)
    _require(
        after.reward.shape == () and jnp.issubdtype(after.reward.dtype, jnp.floating),
        f"reward must be a float scalar, got {after.reward}",
    )
    info = jax.eval_shape(env.state_info, state, params)
    _require(
        set(info) <= set(after.info),
        f"info of transition lacks what state_info has, {sorted(set(info) - set(after.info))}",
    )
    _same("state_info against info of transition", info, {name: after.info[name] for name in info})
    truncated = jax.eval_shape(env.is_truncated, state, params)
    for name, end in (("terminated", after.terminated), ("is_truncated", truncated)):
        _require(end.shape == () and end.dtype == bool, f"{name} must be a bool scalar, got {end}")

    step = functools.partial(jax.eval_shape, env.step, key)
    next_observation, next_state, reward, terminated, truncated, info = step(state, action, params)
    _same("observation of step against that of reset", next_observation, observation, weak=False)
    _same("state after step against state after reset", next_state, state)
    _same("reward of step against that of transition", reward, after.reward)
    for name, end in (("terminated", terminated), ("truncated", truncated)):
        _require(end.shape == () and end.dtype == bool, f"{name} must be a bool scalar, got {end}")
    for name in ("terminated", "truncated", "final_observation"):
        _require(name in info, f"info lacks {name!r}, it has {sorted(info)}")
    _same("info['final_observation']", info["final_observation"], observation, weak=False)
    _same("info of the second step against that of the first", step(next_state, action, params)[5], info)
    if isinstance(env.action_space(params), spaces.Discrete):
        _same("info after a Python integer as action", step(next_state, 0, params)[5], info)


def _check_noise(env: Environment, key: jax.Array) -> None:
    """The noise of a lane must not depend on the size of the batch."""
    single, few, many = (_sample_noise(env, key, shape) for shape in ((), (3,), (_LANES,)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(many):
        _require(
            leaf.shape[:1] == (_LANES,),
            f"sample_noise(key, ({_LANES},)){_name(path)} must have {_LANES} lanes, got shape {leaf.shape}",
        )
    _close("noise of the first 3 lanes of 16 against a batch of 3", _lane(many, slice(3)), few, exact=True)
    _close("noise of lane 0 against sample_noise(key)", _lane(many, 0), single, exact=True)


# --- play -------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="env")
def _reference_step(env: Environment, noise: Any, state: Any, action: jax.Array, params: Any) -> tuple:
    """What ``step`` must return, put together from the kernel, with the structure of ``step``."""
    after = env.transition(noise, state, action, params)
    truncated = env.is_truncated(after.state, params)
    done = after.terminated | truncated
    fresh = env.initial(noise, params)
    next_state = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, after.state)
    info = after.info | env.state_info(after.state, params)
    info |= {
        "terminated": after.terminated,
        "truncated": truncated,
        "final_observation": env.observation(after.state, params),
    }
    return env.observation(next_state, params), next_state, after.reward, after.terminated, truncated, info


@functools.partial(jax.jit, static_argnames=("env", "shape"))
def _sample_noise(env: Environment, key: jax.Array, shape: tuple[int, ...]) -> Any:
    return env.sample_noise(key, shape)


@functools.partial(jax.jit, static_argnames="env")
def _try_actions(env: Environment, noise: Any, state: Any, actions: jax.Array, params: Any) -> Any:
    """One state and many actions."""
    return jax.vmap(env.transition, (None, None, 0, None))(noise, state, actions, params)


@functools.partial(jax.jit, static_argnames="env")
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0, None))
def _move(
    env: Environment, noise: Any, state: Any, action: jax.Array, params: Any
) -> tuple[Any, dict[str, jax.Array]]:
    """One action in each lane without next episodes: the next state, and what is known about ends."""
    after = env.transition(noise, state, action, params)
    same = jax.tree.map(lambda old, new: jnp.all(old == new), state, after.state)
    return after.state, {
        "over": env.is_terminated(state, params) | env.is_truncated(state, params),
        "still over": after.terminated | env.is_truncated(after.state, params),
        "unchanged": functools.reduce(jnp.logical_and, jax.tree.leaves(same), jnp.bool_(True)),
        "reward": after.reward,
        "terminated": after.terminated,
        "is_terminated": env.is_terminated(after.state, params),
    }


def _check_play(env: Environment, params: Any, key: jax.Array, steps: int) -> None:
    """A batch of lanes against its lanes one by one, and the values that come along."""
    reset_key, action_key, *step_keys = jax.random.split(key, 2 + steps)
    actions = _random_actions(env, params, action_key, steps)

    reset = env.reset_batch(reset_key, params, _LANES)
    small = env.reset_batch(reset_key, params, 3)
    _close("reset_batch of 3 lanes against the first 3 of 16", small, _lane(reset, slice(3)))
    _close("reset against lane 0 of reset_batch", env.reset(reset_key, params), _lane(reset, 0))
    reset_noise = _lane(jax.device_get(_sample_noise(env, reset_key, (_LANES,))), 0)
    with jax.disable_jit():
        eager = env.initial(reset_noise, params)
    _close("initial without jit against reset_batch", eager, _lane(reset[1], 0))

    state, results = reset[1], []
    watched = {lane: jax.device_get(_lane(state, lane)) for lane in (0, _LANES - 1)}
    for t, (step_key, action) in enumerate(zip(step_keys, actions, strict=True)):
        batch = jax.device_get(env.step_batch(step_key, state, action, params))
        noise = jax.device_get(_sample_noise(env, step_key, (_LANES,)))
        if t == 0:
            with jax.disable_jit():
                eager = _reference_step(env, _lane(noise, 0), watched[0], action[0], params)
            _close("the kernel without jit against step_batch", eager, _lane(batch, 0))
        if t < _FEW_STEPS:
            alone = env.step(step_key, watched[0], action[0], params)
            _close("step against lane 0 of step_batch", alone, _lane(batch, 0))
        for lane, lane_state in watched.items():
            single = jax.device_get(
                _reference_step(env, _lane(noise, lane), lane_state, action[lane], params)
            )
            _close(f"the kernel in lane {lane} alone against step_batch", single, _lane(batch, lane))
            watched[lane] = single[1]
        state = batch[1]
        results.append(batch)
    _check_values(
        env, params, jax.device_get(reset), jax.tree.map(lambda *leaves: np.stack(leaves), *results)
    )


def _check_values(env: Environment, params: Any, reset: tuple, results: tuple) -> None:
    """Values of many steps (first axis) of many lanes (second axis)."""
    observation, state, reward, terminated, truncated, info = results
    space, final, done = env.observation_space(params), info["final_observation"], terminated | truncated
    _check_no_nan("state of reset", reset[1])
    for name, value in (("state", state), ("reward", reward), ("info", info)):
        _check_no_nan(f"{name} of step", value)
    _require(np.all(np.isfinite(reward)), "reward of step must be finite")
    _check_in_space(space, "observation of reset", reset[0])
    _check_in_space(space, "observation of step", observation)
    _check_in_space(space, "info['final_observation']", final)
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        _close(f"info[{name!r}] against the returned {name}", info[name], value, exact=True)
    what = "info['final_observation'] against the observation while the episode goes on"
    _close(what, final[~done], observation[~done])


def _check_ends(env: Environment, params: Any, key: jax.Array, steps: int) -> None:
    """``transition`` alone, far beyond the end of the episode."""
    reset_key, action_key, *step_keys = jax.random.split(key, 2 + steps)
    actions = _random_actions(env, params, action_key, steps)
    _, state = env.reset_batch(reset_key, params, _LANES)
    rows = []
    for step_key, action in zip(step_keys, actions, strict=True):
        state, row = _move(env, _sample_noise(env, step_key, (_LANES,)), state, action, params)
        rows.append(row)
    end = {name: np.stack([row[name] for row in jax.device_get(rows)]) for name in rows[0]}
    over = end["over"]
    _require(
        over.any(),
        f"no episode ended within {steps} random steps, so ends cannot be checked: give more steps",
    )
    _require(np.all(end["still over"][over]), "a step after the end must not make the episode go on")
    _require(np.all(end["unchanged"][over]), "a step after the end must leave the state as it is")
    _require(np.all(end["reward"][over] == 0), "a step after the end must pay 0")
    what = "terminated of transition against is_terminated"
    _close(what, end["terminated"], end["is_terminated"], exact=True)


def _check_actions(env: Environment, params: Any, key: jax.Array) -> None:
    """Actions outside a discrete space are clipped into it."""
    space = env.action_space(params)
    if not isinstance(space, spaces.Discrete):
        return
    limits = jnp.iinfo(jnp.int32)
    outside = jnp.array([limits.min, -100, -1, space.n, space.n + 100, limits.max], jnp.int32)
    inside = jnp.clip(outside, 0, space.n - 1)
    _, state = env.reset(key, params)
    noise = env.sample_noise(key)
    got, expected = (_try_actions(env, noise, state, actions, params) for actions in (outside, inside))
    for i, action in enumerate(outside):
        _close(f"action {action} against the nearest in the space", _lane(got, i), _lane(expected, i))


# --- helpers ----------------------------------------------------------------------------------------


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path)


def _lane(tree: Any, index: int | slice) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _random_actions(env: Environment, params: Any, key: jax.Array, steps: int) -> np.ndarray:
    space = env.action_space(params)
    actions = np.asarray(jax.vmap(space.sample)(jax.random.split(key, steps * _LANES)))
    return actions.reshape(steps, _LANES, *actions.shape[1:])


def _same(what: str, got: Any, expected: Any, *, weak: bool = True) -> None:
    """Same tree structure, shapes and dtypes, and with ``weak`` the same weak types."""
    _require(
        jax.tree.structure(got) == jax.tree.structure(expected),
        f"{what}: structure {jax.tree.structure(got)} differs from {jax.tree.structure(expected)}",
    )
    expected_leaves = jax.tree.leaves(expected)
    for (path, leaf), other in zip(jax.tree_util.tree_leaves_with_path(got), expected_leaves, strict=True):
        mine, theirs = ((x.shape, str(x.dtype), weak and x.weak_type) for x in (leaf, other))
        _require(mine == theirs, f"{what}{_name(path)}: (shape, dtype, weak type) {mine} instead of {theirs}")


def _close(what: str, got: Any, expected: Any, *, exact: bool = False) -> None:
    """Same structure and values: integers and bools exactly, floats up to rounding unless ``exact``."""
    _require(jax.tree.structure(got) == jax.tree.structure(expected), f"{what}: structures differ")
    expected_leaves = jax.tree.leaves(expected)
    for (path, leaf), other in zip(jax.tree_util.tree_leaves_with_path(got), expected_leaves, strict=True):
        mine, theirs = np.asarray(leaf), np.asarray(other)
        if exact or not np.issubdtype(mine.dtype, np.inexact):
            equal = np.array_equal(mine, theirs)
        else:
            tolerance = 64 * np.finfo(mine.dtype).eps
            equal = mine.shape == theirs.shape and np.allclose(
                mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True
            )
        _require(equal, f"{what}{_name(path)}: {mine} instead of {theirs}")


def _check_in_space(space: spaces.Space, what: str, values: np.ndarray) -> None:
    """Every observation of a batch (any leading axes) must lie in the space."""
    flat = values.reshape(-1, *space.shape)
    inside = np.asarray(jax.vmap(space.contains)(flat))
    if not inside.all():
        raise AssertionError(f"{what} {flat[~inside][0]} is outside the observation space {space}")


def _check_no_nan(what: str, tree: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if np.issubdtype(leaf.dtype, np.inexact):
            _require(not np.any(np.isnan(leaf)), f"{what}{_name(path)} holds NaN")
