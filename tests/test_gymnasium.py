"""The single Gymnasium environment."""

import copy
import pickle
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.seeding import np_random

import qmind_jax
from qmind_jax.adapters import GymnasiumEnv, GymnasiumVectorEnv, rendering
from qmind_jax.adapters import gymnasium as adapter
from qmind_jax.adapters.episodes import fix_draws
from qmind_jax.envs.clarification import ClarificationNoise
from qmind_jax.people import (
    BetaTrust,
    IndependentAnswers,
    MarkovTrust,
    ProjectiveAnswers,
    TrustQubit,
    default_domain,
    stack,
)
from qmind_jax.quantum import projector
from qmind_jax.wrappers import PreviousStep

TRUST, CLARIFY = "TrustHandover-v0", "Clarification-v0"


def complex_people():
    rng = np.random.default_rng(5)
    states = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    rows = rng.normal(size=(3, 2, 4)) + 1j * rng.normal(size=(3, 2, 4))
    return ProjectiveAnswers(states, np.array([projector(row) for row in rows]))


def play(env, actions, **reset):
    """The outcome of an episode: what reset and every step return, up to the end."""
    outcome = [env.reset(**reset)]
    for action in actions:
        outcome.append(env.step(action))
        if outcome[-1][2] or outcome[-1][3]:
            break
    return outcome


def same(first, second):
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


# --- Gymnasium's own checks -----------------------------------------------------------------------


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
def test_gymnasiums_checker_has_nothing_to_say_in_any_render_mode(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"qmind_jax/{env_id}").unwrapped
        check_env(env, skip_render_check=False)


def test_importing_the_package_registers_every_id_without_a_time_limit():
    ids = qmind_jax.register_envs()
    assert ids == [f"qmind_jax/{env_id}" for env_id in qmind_jax.REGISTRY]
    for gymnasium_id in ids:
        assert gymnasium.spec(gymnasium_id).max_episode_steps is None
        assert gymnasium.spec(gymnasium_id).vector_entry_point is not None


def test_registering_again_changes_nothing_and_warns_of_nothing():
    before = dict(gymnasium.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert qmind_jax.register_envs() == qmind_jax.register_envs()
    assert gymnasium.registry == before


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
def test_spaces_are_those_of_the_environment(env_id):
    env, params = qmind_jax.make(env_id)
    door = GymnasiumEnv(env, params)
    assert door.action_space == gymnasium.spaces.Discrete(env.action_space(params).n)
    box = env.observation_space(params)
    low, high = (np.broadcast_to(np.float32(side), box.shape) for side in (box.low, box.high))
    assert door.observation_space == gymnasium.spaces.Box(low, high, dtype=np.float32)
    assert door.observation_space.dtype == np.float32


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
def test_everything_that_comes_out_is_numpy_or_python(env_id):
    env = GymnasiumEnv(env_id)
    observation, info = env.reset(seed=0)
    stepped, reward, terminated, truncated, step_info = env.step(0)
    for array in (observation, stepped):
        assert type(array) is np.ndarray and array.dtype == np.float32
        assert array.flags.writeable and array.base is None
    assert type(reward) is float and type(terminated) is bool and type(truncated) is bool
    for value in [*info.values(), *step_info.values()]:
        assert type(value) in (int, float, bool)


# --- the same numbers as the pure functions -------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "overrides"),
    [
        (TRUST, {}),
        (TRUST, {"people": stack([BetaTrust(0.3), BetaTrust(0.9)])}),
        (CLARIFY, {}),
        ("ClarificationHard-v0", {}),
        (CLARIFY, {"people": complex_people()}),
    ],
)
def test_an_episode_is_that_of_the_pure_functions_under_the_key_that_np_random_draws(env_id, overrides):
    env, params = qmind_jax.make(env_id, **overrides)
    words = np_random(11)[0].integers(2**32, size=2, dtype=np.uint32)
    key = jax.random.wrap_key_data(words, impl="threefry2x32")

    @jax.jit
    def initial(key, params):
        state = env.initial(env.sample_noise(key), params)
        return state, env.observation(state, params)

    @jax.jit
    def advance(key, state, action, params):
        after = env.transition(env.sample_noise(key), state, action, params)
        return after, env.is_truncated(after.state, params), env.observation(after.state, params)

    door = GymnasiumEnv(env, params)
    observation, info = door.reset(seed=11)
    state, expected = initial(jax.random.fold_in(key, 0), params)
    np.testing.assert_array_equal(observation, expected)
    for time, action in enumerate([0, 2, 1, 2, 0, 1], start=1):
        after, over, expected = advance(jax.random.fold_in(key, time), state, action, params)
        assert set(info) <= set(after.info)
        state = after.state
        observation, reward, terminated, truncated, info = door.step(action)
        np.testing.assert_allclose(observation, expected, atol=1e-6)
        assert reward == pytest.approx(float(after.reward), abs=1e-6)
        assert (terminated, truncated) == (bool(after.terminated), bool(over))
        assert info == pytest.approx({name: value.item() for name, value in after.info.items()}, abs=1e-6)


