"""Evaluation: whole episodes, common random numbers, and what is reported of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT
from qmind_jax.evaluation import evaluate, evaluate_in_parts, stated_beliefs
from qmind_jax.evaluation import returns as returns_module
from qmind_jax.people import MarkovTrust, handover_population
from qmind_jax.policies import Constant, QuestionPlanner, TrustRule, UniformRandom
from qmind_jax.registry import make
from qmind_jax.wrappers import PreviousStep

EPISODES = 12


def constant(action):
    return Constant(jnp.int32(action))


@pytest.fixture(scope="module")
def clarification(random_answering):
    """Random questions and actions, so that episodes differ in length."""
    return make("Clarification-v0", people=random_answering(1, people=5, dimension=3, ranks=(1, 2)))


def loop_over_episodes(policy, env, params, key, lanes):
    """Returns, lengths, people and counts of some of the episodes of ``evaluate``, one step at a time."""
    key_start, key_env, key_policy = jax.random.split(jax.random.fold_in(key, 0), 3)

    def noise(key, lane):
        return jax.tree.map(lambda leaf: leaf[lane], env.sample_noise(key, (EPISODES,)))

    @jax.jit
    def first(lane):
        return env.initial(noise(key_start, lane), params), policy.init(params)

    @jax.jit
    def one_step(lane, time, state, carry):
        key = jax.random.fold_in(key_policy, time)
        observation = env.observation(state, params)
        if hasattr(policy, "act_batch"):
            # All lanes draw under one key, of which this one sees its own draw.
            everywhere = jnp.broadcast_to(observation, (EPISODES, *observation.shape))
            action = policy.act_batch(carry, everywhere, key)[0][lane]
        else:
            action, carry = policy.act(carry, observation, jax.random.split(key, EPISODES)[lane])
        after = env.transition(noise(jax.random.fold_in(key_env, time), lane), state, action, params)
        over = env.is_terminated(after.state, params) | env.is_truncated(after.state, params)
        return after.state, carry, action, after.reward, after.info["correct"], over

    episodes = []
    for lane in lanes:
        state, carry = first(lane)
        total, length, questions, correct, over = np.float32(0.0), 0, 0, 0, False
        while not over:
            state, carry, action, reward, right, over = one_step(lane, length, state, carry)
            total, length = total + np.float32(reward), length + 1
            questions, correct = questions + int(action < 3), correct + int(right)
        episodes.append((total, length, int(state.person), questions, correct))
    return [np.array(column) for column in zip(*episodes, strict=True)]


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
    assert returns.per_episode.shape == returns.lengths.shape == returns.person.shape == (EPISODES,)
    assert returns.lengths.dtype == returns.person.dtype == jnp.int32
    assert set(returns.counts) == {"questions", "correct"}
    expected = loop_over_episodes(policy, env, params, key, range(EPISODES))
    counts = returns.counts["questions"], returns.counts["correct"]
    for got, want in zip(
        (returns.per_episode, returns.lengths, returns.person, *counts), expected, strict=True
    ):
        np.testing.assert_array_equal(got, want)
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


def test_more_episodes_than_lanes_follow_batch_after_batch(clarification, monkeypatch):
    env, params = clarification
    monkeypatch.setattr(returns_module, "LANES", 8)
    small = evaluate(UniformRandom(6), env, params, jax.random.key(5), 21)
    assert small.per_episode.shape == (21,)
    fewer = evaluate(UniformRandom(6), env, params, jax.random.key(5), 10)
    jax.tree.map(lambda few, many: np.testing.assert_array_equal(few, many[:10]), fewer, small)
    batches = [jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i : i + 8]), small) for i in (0, 8)]
    assert not np.array_equal(batches[0].per_episode, batches[1].per_episode), "batches have their own luck"
    assert not np.array_equal(batches[0].person, batches[1].person)


@pytest.mark.parametrize("lanes", [5, 8192])
def test_people_can_be_met_in_turn(clarification, monkeypatch, lanes):
    env, params = clarification
    monkeypatch.setattr(returns_module, "LANES", lanes)
    returns = evaluate(UniformRandom(6), env, params, jax.random.key(6), 23 + lanes % 2, balanced=True)
    np.testing.assert_array_equal(returns.person, np.arange(23 + lanes % 2) % 5)


def test_of_many_people_everybody_is_met_in_turn():
    people = MarkovTrust(*np.full((3, 5_000), 0.5))
    env, params = make("TrustHandover-v0", people=people, n_steps=1)
    returns = evaluate(constant(WAIT), env, params, jax.random.key(0), 10_001, balanced=True)
    np.testing.assert_array_equal(returns.person, np.arange(10_001) % 5_000)


def test_one_episode_is_refused(clarification):
    with pytest.raises(ValueError, match="episodes must be at least 2, got 1"):
        evaluate(UniformRandom(6), *clarification, jax.random.key(0), 1)


def test_what_happens_in_hand_overs_is_counted():
    env, params = make("TrustHandoverRecovery-v0", n_steps=9)
    key = jax.random.key(2)
    returns = evaluate(UniformRandom(4), env, params, key, 3_000)
    count = {name: np.asarray(values, float) for name, values in returns.counts.items()}
    assert set(count) == {"hand_overs", "slow", "failures", "asks", "waits"}
    np.testing.assert_array_equal(count["hand_overs"] + count["asks"] + count["waits"], 9)
    # The return can be told from the counts.
    paid = 2.0 * count["failures"] + 0.2 * count["slow"] + 0.2 * count["asks"] + 0.3 * count["waits"]
    earned = count["hand_overs"] - count["failures"]
    np.testing.assert_allclose(returns.per_episode, earned - paid, atol=1e-4)
    assert 0 < count["failures"].sum() < count["hand_overs"].sum()
    means = returns.mean_counts
    assert float(means["asks"][0]) == pytest.approx(count["asks"].mean(), rel=1e-5)
    assert float(means["asks"][1]) == pytest.approx(count["asks"].std(ddof=1) / np.sqrt(3_000), rel=1e-4)
    # The same through a wrapper, whose state and observation are others.
    wrapped = evaluate(UniformRandom(4), PreviousStep(env), params, key, 3_000)
    jax.tree.map(np.testing.assert_array_equal, wrapped.counts, returns.counts)


@pytest.mark.parametrize(("action", "name"), [(HAND_OVER, "hand_overs"), (ASK, "asks"), (WAIT, "waits")])
def test_every_action_has_its_count(action, name):
    env, params = make("TrustHandover-v0", n_steps=3)
    returns = evaluate(constant(action), env, params, jax.random.key(0), 10)
    counts = {key: int(values.sum()) for key, values in returns.counts.items() if key != "failures"}
    assert counts == {"hand_overs": 0, "slow": 0, "asks": 0, "waits": 0} | {name: 30}


def test_each_person_is_averaged_over_their_own_episodes(clarification):
    env, params = clarification
    returns = evaluate(UniformRandom(6), env, params, jax.random.key(1), 500)
    by_person = returns.by_person
    values, person = np.asarray(returns.per_episode, float), np.asarray(returns.person)
    for i in range(5):
        mine = values[person == i]
        assert int(by_person.episodes[i]) == mine.size
        assert float(by_person.mean[i]) == pytest.approx(mine.mean(), rel=1e-5)
        assert float(by_person.standard_error[i]) == pytest.approx(
            mine.std(ddof=1) / mine.size**0.5, rel=1e-4
        )
    means = np.asarray(by_person.mean, float)
    assert float(by_person.mean_over_people) == pytest.approx(means.mean(), rel=1e-5)
    assert float(by_person.standard_error_over_people) == pytest.approx(means.std(ddof=1) / 5**0.5, rel=1e-4)


def test_people_who_were_not_met_have_no_mean():
    people = MarkovTrust(*np.full((3, 50), 0.5))
    env, params = make("TrustHandover-v0", people=people, n_steps=1)
    by_person = evaluate(constant(WAIT), env, params, jax.random.key(0), 10).by_person
    met = np.asarray(by_person.episodes) > 0
    assert 0 < met.sum() <= 10
    np.testing.assert_array_equal(np.isnan(by_person.mean), ~met)
    np.testing.assert_array_equal(np.isnan(by_person.standard_error), np.asarray(by_person.episodes) < 2)
    assert float(by_person.mean_over_people) == pytest.approx(-0.3, rel=1e-6)


# --- stated beliefs ---------------------------------------------------------------------------------


def test_a_planner_that_knows_the_person_states_what_comes_true():
    env, params = make("Clarification-v0")
    said = stated_beliefs(QuestionPlanner.for_params(params), env, params, jax.random.key(0), 20_000, 6)
    probabilities, outcomes = said.of_actions
    assert outcomes.size == 20_000, "every episode acts once"
    assert abs(outcomes.mean() - 0.6148706697) < 4 * 0.5 / 20_000**0.5
    # After "yes" the cup is right with probability .7628, after "no" the bowl with .5244.
    assert {round(float(p), 4) for p in np.unique(probabilities)} == {0.7628, 0.5244}
    for p in np.unique(probabilities):
        right = outcomes[probabilities == p]
        assert abs(right.mean() - p) < 4 * 0.5 / right.size**0.5
    asked, yes = said.of_answers
    assert yes.size == 20_000
    assert abs(asked.mean() - yes.mean()) < 4 * 0.5 / 20_000**0.5


def test_the_trust_rule_states_what_comes_true():
    env, params = make("TrustHandover-v0")
    said = stated_beliefs(TrustRule.for_params(params), env, params, jax.random.key(0), 4_000, 20)
    assert not np.any(said.acts & said.asks)
    assert int(said.acts.sum() + said.asks.sum()) == 4_000 * 20, "the rule never waits"
    for probabilities, outcomes in (said.of_actions, said.of_answers):
        for low in (0.0, 0.25, 0.5, 0.75):
            mask = (probabilities >= low) & (probabilities <= low + 0.25)
            if mask.sum() > 100:
                gap = probabilities[mask].mean() - outcomes[mask].mean()
                assert abs(gap) < 4.5 * 0.5 / mask.sum() ** 0.5


def test_what_comes_after_the_end_is_no_statement(clarification):
    env, params = clarification
    said = stated_beliefs(QuestionPlanner.for_params(params), env, params, jax.random.key(0), 50, 9)
    np.testing.assert_array_equal(np.asarray(said.acts).sum(axis=0) <= 1, True)
    assert said.probability.shape == (9, 50)
    acted = np.cumsum(said.acts, axis=0) > 0
    assert not np.any(np.asarray(said.asks)[1:] & acted[:-1])


def test_no_steps_are_refused(clarification):
    env, params = clarification
    with pytest.raises(ValueError, match="episodes and steps must be at least 1, got episodes=5, steps=0"):
        stated_beliefs(QuestionPlanner.for_params(params), env, params, jax.random.key(0), 5, 0)


# --- means ------------------------------------------------------------------------------------------


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


def test_people_in_parts_are_evaluated_like_each_part_alone():
    env, params = make("TrustHandover-v0", people=handover_population(jax.random.key(0), 7))
    policy, key = Constant(jnp.int32(0)), jax.random.key(4)
    parts = [params.people[:3], params.people[3:6], params.people[6:]]
    together = evaluate_in_parts(policy, env, params, iter(parts), key, 40)
    for number, (part, rows) in enumerate(zip(parts, (slice(0, 3), slice(3, 6), slice(6, 7)), strict=True)):
        alone = evaluate(
            policy,
            env,
            params.replace(people=part),
            jax.random.fold_in(key, number),
            40 * len(part),
            balanced=True,
        )
        np.testing.assert_array_equal(together.mean[rows], alone.by_person.mean)
        np.testing.assert_array_equal(together.standard_error[rows], alone.by_person.standard_error)
    assert together.episodes.tolist() == [40] * 7
    assert isinstance(together.mean, np.ndarray)


def test_no_parts_and_no_episodes_are_refused():
    env, params = make("TrustHandover-v0")
    with pytest.raises(ValueError, match="at least one population, got none"):
        evaluate_in_parts(Constant(jnp.int32(0)), env, params, [], jax.random.key(0))
    with pytest.raises(ValueError, match="episodes_per_person must be at least 2, got 1"):
        evaluate_in_parts(Constant(jnp.int32(0)), env, params, [params.people], jax.random.key(0), 1)
