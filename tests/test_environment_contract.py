"""What every environment promises: one key is one trajectory, in any batch, under any wrapper."""

import copy
import math
import pickle
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import spaces
from gymnax.wrappers import FlattenObservationWrapper, LogWrapper
from hypothesis import example, given
from hypothesis import strategies as st

from qmind_jax import noise as random
from qmind_jax.environment import Environment, Transition
from qmind_jax.envs import Clarification, ClarificationParams, TrustHandover
from qmind_jax.envs.checks import check_cost
from qmind_jax.people import (
    BetaTrust,
    IndependentAnswers,
    MarkovTrust,
    ProjectiveAnswers,
    TrustQubit,
    default_domain,
    handover_population,
    mix,
)
from qmind_jax.people.population import as_population
from qmind_jax.registry import REGISTRY, make, override
from qmind_jax.testing import check_environment

STEPS = 40


def many_people(env_id, random_answering):
    """Environment and parameters with a population of 50."""
    env, params = make(env_id)
    if isinstance(env, Clarification):
        return env, params.replace(people=random_answering(0, people=50, dimension=3, ranks=(1, 2)))
    return env, params.replace(people=handover_population(jax.random.key(0), 50))


@pytest.fixture(params=["ClarificationHard-v0", "TrustHandover-v0"])
def populated(request, random_answering):
    return many_people(request.param, random_answering)


def rollout(env, params, key, actions):
    """``reset_batch`` and then ``step_batch`` for every row of actions, all results stacked."""
    reset_key, *step_keys = jax.random.split(key, 1 + len(actions))
    first = env.reset_batch(reset_key, params, actions.shape[1])
    state, results = first[1], []
    for step_key, action in zip(step_keys, actions, strict=True):
        result = env.step_batch(step_key, state, action, params)
        state = result[1]
        results.append(jax.device_get(result))
    return jax.device_get(first), jax.tree.map(lambda *leaves: np.stack(leaves), *results)


def random_actions(env, params, lanes, steps=STEPS):
    actions = np.random.default_rng(0).integers(env.action_space(params).n, size=(steps, lanes))
    return actions.astype(np.int32)


