"""Proximal policy optimisation (Schulman et al. 2017), end to end inside one ``jit``.

Experience comes from :func:`qmind_jax.rollout`, whole updates run in a ``scan``, and many seeds train side by
side under ``vmap``. Feed-forward and recurrent agents share every line: minibatches are cut by lanes and keep
their time axis, and the recurrent replay starts afresh where the rollout did.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import lax
from jax.sharding import Mesh

from qmind_jax.environment import Environment
from qmind_jax.noise import is_single
from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.policies.networks import ActorCritic
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.experience import Experience, Progress, begin, collect, log_prob_of
from qmind_jax.training.gae import generalised_advantages
from qmind_jax.training.hyper_parameters import HyperParameters, without_numbers
from qmind_jax.training.sharding import replicate, runner_shardings

Metrics = dict[str, jax.Array]
Report = Callable[[Any, Any], None]


@struct.dataclass
class Runner:
    """Everything that training carries from one update to the next; save it and nothing is lost.

    Attributes:
        variables: Weights of the network.
        optimiser: State of the optimiser.
        progress: Where the episodes of all lanes are.
        hyper_parameters: What this agent learns with; never change.
        key: JAX random key of the whole run; never changes.
        update: Number of updates done, int32.
    """

    variables: Any
    optimiser: Any
    progress: Progress
    hyper_parameters: HyperParameters
    key: jax.Array
    update: jax.Array

    @property
    def updates_done(self) -> int:
        """Number of updates done, the same for all seeds, as a Python number."""
        return int(self.update.addressable_data(0).max())


@struct.dataclass
class TrainResult:
    """A finished training run; with many seeds every array has a leading axis of seeds.

    Attributes:
        policy: The trained policy, greedy; it acts on the observations of ``config.wrap(env)``.
        metrics: History of ``return`` (mean of the episodes that ended in the rollout, NaN if none did),
            ``episodes``, ``entropy``, ``value_loss``, ``approx_kl``, ``clip_fraction`` and
            ``first_ratio_error`` (how far the replayed policy is from the one that acted, before the
            first gradient step; rounding only), each of shape ``(updates,)``.
        runner: State to continue from.
    """

    policy: LearnedPolicy
    metrics: Metrics
    runner: Runner


def train(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig | None = None,
    *,
    mesh: Mesh | None = None,
    report: Report | None = None,
) -> TrainResult:
    """Train an agent, or one per seed.

    Args:
        key: One JAX random key, or an array of keys, one per seed: all seeds then train in one call.
        env: The environment, unwrapped; ``config`` says what the agent sees of its last step.
        params: Parameters of the environment, shared by all seeds.
        config: Hyper-parameters.
        mesh: Devices to spread the training over, from
            :func:`qmind_jax.training.sharding.training_mesh`; JAX's default device if None. The result is
            the same up to the rounding of sums.
        report: Called from inside the computation after every update with the number of updates done
            and the mean return over the seeds.

    Returns:
        Trained policies, metrics and the final state.
    """
    config = PPOConfig() if config is None else config
    runner = start(key, env, params, config) if mesh is None else start_on(mesh, key, env, params, config)
    runner, metrics = advance(runner, env, params, config, num_updates=config.num_updates, report=report)
    metrics = metrics if mesh is None else replicate(metrics, mesh)
    return TrainResult(policy_of(runner, env, params, config), metrics, runner)


def start(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    hyper_parameters: HyperParameters | None = None,
) -> Runner:
    """The state before the first update.

    Args:
        key: As in :func:`train`.
        env: As in :func:`train`.
        params: As in :func:`train`.
        config: As in :func:`train`.
        hyper_parameters: Scalars in place of the numbers of ``config``.
    """
    numbers = HyperParameters.of(config) if hyper_parameters is None else hyper_parameters
    return _start(key, env, params, without_numbers(config), numbers)


@functools.partial(jax.jit, static_argnames=("env", "config"))
def _start(
    key: jax.Array, env: Environment, params: Any, config: PPOConfig, hyper_parameters: HyperParameters
) -> Runner:
    wrapped = config.wrap(env)

    def one_seed(key: jax.Array) -> Runner:
        key_network, key_env, key_run = jax.random.split(key, 3)
        network = network_of(env, params, config)
        progress = begin(key_env, wrapped, params, network, config.lanes)
        observation = jax.vmap(wrapped.observation, in_axes=(0, None))(progress.env_state, params)
        variables = network.init(key_network, progress.hidden, observation[None], progress.reset[None])
        return Runner(
            variables=variables,
            optimiser=_optimiser(config, hyper_parameters).init(variables),
            progress=progress,
            hyper_parameters=hyper_parameters,
            key=key_run,
            update=jnp.int32(0),
        )

    return one_seed(key) if is_single(key) else jax.vmap(one_seed)(key)


def start_on(mesh: Mesh, key: jax.Array, env: Environment, params: Any, config: PPOConfig) -> Runner:
    """:func:`start` with the state spread over the devices of a mesh; :func:`advance` keeps it there.

    Raises:
        ValueError: If the mesh does not divide the seeds or the lanes evenly.
    """

    def start_one(key: jax.Array, params: Any) -> Runner:
        return start(key, env, params, config)

    shardings = runner_shardings(jax.eval_shape(start_one, key, params), mesh)
    return jax.jit(start_one, out_shardings=shardings)(key, params)


def advance(
    runner: Runner,
    env: Environment,
    params: Any,
    config: PPOConfig,
    *,
    num_updates: int,
    report: Report | None = None,
) -> tuple[Runner, Metrics]:
    """Do some more updates; calling it twice is the same, bit for bit, as calling it once.

    Args:
        runner: From :func:`start` or an earlier call, of one seed or of many.
        env: The environment, unwrapped.
        params: Its parameters.
        config: As for :func:`start`; its numbers do not count, as ``runner`` has them.
        num_updates: How many.
        report: As in :func:`train`.

    Returns:
        The next state, and metrics of shape ``(num_updates,)``, after an axis of seeds if there is one.
    """
    return _advance(runner, env, params, without_numbers(config), num_updates, report)


@functools.partial(jax.jit, static_argnames=("env", "config", "num_updates", "report"))
def _advance(
    runner: Runner,
    env: Environment,
    params: Any,
    config: PPOConfig,
    num_updates: int,
    report: Report | None,
) -> tuple[Runner, Metrics]:
    def update(runner: Runner) -> tuple[Runner, Metrics]:
        return update_seeds(runner, env, params, config)

    return repeat(update, runner, num_updates, report)


def update_seeds(runner: Runner, env: Environment, params: Any, config: PPOConfig) -> tuple[Runner, Metrics]:
    """One update of one seed, or of each of many; see :func:`advance`, and run it under ``jit``."""
    many = runner.update.ndim == 1
    network = network_of(env, params, config)
    update_one = functools.partial(_update, config.wrap(env), params, config, network)
    return (jax.vmap(update_one) if many else update_one)(runner)


def repeat(
    update: Callable[[Runner], tuple[Runner, Metrics]],
    runner: Runner,
    num_updates: int,
    report: Report | None,
) -> tuple[Runner, Metrics]:
    """Do an update of all agents many times; see :func:`advance`, and run it under ``jit``.

    Returns:
        The last state, and metrics with a last axis of updates.
    """

    def one_more(runner: Runner, _: None) -> tuple[Runner, Metrics]:
        runner, metrics = update(runner)
        if report is not None:
            # Outside every vmap, so that there is one call per update whatever the number of agents.
            jax.debug.callback(report, runner.update.max(), jnp.mean(metrics["return"]))
        return runner, metrics

    runner, metrics = lax.scan(one_more, runner, length=num_updates)
    return runner, jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), metrics)


def network_of(env: Environment, params: Any, config: PPOConfig) -> ActorCritic:
    """The network that ``config`` asks for in this environment."""
    return ActorCritic(env.action_space(params).n, config.network, config.features)


def policy_of(runner: Runner, env: Environment, params: Any, config: PPOConfig) -> LearnedPolicy:
    """The greedy policy of a training state."""
    return LearnedPolicy(runner.variables, network_of(env, params, config))


def _update(
    env: Environment, params: Any, config: PPOConfig, network: ActorCritic, runner: Runner
) -> tuple[Runner, Metrics]:
    """One rollout and the gradient steps on it."""
    key_rollout, key_shuffle = jax.random.split(jax.random.fold_in(runner.key, runner.update))
    numbers = runner.hyper_parameters
    progress, seen = collect(
        key_rollout,
        env,
        params,
        network,
        runner.variables,
        runner.progress,
        steps=config.rollout_steps,
        reward_scale=numbers.reward_scale,
    )
    observation = jax.vmap(env.observation, in_axes=(0, None))(progress.env_state, params)
    _, _, last_value = network.apply(
        runner.variables, progress.hidden, observation[None], progress.reset[None]
    )
    done = seen.terminated | seen.truncated
    following = jnp.concatenate([seen.value[1:], last_value])
    advantage = generalised_advantages(
        seen.reward,
        seen.value,
        jnp.where(done, seen.final_value, following),
        seen.terminated,
        seen.truncated,
        discount=numbers.discount,
        trace_decay=numbers.trace_decay,
        bootstrap_at_truncation=not env.time_limit_is_part_of_task,
    )

    entropy_bonus = numbers.entropy_bonus * _remaining(config, runner.update)
    adam = _optimiser(config, numbers)

    def minibatch_step(
        carry: tuple[Any, Any], batch: tuple[jax.Array, Experience, jax.Array]
    ) -> tuple[tuple[Any, Any], Metrics]:
        variables, optimiser = carry
        gradient, metrics = jax.grad(_loss, has_aux=True)(variables, network, numbers, entropy_bonus, *batch)
        change, optimiser = adam.update(gradient, optimiser, variables)
        return (optax.apply_updates(variables, change), optimiser), metrics

    def epoch(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Metrics]:
        order = jax.random.permutation(key, config.lanes).reshape(config.minibatches, -1)
        # All at once: what a minibatch would look up for itself is looked up again wherever it is used.
        batches = jax.tree.map(lambda x: jnp.moveaxis(x[:, order], 1, 0), (seen, advantage))
        return lax.scan(minibatch_step, carry, (runner.progress.hidden[order], *batches))

    keys = jax.random.split(key_shuffle, config.epochs)
    (variables, optimiser), losses = lax.scan(epoch, (runner.variables, runner.optimiser), keys)

    episodes = jnp.sum(done)
    metrics = {
        "return": jnp.sum(seen.finished_return) / episodes,
        "episodes": episodes,
        "first_ratio_error": losses.pop("ratio_error")[0, 0],
        **jax.tree.map(jnp.mean, losses),
    }
    runner = runner.replace(
        variables=variables, optimiser=optimiser, progress=progress, update=runner.update + 1
    )
    return runner, metrics


def _loss(
    variables: Any,
    network: ActorCritic,
    hyper_parameters: HyperParameters,
    entropy_bonus: jax.Array,
    hidden: jax.Array,
    seen: Experience,
    advantage: jax.Array,
) -> tuple[jax.Array, Metrics]:
    """PPO's clipped loss on a minibatch of lanes."""
    clip = hyper_parameters.clip
    _, logits, value = network.apply(variables, hidden, seen.observation, seen.reset)
    log_probs = jax.nn.log_softmax(logits)
    log_ratio = log_prob_of(log_probs, seen.action) - seen.log_prob
    ratio = jnp.exp(log_ratio)
    target = advantage + seen.value
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    value_loss = 0.5 * jnp.square(value - target).mean()
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1).mean()
    loss = policy_loss + hyper_parameters.value_weight * value_loss - entropy_bonus * entropy
    metrics = {
        "entropy": entropy,
        "value_loss": value_loss,
        "approx_kl": (ratio - 1.0 - log_ratio).mean(),
        "clip_fraction": (jnp.abs(ratio - 1.0) > clip).mean(),
        "ratio_error": jnp.abs(ratio - 1.0).max(),
    }
    return loss, metrics


def _remaining(config: PPOConfig, update: jax.Array) -> jax.Array:
    """Fraction of the training still to come, or 1 without annealing."""
    return 1.0 - update / config.num_updates if config.anneal else jnp.float32(1.0)


def _optimiser(config: PPOConfig, hyper_parameters: HyperParameters) -> optax.GradientTransformation:
    steps = config.num_updates * config.epochs * config.minibatches
    rate = hyper_parameters.learning_rate
    # Flattened: one pass over one vector instead of several over every layer.
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(hyper_parameters.max_gradient_norm),
            optax.adam(optax.linear_schedule(rate, 0.0, steps) if config.anneal else rate, eps=1e-5),
        )
    )
