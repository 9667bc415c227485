"""Learning curves: what is drawn, where, and that gaps do no harm."""

import io
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from qmind_jax.plots import (
    BLUE,
    errors_by_rating,
    learning_curve,
    order_predictions,
    people_in_parameter_space,
    predictions_against_ratings,
)


@pytest.fixture
def axes():
    return Figure().subplots()


def test_every_seed_is_thin_and_their_mean_is_bold(axes):
    # Windows of two: updates 1-2, 2-3, 3-4; 100 steps per update.
    returns = np.array([[0.0, 2.0, 4.0, 8.0], [2.0, 4.0, 6.0, 6.0]])
    assert learning_curve(axes, returns, 100, smooth=2) is axes
    first, second, mean = axes.lines
    np.testing.assert_array_equal(first.get_ydata(), [1.0, 3.0, 6.0])
    np.testing.assert_array_equal(second.get_ydata(), [3.0, 5.0, 6.0])
    np.testing.assert_array_equal(mean.get_ydata(), [2.0, 4.0, 6.0])
    for line in axes.lines:
        np.testing.assert_array_equal(line.get_xdata(), [200, 300, 400])
        assert line.get_color() == BLUE
    assert first.get_linewidth() < mean.get_linewidth()
    assert first.get_alpha() < 0.5
    assert mean.get_alpha() is None
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["PPO, 2 seeds, mean ± s.e."]
    assert "steps" in axes.get_xlabel()
    assert "return" in axes.get_ylabel()


def test_one_seed_may_come_without_an_axis_of_seeds(axes):
    learning_curve(axes, np.arange(5.0), 10, smooth=1)
    seed, mean = axes.lines
    np.testing.assert_array_equal(seed.get_ydata(), mean.get_ydata())
    np.testing.assert_array_equal(seed.get_xdata(), [10, 20, 30, 40, 50])


def test_a_training_shorter_than_the_window_is_one_point(axes):
    learning_curve(axes, np.array([1.0, 2.0, 6.0]), 10)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [3.0])
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [30])


def test_updates_in_which_no_episode_ended_are_left_out_of_the_average(axes):
    returns = np.array([np.nan, 1.0, np.nan, np.nan, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learning_curve(axes, returns, 10, smooth=2)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.0, 1.0, np.nan, 3.0])
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [1.0, 1.0, np.nan, 3.0])


@pytest.mark.parametrize("references", [None, {"rule": -1.0}])
def test_a_training_in_which_no_episode_ended_is_an_empty_picture(axes, references):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learning_curve(axes, np.full((2, 4), np.nan), 10, references)
    assert np.isfinite(axes.get_ylim()).all()


def test_references_are_dashed_lines_named_with_their_value_in_colours_of_their_own(axes):
    references = {"always wait": -6.0, "published trust rule": -29.155, "optimum": -3.337}
    learning_curve(axes, np.linspace(-40.0, -4.0, 30), 10, references)
    lines = axes.lines[2:]
    assert [line.get_ydata()[0] for line in lines] == [-6.0, -29.155, -3.337]
    assert all(line.get_linestyle() == "--" for line in lines)
    assert len({to_hex(line.get_color()) for line in [*lines, axes.lines[0]]}) == 4
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1:] == ["always wait (-6.00)", "published trust rule (-29.16)", "optimum (-3.34)"] or (
        labels[1:] == ["always wait (-6.00)", "published trust rule (-29.15)", "optimum (-3.34)"]
    )


def test_what_matters_is_in_view_and_a_terrible_start_is_not(axes):
    returns = np.concatenate([np.full(4, -1000.0), np.linspace(-20.0, -3.0, 96)])
    learning_curve(axes, returns, 10, {"rule": -29.0, "optimum": -1.0}, smooth=1)
    low, high = axes.get_ylim()
    assert -40.0 < low < -29.0
    assert -1.0 < high < 5.0


def test_a_flat_curve_has_a_picture_of_finite_height(axes):
    learning_curve(axes, np.full(20, -6.0), 10)
    low, high = axes.get_ylim()
    assert low < -6.0 < high


def test_the_picture_can_be_written_as_a_png():
    with mpl.rc_context():
        figure = Figure(figsize=(4, 3), layout="constrained")
        learning_curve(figure.subplots(), np.random.default_rng(0).normal(size=(3, 50)), 10, {"rule": 0.5})
        file = io.BytesIO()
        figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG\r\n\x1a\n")
    assert len(file.getvalue()) > 5000


# --- fits -----------------------------------------------------------------------------------------


def test_errors_have_one_colour_per_model_and_one_style_per_knowledge(axes):
    shared = {"beta": np.array([0.1, 0.2]), "first rating": np.array([0.3, 0.4])}
    personal = {"beta": np.array([0.1, 0.05]), "last rating": np.array([0.2, 0.1])}
    assert errors_by_rating(axes, shared, personal) is axes
    beta, first, beta_personal, last = axes.lines[:4]
    np.testing.assert_array_equal(beta.get_xdata(), [1, 2])
    np.testing.assert_array_equal(beta_personal.get_ydata(), [0.1, 0.05])
    assert (beta.get_linestyle(), beta_personal.get_linestyle()) == ("--", "-")
    assert beta.get_color() == beta_personal.get_color()
    assert len({line.get_color() for line in (beta, first, last)}) == 3
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["beta", "first rating", "last rating", "first rating known", "ratings so far known"]
    assert axes.get_ylim()[0] == 0.0


def test_every_rating_is_at_its_prediction(axes):
    predictions_against_ratings(axes, np.array([[0.1, 0.2]]), np.array([[0.3, 0.9]]))
    np.testing.assert_allclose(axes.collections[0].get_offsets(), [[0.1, 0.3], [0.2, 0.9]])
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), axes.lines[0].get_ydata())


def test_all_participants_and_nearly_all_drawn_people_are_in_view(axes):
    population = np.stack([np.linspace(0.0, 1.0, 1000)] * 2, axis=-1)
    population[-1] = 100.0
    people_in_parameter_space(axes, population, np.array([[0.5, 1.5]]), ("up", "down"))
    assert 0.98 < axes.get_xlim()[1] < 1.1
    assert 1.5 < axes.get_ylim()[1] < 1.6
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("up", "down")


@pytest.mark.parametrize("errors", [None, np.full(4, 0.05)])
def test_pairs_of_answers_are_bars_and_models_are_marks(axes, errors):
    observed = np.array([0.5, 0.1, 0.1, 0.3])
    order_predictions(axes, observed, {"one": observed, "other": observed[::-1]}, errors)
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], observed)
    marks = [line for line in axes.lines if line.get_label() in ("one", "other")]
    np.testing.assert_array_equal(marks[1].get_ydata(), observed[::-1])
    assert marks[0].get_marker() != marks[1].get_marker()
