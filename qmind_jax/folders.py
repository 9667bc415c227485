"""Folders of results: named by what and when, and never overwritten."""

import datetime
import pathlib


def new_folder(parent: str, name: str) -> pathlib.Path:
    """A folder under ``parent`` that does not exist yet, named by ``name`` and time."""
    return pathlib.Path(parent) / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def check_new(folder: pathlib.Path) -> None:
    """Raise ``FileExistsError`` if the folder exists; nothing is ever overwritten."""
    if folder.exists():
        raise FileExistsError(f"{folder} exists already; choose another --out")
