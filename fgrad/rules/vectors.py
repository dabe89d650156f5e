"""Containers of arrays as one vector of real numbers, and back, for solvers.

vector, restore = raveled(tree)     restore(vector) is the tree again
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.tree import flatten, unflatten
from fgrad.rules.rule import settled
from fgrad.typing import Array


def raveled(tree: object) -> tuple[Any, Callable[[Any], Any]]:
    """Return the numbers of a container as one vector, and a function that converts a vector back.

    A complex number becomes two real ones. If arrays are traced, so is the vector, and vice versa.

    Args:
        tree: a number, an array, or a container of them.

    Returns:
        The vector, in the widest dtype of the arrays, and `restore`; it restores each array's dtype.
    """
    leaves, treedef = flatten(tree)
    leaves = [settled(leaf) for leaf in leaves]
    likes = [(leaf.shape, leaf.dtype) for leaf in leaves]

    def restore(vector: Array) -> Any:
        start, parts = 0, []
        for shape, dtype in likes:
            stop = start + math.prod(shape) * (2 if dtype.kind == "c" else 1)
            parts.append(_restored(vector[start:stop], shape, dtype))
            start = stop
        return unflatten(treedef, parts)

    if not leaves:
        return np.zeros(0), restore
    return np.concatenate([_real(leaf) for leaf in leaves]), restore


def _real(x: Array) -> Array:
    """Return an array as a vector of real numbers."""
    flat = np.reshape(x, -1)
    if flat.dtype.kind == "c":
        return np.concatenate([np.real(flat), np.imag(flat)])
    return flat if flat.dtype.kind == "f" else flat.astype(float)


def _restored(part: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "c":
        half = part.shape[0] // 2
        part = part[:half] + 1j * part[half:]
    part = np.reshape(part, shape)[()]
    return part if dtype.kind not in "fc" or part.dtype == dtype else part.astype(dtype)
