"""The command line and the folders of its runs: train, stop, resume, evaluate, and mistakes of the user."""

import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console

from qmind_jax import cli, fits, runs
from qmind_jax.commands import output, train
from qmind_jax.commands.arguments import configure, make_people, parse_assignments
from qmind_jax.envs import TrustHandoverParams
from qmind_jax.folders import new_folder
from qmind_jax.people import BetaTrust, MarkovTrust, ProjectiveAnswers, TrustQubit, mix
from qmind_jax.people.ratings.least_squares_preset import TRUST_PARAMETERS
from qmind_jax.people.ratings.presets import PEOPLE_PRESETS, preset_people
from qmind_jax.people.ratings.trials import load_trust_trials
from qmind_jax.people.storage import load_people, save_people
from qmind_jax.registry import REGISTRY
from qmind_jax.training import PPOConfig
from qmind_jax.training.presets import PRESETS

COLUMNS = ("participant", "trial", "robot_correct", "trust_before", "trust_after")
# Small enough that compiling takes most of the time: 80 steps per update.
SMALL = ["--people", "4", "--network", "mlp", "--seeds", "2", "--episodes", "100", "--ppo", "lanes=4"]
SMALL += ["minibatches=1", "features=8", "rollout_steps=20", "epochs=2"]


# --- running it ---------------------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "qmind_jax", *map(str, arguments)]


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    """Environment of a process in a terminal of 80 columns that keeps its compilations to itself."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    package = str(pathlib.Path(cli.__file__).parents[1])
    return inherited | {
        "COLUMNS": "80",
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }


@pytest.fixture(scope="module")
def stopped(surroundings, tmp_path_factory):
    """Folder of a training that was stopped after a checkpoint, how it ended, and what was in the folder."""
    work = tmp_path_factory.mktemp("work")
    folder = work / "a run's folder"
    # 3,000 updates of 80 steps, and some steps that are too few for one more.
    arguments = ["--steps", 3000 * 80 + 79, "--params", "ask_cost=0.4", "--out", folder.name, *SMALL]
    # A process that is started where the signal is ignored, as in the background of a shell, ignores it too.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command("train", "TrustHandover-v0", *arguments),
            cwd=work,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        deadline = time.monotonic() + 200
        while not saved_updates(folder) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    written = {path.name for path in folder.iterdir()}
    return folder, subprocess.CompletedProcess(process.args, process.returncode, out, err), written


def saved_updates(folder):
    return sorted(int(path.name) for path in folder.glob("checkpoints/*") if path.name.isdigit())


def advice_of(stopped):
    """The command to go on with, as a shell reads it."""
    (line,) = (line.strip() for line in stopped.stdout.splitlines() if "--resume" in line)
    read = ["sh", "-c", f"printf '%s\\n' {line}"]
    return subprocess.run(read, capture_output=True, encoding="utf-8", check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def finished(surroundings, stopped):
    """The same folder after the training has been resumed and has come to its end, and what was printed."""
    folder, process, _ = stopped
    _, _, _, *arguments = advice_of(process)
    done = subprocess.run(
        command(*arguments, "--episodes", 100),
        cwd=folder.parent,
        env=surroundings,
        capture_output=True,
        encoding="utf-8",
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def test_ctrl_c_stops_the_training_and_says_how_to_go_on(stopped):
    folder, process, written = stopped
    assert process.returncode == 130, process.stderr
    assert "Traceback" not in process.stderr
    assert "stopped" in process.stdout
    assert "mean return per episode" not in process.stdout
    assert written == {"run.json", "people.npz", "checkpoints"}
    words = ["python", "-m", "qmind_jax", "train", "TrustHandover-v0", "--out", folder.name, "--resume"]
    assert advice_of(process) == words
    counted = re.search(r"(\d+)/3000 updates", process.stderr)
    assert 300 <= int(counted[1]) < 3000, "the training should have been stopped on its way"


def test_training_writes_a_table_a_plot_and_checkpoints(finished):
    folder, _ = finished
    assert {path.name for path in folder.iterdir()} == {
        *("run.json", "people.npz", "checkpoints"),
        *("summary.json", "metrics.npz", "learning_curve.png"),
    }
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert saved_updates(folder) == [2700, 3000]
    metrics = np.load(folder / "metrics.npz")
    assert metrics["return"].shape == (2, 3000)
    assert np.isfinite(metrics["return"]).all()

    run = json.loads((folder / "run.json").read_text())
    assert (run["version"], run["env_id"], run["seeds"], run["seed"]) == (1, "TrustHandover-v0", 2, 0)
    assert run["params"] == {"ask_cost": 0.4}
    assert {"lanes": 4, "features": 8, "network": "mlp", "total_steps": 240_000}.items() <= run[
        "config"
    ].items()

    summary = json.loads((folder / "summary.json").read_text())
    assert summary["env_id"] == "TrustHandover-v0"
    assert summary["people"] == {"family": "TrustQubit", "number": 4}
    assert summary["steps_per_agent"] == 240_000
    assert (summary["agents"], summary["episodes_per_policy"]) == (2, 100)
    assert summary["training_seconds"] > 0
    assert {"jax", "device", "python"} < set(summary)
    assert list(summary["returns"]) == [
        *("trained, seed 0", "trained, seed 1", "published trust rule", "random"),
        *("always hand over", "always slow", "always ask", "always wait", runs.BEST_POSSIBLE),
    ]
    best, error = (summary["returns"][runs.BEST_POSSIBLE][name] for name in ("mean", "standard_error"))
    assert error == 0.0
    assert best >= max(value["mean"] - 4.0 * value["standard_error"] for value in summary["returns"].values())
    assert summary["returns"]["always ask"]["mean"] == pytest.approx(-20 * 0.4, abs=1e-4)
    assert summary["returns"]["always ask"]["standard_error"] == pytest.approx(0.0, abs=1e-5)


def test_what_is_printed_fits_into_80_columns_and_names_the_files(finished):
    folder, done = finished
    assert "\x1b" not in done.stdout + done.stderr, "no colours where nobody sees them"
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if line[:1] in "┏┃┡│└" and line]
    assert len({len(line) for line in table}) == 1, "the borders of the table should be straight"
    rows = {cells[1].strip(): cells[2:4] for cells in (line.split("│") for line in table) if len(cells) == 5}
    summary = json.loads((folder / "summary.json").read_text())
    printed = {name: [float(cell) for cell in cells] for name, cells in rows.items()}
    assert printed.keys() == summary["returns"].keys()
    for name, value in summary["returns"].items():
        np.testing.assert_allclose(printed[name], [value["mean"], value["standard_error"]], atol=6e-4)
    means = [mean for mean, _ in printed.values()]
    assert means == sorted(means, reverse=True), "the best policy should come first"
    for name in ("learning_curve.png", "summary.json", "checkpoints"):
        assert f"  {folder.name}/{name}" in lines
    text = " ".join(done.stdout.split())
    assert "2 agents (mlp), 240,000 steps each, on 4 simulated people (TrustQubit)" in text
    assert "3000/3000 updates" in done.stderr


def test_compilations_are_kept_for_the_next_run(finished, surroundings):
    assert list(pathlib.Path(surroundings["XDG_CACHE_HOME"], "qmind_jax").iterdir())


def test_the_agents_of_a_run_are_evaluated_again_to_the_same_result(finished, run_cli):
    folder, _ = finished
    code, out, err = run_cli("evaluate", folder, "--episodes", 100, "--seed", 1)
    assert (code, err) == (0, "")
    summary = json.loads((folder / "summary.json").read_text())
    for name, value in summary["returns"].items():
        row = next(line for line in out.splitlines() if name in line)
        mean, error = (float(cell) for cell in row.split("│")[2:4])
        assert mean == pytest.approx(value["mean"], abs=0.01)
        assert error == pytest.approx(value["standard_error"], abs=0.01)
    assert "100 episodes per policy" in out
    people = load_people(folder / "people.npz")
    jax.tree.map(np.testing.assert_array_equal, runs.load(folder).params.people, people)


def test_a_run_that_exists_is_neither_overwritten_nor_confused_with_another(finished, run_cli):
    folder, _ = finished
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    code, out, err = run_cli("train", "TrustHandover-v0", "--people", "3", "--out", folder)
    assert (code, out) == (2, "")
    assert f"error: {folder} exists already; choose another --out, or add --resume" in err
    code, _, err = run_cli("train", "Clarification-v0", "--out", folder, "--resume")
    assert code == 2
    assert f"the run in {folder} is of TrustHandover-v0, not of Clarification-v0" in err
    assert before == sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())


def test_the_environments_are_listed(run_cli):
    code, out, _ = run_cli("list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert all(env_id in out for env_id in REGISTRY)


def test_help_explains_every_argument(run_cli):
    code, out, _ = run_cli("train", "--help")
    assert code == 0
    for argument in (
        "--people",
        "--family",
        "--seeds",
        "--network",
        "--steps",
        "--params",
        "--ppo",
        "--out",
        "--resume",
    ):
        assert argument in out
    assert "file of ratings" in " ".join(re.sub("[│╭╮╰╯─]", " ", out).split())


# --- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TrustHandvoer-v0"], "unknown environment id 'TrustHandvoer-v0'. Did you mean 'TrustHandover-v0'?"),
        (
            ["TrustHandover-v0", "--params", "fail_cots=3"],
            "unknown parameter 'fail_cots'. Did you mean 'fail_cost'?",
        ),
        (
            ["TrustHandover-v0", "--ppo", "learning_rat=3"],
            "unknown hyper-parameter 'learning_rat'. Did you mean 'learning_rate'?",
        ),
        (
            ["TrustHandover-v0", "--params", "n_steps=0"],
            "n_steps must be an integer from 1 to 2**31 - 1, got 0",
        ),
        (["TrustHandover-v0", "--params", "people=3"], "people are chosen with --people"),
        (
            ["TrustHandover-v0", "--params", "n_steps"],
            "a parameter must be written name=value, got 'n_steps'",
        ),
        (["TrustHandover-v0", "--ppo", "=3"], "a hyper-parameter must be written name=value, got '=3'"),
        (["TrustHandover-v0", "--ppo", "clip=soft"], "clip must be a finite number, got 'soft'"),
        (["TrustHandover-v0", "--ppo", "anneal=no"], "anneal must be true or false, got 'no'"),
        (["TrustHandover-v0", "--ppo", "lanes=10", "minibatches=4"], "minibatches must divide lanes"),
        (["TrustHandover-v0", "--steps", "10"], "total_steps must cover one update"),
        (["TrustHandover-v0", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["TrustHandover-v0", "--episodes", "1"], "episodes must be at least 2"),
        (
            ["TrustHandover-v0", "--people", "somebody"],
            "people must be a number, 'published', a preset, or a file ending in .csv or .npz; unknown",
        ),
        (["TrustHandover-v0", "--people", "0"], "people must be a number, 'published', a preset, or a file"),
        (["TrustHandover-v0", "--people", "-3"], "people must be a number, 'published', a preset, or a file"),
        (
            ["TrustHandover-v0", "--people", "trust_real_world_qbit"],
            "unknown preset 'trust_real_world_qbit'. Did you mean 'trust_real_world_qubit'?",
        ),
        (
            ["Clarification-v0", "--people", "trust_real_world_beta"],
            "trust_real_world_beta does not say how people answer",
        ),
        (["TrustHandover-v0", "--num-people", "0"], "n must be at least 1, got 0"),
        (["TrustHandover-v0", "--people", "nobody.csv"], "there is no file nobody.csv"),
        (["TrustHandover-v0", "--people", "nobody.npz"], "no file of people at nobody.npz"),
        # What looks like rich's markup is printed as it was typed.
        (["TrustHandover-v0", "--params", "[bold]x"], "got '[bold]x'"),
        (["TrustHandover-v0", "--params", "x[/nothing]"], "got 'x[/nothing]'"),
    ],
)
def test_a_mistake_ends_in_one_line_that_names_it(run_cli, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("train", *arguments, "--out", "new")
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "new").exists(), "a run that makes no sense should leave no folder"


def test_resuming_needs_the_folder_of_a_run(run_cli, tmp_path):
    code, _, err = run_cli("train", "TrustHandover-v0", "--resume")
    assert code == 2
    assert "resume needs --out" in err
    code, _, err = run_cli("train", "TrustHandover-v0", "--resume", "--out", tmp_path, "--steps", "10")
    assert code == 2
    assert "--resume goes on with the run as it was made; --steps cannot change it" in err
    for verb in (["train", "TrustHandover-v0", "--resume", "--out"], ["evaluate"]):
        code, _, err = run_cli(*verb, tmp_path)
        assert code == 2
        assert f"no run in {tmp_path}: {tmp_path / 'run.json'} is missing" in err
    for content, message in (("{", "is no description of a run"), ('{"version": 9}', "has version 9")):
        (tmp_path / "run.json").write_text(content)
        code, _, err = run_cli("evaluate", tmp_path)
        assert code == 2
        assert f"{tmp_path / 'run.json'} {message}" in err


def test_a_run_without_a_checkpoint_cannot_be_evaluated(run_cli, tmp_path):
    people = MarkovTrust([0.5], [0.1], [0.1])
    config = PPOConfig(total_steps=160, lanes=4, minibatches=1, features=8)
    runs.create(tmp_path / "run", "TrustHandover-v0", people, {}, config, 1, 0)
    code, _, err = run_cli("evaluate", tmp_path / "run")
    assert code == 2
    assert f"no checkpoint in {tmp_path / 'run' / 'checkpoints'}" in err


def test_too_few_episodes_to_evaluate_are_refused(run_cli, tmp_path):
    code, _, err = run_cli("evaluate", tmp_path, "--episodes", 1)
    assert (code, err) == (2, "error: episodes must be at least 2, got 1\n")


def test_ctrl_c_during_the_evaluation_says_how_to_go_on_too(run_cli, tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train_with_checkpoints", lambda *args, **kwargs: SimpleNamespace(policy=None))
    monkeypatch.setattr(runs, "compare", stop)
    code, out, _ = run_cli("train", "TrustHandover-v0", "--people", "published", "--out", tmp_path / "run")
    assert code == 130
    assert f"--out {tmp_path / 'run'} --resume" in out


# --- ratings ------------------------------------------------------------------------------------------


def ratings(path, change=None):
    """A file of ratings of six people, four trials each, that follow a Markov chain."""
    rng = np.random.default_rng(0)
    rows = []
    for participant in range(6):
        trust = rng.uniform(0.3, 0.7)
        for trial in range(4):
            correct, before = int(rng.integers(2)), trust
            trust = before + (1.0 - before) * 0.3 if correct else before * 0.8
            rows.append([f"p{participant}", trial, correct, round(before, 4), round(trust, 4)])
    table = [list(COLUMNS), *rows]
    if change is not None:
        change(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)
    return path


def test_ratings_make_people_and_a_table_of_how_well_each_family_predicts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output, "console", Console(width=80))
    # Longer than a line: it must not be broken.
    path = ratings(tmp_path / ("a folder with a long name " * 4).strip() / "ratings [v2].csv")
    people = make_people("TrustHandover-v0", str(path), 50, "markov", jax.random.key(0))
    assert isinstance(people, MarkovTrust)
    assert len(people) == 50
    np.testing.assert_allclose(people.up, 0.3, atol=0.02)
    np.testing.assert_allclose(people.down, 0.2, atol=0.02)
    out = capsys.readouterr().out
    assert str(path) in out
    rows = [line.split("│")[1:3] for line in out.splitlines() if line.startswith("│")]
    errors = {name.strip(): float(error) for name, error in rows}
    assert set(errors) == {"markov", "beta", "qubit", "persistence"}
    assert list(errors.values()) == sorted(errors.values())
    assert errors["markov"] < 0.005 < errors["persistence"]
    assert "held-out error" in out


def drop_a_column(table):
    for row in table:
        del row[3]


def put(line, column, value):
    def change(table):
        table[line - 1][COLUMNS.index(column)] = value

    return change


def drop_a_trial(table):
    del table[6]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (drop_a_column, "row 1: missing column 'trust_before'"),
        (put(4, "trust_after", 1.2), "row 4, column 'trust_after': got 1.2"),
        (put(9, "trust_before", -0.1), "row 9, column 'trust_before': got -0.1"),
        (put(3, "robot_correct", "yes"), "row 3, column 'robot_correct': 'yes' is not a number"),
        (put(5, "trial", ""), "row 5, column 'trial': the cell is empty"),
        (drop_a_trial, "row 7, column 'trial': participant 'p1' has trial 2 but no trial 1"),
    ],
)
def test_a_mistake_in_the_ratings_is_told_with_file_row_and_column(run_cli, tmp_path, change, place):
    path = ratings(tmp_path / "a_folder_with_a_rather_long_name_that_fills_a_line" / "ratings.csv", change)
    code, out, err = run_cli("train", "TrustHandover-v0", "--people", path, "--out", tmp_path / "new")
    assert (code, out) == (2, "")
    assert f"error: {path}, {place}" in err
    assert "expected" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "new").exists()


# --- fits ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Folder of a fit to ratings."""
    work = tmp_path_factory.mktemp("fits")
    folder = work / "deep" / "fit"
    path = ratings(work / "my ratings.csv")
    fits.write_trust(folder, path, fits.fit_trust(path), 7, jax.random.key(0))
    return path, folder


