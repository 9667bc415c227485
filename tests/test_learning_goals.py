"""What trained agents reach, judged against exact optima; minutes each, so they run with ``-m slow``."""

import functools

import jax
import numpy as np
import pytest
from exact import clarification_optimum

from qmind_jax.evaluation import evaluate
from qmind_jax.people import hard_domain
from qmind_jax.policies import UniformRandom
from qmind_jax.registry import make
from qmind_jax.training import train
from qmind_jax.training.presets import PRESETS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SEEDS, EPISODES = 5, 100_000


def trained_returns(env_id):
    """Mean return of each of five agents, trained in one call and evaluated greedily."""
    env, params = make(env_id)
    config = PRESETS[env_id]
    result = train(jax.random.split(jax.random.key(0), SEEDS), env, params, config)
    judge = functools.partial(
        evaluate, env=config.wrap(env), params=params, key=jax.random.key(1), episodes=EPISODES
    )
    # One after the other: five times as many episodes at once need five times as much memory.
    returns = [judge(jax.tree.map(lambda leaf, i=i: leaf[i], result.policy)).mean for i in range(SEEDS)]
    assert result.metrics["first_ratio_error"].max() < 1e-3
    return np.array(returns)


def test_every_agent_learns_the_published_clarification():
    returns = trained_returns("Clarification-v0")
    assert np.all(returns >= -1.63), f"optimum -1.6108, reached {returns}"


def test_four_of_five_agents_learn_the_published_hand_over():
    returns = trained_returns("TrustHandover-v0")
    assert np.sum(returns >= -3.45) >= 4, f"optimum -3.3368, always waiting -6, reached {returns}"


def test_recurrent_agents_come_close_to_the_optimum_of_the_hard_clarification():
    env, params = make("ClarificationHard-v0")
    assert PRESETS["ClarificationHard-v0"].network == "gru"
    with jax.enable_x64(True):
        optimum = clarification_optimum(hard_domain(), ask_cost=float(params.ask_cost))
    untrained = evaluate(UniformRandom(env.action_space(params).n), env, params, jax.random.key(1), EPISODES)
    way = (trained_returns("ClarificationHard-v0") - float(untrained.mean)) / (
        optimum - float(untrained.mean)
    )
    assert np.all(way >= 0.97), f"optimum {optimum:.4f}, random {untrained.mean:.4f}, went {way} of the way"


def test_recurrent_agents_learn_to_win_back_trust():
    assert PRESETS["TrustHandoverRecovery-v0"].network == "gru"
    returns = trained_returns("TrustHandoverRecovery-v0")
    assert np.all(returns >= 2.6), f"optimum 2.8934, published rule 1.5017, reached {returns}"
