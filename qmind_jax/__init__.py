"""qmind_jax: thousands of simulated people for reinforcement learning, in JAX."""

import importlib
from types import ModuleType

from qmind_jax import envs, people
from qmind_jax.registry import REGISTRY, make

__version__ = "0.1.0"

_LAZY = ("adapters", "evaluation", "plots", "policies", "testing", "training", "wrappers")


def __getattr__(name: str) -> ModuleType:
    """Import the larger subpackages when they are first used."""
    if name in _LAZY:
        return importlib.import_module(f"qmind_jax.{name}")
    raise AttributeError(f"module 'qmind_jax' has no attribute {name!r}")
