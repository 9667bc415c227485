"""The environments, one file each."""

from qmind_jax.envs.clarification import Clarification, ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandover, TrustHandoverParams
