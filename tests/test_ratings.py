"""Trust ratings: reading files, fitting families, populations. All ratings here are made by the tests."""

import csv
import math
import os
import pathlib
import random
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit
from qmind_jax.people.ratings.fit import (
    fit_trust_family,
    held_out_errors,
    predict_trust,
    trust_population,
)
from qmind_jax.people.ratings.least_squares_preset import FIRST_RATING_BETA, TRUST_PARAMETERS
from qmind_jax.people.ratings.trials import COLUMNS, RatingsError, load_trust_trials
from qmind_jax.people.trust import p_trust

REAL_FILE = "QMIND_JAX_TRUST_RATINGS"
TRUE = {
    "qubit": {"a_pos": 0.25, "a_neg": 0.4, "gamma": 0.2},
    "markov": {"up": 0.15, "down": 0.3},
    "beta": {"n0": 1.0, "w_s": 0.3, "w_f": 0.5},
}
CLASSES = {"qubit": TrustQubit, "markov": MarkovTrust, "beta": BetaTrust}
FAMILIES = tuple(CLASSES)


def course(family, first, outcomes, p):
    """Trust after each outcome, from the formulas of the families and not from their classes."""
    trusts, trust = [], first
    length, angle = 1.0, 2.0 * math.acos(math.sqrt(first))
    n = p.get("n0")
    for success in outcomes:
        if family == "qubit":
            angle += -p["a_pos"] if success else p["a_neg"]
            z, x = length * math.cos(angle), length * math.sin(angle) * (1.0 - p["gamma"])
            length, angle = math.hypot(z, x), math.atan2(x, z)
            trust = (1.0 + z) / 2.0
        elif family == "markov":
            trust = trust + p["up"] * (1.0 - trust) if success else trust - p["down"] * trust
        else:
            weight = p["w_s"] if success else p["w_f"]
            trust = (trust * n + weight * success) / (n + weight)
            n += weight
        trusts.append(trust)
    return trusts


def simulated_rows(family, participants=20, trials=10, noise=0.0, seed=3, **parameters):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(participants):
        outcomes = rng.integers(0, 2, trials)
        first = rng.uniform(0.05, 0.95)
        after = np.array(course(family, first, outcomes, TRUE[family] | parameters))
        after = np.clip(after + noise * rng.normal(size=trials), 0.0, 1.0)
        before = [first, *after[:-1]]
        rows += [[i, k, outcomes[k], before[k], after[k]] for k in range(trials)]
    return rows


def write(path, rows, columns=COLUMNS):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.fixture
def simulated(tmp_path):
    def make(family, **kwargs):
        return load_trust_trials(write(tmp_path / f"{family}.csv", simulated_rows(family, **kwargs)))

    return make


# --- reading --------------------------------------------------------------------------------------


