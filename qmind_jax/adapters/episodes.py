"""Where an episode begins, for every Gymnasium door: parameters, random keys, options of ``reset``."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.environment import Environment
from qmind_jax.names import unknown
from qmind_jax.registry import make, override

# Draws at the start of an episode that an option of ``reset`` can fix: the name of a field of the
# environment's noise, and the names of its outcomes in the order of their indices.
FIXABLE_DRAWS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "person": lambda people: range(len(people)),
    "intent": lambda people: people.hypotheses,
}


def build(env: str | Environment, params: Any, overrides: dict[str, Any]) -> tuple[Environment, Any]:
    """The environment and its checked parameters.

    Args:
        env: An id or an environment.
        params: Parameters; the defaults of the id or of the environment if None.
        overrides: Parameters to change, by name.

    Raises:
        ValueError: As :func:`qmind_jax.registry.make`, or if a parameter that is one number is an
            array.
        TypeError: As :func:`qmind_jax.registry.make`, or if ``env`` is neither an id nor an
            environment.
    """
    if isinstance(env, str):
        env, defaults = make(env)
    elif isinstance(env, Environment):
        defaults = env.default_params
    else:
        raise TypeError(f"env must be an id or an environment of qmind_jax, got {env!r}")
    params = override(env, defaults if params is None else params, **overrides)
    # Parameters with an axis of their own are for jax.vmap: here they would make the reward an array.
    for name in (field.name for field in dataclasses.fields(params) if field.name != "people"):
        shape = np.shape(getattr(params, name))
        if shape and not np.shape(getattr(defaults, name)):
            raise ValueError(f"{name} must be one number here, got an array of shape {shape}")
    return env, params


def draw_key(generator: np.random.Generator) -> np.ndarray:
    """The words of a Threefry key, uint32 of shape ``(2,)``."""
    return generator.integers(2**32, size=2, dtype=np.uint32)


def step_key(words: jax.Array, time: jax.Array) -> jax.Array:
    """The JAX key of step ``time``, with the reset as step 0."""
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), time)


def read_options(
    env: Environment, params: Any, options: dict[str, Any], lanes: int | None = None
) -> dict[str, np.ndarray]:
    """Turn options of ``reset`` into the uniform numbers that bring them about.

    Args:
        env: The environment.
        params: Its parameters.
        options: Index or name by option; with lanes also a sequence of one per lane.
        lanes: Number of lanes, or None where there are none.

    Returns:
        float32 arrays of shape ``()``, or ``(lanes,)`` where a sequence was given.

    Raises:
        ValueError: For an unknown option, or a value that is none of its outcomes.
    """
    known = {name: FIXABLE_DRAWS[name](params.people) for name in _fixable(env)}
    fixed = {}
    for option, value in options.items():
        if option not in known:
            raise ValueError(unknown("option", option, known if lanes is None else [*known, "reset_mask"]))
        outcomes = known[option]
        if lanes is not None and isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            if len(value) != lanes:
                raise ValueError(
                    f"options[{option!r}] must be one value or a sequence of {lanes}, one per lane; "
                    f"got {len(value)}"
                )
            index = np.array([_outcome(option, item, outcomes) for item in value])
        else:
            index = _outcome(option, value, outcomes)
        fixed[option] = np.asarray((index + 0.5) / len(outcomes), np.float32)
    return fixed


def fix_draws(noise: Any, fixed: dict[str, jax.Array]) -> Any:
    """The noise with some of its fields replaced, wherever in its tree they stand."""
    return jax.tree_util.tree_map_with_path(
        lambda path, value: jnp.broadcast_to(fixed.get(_field_name(path), value), value.shape), noise
    )


@functools.cache
def _fixable(env: Environment) -> list[str]:
    noise = jax.eval_shape(env.sample_noise, jax.eval_shape(lambda: jax.random.key(0)))
    drawn = [_field_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(noise)]
    return [name for name in FIXABLE_DRAWS if name in drawn]


def _field_name(path: tuple[Any, ...]) -> str:
    return getattr(path[-1], "name", "") if path else ""


def _outcome(option: str, value: Any, outcomes: Sequence[Any]) -> int:
    if isinstance(value, str) and value in outcomes:
        return outcomes.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(outcomes):
        return int(value)
    names = "" if isinstance(outcomes, range) else f" or one of {list(outcomes)}"
    raise ValueError(
        f"options[{option!r}] must be an index in 0 .. {len(outcomes) - 1}{names}, got {value!r}"
    )