def assert_same(got, expected, tolerance=1e-6):
    """Integers and bools bit for bit; floats too, unless a tolerance is given for the last digits.

    XLA contracts multiplications and additions differently for one lane and for many, so beliefs and
    trust may differ in the last bit between batch sizes and without ``jit``.
    """
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for (path, left), right in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        name = jax.tree_util.keystr(path)
        assert np.asarray(left).dtype == np.asarray(right).dtype, name
        if np.issubdtype(np.asarray(left).dtype, np.inexact) and tolerance:
            np.testing.assert_allclose(left, right, tolerance, tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(left, right, name)


# --- one key, one trajectory ------------------------------------------------------------------------


def test_a_lane_plays_the_same_episode_in_batches_of_1_and_7_and_4096(populated):
    env, params = populated
    key, actions = jax.random.key(3), random_actions(env, params, 4096)
    full = rollout(env, params, key, actions)
    assert np.asarray(full[1][3] | full[1][4]).any(axis=0).all(), "every lane should have met an end"
    for lanes in (1, 7):
        part = rollout(env, params, key, actions[:, :lanes])
        expected = (
            jax.tree.map(lambda x, n=lanes: x[:n], full[0]),
            jax.tree.map(lambda x, n=lanes: x[:, :n], full[1]),
        )
        assert_same(part, expected)
        # What the agent sees and is paid is the same to the last bit.
        for index in (0, 2, 3, 4):
            assert_same(part[1][index], expected[1][index], tolerance=0)


@pytest.mark.parametrize("mode", ["jit", "no jit"])
def test_a_batch_equals_a_python_loop_over_the_noise_of_its_lanes(populated, mode):
    env, params = populated
    lanes, steps = (7, 25) if mode == "jit" else (7, 1)
    key, actions = jax.random.key(4), random_actions(env, params, lanes, steps)
    (first_observation, first), batch = rollout(env, params, key, actions)
    reset_key, *step_keys = jax.random.split(key, 1 + steps)
    reset_noise = env.sample_noise(reset_key, (lanes,))
    step_noise = [env.sample_noise(step_key, (lanes,)) for step_key in step_keys]
    wrap = jax.jit if mode == "jit" else (lambda function: function)
    initial, transition = wrap(env.initial), wrap(env.transition)
    with jax.disable_jit(mode == "no jit"):
        for i in range(lanes):
            state = initial(jax.tree.map(lambda x, i=i: x[i], reset_noise), params)
            assert_same(state, jax.tree.map(lambda x, i=i: x[i], first))
            assert_same(env.observation(state, params), first_observation[i])
            for t in range(steps):
                noise = jax.tree.map(lambda x, i=i: x[i], step_noise[t])
                after = transition(noise, state, actions[t, i], params)
                truncated = env.is_truncated(after.state, params)
                final = env.observation(after.state, params)
                state = initial(noise, params) if after.terminated or truncated else after.state
                observation, next_state, reward, terminated, got_truncated, info = jax.tree.map(
                    lambda x, t=t, i=i: x[t, i], batch
                )
                assert_same(state, next_state)
                assert_same(env.observation(state, params), observation, tolerance=0)
                assert_same(final, info["final_observation"], tolerance=0)
                assert (bool(after.terminated), bool(truncated)) == (bool(terminated), bool(got_truncated))
                assert after.reward == reward
                assert_same(after.info, {name: info[name] for name in after.info})


def test_step_under_vmap_over_keys_equals_a_loop_of_steps(populated):
    env, params = populated
    lanes = 6
    reset_keys, step_keys = jax.random.split(jax.random.key(5), (2, lanes))
    actions = random_actions(env, params, lanes, 1)[0]
    observations, states = jax.vmap(env.reset, (0, None))(reset_keys, params)
    results = jax.vmap(env.step, (0, 0, 0, None))(step_keys, states, actions, params)
    for i in range(lanes):
        observation, state = env.reset(reset_keys[i], params)
        assert_same((observation, state), jax.tree.map(lambda x, i=i: x[i], (observations, states)))
        one = env.step(step_keys[i], state, actions[i], params)
        assert_same(one, jax.tree.map(lambda x, i=i: x[i], results))


def test_one_person_per_lane_by_vmap_over_params(populated):
    env, params = populated
    lanes, key = 5, jax.random.key(6)
    singles = [override(env, params.replace(people=params.people[i : i + 1])) for i in range(lanes)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *singles)
    keys = jax.random.split(key, lanes)
    actions = random_actions(env, params, lanes, 1)[0]
    _, states = jax.vmap(env.reset)(keys, stacked)
    results = jax.vmap(env.step)(keys, states, actions, stacked)
    for i in range(lanes):
        _, state = env.reset(keys[i], singles[i])
        one = env.step(keys[i], state, actions[i], singles[i])
        assert_same(one, jax.tree.map(lambda x, i=i: x[i], results))


def test_another_key_gives_another_trajectory(populated):
    env, params = populated
    actions = random_actions(env, params, 32)
    one, other = (rollout(env, params, jax.random.key(seed), actions) for seed in (1, 2))
    assert not np.array_equal(one[1][0], other[1][0])
    lanes = np.asarray(one[1][2]).T
    assert len(np.unique(lanes, axis=0)) == 32, "lanes of one batch should differ"


# --- ends -------------------------------------------------------------------------------------------


def test_at_an_end_the_last_observation_is_kept_and_a_new_person_is_drawn(populated):
    env, params = populated
    lanes, key = 32, jax.random.key(7)
    actions = random_actions(env, params, lanes)
    (first_observation, _), (observation, state, _, terminated, truncated, info) = rollout(
        env, params, key, actions
    )
    done = np.asarray(terminated | truncated)
    before = np.concatenate([first_observation[None], observation[:-1]])
    final = np.asarray(info["final_observation"])
    assert done.any()
    np.testing.assert_array_equal(np.asarray(observation)[done], 0, "an episode starts with nothing known")
    np.testing.assert_array_equal(final[~done], np.asarray(observation)[~done])
    if isinstance(env, TrustHandover):
        np.testing.assert_array_equal(final[done][:, 2], 1.0, "the last observation is at the time limit")
        np.testing.assert_array_equal(np.asarray(terminated), False)
    else:
        questions = params.people.num_questions
        acted = np.asarray(actions) >= questions
        np.testing.assert_array_equal(np.asarray(terminated), acted)
        np.testing.assert_array_equal(final[acted], before[acted], "acting changes no answer")
        t, lane = np.nonzero(done & ~acted)
        assert len(t) > 0
        expected = info["question_answer"][t, lane] * 2 - 1
        np.testing.assert_array_equal(final[t, lane, np.asarray(actions)[t, lane]], expected)
    people = np.asarray(state.person)
    step_keys = jax.random.split(key, 1 + STEPS)[1:]
    drawn = np.stack(
        [random.choose(env.sample_noise(k, (lanes,)).person, len(params.people)) for k in step_keys]
    )
    np.testing.assert_array_equal(people[done], drawn[done])
    np.testing.assert_array_equal(people[1:][~done[1:]], people[:-1][~done[1:]])
    assert len(np.unique(people[done])) > 25, "many of the 50 people should have been drawn"


def test_the_published_env_pays_and_ends_as_documented():
    env, params = make("Clarification-v0", max_questions=2)
    key = jax.random.key(0)
    _, state = env.reset(key, params)
    _, state, reward, terminated, truncated, info = env.step(key, state, 1, params)
    np.testing.assert_allclose(reward, -0.3, rtol=1e-6)
    assert not terminated
    assert not truncated
    assert not info["terminated"]
    observation, state, reward, terminated, truncated, info = env.step(key, state, 1, params)
    np.testing.assert_allclose(reward, -5.3, rtol=1e-6)
    assert not terminated
    assert truncated
    assert info["truncated"]
    assert info["final_observation"][1] != 0
    np.testing.assert_array_equal(observation, 0)
    assert int(state.count) == 0


# --- gymnax -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["Clarification-v0", "TrustHandover-v0"])
def test_gymnax_wrappers_work_unmodified_under_jit_and_scan(env_id):
    env, params = make(env_id)
    wrapped = LogWrapper(FlattenObservationWrapper(env))
    key, steps = jax.random.key(0), 100
    actions = random_actions(env, params, 1, steps)[:, 0]
    keys = jax.random.split(key, steps)

    @jax.jit
    def play(key, actions, keys):
        observation, state = wrapped.reset(key, params)

        def step(state, script):
            _, state, reward, terminated, truncated, info = wrapped.step(script[0], state, script[1], params)
            return state, (reward, terminated | truncated, info)

        return observation, jax.lax.scan(step, state, (keys, actions))[1]

    observation, (reward, done, info) = play(key, actions, keys)
    assert observation.shape == wrapped.observation_space(params).shape
    assert np.asarray(done).sum() >= 5
    ends = np.nonzero(done)[0]
    starts = np.concatenate([[0], ends[:-1] + 1])
    returns = [np.asarray(reward)[a : b + 1].sum() for a, b in zip(starts, ends, strict=True)]
    np.testing.assert_allclose(np.asarray(info["returned_episode_returns"])[ends], returns, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(info["returned_episode_lengths"])[ends], ends - starts + 1)


@pytest.mark.parametrize("env_class", [Clarification, TrustHandover])
def test_the_params_may_be_left_out_as_in_gymnax(env_class):
    env, key = env_class(), jax.random.key(1)
    observation, state = env.reset(key)
    results = env.step(key, state, 0)
    expected = env.reset(key, env.default_params)
    assert_same((observation, state), expected)
    assert_same(results, env.step(key, expected[1], 0, env.default_params))
    assert env.num_actions == env.action_space(env.default_params).n
    np.testing.assert_array_equal(env.get_obs(state), observation)


def test_gymnax_hooks_are_the_kernel(populated):
    env, params = populated
    key = jax.random.key(2)
    observation, state = env.reset_env(key, params)
    assert_same((observation, state), env.reset(key, params))
    observation, next_state, reward, terminated, info = env.step_env(key, state, 0, params)
    after = env.transition(env.sample_noise(key), state, 0, params)
    assert_same(
        (next_state, reward, terminated, info), (after.state, after.reward, after.terminated, after.info)
    )
    np.testing.assert_array_equal(env.get_obs(next_state, params), observation)


@pytest.mark.parametrize("env_class", [Clarification, TrustHandover])
def test_environments_hold_no_data(env_class):
    env = env_class()
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env_class()):
        assert other == env
        assert hash(other) == hash(env)
    assert Clarification() != TrustHandover()
    assert vars(env) == {}