def test_a_fit_to_ratings_prints_tables_and_writes_people_to_train_on(run_cli, tmp_path, fitted):
    path, reference = fitted
    code, out, err = run_cli("fit", "trust", path, "--num-people", 7, "--out", tmp_path / "fit")
    assert (code, err) == (0, "")
    written = ["beta.npz", "fit.json", "fit.png", "markov.npz", "qubit.npz"]
    assert sorted(file.name for file in (tmp_path / "fit").iterdir()) == written
    assert all(f"  {tmp_path / 'fit' / name}\n" in out for name in written)
    assert max(len(line) for line in out.splitlines() if line[:1] in "┏┃┡│└") <= 80
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line[:1] == "│"]
    errors = {row[0]: [float(cell) for cell in row[1:]] for row in rows[:4]}
    assert list(errors) == ["beta", "markov", "qubit", "no model"]
    assert errors["markov"][0] < 0.005 < errors["no model"][0], "a Markov chain made the ratings"
    parameters = {row[1]: [float(cell) for cell in row[2:]] for row in rows[4:] if row[1] in ("up", "down")}
    assert parameters["up"][0] < 0.3 < parameters["up"][2]
    assert parameters["down"][0] < 0.2 < parameters["down"][2]

    description = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert (description["version"], description["kind"], description["source"]) == (1, "trust", path.name)
    assert (description["participants"], description["ratings"]) == (6, 30)
    markov = description["families"]["markov"]
    assert markov["names"] == ["p0", "up", "down"]
    assert np.shape(markov["covariance"]) == (3, 3)
    shared = description["held_out_errors"]["first rating known"]["markov"]
    assert shared["all"] == pytest.approx(errors["markov"][0], abs=1e-4)
    assert len(shared["by rating"]) == 4
    assert (tmp_path / "fit" / "fit.png").read_bytes().startswith(b"\x89PNG")
    for name, family in (("beta", BetaTrust), ("markov", MarkovTrust), ("qubit", TrustQubit)):
        people = load_people(tmp_path / "fit" / f"{name}.npz")
        assert (type(people), len(people)) == (family, 7)
        jax.tree.map(np.testing.assert_array_equal, people, load_people(reference / f"{name}.npz"))


