"""Counts of two questions asked in both orders: reading and checking a file of them."""

import json
import pathlib

import numpy as np

from qmind_jax.people.counts import check_counts

_EXPECTED = 'an object such as {"AB": [yes-yes, yes-no, no-yes, no-no], "BA": [...]}'


def load_order_table(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """Read counts of the answers to two yes/no questions from a JSON file.

    The file is UTF-8 and holds ``{"AB": counts, "BA": counts}``: the numbers of people who answered yes-yes,
    yes-no, no-yes and no-no when question A came first, and when B came first. The first answer is always
    that to the question asked first.

    Args:
        path: The file.

    Returns:
        Counts by condition, float64 of shape ``(4,)``, as fits of order families take them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not such a table. The message names the file, the place and what was
            expected.
    """
    path = pathlib.Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}; expected a JSON file with {_EXPECTED}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8; expected {_EXPECTED}") from error
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}; expected {_EXPECTED}"
        ) from error
    try:
        return check_counts(table, {"AB": 4, "BA": 4})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}; expected {_EXPECTED}") from error
