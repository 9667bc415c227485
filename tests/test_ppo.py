"""PPO: what it bootstraps, replays and reports, that seeds do not mix, and that it learns."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import spaces

from qmind_jax.environment import Environment, Transition
from qmind_jax.evaluation import evaluate
from qmind_jax.people import handover_population
from qmind_jax.policies import learned
from qmind_jax.policies.learned import draw_actions
from qmind_jax.registry import make
from qmind_jax.training import HyperParameters, PPOConfig, experience, ppo, train

KEY = jax.random.key(1)

# Rollouts of 7 steps over episodes of 5: every rollout crosses ends, and episodes cross rollouts.
N_STEPS = 5


def tiny(network, **changes):
    """Six updates of a tiny agent; as in test_checkpoint.py, so that compilations are shared."""
    settings = {"total_steps": 336, "lanes": 8, "rollout_steps": 7, "epochs": 2, "minibatches": 2}
    return PPOConfig(**settings | {"network": network, "features": 8} | changes)


@pytest.fixture(scope="module")
def task():
    return make("TrustHandover-v0", n_steps=N_STEPS, people=handover_population(jax.random.key(9), 3))


def assert_same(got, expected, tolerance=0.0):
    """Trees with equal leaves: bit for bit, or floats within a tolerance."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for (path, left), right in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        name = jax.tree_util.keystr(path)
        if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
            left, right = jax.random.key_data(left), jax.random.key_data(right)
        if tolerance and jnp.issubdtype(left.dtype, jnp.inexact):
            np.testing.assert_allclose(left, right, tolerance, tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(left, right, name)


# --- ends: an environment that pays 1 at every step and is cut off after n_steps ---------------------


@struct.dataclass
class DripParams:
    """How long an episode lasts."""

    n_steps: jax.Array


@struct.dataclass
class DripState:
    """How long it has lasted."""

    time: jax.Array


class Drip(Environment[DripState, DripParams, jax.Array]):
    """Pays 1 at every step, whatever the agent does, until its time is up. Its observation is 1."""

    default_params = DripParams(jnp.int32(4))

    def sample_noise(self, key, batch_shape=()):
        return jnp.zeros(batch_shape)

    def initial(self, noise, params):
        return DripState(jnp.int32(0))

    def transition(self, noise, state, action, params):
        over = self.is_truncated(state, params)
        reward = jnp.where(over, 0.0, 1.0)
        return Transition(DripState(state.time + ~over), reward, jnp.bool_(False), {})

    def observation(self, state, params):
        return jnp.ones(1, jnp.float32)

    def is_truncated(self, state, params):
        return state.time >= params.n_steps

    def is_terminated(self, state, params):
        return jnp.bool_(False)

    def check_params(self, params):
        pass

    def action_space(self, params):
        return spaces.Discrete(2)

    def observation_space(self, params):
        return spaces.Box(0.0, 1.0, (1,), jnp.float32)


class EndlessDrip(Drip):
    """The same, but the limit only cuts an endless task into pieces."""

    time_limit_is_part_of_task = False


class Clock(EndlessDrip):
    """An endless task that shows how much of the time has passed."""

    def observation(self, state, params):
        return (state.time / params.n_steps).astype(jnp.float32)[None]


DRIP = PPOConfig(
    total_steps=4 * 8 * 150,
    lanes=4,
    rollout_steps=8,
    epochs=4,
    minibatches=1,
    learning_rate=1e-2,
    discount=0.5,
    trace_decay=1.0,
    reward_scale=1.0,
    features=8,
    previous_action=False,
)


@pytest.fixture(scope="module", params=[Drip, EndlessDrip], ids=["deadline", "endless"])
def drip(request):
    """A finished training on a drip, with all that it reported."""
    env, reports = request.param(), []
    result = train(
        jax.random.key(0), env, env.default_params, DRIP, report=lambda *news: reports.append(news)
    )
    jax.effects_barrier()
    return env, result, reports


def test_values_converge_to_what_can_still_be_earned(drip):
    env, result, _ = drip
    runner = result.runner
    observation = jax.vmap(env.observation, in_axes=(0, None))(runner.progress.env_state, env.default_params)
    _, _, value = result.policy.network.apply(
        runner.variables, runner.progress.hidden, observation[None], runner.progress.reset[None]
    )
    # The agent does not see the time. With a deadline V is the mean over the steps of an episode of four:
    with_deadline = np.mean([1 + 1 / 2 + 1 / 4 + 1 / 8, 1 + 1 / 2 + 1 / 4, 1 + 1 / 2, 1])
    for_ever = 1.0 / (1.0 - 0.5)
    expected = with_deadline if env.time_limit_is_part_of_task else for_ever
    np.testing.assert_allclose(value, expected, atol=0.05)


def test_the_report_is_called_once_per_update_of_one_agent(drip):
    _, result, reports = drip
    assert DRIP.num_updates == 150
    assert sorted(int(update) for update, _ in reports) == list(range(1, 151))
    returns = dict(zip(range(1, 151), result.metrics["return"].tolist(), strict=True))
    assert all(float(mean) == returns[int(update)] for update, mean in reports)


def test_returns_are_those_of_whole_episodes_and_not_scaled(drip):
    _, result, _ = drip
    # Each of four lanes plays eight steps per update: two episodes of return 4.
    np.testing.assert_array_equal(result.metrics["return"], 4.0)
    np.testing.assert_array_equal(result.metrics["episodes"], 8)


def test_what_follows_the_limit_of_an_endless_task_is_its_final_observation(monkeypatch):
    env, n_steps, config = Clock(), 3, tiny("gru", previous_action=False)
    params = DripParams(jnp.int32(n_steps))
    network = ppo.network_of(env, params, config)
    runner = start(env, params, config)
    seen = []

    def spy(reward, value, next_value, terminated, truncated, *, bootstrap_at_truncation, **settings):
        arrays = value, next_value, terminated, truncated, settings["discount"], settings["trace_decay"]
        jax.debug.callback(lambda *arrays: seen.extend(arrays), *arrays)
        assert bootstrap_at_truncation
        return reward

    monkeypatch.setattr(ppo, "generalised_advantages", spy)
    jax.jit(functools.partial(ppo._update, env, params, config, network))(runner)
    jax.effects_barrier()
    value, next_value, terminated, truncated, discount, trace_decay = map(np.asarray, seen)
    assert (discount, trace_decay) == (np.float32(config.discount), np.float32(config.trace_decay))
    time = np.arange(config.rollout_steps) % n_steps
    np.testing.assert_array_equal(truncated, np.broadcast_to((time == n_steps - 1)[:, None], (7, 8)))
    assert not terminated.any()

    # A whole episode as the network sees it, the final observation included: 0, 1/3, 2/3, 1.
    clock = jnp.linspace(0.0, 1.0, n_steps + 1)[:, None, None]
    resets = jnp.zeros((n_steps + 1, 1), bool)
    _, _, values = jax.jit(network.apply)(runner.variables, network.initial_hidden(1), clock, resets)
    values = np.asarray(values)[:, 0]
    assert np.abs(values[:, None] - values + np.eye(4)).min() > 1e-2, "all values should differ"
    np.testing.assert_allclose(value, np.broadcast_to(values[time][:, None], (7, 8)), rtol=1e-5)
    np.testing.assert_allclose(next_value, np.broadcast_to(values[time + 1][:, None], (7, 8)), rtol=1e-5)


# --- the replay ------------------------------------------------------------------------------------


def start(env, params, config):
    """A runner whose weights are large enough that the policy depends on what it sees and remembers."""
    runner = ppo.start(KEY, env, params, config)
    logits = (config.features, env.action_space(params).n)
    variables = jax.tree.map(lambda w: (200.0 if w.shape == logits else 2.0) * w, runner.variables)
    return runner.replace(variables=variables)


def collect(env, params, config, runner):
    @jax.jit
    def collecting(progress):
        return experience.collect(
            jax.random.key(2),
            config.wrap(env),
            params,
            ppo.network_of(env, params, config),
            runner.variables,
            progress,
            steps=config.rollout_steps,
            reward_scale=config.reward_scale,
        )

    return collecting(runner.progress)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_the_first_replay_is_the_policy_that_acted_across_ends_of_episodes(network, task):
    config = tiny(network)
    runner = ppo.start(KEY, *task, config)
    _, metrics = ppo.advance(runner, *task, config, num_updates=2)
    assert metrics["episodes"].tolist() == [8, 16 - 8], "ends at steps 5 and 10 of 14"
    assert metrics["first_ratio_error"][0] < 1e-6
    assert metrics["first_ratio_error"][1] < 1e-5
    _, metrics = ppo.advance(start(*task, config), *task, config, num_updates=2)
    assert metrics["first_ratio_error"].max() < 1e-5
    assert metrics["entropy"].max() < np.log(4) - 0.05, "the policy should be far from uniform"


def test_a_replay_that_starts_afresh_at_other_steps_is_noticed(task):
    config = tiny("gru")
    before = start(*task, config)
    _, rollout = collect(*task, config, before)
    assert rollout.reset[0].all()
    assert rollout.reset[N_STEPS].all()
    assert rollout.truncated[N_STEPS - 1].all(), "the end comes before the step that starts afresh"
    network = ppo.network_of(*task, config)
    loss = jax.jit(ppo._loss, static_argnums=1)

    def ratio_error(reset):
        replayed = rollout.replace(reset=reset)
        advantage = jnp.ones_like(rollout.value)
        numbers = before.hyper_parameters
        return loss(before.variables, network, numbers, 0.0, before.progress.hidden, replayed, advantage)[1][
            "ratio_error"
        ]

    assert ratio_error(rollout.reset) < 1e-5
    assert ratio_error(jnp.roll(rollout.reset, 1, axis=0)) > 1e-2
    assert ratio_error(jnp.roll(rollout.reset, -1, axis=0)) > 1e-2
    assert ratio_error(jnp.zeros_like(rollout.reset)) > 1e-2


def test_nothing_is_remembered_where_an_episode_starts(task):
    config = tiny("gru")
    runner = start(*task, config)
    hidden, reset = runner.progress.hidden, jnp.ones_like(runner.progress.reset)
    stale, empty = (
        runner.replace(progress=runner.progress.replace(hidden=value, reset=reset))
        for value in (jnp.ones_like(hidden), jnp.zeros_like(hidden))
    )
    (_, got), (_, expected) = (collect(*task, config, one) for one in (stale, empty))
    np.testing.assert_array_equal(got.log_prob, expected.log_prob)


def test_the_loss_is_ppos(task):
    config = tiny("mlp")
    runner = start(*task, config)
    _, rollout = collect(*task, config, runner)
    rng = np.random.default_rng(0)
    # Actors that chose with other probabilities: some ratios lie outside the clipped range.
    old = rollout.log_prob + 0.3 * rng.normal(size=rollout.log_prob.shape)
    advantage = rng.normal(size=old.shape)
    rollout = rollout.replace(log_prob=jnp.asarray(old, jnp.float32))
    network = ppo.network_of(*task, config)
    loss, metrics = jax.jit(ppo._loss, static_argnums=1)(
        runner.variables,
        network,
        HyperParameters.of(dataclasses.replace(config, clip=0.1, value_weight=0.7)),
        0.03,
        runner.progress.hidden,
        rollout,
        jnp.asarray(advantage, jnp.float32),
    )
    _, logits, value = jax.jit(network.apply)(
        runner.variables, runner.progress.hidden, rollout.observation, rollout.reset
    )
    logits, value = np.asarray(logits, float), np.asarray(value, float)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_probs, np.asarray(rollout.action)[..., None], -1)[..., 0]
    ratio = np.exp(chosen - np.asarray(old))
    assert 0.1 < np.mean((ratio < 0.9) | (ratio > 1.1)) < 0.9
    value_loss = 0.5 * np.mean((value - (advantage + np.asarray(rollout.value))) ** 2)
    standard = (advantage - advantage.mean()) / advantage.std()
    gain = np.minimum(ratio * standard, np.clip(ratio, 0.9, 1.1) * standard).mean()
    entropy = -(np.exp(log_probs) * log_probs).sum(-1).mean()
    np.testing.assert_allclose(metrics["value_loss"], value_loss, rtol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-4)
    np.testing.assert_allclose(metrics["clip_fraction"], np.mean(np.abs(ratio - 1.0) > 0.1), rtol=1e-4)
    np.testing.assert_allclose(loss, -gain + 0.7 * value_loss - 0.03 * entropy, rtol=1e-4)


