"""The published tables come out again, here with fewer sessions than ``python -m benchmarks.published``."""

import json

import numpy as np
import pytest

from benchmarks.published import Config, Mean, Row, every_row, main
from benchmarks.published_tables import handover_tables


@pytest.fixture(scope="module")
def rows():
    return list(every_row(Config(sample=3)))


def test_every_published_number_comes_out_again(rows):
    assert len(rows) == 2 * 4 * 3 + 3 + 2 * 3
    for row in rows:
        # Some thirty numbers, of which many share their luck: one beyond 3 standard errors is no surprise.
        assert abs(row.from_published) < 4, row
        assert abs(row.from_again) < 4, row
    far = [row for row in rows if abs(row.from_published) > 2]
    # The three of one policy with one population, whose published sessions were unlucky: quantum-mind's own
    # program, run again with other luck, is as far from them.
    assert {(row.table, row.policy) for row in far} <= {
        ("Markov people", "qubit robot"),
        ("Markov people", "Markov robot"),
    }
    assert sum(abs(row.from_again) > 2 for row in rows) <= 3


def test_sessions_without_luck_agree_exactly(rows):
    certain = [row for row in rows if row.ours.error == 0.0]
    assert {row.quantity for row in certain} == {"asks", "questions"}
    assert all(row.from_published == row.from_again == 0.0 for row in certain)


def test_the_error_is_that_of_luck_alone():
    """Means over everybody met equally often do not vary with how much people differ."""
    for table in handover_tables().values():
        assert table.sessions % len(table.people) == 0
    row = Row("t", "p", "q", Mean(1.0, 0.3), Mean(2.0, 0.0), Mean(2.0, 0.4))
    assert row.from_published == pytest.approx(2.0)
    assert Row("t", "p", "q", Mean(1.0, 0.0), Mean(2.0, 0.0), Mean(2.0, 0.0)).from_published == np.inf


def test_the_tables_are_printed(capsys, monkeypatch, rows):
    monkeypatch.setattr("benchmarks.published.every_row", lambda config: iter(rows[:3]))
    main(Config(sample=2))
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["quantity"] for line in lines] == ["cost", "failures", "asks"]
    assert "39.800" in err


def test_one_session_each_tells_nothing_of_luck():
    with pytest.raises(ValueError, match="sample must be at least 2, got 1"):
        Config(sample=1)