def test_agents_are_trained_and_evaluated_on_fitted_people_and_on_presets(run_cli, tmp_path, fitted):
    tiny = ["--network", "mlp", "--seeds", 1, "--episodes", 20, "--steps", 80, "--num-people", 5]
    tiny += ["--ppo", "lanes=4", "minibatches=1", "features=8", "rollout_steps=20", "epochs=1"]
    mixed = mix([load_people(fitted[1] / f"{name}.npz") for name in ("beta", "markov", "qubit")])
    save_people(tmp_path / "mixed.npz", mixed)
    for people, number in ((tmp_path / "mixed.npz", 21), ("trust_real_world_qubit", 5)):
        run = tmp_path / f"run on {number}"
        code, out, _ = run_cli("train", "TrustHandover-v0", "--people", people, "--out", run, *tiny)
        assert code == 0
        assert f"on {number} simulated people" in out
        code, out, err = run_cli("evaluate", run, "--episodes", 20)
        assert (code, err) == (0, "")
        assert "trained, seed 0" in out


@pytest.mark.parametrize("name", PEOPLE_PRESETS)
def test_a_preset_is_named_on_the_command_line(name):
    people = population("TrustHandover-v0", name, num_people=12)
    expected = preset_people(name, jax.random.key(0), 12)
    jax.tree.map(np.testing.assert_array_equal, people, expected)


