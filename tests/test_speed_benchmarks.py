"""The benchmarks of speed and memory measure what they say."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import floors, gpu, memory, throughput
from benchmarks.floors import FreeChoices, FreeNoise
from qmind_jax import make
from qmind_jax.rollouts import Lanes, Rollout, rollout

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def rows():
    """Every way of stepping a hand-over in two lanes for three steps, measured twice."""
    case = throughput.cases(quick=True)[0]
    rows = [throughput.peer_row(case, 3)]
    rows += [throughput.our_row(case, way, 2, 3) for way in throughput.WAYS[1:]]
    throughput.measure(rows, 2)
    return rows


def test_every_way_is_timed_as_often(rows):
    assert [row.way for row in rows] == list(throughput.WAYS)
    for row in rows:
        record = row.record()
        assert record["repeats"] == 2
        median, least, most = record["ns_per_step"]
        assert 0 < least <= median <= most
        assert (record["compile_seconds"] > 0) == (row.way != throughput.PEER)


def test_the_table_compares_rollouts_with_everything_else(rows):
    table = throughput.ratio_table(rows)
    assert table.row_count == 1
    cells = {column.header: next(column.cells) for column in table.columns}
    ours = next(row for row in rows if row.way == throughput.ROLLOUT)
    peer = next(row for row in rows if row.way == throughput.PEER)
    ratio = peer.nanoseconds(peer.seconds)[0] / ours.nanoseconds(ours.seconds)[0]
    assert cells["vs quantum-mind"] == f"{ratio:,.1f}x"
    assert all(cells[way] for way in throughput.WAYS)


@pytest.mark.parametrize("number", range(3))
def test_the_plain_environments_are_the_same_tasks(number):
    """Under a random policy, rewards, lengths and what is seen agree with ours, to four standard errors."""
    case = throughput.cases(quick=True)[number]
    lanes, steps = 4096, 25
    plain, num_actions = case.plain(), case.env.action_space(case.params).n

    def play(reset, step):
        def one(carry, key):
            state, observation = carry
            key_action, key_step = jax.random.split(key)
            action = jax.random.randint(key_action, (), 0, num_actions)
            observation, state, reward, terminated, truncated, info = step(
                key_step, state, action, case.params
            )
            return (state, observation), (reward, terminated | truncated, info["final_observation"])

        def lane(key):
            key, key_reset = jax.random.split(key)
            observation, state = reset(key_reset, case.params)
            return jax.lax.scan(one, (state, observation), jax.random.split(key, steps))[1]

        return jax.jit(jax.vmap(lane))

    ours = play(case.env.reset, case.env.step)(jax.random.split(jax.random.key(0), lanes))
    theirs = play(plain.reset, plain.step)(jax.random.split(jax.random.key(1), lanes))
    for our, their in zip(ours, theirs, strict=True):
        for values in (np.asarray(our, float), np.asarray(their, float)):
            assert np.std(values) > 0.1
        a, b = (np.asarray(values, float).reshape(lanes, steps, -1).mean(axis=1) for values in (our, their))
        error = np.hypot(a.std(axis=0), b.std(axis=0)) / np.sqrt(lanes)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) <= 4.0 * error + 1e-6)


def test_free_numbers_fill_the_interval_and_change_from_step_to_step():
    keys = jax.random.split(jax.random.key(0))
    first, second = (np.asarray(floors.free_uniforms(key, 1000)) for key in keys)
    for numbers in (first, second):
        assert np.all((numbers >= 0.0) & (numbers < 1.0))
        assert np.histogram(numbers, 10, (0.0, 1.0))[0].min() > 90
    assert not np.any(first == second)


def test_free_noise_plays_the_same_task():
    env, params = make("TrustHandover-v0")
    result = jax.jit(lambda key: rollout(FreeNoise(env), params, FreeChoices(4), key, 64, 40))(
        jax.random.key(0)
    )
    np.testing.assert_array_equal(result.episodes, 2)
    assert np.all(np.isfinite(result.reward))
    assert np.unique(result.reward).size > 10


def test_the_least_that_can_be_done_to_a_state():
    state = {"count": jnp.zeros(5, jnp.int32), "belief": jnp.zeros((5, 3)), "over": jnp.zeros(5, bool)}
    columns = floors.multiply_and_add(state, 4)(jax.random.key(0))
    assert sorted(str(column.dtype) for column in columns) == [
        "bool",
        "float32",
        "float32",
        "float32",
        "int32",
    ]
    assert {column.shape for column in columns} == {(5,)}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_is_that_of_the_rollout():
    # In a process of its own: here memory that was freed before would be used again, and nothing added.
    command = [sys.executable, "-m", "benchmarks.memory", "--people", "1000", "--lanes", "400000"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT, check=True)
    trust, clarification = (json.loads(line) for line in ran.stdout.splitlines())
    assert (trust["bytes_per_person"], clarification["bytes_per_person"]) == (16.0, 240.0)
    for row in (trust, clarification):
        assert 0.6 < row["bytes_per_lane_measured"] / row["bytes_per_lane_said"] < 1.3


@pytest.mark.parametrize("name", ["people", "lanes"])
def test_memory_needs_somebody(name):
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        memory.Config(**{name: 0})


def test_the_check_of_an_accelerator_runs_everywhere():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        gpu.main(gpu.Config(quick=True))
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["check"] for row in rows if row["check"] != "agreement"] == ["throughput"] * 2 + [
        "training"
    ] * 2
    assert all(row["steps_per_second"] > 0 for row in rows if row["check"] != "agreement")


def test_courses_that_differ_are_counted():
    lanes = Lanes((), ())
    here = Rollout(lanes, jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1, 1, 1, 1]), None)
    assert gpu.share_of_other_courses(here, here) == 0.0
    assert gpu.share_of_other_courses(here, here.replace(reward=here.reward.at[1].add(1e-5))) == 0.0
    assert gpu.share_of_other_courses(here, here.replace(reward=here.reward.at[1].add(1.0))) == 0.25
    assert gpu.share_of_other_courses(here, here.replace(episodes=here.episodes.at[2].set(2))) == 0.25


def test_the_same_lanes_run_on_both_devices():
    _, env, params = gpu.tasks()[0]
    row = gpu.agreement("TrustHandover-v0", env, params, gpu.Config(powers=(6,), steps=10))
    assert row["lanes_with_another_course"] < 0.05
    assert row["mean_reward_cpu"] < 0.0
