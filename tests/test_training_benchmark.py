"""The training benchmark: every way there is gives a row, and agents learn in all of them."""

import contextlib
import io
import json

import numpy as np
import pytest

from benchmarks import training
from benchmarks.learning_curves import WINDOW, LearningCurve
from benchmarks.training import FEW_LANES, LIBRARIES, OURS, PLAIN, REJAX, SB3, Config, missing_libraries


@pytest.fixture(scope="module")
def printed():
    """Rows of one smoke test, by network and way."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        training.main(Config(quick=True, env_ids=("TrustHandover-v0",)))
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    return {(row["network"], row["way"]): row for row in rows}


def test_every_way_there_is_has_a_row(printed):
    there = {way for way in (REJAX, SB3) if not missing_libraries(way)}
    expected = {("mlp", way) for way in {OURS, PLAIN} | there}
    expected |= {("gru", way) for way in (OURS, PLAIN, FEW_LANES)}
    assert printed.keys() == expected
    for row in printed.values():
        median, least, most = row["steps_per_second"]
        assert 0 < least <= median <= most
        assert (row["compile_seconds"] > 0.0) == (row["way"] != SB3)
        assert row["random_return"] < row["level"] < row["optimal_return"]
        assert 0 <= row["runs_at_level"] <= row["runs"]
        assert (row["seconds_to_level"] is None) == (2 * row["runs_at_level"] <= row["runs"])


def test_agents_learn_in_every_compiled_way(printed):
    for (_, way), row in printed.items():
        # With the small steps of four lanes a smoke test is too short to learn.
        if way not in (SB3, FEW_LANES):
            assert row["final_return"] > row["random_return"] + 10.0, row


def test_a_way_whose_library_is_missing_is_skipped_with_a_message(monkeypatch, capsys):
    monkeypatch.setitem(LIBRARIES, REJAX, ("no_such_library",))
    monkeypatch.setattr(training, "measured", lambda case, network, ways, config: [])
    training.main(Config(quick=True, env_ids=("TrustHandover-v0",), ways=(REJAX,)))
    out, err = capsys.readouterr()
    assert not out
    assert "rejax skipped: no_such_library not installed (pip install '.[benchmark]')" in err


def test_the_running_mean_is_over_as_few_updates_as_hold_enough_episodes():
    episodes = np.full(6, WINDOW / 2)
    curve = LearningCurve.of(episodes * [-4.0, -2.0, 0.0, 2.0, 2.0, 0.0], episodes)
    np.testing.assert_allclose(curve.running_mean, [-4.0, -3.0, -1.0, 1.0, 2.0, 1.0])
    assert curve.updates_to(-1.0) == 3
    assert curve.updates_to(2.5) is None


def test_nothing_has_finished_nothing_is_known():
    curve = LearningCurve.of([0.0, -3.0], [0, 1])
    np.testing.assert_array_equal(curve.running_mean, [np.nan, -3.0])
    assert curve.updates_to(-4.0) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("env_ids", ("CartPole-v1",)),
        ("networks", ("lstm",)),
        ("ways", ("sb3",)),
        ("repeats", 0),
        ("sb3_steps", 0),
    ],
)
def test_options_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        Config(**{name: value})
