"""The door of the command line: ``python -m qmind_jax``."""

import os
import pathlib
import sys

import jax
import tyro
from rich.table import Table

from qmind_jax.commands import output
from qmind_jax.commands.fit import fit
from qmind_jax.commands.sweep import sweep
from qmind_jax.commands.train import evaluate, train
from qmind_jax.commands.tune import tune
from qmind_jax.registry import REGISTRY


def list_environments() -> None:
    """List the environments."""
    table = Table("environment", "what it is", title="qmind_jax environments")
    for env_id, registration in REGISTRY.items():
        table.add_row(env_id, registration.summary)
    output.console.print(table)


def main() -> None:
    """Run the command line; a mistake of the user ends in one clear line, not in a traceback."""
    _keep_compilations()
    commands = {
        "fit": fit,
        "train": train,
        "tune": tune,
        "evaluate": evaluate,
        "sweep": sweep,
        "list": list_environments,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m qmind_jax")
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _keep_compilations() -> None:
    """Let JAX find again what it has compiled in an earlier run, unless the user has chosen a folder."""
    if jax.config.jax_compilation_cache_dir is None:
        root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(root) / "qmind_jax"))
