"""Successive halving: who is drawn, who goes on, and that the best one is what plain training makes of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.evaluation import evaluate
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, Range, halving, successive_halving, train
from qmind_jax.training.search_space import draw

KEY = jax.random.key(3)
# Eight updates of 80 steps.
TINY = PPOConfig(total_steps=640, lanes=8, rollout_steps=10, epochs=1, minibatches=2, features=8)
SPACE = {"learning_rate": Range(1e-3, 1e-1, log=True), "clip": Range(0.1, 0.3)}
FEW = {"members": 5, "rounds": 3, "seeds": 2, "episodes": 50}


reports = []


def report(update, mean_return):
    """The same for all searches, so that they share their programs."""
    reports.append(int(update))


@pytest.fixture(scope="module")
def task():
    return make("TrustHandoverRecovery-v0", n_steps=5)


@pytest.fixture(scope="module")
def search(task):
    """A search, and all its reports."""
    reports.clear()
    found = successive_halving(KEY, *task, TINY, SPACE, **FEW, report=report)
    jax.effects_barrier()
    return found, list(reports)


def test_the_table_says_who_trained_how_long(search):
    table = search[0].table
    assert list(table) == [
        "member",
        "learning_rate",
        "clip",
        "round",
        "steps",
        "mean_return",
        "standard_error",
    ]
    assert sorted(table["member"]) == list(range(5))
    # Of five the best two go on, of these the best one; 2, 4 and 8 updates of 80 steps.
    assert table["round"].tolist() == [3, 2, 1, 1, 1]
    assert table["steps"].tolist() == [640, 320, 160, 160, 160]
    assert np.all(np.diff(table["mean_return"][2:]) <= 0.0)
    assert np.all(np.isfinite(table))
    drawn = draw(SPACE, jax.random.fold_in(KEY, 2), 5)
    for name in SPACE:
        np.testing.assert_array_equal(table.sort_values("member")[name], drawn[name])


def test_the_best_one_is_the_agent_that_plain_training_makes(task, search):
    found, _ = search
    best = found.table.loc[0]
    assert found.config == dataclasses.replace(TINY, learning_rate=best["learning_rate"], clip=best["clip"])
    alone = train(jax.random.split(KEY, 2), *task, found.config)
    assert jax.tree.structure(found.best) == jax.tree.structure(alone)
    for got, expected in zip(
        jax.tree.leaves((found.best.policy, found.best.metrics)),
        jax.tree.leaves((alone.policy, alone.metrics)),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, 1e-3, 1e-4)
    assert found.best.runner.updates_done == 8
    key_last = jax.random.fold_in(jax.random.fold_in(KEY, 3), 2)
    judged = [
        evaluate(
            jax.tree.map(lambda leaf, i=i: leaf[i], found.best.policy),
            TINY.wrap(task[0]),
            task[1],
            key_last,
            50,
            balanced=True,
        ).mean
        for i in range(2)
    ]
    np.testing.assert_allclose(best["mean_return"], np.mean(judged), rtol=1e-5)
    np.testing.assert_allclose(best["standard_error"], np.std(judged, ddof=1) / np.sqrt(2), atol=1e-5)


def test_updates_are_reported_once_from_first_to_last(search):
    assert sorted(search[1]) == list(range(1, 9))


def test_the_best_go_on_and_who_is_no_number_comes_last(task, monkeypatch):
    means = iter([[np.nan, 1.0, 3.0, -np.inf, 2.0], [4.0, 5.0], [0.0]])
    monkeypatch.setattr(halving, "_judge_all", lambda *_: [np.array(next(means))] * 2)
    found = successive_halving(KEY, *task, TINY, SPACE, **FEW, report=report)
    # Of members 2 and 4, who went on in this order, the second was better.
    assert found.table["member"].tolist() == [4, 2, 1, 3, 0]
    values = {name: float(found.table.loc[0, name]) for name in SPACE}
    assert found.config == dataclasses.replace(TINY, **values)
    numbers = found.best.runner.hyper_parameters
    for name in SPACE:
        np.testing.assert_array_equal(getattr(numbers, name), np.float32(values[name]))
    # What it trained before belongs to it too.
    alone = train(jax.random.split(KEY, 2), *task, found.config)
    np.testing.assert_allclose(found.best.metrics["value_loss"], alone.metrics["value_loss"], rtol=1e-3)


def test_of_equal_members_the_first_is_the_best_everywhere(task, monkeypatch):
    means = iter([[0.0, 1.0, 2.0, 0.5, 3.0], [5.0, 5.0], [0.0]])
    monkeypatch.setattr(halving, "_judge_all", lambda *_: [np.array(next(means))] * 2)
    found = successive_halving(KEY, *task, TINY, SPACE, **FEW)
    assert found.table["member"].tolist() == [2, 4, 1, 3, 0]
    values = {name: float(found.table.loc[0, name]) for name in SPACE}
    assert found.config == dataclasses.replace(TINY, **values)


def test_weights_that_are_not_finite_have_no_return(task):
    policy = train(jax.random.split(KEY, 2), *task, TINY).policy
    arguments = TINY.wrap(task[0]), task[1], KEY, 50
    assert np.all(np.isfinite(halving._judge(policy, *arguments)))
    spoilt = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), policy)
    assert np.all(np.isnan(halving._judge(spoilt, *arguments)))


def test_a_learning_rate_that_learns_nothing_is_not_chosen():
    env, params = make("Clarification-v0")
    config = PPOConfig(total_steps=60_000, lanes=64, rollout_steps=10, features=16)
    space = {"learning_rate": Range(1e-7, 2e-2, log=True)}
    found = successive_halving(KEY, env, params, config, space, members=3, rounds=2, seeds=2, episodes=500)
    # One of three is in each third of the powers of ten; in the lower two nearly nothing is learnt.
    assert found.table["round"].tolist() == [2, 1, 1]
    assert found.table.loc[0, "learning_rate"] > 3e-4
    # Acting at once is worth -3, the optimum -1.61.
    assert found.table.loc[0, "mean_return"] > -2.2
    assert np.all(found.table["mean_return"][1:] < -2.5)


def test_values_are_spread_evenly_over_their_ranges():
    drawn = draw({"learning_rate": Range(1e-4, 1.0, log=True), "clip": Range(0.0, 2.0)}, KEY, 8)
    assert {values.dtype for values in drawn.values()} == {jnp.dtype("float32")}
    # One in each eighth: of four powers of ten, and of the numbers from 0 to 2.
    parts = np.floor((np.log10(drawn["learning_rate"]) + 4.0) * 2.0), np.floor(drawn["clip"] * 4.0)
    for part in parts:
        np.testing.assert_array_equal(np.sort(part), np.arange(8))
    assert not np.array_equal(*parts), "the order should differ between hyper-parameters"
    ends = Range(1e-3, 0.3, log=True).at(jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(ends, np.float32([1e-3, 0.3]))


@pytest.mark.parametrize(
    ("low", "high", "log", "message"),
    [
        (0.2, 0.1, False, "low < high, got low=0.2, high=0.1"),
        (0.1, 0.1, False, "low < high, got low=0.1, high=0.1"),
        (0.0, 0.1, True, "a logarithmic range must have low > 0, got low=0.0"),
        (float("nan"), 0.1, False, "finite numbers as ends, got nan"),
        ("a", 0.1, False, "finite numbers as ends, got 'a'"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(low, high, log, message):
    with pytest.raises(ValueError, match=message):
        Range(low, high, log)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": {}}, "space must name at least one hyper-parameter"),
        ({"space": {"learning_rat": Range(0.1, 0.2)}}, "unknown hyper-parameter 'learning_rat'"),
        ({"space": {"lanes": Range(8, 16)}}, "unknown hyper-parameter 'lanes'"),
        ({"space": {"discount": Range(0.5, 1.5)}}, r"discount must lie in \[0, 1\], got 1.5"),
        ({"members": 3}, r"members must be at least eta \*\* \(rounds - 1\) = 4, got 3"),
        ({"rounds": 0}, "rounds must be an integer of at least 1, got 0"),
        ({"eta": 2.5}, "eta must be an integer of at least 2, got 2.5"),
        ({"eta": 1}, "eta must be an integer of at least 2, got 1"),
        ({"seeds": 0}, "seeds must be an integer of at least 1, got 0"),
        ({"episodes": 1}, "episodes must be an integer of at least 2, got 1"),
        ({"members": 100, "rounds": 5}, r"total_steps must cover .* = 16 updates of 80 steps, got 640"),
    ],
)
def test_searches_that_make_no_sense_are_refused(task, changes, message):
    settings = FEW | {"space": SPACE} | changes
    with pytest.raises(ValueError, match=message):
        successive_halving(KEY, *task, TINY, settings.pop("space"), **settings)


def test_what_is_no_range_is_refused(task):
    with pytest.raises(TypeError, match=r"space\['clip'\] must be a Range, got \(0.1, 0.3\)"):
        successive_halving(KEY, *task, TINY, {"clip": (0.1, 0.3)})
