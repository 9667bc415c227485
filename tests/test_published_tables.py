"""The published tables come out again, here with a smaller sample than ``python -m benchmarks.published``."""

import json
import math

import numpy as np
import pytest

from benchmarks.published import Config, Row, every_row, main
from benchmarks.published_tables import STUDY_PEOPLE, handover_tables
from benchmarks.sessions import OVER, Mean, Sessions, padded


@pytest.fixture(scope="module")
def rows():
    return list(every_row(Config(sample=3)))


def digits(row):
    """How many digits after the point were printed."""
    if row.table == "tutorial 7":
        return 2 if row.quantity == "questions" else 3
    return 2 if row.quantity == "failures" else 1


def test_with_their_luck_every_published_number_comes_out_to_all_its_digits(rows):
    assert len(rows) == 2 * 4 * 3 + 3 + 2 * 3
    for row in rows:
        assert row.alike == row.sessions, row
        for value in (row.program, row.their_luck):
            assert f"{value:.{digits(row)}f}" == f"{row.published.value:.{digits(row)}f}", row


def test_published_standard_errors_are_those_of_the_printed_sessions(rows):
    costs = {(row.table, row.policy): row for row in rows if row.quantity == "cost"}
    for name, table in handover_tables().items():
        for policy, error in table.cost_errors.items():
            assert f"{costs[name, policy].published.error:.1f}" == str(error)


def test_our_own_sample_agrees_within_chance(rows):
    # Some thirty numbers, of which many share their luck: two or three beyond 2 are no surprise.
    assert sum(abs(row.distance) > 2 for row in rows) <= 3
    assert all(abs(row.distance) < 4 for row in rows)


def test_sessions_without_luck_agree_exactly(rows):
    certain = [row for row in rows if row.ours.error == 0.0]
    assert {row.quantity for row in certain} == {"asks", "questions"}
    assert all(row.distance == 0.0 for row in certain)


def test_other_people_are_as_many_as_asked_for_and_none_of_the_study():
    tables, more = handover_tables(2), handover_tables(5)
    for name, field in (("qubit people", "phi0"), ("Markov people", "p0")):
        people, others, again = (
            np.asarray(getattr(each, field))
            for each in (tables[name].people, tables[name].others, more[name].people)
        )
        assert (people.shape, others.shape) == ((STUDY_PEOPLE,), (2 * STUDY_PEOPLE,))
        assert not np.isin(people, others).any()
        np.testing.assert_array_equal(people, again)


def test_distances_are_in_standard_errors_of_the_difference():
    def row(published, ours):
        return Row(
            "t", "p", "q", Mean(*published), program=0.0, their_luck=0.0, alike=1, sessions=1, ours=ours
        )

    assert row((1.0, 0.3), Mean(2.0, 0.4)).distance == pytest.approx(2.0)
    assert row((1.0, 0.0), Mean(2.0, 0.0)).distance == math.inf
    assert row((1.0, 0.0), Mean(1.004, 0.0)).distance == 0.0


def test_the_error_of_a_mean_is_that_of_sessions_of_one_kind():
    """Kinds met equally often by design add no luck, however much they differ."""
    values = np.array([0.0, 10.0, 2.0, 12.0, 4.0, 14.0])
    assert Mean.over(values) == pytest.approx((7.0, values.std(ddof=1) / math.sqrt(6)))
    assert Mean.over(values, kinds=2) == pytest.approx((7.0, math.sqrt(16.0 / 4 / 6)))


@pytest.mark.parametrize(
    ("changed", "alike"),
    [
        ({}, 2),
        ({"actions": [[0, 1, OVER], [1, 2, OVER]]}, 1),
        ({"actions": [[0], [1]]}, 1),
        ({"quantities": {"cost": np.array([1.0, 2.001])}}, 1),
    ],
)
def test_sessions_are_alike_in_actions_and_quantities(changed, alike):
    session = {"actions": [[0, 1], [1]], "quantities": {"cost": np.array([1.0, 2.0])}}
    one, other = (
        Sessions(padded(each["actions"]), each["quantities"]) for each in (session, session | changed)
    )
    assert one.alike(other) == other.alike(one) == alike


def test_the_tables_are_printed(capsys, monkeypatch, rows):
    monkeypatch.setattr("benchmarks.published.every_row", lambda config: iter(rows[:3]))
    main(Config(sample=2))
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["quantity"] for line in lines] == ["cost", "failures", "asks"]
    assert "39.800" in err
    assert "3 numbers" in err


def test_no_sample_is_refused():
    with pytest.raises(ValueError, match="sample must be at least 1, got 0"):
        Config(sample=0)
