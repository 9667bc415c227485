"""Policies: scripted rules and trained networks."""

from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.policies.policy import Policy
from qmind_jax.policies.scripted import Constant, QuestionPlanner, TrustRule, UniformRandom, yardsticks
