"""``python -m qmind_jax sweep``: what it prints and writes, going on after a stop, mistakes in the file."""

import json

import numpy as np
import pandas as pd
import pytest

from qmind_jax.evaluation import load_sweep
from qmind_jax.evaluation import sweep_files as files
from qmind_jax.sweep_specs import load_spec

SPEC = {
    "environment": "TrustHandover-v0",
    "axes": {"fail_cost": [1, 5], "people.gamma": {"from": 0.0, "to": 1.0, "number": 3}},
    "policies": ["published trust rule", "always wait"],
    "episodes": 20,
    "optimum": True,
    "params": {"n_steps": 4},
}
TOML = """
environment = "TrustHandover-v0"
policies = ["published trust rule", "always wait"]
episodes = 20
optimum = true
params.n_steps = 4

[axes]
fail_cost = [1, 5]
people.gamma = {from = 0.0, to = 1.0, number = 3}
"""


@pytest.fixture
def spec(tmp_path):
    """Writes the description of a sweep with some keys changed; None takes one away."""

    def write(**changes):
        path = tmp_path / "my sweep.json"
        kept = {name: value for name, value in (SPEC | changes).items() if value is not None}
        path.write_text(json.dumps(kept))
        return path

    return write


def test_json_and_toml_say_the_same(spec, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(TOML)
    described = load_spec(path)
    assert described == load_spec(spec())
    assert described.axes == {"fail_cost": (1.0, 5.0), "people.gamma": (0.0, 0.5, 1.0)}
    path.write_text(TOML.replace("people.gamma", '"people.gamma"'))
    assert load_spec(path) == described


def test_a_sweep_prints_a_table_and_writes_it_with_a_picture(run_cli, spec, tmp_path):
    folder = tmp_path / "deep" / "out"
    code, out, err = run_cli("sweep", spec(), "--out", folder)
    assert code == 0, err
    assert "6/6" in err
    assert sorted(path.name for path in folder.iterdir()) == ["sweep.csv", "sweep.png"]
    assert all(f"  {path}\n" in out for path in folder.iterdir())
    table = load_sweep(folder / "sweep.csv")
    assert len(table) == 12
    np.testing.assert_allclose(table.mean_return[table.policy == "always wait"], -1.2, rtol=1e-5)
    assert np.all(table.regret > -4 * table.regret_standard_error - 1e-4)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line[:1] == "│"]
    assert len([row for row in rows if row[0]]) == 12
    assert f"{table.regret[0]:.3f} ± {table.regret_standard_error[0]:.3f}" in out
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")

    before = (folder / "sweep.csv").read_bytes()
    code, out, err = run_cli("sweep", spec(), "--out", folder)
    assert (code, out) == (2, "")
    assert f"error: {folder} exists already; choose another --out, or add --resume" in err
    code, out, err = run_cli("sweep", spec(), "--out", folder, "--resume")
    assert (code, out) == (2, "")
    assert f"error: the sweep in {folder} is finished" in err
    assert before == (folder / "sweep.csv").read_bytes()


def test_ctrl_c_keeps_what_is_done_and_the_sweep_can_go_on(run_cli, spec, tmp_path, monkeypatch):
    axes = {"ask_cost": [0.1, 0.5, 1.0]}
    path, folder = spec(axes=axes, optimum=False), tmp_path / "out"
    whole = tmp_path / "whole"
    assert run_cli("sweep", path, "--out", whole)[0] == 0
    save, left = files.PartialFile.save, iter(range(2))

    def save_and_stop(self, columns):
        save(self, columns)
        if next(left, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files.PartialFile, "save", save_and_stop)
        code, out, _ = run_cli("sweep", path, "--out", folder)
    assert code == 130
    assert f"sweep '{path}' --out {folder} --resume" in out
    assert [file.name for file in folder.iterdir()] == ["partial.npz"]

    code, _, err = run_cli("sweep", spec(axes=axes, optimum=False, seed=1), "--out", folder, "--resume")
    assert code == 2
    assert "belongs to another sweep, which differs in: key" in err
    assert [file.name for file in folder.iterdir()] == ["partial.npz"]

    code, _, err = run_cli("sweep", spec(axes=axes, optimum=False), "--out", folder, "--resume")
    assert code == 0, err
    pd.testing.assert_frame_equal(load_sweep(folder / "sweep.csv"), load_sweep(whole / "sweep.csv"))
    assert sorted(file.name for file in folder.iterdir()) == ["sweep.csv", "sweep.png"]


