"""Sweeps: what stands in the table, that no chunk or interruption changes it, files, and mistakes."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import qmind_jax
from qmind_jax.evaluation import evaluate, load_sweep, optima, regret, save_sweep, sweep
from qmind_jax.evaluation import sweep_files as files
from qmind_jax.people import MarkovTrust, ProjectiveAnswers
from qmind_jax.policies import Constant, QuestionPlanner, TrustRule
from qmind_jax.training import PPOConfig, train

KEY = jax.random.key(0)
AXES = {"fail_cost": (1.0, 4.0), "people.up": (0.1, 0.3, 0.6)}
POLICIES = {"rule": TrustRule.for_params, "wait": Constant(jnp.int32(3))}


@pytest.fixture(scope="module")
def trusting():
    people = MarkovTrust([0.2, 0.5, 0.9], [0.3, 0.3, 0.3], [0.1, 0.5, 0.3])
    return qmind_jax.make("TrustHandoverRecovery-v0", people=people, n_steps=6)


def run(env, params, **changes):
    chosen = {"axes": AXES, "policies": POLICIES, "key": KEY}
    chosen |= {"params": params, "episodes": 40, "optimum": True, "progress": False}
    return sweep(env, **chosen | changes)


@pytest.fixture(scope="module")
def table(trusting):
    return run(*trusting)


def test_every_row_is_what_evaluating_that_policy_there_gives(trusting, table):
    env, params = trusting
    columns = ["fail_cost", "people.up", "policy", *files.SCORES, *files.REGRET]
    assert list(table.columns) == columns
    expected_rows = list(itertools.product(*AXES.values(), POLICIES))
    assert list(zip(table.fail_cost, table["people.up"], table.policy, strict=True)) == expected_rows
    for row in table.to_dict("records"):
        people = params.people.replace(up=jnp.full(3, row["people.up"]))
        here = params.replace(people=people, fail_cost=jnp.float32(row["fail_cost"]))
        policy = TrustRule.for_params(here) if row["policy"] == "rule" else POLICIES["wait"]
        returns, best = evaluate(policy, env, here, KEY, 40), optima(here)
        lost = regret(returns, best)
        expected = [returns.mean, returns.standard_error, best.mean(), lost.mean, lost.standard_error]
        np.testing.assert_allclose([row[name] for name in columns[3:]], expected, rtol=1e-4, atol=1e-5)


def test_without_the_optimum_there_is_no_regret(trusting, table):
    plain = run(*trusting, optimum=False)
    assert list(plain.columns) == ["fail_cost", "people.up", "policy", *files.SCORES]
    pd.testing.assert_frame_equal(plain, table[plain.columns], rtol=1e-5)


def test_whole_numbers_stay_whole_and_the_optimum_follows_them(trusting):
    table = run(*trusting, axes={"n_steps": [2, 5]}, policies={"wait": POLICIES["wait"]})
    np.testing.assert_allclose(table.mean_return, [-0.6, -1.5], rtol=1e-5)
    assert table.optimum[1] > table.optimum[0]


def test_people_who_answer_questions_can_be_swept_by_costs():
    env, params = qmind_jax.make("Clarification-v0")
    policies = {"planner": QuestionPlanner.for_params}
    table = run(env, params, axes={"ask_cost": (0.1, 0.3)}, policies=policies, episodes=2000)
    assert isinstance(params.people, ProjectiveAnswers)
    assert np.all(table.regret > -4 * table.regret_standard_error)
    np.testing.assert_allclose(table.optimum, [-1.3234, -1.6108], atol=1e-3)


def test_trained_agents_are_swept_in_the_environment_they_know(trusting, tmp_path):
    env, params = trusting
    config = PPOConfig(lanes=4, minibatches=1, features=8, rollout_steps=20, epochs=1, total_steps=80)
    agents = train(jax.random.split(KEY, 2), env, params, config).policy
    policies = {f"agent {i}": jax.tree.map(lambda leaf, i=i: leaf[i], agents) for i in range(2)}
    wrapped = config.wrap(env)
    path, axes = tmp_path / "partial.npz", {"fail_cost": (1.0, 4.0)}
    table = run(wrapped, params, axes=axes, policies=policies, partial_file=path)
    for row in table.to_dict("records"):
        here = params.replace(fail_cost=jnp.float32(row["fail_cost"]))
        expected = evaluate(policies[row["policy"]], wrapped, here, KEY, 40).mean
        np.testing.assert_allclose(row["mean_return"], expected, rtol=1e-4)
    other = dataclasses.replace(config, previous_reward=not config.previous_reward).wrap(env)
    with pytest.raises(ValueError, match="differs in: environment"):
        run(other, params, axes=axes, policies=policies, partial_file=path)


# --- chunks and interruptions -------------------------------------------------------------------------


class StoppedError(Exception):
    """Somebody has pressed Ctrl-C."""


def stop_after(monkeypatch, chunks):
    save, left = files.PartialFile.save, iter(range(chunks))

    def save_and_stop(self, columns):
        save(self, columns)
        if next(left, None) is None:
            raise StoppedError

    monkeypatch.setattr(files.PartialFile, "save", save_and_stop)


def test_an_interrupted_sweep_goes_on_and_ends_in_the_same_table(trusting, table, tmp_path, monkeypatch):
    path = tmp_path / "partial.npz"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(StoppedError):
            run(*trusting, partial_file=path)
    with np.load(path) as file:
        assert file["mean_return"].shape == (2, len(POLICIES))
    played = []
    save = files.PartialFile.save
    monkeypatch.setattr(files.PartialFile, "save", lambda *args: (played.append(1), save(*args)))
    pd.testing.assert_frame_equal(run(*trusting, partial_file=path), table)
    assert len(played) == 4, "six points one by one, two of them done before"
    pd.testing.assert_frame_equal(run(*trusting, partial_file=path), table)
    assert len(played) == 4, "everything was done before"
    assert [file.name for file in tmp_path.iterdir()] == ["partial.npz"]


@pytest.mark.parametrize(
    ("changes", "aspects"),
    [
        ({"axes": {**AXES, "fail_cost": (1.0, 5.0)}}, "axes"),
        ({"policies": {"wait": Constant(jnp.int32(2))}}, "policies"),
        ({"key": jax.random.key(1), "episodes": 41}, "key, episodes"),
        ({"optimum": False}, "optimum"),
    ],
)
def test_a_partial_file_of_another_sweep_is_refused(trusting, tmp_path, monkeypatch, changes, aspects):
    path = tmp_path / "partial.npz"
    stop_after(monkeypatch, 1)
    with pytest.raises(StoppedError):
        run(*trusting, partial_file=path, policies={"wait": POLICIES["wait"]})
    before = path.read_bytes()
    changes = {"policies": {"wait": POLICIES["wait"]}} | changes
    message = f"{path} belongs to another sweep, which differs in: {aspects}"
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        run(*trusting, partial_file=path, **changes)
    assert path.read_bytes() == before


def test_a_file_that_is_no_partial_file_is_refused_and_kept(trusting, tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("my notes")
    with pytest.raises(ValueError, match=re.escape(f"{path} is no partial file of a sweep")):
        run(*trusting, partial_file=path)
    assert path.read_text() == "my notes"


def test_the_last_chunk_is_filled_up_and_one_program_serves_all(trusting, capfd):
    env, params = trusting
    costs, traced = np.linspace(0.0, 5.0, 11).tolist(), []

    def rule(here):
        traced.append(here)
        return TrustRule.for_params(here)

    one = run(env, params, axes={"fail_cost": costs[-1:]}, policies={"rule": rule})
    times, _ = len(traced), traced.clear()
    eleven = run(env, params, axes={"fail_cost": costs}, policies={"rule": rule}, progress=True)
    assert len(traced) == times, "chunks are traced once"
    assert len(eleven) == 11
    pd.testing.assert_frame_equal(eleven[-1:].reset_index(drop=True), one, rtol=1e-5)
    assert "11/11" in capfd.readouterr().err


# --- tables on disk -----------------------------------------------------------------------------------


def test_a_table_comes_back_from_its_file_to_the_last_bit(table, tmp_path):
    path = tmp_path / "sweep.csv"
    save_sweep(path, table)
    pd.testing.assert_frame_equal(load_sweep(path), table, check_exact=True)
    assert files.axes_of(table) == list(AXES)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        save_sweep(path, table)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "policy,mean_return,standard_error\nx,1,2\n", "\0"])
def test_what_is_no_table_of_a_sweep_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(f"{path} is no table of a sweep")):
        load_sweep(path)
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        load_sweep(tmp_path / "nothing.csv")


# --- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"axes": {}}, ValueError, "axes must name at least one parameter"),
        ({"axes": {"fail_csot": [1.0]}}, ValueError, "unknown axis 'fail_csot'. Did you mean 'fail_cost'?"),
        ({"axes": {"people.gamma": [1.0]}}, ValueError, "Known: n_steps, fail_cost, slow_cost"),
        ({"axes": {"fail_cost": []}}, ValueError, "axes['fail_cost'] must be a list of at least one number"),
        ({"axes": {"fail_cost": ["a"]}}, ValueError, "axes['fail_cost'] must be a list"),
        ({"axes": {"fail_cost": [1.0, 1.0]}}, ValueError, "axes['fail_cost'] must hold every value once"),
        ({"axes": {"fail_cost": [np.nan]}}, ValueError, "axes['fail_cost'] must hold finite numbers"),
        (
            {"axes": {"slow_factor": [0.0, 2.0]}},
            ValueError,
            "axes['slow_factor'][1]: slow_factor must lie in",
        ),
        (
            {"axes": {"people.up": [1.5]}},
            ValueError,
            "axes['people.up'][0]: MarkovTrust: up must lie in [0, 1]",
        ),
        ({"axes": {"n_steps": [2.5]}}, ValueError, "axes['n_steps'][0]: n_steps must be an integer, got 2.5"),
        ({"policies": {}}, ValueError, "policies must hold at least one policy"),
        ({"policies": {"x": 3}}, TypeError, "policies['x'] must be a policy or a function"),
        ({"episodes": 1}, ValueError, "episodes must be at least 2, got 1"),
        ({"memory_limit": 10}, ValueError, "memory_limit must be at least"),
    ],
)
def test_mistakes_are_named(trusting, changes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        run(*trusting, **changes)
