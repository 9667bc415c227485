"""What an agent goes through between two updates."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.policies.learned import draw_actions
from qmind_jax.policies.networks import ActorCritic
from qmind_jax.rollouts import Lanes, Moment, rollout


@struct.dataclass
class Experience:
    """What was seen in one rollout; every leaf has shape ``(steps, lanes, ...)``.

    Attributes:
        observation: What was acted on.
        reset: Whether it started an episode: the end came *before* this step.
        action: int32.
        log_prob: Of the action, under the policy that chose it.
        value: V of the observation.
        reward: Scaled reward.
        terminated: The episode came to its natural end *at* this step.
        truncated: The episode hit its limit at this step.
        final_value: V of the final observation, 0 where the limit belongs to the task.
        finished_return: Unscaled return of the episode that ended at this step, 0 elsewhere.
    """

    observation: jax.Array
    reset: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    final_value: jax.Array
    finished_return: jax.Array


@struct.dataclass
class Progress:
    """Where the lanes are; each leaf has a leading axis of lanes.

    Attributes:
        env_state: States of the environment.
        reset: Whether the next step starts an episode, bool.
        hidden: Hidden state of the network, ``(lanes, features)``.
        episode_return: Return of the running episode so far, float32.
    """

    env_state: Any
    reset: jax.Array
    hidden: jax.Array
    episode_return: jax.Array


def begin(key: jax.Array, env: Environment, params: Any, network: ActorCritic, lanes: int) -> Progress:
    """New episodes in all lanes, of which nothing is remembered.

    Args:
        key: JAX random key.
        env: The environment as the agent sees it.
        params: Its parameters.
        network: The network that will act.
        lanes: How many.
    """
    _, env_state = env.reset_batch(key, params, lanes)
    nothing = jnp.zeros(lanes, jnp.float32)
    return Progress(env_state, jnp.ones(lanes, bool), network.initial_hidden(lanes), nothing)


def collect(
    key: jax.Array,
    env: Environment,
    params: Any,
    network: ActorCritic,
    variables: Any,
    progress: Progress,
    *,
    steps: int,
    reward_scale: jax.Array | float,
) -> tuple[Progress, Experience]:
    """Let the network act, drawing actions.

    Args:
        key: JAX random key.
        env: The environment as the agent sees it.
        params: Its parameters.
        network: The network.
        variables: Its weights.
        progress: Where the lanes are.
        steps: Steps of every lane.
        reward_scale: What learning multiplies rewards by.

    Returns:
        Where the lanes are then, and what was seen.
    """

    def record(moment: Moment) -> dict[str, jax.Array]:
        if env.time_limit_is_part_of_task:
            final_value = jnp.zeros_like(moment.carry.value)
        else:
            last = moment.info["final_observation"]
            _, _, (final_value,) = network.apply(variables, moment.carry.hidden, last[None], no_reset)
        return {
            "observation": moment.observation,
            "action": moment.action,
            "log_prob": moment.carry.log_prob,
            "value": moment.carry.value,
            "reward": moment.reward.astype(jnp.float32),
            "terminated": moment.terminated,
            "truncated": moment.truncated,
            "final_value": final_value,
        }

    lanes = len(progress.reset)
    no_reset = jnp.zeros((1, lanes), bool)
    nothing = jnp.zeros(lanes, jnp.float32)
    # As the replay has it, whatever the caller left there.
    hidden = jnp.where(progress.reset[:, None], 0.0, progress.hidden)
    begun = Lanes(progress.env_state, _ActorCarry(hidden, nothing, nothing))
    result = rollout(env, params, _SamplingPolicy(variables, network), key, begun, steps, record=record)
    seen = result.trajectory
    done = seen["terminated"] | seen["truncated"]
    episode_return, finished_return = lax.scan(_add_up, progress.episode_return, (seen["reward"], done))
    experience = Experience(
        **{**seen, "reward": reward_scale * seen["reward"]},
        reset=jnp.concatenate([progress.reset[None], done[:-1]]),
        finished_return=finished_return,
    )
    after = Progress(result.lanes.state, done[-1], result.lanes.carry.hidden, episode_return)
    return after, experience


@struct.dataclass
class _ActorCarry:
    """What a network remembers, and what it thought of the last step."""

    hidden: jax.Array
    log_prob: jax.Array
    value: jax.Array


@struct.dataclass
class _SamplingPolicy:
    """A network as the policy that draws its actions and says what it thinks of them."""

    variables: Any
    network: ActorCritic = struct.field(pytree_node=False)

    def init(self, params: Any) -> _ActorCarry:
        return _ActorCarry(self.network.initial_hidden(1)[0], jnp.float32(0.0), jnp.float32(0.0))

    def act_batch(
        self, carry: _ActorCarry, observation: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, _ActorCarry]:
        no_reset = jnp.zeros((1, len(observation)), bool)
        hidden, logits, value = self.network.apply(self.variables, carry.hidden, observation[None], no_reset)
        log_probs = jax.nn.log_softmax(logits[0])
        action = draw_actions(key, log_probs)
        return action, _ActorCarry(hidden, log_prob_of(log_probs, action), value[0])


def log_prob_of(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    """The entry of each action, without the last axis."""
    # A sum with one term, as the gradient of a lookup would be a scatter, one row after the other.
    chosen = jnp.arange(log_probs.shape[-1]) == action[..., None]
    return jnp.sum(jnp.where(chosen, log_probs, 0.0), axis=-1)


def _add_up(episode_return: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns of running and of finished episodes, one step on."""
    reward, done = step
    episode_return = episode_return + reward
    return jnp.where(done, 0.0, episode_return), jnp.where(done, episode_return, 0.0)