def test_the_step_size_and_the_entropy_bonus_fall_to_nothing_or_stay():
    falling, constant = tiny("mlp", learning_rate=0.5), tiny("mlp", learning_rate=0.5, anneal=False)
    assert [float(ppo._remaining(falling, jnp.int32(u))) for u in (0, 3, 6)] == [1.0, 0.5, 0.0]
    assert float(ppo._remaining(constant, jnp.int32(3))) == 1.0
    steps = falling.num_updates * falling.epochs * falling.minibatches
    for config, last in ((falling, 0.5 / steps), (constant, 0.5)):
        optimiser = ppo._optimiser(config, HyperParameters.of(config))
        update = jax.jit(optimiser.update)
        gradient = {"w": jnp.float32(0.1)}
        state, changes = optimiser.init(gradient), []
        for _ in range(steps):
            change, state = update(gradient, state, gradient)
            changes.append(-float(change["w"]))
        # Adam's step for a constant gradient is the learning rate.
        np.testing.assert_allclose(changes[0], 0.5, rtol=1e-3)
        np.testing.assert_allclose(changes[-1], last, rtol=1e-3)


# --- going on, and many seeds ----------------------------------------------------------------------


def test_two_times_two_updates_are_four_updates_bit_for_bit(task):
    config = tiny("gru")
    runner = ppo.start(KEY, *task, config)
    all_at_once, metrics = ppo.advance(runner, *task, config, num_updates=4)
    half, first = ppo.advance(runner, *task, config, num_updates=2)
    whole, second = ppo.advance(half, *task, config, num_updates=2)
    assert_same(whole, all_at_once)
    assert_same(jax.tree.map(lambda *m: jnp.concatenate(m, axis=-1), first, second), metrics)
    np.testing.assert_array_equal(whole.update, 4)
    assert not np.array_equal(jax.tree.leaves(half.variables)[-1], jax.tree.leaves(whole.variables)[-1]), (
        "the later updates should have changed something"
    )


