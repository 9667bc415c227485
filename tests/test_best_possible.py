"""The optimum that stands beside the returns of a run."""

import jax
import numpy as np
import pytest

from qmind_jax import runs
from qmind_jax.evaluation import optima
from qmind_jax.people import handover_population
from qmind_jax.policies import LearnedPolicy
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig
from qmind_jax.training.ppo import network_of


@pytest.fixture(scope="module")
def ten_people():
    return make("TrustHandover-v0", people=handover_population(jax.random.key(0), 10), n_steps=3)[1]


def test_it_is_the_mean_over_everybody(ten_people):
    best = runs.best_possible(ten_people)
    assert best.mean == pytest.approx(float(optima(ten_people).mean()), abs=1e-5)
    assert best.standard_error == 0.0


def test_of_many_people_some_stand_for_all(ten_people, monkeypatch):
    monkeypatch.setattr(runs, "MOST_SOLVED", 4)
    some = np.asarray(optima(ten_people))[[0, 3, 6, 9]]
    best = runs.best_possible(ten_people)
    assert best.mean == pytest.approx(some.mean(), abs=1e-5)
    assert best.standard_error == pytest.approx(some.std(ddof=1) * np.sqrt(0.6 / 4), rel=1e-3)


def test_a_tree_that_is_too_large_leaves_the_other_returns(tmp_path):
    env, params = make("Clarification-v0", max_questions=60)
    config = PPOConfig(features=2)
    run = runs.Run(tmp_path, "Clarification-v0", env, params, config, seeds=1, seed=0)
    network = network_of(env, params, config)
    observation = config.wrap(env).observation_space(params).sample(jax.random.key(0))
    weights = network.init(
        jax.random.key(0), network.initial_hidden(1), observation[None, None], np.zeros((1, 1), bool)
    )
    policy = LearnedPolicy(jax.tree.map(lambda x: x[None], weights), network)
    with pytest.warns(UserWarning, match="no optimum: .*memory_limit must be at least"):
        returns = runs.compare(run, policy, 10, jax.random.key(1))
    assert "random" in returns
    assert runs.BEST_POSSIBLE not in returns
