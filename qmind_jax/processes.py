"""One training by several processes, on one machine or many: joining them, and saying what went wrong.

The engine is ``jax.distributed``; every process runs the same command and owns a part of the devices.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental import multihost_utils

# JAX must join the other processes before its backend starts, and importing gymnax starts it. The command
# line therefore begins anew, in the right order.
_BEGIN = """
import sys, jax
address, number, own = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
jax.distributed.initialize(address, number, own, heartbeat_timeout_seconds={patience})
from qmind_jax.cli import main
main()
"""
_PATIENCE_SECONDS = 30


def join(coordinator: str | None, num_processes: int | None, process_id: int | None) -> None:
    """Join the processes of one job, by running this program's command line again from its start.

    Does nothing where no coordinator is named, and where the process has joined already.

    Args:
        coordinator: ``host:port`` where process 0 can be reached by the others.
        num_processes: How many processes there are.
        process_id: Number of this one, from 0.

    Raises:
        ValueError: If some of the three are missing or make no sense.
    """
    if coordinator is None and num_processes is None and process_id is None:
        return
    if coordinator is None or num_processes is None or process_id is None:
        raise ValueError("--coordinator, --num-processes and --process-id go together; give all three")
    host, separator, port = coordinator.rpartition(":")
    if not host or not separator or not port.isdigit():
        raise ValueError(f"coordinator must be written host:port, got {coordinator!r}")
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise ValueError(
            f"process_id must be from 0 to num_processes - 1, got process_id={process_id}, "
            f"num_processes={num_processes}"
        )
    if not jax.distributed.is_initialized():
        sys.stdout.flush()
        begin = _BEGIN.format(patience=_PATIENCE_SECONDS)
        own = [coordinator, str(num_processes), str(process_id)]
        os.execv(sys.executable, [sys.executable, "-c", begin, *own, *sys.argv[1:]])


def is_first() -> bool:
    """Whether this process is the one that writes and prints."""
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Go on when every process of the job has come here; ``what`` names the place."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


@contextmanager
def stop_together(how_to_resume: str) -> Iterator[None]:
    """End at once, and say how to go on, when one process of a job of several fails.

    A process that has died shows in the others as an error of whatever they were doing together.

    Args:
        how_to_resume: Command to show.
    """
    try:
        yield
    except Exception as error:
        if jax.process_count() == 1:
            raise
        reason = str(error).splitlines()[0]
        print(
            f"\nstopped: this process cannot go on, perhaps because another one has died ({reason})."
            f"\nThe checkpoints so far are kept. Start all processes again with\n  {how_to_resume}",
            file=sys.stderr,
            flush=True,
        )
        # Not sys.exit: on a regular exit JAX waits for the process that is no more.
        os._exit(3)