TABLE = {"AB": [25, 6, 5, 14], "BA": [28, 2, 8, 12]}


def test_a_fit_to_question_orders_prints_a_table_and_writes_the_best_person(run_cli, tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(TABLE))
    code, out, err = run_cli("fit", "order", path, "--criterion", "aic", "--out", tmp_path / "fit")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 90 + len(str(tmp_path))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line[:1] == "│"]
    rows = [row for row in rows if row[1]]
    assert {row[0].partition("(")[0] for row in rows} == {family.__name__ for family in fits.ORDER_FAMILIES}
    assert [float(row[3]) for row in rows] == sorted(float(row[3]) for row in rows), "by AIC, best first"
    assert sum(float(row[5]) for row in rows) == pytest.approx(1.0, abs=0.005)
    assert sorted(file.name for file in (tmp_path / "fit").iterdir()) == ["fit.json", "fit.png", "person.npz"]
    person = load_people(tmp_path / "fit" / "person.npz")
    assert not person.is_population
    assert type(person).__name__ == rows[0][0].partition("(")[0]
    description = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert description["counts"] == TABLE
    assert description["criterion"] == "aic"
    assert next(iter(description["fits"])) == rows[0][0]
    assert "NaN" not in (tmp_path / "fit" / "fit.json").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"AB": [1, 2, 3, 4],\n "BA": [1, 2 3, 4]}', ", line 2, column 14: Expecting ',' delimiter"),
        ('{"AB": [1, 2, 3, 4]}', ": data must have the conditions AB, BA, but 'BA' is missing"),
        ('{"AB": [1, 2, 3, 4], "BA": [1, 2, 3]}', ": data['BA'] must have shape (4,), got (3,)"),
        ('{"AB": [1, -2, 3, 4], "BA": [1, 2, 3, 4]}', ": data['AB'] must hold counts"),
        ('{"AB": [1, NaN, 3, 4], "BA": [1, 2, 3, 4]}', ": data['AB'] must be finite"),
        ('{"AB": [0, 0, 0, 0], "BA": [0, 0, 0, 0]}', "at least one answer"),
        ('{"AB": ["a", 2, 3, 4], "BA": [1, 2, 3, 4]}', ": data['AB'] must hold numbers"),
        ('{"AB": [1, 2, 3, 4], "CA": [1, 2, 3, 4]}', ": data: unknown condition 'CA'"),
        ("[1, 2]", ": data must map the conditions AB, BA to numbers"),
        ("", ", line 1, column 1: Expecting value"),
        (b"\xff", ": byte 0 is not UTF-8"),
        (None, "there is no file"),
    ],
)
def test_a_mistake_in_a_table_of_orders_is_told_with_file_and_place(run_cli, tmp_path, content, message):
    path = tmp_path / "my table.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run_cli("fit", "order", path, "--out", tmp_path / "fit")
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    assert str(path) in err and message in err and '{"AB": [yes-yes' in err
    assert not (tmp_path / "fit").exists()


