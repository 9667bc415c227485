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
      and is compiled once; ``info`` has one structure at all times;
    - lane i of a batch depends on the key and i alone, and ``reset_batch`` and ``step_batch`` do to each
      lane what ``initial``, ``transition``, ``observation`` and ``is_truncated`` do to one;
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
    keys = jax.random.split(key, 4)
    _check_signatures(env, params, keys[0])
    _check_noise(env, keys[0])
    _check_play(env, params, keys[1], steps)
    _check_lanes_one_by_one(env, params, keys[2])
    _check_actions(env, params, keys[3])


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
    sample_noise = jax.jit(env.sample_noise, static_argnums=1)
    single, few, many = (sample_noise(key, shape) for shape in ((), (3,), (_LANES,)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(many):
        _require(
            leaf.shape[:1] == (_LANES,),
            f"sample_noise(key, ({_LANES},)){_name(path)} must have {_LANES} lanes, got shape {leaf.shape}",
        )
    _close("noise of the first 3 lanes of 16 against a batch of 3", _lane(many, slice(3)), few, exact=True)
    _close("noise of lane 0 against sample_noise(key)", _lane(many, 0), single, exact=True)


# --- many steps -------------------------------------------------------------------------------------


def _reference_step(env: Environment, noise: Any, state: Any, action: jax.Array, params: Any) -> tuple:
    """What ``step`` must return, put together from the kernel, with the structure of ``step``."""
    after = env.transition(noise, state, action, params)
    truncated = env.is_truncated(after.state, params)
    done = after.terminated | truncated
    fresh = env.initial(noise, params)
    next_state = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, after.state)
    info = after.info | {
        "terminated": after.terminated,
        "truncated": truncated,
        "final_observation": env.observation(after.state, params),
    }
    return env.observation(next_state, params), next_state, after.reward, after.terminated, truncated, info


def _check_play(env: Environment, params: Any, key: jax.Array, steps: int) -> None:
    """Play many lanes for many steps, with and without the start of next episodes."""
    reset_key, action_key, step_key = jax.random.split(key, 3)
    space = env.action_space(params)
    sample = jax.vmap(lambda k: space.sample(k))

    @jax.jit
    def play(params: Any) -> tuple:
        first_observation, first = env.reset_batch(reset_key, params, _LANES)
        reference = jax.vmap(functools.partial(_reference_step, env), (0, 0, 0, None))
        transition = jax.vmap(env.transition, (0, 0, 0, None))
        is_truncated = jax.vmap(env.is_truncated, (0, None))
        is_terminated = jax.vmap(env.is_terminated, (0, None))

        def body(carry: tuple, keys: tuple) -> tuple:
            state, lone = carry
            action = sample(jax.random.split(keys[0], _LANES))
            step = env.step_batch(keys[1], state, action, params)
            noise = env.sample_noise(keys[1], (_LANES,))
            expected = reference(noise, state, action, params)
            over = is_terminated(lone, params) | is_truncated(lone, params)
            after = transition(noise, lone, action, params)
            end = {
                "over": over,
                "still over": after.terminated | is_truncated(after.state, params),
                "unchanged": _lanes_equal(lone, after.state),
                "reward": after.reward,
                "terminated": after.terminated,
                "is_terminated": is_terminated(after.state, params),
            }
            return (step[1], after.state), (step, expected, end)

        keys = (jax.random.split(action_key, steps), jax.random.split(step_key, steps))
        return first_observation, first, *jax.lax.scan(body, (first, first), keys)[1]

    first_observation, first, step, expected, end = jax.device_get(play(params))
    observation, state, reward, terminated, truncated, info = step
    done = terminated | truncated

    _check_in_space(env.observation_space(params), "observation of reset", first_observation)
    _check_in_space(env.observation_space(params), "observation of step", observation)
    _check_in_space(env.observation_space(params), "info['final_observation']", info["final_observation"])
    _check_no_nan("state of reset", first)
    for name, value in (("state", state), ("reward", reward), ("info", info)):
        _check_no_nan(f"{name} of step", value)
    _require(np.all(np.isfinite(reward)), "reward of step must be finite")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        _close(f"info[{name!r}] against the returned {name}", info[name], value, exact=True)
    _close("step_batch against the kernel applied to each lane", step, expected)
    _close(
        "info['final_observation'] against the observation while the episode goes on",
        info["final_observation"][~done],
        observation[~done],
    )

    over = end["over"]
    _require(
        over.any(),
        f"no episode ended within {steps} random steps, so ends cannot be checked: give more steps",
    )
    _require(np.all(end["still over"][over]), "a step after the end must not make the episode go on")
    _require(np.all(end["unchanged"][over]), "a step after the end must leave the state as it is")
    _require(np.all(end["reward"][over] == 0), "a step after the end must pay 0")
    _close(
        "terminated of transition against is_terminated", end["terminated"], end["is_terminated"], exact=True
    )


# --- a few steps, lane by lane ----------------------------------------------------------------------


def _check_lanes_one_by_one(env: Environment, params: Any, key: jax.Array) -> None:
    """A few steps of three lanes: in a batch, one lane at a time, and without ``jit``."""
    lanes, (reset_key, action_key, *step_keys) = 3, jax.random.split(key, 2 + _FEW_STEPS)
    space = env.action_space(params)
    actions = jax.vmap(space.sample)(jax.random.split(action_key, lanes * _FEW_STEPS))
    actions = actions.reshape(_FEW_STEPS, lanes, *actions.shape[1:])
    sample_noise = jax.jit(env.sample_noise, static_argnums=1)
    single_step = jax.jit(functools.partial(_reference_step, env))

    batch = env.reset_batch(reset_key, params, lanes)
    more = env.reset_batch(reset_key, params, _LANES)
    _close("reset_batch of 3 lanes against the first 3 of 16", batch, _lane(more, slice(lanes)))
    _close("reset against lane 0 of reset_batch", env.reset(reset_key, params), _lane(batch, 0))
    state = batch[1]
    states = [_lane(state, i) for i in range(lanes)]
    noise = _lane(sample_noise(reset_key, (lanes,)), 0)
    with jax.disable_jit():
        eager = env.initial(noise, params)
    _close("initial without jit against reset_batch", eager, states[0])

    for t, (step_key, action) in enumerate(zip(step_keys, actions, strict=True)):
        noise = sample_noise(step_key, (lanes,))
        if t == 0:
            with jax.disable_jit():
                eager = _reference_step(env, _lane(noise, 0), states[0], action[0], params)
        alone = env.step(step_key, _lane(state, 0), action[0], params)
        batch = env.step_batch(step_key, state, action, params)
        for i in range(lanes):
            single = single_step(_lane(noise, i), states[i], action[i], params)
            _close(f"lane {i} on its own against lane {i} of step_batch", single, _lane(batch, i))
            states[i] = single[1]
        if t == 0:
            _close("the kernel without jit against step_batch", eager, _lane(batch, 0))
        _close("step against lane 0 of step_batch", alone, _lane(batch, 0))
        state = batch[1]


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
    transition = jax.jit(jax.vmap(env.transition, (None, None, 0, None)))
    got, expected = transition(noise, state, outside, params), transition(noise, state, inside, params)
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


def _lanes_equal(left: Any, right: Any) -> jax.Array:
    """Bool per lane: whether every leaf of two batches of states is the same."""
    same = [
        jnp.all((a == b).reshape(a.shape[0], -1), axis=1)
        for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    ]
    return functools.reduce(jnp.logical_and, same, jnp.ones(_LANES, bool))


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
