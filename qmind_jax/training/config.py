"""Hyper-parameters of PPO."""

import dataclasses
import math
from typing import Literal

from qmind_jax.environment import Environment
from qmind_jax.wrappers.previous_step import PreviousStep


@dataclasses.dataclass(frozen=True)
class PPOConfig:
    """Settings of one training run.

    The numbers that :class:`~qmind_jax.training.HyperParameters` names are data: training with other values
    needs no new program. Every other field changes what is compiled. The defaults train the feed-forward
    agent on the published environments.

    Raises:
        ValueError: If a value makes no sense; the message names the field.
    """

    total_steps: int = 500_000
    """Environment steps in all, over all lanes; rounded down to whole updates."""
    lanes: int = 128
    """Episodes that run side by side."""
    rollout_steps: int = 20
    """Steps of every lane between two updates."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 4
    """Parts that a rollout is cut into, by lanes; must divide ``lanes``."""
    learning_rate: float = 2e-3
    """Adam's step size at the start."""
    anneal: bool = True
    """Let the learning rate and the entropy bonus fall linearly to 0."""
    discount: float = 1.0
    """Gamma. The episodes are short and their optima undiscounted."""
    trace_decay: float = 0.95
    """Lambda of the advantage estimator."""
    clip: float = 0.2
    """Largest change of the probability ratio that is rewarded."""
    entropy_bonus: float = 0.02
    """Weight of the entropy of the policy."""
    value_weight: float = 0.5
    """Weight of the squared error of the value function."""
    reward_scale: float = 0.2
    """What learning multiplies rewards by; reported returns are unscaled."""
    max_gradient_norm: float = 0.5
    """Gradients longer than this are shortened."""
    network: Literal["mlp", "gru"] = "mlp"
    """Feed-forward or recurrent."""
    features: int = 64
    """Width of the hidden layers."""
    previous_action: bool = True
    """Show the agent its last action. Without it 'I have just asked' looks like 'I asked before'."""
    previous_reward: bool = False
    """Show the agent its last reward."""

    def __post_init__(self) -> None:
        for name in ("total_steps", "lanes", "rollout_steps", "epochs", "minibatches", "features"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        positive = ("learning_rate", "clip", "reward_scale", "max_gradient_norm")
        fractions = ("discount", "trace_decay")
        for name in (*positive, *fractions, "entropy_bonus", "value_weight"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
            if name in positive and value <= 0.0:
                raise ValueError(f"{name} must be positive, got {value!r}")
            if name in fractions and not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
            if value < 0.0:
                raise ValueError(f"{name} must not be negative, got {value!r}")
        for name in ("anneal", "previous_action", "previous_reward"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.lanes % self.minibatches:
            raise ValueError(
                f"minibatches must divide lanes, got minibatches={self.minibatches}, lanes={self.lanes}"
            )
        if self.network not in ("mlp", "gru"):
            raise ValueError(f"network must be 'mlp' or 'gru', got {self.network!r}")
        if self.num_updates < 1:
            raise ValueError(
                f"total_steps must cover one update of lanes * rollout_steps = "
                f"{self.steps_per_update} steps, got {self.total_steps}"
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps between two updates."""
        return self.lanes * self.rollout_steps

    @property
    def num_updates(self) -> int:
        """Number of rollouts and updates."""
        return self.total_steps // self.steps_per_update

    def wrap(self, env: Environment) -> Environment:
        """The environment as the agent sees it, with its last action and reward as asked for."""
        if not (self.previous_action or self.previous_reward):
            return env
        return PreviousStep(env, action=self.previous_action, reward=self.previous_reward)