def test_params_and_states_survive_pickling(populated):
    env, params = populated
    _, state = env.reset(jax.random.key(0), params)
    for tree in (params, state):
        assert_same(pickle.loads(pickle.dumps(tree)), tree, tolerance=0)
        assert_same(copy.deepcopy(tree), tree, tolerance=0)


# --- compilation ------------------------------------------------------------------------------------


def counting(env_class):
    """A subclass that counts how often its kernel is traced."""

    class Counting(env_class):
        traces = 0

        def transition(self, noise, state, action, params):
            type(self).traces += 1
            return super().transition(noise, state, action, params)

    return Counting


@pytest.mark.parametrize("env_class", [Clarification, TrustHandover])
def test_a_hundred_redraws_of_people_compile_once(env_class, random_answering):
    class_ = counting(env_class)
    env, key = class_(), jax.random.key(0)
    params = override(env, env.default_params)
    for i in range(100):
        if env_class is Clarification:
            people = random_answering(i, people=3, dimension=2)
        else:
            people = handover_population(jax.random.fold_in(key, i), 3)
        params = params.replace(people=people, ask_cost=jnp.float32(i))
        _, state = env.reset(key, params)
        reward = env.step(key, state, 2 if env_class is TrustHandover else 0, params)[2]
        assert reward == -i
    assert class_.traces == 1


