"""Functions from environment to environment."""

from qmind_jax.wrappers.previous_step import PreviousStep
