"""Arrays as pictures take them."""

from typing import Any

import numpy as np


def array_of(name: str, values: Any, *axes: str | int) -> np.ndarray:
    """The values as an array of the number of axes wanted.

    Args:
        name: Of the argument.
        values: Numbers.
        *axes: For each axis its length, or a word for a length that may be anything.

    Raises:
        ValueError: If the shape is another.
    """
    array = np.asarray(values)
    fits = array.ndim == len(axes) and all(
        isinstance(wanted, str) or size == wanted for wanted, size in zip(axes, array.shape, strict=True)
    )
    if not fits:
        comma = "," if len(axes) == 1 else ""
        raise ValueError(f"{name} must have shape ({', '.join(map(str, axes))}{comma}), got {array.shape}")
    return array
