"""Shapes of arrays, for any number of axes that NumPy's arrays may have.

broadcast_shapes(*shapes)    the shape of an elementwise result
first_of(x)                  the first element of an array
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from fgrad.typing import Array

_MOST = 32
"""Number of axes beyond which NumPy's `broadcast_shapes` and `flat` raise, though arrays may have twice as many."""


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the result of an elementwise operation on arrays with these shapes.

    Raises:
        ValueError: two sizes along an axis differ, and neither of them is 1.
    """
    if all(len(shape) <= _MOST for shape in shapes):
        return np.broadcast_shapes(*shapes)
    found = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        (size,) = np.broadcast_shapes(*((each,) for each in sizes))
        found.append(size)
    return tuple(reversed(found))


def first_of(x: Array) -> Any:
    """Return the first element of a nonempty array."""
    return x[(0,) * x.ndim]
