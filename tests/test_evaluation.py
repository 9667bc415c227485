"""Evaluation: whole episodes, common random numbers, and what is reported of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.trust_handover import HAND_OVER, SLOW, WAIT
from qmind_jax.evaluation import evaluate
from qmind_jax.people import MarkovTrust
from qmind_jax.policies import Constant, QuestionPlanner, UniformRandom
from qmind_jax.registry import make

EPISODES = 12


def constant(action):
    return Constant(jnp.int32(action))


@pytest.fixture(scope="module")
def clarification(random_answering):
    """Random questions and actions, so that episodes differ in length."""
    return make("Clarification-v0", people=random_answering(1, people=5, dimension=3, ranks=(1, 2)))


def loop_over_episodes(policy, env, params, key, lanes):
    """Returns and lengths of some of the lanes of ``evaluate``, one step at a time."""
    key_start, key_env, key_policy = jax.random.split(key, 3)

    def noise(key, lane):
        return jax.tree.map(lambda leaf: leaf[lane], env.sample_noise(key, (EPISODES,)))

    @jax.jit
    def first(lane):
        return env.initial(noise(key_start, lane), params), policy.init(params)

    @jax.jit
    def one_step(lane, time, state, carry):
        policy_key = jax.random.split(jax.random.fold_in(key_policy, time), EPISODES)[lane]
        action, carry = policy.act(carry, env.observation(state, params), policy_key)
        after = env.transition(noise(jax.random.fold_in(key_env, time), lane), state, action, params)
        over = env.is_terminated(after.state, params) | env.is_truncated(after.state, params)
        return after.state, carry, after.reward, over

    totals, lengths = [], []
    for lane in lanes:
        state, carry = first(lane)
        total, length, over = 0.0, 0, False
        while not over:
            state, carry, reward, over = one_step(lane, length, state, carry)
            total, length = total + float(reward), length + 1
        totals.append(total)
        lengths.append(length)
    return totals, lengths


@pytest.mark.parametrize("kind", ["random", "planner"])
def test_every_episode_equals_a_plain_loop(clarification, kind):
    env, params = clarification
    policy = UniformRandom(6)
    if kind == "planner":
        # A policy that remembers; paid for asking, it asks again.
        params = params.replace(ask_cost=-0.1, max_questions=4)
        policy = QuestionPlanner.for_params(params, repeat=True)
    key = jax.random.key(3)
    returns = evaluate(policy, env, params, key, EPISODES)
    assert returns.per_episode.shape == returns.lengths.shape == (EPISODES,)
    assert returns.lengths.dtype == jnp.int32
    totals, lengths = loop_over_episodes(policy, env, params, key, range(EPISODES))
    np.testing.assert_allclose(returns.per_episode, totals, rtol=1e-5)
    np.testing.assert_array_equal(returns.lengths, lengths)
    assert kind == "planner" or len(set(returns.lengths.tolist())) > 2, "episodes should differ in length"


def test_lengths_and_returns_are_those_of_the_rules(clarification):
    env, params = clarification
    for_ever_asking = evaluate(constant(0), env, params, jax.random.key(0), 50)
    np.testing.assert_array_equal(for_ever_asking.lengths, 6)
    np.testing.assert_allclose(for_ever_asking.per_episode, -6 * 0.3 - 5, rtol=1e-6)
    acting = evaluate(constant(3), env, params, jax.random.key(0), 50)
    np.testing.assert_array_equal(acting.lengths, 1)
    assert set(acting.per_episode.tolist()) == {1.0, -5.0}
    env, params = make("TrustHandover-v0", n_steps=7)
    waiting = evaluate(constant(WAIT), env, params, jax.random.key(0), 50)
    np.testing.assert_array_equal(waiting.lengths, 7)
    np.testing.assert_allclose(waiting.per_episode, -7 * 0.3, rtol=1e-6)


def test_one_key_gives_one_result_and_another_key_another(clarification):
    results = [evaluate(UniformRandom(6), *clarification, jax.random.key(seed), 100) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(results[0].per_episode, results[1].per_episode)
    np.testing.assert_array_equal(results[0].lengths, results[1].lengths)
    assert not np.array_equal(results[0].per_episode, results[2].per_episode)


def test_two_policies_meet_the_same_people_with_the_same_luck():
    # 40 people from certain failure to certain success; slowness costs 1 and does not help.
    people = MarkovTrust(*(np.linspace(0.0, 1.0, 40), np.zeros(40), np.zeros(40)))
    env, params = make("TrustHandover-v0", people=people, n_steps=5, slow_factor=1.0, slow_cost=1.0)
    fast, slow = (
        evaluate(constant(action), env, params, jax.random.key(0), 1000) for action in (HAND_OVER, SLOW)
    )
    np.testing.assert_allclose(fast.per_episode - slow.per_episode, 5.0, rtol=1e-5)
    assert len(set(fast.per_episode.tolist())) == 6, "from no to five successes"
    other = evaluate(constant(SLOW), env, params, jax.random.key(1), 1000)
    assert not np.allclose(fast.per_episode - other.per_episode, 5.0)


def test_the_first_episodes_are_the_same_among_more(clarification):
    env, params = clarification
    few, many = (evaluate(constant(3), env, params, jax.random.key(0), n) for n in (10, 50))
    np.testing.assert_array_equal(few.per_episode, many.per_episode[:10])


def test_mean_and_standard_error_are_those_of_the_episodes(clarification):
    returns = evaluate(UniformRandom(6), *clarification, jax.random.key(1), 100)
    episodes = np.asarray(returns.per_episode, float)
    assert float(returns.mean) == pytest.approx(episodes.mean(), rel=1e-5)
    assert float(returns.standard_error) == pytest.approx(episodes.std(ddof=1) / 10, rel=1e-5)


def test_many_policies_are_evaluated_side_by_side_under_the_same_noise(clarification):
    env, params = clarification
    judge = functools.partial(evaluate, env=env, params=params, key=jax.random.key(0), episodes=50)
    together = jax.vmap(lambda policy: judge(policy))(Constant(jnp.array([0, 3, 4])))
    assert together.mean.shape == together.standard_error.shape == (3,)
    for i, action in enumerate((0, 3, 4)):
        alone = judge(constant(action))
        np.testing.assert_allclose(together.per_episode[i], alone.per_episode, rtol=1e-6)
        np.testing.assert_array_equal(together.lengths[i], alone.lengths)


def test_other_weights_and_other_people_compile_nothing_anew(clarification, random_answering):
    env, params = clarification
    evaluate(constant(0), env, params, jax.random.key(0), 50)
    size = evaluate._cache_size()
    others = params.replace(people=random_answering(2, people=5, dimension=3, ranks=(1, 2)))
    assert evaluate(constant(4), env, others, jax.random.key(1), 50).lengths.max() == 1
    assert evaluate._cache_size() == size
