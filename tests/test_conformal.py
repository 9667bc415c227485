"""Conformal sets: published values, coverage, and a bound that no sequence of answers breaks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmind_jax.evaluation import AdaptiveConformal, conformal_sets, conformal_threshold


def test_published_split_sets(golden, precision):
    block = golden("calibration")["conformal"]
    probabilities, labels = np.array(block["prob"]), np.array(block["labels"])
    threshold = conformal_threshold(probabilities, labels, alpha=0.3)
    assert threshold == pytest.approx(block["qhat"], abs=precision.tolerance)
    np.testing.assert_array_equal(conformal_sets(probabilities, threshold), block["sets"])


def test_published_adaptive_sets(golden, precision):
    block = golden("calibration")["adaptive"]
    state = AdaptiveConformal.start(alpha=0.2, rate=0.05, calibration_scores=[0.3, 0.5, 0.6, 0.7])
    for row in block["trace"]:
        assert state.threshold == pytest.approx(row["threshold"], abs=precision.tolerance)
        state, members = state.step(np.array(row["prob"]), row["answer"])
        np.testing.assert_array_equal(members, row["set"])
        assert state.level == pytest.approx(row["alpha_t"], abs=precision.tolerance)
    assert state.miscoverage == pytest.approx(block["miscoverage"], abs=1e-6)
    assert state.bound == pytest.approx(block["bound"], abs=1e-5)


def random_predictions(key, shape, classes=3):
    """Predictions that are wrong about their own sharpness, and what happens."""
    prediction_key, answer_key = jax.random.split(key)
    logits = 2.0 * jax.random.normal(prediction_key, (*shape, classes))
    return jax.nn.softmax(2.5 * logits), jax.random.categorical(answer_key, logits)


def test_split_sets_cover_as_often_as_promised():
    def covered(key):
        calibration_key, test_key = jax.random.split(key)
        threshold = conformal_threshold(*random_predictions(calibration_key, (50,)), alpha=0.2)
        probabilities, labels = random_predictions(test_key, (50,))
        return jnp.take_along_axis(conformal_sets(probabilities, threshold), labels[:, None], axis=1).mean()

    rate = jax.vmap(covered)(jax.random.split(jax.random.key(0), 400)).mean()
    assert 0.8 - 0.01 < rate < 0.8 + 1 / 51 + 0.01


def test_too_few_to_promise_anything_lets_in_everything():
    assert conformal_threshold([[0.9, 0.1]], [0], alpha=0.1) == 1.0
    assert conformal_sets([0.0, 1.0], 1.0).all()


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=40, max_size=40),
    st.floats(0.05, 0.95),
    st.floats(0.01, 1.0),
    st.sampled_from([1, 5]),
)
def test_no_sequence_of_answers_breaks_the_bound(steps, alpha, rate, window):
    first = np.array([p for p, _ in steps], np.float32)
    probabilities, answers = np.stack([first, 1.0 - first], 1), np.array([int(a) for _, a in steps])
    state = AdaptiveConformal.start(alpha, rate, window=window)
    state, sets = jax.lax.scan(lambda s, step: s.step(*step), state, (probabilities, answers))
    missed = ~np.asarray(sets)[np.arange(len(steps)), answers]
    assert state.missed == missed.sum() and state.answers == len(steps)
    assert abs(float(state.miscoverage) - alpha) <= float(state.bound) + 1e-4


def test_adaptive_sets_follow_people_who_change():
    """After an upheaval fixed sets miss too often; adaptive ones recover, for many people at once."""
    calm = random_predictions(jax.random.key(1), (20, 500))
    wild = random_predictions(jax.random.key(2), (20, 1000))
    wild = wild[0], jax.random.randint(jax.random.key(3), wild[1].shape, 0, 3)
    probabilities, answers = (jnp.concatenate(pair, axis=1) for pair in zip(calm, wild, strict=True))

    def one_person(probabilities, answers):
        start = AdaptiveConformal.start(alpha=0.2, rate=0.05, window=200)
        _, sets = jax.lax.scan(lambda s, step: s.step(*step), start, (probabilities, answers))
        return jnp.take_along_axis(sets, answers[:, None], axis=1)[:, 0]

    covered = jax.jit(jax.vmap(one_person))(probabilities, answers)
    assert covered[:, 100:500].mean() == pytest.approx(0.8, abs=0.02)
    assert covered[:, 600:].mean() == pytest.approx(0.8, abs=0.02)
    threshold = conformal_threshold(calm[0][0], calm[1][0], alpha=0.2)
    fixed = jnp.take_along_axis(conformal_sets(wild[0], threshold), wild[1][..., None], axis=-1)
    assert fixed.mean() < 0.7


def test_bad_input_is_refused():
    for alpha in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\)"):
            conformal_threshold([[0.5, 0.5]], [0], alpha)
    with pytest.raises(ValueError, match=r"must have shape \(n, classes\)"):
        conformal_threshold([0.5], [0])
    with pytest.raises(ValueError, match="rate must be positive"):
        AdaptiveConformal.start(rate=0.0)
    with pytest.raises(ValueError, match=r"calibration_scores must be numbers in \[0, 1\]"):
        AdaptiveConformal.start(calibration_scores=[0.5, np.nan])
    with pytest.raises(ValueError, match="hold all 2 calibration_scores, got 1"):
        AdaptiveConformal.start(calibration_scores=[0.5, 0.1], window=1)
    state = AdaptiveConformal.start()
    with pytest.raises(ValueError, match="must have shape"):
        state.step([[0.5, 0.5]], 0)
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        state.step([0.5, 0.5], 2)
