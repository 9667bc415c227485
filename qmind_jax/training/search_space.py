"""Ranges of hyper-parameters, and members of a population drawn from them."""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from qmind_jax.names import unknown
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.hyper_parameters import NAMES


@dataclasses.dataclass(frozen=True)
class Range:
    """Where a hyper-parameter is looked for.

    Attributes:
        low: The smallest value.
        high: The largest value.
        log: Draw the logarithm evenly instead of the number: as often from 0.001 to 0.01 as from 0.01 to
            0.1. Best for what is known by its order of magnitude.

    Raises:
        ValueError: If the ends are no finite numbers in order, or ``log`` meets a number below or at 0.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            number = isinstance(end, int | float) and not isinstance(end, bool)
            if not number or not math.isfinite(end):
                raise ValueError(f"a range must have finite numbers as ends, got {end!r}")
        if not self.low < self.high:
            raise ValueError(f"a range must have low < high, got low={self.low!r}, high={self.high!r}")
        if self.log and self.low <= 0.0:
            raise ValueError(f"a logarithmic range must have low > 0, got low={self.low!r}")

    def at(self, place: jax.Array) -> jax.Array:
        """The value at a place between 0, the low end, and 1, the high end; float32."""
        if self.log:
            value = self.low * (self.high / self.low) ** place
        else:
            value = self.low + (self.high - self.low) * place
        return jnp.clip(value, self.low, self.high).astype(jnp.float32)


def check_space(space: Mapping[str, Range], config: PPOConfig) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless a config makes sense with every value of the ranges."""
    if not space:
        raise ValueError("space must name at least one hyper-parameter, such as learning_rate")
    for name, values in space.items():
        if name not in NAMES:
            raise ValueError(unknown("hyper-parameter", name, NAMES))
        if not isinstance(values, Range):
            raise TypeError(f"space[{name!r}] must be a Range, got {values!r}")
        for end in (values.low, values.high):
            dataclasses.replace(config, **{name: end})


def draw(space: Mapping[str, Range], key: jax.Array, members: int) -> dict[str, jax.Array]:
    """Members whose values of each hyper-parameter are spread evenly (a Latin hypercube).

    Each range is cut into as many parts as there are members, and each part has one of them.

    Args:
        space: Ranges by name.
        key: JAX random key.
        members: How many.

    Returns:
        Float32 ``(members,)`` by name.
    """
    drawn = {}
    for name, key_name in zip(space, jax.random.split(key, len(space)), strict=True):
        key_order, key_place = jax.random.split(key_name)
        part = jax.random.permutation(key_order, members)
        place = (part + jax.random.uniform(key_place, (members,), jnp.float32)) / members
        drawn[name] = space[name].at(place)
    return drawn
