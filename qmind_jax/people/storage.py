"""Populations on disk: one file, with a version."""

import dataclasses
import json
import pathlib
import zipfile
from typing import Any

import numpy as np

from qmind_jax.people.answering import IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.mixed_trust import MixedTrust
from qmind_jax.people.order import (
    AnchoringOrder,
    BayesOrder,
    ProjectiveOrder,
    QuantumOrder,
    QuantumOrder4D,
    SaturatedOrder,
)
from qmind_jax.people.population import Person
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustQubit
from qmind_jax.people.walks import MarkovWalk, OpenSystemWalk, QuantumWalk

VERSION = 1

_FAMILIES = {
    family.__name__: family
    for family in (
        ProjectiveAnswers,
        IndependentAnswers,
        TrustQubit,
        MarkovTrust,
        BetaTrust,
        MixedTrust,
        QuantumOrder,
        QuantumOrder4D,
        BayesOrder,
        AnchoringOrder,
        SaturatedOrder,
        ProjectiveOrder,
        MarkovWalk,
        QuantumWalk,
        OpenSystemWalk,
    )
}


def save_people(path: str | pathlib.Path, people: Person) -> None:
    """Write a person or a population to a NumPy ``.npz`` file.

    Args:
        path: File to write; its ending must be ``.npz``.
        people: A person or population of one of the package's families.

    Raises:
        ValueError: If the file name does not end in ``.npz``.
        TypeError: If the family is not one of the package's.
    """
    path = pathlib.Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {path}")
    family = type(people).__name__
    if family not in _FAMILIES:
        raise TypeError(f"people must be of {sorted(_FAMILIES)}, got {family}")
    names = {field.name for field in dataclasses.fields(people)}
    arrays = {name: np.asarray(getattr(people, name)) for name in names & set(people._person_ndims)}
    labels = {name: getattr(people, name) for name in names - set(arrays)}
    header = json.dumps({"version": VERSION, "family": family, "labels": labels})
    np.savez(path, header=np.asarray(header), **arrays)


def load_people(path: str | pathlib.Path) -> Person:
    """Read what :func:`save_people` has written.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no file of people, or of a version that this package does not know.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of people at {path}")
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no file of people written by save_people") from error
    # The rest of the header may look different in another version. True == 1, but is no version.
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"{path} has version {version!r}; this package reads version {VERSION}")
    family, labels = header.get("family"), header.get("labels")
    known = isinstance(family, str) and family in _FAMILIES and isinstance(labels, dict)
    fields = {field.name for field in dataclasses.fields(_FAMILIES[family])} if known else set()
    if not known or set(arrays) | set(labels) != fields:
        raise ValueError(f"{path} is no file of people written by save_people: its content fits no family")
    return _FAMILIES[family](**arrays, **{name: _as_saved(value) for name, value in labels.items()})


def _as_saved(label: Any) -> Any:
    """JSON knows no tuples: all sequences among the labels of people are tuples."""
    return tuple(label) if isinstance(label, list) else label
