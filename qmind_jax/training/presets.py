"""Hyper-parameters that are known to reach the optimum of each environment."""

from qmind_jax.training.config import PPOConfig

PRESETS: dict[str, PPOConfig] = {
    "Clarification-v0": PPOConfig(total_steps=409_600),
    "ClarificationHard-v0": PPOConfig(
        network="gru",
        features=32,
        total_steps=1_515_520,
        lanes=256,
        rollout_steps=16,
        minibatches=8,
        entropy_bonus=0.1,
    ),
    "TrustHandover-v0": PPOConfig(
        total_steps=512_000,
        lanes=256,
        minibatches=8,
        learning_rate=3e-3,
        trace_decay=0.7,
        entropy_bonus=0.01,
    ),
    "TrustHandoverRecovery-v0": PPOConfig(
        network="gru",
        features=32,
        total_steps=3_072_000,
        lanes=512,
        minibatches=8,
        learning_rate=3e-3,
        trace_decay=0.8,
        entropy_bonus=0.04,
    ),
}
"""By environment id, for its published person."""

PEOPLE_PRESET = PPOConfig(
    network="gru",
    features=32,
    total_steps=409_600,
    lanes=256,
    minibatches=8,
    learning_rate=3e-3,
    trace_decay=0.7,
    entropy_bonus=0.01,
)
"""For populations, whatever the environment: who the person is shows only in what has happened so far, so
that the agent needs a memory. Without one it does better by drawing actions than by any fixed rule."""


def preset_for(env_id: str, people: int) -> PPOConfig:
    """The preset for training on so many people."""
    return PRESETS[env_id] if people == 1 else PEOPLE_PRESET