def test_bytes_hold_every_kind_of_array_unchanged():
    tree = {
        "flag": jnp.array([True, False]),
        "small": jnp.uint8(7),
        "count": jnp.int32(-3),
        "number": jnp.array([[1.5, -0.0], [jnp.nan, jnp.inf]], jnp.float32),
        "complex": jnp.array([1 + 2j, -3j], jnp.complex64),
    }
    back = adapter._unpack(adapter._pack(tree), jax.eval_shape(lambda: tree))
    for name, value in tree.items():
        assert back[name].dtype == value.dtype
        np.testing.assert_array_equal(back[name], value)


def test_nothing_is_compiled_again_for_another_instance_or_episode():
    actions = [0, 1, 2] * 3
    play(GymnasiumEnv(TRUST, n_steps=5), actions, seed=0)
    sizes = adapter._start_packed._cache_size(), adapter._advance_packed._cache_size()
    other = GymnasiumEnv("TrustHandoverRecovery-v0", n_steps=7)
    play(other, actions, seed=1)
    play(other, actions)
    assert sizes == (adapter._start_packed._cache_size(), adapter._advance_packed._cache_size())


# --- seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
def test_a_seed_fixes_this_episode_and_the_following_ones(env_id):
    actions = [0, 1, 2, 0, 1, 2]
    runs = []
    for _ in range(2):
        env = GymnasiumEnv(env_id)
        runs.append([play(env, actions, seed=3), play(env, actions), play(env, actions)])
    assert same(*runs)


def test_seeds_and_episodes_differ_from_one_another():
    env = GymnasiumEnv(TRUST)
    episodes = [play(env, [0] * 20, seed=seed) for seed in range(3)] + [play(env, [0] * 20)]
    for i, first in enumerate(episodes):
        assert not any(same(first, second) for second in episodes[i + 1 :])


def test_np_random_seed_is_the_seed_that_was_given():
    env = GymnasiumEnv(TRUST)
    env.reset(seed=42)
    assert env.np_random_seed == 42
    env.reset()
    assert env.np_random_seed == 42


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_lives_through_the_same_future(duplicate):
    env = GymnasiumEnv(CLARIFY)
    env.reset(seed=1)
    env.step(0)
    twin = duplicate(env)
    assert same(env.step(1), twin.step(1))
    assert same(play(env, [0, 1, 2]), play(twin, [0, 1, 2]))


# --- the end of an episode ------------------------------------------------------------------------


def test_the_last_observation_is_the_old_episodes_and_nothing_resets_by_itself():
    env = GymnasiumEnv(TRUST, n_steps=3)
    *_, (observation, _, terminated, truncated, _) = play(env, [0, 0, 0], seed=0)
    assert observation[2] == 1.0 and truncated and not terminated


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
@pytest.mark.parametrize("action", [0, 3])
def test_a_step_before_the_first_reset_is_refused(env_id, action):
    with pytest.raises(ResetNeeded, match="reset"):
        GymnasiumEnv(env_id).step(action)
    with pytest.raises(ResetNeeded):
        gymnasium.make(f"qmind_jax/{env_id}").step(action)


@pytest.mark.parametrize(("env_id", "actions"), [(TRUST, [0] * 20), (CLARIFY, [0, 5]), (CLARIFY, [0] * 6)])
def test_a_step_after_the_end_is_refused_and_the_next_reset_goes_on(env_id, actions):
    env = GymnasiumEnv(env_id)
    *_, last = play(env, actions, seed=0)
    assert last[2] or last[3]
    for _ in range(2):
        with pytest.raises(ResetNeeded, match="after the end"):
            env.step(0)
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    env.step(0)


