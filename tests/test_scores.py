"""Scores and calibration: published values, properties, bad input."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmind_jax.evaluation import (
    brier_score,
    expected_calibration_error,
    log_loss,
    maximum_calibration_error,
    reliability_curve,
    root_mean_square_error,
)

PREDICTION = st.tuples(st.floats(0, 1, width=32), st.booleans())
# Of few lengths, as each is another program.
PREDICTIONS = st.sampled_from([1, 20]).flatmap(lambda n: st.lists(PREDICTION, min_size=n, max_size=n))


def columns(predictions):
    return tuple(np.array(column) for column in zip(*predictions, strict=True))


def test_published_scores(golden, precision):
    block, multi = golden("evaluation"), golden("calibration")
    predictions = np.array(block["p"]), np.array(block["y"])
    assert log_loss(*predictions) == pytest.approx(block["log_loss"], abs=precision.tolerance)
    assert brier_score(*predictions) == pytest.approx(block["brier"], abs=precision.tolerance)
    conformal = multi["conformal"]
    score = brier_score(np.array(conformal["prob"]), np.array(conformal["labels"]))
    assert score == pytest.approx(multi["brier_multi"], abs=precision.tolerance)


def test_published_calibration(golden):
    """In double precision: these probabilities lie on the ends of bins, where rounding decides."""
    with jax.enable_x64(True):
        block, calibration = golden("evaluation"), golden("calibration")
        predictions = np.array(block["p"]), np.array(block["y"])
        assert expected_calibration_error(*predictions) == pytest.approx(block["ece10"], abs=1e-10)
        assert expected_calibration_error(*predictions, bins=5) == pytest.approx(block["ece5"], abs=1e-10)
        assert maximum_calibration_error(*predictions) == pytest.approx(calibration["mce10"], abs=1e-10)
        curve, expected = reliability_curve(*predictions, bins=5), calibration["reliability"]
        np.testing.assert_allclose(curve.confidence, expected["confidence"], atol=1e-10)
        np.testing.assert_allclose(curve.frequency, expected["accuracy"], atol=1e-10)
        np.testing.assert_array_equal(curve.count, expected["count"])


@given(PREDICTIONS)
def test_two_classes_are_yes_and_no(predictions):
    p, y = columns(predictions)
    classes = np.stack([1.0 - p, p], axis=1)
    assert log_loss(classes, y.astype(int)) == pytest.approx(float(log_loss(p, y)), abs=1e-4)
    assert brier_score(classes, y.astype(int)) == pytest.approx(2.0 * float(brier_score(p, y)), abs=1e-5)


@given(PREDICTIONS, st.sampled_from([1, 7]))
def test_calibration_errors_are_ordered_and_bounded(predictions, bins):
    p, y = columns(predictions)
    curve = reliability_curve(p, y, bins)
    assert curve.count.sum() == len(p)
    filled = np.asarray(curve.count) > 0
    assert np.array_equal(np.isnan(curve.confidence), ~filled)
    expected, largest = expected_calibration_error(p, y, bins), maximum_calibration_error(p, y, bins)
    assert 0.0 <= expected <= largest + 1e-6 <= 1.0 + 2e-6
    if bins == 1:
        assert expected == pytest.approx(abs(p.mean() - y.mean()), abs=1e-5)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_proper_scores_are_best_for_the_truth(truth, other):
    """Expected under the truth, by weighting both outcomes."""
    for score in (log_loss, brier_score):

        def expected(p, score=score):
            yes, no = (score(np.array([p]), np.array([y])) for y in (1, 0))
            return truth * yes + (1.0 - truth) * no

        assert expected(truth) <= expected(other) + 1e-5


def test_impossible_outcomes_cost_a_finite_loss():
    assert log_loss(np.array([0.0]), np.array([True])) == pytest.approx(-math.log(1e-15), rel=1e-5)
    assert log_loss(np.array([1.0, 0.0]), np.array([1, 0])) == 0.0


def test_scores_can_be_traced_mapped_and_differentiated():
    p, y = np.full((4, 3), 0.25, np.float32), np.array([[1, 0, 0]] * 4)
    losses = jax.jit(jax.vmap(log_loss))(p, y)
    np.testing.assert_allclose(losses, log_loss(p[0], y[0]), rtol=1e-6)
    gradient = jax.grad(log_loss)(jnp.array([0.5, 0.5]), np.array([1, 0]))
    np.testing.assert_allclose(gradient, [-1.0, 1.0], rtol=1e-6)
    assert jax.jit(jax.vmap(expected_calibration_error))(p, y).shape == (4,)


def test_root_mean_square_error():
    predicted, observed = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1.0, 4.0], [3.0, 0.0]])
    where = np.array([[True, True], [True, False]])
    assert root_mean_square_error(predicted, observed, where) == pytest.approx(math.sqrt(4.0 / 3.0))
    assert root_mean_square_error([0.0, 1.0], [1.0, 1.0]) == pytest.approx(math.sqrt(0.5))
    with pytest.raises(ValueError, match="predicted must be finite"):
        root_mean_square_error(predicted, observed)
    with pytest.raises(ValueError, match="one shape"):
        root_mean_square_error([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="where must be True"):
        root_mean_square_error([1.0], [1.0], [False])


@pytest.mark.parametrize(
    ("probabilities", "outcomes", "message"),
    [
        ([], [], "n at least 1"),
        ([0.5], [1, 0], r"got \(1,\) and \(2,\)"),
        ([1.5], [1], r"probabilities must lie in \[0, 1\], got 1.5"),
        ([np.nan], [1], r"probabilities must lie in \[0, 1\], got nan"),
        ([0.5], [2], "from 0 to 1, got 2"),
        ([0.5], [0.5], "from 0 to 1, got 0.5"),
        ([0.5], [-1], "from 0 to 1, got -1"),
        ([[0.5, 0.6]], [0], r"row 0 sums to 1.1"),
        ([[0.5, 0.5]], [2], "from 0 to 1, got 2"),
        ([[[0.5]]], [0], "must have shape"),
    ],
)
def test_bad_predictions_are_refused(probabilities, outcomes, message):
    for score in (log_loss, brier_score):
        with pytest.raises(ValueError, match=message):
            score(np.array(probabilities), np.array(outcomes))


def test_bad_bins_are_refused():
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        reliability_curve([0.5], [1], 0)
    with pytest.raises(ValueError, match=r"must have shape \(n,\)"):
        reliability_curve([[0.5, 0.5]], [1])