def test_an_agent_learns_the_same_alone_and_beside_others(task):
    config = tiny("mlp")
    keys = jax.random.split(KEY)
    together, metrics = ppo.advance(ppo.start(keys, *task, config), *task, config, num_updates=2)
    assert metrics["return"].shape == (2, 2)
    for i in range(2):
        alone, alone_metrics = ppo.advance(ppo.start(keys[i], *task, config), *task, config, num_updates=2)
        assert_same(jax.tree.map(lambda x, i=i: x[i], together), alone, tolerance=1e-4)
        assert_same(jax.tree.map(lambda x, i=i: x[i], metrics), alone_metrics, tolerance=1e-4)
    first, second = (jax.tree.map(lambda x, i=i: x[i], together.variables) for i in range(2))
    assert all(
        not np.allclose(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    ), "other keys should give other agents"


def test_other_people_of_the_same_shape_compile_nothing_anew(task):
    env, params = task
    config = tiny("mlp")
    results = []
    for seed in range(3):
        people = params.replace(people=handover_population(jax.random.key(seed), 3))
        runner = ppo.start(KEY, env, people, config)
        results.append(ppo.advance(runner, env, people, config, num_updates=2)[1]["value_loss"])
        sizes = ppo._start._cache_size(), ppo._advance._cache_size()
        if seed == 0:
            expected = sizes
    assert sizes == expected
    assert len({tuple(losses.tolist()) for losses in results}) == 3, "other people should matter"


# --- learning --------------------------------------------------------------------------------------


def test_three_agents_learn_the_published_clarification_in_sixty_thousand_steps():
    env, params = make("Clarification-v0")
    config = PPOConfig(total_steps=60_000, lanes=64, rollout_steps=10, learning_rate=5e-3, features=16)
    reports = []
    keys = jax.random.split(jax.random.key(0), 3)
    result = train(keys, env, params, config, report=lambda *news: reports.append(news))
    jax.effects_barrier()
    returns = jax.vmap(lambda p: evaluate(p, config.wrap(env), params, jax.random.key(1), 20_000))(
        result.policy
    )
    # Acting at once is worth -3, the optimum -1.6108.
    assert returns.mean.min() > -1.75
    assert all(result.metrics[name].shape == (3, config.num_updates) for name in result.metrics)

    # One report per update for all three, of their mean.
    assert sorted(int(update) for update, _ in reports) == list(range(1, config.num_updates + 1))
    means = np.mean(result.metrics["return"], axis=0)
    for update, mean in reports:
        np.testing.assert_allclose(mean, means[int(update) - 1], rtol=1e-5)


# --- drawing actions -------------------------------------------------------------------------------


draw = jax.jit(draw_actions)


def test_actions_are_drawn_with_their_probabilities():
    probabilities = np.array([[0.5, 0.25, 0.2, 0.05], [0.01, 0.01, 0.01, 0.97]])
    lanes = 200_000
    log_probs = jnp.broadcast_to(jnp.log(probabilities)[:, None], (2, lanes, 4)).reshape(2 * lanes, 4)
    actions = draw(jax.random.key(0), log_probs)
    assert actions.dtype == jnp.int32
    for row, expected in zip(np.asarray(actions).reshape(2, lanes), probabilities, strict=True):
        counts = np.bincount(row, minlength=4)
        assert len(counts) == 4
        error = np.sqrt(lanes * expected * (1.0 - expected))
        assert np.all(np.abs(counts - lanes * expected) < 4.5 * error)


@pytest.mark.parametrize("certain", [0, 1, 2])
def test_an_impossible_action_is_never_drawn(certain):
    log_probs = jnp.full((100_000, 3), -jnp.inf).at[:, certain].set(0.0)
    assert (draw(KEY, log_probs) == certain).all()


def test_the_smallest_uniform_number_draws_no_impossible_action_either(monkeypatch):
    monkeypatch.setattr(learned.noise, "uniforms", lambda key, shape: jnp.zeros((3, *shape)))
    assert draw_actions(KEY, jnp.log(jnp.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]))).tolist() == [2, 0]


