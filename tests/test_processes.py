"""One training by two processes: the same agent as by one, and no work lost when one of them dies."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qmind_jax import processes

COMMAND = [sys.executable, "-m", "qmind_jax", "train", "TrustHandover-v0"]
RUN = ["--people", "published", "--seeds", "1", "--steps", "12000", "--episodes", "2"]
SIZE = ["--ppo", "lanes=4", "features=8", "minibatches=2", "rollout_steps=4"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Environment of the processes: one device each, and a cache of compilations for all of them."""
    cache = tmp_path_factory.mktemp("cache")
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def launch(arguments, folder, environment):
    """Two processes of one job; their standard error is in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = []
    for number in range(2):
        job = ["--coordinator", address, "--num-processes", "2", "--process-id", str(number)]
        with (folder / f"process_{number}.log").open("w") as log:
            command = [*COMMAND, *job, *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    return started


def finish(started, folder):
    """Wait for all, and assert that they have succeeded."""
    try:
        for number, process in enumerate(started):
            code = process.wait(timeout=240)
            assert code == 0, (folder / f"process_{number}.log").read_text()[-3000:]
    finally:
        for process in started:
            process.kill()


def history(run):
    return dict(np.load(run / "metrics.npz"))


@pytest.mark.timeout(900)
def test_a_job_survives_the_death_of_a_process_and_ends_as_one_process_would(environment, tmp_path):
    two_devices = {**environment, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    alone = tmp_path / "alone"
    command = [*COMMAND, "--out", str(alone), *RUN, *SIZE]
    done = subprocess.run(command, env=two_devices, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]

    together = tmp_path / "together"
    first, second = launch(["--out", str(together), *RUN, *SIZE], tmp_path, environment)
    try:
        limit = time.monotonic() + 240
        while not list(together.glob("checkpoints/[0-9]*")):
            assert time.monotonic() < limit and second.poll() is None, "no checkpoint in time"
            time.sleep(0.01)
        second.kill()
        code = first.wait(timeout=120)
    finally:
        first.kill()
        second.kill()
    said = (tmp_path / "process_0.log").read_text()
    assert code == 3, said[-3000:]
    assert "stopped: this process cannot go on, perhaps because another one has died" in said
    assert f"train TrustHandover-v0 --out {together} --resume" in said
    assert not (together / "summary.json").exists(), "the job was to be stopped before its end"

    finish(launch(["--out", str(together), "--resume", "--episodes", "2"], tmp_path, environment), tmp_path)
    got, expected = history(together), history(alone)
    assert got.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert (Path(together) / "summary.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("here:1", 2, None), "go together"),
        ((None, 2, 0), "go together"),
        (("here", 2, 0), "coordinator must be written host:port, got 'here'"),
        (("here:x", 2, 0), "coordinator must be written host:port, got 'here:x'"),
        (("here:1", 2, 2), "process_id must be from 0 to num_processes - 1, got process_id=2"),
        (("here:1", 0, 0), "process_id must be from 0 to num_processes - 1"),
    ],
)
def test_mistakes_in_joining_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        processes.join(*arguments)


def test_alone_there_is_nothing_to_join():
    processes.join(None, None, None)
    assert processes.is_first()
    processes.wait_for_all("here")
