"""What to sweep, as a small file in JSON or TOML says it."""

import dataclasses
import json
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from qmind_jax.evaluation.sweep_grid import PEOPLE
from qmind_jax.names import unknown
from qmind_jax.people.ratings.fit import TrustFamily
from qmind_jax.registry import REGISTRY

_RANGE = {"from", "to", "number"}


@dataclasses.dataclass(frozen=True)
class SweepSpec:
    """What a file says; every field but three may be left out.

    Attributes:
        environment: Environment id.
        axes: Values of each parameter, by name; see :func:`~qmind_jax.evaluation.sweep`.
        policies: Names of untrained policies, as the tables of the command line have them.
        episodes: Per point and policy.
        seed: Of everything random.
        optimum: Whether to compute the exact optimum and the regret.
        params: Other parameters of the environment.
        people: Whom to meet, as ``--people`` of the command ``train``, but no file of ratings;
            ``"published"`` for the person of the environment.
        num_people: Size of a population that is drawn.
        family: Family of trusting people that are drawn.
    """

    environment: str
    axes: Mapping[str, tuple[float, ...]]
    policies: tuple[str, ...]
    episodes: int = 1000
    seed: int = 0
    optimum: bool = False
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    people: str = "published"
    num_people: int = 100
    family: TrustFamily = "qubit"


def load_spec(path: pathlib.Path) -> SweepSpec:
    """Read a file in JSON or TOML.

    An axis is a list of numbers or ``{from, to, number}`` for equal steps. TOML may write ``people.gamma``
    with or without quotes.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no description of a sweep; the message names the file and the key.
    """
    content = _read(path)
    try:
        fields = {field.name: field for field in dataclasses.fields(SweepSpec)}
        for name in content:
            if name not in fields:
                raise ValueError(unknown("key", name, fields))
        for name, field in fields.items():
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and name not in content:
                raise ValueError(f"key {name!r} is missing; needed are environment, axes and policies")
        return SweepSpec(**{name: _READERS[name](name, value) for name, value in content.items()})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix not in (".json", ".toml"):
        raise ValueError(f"{path} must end in .json or .toml")
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold keys and values, got {content!r}")
    return content


def _axes(key: str, value: Any) -> dict[str, tuple[float, ...]]:
    if not isinstance(value, dict):
        raise ValueError(f"{key} must map parameters to numbers, got {value!r}")
    # In TOML people.gamma without quotes is a table in a table.
    nested = value.get("people")
    flat = {name: values for name, values in value.items() if name != "people"}
    if isinstance(nested, dict):
        flat |= {PEOPLE + name: values for name, values in nested.items()}
    elif nested is not None:
        raise ValueError(f"{key}.people must name a parameter of people, such as people.gamma")
    return {name: _numbers(f"{key}.{name}", values) for name, values in flat.items()}


def _numbers(key: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, dict):
        if set(value) != _RANGE:
            raise ValueError(f"{key} must be a list of numbers or have the keys from, to and number")
        number = _whole(f"{key}.number", value["number"])
        low, high = _numbers(f"{key}.from and {key}.to", [value["from"], value["to"]])
        if number < 2:
            raise ValueError(f"{key}.number must be at least 2, got {number}")
        return tuple(np.linspace(low, high, number).tolist())
    if not isinstance(value, list) or not value or not all(map(_is_number, value)):
        raise ValueError(f"{key} must be a list of numbers, got {value!r}")
    return tuple(map(float, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{key} must be an integer, got {value!r}")
    return value


def _count(key: str, value: Any) -> int:
    smallest = {"episodes": 2, "num_people": 1}[key]
    if _whole(key, value) < smallest:
        raise ValueError(f"{key} must be at least {smallest}, got {value}")
    return value


def _yes_or_no(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, got {value!r}")
    return value


def _words(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{key} must be a list of names, got {value!r}")
    if len(set(value)) < len(value):
        raise ValueError(f"{key} must hold every name once, got {value!r}")
    return tuple(value)


def _environment(key: str, value: Any) -> str:
    if value not in list(REGISTRY):
        raise ValueError(f"{key}: {unknown('environment id', str(value), REGISTRY)}")
    return value


def _params(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(map(_is_number, value.values())):
        raise ValueError(f"{key} must map parameters to numbers, got {value!r}")
    if "people" in value:
        raise ValueError(f"{key} cannot hold people: they have a key of their own")
    return value


def _people(key: str, value: Any) -> str:
    if not isinstance(value, str) and not (_is_number(value) and isinstance(value, int)):
        kinds = "a number, 'published', a preset or a file ending in .npz"
        raise ValueError(f"{key} must be {kinds}, got {value!r}")
    return str(value)


def _family(key: str, value: Any) -> str:
    if value not in get_args(TrustFamily):
        raise ValueError(f"{key}: {unknown('family', str(value), get_args(TrustFamily))}")
    return value


_READERS = {
    "environment": _environment,
    "axes": _axes,
    "policies": _words,
    "episodes": _count,
    "seed": _whole,
    "optimum": _yes_or_no,
    "params": _params,
    "people": _people,
    "num_people": _count,
    "family": _family,
}