def test_reads_ragged_trials_of_any_labels(tmp_path):
    path = write(
        tmp_path / "ratings.csv",
        [
            ["zoe", 5, 1, 0.5, 0.625],
            ["ann", 0, 0, 0.25, 0.125],
            ["zoe", 7, 0, 0.75, 0.5],
            ["zoe", 6, 1, 0.5, 0.875],  # rates anew before the next trial: .75 after .875
        ],
    )
    trials = load_trust_trials(path)
    assert trials.participants == ("ann", "zoe")
    assert trials.num_participants == 2
    assert trials.num_ratings == 4
    np.testing.assert_array_equal(trials.observed, [[True, False, False], [True, True, True]])
    np.testing.assert_array_equal(trials.robot_correct, [[False, False, False], [True, True, False]])
    np.testing.assert_array_equal(trials.trust_before, [[0.25, 0, 0], [0.5, 0.5, 0.75]])
    np.testing.assert_array_equal(trials.trust_after, [[0.125, 0, 0], [0.625, 0.875, 0.5]])
    np.testing.assert_array_equal(trials.first_ratings, [0.25, 0.5])
    assert trials.robot_correct.dtype == bool
    assert trials.observed.dtype == bool
    zoe = trials.select(slice(1, None))
    assert zoe.participants == ("zoe",)
    assert zoe.num_ratings == 3


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["10", "2", "1"], ("1", "2", "10")),
        (["10", "2", "b"], ("10", "2", "b")),
    ],
)
def test_sorts_whole_numbers_by_value_and_other_labels_as_text(tmp_path, labels, order):
    path = write(tmp_path / "ratings.csv", [[label, 0, 1, 0.5, 0.5] for label in labels])
    assert load_trust_trials(path).participants == order


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_and_columns_and_further_columns_do_not_matter(seed):
    rng = random.Random(seed)
    rows = [[f"p{i}", k + i, (i + k) % 2, k / 8, i / 8] for i in range(3) for k in range(2 + i)]
    columns = [*COLUMNS, "note"]
    order = rng.sample(range(6), 6)
    shuffled = [[[*row, "x, y"][j] for j in order] for row in rng.sample(rows, len(rows))]
    with tempfile.TemporaryDirectory() as folder:
        expected = load_trust_trials(write(pathlib.Path(folder) / "a.csv", rows))
        found = load_trust_trials(
            write(pathlib.Path(folder) / "b.csv", shuffled, [columns[j] for j in order])
        )
    assert found.participants == expected.participants
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_byte_order_mark_blank_lines_and_line_ends_do_not_matter(tmp_path):
    lines = [",".join(COLUMNS), "a,0,1,0.5,0.75", "", "  ", "a, 1.0 ,0.0,0.75,0.25"]
    path = tmp_path / "ratings.csv"
    for mark in (b"", b"\xef\xbb\xbf"):
        for end in ("\n", "\r\n", "\r"):
            path.write_bytes(mark + end.join(lines).encode())
            trials = load_trust_trials(path)
            np.testing.assert_array_equal(trials.trust_after, [[0.75, 0.25]])
            np.testing.assert_array_equal(trials.robot_correct, [[True, False]])


GOOD = ["participant,trial,robot_correct,trust_before,trust_after", "ann,0,1,0.5,0.6", "ann,1,0,0.6,0.5"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["participant,trial,trust_after,robot_correct", "ann,0,0.5,1"],
            ["row 1", "missing column 'trust_before'", "['participant', 'trial', 'trust_after', 'robot_corr"],
        ),
        ([GOOD[0].replace(",", ";"), "ann;0;1;0.5;0.6"], ["row 1", "missing column 'participant'", "commas"]),
        ([GOOD[0] + ",trial", "ann,0,1,0.5,0.6,0"], ["row 1", "'trial' occurs 2 times"]),
        ([*GOOD, "ann,2,1,high,0.5"], ["row 4", "'trust_before'", "'high' is not a number", "[0, 1]"]),
        ([*GOOD, "ann,2,1,0.5,0_1"], ["row 4", "'trust_after'", "'0_1' is not a number", "[0, 1]"]),
        ([*GOOD, "ann,2,1,1.01,0.5"], ["row 4", "'trust_before'", "got 1.01", "[0, 1]"]),
        ([*GOOD, "ann,2,1,0.5,-0.01"], ["row 4", "'trust_after'", "got -0.01", "[0, 1]"]),
        ([*GOOD, "ann,2,1,0.5,inf"], ["row 4", "'trust_after'", "got inf", "[0, 1]"]),
        ([*GOOD, "ann,2,1,0.5,nan"], ["row 4", "'trust_after'", "got nan", "[0, 1]"]),
        ([*GOOD, "ann,2,1,,0.5"], ["row 4", "'trust_before'", "empty", "[0, 1]"]),
        ([*GOOD, "ann,2, ,0.5,0.5"], ["row 4", "'robot_correct'", "empty", "0 or 1"]),
        ([*GOOD, " ,2,1,0.5,0.5"], ["row 4", "'participant'", "empty", "label"]),
        ([*GOOD, "ann,2,0.5,0.5,0.5"], ["row 4", "'robot_correct'", "got 0.5", "0 or 1"]),
        ([*GOOD, "ann,2,True,0.5,0.5"], ["row 4", "'robot_correct'", "'True'", "0 or 1"]),
        ([*GOOD, "ann,2.5,1,0.5,0.5"], ["row 4", "'trial'", "got 2.5", "an integer"]),
        ([*GOOD, "ann,inf,1,0.5,0.5"], ["row 4", "'trial'", "got inf", "an integer"]),
        ([*GOOD, "ann,two,1,0.5,0.5"], ["row 4", "'trial'", "'two'", "an integer"]),
        ([*GOOD, "ann,2,1,0,5,0.5"], ["row 4", "6 cells", "expected 5"]),
        ([*GOOD, "ann,2,1"], ["row 4", "'trust_before'", "3 cells", "expected 5"]),
        ([*GOOD, "ann,1,1,0.5,0.5"], ["row 4", "'trial'", "participant 'ann' already has trial 1 in row 3"]),
        ([*GOOD, "ann,4,1,0.5,0.5"], ["row 4", "'trial'", "'ann' has trial 4 but no trial 2"]),
        ([*GOOD, 'ann,2,1,0.5,"0.5'], ["row 4", "unexpected end of data"]),
        # blank lines and cells of several lines count as in an editor
        ([GOOD[0], "", *GOOD[1:], "ann,2,1,0.5,2"], ["row 5", "'trust_after'", "got 2"]),
        ([GOOD[0], '"b\nc",0,1,0.5,0.5', '"d\ne",0,1,0.5,3'], ["row 4", "'trust_after'", "got 3"]),
        (GOOD[:1], ["no rows of data"]),
        ([], ["empty", "participant, trial, robot_correct, trust_before, trust_after"]),
        ([" ", ""], ["empty"]),
    ],
)
def test_errors_say_where_and_what_was_expected(tmp_path, lines, expected):
    path = tmp_path / "my ratings.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(RatingsError) as error:
        load_trust_trials(path)
    for part in [str(path), *expected]:
        assert part in str(error.value)
    assert isinstance(error.value, ValueError)


