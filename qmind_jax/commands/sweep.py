"""The command ``sweep``."""

import pathlib
import shlex
import sys
from typing import Annotated

import tyro

from qmind_jax import sweeps
from qmind_jax.commands import output
from qmind_jax.folders import new_folder
from qmind_jax.sweep_specs import load_spec


def sweep(
    spec: Annotated[pathlib.Path, tyro.conf.Positional],
    out: pathlib.Path | None = None,
    resume: bool = False,
) -> None:
    """Evaluate policies over a grid of people and costs; save a table and a heat map.

    Args:
        spec: File in TOML or JSON: environment, axes (lists of numbers, or from, to and number), policies
            (names as in the tables of the command train); and if wanted episodes, seed, optimum (true: the
            regret too), params, people, num_people, family.
        out: Folder of the sweep; must not exist yet. By default a new one under sweeps/.
        resume: Go on with the interrupted sweep in --out.
    """
    if resume and out is None:
        raise ValueError("resume needs --out, the folder of the sweep to go on with")
    described = load_spec(spec)
    folder = out or new_folder("sweeps", described.environment)
    try:
        table = sweeps.run(spec, described, folder, resume=resume)
    except KeyboardInterrupt:
        command = f"sweep {shlex.quote(str(spec))} --out {shlex.quote(str(folder))} --resume"
        advice = f"; what is done is kept. Go on with\n  python -m qmind_jax {command}"
        print(f"\nstopped{advice if folder.exists() else ' before anything was done'}")
        sys.exit(130)
    output.print_sweep(table, f"{described.environment}: {described.episodes:,} episodes per row")
    for path in sweeps.files_in(folder):
        print(f"  {path}")
