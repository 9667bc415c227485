"""Training that is stopped and resumed ends as if it had never been stopped, bit for bit."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import handover_population
from qmind_jax.registry import make
from qmind_jax.training import PPOConfig, ppo
from qmind_jax.training.checkpoint import Checkpoints, _equal_part, train_with_checkpoints

PARTS, UPDATES_PER_PART = 3, 2


def tiny(network, **changes):
    """Six updates of a tiny agent; as in test_ppo.py, so that compilations are shared."""
    settings = {"total_steps": 336, "lanes": 8, "rollout_steps": 7, "epochs": 2, "minibatches": 2}
    return PPOConfig(**settings | {"network": network, "features": 8} | changes)


def key_of(seeds):
    return jax.random.key(1) if seeds is None else jax.random.split(jax.random.key(1), seeds)


@pytest.fixture(scope="module")
def task():
    return make("TrustHandover-v0", n_steps=5, people=handover_population(jax.random.key(9), 3))


@pytest.fixture(scope="module", params=[("gru", None), ("mlp", 2)], ids=["one gru", "two mlps"])
def uninterrupted(request, task, tmp_path_factory):
    """Network, number of seeds, folder and result of a training that nobody stopped."""
    network, seeds = request.param
    folder = tmp_path_factory.mktemp("uninterrupted")
    result = train_with_checkpoints(folder, key_of(seeds), *task, tiny(network), num_checkpoints=PARTS)
    return network, seeds, folder, result


def assert_same(got, expected):
    """Results with equal arrays, bit for bit, keys and counters included."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for (path, left), right in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        assert left.dtype == right.dtype
        if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
            left, right = jax.random.key_data(left), jax.random.key_data(right)
        np.testing.assert_array_equal(left, right, jax.tree_util.keystr(path))


def saved_updates(folder):
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def stop_after(monkeypatch, parts):
    """Let training be stopped, as by Ctrl-C, when it wants to save for one more time than ``parts``."""
    save, saved = Checkpoints.save, []

    def save_or_stop(self, runner, metrics):
        if len(saved) == parts:
            raise KeyboardInterrupt
        save(self, runner, metrics)
        saved.append(int(runner.update.max()))

    monkeypatch.setattr(Checkpoints, "save", save_or_stop)


def test_parts_with_checkpoints_are_the_same_training_without(uninterrupted, task):
    network, seeds, _, result = uninterrupted
    config = tiny(network)
    runner, parts = ppo.start(key_of(seeds), *task, config), []
    for _ in range(PARTS):
        runner, metrics = ppo.advance(runner, *task, config, num_updates=UPDATES_PER_PART)
        parts.append(metrics)
    assert_same(result.runner, runner)
    assert_same(result.metrics, jax.tree.map(lambda *m: jnp.concatenate(m, axis=-1), *parts))
    assert_same(result.policy, ppo.policy_of(runner, *task, config))
    lead = () if seeds is None else (seeds,)
    assert result.metrics["return"].shape == (*lead, config.num_updates)


@pytest.mark.parametrize("parts", [1, 2])
def test_stopped_and_resumed_is_the_same_bit_for_bit(uninterrupted, task, parts, tmp_path, monkeypatch):
    network, seeds, _, expected = uninterrupted
    arguments = (tmp_path, key_of(seeds), *task, tiny(network))
    with monkeypatch.context() as patch:
        stop_after(patch, parts)
        with pytest.raises(KeyboardInterrupt):
            train_with_checkpoints(*arguments, num_checkpoints=PARTS)
    assert max(saved_updates(tmp_path)) == parts * UPDATES_PER_PART
    assert_same(train_with_checkpoints(*arguments, num_checkpoints=PARTS), expected)


def test_without_the_newest_checkpoint_training_goes_on_from_the_one_before(uninterrupted, task, tmp_path):
    network, seeds, folder, expected = uninterrupted
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "6")
    arguments = (tmp_path / "copy", key_of(seeds), *task, tiny(network))
    assert_same(train_with_checkpoints(*arguments, num_checkpoints=PARTS), expected)


def test_a_finished_training_is_read_and_not_done_again(uninterrupted, task, monkeypatch):
    network, seeds, folder, expected = uninterrupted
    stop_after(monkeypatch, 0)
    arguments = (folder, key_of(seeds), *task, tiny(network))
    assert_same(train_with_checkpoints(*arguments, num_checkpoints=PARTS), expected)


def test_the_two_newest_checkpoints_are_kept(uninterrupted):
    _, _, folder, _ = uninterrupted
    assert saved_updates(folder) == [4, 6]
    checkpoints = Checkpoints(folder)
    assert checkpoints.latest == 6
    checkpoints.close()


def shapes_of(seeds, env, params, config):
    """What a checkpoint of all updates holds; nothing is computed."""

    def whole_training():
        runner = ppo.start(key_of(seeds), env, params, config)
        return ppo.advance(runner, env, params, config, num_updates=config.num_updates)

    return jax.eval_shape(whole_training)


def test_shapes_are_enough_to_restore(uninterrupted, task):
    network, seeds, folder, expected = uninterrupted
    checkpoints = Checkpoints(folder)
    runner, metrics = checkpoints.restore(shapes_of(seeds, *task, tiny(network)))
    checkpoints.close()
    assert_same(runner, expected.runner)
    assert_same(metrics, expected.metrics)


@pytest.fixture(scope="module")
def two_mlps(task, tmp_path_factory):
    """Folder with a checkpoint of two feed-forward agents that is all zeros."""
    folder = tmp_path_factory.mktemp("two_mlps")
    shapes = shapes_of(2, *task, tiny("mlp"))
    runner, metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    checkpoints = Checkpoints(folder)
    checkpoints.save(runner.replace(update=runner.update + 6), metrics)
    checkpoints.close()
    return folder


@pytest.mark.parametrize(
    "difference", ["wider network", "other network", "more lanes", "one seed", "more seeds", "other task"]
)
def test_a_checkpoint_of_a_run_with_other_shapes_is_refused_with_its_folder(task, difference, two_mlps):
    folder = two_mlps
    seeds, config, (env, params) = 2, tiny("mlp"), task
    if difference == "wider network":
        config = tiny("mlp", features=16)
    elif difference == "other network":
        config = tiny("gru")
    elif difference == "more lanes":
        config = tiny("mlp", lanes=16, total_steps=672)
    elif difference == "one seed":
        seeds = None
    elif difference == "more seeds":
        seeds = 3
    else:
        env, params = make("Clarification-v0")
    checkpoints = Checkpoints(folder)
    with pytest.raises(ValueError, match=r"is of a run with other shapes") as error:
        checkpoints.restore(shapes_of(seeds, env, params, config))
    checkpoints.close()
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 500
    assert saved_updates(folder) == [6]


def test_an_empty_folder_has_no_checkpoint_to_restore(task, tmp_path):
    checkpoints = Checkpoints(tmp_path / "new" / "folder")
    assert checkpoints.latest is None
    with pytest.raises(FileNotFoundError, match=r"no checkpoint in .*folder"):
        checkpoints.restore(shapes_of(None, *task, tiny("mlp")))
    checkpoints.close()


@pytest.mark.parametrize(
    ("total", "num_parts", "part"),
    [(6, 3, 2), (6, 1, 6), (6, 6, 1), (6, 100, 1), (6, 5, 2), (195, 10, 39), (97, 10, 97), (1, 10, 1)],
)
def test_parts_are_equal_and_no_more_than_asked_for(total, num_parts, part):
    assert _equal_part(total, num_parts) == part
    assert total % part == 0
    assert total // part <= num_parts
