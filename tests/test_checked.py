"""The wrapper that reports mistakes of a loop, and what all wrappers share."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import qmind_jax
from qmind_jax.environment import Transition
from qmind_jax.testing import check_environment
from qmind_jax.wrappers import Checked, PreviousStep, Wrapper

IDS = ["TrustHandover-v0", "Clarification-v0"]
KEY = jax.random.key(0)


@pytest.fixture(params=IDS)
def checked(request):
    """A checked environment of at most three steps, its parameters and the number of its actions."""
    limit = {"TrustHandover-v0": "n_steps", "Clarification-v0": "max_questions"}[request.param]
    env, params = qmind_jax.make(request.param, **{limit: 3})
    return Checked(env), params, env.action_space(params).n


def play(env, actions, params):
    """Rewards of ``transition`` under ``scan``, with nothing that would start the next episode."""
    state = env.initial(env.sample_noise(KEY), params)

    def body(state, action):
        after = env.transition(env.sample_noise(KEY), state, action, params)
        return after.state, after.reward

    return jax.lax.scan(body, state, jnp.asarray(actions, jnp.int32))[1]


def message(function, *args):
    """What the error of a checked function says, None if there is none."""
    return jax.jit(checkify.checkify(function))(*args)[0].get()


def test_the_example_of_the_documentation():
    code = Checked.__doc__.split("::\n", 1)[1].split("Args:")[0]
    lines = [line.removeprefix("        ") for line in code.splitlines() if line.startswith("        ")]
    with pytest.raises(
        checkify.JaxRuntimeError, match=r"action 4 is outside the action space, Discrete\(4\)"
    ):
        exec("\n".join(lines), {})


def test_what_is_right_is_reported_by_nobody_and_changed_by_nothing(checked):
    env, params, size = checked
    observation, state = env.reset_batch(KEY, params, 8)
    np.testing.assert_array_equal(observation, env.env.reset_batch(KEY, params, 8)[0])
    step = jax.jit(checkify.checkify(env.step_batch))
    plain_state = state
    for t in range(8):  # far beyond the first end, as step_batch starts the next episodes
        actions = jnp.arange(t, t + 8) % size
        key = jax.random.fold_in(KEY, t)
        error, results = step(key, state, actions, params)
        assert error.get() is None
        plain = env.env.step_batch(key, plain_state, actions, params)
        assert jax.tree.structure(results) == jax.tree.structure(plain)
        for ours, theirs in zip(jax.tree.leaves(results), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        state, plain_state = results[1], plain[1]


@pytest.mark.parametrize("jit", [True, False], ids=["jit inside", "jit outside"])
@pytest.mark.parametrize("outside", ["-1", "n", "2**31 - 1", "-(2**31)"])
def test_an_action_outside_the_space_is_reported_with_its_value(checked, outside, jit):
    env, params, size = checked
    action = eval(outside, {"n": size})
    _, state = env.reset(KEY, params)
    step = checkify.checkify(env.step)
    error, _ = (jax.jit(step) if jit else step)(KEY, state, action, params)
    with pytest.raises(checkify.JaxRuntimeError) as caught:
        error.throw()
    assert f"action {action} is outside the action space, Discrete({size})" in str(caught.value)


def test_one_lane_of_a_batch_is_enough(checked):
    env, params, size = checked
    _, state = env.reset_batch(KEY, params, 5)
    assert message(env.step_batch, KEY, state, jnp.zeros(5, jnp.int32), params) is None
    actions = jnp.array([0, 1, 0, size + 7, 1])
    assert f"action {size + 7} is outside" in message(env.step_batch, KEY, state, actions, params)


def test_a_step_after_the_end_is_reported_in_scan_and_in_vmap(checked):
    env, params, size = checked

    def lanes(actions):
        return jax.vmap(lambda row: play(env, row, params))(actions)

    assert message(lambda actions: play(env.env, actions, params), [0, 0, 0, 0]) is None
    assert message(lambda actions: play(env, actions, params), [0, 0, 0]) is None
    assert "step after the end" in message(lambda actions: play(env, actions, params), [0, 0, 0, 0])
    assert "action 99 is outside" in message(lambda actions: play(env, actions, params), [0, 99, 0])
    assert message(lanes, jnp.zeros((4, 3), jnp.int32)) is None
    assert "step after the end" in message(lanes, jnp.zeros((4, 4), jnp.int32))
    assert f"action {size} is" in message(lanes, jnp.zeros((4, 3), jnp.int32).at[2, 1].set(size))


def test_a_step_after_the_agent_has_acted_is_reported():
    env, params = qmind_jax.make("Clarification-v0")
    assert "after the end" in message(lambda actions: play(Checked(env), actions, params), [0, 5, 0])


def test_an_action_that_is_no_integer_is_refused_at_once(checked):
    env, params, _ = checked
    _, state = env.reset(KEY, params)
    for action in (1.0, True):
        with pytest.raises(TypeError, match="action must be an integer, got dtype"):
            checkify.checkify(env.step)(KEY, state, action, params)


def test_checks_without_checkify_are_no_silent_nothing(checked):
    env, params, size = checked
    _, state = env.reset(KEY, params)
    with pytest.raises(ValueError, match="checkify"):
        env.step(KEY, state, 0, params)
    with pytest.raises(checkify.JaxRuntimeError, match="outside the action space"):
        env.transition(env.sample_noise(KEY), state, size, params)


@pytest.mark.parametrize("order", ["checked outside", "checked inside"])
def test_wrappers_can_be_wrapped(order):
    inner, params = qmind_jax.make("TrustHandover-v0", n_steps=3)
    env = Checked(PreviousStep(inner)) if order == "checked outside" else PreviousStep(Checked(inner))
    observation, state = env.reset(KEY, params)
    assert observation.shape == (7,)
    step = jax.jit(checkify.checkify(env.step))
    error, (observation, *_) = step(KEY, state, 2, params)
    assert error.get() is None
    np.testing.assert_array_equal(observation[3:], [0, 0, 1, 0])
    # Inside, the other wrapper clips the action first, as an environment without checks does.
    assert (step(KEY, state, 9, params)[0].get() is None) == (order == "checked inside")
    assert "after the end" in message(lambda actions: play(env, actions, params), [0] * 4)


# --- what all wrappers share ----------------------------------------------------------------------


class Doubled(Wrapper):
    """Pays twice."""

    def transition(self, noise, state, action, params) -> Transition:
        after = super().transition(noise, state, action, params)
        return after.replace(reward=2 * after.reward)


@pytest.mark.parametrize("env_id", IDS)
def test_a_wrapped_environment_keeps_the_contract(env_id):
    env, params = qmind_jax.make(env_id)
    check_environment(PreviousStep(Doubled(env), reward=True), params, steps=25)


def test_a_wrapper_changes_what_it_overrides_and_nothing_else(checked):
    env, params, size = checked
    actions = [size - 1]
    np.testing.assert_allclose(play(Doubled(env.env), actions, params), 2 * play(env.env, actions, params))


@pytest.mark.parametrize("wrap", [Wrapper, Checked, PreviousStep])
def test_a_wrapper_says_what_the_wrapped_environment_says(checked, wrap):
    inner, params, size = checked[0].env, *checked[1:]
    env = wrap(inner)
    assert env.num_actions == size and env.action_space(params).n == size
    assert jax.tree.structure(env.default_params) == jax.tree.structure(inner.default_params)
    noise = env.sample_noise(KEY)
    info = env.state_info(env.initial(noise, params), params)
    assert info and info == inner.state_info(inner.initial(noise, params), params)
    assert env.time_limit_is_part_of_task is inner.time_limit_is_part_of_task
    with pytest.raises(TypeError, match="people must be a population"):
        env.check_params(params.replace(people=params.people[0]))


def test_wrappers_of_equal_environments_with_equal_options_are_equal():
    trust, other = (qmind_jax.make(env_id)[0] for env_id in IDS)
    kinds = [
        trust,
        Checked(trust),
        Checked(other),
        Wrapper(trust),
        PreviousStep(trust),
        PreviousStep(trust, reward=True),
        PreviousStep(Checked(trust)),
        Checked(PreviousStep(trust)),
    ]
    for i, env in enumerate(kinds):
        for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
            assert env == twin and hash(env) == hash(twin)
        assert [env == another for another in kinds] == [i == j for j in range(len(kinds))]
    assert len(set(kinds)) == len(kinds)
