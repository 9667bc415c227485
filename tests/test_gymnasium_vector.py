"""The Gymnasium vector environment, against Gymnasium's own and against the pure functions."""

import warnings

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics, RescaleObservation

import qmind_jax
from qmind_jax.adapters import GymnasiumEnv, GymnasiumVectorEnv
from qmind_jax.people import IndependentAnswers, MarkovTrust, TrustQubit, stack

TRUST, CLARIFY = "TrustHandover-v0", "Clarification-v0"
LANES = 4
MODES = list(AutoresetMode)

# People without chance: what happens depends on the actions alone, so that numbers can be compared
# between two ways of running the lanes.
CERTAIN = {
    TRUST: {"people": MarkovTrust(1.0, 0.0, 0.0), "n_steps": 3},
    CLARIFY: {"people": IndependentAnswers([[1.0, 0.0]]), "max_questions": 3},
}
CHANCE = {
    TRUST: {"people": stack([TrustQubit(0.5), TrustQubit(2.0)]), "n_steps": 3},
    CLARIFY: {"people": stack([IndependentAnswers([[0.3, 0.6], [0.8, 0.4]])] * 3), "max_questions": 3},
}


def vector(env_id, mode=AutoresetMode.NEXT_STEP, lanes=LANES, **overrides):
    return GymnasiumVectorEnv(env_id, num_envs=lanes, autoreset_mode=mode, **overrides)


def random_actions(envs, steps, seed=0):
    return np.random.default_rng(seed).integers(envs.single_action_space.n, size=(steps, envs.num_envs))


