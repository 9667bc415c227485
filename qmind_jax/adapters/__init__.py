"""Doors to other interfaces, the only place where hidden Python state lives."""

from qmind_jax.adapters.gymnasium import GymnasiumEnv
from qmind_jax.adapters.gymnasium_vector import GymnasiumVectorEnv
from qmind_jax.adapters.registration import register_envs
