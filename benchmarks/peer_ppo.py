"""Stable-Baselines3's PPO on quantum-mind's own environments, with its own default settings.

Eight environments in one process fill its default rollout of 2,048 steps. PyTorch has one thread: for small
networks more of them wait for each other, on a busy machine most of the time.
"""

from collections.abc import Callable

import torch
from gymnasium import Env
from quantum_mind.envs import ClarificationEnv, TrustHandoverEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

ENVIRONMENTS: dict[str, Callable[[], Env]] = {
    "Clarification-v0": ClarificationEnv,
    "TrustHandover-v0": TrustHandoverEnv,
}
LANES, ROLLOUT_STEPS = 8, 256
EPOCHS, BATCH_SIZE = 10, 64


class _Finished(BaseCallback):
    """Adds up the episodes that finish in every rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.total: list[float] = []
        self.episodes: list[int] = []

    def _on_rollout_start(self) -> None:
        self.total.append(0.0)
        self.episodes.append(0)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.total[-1] += info["episode"]["r"]
                self.episodes[-1] += 1
        return True


def train(seed: int, env_id: str, total_steps: int, features: int) -> tuple[list[float], list[int]]:
    """Train one agent on the CPU.

    Args:
        seed: Seed of everything random.
        env_id: One of :data:`ENVIRONMENTS`.
        total_steps: Environment steps in all; rounded up to whole rollouts.
        features: Width of the two hidden layers of actor and critic.

    Returns:
        Sum of the returns of the episodes that finished in every rollout, and their number.
    """
    torch.set_num_threads(1)
    finished = _Finished()
    agent = PPO(
        "MlpPolicy",
        make_vec_env(ENVIRONMENTS[env_id], LANES, seed=seed),
        n_steps=ROLLOUT_STEPS,
        n_epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        policy_kwargs={"net_arch": [features, features]},
        seed=seed,
        device="cpu",
    )
    agent.learn(total_steps, callback=finished)
    return finished.total, finished.episodes
