"""What every wrapper does unless it says otherwise: ask the wrapped environment."""

from typing import Any

import jax
from gymnax.environments import spaces

from qmind_jax.environment import Environment, Transition


class Wrapper(Environment[Any, Any, Any]):
    """An environment around another one, which answers everything that a subclass leaves alone.

    A subclass with a state of its own overrides :meth:`inner_state`, :meth:`initial` and
    :meth:`transition`. Two wrappers are equal, and share their compilations, if they are of one class
    with equal attributes: the wrapped environment and the options, all of them hashable.

    Args:
        env: The environment to wrap.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.time_limit_is_part_of_task = env.time_limit_is_part_of_task

    def inner_state(self, state: Any) -> Any:
        """The wrapped environment's part of a state: all of it."""
        return state

    @property
    def default_params(self) -> Any:
        """Those of the wrapped environment."""
        return self.env.default_params

    def sample_noise(self, key: jax.Array, batch_shape: tuple[int, ...] = ()) -> Any:
        """That of the wrapped environment."""
        return self.env.sample_noise(key, batch_shape)

    def initial(self, noise: Any, params: Any) -> Any:
        """That of the wrapped environment."""
        return self.env.initial(noise, params)

    def transition(self, noise: Any, state: Any, action: jax.Array, params: Any) -> Transition:
        """That of the wrapped environment."""
        return self.env.transition(noise, state, action, params)

    def observation(self, state: Any, params: Any) -> jax.Array:
        """That of the wrapped environment."""
        return self.env.observation(self.inner_state(state), params)

    def is_truncated(self, state: Any, params: Any) -> jax.Array:
        """That of the wrapped environment."""
        return self.env.is_truncated(self.inner_state(state), params)

    def is_terminated(self, state: Any, params: Any) -> jax.Array:
        """That of the wrapped environment."""
        return self.env.is_terminated(self.inner_state(state), params)

    def state_info(self, state: Any, params: Any) -> dict[str, jax.Array]:
        """That of the wrapped environment."""
        return self.env.state_info(self.inner_state(state), params)

    def action_space(self, params: Any) -> spaces.Discrete:
        """That of the wrapped environment."""
        return self.env.action_space(params)

    def observation_space(self, params: Any) -> spaces.Box:
        """That of the wrapped environment."""
        return self.env.observation_space(params)

    def check_params(self, params: Any) -> None:
        """That of the wrapped environment."""
        self.env.check_params(params)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self).items())))
