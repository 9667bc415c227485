"""What policies achieve."""

from qmind_jax.evaluation.returns import Returns, evaluate
