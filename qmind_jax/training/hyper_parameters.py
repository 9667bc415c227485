"""The numbers of PPO that are data: other values need no new program."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.training.config import PPOConfig


@struct.dataclass
class HyperParameters:
    """Hyper-parameters as arrays, float32 scalars each; a population of agents has an axis of members.

    Attributes:
        learning_rate: Adam's step size at the start.
        discount: Gamma, in [0, 1].
        trace_decay: Lambda of the advantage estimator, in [0, 1].
        clip: Largest change of the probability ratio that is rewarded.
        entropy_bonus: Weight of the entropy of the policy, at the start.
        value_weight: Weight of the squared error of the value function.
        reward_scale: What learning multiplies rewards by.
        max_gradient_norm: Gradients longer than this are shortened.
    """

    learning_rate: jax.Array
    discount: jax.Array
    trace_decay: jax.Array
    clip: jax.Array
    entropy_bonus: jax.Array
    value_weight: jax.Array
    reward_scale: jax.Array
    max_gradient_norm: jax.Array

    @classmethod
    def of(cls, config: PPOConfig) -> "HyperParameters":
        """Those of a config."""
        return cls(**{name: jnp.float32(getattr(config, name)) for name in NAMES})


NAMES: tuple[str, ...] = tuple(field.name for field in dataclasses.fields(HyperParameters))
"""Names of the hyper-parameters that are data."""


def without_numbers(config: PPOConfig) -> PPOConfig:
    """The config with every number that is data at its default: the same for all that share a program."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{name: defaults[name] for name in NAMES})
