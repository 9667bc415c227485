"""Registration of every id with Gymnasium."""

import gymnasium

from qmind_jax.registry import REGISTRY


def register_envs() -> list[str]:
    """Make every id of :data:`qmind_jax.registry.REGISTRY` known to Gymnasium.

    ``import qmind_jax`` calls this; calling it again changes nothing. No ``max_episode_steps`` is
    registered, as the environments have their own limits.

    Returns:
        The ids for ``gymnasium.make`` and ``gymnasium.make_vec``, such as
        ``"qmind_jax/TrustHandover-v0"``.
    """
    ids = {f"qmind_jax/{env_id}": env_id for env_id in REGISTRY}
    for gymnasium_id, env_id in ids.items():
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                id=gymnasium_id,
                entry_point="qmind_jax.adapters.gymnasium:GymnasiumEnv",
                vector_entry_point="qmind_jax.adapters.gymnasium_vector:GymnasiumVectorEnv",
                kwargs={"env": env_id},
            )
    return list(ids)
