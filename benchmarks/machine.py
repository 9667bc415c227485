"""What a row of a benchmark says of the machine."""

import os
import platform

import jax


def device_name() -> str:
    """The kind of JAX's first device, with the processor's architecture if that is a CPU."""
    device = jax.devices()[0]
    return f"cpu {platform.machine()}" if device.platform == "cpu" else device.device_kind


def threads() -> int | None:
    """How many threads XLA may use on the CPU: ``NPROC``, or else all there are."""
    if "NPROC" in os.environ:
        return int(os.environ["NPROC"])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