def same_outcome(table):
    for row in table[1:]:
        row[2] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(4, "trust_after", 1.2), ", row 4, column 'trust_after': got 1.2"),
        (lambda table: table.__delitem__(slice(9, None)), ": trials must hold at least four participants"),
        (same_outcome, "got only successes"),
    ],
)
def test_a_mistake_in_ratings_to_fit_is_told_with_the_file(run_cli, tmp_path, change, message):
    path = ratings(tmp_path / "ratings.csv", change)
    code, out, err = run_cli("fit", "trust", path, "--out", tmp_path / "fit")
    assert (code, out) == (2, "")
    assert f"error: {path}" in err and message in err
    assert not (tmp_path / "fit").exists()


def test_a_fit_never_overwrites(run_cli, tmp_path, fitted):
    path, folder = fitted
    before = sorted((file.name, file.stat().st_mtime_ns) for file in folder.iterdir())
    for arguments in (["trust", path], ["order", tmp_path / "table.json"]):
        code, out, err = run_cli("fit", *arguments, "--out", folder)
        assert (code, out) == (2, "")
        assert f"error: {folder} exists already; choose another --out" in err
    assert before == sorted((file.name, file.stat().st_mtime_ns) for file in folder.iterdir())
    code, _, err = run_cli("fit", "trust", path, "--num-people", 0, "--out", tmp_path / "fit")
    assert (code, err) == (2, "error: num-people must be at least 1, got 0\n")
    assert re.fullmatch(r"fits/trust-\d{8}-\d{6}", new_folder("fits", "trust").as_posix())


