"""The cross-family matrix: one command, every cell filled, controls where order must not matter."""

import json

import jax
import numpy as np
import pytest

from benchmarks.cross_family import FAMILIES, TRACELESS, Config, family_of, main
from qmind_jax.people import BetaTrust, TrustQubit
from qmind_jax.people.trust_answers import question_effect


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_command_prints_the_matrix_and_the_controls(capsys):
    main(Config(quick=True))
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    cells, controls = ([row for row in rows if ("task" in row) == wanted] for wanted in (False, True))
    policies = {"agent", "rule", "inferring planner"}
    assert {(cell["policy"], cell["believes"], cell["judged_on"]) for cell in cells} == {
        (policy, believes, judged_on)
        for policy in policies
        for believes in FAMILIES
        for judged_on in FAMILIES
    }
    assert len(cells) == 3 * 4 * 4
    for cell in cells:
        at_home = cell["believes"] == cell["judged_on"]
        assert (cell["p_holm"] is None) == at_home
        assert (cell["difference"] == 0.0) or not at_home
        assert np.isfinite([cell["mean"], cell["standard_error"], cell["regret"], cell["worst_tenth"]]).all()
    mean = {(cell["policy"], cell["believes"], cell["judged_on"]): cell["mean"] for cell in cells}
    # Whoever believes in the wrong law pays for it.
    assert mean["inferring planner", "Markov", "Markov"] > mean["inferring planner", "qubit", "Markov"] + 2.0
    assert {control["task"] for control in controls} == {"questions that commute", "trust without a trace"}
    assert all(control["p_value"] > 0.05 for control in controls), "knowing about order must not win"
    assert "regret against the best policy" in err


def test_the_families_are_what_they_are_called():
    people = {family: family_of(family, jax.random.key(0), 5) for family in FAMILIES}
    assert len(people["Beta"].only(BetaTrust)) == 5
    qubits, traceless = (people[family].only(TrustQubit) for family in ("qubit", TRACELESS))
    np.testing.assert_array_equal(qubits.phi0, traceless.phi0)
    events = (1, 1, 0, 1, 0, 1)
    assert float(np.abs(question_effect(qubits, events, 5, 2)).max()) > 0.01
    np.testing.assert_allclose(question_effect(traceless, events, 5, 2), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"), [("people", 1), ("episodes", 3), ("agents", 0), ("training_steps", 10)]
)
def test_options_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match="total_steps" if name == "training_steps" else name):
        Config(**{name: value})