@pytest.mark.parametrize("env_class", [Clarification, TrustHandover])
def test_states_of_a_running_episode_do_not_compile_anew(env_class):
    class_ = counting(env_class)
    env, key = class_(), jax.random.key(0)
    params = override(env, env.default_params)
    _, state = env.reset(key, params)
    for i in range(5):
        state = env.step(jax.random.fold_in(key, i), state, jnp.int32(0), params)[1]
    assert class_.traces == 1


@pytest.mark.parametrize("env_id", REGISTRY)
def test_the_state_is_a_fixed_point_of_the_abstract_step(env_id, precision, random_answering):
    env, params = make(env_id)
    candidates = [params, REGISTRY[env_id].params()]
    if isinstance(env, Clarification):
        people = random_answering(0, dimension=2, complex_states=True, complex_projectors=True)
        candidates.append(params.replace(people=people))
    for some_params in candidates:
        key, action = jax.random.key(0), jnp.int32(0)
        _, state = jax.eval_shape(env.reset, key, some_params)
        _, next_state, *_ = jax.eval_shape(env.step, key, state, action, some_params)

        def signature(tree):
            return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]

        assert signature(next_state) == signature(state)
        assert jax.tree.structure(next_state) == jax.tree.structure(state)
    floats = {str(leaf.dtype) for leaf in jax.tree.leaves(params) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    assert floats == {precision.name}


@pytest.mark.parametrize("people", [1, 33])
def test_people_of_other_number_and_shape_need_no_other_change(people, random_answering):
    env, params = make("Clarification-v0")
    population = random_answering(people, people=people, dimension=5, questions=4, hypotheses=2)
    check_spaces(env, params.replace(people=population), questions=4, hypotheses=2)
    env, params = make("TrustHandover-v0")
    params = params.replace(people=handover_population(jax.random.key(0), people, "markov"))
    observation, state = env.reset_batch(jax.random.key(0), params, 200)
    assert observation.shape == (200, 3)
    assert len(np.unique(state.person)) == people


def check_spaces(env, params, questions, hypotheses):
    observation, state = env.reset_batch(jax.random.key(0), params, 200)
    assert observation.shape == (200, questions)
    assert env.observation_space(params).shape == (questions,)
    assert env.action_space(params).n == questions + hypotheses
    assert len(np.unique(state.person)) == len(params.people)
    assert len(np.unique(state.intent)) == hypotheses


# --- the conformance check on all environments ------------------------------------------------------


@pytest.mark.parametrize("env_id", REGISTRY)
def test_every_registered_environment_keeps_the_contract(env_id):
    check_environment(*make(env_id))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", REGISTRY)
def test_every_registered_environment_keeps_the_contract_in_double_precision(env_id):
    with jax.enable_x64(True):
        check_environment(*make(env_id))


def ten_thousand_people():
    """Who lose coherence never or at once."""
    return handover_population(jax.random.key(0), 10_000).replace(gamma=np.tile([0.0, 1.0], 5_000))


EXTREMES = {
    "one step": lambda: make("TrustHandover-v0", n_steps=1, slow_factor=0.0),
    "many extreme people": lambda: make("TrustHandover-v0", people=ten_thousand_people(), slow_factor=1.0),
    "markov people": lambda: make(
        "TrustHandover-v0", people=[MarkovTrust(), MarkovTrust(p0=0.0, up=1.0, down=1.0)]
    ),
    "beta people": lambda: make(
        "TrustHandover-v0", people=[BetaTrust(), BetaTrust(p0=1.0, w_s=0.0, w_f=9.0)]
    ),
    "people of three families": lambda: make(
        "TrustHandover-v0",
        people=mix([ten_thousand_people(), MarkovTrust(p0=0.0, up=1.0, down=1.0), BetaTrust(w_s=0.0)]),
    ),
    "one question allowed, no costs": lambda: make(
        "Clarification-v0", max_questions=1, ask_cost=0.0, success_reward=0.0, error_cost=0.0
    ),
    "one question, hypothesis and dimension": lambda: make(
        "Clarification-v0", people=ProjectiveAnswers([[-2.0]], [[[1.0]]])
    ),
    "certain tables": lambda: make("Clarification-v0", people=IndependentAnswers([[0.0, 1.0], [1.0, 0.0]])),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_parameters_keep_the_contract(name):
    check_environment(*EXTREMES[name](), steps=60)


@pytest.mark.slow
def test_complex_people_keep_the_contract(random_answering):
    people = random_answering(0, people=20, dimension=2, complex_states=True, complex_projectors=True)
    check_environment(*make("Clarification-v0", people=people), steps=60)


# --- the conformance check itself -------------------------------------------------------------------


@struct.dataclass
class CoinState:
    """The time and the last toss."""

    time: jax.Array
    heads: jax.Array


@struct.dataclass
class CoinParams:
    """How long to play, and how often the coin shows heads."""

    n_steps: jax.Array | int = 5
    bias: jax.Array | float = 0.5


class Coin(Environment):
    """Guess a coin: the smallest environment that a user could write."""

    default_params = CoinParams()

    def sample_noise(self, key, batch_shape=()):
        # Not random enough for use, but quick to compile for each of the many broken versions below.
        lane = jnp.arange(math.prod(batch_shape), dtype=jnp.uint32).reshape(batch_shape)
        word = jax.random.key_data(key)[1] + lane * np.uint32(2654435761)
        return (word >> 8).astype(jnp.float32) * np.float32(2.0**-24)

    def initial(self, noise, params):
        return CoinState(time=jnp.int32(0), heads=jnp.float32(0.0))

    def transition(self, noise, state, action, params):
        action = jnp.clip(action, 0, 1)
        over = self.is_truncated(state, params)
        heads = noise < params.bias
        reward = jnp.where(over, 0.0, jnp.where(heads == action, 1.0, -1.0))
        moved = CoinState(time=state.time + 1, heads=jnp.where(heads, jnp.float32(1.0), jnp.float32(-1.0)))
        state = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved)
        return Transition(state, reward, jnp.bool_(False), {"heads": heads})

    def observation(self, state, params):
        return state.heads[None]

    def is_truncated(self, state, params):
        return state.time >= params.n_steps

    def is_terminated(self, state, params):
        return jnp.bool_(False)

    def action_space(self, params):
        return spaces.Discrete(2)

    def observation_space(self, params):
        return spaces.Box(-1.0, 1.0, (1,), jnp.float32)

    def check_params(self, params):
        if params.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {params.n_steps}")


def changed_transition(change):
    def transition(self, noise, state, action, params):
        return change(Coin.transition(self, noise, state, action, params), noise, state, action, params)

    return {"transition": transition}


def _endless(after, noise, state, action, params):
    return after.replace(state=after.state.replace(time=state.time + 1))


def _paid_after_the_end(after, noise, state, action, params):
    return after.replace(reward=after.reward - 0.1)


def _moves_after_the_end(after, noise, state, action, params):
    return after.replace(state=after.state.replace(heads=-after.state.heads))


def _unclipped(after, noise, state, action, params):
    return after.replace(reward=after.reward * jnp.float32(action))


def _nan_reward(after, noise, state, action, params):
    return after.replace(reward=jnp.where(after.state.time == 3, jnp.nan, after.reward))


def _nan_info(after, noise, state, action, params):
    return after.replace(info={"heads": jnp.where(noise < 0.5, jnp.nan, 0.0)})


def _integer_reward(after, noise, state, action, params):
    return after.replace(reward=after.reward.astype(jnp.int32))


def _vector_reward(after, noise, state, action, params):
    return after.replace(reward=after.reward[None])


def _number_as_end(after, noise, state, action, params):
    return after.replace(terminated=jnp.float32(0.0))


def _growing_dtype(after, noise, state, action, params):
    return after.replace(state=after.state.replace(heads=after.state.heads.astype(jnp.float16)))


def _terminated_differs(after, noise, state, action, params):
    return after.replace(terminated=after.state.time == 2)


class _Memory:
    calls = 0


def _hidden_state(after, noise, state, action, params):
    _Memory.calls += 1
    return after.replace(reward=after.reward * _Memory.calls)


def _size_dependent_noise(self, key, batch_shape=()):
    return Coin.sample_noise(self, key, batch_shape) / (1 + len(batch_shape))


def _batch_order_noise(self, key, batch_shape=()):
    return jnp.flip(Coin.sample_noise(self, key, batch_shape))


def _noise_without_lanes(self, key, batch_shape=()):
    return Coin.sample_noise(self, key)


def _batch_with_another_reward(self, key, state, action, params):
    observation, state, reward, *rest = Environment.step_batch(self, key, state, action, params)
    return observation, state, reward + 1, *rest


def _observation_of_the_next_episode(self, noise, state, action, params):
    observation, state, reward, terminated, truncated, info = Environment._step(
        self, noise, state, action, params
    )
    return observation, state, reward, terminated, truncated, info | {"final_observation": observation}


def _step_without_final_observation(self, noise, state, action, params):
    *rest, info = Environment._step(self, noise, state, action, params)
    return *rest, {name: value for name, value in info.items() if name != "final_observation"}


BROKEN = {
    "episode goes on after the end": (changed_transition(_endless), "leave the state"),
    "pays after the end": (changed_transition(_paid_after_the_end), "must pay 0"),
    "state moves after the end": (changed_transition(_moves_after_the_end), "leave the state"),
    "action not clipped": (changed_transition(_unclipped), "action -"),
    "reward is NaN": (changed_transition(_nan_reward), "NaN"),
    "info is NaN": (changed_transition(_nan_info), r"info.*heads.*NaN"),
    "reward is an integer": (changed_transition(_integer_reward), "reward must be a float scalar"),
    "reward is a vector": (changed_transition(_vector_reward), "reward must be a float scalar"),
    "end is a number": (changed_transition(_number_as_end), "terminated must be a bool scalar"),
    "dtype of the state changes": (changed_transition(_growing_dtype), "state after transition.*heads"),
    "is_terminated disagrees": (changed_transition(_terminated_differs), "is_terminated"),
    "hidden Python state": (changed_transition(_hidden_state), "against step_batch|of step_batch"),
    "noise depends on the batch": ({"sample_noise": _size_dependent_noise}, "noise of lane 0"),
    "noise depends on the size": ({"sample_noise": _batch_order_noise}, "noise of the first 3 lanes"),
    "noise without lanes": ({"sample_noise": _noise_without_lanes}, "must have 16 lanes"),
    "batch differs from lanes": ({"step_batch": _batch_with_another_reward}, "against step_batch"),
    "last observation lost": ({"_step": _observation_of_the_next_episode}, "final_observation"),
    "no last observation": ({"_step": _step_without_final_observation}, "lacks 'final_observation'"),
    "info lacks that of the state": (
        {"state_info": lambda self, state, params: {"time": state.time}},
        r"info of transition lacks what state_info has, \['time'\]",
    ),
    "info differs from that of the state": (
        {"state_info": lambda self, state, params: {"heads": state.heads < 0}},
        r"against step_batch.*heads",
    ),
    "weak state": (
        {"initial": lambda self, noise, params: CoinState(time=jnp.int32(0), heads=jnp.asarray(0.0) * 1.0)},
        "weakly typed",
    ),
    "state out of the space": (
        {"observation_space": lambda self, params: spaces.Box(0.0, 1.0, (1,), jnp.float32)},
        "outside the observation space",
    ),
    "observation of another shape": (
        {"observation_space": lambda self, params: spaces.Box(-1.0, 1.0, (2,), jnp.float32)},
        "observation of reset",
    ),
    "observation of another dtype": (
        {"observation_space": lambda self, params: spaces.Box(-1, 1, (1,), jnp.int32)},
        "observation of reset",
    ),
}


def test_an_environment_of_a_user_passes_the_check():
    check_environment(Coin(), Coin.default_params, steps=12)


@pytest.mark.parametrize("fault", BROKEN)
def test_the_check_names_what_is_broken(fault):
    methods, message = BROKEN[fault]
    broken = type("Broken", (Coin,), methods)()
    with pytest.raises(AssertionError, match=message):
        check_environment(broken, Coin.default_params, steps=12)


def test_the_check_asks_for_more_steps_if_no_episode_ends():
    with pytest.raises(AssertionError, match="no episode ended within 3 random steps"):
        check_environment(Coin(), Coin.default_params, steps=3)


def test_the_check_refuses_invalid_parameters():
    with pytest.raises(ValueError, match="n_steps must be at least 1, got 0"):
        check_environment(Coin(), CoinParams(n_steps=0))


# --- parameters -------------------------------------------------------------------------------------


def test_an_unknown_environment_id_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"'TrustHandOver-v0'.*Did you mean 'TrustHandover-v0'"):
        make("TrustHandOver-v0")