# --- people -------------------------------------------------------------------------------------------


def population(env_id, people=None, num_people=30, family="qubit"):
    return runs.population(env_id, people, num_people, family, jax.random.key(0))


def test_nothing_said_means_people_as_rated_for_trust_and_the_published_person_for_clarification():
    people = population("TrustHandover-v0")
    assert isinstance(people, TrustQubit)
    assert len(people) == 30
    np.testing.assert_allclose(people.a_pos, TRUST_PARAMETERS["qubit"]["a_pos"], rtol=1e-6)
    assert len(set(people.phi0.tolist())) == 30
    assert isinstance(population("TrustHandover-v0", family="beta"), BetaTrust)
    assert len(population("Clarification-v0")) == 1


@pytest.mark.parametrize("env_id", list(REGISTRY))
def test_the_published_person_is_that_of_the_environment(env_id):
    people = population(env_id, "published")
    jax.tree.map(np.testing.assert_array_equal, people, REGISTRY[env_id].params().people)


def test_a_number_means_so_many_people():
    assert len(population("TrustHandover-v0", "30", num_people=5)) == 30
    varied = population("ClarificationHard-v0", "7")
    assert isinstance(varied, ProjectiveAnswers)
    assert len(varied) == 7
    published = population("ClarificationHard-v0")
    assert varied.questions == published.questions
    assert 0.01 < np.abs(varied.states - published.states).mean() < 0.2


