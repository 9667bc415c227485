"""Training and stepping over several devices: the same lanes, the same episodes, the same agent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, ppo
from qmind_jax.training.sharding import runner_shardings, training_mesh

WORKER = """
import json, sys
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, train
from qmind_jax.training.checkpoint import Checkpoints
from qmind_jax.training.sharding import training_mesh

folder = sys.argv[1]
env, params = make("TrustHandover-v0", n_steps=5)
config = PPOConfig(total_steps=3 * 56, lanes=8, rollout_steps=7, epochs=1, minibatches=2, features=8)
keys = jax.random.split(jax.random.key(1), 2)

def numbers(result):
    weights = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(result.policy.variables)]
    return {
        "return": np.asarray(result.metrics["return"]).tolist(),
        "episodes": np.asarray(result.metrics["episodes"]).tolist(),
        "weights": np.concatenate(weights).tolist(),
        "devices": len(result.runner.progress.reset.sharding.device_set),
    }

two, four = training_mesh(1, jax.devices()[:2]), training_mesh(2)
trained = {
    "alone": train(keys, env, params, config),
    "two": train(keys, env, params, config, mesh=two),
    "four": train(keys, env, params, config, mesh=four),
}
results = {name: numbers(result) for name, result in trained.items()}

checkpoints = Checkpoints(folder)
checkpoints.save(trained["two"].runner, trained["two"].metrics)
runner, metrics = checkpoints.restore((trained["four"].runner, trained["four"].metrics))
checkpoints.close()
results["moved"] = {
    "devices": len(runner.progress.reset.sharding.device_set),
    "same": all(
        np.array_equal(got, saved)
        for got, saved in zip(
            jax.tree.leaves((runner.replace(key=0), metrics)),
            jax.tree.leaves((trained["two"].runner.replace(key=0), trained["two"].metrics)),
            strict=True,
        )
    ),
}

def steps(mesh):
    obs, state = env.reset_batch(keys[0], params, 16)
    action = jnp.arange(16) % 4
    if mesh is not None:
        place = NamedSharding(mesh, PartitionSpec("lanes"))
        state, action = jax.tree.map(lambda x: jax.device_put(x, place), (state, action))
    for key in jax.random.split(keys[1], 7):
        obs, state, reward, *_ = env.step_batch(key, state, action, params)
    return np.asarray(obs).tolist(), np.asarray(state.z).tolist(), np.asarray(reward).tolist()

results["steps"] = [steps(None), steps(two), steps(training_mesh())]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process with four devices computes on one, on two and on all of them."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    folder = tmp_path_factory.mktemp("sharded") / "checkpoints"
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(folder)],
        env=environment,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "devices"), [("two", 2), ("four", 4)])
def test_training_is_the_same_on_any_number_of_devices(results, name, devices):
    alone, spread = results["alone"], results[name]
    assert spread["devices"] == devices
    assert spread["episodes"] == alone["episodes"]
    np.testing.assert_allclose(spread["return"], alone["return"], rtol=1e-5)
    np.testing.assert_allclose(spread["weights"], alone["weights"], rtol=1e-4, atol=1e-5)


def test_a_checkpoint_can_be_restored_to_other_devices(results):
    assert results["moved"] == {"devices": 4, "same": True}


def test_lanes_have_the_same_episodes_on_any_number_of_devices(results):
    alone, two, four = results["steps"]
    assert alone == two == four


def test_what_cannot_be_divided_evenly_is_refused():
    with pytest.raises(ValueError, match="seed_devices must divide the number of devices, 1, got 2"):
        training_mesh(2, jax.devices()[:1])
    env, params = make("TrustHandover-v0")
    config = PPOConfig(total_steps=1000, lanes=6, minibatches=2, features=8)
    runner = jax.eval_shape(lambda key: ppo.start(key, env, params, config), jax.random.key(0))
    mesh = jax.sharding.AbstractMesh((1, 4), ("seeds", "lanes"))
    with pytest.raises(ValueError, match="6 lanes cannot be divided evenly among 4 devices"):
        runner_shardings(runner, mesh)
