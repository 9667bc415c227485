"""The rollout is the plain loop over ``step_batch``, driven faster."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from qmind_jax import make, noise, rollouts
from qmind_jax.people import handover_population
from qmind_jax.policies import Constant, UniformRandom
from qmind_jax.rollouts import rollout, rollout_bytes, start_lanes
from qmind_jax.wrappers import PreviousStep

IDS = ("Clarification-v0", "ClarificationHard-v0", "TrustHandover-v0", "TrustHandoverRecovery-v0")
LANES, STEPS = 9, 30


@struct.dataclass
class CountSteps:
    """Asks the first question at even steps of an episode, and does the last action at odd ones."""

    num_actions: int = struct.field(pytree_node=False)

    def init(self, params):
        return jnp.int32(0)

    def act(self, carry, observation, key):
        return jnp.where(carry % 2 == 0, 0, self.num_actions - 1), carry + 1


def plain_loop(env, params, policy, key, lanes, steps):
    """The same with ``step_batch`` and a Python loop."""
    key_start, key_steps = jax.random.split(key)
    observation, state = env.reset_batch(key_start, params, lanes)
    seen = []
    for time in range(steps):
        action, _ = policy.act_batch((), observation, jax.random.fold_in(key_steps, 2 * time))
        key_env = jax.random.fold_in(key_steps, 2 * time + 1)
        before = observation
        observation, state, reward, terminated, truncated, info = env.step_batch(
            key_env, state, action, params
        )
        seen.append((before, action, reward, terminated, truncated, info))
    return state, jax.tree.map(lambda *steps: jnp.stack(steps), *seen)


def everything(moment):
    return (
        moment.observation,
        moment.action,
        moment.reward,
        moment.terminated,
        moment.truncated,
        moment.info,
    )


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("env_id", IDS)
def test_a_rollout_is_the_loop_over_step_batch(env_id, wrapped):
    env, params = make(env_id)
    env = PreviousStep(env) if wrapped else env
    policy, key = UniformRandom(env.action_space(params).n), jax.random.key(3)
    state, expected = plain_loop(env, params, policy, key, LANES, STEPS)
    result = jax.jit(lambda key: rollout(env, params, policy, key, LANES, STEPS, record=everything))(key)
    chex.assert_trees_all_equal_shapes_and_dtypes((result.lanes.state, result.trajectory), (state, expected))
    chex.assert_trees_all_close((result.lanes.state, result.trajectory), (state, expected), atol=1e-6)
    *_, reward, terminated, truncated, _ = expected
    np.testing.assert_allclose(result.reward, reward.sum(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(result.episodes, (terminated | truncated).sum(axis=0))


def test_both_ways_of_stepping_are_equal_bit_for_bit(random_answering):
    env, params = make("Clarification-v0", people=random_answering(0, people=5, ranks=(1, 2)))
    key = jax.random.key(0)
    _, state = env.reset_batch(key, params, 64)
    last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), state)
    for time in range(12):
        key_step, action = jax.random.fold_in(key, time), jnp.arange(64) % 3
        expected = env.step_batch(key_step, state, action, params)
        got = env.step_batch(key_step, last, action, params, lanes_last=True)
        state, last = expected[1], got[1]
        chex.assert_trees_all_equal(jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), got), expected)


@pytest.mark.parametrize("few_lanes", [3, 5, 99])
def test_what_a_lane_meets_does_not_depend_on_how_many_there_are(few_lanes, monkeypatch):
    monkeypatch.setattr(rollouts, "FEW_LANES", few_lanes)
    env, params = make("TrustHandover-v0")
    policy, key = UniformRandom(4), jax.random.key(1)
    few, many = (
        rollout(env, params, policy, key, lanes, STEPS, record=lambda moment: moment.reward)
        for lanes in (4, 11)
    )
    np.testing.assert_array_equal(few.trajectory, many.trajectory[:, :4])


def test_a_policy_remembers_until_the_episode_ends():
    env, params = make("Clarification-v0")
    policy = CountSteps(env.action_space(params).n)
    result = rollout(
        env,
        params,
        policy,
        jax.random.key(0),
        3,
        6,
        record=lambda moment: (moment.action, moment.carry, moment.done),
    )
    action, carry, done = result.trajectory
    np.testing.assert_array_equal(action.T, [[0, policy.num_actions - 1] * 3] * 3)
    np.testing.assert_array_equal(carry.T, [[1, 2] * 3] * 3)
    np.testing.assert_array_equal(done.T, [[False, True] * 3] * 3)
    np.testing.assert_array_equal(result.episodes, 3)
    np.testing.assert_array_equal(result.lanes.carry, 0)
    # In the middle of an episode what it remembers goes along.
    middle = rollout(env, params, policy, jax.random.key(0), 3, 5)
    after = rollout(env, params, policy, jax.random.key(1), middle.lanes, 1, record=lambda m: m.carry)
    np.testing.assert_array_equal(after.trajectory, 2)


def test_a_policy_without_act_batch_draws_with_a_key_for_every_lane():
    @struct.dataclass
    class Drawing:
        def init(self, params):
            return ()

        def act(self, carry, observation, key):
            return jax.random.randint(key, (), 0, 4), carry

    env, params = make("TrustHandover-v0")
    result = rollout(env, params, Drawing(), jax.random.key(0), 500, 8, record=lambda m: m.action)
    counts = np.bincount(np.asarray(result.trajectory).ravel(), minlength=4)
    assert counts.min() > 850, "a thousand each are expected"
    # Lanes differ at every step.
    assert np.std(result.trajectory, axis=1).min() > 0.9


def test_a_rollout_in_double_precision_is_close_to_that_in_single():
    rewards = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            env, params = make("ClarificationHard-v0")
            policy = UniformRandom(env.action_space(params).n)
            result = rollout(env, params, policy, jax.random.key(0), 200, 20)
            assert result.reward.dtype == (jnp.float64 if wide else jnp.float32)
            rewards.append(np.asarray(result.reward, float))
    assert np.mean(np.isclose(*rewards, atol=1e-3)) > 0.99


def test_a_rollout_goes_on_where_an_earlier_one_stopped():
    env, params = make("TrustHandover-v0")
    policy = Constant(jnp.int32(3))
    first = rollout(env, params, policy, jax.random.key(0), 4, 15)
    second = rollout(env, params, policy, jax.random.key(1), first.lanes, 6)
    np.testing.assert_array_equal(first.episodes, 0)
    np.testing.assert_array_equal(second.episodes, 1)
    np.testing.assert_array_equal(second.lanes.state.time, 1)
    assert first.trajectory is None
    np.testing.assert_allclose(first.reward, -0.3 * 15, rtol=1e-6)


def test_the_first_state_is_that_of_reset_batch():
    env, params = make("Clarification-v0")
    lanes = start_lanes(env, params, UniformRandom(6), jax.random.key(5), 7)
    chex.assert_trees_all_equal(lanes.state, env.reset_batch(jax.random.key(5), params, 7)[1])


@pytest.mark.parametrize("kept", [None, everything], ids=["sums", "everything"])
def test_memory_grows_with_lanes_as_said(kept):
    people = handover_population(jax.random.key(0), 500)
    env, params = make("TrustHandover-v0", people=people)
    policy, lanes, steps = UniformRandom(4), 50_000, 8

    def run(key, params):
        return rollout(env, params, policy, key, lanes, steps, record=kept)

    used = jax.jit(run).lower(jax.random.key(0), params).compile().memory_analysis()
    measured = used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes
    said = rollout_bytes(env, params, policy, lanes, steps, record=kept)
    np.testing.assert_allclose(said, measured, rtol=0.02)
    least = 0 if kept is None else steps * lanes * (3 * 4 * 2 + 3 * 4 + 2)
    assert said > least + 2 * 24 * lanes


@pytest.mark.parametrize("name", ["lanes", "steps", "unroll"])
def test_numbers_below_one_are_refused(name):
    env, params = make("TrustHandover-v0")
    numbers = {"lanes": 2, "steps": 2, "unroll": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        rollout(env, params, UniformRandom(4), jax.random.key(0), **numbers)


@pytest.mark.parametrize("data", [0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("make_key", [jax.random.key, jax.random.PRNGKey])
def test_fold_in_is_that_of_jax(make_key, data):
    key = make_key(11)
    for function in (noise.fold_in, jax.jit(noise.fold_in)):
        # As JAX has it, a large number must say itself that it is unsigned under ``jit``.
        got, expected = function(key, np.uint32(data)), jax.random.fold_in(key, data)
        assert got.dtype == expected.dtype
        data_of = jax.random.key_data if make_key is jax.random.key else np.asarray
        np.testing.assert_array_equal(data_of(got), data_of(expected))


def test_fold_in_hands_other_generators_to_jax():
    key = jax.random.key(0, impl="rbg")
    got, expected = noise.fold_in(key, 3), jax.random.fold_in(key, 3)
    np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(expected))


@pytest.mark.parametrize("data", [jnp.arange(2), 1.5])
def test_fold_in_wants_one_integer(data):
    with pytest.raises(TypeError, match="data must be an integer scalar"):
        noise.fold_in(jax.random.key(0), data)
