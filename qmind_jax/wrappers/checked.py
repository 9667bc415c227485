"""Find mistakes in a loop that would otherwise pass without a word."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from qmind_jax.environment import Transition
from qmind_jax.wrappers.wrapper import Wrapper


class Checked(Wrapper):
    """Report actions outside the action space, and steps after the end of an episode.

    Without it such an action is clipped into the space, and a step after the end changes nothing and
    pays 0. ``step`` and ``step_batch`` start the next episode by themselves, so that only loops over
    ``transition`` or ``step_env`` can step after an end.

    The checks are those of :mod:`jax.experimental.checkify`: whatever calls the environment, with its
    ``scan`` and ``vmap``, goes through ``checkify.checkify``, which returns an error beside the result.
    Elsewhere a check under ``jit`` is refused by JAX itself when it is traced. ``reset`` has no checks::

        import jax
        import qmind_jax
        from jax.experimental import checkify
        from qmind_jax.wrappers import Checked

        env, params = qmind_jax.make("TrustHandover-v0")
        env = Checked(env)
        step = jax.jit(checkify.checkify(env.step))
        key = jax.random.key(0)
        _, state = env.reset(key, params)
        error, results = step(key, state, 3, params)
        error.throw()  # nothing: action 3 waits
        error, results = step(key, state, 4, params)
        error.throw()  # JaxRuntimeError: action 4 is outside the action space, Discrete(4), ...

    Args:
        env: Environment with discrete actions.
    """

    def transition(self, noise: Any, state: Any, action: jax.Array, params: Any) -> Transition:
        """The wrapped environment's, after the checks.

        Raises:
            TypeError: If the action is not an integer.
        """
        action = jnp.asarray(action)
        if not jnp.issubdtype(action.dtype, jnp.integer):
            raise TypeError(f"action must be an integer, got dtype {action.dtype}")
        size = self.action_space(params).n
        checkify.check(
            (action >= 0) & (action < size),
            f"action {{action}} is outside the action space, Discrete({size}), which is 0 .. {size - 1}",
            action=action,
        )
        checkify.check(
            ~(self.is_terminated(state, params) | self.is_truncated(state, params)),
            "step after the end of the episode: start the next one with reset or initial",
        )
        return super().transition(noise, state, action, params)
