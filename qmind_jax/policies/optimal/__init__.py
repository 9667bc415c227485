"""Exact optima: the best that any policy can earn with a person."""

from qmind_jax.policies.optimal.clarification import ClarificationOptimum, clarification_optimum
