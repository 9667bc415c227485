"""Thousands of simulated people at once through Gymnasium's ``VectorEnv``."""

import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from gymnax.environments.spaces import gymnax_space_to_gym_space

from qmind_jax.adapters.episodes import build, draw_key, fix_draws, read_options, step_key
from qmind_jax.environment import Environment

Arrays = dict[str, Any]
Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Arrays]


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """A Gymnasium vector environment over any environment of qmind_jax; all lanes step in one call.

    Observations are float32 ``(num_envs, ...)``, rewards float64 ``(num_envs,)``, flags bool
    ``(num_envs,)``. Where the entries of ``info`` stand and which lanes ``_key`` marks is as in
    Gymnasium's ``SyncVectorEnv``, in every autoreset mode.

    **Autoreset.** ``AutoresetMode.NEXT_STEP`` (Gymnasium's default): the step after an end ignores
    the action of that lane, starts its next episode and pays 0. ``SAME_STEP``: the step that ends an
    episode returns the first observation of the next; ``final_obs`` and ``final_info`` hold the old
    ones. ``DISABLED``: lanes wait for ``reset(options={"reset_mask": mask})``.

    **Random numbers.** ``reset`` draws 64 bits from ``np_random`` as the key of all lanes; step t (with
    ``reset`` as step 0) uses ``env.sample_noise(jax.random.fold_in(key, t), (num_envs,))``. The episodes
    of lane i depend on the seed and on i, never on ``num_envs``, and lane 0 lives through the same
    first episode as ``GymnasiumEnv`` under the same seed.

    Args:
        env: An id of :data:`qmind_jax.registry.REGISTRY`, or an environment.
        params: Parameters, shared by all lanes; the defaults of the id or of the environment if None.
        num_envs: Number of lanes.
        autoreset_mode: An ``AutoresetMode``, or the value of one such as ``"SameStep"``.
        copy: Whether observations are copies that may be written to, as Gymnasium's own wrappers do.
            False returns JAX's memory itself, read-only.
        render_mode: Must be None: there is nothing to render here.
        **overrides: Parameters to change, by name. ``people`` may be a population, one person, or a
            sequence of people; every episode of every lane draws one of them.

    Raises:
        ValueError: For an unknown id, parameter, autoreset or render mode, a number of lanes below 1,
            or a value that makes no sense.
        TypeError: If the people do not fit the environment.
    """

    def __init__(
        self,
        env: str | Environment,
        params: Any = None,
        *,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **overrides: Any,
    ) -> None:
        if not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise ValueError(f"num_envs must be an integer of at least 1, got {num_envs!r}")
        if render_mode is not None:
            raise ValueError(
                f"render_mode must be None, got {render_mode!r}: only single environments render "
                "(make_vec with vectorization_mode='sync' gathers such)"
            )
        if callable(overrides.get("people")):
            raise TypeError(
                "people must not be a function here: make a population of what it draws, such as "
                "stack([people(key) for key in jax.random.split(key, 1000)])"
            )
        self.num_envs = int(num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self._copy = copy
        self._env, self._params = build(env, params, overrides)
        self.single_action_space = gymnax_space_to_gym_space(self._env.action_space(self._params))
        self.single_observation_space = gymnax_space_to_gym_space(self._env.observation_space(self._params))
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

        self._state: Any = None
        self._time = 0
        self._ended = np.zeros(self.num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Arrays]:
        """Start an episode in every lane, or in those of a mask.

        Args:
            seed: One integer for all lanes; restarts ``np_random``. The same seed gives the same
                episodes from here on.
            options: ``"person"`` and ``"intent"`` as for ``GymnasiumEnv``, one value for all lanes or
                a sequence of one per lane; they hold for the episodes that start here.
                ``"reset_mask"``, a bool array of shape ``(num_envs,)``, resets only its lanes.

        Returns:
            Observations of all lanes, and the entries of ``info`` that are known before the first
            step, marked in the lanes that were reset.

        Raises:
            TypeError: If the seed or the mask is of another type.
            ValueError: For an unknown option, person or intent, or a mask of another shape or
                without any lane.
            gymnasium.error.ResetNeeded: If there is a mask at the very first reset.
        """
        if seed is not None and not isinstance(seed, int):
            raise TypeError(f"seed must be one Python integer for all lanes or None, got {seed!r}")
        options = dict(options or {})
        mask = self._read_mask(options.pop("reset_mask", None))
        fixed = read_options(self._env, self._params, options, self.num_envs)
        super().reset(seed=seed)
        if seed is None and not mask.all():
            self._time += 1
        else:
            self._time, self._key_words = 0, draw_key(self.np_random)
        self._state, observation, info = _start(
            self._env, self._key_words, np.uint32(self._time), fixed, mask, self._state, self._params
        )
        self._ended[mask] = False
        self._start_info = set(info)
        return self._observation(observation), _with_masks(info, dict.fromkeys(info, mask))

    def step(self, actions: np.ndarray) -> Step:
        """Apply one action in every lane.

        Args:
            actions: Integers of shape ``(num_envs,)``. Under ``NEXT_STEP`` those of the lanes that
                reset in this step are not looked at.

        Returns:
            Observations, rewards, terminations, truncations, infos.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``, and under ``DISABLED`` if a lane has
                ended and not been reset.
            TypeError: If the actions are not integers.
            ValueError: If they are of another shape, or one is outside the action space.
        """
        if self._state is None:
            raise ResetNeeded("step() before reset(): call reset() to start the episodes")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise ResetNeeded(
                f"lanes {_first(self._ended)} have ended: call reset(options={{'reset_mask': mask}}) with "
                "a mask of the lanes to start again"
            )
        actions = self._read_actions(actions)
        self._time += 1
        arguments = (self._env, self._key_words, np.uint32(self._time), self._state, actions)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._state, seen, final = _step_same(*arguments, self._params)
        else:
            self._state, seen = _step_next(*arguments, self._ended, self._params)
        observation, reward, terminated, truncated, info = seen
        terminated, truncated = np.array(terminated), np.array(truncated)
        ended = terminated | truncated

        fresh = ended if self.autoreset_mode is AutoresetMode.SAME_STEP else self._ended
        stepped, everywhere = ~fresh, np.ones(self.num_envs, bool)
        masks = {name: everywhere if name in self._start_info else stepped for name in info}
        infos = _with_masks(info, masks)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._ended = ended
        elif ended.any():
            final_observation, final_info = final
            infos["final_obs"], infos["_final_obs"] = _rows(final_observation, ended), ended
            infos["final_info"] = _with_masks(final_info, dict.fromkeys(final_info, ended))
            infos["_final_info"] = ended.copy()
        return self._observation(observation), np.array(reward, np.float64), terminated, truncated, infos

    def _observation(self, observation: jax.Array) -> np.ndarray:
        return np.array(observation) if self._copy else np.asarray(observation)

    def _read_actions(self, actions: Any) -> np.ndarray:
        array, size = np.asarray(actions), self.single_action_space.n
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"actions must be integers of shape ({self.num_envs},), got dtype {array.dtype} of shape "
                f"{array.shape}"
            )
        if array.shape != (self.num_envs,):
            raise ValueError(f"actions must have shape ({self.num_envs},), got {array.shape}")
        bad = ((array < 0) | (array >= size)) & ~self._ended
        if bad.any():
            lane = int(bad.argmax())
            raise ValueError(f"actions must lie in 0 .. {size - 1}, got {array[lane]} in lane {lane}")
        return array.astype(np.int32)

    def _read_mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, bool)
        if not isinstance(mask, np.ndarray) or mask.dtype != bool:
            raise TypeError(f"options['reset_mask'] must be a NumPy array of bool, got {mask!r}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must have shape ({self.num_envs},) and be True somewhere, got "
                f"shape {mask.shape} with {np.count_nonzero(mask)} lanes"
            )
        if self._state is None and not mask.all():
            raise ResetNeeded("reset all lanes before resetting some of them with a reset_mask")
        return mask


