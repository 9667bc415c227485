"""qmind_jax: thousands of simulated people for reinforcement learning, in JAX."""

import importlib
from typing import Any

from qmind_jax import envs, people
from qmind_jax.adapters.registration import register_envs
from qmind_jax.registry import REGISTRY, make

__version__ = "0.1.0"

_LAZY = ("evaluation", "plots", "policies", "testing", "training", "wrappers")

register_envs()


def __getattr__(name: str) -> Any:
    """Import the larger subpackages, and what needs them, when they are first used."""
    if name in _LAZY:
        return importlib.import_module(f"qmind_jax.{name}")
    if name == "rollout":
        return importlib.import_module("qmind_jax.rollouts").rollout
    raise AttributeError(f"module 'qmind_jax' has no attribute {name!r}")
