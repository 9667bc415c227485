"""Training that turns towards the people with whom the agent does worst."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.evaluation import evaluate
from qmind_jax.people import BetaTrust
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train, train_against_hard_people
from qmind_jax.training.hard_people import _draw

KEY = jax.random.key(1)
N_STEPS = 5
TINY = PPOConfig(total_steps=480, lanes=8, rollout_steps=10, epochs=2, minibatches=2, features=8)


@pytest.fixture(scope="module")
def task():
    """Nine people who nearly always trust, and one who hardly ever does and never will."""
    people = BetaTrust([0.95] * 9 + [0.1], [50.0] * 10, [0.3] * 10, [0.3] * 10)
    return make("TrustHandoverRecovery-v0", people=people, n_steps=N_STEPS)


@pytest.fixture(scope="module")
def result(task):
    return train_against_hard_people(jax.random.split(KEY, 2), *task, TINY, rounds=3, episodes=4)


def test_the_worst_are_met_as_often_as_asked_for():
    score = jnp.array([5.0, 1.0, 7.0, 0.0, 6.0, 8.0, 9.0, 4.0, 3.0, 2.0])
    met = np.bincount(_draw(KEY, score, 0.2, 0.6), minlength=10)
    # Each of the two worst is expected 0.4 + 3 times, everybody else 0.4 times.
    assert set(met[[1, 3]]) <= {3, 4}
    assert set(np.delete(met, [1, 3])) <= {0, 1}
    np.testing.assert_array_equal(_draw(KEY, score, 0.2, 0.0), np.arange(10))
    np.testing.assert_array_equal(_draw(KEY, score, 0.1, 1.0), np.full(10, 3))
    # A person and a half: the second worst counts half as much as the worst.
    many = np.mean(
        [np.bincount(_draw(jax.random.key(i), score, 0.15, 1.0), minlength=10) for i in range(60)], 0
    )
    np.testing.assert_allclose(many[[3, 1]], [20 / 3, 10 / 3], atol=0.2)


def test_everything_has_the_shape_that_is_promised(result, task):
    assert result.judged.shape == (2, 3, 10)
    assert result.metrics["return"].shape == (2, 3, 2)
    # Six updates of 80 steps, and three times 4 episodes of 5 steps with everybody.
    np.testing.assert_array_equal(result.steps, 480 + 3 * 4 * 10 * N_STEPS)
    first = jax.tree.map(lambda leaf: leaf[0], result.policy)
    returns = evaluate(first, TINY.wrap(task[0]), task[1], KEY, 100, balanced=True)
    assert returns.per_episode.shape == (100,)


def test_a_config_that_rounds_do_not_divide_trains_whole_updates(result, task):
    uneven = dataclasses.replace(TINY, total_steps=80 * 7)
    same = train_against_hard_people(jax.random.split(KEY, 2), *task, uneven, rounds=3, episodes=4)
    np.testing.assert_array_equal(same.judged, result.judged)


@pytest.mark.slow
def test_seeds_do_not_mix(result, task):
    alone = train_against_hard_people(jax.random.split(KEY, 2)[1], *task, TINY, rounds=3, episodes=4)
    np.testing.assert_allclose(alone.judged, result.judged[1], atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 7}, "rounds must be at most the 6 updates of total_steps=480, got 7"),
        ({"episodes": 1}, "episodes must be at least 2, got 1"),
        ({"worst": 0.0}, r"worst must lie in \(0, 1\], got 0.0"),
        ({"share": 1.5}, r"share must lie in \[0, 1\], got 1.5"),
        ({"optimum": np.zeros(3)}, r"optimum must have shape \(10,\), one per person, got \(3,\)"),
    ],
)
def test_trainings_that_make_no_sense_are_refused(task, changes, message):
    with pytest.raises(ValueError, match=message):
        train_against_hard_people(KEY, *task, TINY, **{"rounds": 3} | changes)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_turning_towards_the_worst_raises_the_worst_tenth():
    """Of people who differ widely; equal numbers of steps, paired over four seeds."""
    low, high = np.array([(0.1, 1.0, 0.1, 0.2), (0.9, 4.0, 0.8, 1.6)])
    people = BetaTrust(*jax.random.uniform(KEY, (40, 4), minval=low, maxval=high).T)
    env, params = make("TrustHandoverRecovery-v0", people=people)
    config = PPOConfig(
        network="gru", features=32, total_steps=307_200, lanes=256, minibatches=8, learning_rate=3e-3
    )
    keys = jax.random.split(KEY, 4)
    turned = train_against_hard_people(keys, env, params, config)
    plain = train(keys, env, params, dataclasses.replace(config, total_steps=int(turned.steps.max())))

    def worst_tenth(policies):
        each = [jax.tree.map(lambda leaf, i=i: leaf[i], policies) for i in range(4)]
        judged = [evaluate(one, config.wrap(env), params, KEY, 40 * 128, balanced=True) for one in each]
        return np.array([returns.worst_people().mean for returns in judged])

    gain = worst_tenth(turned.policy) - worst_tenth(plain.policy)
    assert gain.mean() > 2.0 * gain.std(ddof=1) / 2.0