@functools.partial(jax.jit, static_argnames=("env",))
def _start(
    env: Environment,
    words: jax.Array,
    time: jax.Array,
    fixed: Arrays,
    mask: jax.Array,
    state: Any,
    params: Any,
) -> tuple[Any, jax.Array, Arrays]:
    """Start the lanes of the mask; ``state`` is None at the very first reset."""
    noise = fix_draws(env.sample_noise(step_key(words, time), mask.shape), fixed)
    fresh = jax.vmap(env.initial, in_axes=(0, None))(noise, params)
    state = fresh if state is None else jax.vmap(_choose)(mask, fresh, state)
    observation = jax.vmap(env.observation, in_axes=(0, None))(state, params)
    info = jax.vmap(lambda lane, state: _only(lane, env.state_info(state, params)))(mask, state)
    return state, observation, info


@functools.partial(jax.jit, static_argnames=("env",))
def _step_same(
    env: Environment, words: jax.Array, time: jax.Array, state: Any, action: jax.Array, params: Any
) -> tuple[Any, tuple[Any, ...], tuple[jax.Array, Arrays]]:
    """A step that starts the next episode where one ends, and the last words of those."""
    observation, state, reward, terminated, truncated, info = env.step_batch(
        step_key(words, time), state, action, params
    )
    ended = info.pop("terminated") | info.pop("truncated")
    final_observation = info.pop("final_observation")
    final_info = jax.vmap(_only)(ended, info)
    info = jax.vmap(functools.partial(_info, env, params))(ended, state, info)
    return state, (observation, reward, terminated, truncated, info), (final_observation, final_info)