def test_the_action_of_a_lane_does_not_depend_on_the_number_of_lanes():
    log_probs = jax.nn.log_softmax(jax.random.normal(jax.random.key(2), (64, 5)))
    all_lanes = draw(jax.random.key(3), log_probs)
    for lanes in (1, 7):
        np.testing.assert_array_equal(draw(jax.random.key(3), log_probs[:lanes]), all_lanes[:lanes])
    others = draw(jax.random.key(3), log_probs.at[1:].set(log_probs[0]))
    assert others[0] == all_lanes[0]
    assert len(set(others.tolist())) > 1, "lanes with one policy should draw apart"


# --- hyper-parameters ------------------------------------------------------------------------------

NONSENSE = {
    "total_steps": [0, -5, 1e6, "many"],
    "lanes": [0, 12.5],
    "rollout_steps": [0, 2.0],
    "epochs": [0, "4"],
    "minibatches": [0, 3],
    "learning_rate": [0.0, -1e-3, float("nan"), float("inf"), "fast"],
    "anneal": ["no", 2],
    "discount": [-0.1, 1.1, float("nan"), "high"],
    "trace_decay": [-0.1, 1.1, None],
    "clip": [0.0, float("nan")],
    "entropy_bonus": [-0.1, float("nan"), "some"],
    "value_weight": [-0.5, float("inf"), "some"],
    "reward_scale": [0.0, -1.0],
    "max_gradient_norm": [0.0, float("nan")],
    "network": ["lstm", None],
    "features": [0, 8.0],
    "previous_action": ["off", None],
    "previous_reward": ["off", 3],
}