@pytest.mark.parametrize("size", [None, 1, 3])
def test_saved_people_are_read_also_if_it_is_one_person(tmp_path, size):
    people = MarkovTrust(0.25) if size is None else MarkovTrust(*np.full((3, size), 0.25))
    save_people(tmp_path / "people.npz", people)
    loaded = population("TrustHandover-v0", str(tmp_path / "people.npz"))
    assert isinstance(loaded, MarkovTrust)
    assert len(loaded) == (size or 1)
    np.testing.assert_array_equal(loaded.p0, 0.25)


def test_people_who_do_not_fit_the_environment_are_refused(run_cli, tmp_path):
    save_people(tmp_path / "people.npz", MarkovTrust([0.25], [0.25], [0.25]))
    code, _, err = run_cli(
        "train", "Clarification-v0", "--people", tmp_path / "people.npz", "--out", tmp_path / "new"
    )
    assert code == 2
    assert "people must be one of IndependentAnswers, ProjectiveAnswers; got MarkovTrust" in err
    path = ratings(tmp_path / "ratings.csv")
    with pytest.raises(ValueError, match="ratings of trust do not say how people answer"):
        runs.population("Clarification-v0", str(path), 5, "qubit", jax.random.key(0), load_trust_trials(path))
    assert not (tmp_path / "new").exists()