@pytest.mark.parametrize(
    ("env_id", "wrong", "meant"),
    [
        ("TrustHandover-v0", "fail_costs", "fail_cost"),
        ("TrustHandover-v0", "nsteps", "n_steps"),
        ("Clarification-v0", "max_question", "max_questions"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest_one(env_id, wrong, meant):
    with pytest.raises(ValueError, match=f"'{wrong}'.*Did you mean '{meant}'"):
        make(env_id, **{wrong: 1})


@example("env")
@example("params")
@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12))
def test_no_unknown_parameter_is_swallowed(name):
    known = {"people", "n_steps", "fail_cost", "slow_cost", "ask_cost", "wait_cost", "slow_factor"}
    if name in known:
        return
    with pytest.raises(ValueError, match=f"unknown parameter '{name}'"):
        make("TrustHandover-v0", **{name: 1})


BAD_NUMBERS = [
    ("Clarification-v0", "max_questions", 0),
    ("Clarification-v0", "max_questions", -3),
    ("Clarification-v0", "max_questions", 2.5),
    ("TrustHandover-v0", "n_steps", 0),
    ("TrustHandover-v0", "n_steps", 20.0),
    ("TrustHandover-v0", "slow_factor", 1.5),
    ("TrustHandover-v0", "slow_factor", -0.1),
    *(("Clarification-v0", name, np.nan) for name in ("ask_cost", "success_reward", "error_cost")),
    *(
        ("TrustHandover-v0", name, np.nan)
        for name in ("fail_cost", "slow_cost", "ask_cost", "wait_cost", "slow_factor")
    ),
    ("TrustHandover-v0", "fail_cost", np.inf),
    ("TrustHandover-v0", "fail_cost", 1e400),
    ("TrustHandover-v0", "fail_cost", 10**400),
    ("TrustHandover-v0", "fail_cost", [1.0, 2.0]),
    ("TrustHandover-v0", "n_steps", (3,)),
    ("TrustHandover-v0", "fail_cost", "ten"),
    ("TrustHandover-v0", "fail_cost", None),
]


@pytest.mark.parametrize(("env_id", "name", "value"), BAD_NUMBERS)
def test_a_number_that_makes_no_sense_is_refused_by_name_and_value(env_id, name, value):
    with pytest.raises(ValueError, match=rf"{name} must .*{value}"):
        make(env_id, **{name: value})


@given(st.integers(max_value=0))
def test_no_horizon_below_one_is_accepted(value):
    with pytest.raises(ValueError, match=f"n_steps must .*{value}"):
        make("TrustHandover-v0", n_steps=value)
    with pytest.raises(ValueError, match=f"max_questions must .*{value}"):
        make("Clarification-v0", max_questions=value)


@given(st.floats().filter(lambda value: not 0.0 <= value <= 1.0))
def test_no_slow_factor_outside_the_unit_interval_is_accepted(value):
    with pytest.raises(ValueError, match=r"slow_factor must"):
        make("TrustHandover-v0", slow_factor=value)


@pytest.mark.parametrize(
    ("env_id", "people"),
    [
        ("Clarification-v0", TrustQubit()),
        ("TrustHandover-v0", default_domain()),
        ("TrustHandover-v0", [default_domain()]),
        ("TrustHandover-v0", 3),
        ("TrustHandover-v0", "TrustQubit"),
        ("Clarification-v0", None),
    ],
)
def test_people_who_do_not_fit_are_refused(env_id, people):
    with pytest.raises(TypeError, match="people must be"):
        make(env_id, people=people)


def test_no_people_are_refused():
    for nobody in ([], handover_population(jax.random.key(0), 3)[:0]):
        with pytest.raises(ValueError, match="people must hold at least one person"):
            make("TrustHandover-v0", people=nobody)


def test_one_person_instead_of_a_population_is_refused_by_check_params():
    with pytest.raises(TypeError, match=r"people must be a population.*stack"):
        Clarification().check_params(ClarificationParams(people=default_domain()))
    assert len(make("Clarification-v0", people=default_domain())[1].people) == 1
    assert len(as_population(default_domain())) == 1


def test_costs_of_single_precision_are_checked_in_double_without_a_warning():
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        check_cost("ask_cost", np.float32(0.5))
        with pytest.raises(ValueError, match="ask_cost must be a finite real number"):
            check_cost("ask_cost", np.float32(np.inf))


# --- shapes that do not fit -------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["Clarification-v0", "TrustHandover-v0"])
def test_step_wants_one_action_and_points_to_step_batch(env_id):
    env, params = make(env_id)
    _, state = env.reset_batch(jax.random.key(0), params, 16)
    with pytest.raises(
        ValueError, match=r"action must be a scalar, got shape \(16,\); step_batch steps many"
    ):
        env.step(jax.random.key(1), state, jnp.zeros(16, int), params)


@pytest.mark.parametrize("shape", [(), (8,), (16, 1)])
@pytest.mark.parametrize("lanes_last", [False, True])
def test_step_batch_wants_one_action_for_every_lane(shape, lanes_last):
    env, params = make("TrustHandover-v0")
    _, state = env.reset_batch(jax.random.key(0), params, 16)
    message = f"action must have shape (lanes,) with as many lanes as the state has, got {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        env.step_batch(jax.random.key(1), state, jnp.zeros(shape, int), params, lanes_last=lanes_last)


@pytest.mark.parametrize("make_key", [jax.random.key, jax.random.PRNGKey])
def test_step_batch_wants_one_key(make_key):
    env, params = make("TrustHandover-v0")
    _, state = env.reset_batch(make_key(0), params, 16)
    with pytest.raises(ValueError, match="key must be one random key for all lanes, got an array of shape"):
        env.step_batch(jax.random.split(make_key(1), 16), state, jnp.zeros(16, int), params)
