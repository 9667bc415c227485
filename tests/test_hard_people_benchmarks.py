"""The tables about hard and unknown people: one command each, every cell filled, bounds in order."""

import json

import numpy as np
import pytest

from benchmarks import hard_people, unknown_person


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_command_prints_who_is_hard_and_what_training_for_them_does(capsys):
    hard_people.main(hard_people.Config(quick=True))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    searches = [(row["measure"], row["search"]) for row in rows[:5]]
    assert searches == [
        *((measure, search) for measure in ("regret", "return") for search in ("evolution", "random")),
        (None, "everybody"),
    ]
    for evolution, random, sign in ((*rows[:2], 1.0), (*rows[2:4], -1.0)):
        name = "regret" if sign > 0.0 else "mean_return"
        margin = sign * (evolution[name][0] - random[name][0])
        np.testing.assert_allclose(evolution["margin"][0], margin, atol=1e-5)
    assert len(rows) == 5 + 2 * 3
    assert all(np.isfinite(row["worst_tenth"]).all() for row in rows[5:])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_command_prints_what_can_be_earned_with_somebody_unknown(capsys):
    unknown_person.main(unknown_person.Config(quick=True))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2 * 5
    for single, agent, planner, best, told in (rows[:5], rows[5:]):
        assert single["value"] <= best["value"] < told["value"]
        # The agent has hardly been trained, and nobody beats the optimum but by luck.
        assert agent["value"] < best["value"] + 4.0 * agent["standard_error"] + 0.05
        assert single["value"] - 0.05 < planner["value"] < best["value"] + 4.0 * planner["standard_error"]


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (hard_people.Config, "people", 9),
        (hard_people.Config, "candidates", 4),
        (hard_people.Config, "seeds", 1),
        (hard_people.Config, "searches", 1),
        (unknown_person.Config, "agents", 1),
        (unknown_person.Config, "questions", 1),
    ],
)
def test_options_that_make_no_sense_are_refused(config, name, value):
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        config(**{name: value})