def test_every_hyper_parameter_has_its_nonsense():
    assert list(NONSENSE) == [field.name for field in dataclasses.fields(PPOConfig)]


@pytest.mark.parametrize(("name", "value"), [(name, v) for name, values in NONSENSE.items() for v in values])
def test_a_hyper_parameter_that_makes_no_sense_is_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must ") as caught:
        PPOConfig(**{name: value})
    assert repr(value) in str(caught.value) or f"{name}={value}" in str(caught.value)


def test_too_few_steps_for_one_update_are_refused_with_the_number_that_is_needed():
    with pytest.raises(ValueError, match="lanes \\* rollout_steps = 160 steps, got 159"):
        PPOConfig(total_steps=159, lanes=16, rollout_steps=10)
    assert PPOConfig(total_steps=160, lanes=16, rollout_steps=10).num_updates == 1
    assert PPOConfig(total_steps=479, lanes=16, rollout_steps=10).num_updates == 2


def test_the_agent_sees_its_last_step_as_asked_for(task):
    env, _ = task
    assert tiny("mlp", previous_action=False).wrap(env) is env
    for action, reward in ((True, False), (False, True), (True, True)):
        wrapped = tiny("mlp", previous_action=action, previous_reward=reward).wrap(env)
        assert (wrapped.env, wrapped.action, wrapped.reward) == (env, action, reward)
