"""Exact optima: the best that any policy can earn with a person."""

from qmind_jax.policies.optimal.clarification import ClarificationOptimum, clarification_optimum
from qmind_jax.policies.optimal.clarification_policy import ClarificationPolicy
from qmind_jax.policies.optimal.handover import HandoverOptimum, handover_optimum
from qmind_jax.policies.optimal.handover_policy import HandoverPolicy, handover_policy
from qmind_jax.policies.optimal.resolution import COARSE, FINE, MEDIUM, Resolution
from qmind_jax.policies.optimal.returns import ReturnDistribution, handover_returns
from qmind_jax.policies.optimal.risk import RiskOptimum, handover_cvar_optimum
from qmind_jax.policies.optimal.unknown_person import (
    UnknownPersonOptimum,
    clarification_unknown_person,
    handover_unknown_person,
)
