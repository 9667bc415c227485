"""Training spread over several devices: lanes along one axis of a mesh, seeds along the other.

Nothing in the algorithm changes: the whole training stays one program over all lanes, and XLA divides it,
adding the communication that averages gradients. Lanes therefore meet the same people with the same luck
whatever the number of devices, and trained weights differ by the rounding of sums alone.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SEEDS, LANES = "seeds", "lanes"


def training_mesh(seed_devices: int = 1, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of devices with the axes ``"seeds"`` and ``"lanes"``.

    Args:
        seed_devices: How many parts the seeds are divided into; each part has its own devices, among which
            its lanes are divided. Must divide the number of devices.
        devices: The devices, of all processes; all there are if None.

    Raises:
        ValueError: If ``seed_devices`` does not divide the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    if seed_devices < 1 or len(devices) % seed_devices:
        raise ValueError(
            f"seed_devices must divide the number of devices, {len(devices)}, got {seed_devices}"
        )
    return Mesh(np.array(devices).reshape(seed_devices, -1), (SEEDS, LANES))


def widest_mesh(seeds: int, lanes: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """The mesh of the most devices that seeds and lanes can be divided among evenly.

    Seeds are divided first: they have nothing to tell each other, while lanes average their gradients.

    Args:
        seeds: Number of agents.
        lanes: Number of lanes of each.
        devices: As in :func:`training_mesh`.
    """
    devices = jax.devices() if devices is None else devices
    return next(
        training_mesh(parts, devices[:number])
        for number in range(len(devices), 0, -1)
        for parts in range(number, 0, -1)
        if number % parts == 0 and seeds % parts == 0 and lanes % (number // parts) == 0
    )


def runner_shardings(runner: Any, mesh: Mesh) -> Any:
    """Where each array of a training state lives.

    Args:
        runner: A training state (:class:`qmind_jax.training.ppo.Runner`), or its shapes.
        mesh: From :func:`training_mesh`.

    Returns:
        The runner with a ``NamedSharding`` in place of every array: what belongs to lanes is divided by
        seeds and lanes, weights and optimiser by seeds alone.

    Raises:
        ValueError: If the mesh does not divide the seeds or the lanes evenly.
    """
    many = len(runner.update.shape) == 1
    seeds = runner.update.shape[0] if many else 1
    lanes = runner.progress.reset.shape[-1]
    for name, number in ((SEEDS, seeds), (LANES, lanes)):
        if number % mesh.shape[name]:
            raise ValueError(f"{number} {name} cannot be divided evenly among {mesh.shape[name]} devices")
    by_seed = (SEEDS,) if many else ()

    def place(tree: Any, *axes: str) -> Any:
        return jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec(*by_seed, *axes)), tree)

    return place(runner).replace(progress=place(runner.progress, LANES))


def replicated(mesh: Mesh) -> NamedSharding:
    """A full copy on every device of the mesh."""
    return NamedSharding(mesh, PartitionSpec())


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Copy every array to every device of the mesh, so that every process can read it."""
    return jax.jit(lambda tree: tree, out_shardings=replicated(mesh))(tree)
