"""One simulated person at a time through Gymnasium's ``Env``."""

import collections
import functools
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.error import ResetNeeded
from gymnax.environments.spaces import gymnax_space_to_gym_space
from jax import lax

from qmind_jax.adapters.episodes import build, draw_key, fix_draws, read_options, step_key
from qmind_jax.adapters.rendering import COLUMNS, Moment, as_picture, in_words
from qmind_jax.environment import Environment
from qmind_jax.registry import override


class GymnasiumEnv(gymnasium.Env[np.ndarray, int]):
    """A Gymnasium environment over any environment of qmind_jax.

    Observations are float32 arrays that belong to the caller, rewards Python floats, flags Python
    bools, and the entries of ``info`` Python scalars (arrays where the environment's are).
    ``info`` holds what the environment's own ``info`` holds, hidden things for evaluation included.
    Nothing resets by itself.

    **Random numbers.** ``reset`` draws 64 bits from ``np_random`` as the key of the episode; step t
    (with ``reset`` as step 0) uses ``env.sample_noise(jax.random.fold_in(key, t))``. Where ``people``
    is a function, its key is the next 64 bits.

    **Options of** ``reset``, where the environment draws such a thing: ``"person"`` (index into the
    population) and ``"intent"`` (index or name of a hypothesis). They hold for one episode, and
    fixing them changes no other random number.

    **Rendering.** ``"ansi"`` tells the last step in words, hidden things included. ``"rgb_array"``
    draws the last 32 steps, nothing hidden among them: one column per step, a dark cell in the row
    of its action, and a row per entry of the observation, blue for positive, orange for negative and
    grey for zero. The size of the picture depends on the names and numbers of actions and entries.

    Args:
        env: An id of :data:`qmind_jax.registry.REGISTRY`, or an environment.
        params: Parameters; the defaults of the id or of the environment if None.
        render_mode: None, ``"ansi"`` or ``"rgb_array"``.
        **overrides: Parameters to change, by name. ``people`` may be a population, one person, a
            sequence of people, or a function from a JAX key to a person, called at every reset; its
            people must be of one family with the same shapes and labels, and the spaces are those
            of ``people(jax.random.key(0))``.

    Raises:
        ValueError: For an unknown id, parameter or render mode, or a value that makes no sense.
        TypeError: If the people do not fit the environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        env: str | Environment,
        params: Any = None,
        *,
        render_mode: str | None = None,
        **overrides: Any,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be None, 'ansi' or 'rgb_array', got {render_mode!r}")
        # SyncVectorEnv writes into the metadata of the environments that it is given.
        self.metadata = dict(type(self).metadata)
        self.render_mode = render_mode
        self._draw_person = None
        if callable(overrides.get("people")):
            self._draw_person = overrides["people"]
            overrides["people"] = self._draw_person(jax.random.key(0))
        self._env, self._params = build(env, params, overrides)
        self.action_space = gymnax_space_to_gym_space(self._env.action_space(self._params))
        self.observation_space = gymnax_space_to_gym_space(self._env.observation_space(self._params))

        carry, start = _start.eval_shape(self._env, np.zeros(2, np.uint32), {}, self._params)
        _, step = _advance.eval_shape(self._env, carry, np.int32(0), self._params)
        self._start_layout, self._step_layout = _layout(start), _layout(step)
        self._start_info, self._step_info = sorted(start[-1]), sorted(step[-1])

        self._carry: jax.Array | None = None
        self._time, self._over = 0, False
        self._moments: collections.deque[Moment] = collections.deque(maxlen=COLUMNS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Restarts ``np_random``; the same seed gives the same episodes from here on.
            options: See the class; ``{"intent": "red cup"}``, ``{"person": 3}``.

        Returns:
            Observation, and the entries of ``info`` that are known before the first step.

        Raises:
            ValueError: For an unknown option, person or intent, or if the function ``people`` makes
                people of different families, shapes or labels.
        """
        fixed = read_options(self._env, self._params, options or {})
        super().reset(seed=seed)
        words = draw_key(self.np_random)
        if self._draw_person is not None:
            key = jax.random.wrap_key_data(draw_key(self.np_random), impl="threefry2x32")
            self._params = self._with_people(self._draw_person(key))
        self._carry, seen = _start_packed(self._env, words, fixed, self._params)
        observation, *values = np.asarray(seen).view(self._start_layout)[0].item()
        observation, info = observation.copy(), dict(zip(self._start_info, values, strict=True))
        self._time, self._over = 0, False
        self._moments.clear()
        self._moments.append(Moment(0, None, observation.copy(), 0.0, dict(info), ""))
        return observation, info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action.

        Args:
            action: An integer of the action space: a Python or NumPy integer, or an integer array
                of shape ``()``.

        Returns:
            Observation, reward, terminated, truncated, info.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``, and after the end of an episode.
            TypeError: If the action is not an integer.
            ValueError: If it is outside the action space, or an array of another shape.
        """
        if self._carry is None:
            raise ResetNeeded("step() before reset(): call reset() to start an episode")
        if self._over:
            raise ResetNeeded("step() after the end of the episode: call reset() to start the next one")
        action = _read_action(action, self.action_space.n)
        self._time += 1
        self._carry, seen = _advance_packed(self._env, self._carry, np.int32(action), self._params)
        record = np.asarray(seen).view(self._step_layout)[0].item()
        observation, reward, terminated, truncated, *values = record
        observation, info = observation.copy(), dict(zip(self._step_info, values, strict=True))
        self._over = terminated or truncated
        if self.render_mode is not None:
            end = "terminated" if terminated else "truncated" if truncated else ""
            moment = Moment(self._time, action, observation.copy(), reward, dict(info), end)
            self._moments.append(moment)
        return observation, reward, terminated, truncated, info

    def render(self) -> str | np.ndarray | None:
        """What happened last, in the form that ``render_mode`` names.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``.
        """
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode; make the environment with one of "
                f"{self.metadata['render_modes']}"
            )
            return None
        if self._carry is None:
            raise ResetNeeded("render() before reset(): call reset() to start an episode")
        if self.render_mode == "rgb_array":
            return as_picture(self._env, self._params, self.observation_space, self._moments)
        return in_words(self._env, self._params, self._moments[-1])

    def _with_people(self, people: Any) -> Any:
        params = override(self._env, self._params, people=people)
        if _signature(params) != _signature(self._params):
            raise ValueError(
                "people(key) must make people of one family with the same shapes and labels at every "
                f"reset; it made {self._params.people!r} before and {params.people!r} now"
            )
        return params


# --- the kernels of one lane ----------------------------------------------------------------------
#
# Python's part of a step grows with the number of arrays that go in and out, and would soon be most
# of it. What an episode carries from step to step, and what a step shows to Python, therefore travel
# as one array of bytes each.


@functools.partial(jax.jit, static_argnames=("env",))
def _start(env: Environment, words: jax.Array, fixed: dict[str, jax.Array], params: Any) -> tuple[Any, Any]:
    noise = fix_draws(env.sample_noise(step_key(words, 0)), fixed)
    state = env.initial(noise, params)
    seen = env.observation(state, params), env.state_info(state, params)
    return (words, jnp.uint32(0), state), seen


@functools.partial(jax.jit, static_argnames=("env",))
def _advance(env: Environment, carry: Any, action: jax.Array, params: Any) -> tuple[Any, Any]:
    words, time, state = carry
    time = time + np.uint32(1)
    after = env.transition(env.sample_noise(step_key(words, time)), state, action, params)
    truncated = env.is_truncated(after.state, params)
    observation = env.observation(after.state, params)
    seen = (observation, after.reward, after.terminated, truncated, after.info)
    return (words, time, after.state), seen


@functools.partial(jax.jit, static_argnames=("env",))
def _start_packed(
    env: Environment, words: jax.Array, fixed: dict[str, jax.Array], params: Any
) -> tuple[jax.Array, jax.Array]:
    carry, seen = _start(env, words, fixed, params)
    return _pack(carry), _pack(seen)


@functools.partial(jax.jit, static_argnames=("env",))
def _advance_packed(
    env: Environment, octets: jax.Array, action: jax.Array, params: Any
) -> tuple[jax.Array, jax.Array]:
    like, _ = _start.eval_shape(env, np.zeros(2, np.uint32), {}, params)
    carry, seen = _advance(env, _unpack(octets, like), action, params)
    return _pack(carry), _pack(seen)


def _pack(tree: Any) -> jax.Array:
    """All leaves of a tree as one array of bytes."""
    octets = []
    for leaf in jax.tree.leaves(tree):
        if jnp.iscomplexobj(leaf):
            leaf = jnp.stack([leaf.real, leaf.imag], axis=-1)
        elif leaf.dtype == jnp.bool_:
            leaf = leaf.astype(jnp.uint8)
        octets.append(lax.bitcast_convert_type(leaf, jnp.uint8).ravel())
    return jnp.concatenate(octets)


def _unpack(octets: jax.Array, like: Any) -> Any:
    """The tree that :func:`_pack` packed, of the shapes and dtypes of ``like``."""
    shapes, tree = jax.tree.flatten(like)
    leaves, start = [], 0
    for shape in shapes:
        size = shape.dtype.itemsize
        part = octets[start : start + size * shape.size]
        start += size * shape.size
        if jnp.issubdtype(shape.dtype, jnp.complexfloating):
            pair = lax.bitcast_convert_type(
                part.reshape(*shape.shape, 2, size // 2), jnp.finfo(shape.dtype).dtype
            )
            leaves.append(lax.complex(pair[..., 0], pair[..., 1]))
        elif size == 1:
            leaves.append(part.reshape(shape.shape).astype(shape.dtype))
        else:
            leaves.append(lax.bitcast_convert_type(part.reshape(*shape.shape, size), shape.dtype))
    return jax.tree.unflatten(tree, leaves)


def _layout(seen: Any) -> np.dtype:
    """Where each leaf stands in the bytes of :func:`_pack`."""
    leaves = jax.tree.leaves(seen)
    return np.dtype([(f"leaf{i}", leaf.dtype, leaf.shape) for i, leaf in enumerate(leaves)])


def _signature(params: Any) -> tuple[Any, ...]:
    """What a compilation depends on."""
    return jax.tree.structure(params), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(params)]


def _read_action(action: Any, size: int) -> int:
    if type(action) is not int:
        array = np.asarray(action)
        if array.dtype.kind not in "iu":
            raise TypeError(f"action must be an integer in 0 .. {size - 1}, got {action!r}")
        if array.shape != ():
            raise ValueError(f"action must be one integer, got {action!r} of shape {array.shape}")
        action = int(array)
    if not 0 <= action < size:
        raise ValueError(f"action must lie in 0 .. {size - 1}, got {action}")
    return action
