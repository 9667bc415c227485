"""Training that meets more often the people with whom the agent does worst."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from qmind_jax.environment import Environment
from qmind_jax.evaluation.returns import evaluate
from qmind_jax.policies.learned import LearnedPolicy
from qmind_jax.training import ppo
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.experience import begin


@struct.dataclass
class HardTraining:
    """A finished training; with many seeds every array has a leading axis of seeds.

    Attributes:
        policy: The trained policy, greedy; it acts on the observations of ``config.wrap(env)``.
        metrics: As in :class:`~qmind_jax.training.TrainResult`, each ``(rounds, updates per round)``. The
            returns are of the people met, the hard ones more often.
        judged: Mean return with each person after each round, float32 ``(rounds, people)``.
        steps: Environment steps in all, of training and of judging, int32; what plain training may use too
            in a fair comparison.
    """

    policy: LearnedPolicy
    metrics: ppo.Metrics
    judged: jax.Array
    steps: jax.Array


def train_against_hard_people(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig | None = None,
    *,
    rounds: int = 10,
    worst: float = 0.1,
    share: float = 0.5,
    episodes: int = 8,
    optimum: jax.Array | None = None,
) -> HardTraining:
    """Train an agent, or one per seed, with a population that turns towards its worst people.

    PPO for a round; then the agent is judged with everybody, and in the next round some of its episodes are
    with those of the lowest mean return alone. In expectation over people this trains for a mix of the mean
    return and its conditional value at risk (CVaR), the mean over the worst people. As a population is data,
    all rounds are one program. Judgements of earlier rounds count half as much from round to round.

    Args:
        key: One JAX random key, or an array of keys, one per seed.
        env: The environment, unwrapped.
        params: Its parameters, with the population; each person has the same weight in the first round.
        config: Hyper-parameters; ``total_steps`` are those of training, judging not included, and are
            rounded down to whole updates in every round.
        rounds: How often the population turns, at least 1.
        worst: Fraction of the people who count as worst, in (0, 1].
        share: Fraction of the episodes that only they have, in [0, 1]; 0 is plain training.
        episodes: With each person when judging, at least 2.
        optimum: Expected return of the best policy for each person, float ``(people,)``, as from
            :func:`~qmind_jax.evaluation.optima`. If given, the worst people are those of the highest regret
            against it.

    Raises:
        ValueError: If a number makes no sense, ``total_steps`` do not cover one update a round, or there is
            not one optimum per person.
    """
    config = PPOConfig() if config is None else config
    people = len(params.people)
    _check(rounds, worst, share, episodes)
    updates = config.num_updates // rounds
    if updates < 1:
        raise ValueError(
            f"rounds must be at most the {config.num_updates} updates of total_steps={config.total_steps}, "
            f"got {rounds}"
        )
    optimum = jnp.zeros(people) if optimum is None else jnp.asarray(optimum, float)
    if optimum.shape != (people,):
        raise ValueError(f"optimum must have shape ({people},), one per person, got {optimum.shape}")
    # So that annealing ends with the last round.
    config = dataclasses.replace(config, total_steps=updates * rounds * config.steps_per_update)
    return _train(key, env, params, config, optimum, worst, share, rounds, episodes)


@functools.partial(jax.jit, static_argnames=("env", "config", "rounds", "episodes"))
def _train(
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    optimum: jax.Array,
    worst: jax.Array,
    share: jax.Array,
    rounds: int,
    episodes: int,
) -> HardTraining:
    people, wrapped = len(params.people), config.wrap(env)

    def train_once(runner: ppo.Runner) -> HardTraining:
        # Updates have the numbers below this one.
        key_rounds = jax.random.fold_in(runner.key, config.num_updates)

        def one_round(carry: tuple[Any, ...], number: jax.Array) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            runner, met, estimate = carry
            key_reset, key_judge, key_draw = jax.random.split(jax.random.fold_in(key_rounds, number), 3)
            turned = params.replace(people=jax.tree.map(lambda leaf: leaf[met], params.people))
            network = ppo.network_of(env, params, config)
            progress = begin(key_reset, wrapped, turned, network, config.lanes)
            runner = runner.replace(progress=progress)
            runner, metrics = ppo.advance(
                runner, env, turned, config, num_updates=config.num_updates // rounds
            )
            policy = ppo.policy_of(runner, env, params, config)
            returns = evaluate(policy, wrapped, params, key_judge, people * episodes, balanced=True)
            judged = returns.by_person.mean
            estimate = jnp.where(number == 0, judged, 0.5 * (estimate + judged))
            met = _draw(key_draw, estimate - optimum, worst, share)
            return (runner, met, estimate), (metrics, judged, returns.lengths.sum())

        everybody = jnp.arange(people)
        carry, rows = jax.lax.scan(one_round, (runner, everybody, jnp.zeros(people)), jnp.arange(rounds))
        metrics, judged, judging_steps = rows
        steps = config.total_steps + judging_steps.sum()
        return HardTraining(ppo.policy_of(carry[0], env, params, config), metrics, judged, steps)

    runner = ppo.start(key, env, params, config)
    return train_once(runner) if runner.update.ndim == 0 else jax.vmap(train_once)(runner)


def _draw(key: jax.Array, score: jax.Array, worst: jax.Array, share: jax.Array) -> jax.Array:
    """As many people as there are, the worst more often: indices, int32 ``(people,)``.

    Systematic sampling: everybody appears as often as expected, rounded up or down.
    """
    people = len(score)
    rank = jnp.argsort(jnp.argsort(score))
    # The last of the worst may count in part, so that any fraction is exact.
    of_worst = jnp.clip(worst * people - rank, 0.0, 1.0) / (worst * people)
    weights = (1.0 - share) / people + share * of_worst
    places = (jnp.arange(people) + jax.random.uniform(key)) / people
    return jnp.minimum(jnp.searchsorted(jnp.cumsum(weights), places), people - 1)


def _check(rounds: int, worst: float, share: float, episodes: int) -> None:
    for name, value, least in (("rounds", rounds, 1), ("episodes", episodes, 2)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if not 0.0 < worst <= 1.0:
        raise ValueError(f"worst must lie in (0, 1], got {worst!r}")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must lie in [0, 1], got {share!r}")