def test_other_encodings_are_an_error_with_the_row(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes("\n".join([*GOOD, "jürgen,0,1,0.5,0.5"]).encode("latin-1"))
    with pytest.raises(RatingsError, match=r"ratings\.csv, row 4: byte 0xfc is not UTF-8"):
        load_trust_trials(path)


def test_a_missing_file_is_named_with_the_columns_it_should_have(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv.*participant, trial, robot_correct"):
        load_trust_trials(tmp_path / "nowhere.csv")


# --- fitting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_follow_the_formulas_of_the_family(simulated, family):
    trials = simulated(family, participants=4)
    first = trials.first_ratings
    initial = {"phi0": jnp.arccos(2.0 * first - 1.0)} if family == "qubit" else {"p0": first}
    shared = {name: jnp.full(4, value) for name, value in TRUE[family].items()}
    people = CLASSES[family](**initial, **shared)
    predicted = predict_trust(people, trials.robot_correct)
    np.testing.assert_allclose(predicted, trials.trust_after, atol=2e-6)
    with pytest.raises(ValueError, match=r"shape \(people, trials\).*\(3, 10\)"):
        predict_trust(people, trials.robot_correct[:3])


def test_predictions_are_differentiable_in_the_people():
    people = MarkovTrust([0.5, 0.2], [0.3, 0.3], [0.4, 0.4])
    outcomes = jnp.array([[True, False], [True, True]])
    gradient = jax.grad(lambda people: predict_trust(people, outcomes)[:, -1].sum())(people)
    # d/d up of (p + up (1 - p)) (1 - down), and of 1 - (1 - p) (1 - up)^2
    np.testing.assert_allclose(gradient.up, [0.5 * 0.6, 2 * 0.8 * 0.7], rtol=1e-5)
    np.testing.assert_allclose(gradient.p0, [0.7 * 0.6, 0.7**2], rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_fit_recovers_the_parameters(simulated, family):
    exact = fit_trust_family(simulated(family), family)
    assert exact.family == family
    assert exact.num_ratings == 200
    assert exact.parameters.keys() == TRUE[family].keys()
    assert exact.rmse < 1e-3
    np.testing.assert_allclose([*exact.parameters.values()], [*TRUE[family].values()], rtol=0.01)

    noisy = fit_trust_family(simulated(family, noise=0.05), family)
    # Noise of .05 that is clipped at the ends of the scale
    assert 0.04 < noisy.rmse < 0.055
    np.testing.assert_allclose([*noisy.parameters.values()], [*TRUE[family].values()], rtol=0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fit_does_not_depend_on_the_starts(simulated, family):
    trials = simulated(family, noise=0.05)
    one, other = (fit_trust_family(trials, family, jax.random.key(seed)) for seed in (1, 2))
    assert fit_trust_family(trials, family, jax.random.key(1)) == one
    np.testing.assert_allclose([*one.parameters.values()], [*other.parameters.values()], rtol=1e-3)


def test_the_best_of_the_starts_is_kept(simulated):
    # Large rotations have many local optima, in which some starts end.
    large = {"a_pos": 2.2, "a_neg": 1.4, "gamma": 0.05}
    fit = fit_trust_family(simulated("qubit", **large), "qubit")
    assert fit.parameters == pytest.approx(large, rel=0.01)
    assert fit.rmse < 1e-3


def test_padding_does_not_influence_the_fit(tmp_path):
    rows = [row for row in simulated_rows("markov") if row[1] < 10 - row[0] % 7]
    trials = load_trust_trials(write(tmp_path / "ragged.csv", rows))
    assert trials.num_ratings == len(rows) < 200
    fit = fit_trust_family(trials, "markov")
    assert fit.num_ratings == len(rows)
    np.testing.assert_allclose([*fit.parameters.values()], [0.15, 0.3], rtol=0.01)
    filled = trials.replace(
        robot_correct=jnp.where(trials.observed, trials.robot_correct, True),
        trust_after=jnp.where(trials.observed, trials.trust_after, 0.7),
    )
    assert fit_trust_family(filled, "markov") == fit


def test_fit_in_double_precision(tmp_path):
    with jax.enable_x64(True):
        trials = load_trust_trials(write(tmp_path / "ratings.csv", simulated_rows("markov")))
        assert trials.trust_after.dtype == jnp.float64
        fit = fit_trust_family(trials, "markov")
    np.testing.assert_allclose([*fit.parameters.values()], [0.15, 0.3], rtol=1e-7)
    assert fit.rmse < 1e-7


def test_what_cannot_be_fitted_is_an_error(simulated):
    trials = simulated("markov")
    with pytest.raises(ValueError, match=r"unknown family 'quark'\. .*Known: beta, markov, qubit"):
        fit_trust_family(trials, "quark")
    for outcome, name in ((True, "successes"), (False, "failures")):
        one_sided = trials.replace(robot_correct=jnp.full((20, 10), outcome))
        with pytest.raises(ValueError, match=f"got only {name}"):
            fit_trust_family(one_sided, "markov")
    with pytest.raises(ValueError, match="gamma"):
        fit_trust_family(simulated("qubit", trials=1), "qubit")
    with pytest.raises(ValueError, match="at least two participants to leave some out, got 1"):
        held_out_errors(trials.select(slice(0, 1)))


def test_held_out_errors_are_of_the_participants_left_out(simulated):
    trials = simulated("markov", participants=40, noise=0.02)
    errors = held_out_errors(trials)
    assert list(errors) == ["beta", "markov", "qubit", "persistence"]
    # The family that made the ratings predicts them up to the noise.
    assert errors["markov"] == pytest.approx(0.02, abs=0.003)
    assert errors["markov"] < min(errors["beta"], errors["qubit"]) < errors["persistence"]
    first, after = np.asarray(trials.first_ratings)[1::2], np.asarray(trials.trust_after)[1::2]
    assert errors["persistence"] == pytest.approx(np.sqrt(np.mean((after - first[:, None]) ** 2)), rel=1e-5)

    odd = jnp.arange(40)[:, None] % 2 == 1
    changed = held_out_errors(trials.replace(trust_after=jnp.where(odd, 0.0, trials.trust_after)))
    # Other ratings of those left out change the errors, but not the people that predict them.
    fit = fit_trust_family(trials.select(slice(0, None, 2)), "markov")
    predicted = predict_trust(fit.people(first), trials.robot_correct[1::2])
    assert changed["markov"] == pytest.approx(float(jnp.sqrt(jnp.mean(predicted**2))), rel=1e-4)


@pytest.mark.skipif(
    REAL_FILE not in os.environ,
    reason=f"the ratings are not part of this project; {REAL_FILE} must name the file to check against them",
)
def test_real_ratings_give_the_published_errors_and_the_preset():
    trials = load_trust_trials(os.environ[REAL_FILE])
    errors = held_out_errors(trials)
    published = {"beta": 0.0937, "markov": 0.0957, "qubit": 0.1130, "persistence": 0.1800}
    assert errors == pytest.approx(published, abs=1e-3)
    for family in FAMILIES:
        assert fit_trust_family(trials, family).parameters == pytest.approx(
            dict(TRUST_PARAMETERS[family]), abs=1e-4
        )


# --- populations ----------------------------------------------------------------------------------


def starting_trust(people):
    return np.asarray(jax.vmap(lambda i: p_trust(people.initial_trust(i)))(jnp.arange(len(people))))


@pytest.mark.parametrize("family", FAMILIES)
def test_preset_people(family):
    key = jax.random.key(0)
    people = trust_population(key, 4000, family)
    assert isinstance(people, CLASSES[family])
    assert len(people) == 4000
    for name, value in TRUST_PARAMETERS[family].items():
        np.testing.assert_allclose(getattr(people, name), value, rtol=1e-6)
    trust = starting_trust(people)
    a, b = FIRST_RATING_BETA
    assert len(np.unique(trust)) > 3000
    assert trust.min() >= 0.0
    assert trust.max() <= 1.0
    # The mean and standard deviation of the observed first ratings
    assert trust.mean() == pytest.approx(0.4615, abs=0.015)
    assert trust.std() == pytest.approx(0.2818, abs=0.01)
    assert a / (a + b) == pytest.approx(0.4615, abs=1e-3)

    jax.tree.map(np.testing.assert_array_equal, trust_population(key, 4000, family), people)
    assert not np.array_equal(starting_trust(trust_population(jax.random.key(1), 4000, family)), trust)


def test_preset_people_inside_jit():
    key = jax.random.key(0)
    made = jax.jit(lambda key: trust_population(key, 4000))(key)
    np.testing.assert_allclose(starting_trust(made), starting_trust(trust_population(key, 4000)), atol=1e-5)


def test_preset_reacts_more_to_failures_than_to_successes():
    assert TRUST_PARAMETERS.keys() == CLASSES.keys()
    for name, up, down in (("qubit", "a_pos", "a_neg"), ("markov", "up", "down"), ("beta", "w_s", "w_f")):
        values = TRUST_PARAMETERS[name]
        assert 0.0 < values[up] < values[down] < 1.0
        CLASSES[name](**values)
    with pytest.raises(TypeError):
        TRUST_PARAMETERS["markov"]["up"] = 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_people_from_ratings_start_as_the_participants_did(simulated, family):
    trials = simulated(family)
    # 15 of 20 participants begin at .25, the others at the ends of the scale.
    first = jnp.array([0.25] * 15 + [0.0, 0.0, 0.0, 1.0, 1.0])
    trials = trials.replace(trust_before=trials.trust_before.at[:, 0].set(first))
    key = jax.random.key(7)
    people = trust_population(key, 2000, family, trials)
    assert len(people) == 2000
    trust = starting_trust(people)
    for value, share in ((0.0, 0.15), (0.25, 0.75), (1.0, 0.1)):
        assert np.mean(np.abs(trust - value) < 1e-6) == pytest.approx(share, abs=0.03)
    fit = fit_trust_family(trials, family)
    for name, value in fit.parameters.items():
        np.testing.assert_allclose(getattr(people, name), value, rtol=1e-3)
    again, other = (trust_population(key, 2000, family, trials) for key in (key, jax.random.key(8)))
    jax.tree.map(np.testing.assert_array_equal, again, people)
    assert not np.array_equal(starting_trust(other), trust)


def test_impossible_populations_are_errors(simulated):
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        trust_population(jax.random.key(0), 0)
    with pytest.raises(ValueError, match="unknown family"):
        trust_population(jax.random.key(0), 2, "quark")
    fit = fit_trust_family(simulated("markov"), "markov")
    with pytest.raises(ValueError, match=r"first_ratings must lie in \[0, 1\], got 1\.25"):
        fit.people([0.5, 1.25])
