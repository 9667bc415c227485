"""Functions from environment to environment."""

from qmind_jax.wrappers.checked import Checked
from qmind_jax.wrappers.previous_step import PreviousStep
from qmind_jax.wrappers.wrapper import Wrapper
