"""``python -m qmind_jax tune``: what it prints and writes, and mistakes of the user."""

import json

import jax
import numpy as np
import pandas as pd
import pytest

from qmind_jax import runs
from qmind_jax.commands import tune
from qmind_jax.commands.arguments import parse_space
from qmind_jax.commands.tune import DEFAULT_SPACE
from qmind_jax.training import Range
from qmind_jax.training.halving import hyper_parameters_in, successive_halving

SMALL = ["--people", "4", "--network", "mlp", "--steps", "480", "--params", "n_steps=5"]
SMALL += ["--ppo", "lanes=4", "minibatches=1", "features=8", "rollout_steps=20", "epochs=1"]
SMALL += ["--members", "3", "--rounds", "2", "--seeds", "2", "--seed", "7", "--episodes", "40"]
SPACE = ["--space", "learning_rate=log:1e-3:1e-1", "clip=0.1:0.3"]


def test_a_search_prints_a_table_and_leaves_the_best_agents_as_a_run(run_cli, tmp_path, monkeypatch):
    searches = []

    def remember(*arguments, **settings):
        searches.append(successive_halving(*arguments, **settings))
        return searches[-1]

    monkeypatch.setattr(tune, "successive_halving", remember)
    folder = tmp_path / "deep" / "best"
    code, out, err = run_cli("tune", "TrustHandover-v0", *SPACE, *SMALL, "--out", folder)
    assert code == 0, err
    assert max(map(len, out.splitlines()[:-4])) <= 80
    (search,) = searches

    table = pd.read_csv(folder / "search.csv")
    assert len(table) == 3
    assert hyper_parameters_in(table) == ["learning_rate", "clip"]
    assert table["steps"].tolist() == [480, 240, 240]
    for row in table.itertuples():
        assert f"{row.mean_return:.3f} ± {row.standard_error:.3f}" in out
    for name in ("search.csv", "learning_curve.png", "summary.json", "checkpoints"):
        assert (folder / name).exists()
        assert name in out

    # The run is that of the best hyper-parameters, and has its agents.
    run = runs.load(folder)
    assert run.config == search.config
    assert np.float32(run.config.learning_rate) == np.float32(table["learning_rate"][0])
    assert (len(run.params.people), run.params.n_steps, run.seeds, run.seed) == (4, 5, 2, 7)
    policy = runs.trained_policy(run)
    jax.tree.map(np.testing.assert_array_equal, policy, search.best.policy)
    summary = json.loads((folder / "summary.json").read_text())
    assert {"trained, seed 0", "trained, seed 1"} <= set(summary["returns"])
    assert summary["steps_per_agent"] == 480

    code, _, err = run_cli("tune", "TrustHandover-v0", *SPACE, *SMALL, "--out", folder)
    assert code == 2
    assert "exists already; choose another --out" in err


def test_ctrl_c_leaves_no_folder(run_cli, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "successive_halving", stop)
    code, out, _ = run_cli("tune", "TrustHandover-v0", *SMALL, "--out", tmp_path / "new")
    assert code == 130
    assert "of an unfinished search nothing is kept" in out
    assert not (tmp_path / "new").exists()


def test_ranges_are_written_as_texts():
    assert parse_space(("learning_rate=log:1e-4:1e-2", "clip=0.1:0.3")) == {
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "clip": Range(0.1, 0.3),
    }
    assert list(parse_space(DEFAULT_SPACE)) == ["learning_rate", "entropy_bonus", "trace_decay"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "clip"], "a range must be written name=low:high or name=log:low:high, got 'clip'"),
        (["--space", "clip=0.1"], "got 'clip=0.1'"),
        (["--space", "clip=low:high"], "got 'clip=low:high'"),
        (["--space", "clip=0.3:0.1"], "clip=0.3:0.1: a range must have low < high"),
        (["--space", "clip=0.1:0.2", "clip=0.1:0.3"], "must have one range, got 'clip' twice"),
        (["--space", "clop=0.1:0.3"], "unknown hyper-parameter 'clop'. Did you mean 'clip'?"),
        (["--space", "discount=0:2"], "discount must lie in [0, 1], got 2.0"),
        (["--params", "people=3"], "people are chosen with --people"),
        (["--params", "fail_cots=3"], "Did you mean 'fail_cost'?"),
        (["--ppo", "learning_rat=3"], "Did you mean 'learning_rate'?"),
        (["--members", "2", "--rounds", "3"], "members must be at least eta ** (rounds - 1) = 4, got 2"),
        (["--episodes", "1"], "episodes must be an integer of at least 2, got 1"),
    ],
)
def test_a_mistake_ends_in_one_line_and_leaves_no_folder(run_cli, tmp_path, arguments, message):
    folder = tmp_path / "new"
    code, _, err = run_cli("tune", "TrustHandover-v0", "--people", "4", *arguments, "--out", folder)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not folder.exists()
