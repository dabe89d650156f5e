"""Shapes of arrays, for as many axes as NumPy's arrays may have.

broadcast_shapes(*shapes)    the shape of arrays that are computed with element by element
first_of(x)                  the first element of an array
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

_MOST = 32
"""Axes beyond which NumPy's `broadcast_shapes` and `flat` raise, though its arrays may have twice as many."""


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what is computed element by element of arrays with these shapes.

    Raises:
        ValueError: two sizes along an axis differ, and neither is 1.
    """
    if all(len(shape) <= _MOST for shape in shapes):
        return np.broadcast_shapes(*shapes)
    found = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        (size,) = np.broadcast_shapes(*((each,) for each in sizes))
        found.append(size)
    return tuple(reversed(found))


def first_of(x: Any) -> Any:
    """Return the first element of an array that has one."""
    return x[(0,) * x.ndim]
