"""Policies: rules, planners and trained networks."""

from qmind_jax.policies.ablation import order_blind
from qmind_jax.policies.interviews import Interview, interview
from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.policies.policy import Policy
from qmind_jax.policies.question_lookahead import QuestionLookahead
from qmind_jax.policies.question_planner import QuestionPlanner
from qmind_jax.policies.scripted import yardsticks
from qmind_jax.policies.simple import Constant, UniformRandom
from qmind_jax.policies.trust_lookahead import TrustLookahead
from qmind_jax.policies.trust_rule import TrustRule