def test_ctrl_c_before_the_first_point_leaves_nothing(run_cli, spec, tmp_path, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("qmind_jax.sweeps.sweep", stop)
    code, out, _ = run_cli("sweep", spec(), "--out", tmp_path / "out")
    assert code == 130
    assert "stopped before anything was done" in out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": None}, "key 'axes' is missing"),
        ({"axis": {}}, "unknown key 'axis'. Did you mean 'axes'?"),
        ({"environment": "TrustHandover"}, "environment: unknown environment id 'TrustHandover'"),
        ({"environment": []}, "environment: unknown environment id '[]'"),
        ({"axes": []}, "axes must map parameters to numbers"),
        ({"axes": {}}, "axes must name at least one parameter"),
        ({"axes": {"fail_cost": 3}}, "axes.fail_cost must be a list of numbers, got 3"),
        ({"axes": {"fail_cost": ["a"]}}, "axes.fail_cost must be a list of numbers, got ['a']"),
        (
            {"axes": {"fail_cost": {"from": 1}}},
            "axes.fail_cost must be a list of numbers or have the keys from",
        ),
        (
            {"axes": {"fail_cost": {"from": 1, "to": 2, "number": 1}}},
            "axes.fail_cost.number must be at least 2",
        ),
        ({"axes": {"fail_csot": [1]}}, "unknown axis 'fail_csot'. Did you mean 'fail_cost'?"),
        ({"axes": {"people.gamma": [0, 2]}}, "axes['people.gamma'][1]: TrustQubit: gamma must lie in [0, 1]"),
        ({"policies": []}, "policies must be a list of names"),
        (
            {"policies": ["always wiat"]},
            "policies: unknown policy 'always wiat'. Did you mean 'always",
        ),
        ({"policies": ["random", "random"]}, "policies must hold every name once"),
        ({"episodes": 1}, "episodes must be at least 2, got 1"),
        ({"episodes": 2.5}, "episodes must be an integer, got 2.5"),
        ({"seed": True}, "seed must be an integer, got True"),
        ({"optimum": "yes"}, "optimum must be true or false, got 'yes'"),
        ({"params": {"n_stpes": 3}}, "unknown parameter 'n_stpes'. Did you mean 'n_steps'?"),
        ({"params": {"people": 3}}, "params cannot hold people"),
        ({"people": 2.5}, "people must be a number, 'published', a preset or a file"),
        ({"people": "somebody"}, "people must be a number, 'published', a preset, or a file"),
        ({"family": "marcov"}, "family: unknown family 'marcov'. Did you mean 'markov'?"),
    ],
)
def test_a_mistake_is_told_with_file_and_key(run_cli, spec, tmp_path, changes, message):
    path = spec(**changes)
    code, out, err = run_cli("sweep", path, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"error: {path}: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"axes": ', ": Expecting value: line 1 column 10"),
        ("a.toml", "axes = [1,", ": "),
        ("a.json", "[1]", " must hold keys and values, got [1]"),
        ("a.yaml", "axes: 1", " must end in .json or .toml"),
        ("a.json", b"\xff", ": 'utf-8' codec"),
    ],
)
def test_what_cannot_be_read_is_named(run_cli, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run_cli("sweep", path, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}{message}")
    assert run_cli("sweep", tmp_path / "no.json")[2] == f"error: there is no file {tmp_path / 'no.json'}\n"


def test_resume_needs_a_folder_with_a_sweep_to_go_on_with(run_cli, spec, tmp_path):
    assert "error: resume needs --out" in run_cli("sweep", spec(), "--resume")[2]
    code, _, err = run_cli("sweep", spec(), "--out", tmp_path / "none", "--resume")
    assert code == 2
    assert "no sweep to go on with" in err
    assert not (tmp_path / "none").exists()