# --- configuration ------------------------------------------------------------------------------------


def test_assignments_are_numbers_truth_values_or_words():
    parsed = parse_assignments("x", ("a=1", "b=-2.5", "c=1e-3", "d=true", "e=False", "f=gru", "g=a=b"))
    assert parsed == {"a": 1, "b": -2.5, "c": 0.001, "d": True, "e": False, "f": "gru", "g": "a=b"}
    assert [type(parsed[name]) for name in "abcd"] == [int, float, float, bool]
    assert parse_assignments("x", ()) == {}


@pytest.mark.parametrize("text", ["", "a", "=1", "a="])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(f"a parameter must be written name=value, got {text!r}")):
        parse_assignments("parameter", (text,))


def test_a_configuration_is_the_preset_with_changes():
    preset = PRESETS["TrustHandover-v0"]
    assert configure(preset, None, None, {}).network == preset.network
    changed = configure(preset, "gru", 5_000_000, {"clip": 0.1, "anneal": False})
    assert (changed.network, changed.clip, changed.anneal) == ("gru", 0.1, False)
    assert changed.learning_rate == preset.learning_rate


@pytest.mark.parametrize(("updates", "kept"), [(1, 1), (9, 9), (10, 10), (11, 10), (25, 20), (100, 100)])
def test_the_updates_are_cut_into_at_most_ten_equal_parts(updates, kept):
    preset = PPOConfig(lanes=4, rollout_steps=10, minibatches=1)
    config = configure(preset, None, updates * 40 + 39, {})
    assert config.num_updates == kept


def test_parameters_given_on_the_command_line_are_those_of_the_run(tmp_path):
    people = population("TrustHandover-v0", "3")
    overrides = parse_assignments("parameter", ("fail_cost=3", "n_steps=7"))
    config = PPOConfig(previous_reward=True)
    made = runs.create(tmp_path / "deep" / "run", "TrustHandover-v0", people, overrides, config, 4, 17)
    loaded = runs.load(tmp_path / "deep" / "run")
    assert isinstance(loaded.params, TrustHandoverParams)
    assert (float(loaded.params.fail_cost), int(loaded.params.n_steps)) == (3.0, 7)
    assert (loaded.config, loaded.seeds, loaded.seed, loaded.env) == (config, 4, 17, made.env)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, made.params)


def test_a_new_folder_is_named_by_environment_and_time():
    assert re.fullmatch(
        r"runs/TrustHandover-v0-\d{8}-\d{6}", new_folder("runs", "TrustHandover-v0").as_posix()
    )