# --- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", list(qmind_jax.REGISTRY))
@pytest.mark.parametrize(
    ("action", "error"),
    [
        (-1, ValueError),
        (99, ValueError),
        (10**30, ValueError),
        (np.int64(99), ValueError),
        (np.array([1]), ValueError),
        ([0, 1], ValueError),
        (2.9, TypeError),
        (np.float32(1.0), TypeError),
        (float("nan"), TypeError),
        (True, TypeError),
        (np.True_, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_an_action_outside_the_space_is_refused_with_its_value(env_id, action, error):
    env = GymnasiumEnv(env_id)
    env.reset(seed=0)
    with pytest.raises(error, match="action must") as caught:
        env.step(action)
    assert str(np.asarray(action).ravel()[0]) in str(caught.value)
    assert f"{env.action_space.n - 1}" in str(caught.value) or "one integer" in str(caught.value)
    before = play(GymnasiumEnv(env_id), [0], seed=0)[1]
    assert same(env.step(0), before), "a refused action must leave no trace"


@pytest.mark.parametrize(
    "action", [np.int64(2), np.uint8(2), np.array(2), np.array(2, np.int16), jnp.int32(2)]
)
def test_integers_of_every_kind_are_the_same_action(action):
    assert same(play(GymnasiumEnv(TRUST), [action], seed=0), play(GymnasiumEnv(TRUST), [2], seed=0))


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("intent", [0, 1, 2, np.int64(1)])
def test_the_intent_can_be_fixed_by_index_also_the_first(intent):
    env = GymnasiumEnv(CLARIFY)
    for seed in range(5):
        assert env.reset(seed=seed, options={"intent": intent})[1] == {"intent": intent}


def test_the_intent_can_be_fixed_by_name_also_one_that_looks_like_a_falsy_number():
    env = GymnasiumEnv(CLARIFY, people=IndependentAnswers([[0.5], [0.5], [0.5]], ("x", "0", ""), ("?",)))
    for index, name in enumerate(("x", "0", "")):
        for seed in range(5):
            assert env.reset(seed=seed, options={"intent": name})[1] == {"intent": index}


@pytest.mark.parametrize("intent", ["nonsense", 3, -1, True, 1.0, None])
def test_an_unknown_intent_is_refused_with_the_known_ones(intent):
    env = GymnasiumEnv(CLARIFY)
    with pytest.raises(ValueError, match=r"'red cup', 'blue cup', 'red bowl'") as caught:
        env.reset(options={"intent": intent})
    assert repr(intent) in str(caught.value)


def test_a_fixed_intent_holds_for_one_episode_and_shifts_no_other_random_number():
    people = stack([IndependentAnswers(np.full((3, 3), 0.5))] * 4)
    free, fixed = GymnasiumEnv(CLARIFY, people=people), GymnasiumEnv(CLARIFY, people=people)
    actions = [0, 1, 2, 0, 1]
    intents = set()
    for seed in range(8):
        expected = play(free, actions, seed=seed)
        got = play(fixed, actions, seed=seed, options={"intent": 2})
        assert all(same(a[0], b[0]) for a, b in zip(expected, got, strict=True)), "the answers shifted"
        following = play(free, actions)
        assert same(following, play(fixed, actions)), "the next episode shifted"
        intents |= {expected[0][1]["intent"], following[0][1]["intent"]}
    assert intents == {0, 1, 2}


def test_fixing_the_person_who_would_have_come_changes_nothing():
    people = stack([TrustQubit(phi0) for phi0 in np.linspace(0.2, 2.8, 6)])
    trusts = np.cos(np.linspace(0.2, 2.8, 6) / 2) ** 2
    free, fixed = GymnasiumEnv(TRUST, people=people), GymnasiumEnv(TRUST, people=people)
    came = set()
    for seed in range(20):
        expected = play(free, [0, 2, 1] * 3, seed=seed)
        person = int(np.argmin(abs(trusts - expected[0][1]["p_trust"])))
        came.add(person)
        assert same(expected, play(fixed, [0, 2, 1] * 3, seed=seed, options={"person": person}))
    assert came == set(range(6))


@pytest.mark.parametrize("person", range(6))
def test_the_person_can_be_fixed_by_index(person):
    phi0 = np.linspace(0.2, 2.8, 6)
    env = GymnasiumEnv(TRUST, people=TrustQubit(phi0, np.full(6, 0.8), np.full(6, 1.2), np.full(6, 0.3)))
    for seed in range(5):
        _, info = env.reset(seed=seed, options={"person": person})
        assert info["p_trust"] == pytest.approx(np.cos(phi0[person] / 2) ** 2, abs=1e-6)


@pytest.mark.parametrize("person", [1, -1, "0", 0.0])
def test_an_unknown_person_is_refused(person):
    with pytest.raises(ValueError, match=r"options\['person'\] must be an index in 0 .. 0, got"):
        GymnasiumEnv(TRUST).reset(options={"person": person})


@pytest.mark.parametrize(
    ("env_id", "options", "hint"),
    [
        (CLARIFY, {"intnt": 0}, "'intent'"),
        (CLARIFY, {"persons": 0}, "'person'"),
        (TRUST, {"intent": 0}, "person"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(env_id, options, hint):
    with pytest.raises(ValueError, match=f"unknown option .*{hint}"):
        GymnasiumEnv(env_id).reset(options=options)


def test_a_refused_option_leaves_the_random_numbers_alone():
    env = GymnasiumEnv(TRUST)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="unknown option"):
        env.reset(seed=7, options={"nonsense": 0})
    assert env.np_random_seed == 0


def test_draws_are_found_inside_other_trees():
    noise = {"outer": ClarificationNoise(*jnp.zeros(3)), "rest": jnp.float32(0.5)}
    fixed = fix_draws(noise, {"intent": np.float32(0.25)})
    assert float(fixed["outer"].intent) == 0.25
    assert float(fixed["outer"].person) == 0.0 and float(fixed["rest"]) == 0.5


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_a_wrapped_environment_knows_the_same_options_and_reports_the_same_at_reset(env_id):
    env, params = qmind_jax.make(env_id)
    bare, wrapped = GymnasiumEnv(env, params), GymnasiumEnv(PreviousStep(env), params)
    option = {"person": 0} if env_id == TRUST else {"intent": "red bowl"}
    info = bare.reset(seed=1, options=option)[1]
    assert info and wrapped.reset(seed=1, options=option)[1] == info
    envs = GymnasiumVectorEnv(PreviousStep(env), params, num_envs=2)
    assert set(envs.reset(options=option)[1]) == {*info, *(f"_{name}" for name in info)}


# --- people and parameters ------------------------------------------------------------------------


def test_parameters_are_overridden_by_name_through_make():
    env = gymnasium.make("qmind_jax/TrustHandover-v0", fail_cost=123.0, people=MarkovTrust(0.0, 0.0, 0.0))
    env.reset(seed=0)
    assert env.step(0)[1] == -123.0


def test_parameters_may_be_given_with_the_environment_and_overridden():
    env, params = qmind_jax.make(TRUST, ask_cost=0.75, wait_cost=0.5)
    door = GymnasiumEnv(env, params, wait_cost=0.25)
    door.reset(seed=0)
    assert (door.step(2)[1], door.step(3)[1]) == (-0.75, -0.25)
    assert GymnasiumEnv(env).observation_space == door.observation_space


@pytest.mark.parametrize(
    "people",
    [default_domain(), [default_domain(), default_domain(3)], stack([default_domain()] * 3)],
    ids=["one person", "a sequence", "a population"],
)
def test_people_may_be_one_person_a_sequence_or_a_population(people):
    env = GymnasiumEnv(CLARIFY, people=people)
    assert len(play(env, [0, 1, 2], seed=0)) == 4


def test_a_function_makes_a_new_person_at_every_reset_without_compiling_again():
    keys = []

    def draw(key):
        keys.append(key)
        return TrustQubit(phi0=jax.random.uniform(key, minval=0.2, maxval=2.8))

    env = GymnasiumEnv(TRUST, people=draw)
    first = env.reset(seed=5)[1]["p_trust"]
    env.step(0)
    size = adapter._advance_packed._cache_size()
    trusts = [first]
    for _ in range(4):
        trusts.append(env.reset()[1]["p_trust"])
        env.step(0)
    assert len(set(trusts)) == 5
    assert adapter._advance_packed._cache_size() == size
    assert env.reset(seed=5)[1]["p_trust"] == first
    assert all(jnp.issubdtype(key.dtype, jax.dtypes.prng_key) for key in keys)


@pytest.mark.parametrize(
    ("env_id", "first", "second"),
    [
        (TRUST, TrustQubit(), MarkovTrust()),
        (TRUST, TrustQubit(), stack([TrustQubit(), TrustQubit()])),
        (CLARIFY, IndependentAnswers([[0.5, 0.5]]), IndependentAnswers([[0.5]])),
        (CLARIFY, IndependentAnswers([[0.5]], ("a",), ("q",)), IndependentAnswers([[0.5]], ("b",), ("q",))),
    ],
    ids=["family", "number", "questions", "labels"],
)
def test_a_function_that_makes_other_people_is_refused_at_reset(env_id, first, second):
    people = iter([first, first, second])
    env = GymnasiumEnv(env_id, people=lambda key: next(people))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="people of one family with the same shapes and labels"):
        env.reset()


def test_people_with_other_questions_are_refused_in_one_population():
    others = [IndependentAnswers([[0.5, 0.5]]), IndependentAnswers([[0.5]])]
    with pytest.raises(ValueError, match="questions"):
        GymnasiumEnv(CLARIFY, people=others)


@pytest.mark.parametrize(
    ("env_id", "overrides", "error", "message"),
    [
        (CLARIFY, {"max_questions": 0}, ValueError, "max_questions"),
        (TRUST, {"n_steps": 0}, ValueError, "n_steps"),
        (TRUST, {"fail_cost": np.ones(2)}, ValueError, r"fail_cost must be one number here, .* \(2,\)"),
        (TRUST, {"n_steps": np.array([3, 4])}, ValueError, "n_steps must be one number here"),
        (TRUST, {"people": []}, ValueError, "at least one person"),
        (TRUST, {"people": default_domain()}, TypeError, "people must be one of"),
        (TRUST, {"people": "everybody"}, TypeError, "people must be"),
        (TRUST, {"fail_costs": 1.0}, ValueError, "'fail_cost'"),
        ("TrustHandovers-v0", {}, ValueError, "'TrustHandover-v0'"),
        (3, {}, TypeError, "env must be an id"),
    ],
)
def test_nonsense_is_refused_when_the_environment_is_made(env_id, overrides, error, message):
    with pytest.raises(error, match=message):
        GymnasiumEnv(env_id, **overrides)


def test_people_of_every_trust_family_are_welcome():
    for person in (TrustQubit(), MarkovTrust(), BetaTrust()):
        assert len(play(GymnasiumEnv(TRUST, people=person), [0, 1, 2, 3], seed=0)) == 5


# --- rendering ------------------------------------------------------------------------------------


def test_words_tell_what_was_asked_and_answered():
    env = GymnasiumEnv(
        CLARIFY, render_mode="ansi", people=IndependentAnswers([[1.0, 0.0]], ("h",), ("a?", "b?"))
    )
    env.reset(seed=0)
    assert "'a?' -, 'b?' -" in env.render()
    env.step(1)
    assert "Question 1 of 6, 'b?': no (reward -0.30)" in env.render()
    env.step(0)
    assert "'a?' yes, 'b?' no" in env.render()
    env.step(2)
    assert "Act on 'h': right (reward +1.00)" in env.render()
    assert "over: terminated" in env.render()


def test_words_tell_what_the_robot_did_and_how_trust_stands():
    env = GymnasiumEnv(TRUST, render_mode="ansi", n_steps=4, people=MarkovTrust(1.0, 0.0, 0.0))
    env.reset(seed=0)
    assert f"[{'#' * 20}] 1.00" in env.render()
    expected = ["hand over: it worked", "hand over slowly: it worked", "ask about trust: yes", "wait"]
    for action, words in enumerate(expected):
        env.step(action)
        assert f"Step {action + 1} of 4: {words} (reward" in env.render()
    assert "over: truncated" in env.render()


def test_an_environment_without_words_of_its_own_shows_its_numbers():
    env, params = qmind_jax.make(TRUST)
    moment = rendering.Moment(2, 1, np.zeros(2), -0.5, {"x": 1}, "")
    words = rendering._describe.dispatch(object)(env, params, moment)
    assert "Step 2: action 1 (reward -0.50)" in words and "{'x': 1}" in words


def cells(picture, actions, entries):
    """The colour inside every cell of a picture, ``(actions + entries, columns, 3)``."""
    right = np.flatnonzero((picture != 255).any(axis=(0, 2)))[-1] + 2  # the last cell, and a line of paper
    left = right - rendering.COLUMNS * rendering.CELL
    middle = rendering.CELL // 2
    x = left + middle + rendering.CELL * np.arange(rendering.COLUMNS)
    y = rendering.TITLE + middle + rendering.CELL * np.arange(actions + entries)
    y[actions:] += rendering.GAP
    return picture[y[:, None], x]


def test_the_picture_shows_the_last_actions_and_observations_in_colour():
    people = IndependentAnswers([[1.0, 0.0]], ("h",), ("a?", "a question that is much too long for a row"))
    env = GymnasiumEnv(CLARIFY, render_mode="rgb_array", people=people)
    env.reset(seed=0)
    env.step(0)
    env.step(1)
    picture = env.render()
    height, width, channels = picture.shape
    assert picture.dtype == np.uint8 and height % 2 == width % 2 == 0 and channels == 3
    colours = cells(picture, 3, 2)
    ink, unused, nothing = rendering.INK, rendering.UNUSED, rendering.NOTHING
    yes, no = rendering.POSITIVE, rendering.NEGATIVE
    np.testing.assert_array_equal(colours[0, :4], [unused, ink, unused, unused])
    np.testing.assert_array_equal(colours[1, :4], [unused, unused, ink, unused])
    np.testing.assert_array_equal(colours[2, :4], [unused] * 4)
    np.testing.assert_array_equal(colours[3, :4], [nothing, yes, yes, unused])
    np.testing.assert_array_equal(colours[4, :4], [nothing, nothing, no, unused])


def test_the_picture_shows_nothing_hidden():
    pictures = []
    for intent in (0, 1):
        people = IndependentAnswers([[1.0], [1.0]])
        env = GymnasiumEnv(CLARIFY, render_mode="rgb_array", people=people)
        env.reset(seed=0, options={"intent": intent})
        env.step(0)
        pictures.append(env.render())
    np.testing.assert_array_equal(*pictures)


def test_the_picture_keeps_its_size_in_long_episodes_and_shows_their_end():
    env = GymnasiumEnv(TRUST, render_mode="rgb_array", n_steps=50)
    env.reset(seed=0)
    first = env.render()
    play(env, [0] * 50, seed=0)
    last = env.render()
    assert last.shape == first.shape
    np.testing.assert_array_equal(cells(last, 4, 3)[0], [rendering.INK] * rendering.COLUMNS)
    np.testing.assert_array_equal(cells(last, 4, 3)[6, -1], rendering.POSITIVE)


def test_a_wrapped_environment_has_a_picture_also_of_unbounded_entries():
    env, params = qmind_jax.make(TRUST)
    env = GymnasiumEnv(PreviousStep(env, reward=True), params, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        colours = cells(env.render(), 4, 8)
    np.testing.assert_array_equal(colours[-1, :2], [rendering.NOTHING, rendering.NEGATIVE])


def test_what_the_caller_writes_into_an_observation_stays_out_of_the_picture():
    env = GymnasiumEnv(CLARIFY, render_mode="rgb_array")
    first, _ = env.reset(seed=0)
    second, *_ = env.step(0)
    before = env.render()
    first[:] = second[:] = -second
    np.testing.assert_array_equal(env.render(), before)


def test_rendering_without_a_mode_or_before_a_reset_or_in_an_unknown_mode_is_no_silent_mistake():
    env = GymnasiumEnv(TRUST)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    with pytest.raises(ResetNeeded):
        GymnasiumEnv(TRUST, render_mode="ansi").render()
    with pytest.raises(ValueError, match="'human'"):
        GymnasiumEnv(TRUST, render_mode="human")


# --- other precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [TRUST, CLARIFY])
def test_observations_are_float32_also_under_64_bit_jax(env_id):
    with jax.enable_x64(True):
        env = GymnasiumEnv(env_id)
        assert jax.tree.leaves(env._params)[0].dtype == np.float64
        for observation, *_ in play(env, [0, 2, 1], seed=0):
            assert observation.dtype == np.float32
            assert env.observation_space.contains(observation)
        for mode in ("SameStep", "NextStep"):
            envs = GymnasiumVectorEnv(env_id, num_envs=2, autoreset_mode=mode)
            assert envs.reset(seed=0)[0].dtype == np.float32
            for _ in range(2):
                observation, reward, *_ = envs.step([0, 1])
                assert observation.dtype == np.float32 and reward.dtype == np.float64
