"""The wrapper that shows the agent what it has just done."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs import Clarification, TrustHandover
from qmind_jax.people import IndependentAnswers
from qmind_jax.registry import make
from qmind_jax.testing import check_environment
from qmind_jax.wrappers import PreviousStep


class EndlessHandover(TrustHandover):
    """Its time limit is none of the task's business."""

    time_limit_is_part_of_task = False


@functools.partial(jax.jit, static_argnames="env")
def play(env, params, key, actions):
    """Observations before and after every step of as many lanes as there are actions in a row."""
    reset_key, *step_keys = jax.random.split(key, 1 + len(actions))
    observation, state = env.reset_batch(reset_key, params, actions.shape[1])

    def step(carry, now):
        observation, state = carry
        after, state, reward, terminated, truncated, info = env.step_batch(now[0], state, now[1], params)
        seen = (observation, after, reward, terminated | truncated, info["final_observation"])
        return (after, state), seen

    return jax.lax.scan(step, (observation, state), (jnp.stack(step_keys), actions))[1]


def some_actions(env, params, lanes=16, steps=25):
    n = env.action_space(params).n
    return jnp.asarray(np.random.default_rng(0).integers(n, size=(steps, lanes)), jnp.int32)


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [
        ("ClarificationHard-v0", {"action": True, "reward": True}),
        ("TrustHandover-v0", {"action": True, "reward": False}),
        ("TrustHandover-v0", {"action": False, "reward": True}),
    ],
)
def test_the_observation_is_the_inner_one_then_the_action_one_hot_then_the_reward(env_id, kind):
    inner, params = make(env_id, **({"n_steps": 4} if env_id == "TrustHandover-v0" else {}))
    actions, key = some_actions(inner, params), jax.random.key(1)
    n, size = inner.action_space(params).n, inner.observation_space(params).shape[0]
    plain = play(inner, params, key, actions)
    env = PreviousStep(inner, **kind)
    before, after, reward, done, final = play(env, params, key, actions)
    np.testing.assert_array_equal(before[..., :size], plain[0])
    np.testing.assert_array_equal(reward, plain[2])
    np.testing.assert_array_equal(done, plain[3])
    np.testing.assert_array_equal(final[..., :size], plain[4])

    appended = []
    if kind["action"]:
        appended.append(jax.nn.one_hot(actions, n))
    if kind["reward"]:
        appended.append(reward[..., None])
    appended = np.concatenate(appended, axis=-1)
    assert after.shape[-1] == size + appended.shape[-1] == env.observation_space(params).shape[0]
    assert after.dtype == jnp.float32
    # The last observation of an episode shows what was done last, the first of the next one nothing.
    np.testing.assert_array_equal(final[..., size:], appended)
    np.testing.assert_array_equal(after[..., size:], np.where(done[..., None], 0.0, appended))
    np.testing.assert_array_equal(before[0, :, size:], 0.0)
    assert 0 < done.sum() < done.size


def test_the_wrapper_keeps_the_contract():
    # An environment with ends of both kinds, and people who compile fast.
    people = IndependentAnswers(np.array([[0.2, 0.7], [0.9, 0.4]]))
    env, params = make("Clarification-v0", people=people, max_questions=2)
    check_environment(PreviousStep(env, reward=True), params)


def test_an_action_outside_the_space_is_remembered_as_the_one_that_was_taken():
    env, params = make("TrustHandover-v0")
    env = PreviousStep(env)
    _, state = env.reset(jax.random.key(0), params)
    for action, taken in ((-5, 0), (99, 3)):
        observation, *_ = env.step(jax.random.key(1), state, jnp.int32(action), params)
        np.testing.assert_array_equal(observation[3:], np.eye(4)[taken])


def test_after_the_end_nothing_more_is_remembered():
    env, params = make("Clarification-v0")
    env = PreviousStep(env, reward=True)
    noise = env.sample_noise(jax.random.key(0))
    over = env.transition(noise, env.initial(noise, params), jnp.int32(4), params)
    assert over.terminated
    later = env.transition(noise, over.state, jnp.int32(1), params)
    assert later.reward == 0.0
    jax.tree.map(np.testing.assert_array_equal, later.state, over.state)
    assert over.state.previous_action == 4


def test_spaces_params_and_checks_are_those_of_the_wrapped_environment():
    inner, params = make("TrustHandover-v0")
    env = PreviousStep(inner, reward=True)
    space = env.observation_space(params)
    np.testing.assert_array_equal(space.low, [-1, -1, 0, 0, 0, 0, 0, -np.inf])
    np.testing.assert_array_equal(space.high, [1, 1, 1, 1, 1, 1, 1, np.inf])
    assert env.action_space(params).n == env.num_actions == 4
    assert type(env.default_params) is type(params)
    with pytest.raises(ValueError, match="n_steps"):
        env.check_params(params.replace(n_steps=0))


def test_the_meaning_of_the_time_limit_is_that_of_the_wrapped_environment():
    assert PreviousStep(TrustHandover()).time_limit_is_part_of_task is True
    assert PreviousStep(EndlessHandover()).time_limit_is_part_of_task is False


def test_wrappers_are_equal_if_what_they_do_is():
    assert PreviousStep(TrustHandover()) == PreviousStep(TrustHandover(), action=True, reward=False)
    assert hash(PreviousStep(TrustHandover())) == hash(PreviousStep(TrustHandover()))
    different = [
        PreviousStep(TrustHandover()),
        PreviousStep(TrustHandover(), reward=True),
        PreviousStep(TrustHandover(), action=False, reward=True),
        PreviousStep(Clarification()),
        PreviousStep(EndlessHandover()),
        PreviousStep(PreviousStep(TrustHandover())),
        TrustHandover(),
    ]
    assert len(set(different)) == len(different)
    assert all(a != b for i, a in enumerate(different) for b in different[:i])


def test_two_equal_wrappers_share_their_compilations():
    inner, params = make("TrustHandover-v0")
    size = []
    for _ in range(2):
        PreviousStep(inner).reset(jax.random.key(0), params)
        size.append(PreviousStep.reset._cache_size())
    assert size[0] == size[1]


@pytest.mark.parametrize("env_id", ["Clarification-v0", "TrustHandover-v0"])
def test_the_observation_space_can_be_asked_for_under_jit(env_id):
    env, params = make(env_id)
    wrapped = PreviousStep(env, action=True, reward=True)
    box = wrapped.observation_space(params)

    @jax.jit
    def contains(observation, params):
        inside = wrapped.observation_space(params)
        return jnp.all((inside.low <= observation) & (observation <= inside.high))

    assert contains(wrapped.reset(jax.random.key(0), params)[0], params)
    assert box.shape == (wrapped.observation_space(params).low.size,)