def key_of(seed):
    words = np_random(seed)[0].integers(2**32, size=2, dtype=np.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def assert_same(ours, theirs, *, values):
    """One structure, dtype and shape everywhere, the same masks, and the same values if asked for."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert_same(ours[name], theirs[name], values=values or name.startswith("_"))
        return
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if theirs.dtype == object:
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_same(one, other, values=values)
    elif values:
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


# --- against Gymnasium's own ----------------------------------------------------------------------


@pytest.mark.parametrize("certain", [True, False], ids=["certain", "chance"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_every_mode_is_that_of_gymnasiums_sync_vector_env(env_id, mode, certain):
    overrides = (CERTAIN if certain else CHANCE)[env_id]
    ours = vector(env_id, mode, **overrides)
    theirs = SyncVectorEnv([lambda: GymnasiumEnv(env_id, **overrides)] * LANES, autoreset_mode=mode)
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is mode

    for one, other in zip(ours.reset(seed=0), theirs.reset(seed=0), strict=True):
        assert_same(one, other, values=certain)
    desynchronise = np.arange(LANES) % 2 == 0
    ends = 0
    for time, actions in enumerate(random_actions(ours, 14)):
        got, expected = ours.step(actions), theirs.step(actions)
        for place, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert_same(one, other, values=certain or place in (2, 3))
        ended = got[2] | got[3]
        ends += ended.sum()
        mask = ended if mode is AutoresetMode.DISABLED else np.zeros(LANES, bool)
        mask = mask | (desynchronise if time == 1 else False)
        if mask.any():
            got = ours.reset(options={"reset_mask": mask.copy()})
            expected = theirs.reset(options={"reset_mask": mask.copy()})
            for one, other in zip(got, expected, strict=True):
                assert_same(one, other, values=certain)
    assert ends > LANES


def test_the_old_episodes_last_words_stand_in_final_obs_and_final_info():
    envs = vector(CLARIFY, AutoresetMode.SAME_STEP, **CERTAIN[CLARIFY])
    envs.reset(seed=0)
    _, _, _, _, infos = envs.step([0, 0, 1, 1])
    assert not {"final_obs", "final_info"} & infos.keys()
    observation, reward, terminated, _, infos = envs.step([2, 1, 2, 1])
    np.testing.assert_array_equal(terminated, [True, False, True, False])
    np.testing.assert_array_equal(observation, [[0, 0], [1, -1], [0, 0], [0, -1]])
    np.testing.assert_array_equal(reward, np.float32([1.0, -0.3, 1.0, -0.3]))
    np.testing.assert_array_equal(infos["_final_obs"], terminated)
    np.testing.assert_array_equal(infos["final_obs"][0], [1, 0])
    assert infos["final_obs"][1] is None
    np.testing.assert_array_equal(infos["final_obs"][2], [0, -1])
    np.testing.assert_array_equal(infos["final_info"]["correct"], [True, False, True, False])
    np.testing.assert_array_equal(infos["_correct"], [False, True, False, True])


def test_the_step_after_an_end_ignores_the_action_pays_nothing_and_starts_the_next_episode():
    envs = vector(CLARIFY, **CERTAIN[CLARIFY] | {"max_questions": 9})
    envs.reset(seed=0)
    envs.step([0, 0, 0, 0])
    observation, _, terminated, _, _ = envs.step([2, 1, 1, 1])
    np.testing.assert_array_equal(terminated, [True, False, False, False])
    np.testing.assert_array_equal(observation, [[1, 0]] + [[1, -1]] * 3)
    observation, reward, terminated, truncated, infos = envs.step([-99, 0, 0, 0])
    np.testing.assert_array_equal(observation, [[0, 0]] + [[1, -1]] * 3)
    np.testing.assert_array_equal(reward, np.float32([0.0] + [-0.3] * 3))
    assert not terminated.any() and not truncated.any()
    np.testing.assert_array_equal(infos["_question_answer"], [False, True, True, True])
    np.testing.assert_array_equal(infos["_intent"], [True] * 4)


# --- the same numbers as the pure functions -------------------------------------------------------


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_same_step_is_step_batch_under_one_key_per_step(env_id):
    env, params = qmind_jax.make(env_id, **CHANCE[env_id])
    envs = GymnasiumVectorEnv(env, params, num_envs=LANES, autoreset_mode="SameStep")
    key = key_of(4)
    expected, state = env.reset_batch(jax.random.fold_in(key, 0), params, LANES)
    np.testing.assert_array_equal(envs.reset(seed=4)[0], expected)
    for time, actions in enumerate(random_actions(envs, 10), start=1):
        observation, state, reward, terminated, truncated, info = env.step_batch(
            jax.random.fold_in(key, time), state, actions, params
        )
        got = envs.step(actions)
        for ours, theirs in zip(got, (observation, reward, terminated, truncated), strict=False):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        for lane in np.flatnonzero(terminated | truncated):
            np.testing.assert_allclose(got[4]["final_obs"][lane], info["final_observation"][lane], atol=1e-6)


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_next_step_is_the_transition_or_after_an_end_the_initial_state(env_id):
    env, params = qmind_jax.make(env_id, **CHANCE[env_id])

    @jax.jit
    def initial(key):
        state = jax.vmap(env.initial, in_axes=(0, None))(env.sample_noise(key, (LANES,)), params)
        return state, jax.vmap(env.observation, in_axes=(0, None))(state, params)

    @jax.jit
    def advance(key, state, actions):
        noise = env.sample_noise(key, (LANES,))
        after = jax.vmap(env.transition, in_axes=(0, 0, 0, None))(noise, state, actions, params)
        truncated = jax.vmap(env.is_truncated, in_axes=(0, None))(after.state, params)
        observation = jax.vmap(env.observation, in_axes=(0, None))(after.state, params)
        fresh = initial(key)
        return (after.state, observation), fresh, after.reward, after.terminated, truncated, after.info

    def lane_of(tree, lane):
        return jax.tree.map(lambda leaf: leaf[lane], tree)

    envs = GymnasiumVectorEnv(env, params, num_envs=LANES)
    key = key_of(4)
    state, expected = initial(jax.random.fold_in(key, 0))
    np.testing.assert_array_equal(envs.reset(seed=4)[0], expected)
    ended = np.zeros(LANES, bool)
    for time, actions in enumerate(random_actions(envs, 10), start=1):
        moved, fresh, reward, terminated, truncated, info = advance(
            jax.random.fold_in(key, time), state, actions
        )
        lanes = [lane_of(fresh if ended[lane] else moved, lane) for lane in range(LANES)]
        state, expected = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
        got = envs.step(actions)
        np.testing.assert_allclose(got[0], expected, atol=1e-6)
        np.testing.assert_allclose(got[1], np.where(ended, 0.0, reward), atol=1e-6)
        np.testing.assert_array_equal(got[2], terminated & ~ended)
        np.testing.assert_array_equal(got[3], truncated & ~ended)
        for name, value in info.items():
            if name in got[4]:
                np.testing.assert_allclose(got[4][name][~ended], value[~ended], atol=1e-6)
        ended = got[2] | got[3]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda m: m.value)
@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_a_lane_does_not_know_how_many_others_there_are(env_id, mode):
    few, many = vector(env_id, mode, LANES, **CHANCE[env_id]), vector(env_id, mode, 7, **CHANCE[env_id])
    np.testing.assert_array_equal(few.reset(seed=2)[0], many.reset(seed=2)[0][:LANES])
    for actions in random_actions(many, 12):
        for ours, theirs in zip(few.step(actions[:LANES])[:4], many.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs[:LANES])


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_lane_0_lives_through_the_first_episode_of_the_single_environment(env_id):
    single, envs = GymnasiumEnv(env_id, **CHANCE[env_id]), vector(env_id, **CHANCE[env_id])
    for seed in range(4):
        observation, info = single.reset(seed=seed)
        observations, infos = envs.reset(seed=seed)
        np.testing.assert_array_equal(observations[0], observation)
        assert {name: infos[name][0] for name in info} == pytest.approx(info, abs=1e-6)
        for action in (0, 1, 1):
            got, expected = envs.step(np.full(LANES, action))[:4], single.step(action)[:4]
            for ours, theirs in zip(got, expected, strict=True):
                np.testing.assert_allclose(ours[0], theirs, atol=1e-6)


# --- seeds ----------------------------------------------------------------------------------------


def outcomes(envs, **reset):
    first = envs.reset(**reset)[0]
    return np.concatenate([first.ravel(), *(envs.step(a)[1] for a in random_actions(envs, 6))])


def test_a_seed_fixes_all_that_follows_and_without_one_episodes_go_on():
    runs = []
    for _ in range(2):
        envs = vector(TRUST, **CHANCE[TRUST])
        runs.append([outcomes(envs, seed=9), outcomes(envs), outcomes(envs, seed=10)])
        assert envs.np_random_seed == 10
    np.testing.assert_array_equal(*runs)
    for i, first in enumerate(runs[0]):
        assert not any(np.array_equal(first, second) for second in runs[0][i + 1 :])


@pytest.mark.parametrize("seed", [[1, 2, 3, 4], 1.0, "1"])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="one Python integer for all lanes"):
        vector(TRUST).reset(seed=seed)


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        (0, [0] * 4),
        ("h1", [1] * 4),
        ([1, 0, "h1", "h0"], [1, 0, 1, 0]),
        (np.array([0, 1, 1, 0]), [0, 1, 1, 0]),
    ],
    ids=["index", "name", "list", "array"],
)
def test_an_option_is_one_value_for_all_lanes_or_one_per_lane(intent, expected):
    envs = vector(CLARIFY, **CHANCE[CLARIFY])
    for seed in range(3):
        _, infos = envs.reset(seed=seed, options={"intent": intent})
        np.testing.assert_array_equal(infos["intent"], expected)
        assert infos["_intent"].all()


def test_a_fixed_person_shifts_no_other_random_number():
    people = stack([TrustQubit()] * 2)
    np.testing.assert_array_equal(
        outcomes(vector(TRUST, people=people), seed=0),
        outcomes(vector(TRUST, people=people), seed=0, options={"person": 1}),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intents": 0}, "'intent'"),
        ({"reset_masks": 0}, "'reset_mask'"),
        ({"intent": [0, 1]}, "sequence of 4, one per lane; got 2"),
        ({"intent": "mug"}, "'red cup'"),
        ({"intent": [0, 1, 2, 3]}, "index in 0 .. 2"),
    ],
)
def test_an_unknown_option_or_outcome_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        vector(CLARIFY).reset(options=options)


# --- resetting some lanes -------------------------------------------------------------------------


def test_a_mask_resets_its_lanes_and_leaves_the_others_and_the_options_alone():
    envs = vector(TRUST, AutoresetMode.DISABLED, n_steps=9)
    envs.reset(seed=0)
    for _ in range(3):
        before, *_ = envs.step(np.zeros(4, int))
    mask = np.array([True, False, False, True])
    options = {"reset_mask": mask, "person": 0}
    observation, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "person"}
    np.testing.assert_array_equal(observation[~mask], before[~mask])
    np.testing.assert_array_equal(observation[mask], np.zeros((2, 3)))
    np.testing.assert_array_equal(infos["_p_trust"], mask)
    np.testing.assert_allclose(infos["p_trust"], np.where(mask, np.cos(0.8) ** 2, 0.0), atol=1e-6)


def test_every_masked_reset_draws_anew():
    envs = vector(TRUST, **CHANCE[TRUST])
    envs.reset(seed=0)
    mask = np.array([True, True, True, False])
    drawn = {tuple(envs.reset(options={"reset_mask": mask})[1]["p_trust"]) for _ in range(8)}
    assert len(drawn) > 2


def test_lanes_that_ended_must_be_reset_where_autoreset_is_disabled():
    envs = vector(CLARIFY, AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step([0, 3, 0, 4])
    with pytest.raises(ResetNeeded, match="lanes 1, 3 have ended"):
        envs.step([0, 0, 0, 0])
    envs.reset(options={"reset_mask": np.array([False, True, False, True])})
    envs.step([0, 0, 0, 0])


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True] * LANES, TypeError),
        (np.ones(LANES), TypeError),
        (np.ones(LANES + 1, bool), ValueError),
        (np.zeros(LANES, bool), ValueError),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused(mask, error):
    envs = vector(TRUST)
    envs.reset(seed=0)
    with pytest.raises(error, match="reset_mask"):
        envs.reset(options={"reset_mask": mask})


def test_the_very_first_reset_is_of_all_lanes():
    with pytest.raises(ResetNeeded, match="reset all lanes"):
        vector(TRUST).reset(options={"reset_mask": np.arange(LANES) == 0})


# --- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ([0, 0, -1, 0], ValueError, "got -1 in lane 2"),
        ([0, 0, 0, 99], ValueError, "got 99 in lane 3"),
        ([0] * 3, ValueError, r"shape \(4,\), got \(3,\)"),
        (0, ValueError, r"shape \(4,\), got \(\)"),
        (np.zeros((4, 1), int), ValueError, r"got \(4, 1\)"),
        (np.zeros(4), TypeError, "float64"),
        (np.zeros(4, bool), TypeError, "bool"),
        (["0"] * 4, TypeError, "<U1"),
        ([None] * 4, TypeError, "object"),
    ],
)
@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_actions_outside_the_space_are_refused_and_leave_no_trace(env_id, actions, error, message):
    envs, untouched = vector(env_id), vector(env_id)
    envs.reset(seed=0), untouched.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.step(actions)
    np.testing.assert_array_equal(envs.step([0] * LANES)[1], untouched.step([0] * LANES)[1])


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_step_before_the_first_reset_is_refused(mode):
    with pytest.raises(ResetNeeded, match="reset"):
        vector(TRUST, mode).step([0] * LANES)


# --- the arrays that come out ---------------------------------------------------------------------


def test_what_comes_out_may_be_written_to_and_changes_nothing():
    envs, untouched = (vector(TRUST, AutoresetMode.SAME_STEP, n_steps=2) for _ in range(2))
    envs.reset(seed=0)[0][:] = 7.0
    untouched.reset(seed=0)
    for _ in range(4):
        got, expected = envs.step([0] * LANES), untouched.step([0] * LANES)
        for ours, theirs in zip(got[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
            ours[:] = 1
        for name, value in got[4].items():
            if name.startswith("_"):
                value[:] = False


def test_without_copies_observations_are_read_only():
    envs = vector(TRUST, copy=False)
    assert not envs.reset(seed=0)[0].flags.writeable
    assert not envs.step([0] * LANES)[0].flags.writeable


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda m: m.value)
def test_gymnasiums_wrappers_work_on_top(mode):
    envs = vector(TRUST, mode, n_steps=3)
    if mode is AutoresetMode.NEXT_STEP:
        # Writes into the observations that it is given, and knows no other mode.
        envs = RescaleObservation(envs, np.float32(0.0), np.float32(2.0))
    envs = RecordEpisodeStatistics(envs)
    envs.reset(seed=0)
    for _ in range(3):
        observation, *_, infos = envs.step(np.full(LANES, 3))
    if mode is AutoresetMode.NEXT_STEP:
        np.testing.assert_array_equal(observation, [[1.0, 1.0, 2.0]] * LANES)
    np.testing.assert_array_equal(infos["episode"]["l"], [3] * LANES)
    np.testing.assert_allclose(infos["episode"]["r"], -0.9, atol=1e-6)


def test_gymnasium_can_turn_the_infos_into_one_per_lane():
    envs = DictInfoToList(vector(CLARIFY, AutoresetMode.SAME_STEP, **CERTAIN[CLARIFY]))
    envs.reset(seed=0)
    *_, infos = envs.step([0, 2, 0, 2])
    assert infos[0] == {"question_answer": 1, "correct": False, "intent": 0}
    assert infos[1].keys() == {"final_obs", "final_info", "intent"}
    assert infos[1]["final_info"]["correct"]


# --- making ---------------------------------------------------------------------------------------


def test_make_vec_makes_thousands_of_lanes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gymnasium.make_vec("qmind_jax/TrustHandover-v0", num_envs=4096, fail_cost=2.0)
    assert isinstance(envs, GymnasiumVectorEnv) and envs.num_envs == 4096
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=0)
    observation, reward, *_ = envs.step(np.zeros(4096, int))
    assert envs.observation_space.contains(observation)
    assert set(reward) == {1.0, -2.0}


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
def test_make_vec_takes_the_mode_by_enum_or_by_name_and_can_be_synchronous(env_id):
    for mode in (AutoresetMode.SAME_STEP, "SameStep"):
        envs = gymnasium.make_vec(f"qmind_jax/{env_id}", num_envs=2, autoreset_mode=mode)
        assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    before = dict(GymnasiumEnv.metadata)
    sync = gymnasium.make_vec(f"qmind_jax/{env_id}", num_envs=2, vectorization_mode="sync")
    assert isinstance(sync, SyncVectorEnv)
    sync.reset(seed=0)
    sync.step(np.zeros(2, int))
    assert GymnasiumEnv.metadata == before, "one environment's mode leaked into the class"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs"),
        ({"num_envs": 2.0}, ValueError, "num_envs"),
        ({"autoreset_mode": "Sometimes"}, ValueError, "Sometimes"),
        ({"render_mode": "ansi"}, ValueError, "render_mode"),
        ({"fail_costs": 1.0}, ValueError, "'fail_cost'"),
        ({"n_steps": 0}, ValueError, "n_steps"),
        ({"people": lambda key: TrustQubit()}, TypeError, "must not be a function"),
    ],
)
def test_nonsense_is_refused_when_the_environment_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        GymnasiumVectorEnv(TRUST, **arguments)
