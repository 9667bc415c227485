"""The contract: an environment is a few pure functions of explicit noise.

A subclass says, for one person and one lane, which random numbers a step can use
(:meth:`Environment.sample_noise`), how an episode starts (:meth:`~Environment.initial`), what an
action does (:meth:`~Environment.transition`), what the agent sees (:meth:`~Environment.observation`)
and when time is up (:meth:`~Environment.is_truncated`). Everything else, from gymnax's ``reset`` and
``step`` to batches of thousands of lanes, is derived here once.
"""

import abc
import functools
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment as gymnax_environment
from gymnax.environments import spaces

from qmind_jax.entries import select
from qmind_jax.noise import is_single, once

State = TypeVar("State")
Params = TypeVar("Params")
Noise = TypeVar("Noise")
Step = tuple[jax.Array, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]


@struct.dataclass
class Transition:
    """What one action does, before any reset.

    Attributes:
        state: The next state.
        reward: Float scalar.
        terminated: Bool scalar, True when the episode has come to its natural end.
        info: Diagnostics for evaluation, of the same structure at every step.
    """

    state: Any
    reward: jax.Array
    terminated: jax.Array
    info: dict[str, jax.Array]


class Environment(gymnax_environment.Environment[State, Params], abc.ABC, Generic[State, Params, Noise]):
    """Base class of all environments of qmind_jax, and a gymnax 1.x environment.

    Environments hold no data: two instances of one class are equal and share their compilations.
    """

    _supports_transition_gradients = True
    _transition_gradients_enabled = True

    time_limit_is_part_of_task: ClassVar[bool] = True
    """Whether the end at the time limit belongs to the task, as a deadline that the agent sees or
    pays for. Learners bootstrap the value of the last observation only where it does not."""

    # --- the kernel: what a subclass writes -----------------------------------------------------

    @abc.abstractmethod
    def sample_noise(self, key: jax.Array, batch_shape: tuple[int, ...] = ()) -> Noise:
        """Draw every random number that one step, and the reset that may follow it, can use.

        Args:
            key: One JAX random key for the whole batch.
            batch_shape: Shape of the batch of lanes. Lane i depends on ``key`` and i alone.

        Returns:
            The environment's noise, each leaf of shape ``batch_shape``.
        """

    @abc.abstractmethod
    def initial(self, noise: Noise, params: Params) -> State:
        """The first state of an episode; a deterministic function of the noise."""

    @abc.abstractmethod
    def transition(self, noise: Noise, state: State, action: jax.Array, params: Params) -> Transition:
        """Apply one action; a deterministic function of its arguments.

        After the end of an episode nothing changes and the reward is 0.
        """

    @abc.abstractmethod
    def observation(self, state: State, params: Params) -> jax.Array:
        """What the agent sees of a state."""

    @abc.abstractmethod
    def is_truncated(self, state: State, params: Params) -> jax.Array:
        """Whether the state has reached the time limit."""

    def state_info(self, state: State, params: Params) -> dict[str, jax.Array]:
        """Diagnostics that a state alone determines; a part of every transition's info.

        What :meth:`transition` reports under these names is what this says of the next state.
        """
        return {}

    @abc.abstractmethod
    def check_params(self, params: Params) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the parameters make no sense.

        Called where parameters enter from Python (``make``, the adapters, the command line), never
        under ``jit``.
        """

    # --- derived: one lane ----------------------------------------------------------------------

    @functools.partial(jax.jit, static_argnames=("self",))
    def reset(self, key: jax.Array, params: Params | None = None) -> tuple[jax.Array, State]:
        """Start an episode.

        Args:
            key: JAX random key.
            params: Parameters; the defaults if None.

        Returns:
            Observation and state.
        """
        return self.reset_env(key, self.default_params if params is None else params)

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(self, key: jax.Array, state: State, action: jax.Array, params: Params | None = None) -> Step:
        """Apply one action and start the next episode where this one ended.

        Args:
            key: JAX random key.
            state: State of the running episode.
            action: Integer scalar; outside the action space it is clipped into it.
            params: Parameters; the defaults if None.

        Returns:
            Observation, state, reward, terminated, truncated and info. After an end the observation
            and the state are those of the next episode, and ``info["final_observation"]`` (always
            present) is the last observation of the old one.

        Raises:
            ValueError: If the action is no scalar.
        """
        if jnp.ndim(action):
            raise ValueError(
                f"action must be a scalar, got shape {jnp.shape(action)}; step_batch steps many lanes at once"
            )
        params = self.default_params if params is None else params
        noise = jax.tree.map(once, self.sample_noise(key))
        return self._step(noise, state, action, params)

    # --- derived: many lanes under one key ------------------------------------------------------

    @functools.partial(jax.jit, static_argnames=("self", "num"))
    def reset_batch(self, key: jax.Array, params: Params, num: int) -> tuple[jax.Array, State]:
        """Start ``num`` episodes from one key.

        Returns:
            Observations and states with a leading axis of ``num`` lanes. Lane i is the same for
            every ``num`` greater than i.
        """
        state = jax.vmap(self.initial, in_axes=(0, None))(self.sample_noise(key, (num,)), params)
        return jax.vmap(self.observation, in_axes=(0, None))(state, params), state

    @functools.partial(jax.jit, static_argnames=("self", "lanes_last"))
    def step_batch(
        self, key: jax.Array, state: State, action: jax.Array, params: Params, *, lanes_last: bool = False
    ) -> Step:
        """:meth:`step` for a batch of lanes under one key: no key per lane, no splitting.

        Args:
            key: One JAX random key, a fresh one for every step.
            state: States with a leading axis of lanes.
            action: Integers of shape ``(lanes,)``.
            params: Parameters, shared by all lanes.
            lanes_last: The axis of lanes is the last one of every array instead. The numbers are the same;
                :func:`qmind_jax.rollout` steps this way, because it is faster.

        Returns:
            As :meth:`step`, everything with an axis of lanes.

        Raises:
            ValueError: If there is not one key, or not one action for every lane.
        """
        axis = -1 if lanes_last else 0
        if not is_single(key):
            raise ValueError(f"key must be one random key for all lanes, got an array of shape {key.shape}")
        lanes = {jnp.shape(leaf)[axis] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(state)}
        if jnp.ndim(action) != 1 or lanes - {jnp.shape(action)[0]}:
            raise ValueError(
                f"action must have shape (lanes,) with as many lanes as the state has, got "
                f"{jnp.shape(action)}"
            )
        noise = self.sample_noise(key, jnp.shape(action))
        noise, action = jax.tree.map(once, (noise, jnp.asarray(action)))
        step = jax.vmap(self._step, in_axes=(0, axis, 0, None), out_axes=axis)
        return step(noise, state, action, params)

    def _step(self, noise: Noise, state: State, action: jax.Array, params: Params) -> Step:
        after = self.transition(noise, state, action, params)
        truncated = self.is_truncated(after.state, params)
        done = once(after.terminated | truncated)
        next_state = jax.tree.map(
            lambda fresh, old: select(done, fresh, old), self.initial(noise, params), after.state
        )
        info = {
            **after.info,
            "terminated": after.terminated,
            "truncated": truncated,
            "final_observation": self.observation(after.state, params),
        }
        observation = self.observation(next_state, params)
        return observation, next_state, after.reward, after.terminated, truncated, info

    # --- gymnax's own hooks, for wrappers that call them ----------------------------------------

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        """Start an episode (gymnax hook)."""
        state = self.initial(self.sample_noise(key), params)
        return self.observation(state, params), state

    def step_env(
        self, key: jax.Array, state: State, action: jax.Array, params: Params
    ) -> tuple[jax.Array, State, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Apply one action without starting the next episode (gymnax hook)."""
        after = self.transition(self.sample_noise(key), state, action, params)
        observation = self.observation(after.state, params)
        return observation, after.state, after.reward, after.terminated, after.info

    def get_obs(self, state: State, params: Params | None = None, key: jax.Array | None = None) -> jax.Array:
        """The observation of a state (gymnax hook); ``key`` is not used."""
        return self.observation(state, self.default_params if params is None else params)

    @abc.abstractmethod
    def is_terminated(self, state: State, params: Params) -> jax.Array:
        """Whether the state is the natural end of an episode."""

    @property
    @abc.abstractmethod
    def default_params(self) -> Params:
        """The default parameters."""

    @property
    def num_actions(self) -> int:
        """Number of actions under the default parameters."""
        return self.action_space(self.default_params).n

    @abc.abstractmethod
    def action_space(self, params: Params) -> spaces.Discrete:
        """The action space under these parameters."""

    @abc.abstractmethod
    def observation_space(self, params: Params) -> spaces.Box:
        """The observation space under these parameters."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
