"""Pictures of real results: that they show the numbers, and refuse arrays that do not fit."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.animation import FuncAnimation
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from PIL import Image

import qmind_jax
from qmind_jax import plots, sweeps
from qmind_jax.envs.trust_handover import ACTION_NAMES
from qmind_jax.evaluation import evaluate, optima, reliability_curve, stated_beliefs, sweep
from qmind_jax.people import MarkovTrust, default_domain, handover_population
from qmind_jax.people.gaussian_prior import GaussianPrior
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood
from qmind_jax.people.posteriors.posterior import start, update
from qmind_jax.plots.checks import array_of
from qmind_jax.plots.style import ACTIONS, RED
from qmind_jax.policies import Constant, TrustRule
from qmind_jax.policies.optimal import handover_policy
from qmind_jax.policies.optimal.resolution import COARSE
from qmind_jax.training import PPOConfig, train

KEY = jax.random.key(0)
PEOPLE = 24


@pytest.fixture
def figure(tmp_path):
    """A figure that is written as a PNG after the test."""
    drawn = Figure(figsize=(7, 5), layout="constrained")
    yield drawn
    if drawn.axes:
        drawn.savefig(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.fixture(scope="module")
def trusting():
    people = handover_population(jax.random.key(1), PEOPLE)
    return qmind_jax.make("TrustHandoverRecovery-v0", people=people)


@pytest.fixture(scope="module")
def results(trusting):
    """Optima of the people, and what two policies earn with them."""
    env, params = trusting
    policies = {"published trust rule": TrustRule.for_params(params), "always wait": Constant(jnp.int32(3))}
    returns = {
        name: evaluate(policy, env, params, KEY, 30 * PEOPLE, balanced=True).by_person
        for name, policy in policies.items()
    }
    return np.asarray(optima(params, resolutions=(COARSE,))), returns


@pytest.fixture(scope="module")
def episodes(trusting):
    """Trust ``(people, steps + 1)``, coherence, and actions ``(people, steps)`` under the published rule."""
    env, params = trusting
    rule = TrustRule.for_params(params)
    steps = 8

    @jax.jit
    def play(key):
        _, state = env.reset_batch(key, params, PEOPLE)
        carry = jax.vmap(lambda _: rule.init(params))(jnp.arange(PEOPLE))

        def step(loop, key):
            carry, state = loop
            observation = jax.vmap(env.observation, (0, None))(state, params)
            action, carry = jax.vmap(rule.act)(carry, observation, jax.random.split(key, PEOPLE))
            state = env.step_batch(key, state, action, params)[1]
            return (carry, state), (state.z, state.x, action)

        _, (z, x, action) = jax.lax.scan(step, (carry, state), jax.random.split(key, steps))
        return jnp.concatenate([state.z[None], z]).T, jnp.concatenate([state.x[None], x]).T, action.T

    return tuple(map(np.asarray, play(KEY)))


def labels_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# --- returns ------------------------------------------------------------------------------------------


def test_returns_stand_by_the_optimum_of_each_person(figure, results):
    optimum, returns = results
    errors = {name: by.standard_error for name, by in returns.items()}
    axes = plots.returns_over_people(
        figure.subplots(), optimum, {name: by.mean for name, by in returns.items()}, errors
    )
    lines = {line.get_label(): line for line in axes.lines}
    best = lines["best possible"].get_ydata()
    np.testing.assert_array_equal(best, np.sort(optimum))
    order = np.argsort(optimum)
    for name, by in returns.items():
        np.testing.assert_array_equal(lines[name].get_ydata(), np.asarray(by.mean)[order])
    assert lines["always wait"].get_marker() != lines["published trust rule"].get_marker()
    assert len(axes.collections) == 2, "bars of error"
    assert labels_of(axes) == ["published trust rule", "always wait", "best possible"]


def test_beliefs_of_a_policy_stand_by_how_often_they_came_true(figure, trusting):
    env, params = trusting
    stated = stated_beliefs(TrustRule.for_params(params), env, params, KEY, 100, 10)
    curve = reliability_curve(*stated.of_actions, 8)
    axes = plots.reliability_diagram(figure.subplots(), *curve, event="success")
    filled = np.asarray(curve.count) > 0
    points = np.stack([curve.confidence, curve.frequency], axis=-1)[filled]
    np.testing.assert_allclose(axes.collections[-1].get_offsets(), points)
    assert 0 < len(points) < 8
    assert f"{int(curve.count.sum()):,} predictions" in labels_of(axes)[1]
    assert "success" in axes.get_xlabel()


# --- sweeps -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(trusting):
    env, params = trusting
    axes = {"fail_cost": (1.0, 3.0, 9.0), "people.gamma": (0.0, 0.5)}
    policies = {"rule": TrustRule.for_params, "wait": Constant(jnp.int32(3))}
    return sweep(env, axes, policies, KEY, params=params, episodes=50, progress=False)


def test_a_heat_map_has_a_cell_per_point_and_its_number(figure, table):
    rows = table[table.policy == "rule"].pivot(
        index="people.gamma", columns="fail_cost", values="mean_return"
    )
    names = ("fail_cost", "people.gamma")
    values = rows.to_numpy()
    axes = plots.sweep_heat_map(
        figure.subplots(), rows.columns, rows.index, values, names, "mean return", (-50, 0)
    )
    np.testing.assert_array_equal(axes.images[0].get_array(), values)
    assert axes.images[0].get_clim() == (-50, 0)
    assert {text.get_text() for text in axes.texts} == {f"{value:.3g}" for value in values.ravel()}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3", "9"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == names


def test_a_large_heat_map_has_few_labels_and_no_numbers(figure):
    x, y = np.linspace(0.0, 1.0, 30), np.arange(9)
    axes = plots.sweep_heat_map(figure.subplots(), x, y, np.add.outer(y, x), ("x", "y"), "score")
    assert not axes.texts
    assert len(axes.get_xticks()) <= 8
    assert axes.images[0].get_clim() == (0.0, 9.0)


def test_curves_of_a_sweep_have_bands(figure, table):
    rows = table[table["people.gamma"] == 0.5]
    of = {name: rows[rows.policy == name] for name in ("rule", "wait")}
    scores = {name: (part.mean_return, part.standard_error) for name, part in of.items()}
    axes = plots.sweep_curves(figure.subplots(), of["rule"].fail_cost, scores, "fail_cost", "mean return")
    for line, (name, part) in zip(axes.lines, of.items(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), part.mean_return)
        assert line.get_label() == name
    assert len(axes.collections) == 2


@pytest.mark.parametrize("points", ["plane", "line", "cube"])
def test_the_picture_of_a_sweep_is_drawn_from_its_table(table, tmp_path, points):
    if points == "line":
        table = table[table["people.gamma"] == 0.5].drop(columns="people.gamma")
    if points == "cube":
        table = table.copy()
        table.insert(2, "ask_cost", 0.25)
    sweeps.draw(tmp_path / "sweep.png", table, "TrustHandoverRecovery-v0")
    assert (tmp_path / "sweep.png").stat().st_size > 20_000


# --- trust --------------------------------------------------------------------------------------------


def test_paths_of_trust_are_on_the_disc(figure, episodes):
    z, x, _ = episodes
    axes = plots.trust_disc(figure.subplots(), z[:3], x[:3], ["one", "two", "three"])
    paths = [line for line in axes.lines if line.get_label() in ("one", "two", "three")]
    for path, path_z, path_x in zip(paths, z, x, strict=False):
        np.testing.assert_array_equal(path.get_ydata(), path_z)
        np.testing.assert_array_equal(path.get_xdata(), path_x)
    assert labels_of(axes) == ["one", "two", "three"]


def test_mean_trust_over_time_is_drawn_by_group(figure, episodes):
    trust = 0.5 * (1.0 + episodes[0])
    axes = plots.trust_over_time(figure.subplots(), {"rule": trust, "first half": trust[:12]})
    np.testing.assert_allclose(axes.lines[0].get_ydata(), trust.mean(axis=0))
    assert labels_of(axes) == ["rule", "first half"]


@pytest.fixture(scope="module")
def best_actions():
    """Actions of the optimum for the published person on a small grid, early and at the end."""
    _, params = qmind_jax.make("TrustHandoverRecovery-v0")
    policy = handover_policy(params.people[0], params, resolution=COARSE)
    z, x = plots.disc_grid(41)
    act = jax.vmap(lambda z, x, time: policy.action((z, x), time), (0, 0, None))
    times = jnp.array([0, 17, 19])
    actions = jax.jit(jax.vmap(act, (None, None, 0)))(z.ravel(), x.ravel(), times)
    return np.asarray(actions).reshape(3, *z.shape), [0, 17, 19]


def test_the_best_policy_is_a_map_of_the_disc(figure, best_actions):
    actions, _ = best_actions
    axes = plots.policy_on_disc(figure.subplots(), actions[-1], ACTION_NAMES)
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), actions[-1])
    assert [to_hex(image.cmap(image.norm(action))) for action in range(4)] == [c.lower() for c in ACTIONS]
    assert labels_of(axes) == list(ACTION_NAMES)
    z, _ = plots.disc_grid(41)
    assert np.all(actions[-1][z > 0.8] == 0), "in the last step trust alone decides"


def test_the_best_policy_over_time_has_a_panel_per_time_and_one_legend(figure, best_actions):
    actions, times = best_actions
    figure.set_size_inches(12, 4.5)
    figure.set_layout_engine("compressed")
    panels = plots.policy_over_time(figure.subplots(1, 3), actions, times, ACTION_NAMES)
    assert [axes.get_title() for axes in panels] == [f"after {time} steps" for time in times]
    assert not any(axes.get_legend() for axes in panels)
    assert len(figure.legends) == 1
    assert not np.array_equal(actions[0], actions[-1])


def test_episodes_move_and_are_saved_as_a_small_gif(tmp_path, episodes):
    z, x, actions = episodes
    figure = Figure(figsize=(4.5, 5.2), layout="constrained")
    animation = plots.animate_episodes(figure.subplots(), z, x, actions, ACTION_NAMES)
    assert isinstance(animation, FuncAnimation)
    path = tmp_path / "episodes.gif"
    plots.save_gif(path, animation)
    with Image.open(path) as picture:
        assert picture.n_frames == z.shape[1]
    assert 5_000 < path.stat().st_size < 500_000
    dots = figure.axes[0].collections[-1]
    np.testing.assert_allclose(dots.get_offsets(), np.stack([x[:, -1], z[:, -1]], axis=-1))
    expected = [to_rgba(ACTIONS[action]) for action in actions[:, -1]]
    np.testing.assert_allclose(dots.get_facecolors(), expected)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=re.escape(f"{path} exists already")):
        plots.save_gif(path, animation)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match=r"path must end in \.gif"):
        plots.save_gif(tmp_path / "episodes.mp4", animation)
    with pytest.raises(ValueError, match="frames_per_second must be above 0, got 0"):
        plots.save_gif(tmp_path / "other.gif", animation, 0)


# --- people -------------------------------------------------------------------------------------------


def test_hard_people_have_rings(figure, trusting, results):
    people = trusting[1].people
    optimum, returns = results
    regret = optimum - np.asarray(returns["published trust rule"].mean)
    hard = np.argsort(-regret)[:3]
    places = np.stack([people.a_pos, people.a_neg], axis=-1)
    names = ("a_pos (rad)", "a_neg (rad)")
    axes = plots.hard_people_in_parameter_space(figure.subplots(), places, hard, names, regret)
    dots, rings = axes.collections
    np.testing.assert_allclose(rings.get_offsets(), places[hard])
    assert to_hex(rings.get_edgecolors()[0]) == RED.lower()
    np.testing.assert_array_equal(dots.get_array(), np.sort(regret))
    assert labels_of(axes) == [f"{PEOPLE} people", "3 hardest"]


def test_hard_people_can_be_drawn_without_regrets(figure):
    axes = plots.hard_people_in_parameter_space(figure.subplots(), np.eye(2), np.array([1]), ("a", "b"))
    assert len(axes.figure.axes) == 1, "no colour bar"


def test_a_posterior_shrinks_around_the_truth_answer_by_answer(figure):
    design = {"at first": ((1,), (0,))}
    prior = GaussianPrior(MarkovTrust, jnp.zeros(1), 2.0 * jnp.eye(1), {"up": 0.0, "down": 0.3})
    known = start(prior, KEY, likelihood=AnswerLikelihood.of(MarkovTrust, design), particles=400)
    yes = np.random.default_rng(0).uniform(size=30) < 0.8
    means, ends = [], {0.5: [], 0.9: []}
    for answer in [None, *yes]:
        known = known if answer is None else update(known, "at first", int(not answer))
        means.append(known.mean("p0")[0])
        for level in ends:
            ends[level].append([end[0] for end in known.interval("p0", level)])
    intervals = {level: tuple(np.array(pairs).T) for level, pairs in ends.items()}
    axes = plots.posterior_over_answers(
        figure.subplots(), np.array(means), intervals, "initial trust p0", 0.8, yes
    )
    low, high = intervals[0.9]
    assert high[-1] - low[-1] < 0.5 * (high[0] - low[0])
    wide, narrow, said_yes, said_no = axes.collections
    assert wide.get_alpha() < narrow.get_alpha()
    assert len(said_yes.get_offsets()) == yes.sum() and len(said_no.get_offsets()) == (~yes).sum()
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), means)
    assert labels_of(axes) == ["90% of belief", "50% of belief", "mean", "truth (0.80)", '"yes"', '"no"']


def test_the_order_of_two_questions_changes_the_answers(figure):
    person = default_domain()
    state, questions = np.asarray(person.states[0]), np.asarray(person.projectors[::2])
    first = np.array([np.sum((p @ state) ** 2) for p in questions])
    after = [
        sum(np.sum((p @ branch) ** 2) for branch in (other @ state, state - other @ state))
        for p, other in zip(questions, questions[::-1], strict=True)
    ]
    axes = plots.order_effect(figure.subplots(), first, np.array(after), ["red?", "left?"])
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [*first, *after])
    assert np.abs(first - after).max() > 0.05


# --- learning -----------------------------------------------------------------------------------------


def test_a_training_has_a_band_over_its_seeds(figure):
    env, params = qmind_jax.make("TrustHandover-v0")
    config = PPOConfig(
        lanes=4, minibatches=1, features=8, rollout_steps=20, epochs=1, total_steps=80 * 6, network="mlp"
    )
    returns = train(jax.random.split(KEY, 3), env, params, config).metrics["return"]
    axes = plots.learning_curve(figure.subplots(), returns, config.steps_per_update, smooth=2)
    (band,) = axes.collections
    smooth = 0.5 * (np.asarray(returns)[:, 1:] + np.asarray(returns)[:, :-1])
    mean, error = smooth.mean(axis=0), smooth.std(axis=0, ddof=1) / np.sqrt(3)
    corners = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(
        [corners.min(), corners.max()], [(mean - error).min(), (mean + error).max()], rtol=1e-4
    )


# --- mistakes -----------------------------------------------------------------------------------------


def test_a_wrong_shape_is_named_with_the_one_expected():
    np.testing.assert_array_equal(array_of("z", [[1, 2]], "people", 2), [[1, 2]])
    with pytest.raises(ValueError, match=re.escape("z must have shape (people, 2), got (2,)")):
        array_of("z", [1, 2], "people", 2)
    with pytest.raises(ValueError, match=re.escape("z must have shape (3,), got (2,)")):
        array_of("z", [1, 2], 3)


THREE, FOUR = np.zeros(3), np.zeros(4)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda a: plots.returns_over_people(a, THREE, {"x": FOUR}), "returns['x'] must have shape (3,)"),
        (lambda a: plots.returns_over_people(a, THREE, {"x": THREE}, {"x": FOUR}), "errors['x'] must"),
        (lambda a: plots.reliability_diagram(a, THREE, FOUR, THREE), "frequency must have shape (3,)"),
        (
            lambda a: plots.sweep_heat_map(a, THREE, FOUR, np.eye(3), ("", ""), ""),
            "values must have shape",
        ),
        (lambda a: plots.sweep_curves(a, THREE, {"x": (FOUR, THREE)}, "", ""), "the means of 'x' must"),
        (lambda a: plots.policy_on_disc(a, np.zeros((3, 4)), ["wait"]), "actions must have shape (size, 3)"),
        (lambda a: plots.policy_on_disc(a, np.ones((5, 5)), ["wait"]), "actions must lie in 0 .. 0, got 1"),
        (lambda a: plots.policy_on_disc(a, np.ones((5, 5)), []), "names must be of one to 4 actions"),
        (
            lambda a: plots.policy_over_time([a], np.zeros((2, 5, 5)), [0, 1], ["wait"]),
            "axes must be",
        ),
        (lambda a: plots.disc_grid(1), "size must be at least 2, got 1"),
        (lambda a: plots.posterior_over_answers(a, THREE, {90: (THREE, THREE)}, ""), "got 90"),
        (lambda a: plots.posterior_over_answers(a, THREE, {}, "", yes=THREE), "yes must have shape (2,)"),
        (
            lambda a: plots.hard_people_in_parameter_space(a, np.eye(2), [2], ("", "")),
            "hard must hold",
        ),
        (
            lambda a: plots.animate_episodes(a, np.zeros((2, 3)), np.zeros((2, 3)), THREE, ["a"]),
            "actions must",
        ),
    ],
)
def test_mistakes_are_named(draw, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        draw(Figure().subplots())
