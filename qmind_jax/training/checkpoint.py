"""Training that survives an interruption: checkpoints with orbax, resumed bit for bit."""

import logging
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from qmind_jax.environment import Environment
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.ppo import Metrics, Report, Runner, TrainResult, advance, policy_of, start, start_on
from qmind_jax.training.sharding import replicate, replicated


class Checkpoints:
    """The checkpoints of one run, in one folder; the newest two are kept.

    Args:
        folder: Where they are; created if missing.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        # Imported here: it takes seconds, and only runs that save need it.
        import orbax.checkpoint as orbax

        logging.getLogger("absl").setLevel(logging.ERROR)
        self._orbax = orbax
        self._manager = orbax.CheckpointManager(
            pathlib.Path(folder).resolve(),
            item_handlers=orbax.StandardCheckpointHandler(),
            options=orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False),
        )

    @property
    def latest(self) -> int | None:
        """Number of updates done in the newest checkpoint, None if there is none."""
        return self._manager.latest_step()

    def save(self, runner: Runner, metrics: Metrics) -> None:
        """Write the state of training and the metrics so far."""
        tree = {"runner": _plain(runner), "metrics": metrics}
        self._manager.save(runner.updates_done, args=self._orbax.args.StandardSave(tree))
        self._manager.wait_until_finished()

    def restore(self, like: tuple[Runner, Metrics]) -> tuple[Runner, Metrics]:
        """Read the newest checkpoint.

        Args:
            like: A runner and metrics of the same structure, arrays or shapes; they also say on which
                devices the result will be.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If the checkpoint is of a run with other shapes.
        """
        if self.latest is None:
            raise FileNotFoundError(f"no checkpoint in {self._manager.directory}")
        runner, metrics = like
        shapes = jax.tree.map(
            lambda stored, x: jax.ShapeDtypeStruct(stored.shape, stored.dtype, sharding=x.sharding),
            {"runner": jax.eval_shape(_plain, runner), "metrics": metrics},
            {"runner": runner, "metrics": metrics},
        )
        # Compared beforehand: orbax fails in the middle of reading, and leaves coroutines that complain.
        stored, wanted = _shapes_by_name(self._manager.item_metadata(self.latest)), _shapes_by_name(shapes)
        for name in sorted(stored.keys() | wanted.keys()):
            there, here = stored.get(name, "missing"), wanted.get(name, "missing")
            if there != here:
                raise ValueError(
                    f"the checkpoint in {self._manager.directory} is of a run with other shapes: {name} is "
                    f"{there} there and {here} here"
                )
        tree = self._manager.restore(self.latest, args=self._orbax.args.StandardRestore(shapes))
        key = jax.random.wrap_key_data(tree["runner"].key, impl=_implementation(runner.key.dtype))
        return tree["runner"].replace(key=key), tree["metrics"]

    def close(self) -> None:
        """Release the folder."""
        self._manager.close()


def train_with_checkpoints(
    folder: str | pathlib.Path,
    key: jax.Array,
    env: Environment,
    params: Any,
    config: PPOConfig,
    *,
    num_checkpoints: int = 10,
    mesh: Mesh | None = None,
    report: Report | None = None,
) -> TrainResult:
    """:func:`~qmind_jax.training.ppo.train` in parts, saved after each; goes on where it was stopped.

    Args:
        folder: Folder of the checkpoints. If it holds some already, of the same arguments, training
            goes on from the newest and ends as if it had never been stopped, bit for bit.
        key: Typed JAX random key, or an array of them, one per seed.
        env: The environment, unwrapped.
        params: Its parameters.
        config: Hyper-parameters.
        num_checkpoints: At most so many parts; parts are equal, so that one compilation does for all.
        mesh: As in ``train``; with several processes, each makes this call, and they save together. A
            checkpoint can be resumed on other devices.
        report: As in ``train``.
    """
    part = _equal_part(config.num_updates, num_checkpoints)
    checkpoints = Checkpoints(folder)
    try:
        runner = start(key, env, params, config) if mesh is None else start_on(mesh, key, env, params, config)
        history: list[Metrics] = []
        if checkpoints.latest is not None:
            _, shapes = jax.eval_shape(
                lambda r: advance(r, env, params, config, num_updates=checkpoints.latest), runner
            )
            if mesh is not None:
                shapes = jax.tree.map(lambda x: x.update(sharding=replicated(mesh)), shapes)
            runner, metrics = checkpoints.restore((runner, shapes))
            history.append(metrics)
        while (left := config.num_updates - runner.updates_done) > 0:
            # Fewer only where an earlier call has saved at other places.
            some = min(part, left)
            runner, metrics = advance(runner, env, params, config, num_updates=some, report=report)
            metrics = metrics if mesh is None else replicate(metrics, mesh)
            history = [_join([*history, metrics])]
            checkpoints.save(runner, history[0])
    finally:
        checkpoints.close()
    return TrainResult(policy_of(runner, env, params, config), history[0], runner)


def _implementation(key_dtype: Any) -> str:
    """Name of the generator that typed keys of this dtype belong to."""
    names = ("threefry2x32", "rbg", "unsafe_rbg")
    return next(name for name in names if jax.random.key(0, impl=name).dtype == key_dtype)


def _equal_part(total: int, num_parts: int) -> int:
    """The smallest divisor of ``total`` that makes at most ``num_parts`` parts."""
    return next(part for part in range(1, total + 1) if total % part == 0 and total // part <= num_parts)


def _join(history: list[Metrics]) -> Metrics:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=-1), *history)


def _plain(runner: Runner) -> Runner:
    """The runner with the words of its key in place of the key, which is easier to store."""
    return runner.replace(key=jax.random.key_data(runner.key))


def _shapes_by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    """Shape of every array of a tree, by a name that is the same for dataclasses and dictionaries."""

    def name(path: tuple[Any, ...]) -> str:
        keys = (getattr(key, "name", getattr(key, "key", getattr(key, "idx", key))) for key in path)
        return ".".join(map(str, keys))

    return {name(path): tuple(leaf.shape) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