@functools.partial(jax.jit, static_argnames=("env",))
def _step_next(
    env: Environment,
    words: jax.Array,
    time: jax.Array,
    state: Any,
    action: jax.Array,
    fresh: jax.Array,
    params: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """A step that starts the next episode in the fresh lanes, which ended in the step before."""

    def lane(noise: Any, state: Any, action: jax.Array, fresh: jax.Array) -> tuple[Any, tuple[Any, ...]]:
        # In a fresh lane this is a step after the end, which pays 0.
        after = env.transition(noise, state, action, params)
        state = _choose(fresh, env.initial(noise, params), after.state)
        terminated, truncated = after.terminated & ~fresh, env.is_truncated(state, params) & ~fresh
        info = _info(env, params, fresh, state, after.info)
        return state, (env.observation(state, params), after.reward, terminated, truncated, info)

    noise = env.sample_noise(step_key(words, time), action.shape)
    return jax.vmap(lane)(noise, state, action, fresh)


def _choose(condition: jax.Array, yes: Any, no: Any) -> Any:
    """One of two trees, for one lane."""
    return jax.tree.map(functools.partial(jnp.where, condition), yes, no)


def _only(condition: jax.Array, info: Arrays) -> Arrays:
    """The info of one lane, zero unless the condition holds: what Gymnasium puts beside its masks."""
    return _choose(condition, info, jax.tree.map(jnp.zeros_like, info))


def _info(env: Environment, params: Any, fresh: jax.Array, state: Any, info: Arrays) -> Arrays:
    """The info of a step in one lane; in a fresh lane that of the reset, zero where it has none."""
    at_reset = jax.tree.map(jnp.zeros_like, info) | env.state_info(state, params)
    return _choose(fresh, at_reset, info)


def _with_masks(info: Arrays, masks: dict[str, np.ndarray]) -> Arrays:
    """Entries that stand in any lane, each with its mask of lanes, in Gymnasium's types."""
    infos: Arrays = {}
    for name, value in info.items():
        if masks[name].any():
            wide = {"f": np.float64, "i": np.int64}.get(value.dtype.kind) if value.ndim == 1 else None
            infos[name], infos[f"_{name}"] = np.array(value, wide), masks[name].copy()
    return infos


def _rows(observation: jax.Array, lanes: np.ndarray) -> np.ndarray:
    """An object array with the observations of some lanes and None in the others."""
    rows = np.full(lanes.shape, None, object)
    some = np.asarray(observation)[lanes]
    # A list of equal arrays would become one numeric array on assignment; an iterator does not.
    rows[lanes] = np.fromiter(some, object, len(some))
    return rows


def _first(lanes: np.ndarray) -> str:
    numbers = np.flatnonzero(lanes)
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
