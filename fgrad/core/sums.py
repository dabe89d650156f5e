"""Sums over axes that were repeated: what undoes a broadcast."""

from __future__ import annotations

import functools
import operator
from math import prod
from typing import Any

import numpy as np

_total: Any = np.add.reduce
_MANY = 1 << 14
_SHORT = 32
"""Up to which length NumPy takes several times as long to add rows as BLAS does to multiply them with ones."""
_BLOCK = 1 << 15
"""Elements of a product for which BLAS does not begin to share the work between threads, which takes longer."""


def summed(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the sum over axes, which are given in order; of many short rows as a product with ones."""
    # Not of complex numbers: an infinity times 1 is not itself among them.
    if type(x) is np.ndarray and x.size >= _MANY and x.flags.c_contiguous and x.dtype.char in "fd":
        first, last = axes[0], axes[-1]
        length, rest = prod(x.shape[first : last + 1]), prod(x.shape[last + 1 :])
        if last - first + 1 == len(axes) and 1 < rest <= _SHORT and length >= _SHORT:
            total = _sum_of_rows(x.reshape(-1, length, rest))
            kept = (1,) * len(axes) if keepdims else ()
            return total.reshape((*x.shape[:first], *kept, *x.shape[last + 1 :]))
    return _total(x, axis=axes, keepdims=keepdims)


def _sum_of_rows(x: Any) -> Any:
    """Return the sum over the axis in the middle."""
    _, length, rest = x.shape
    step = _BLOCK // rest
    ones = np.ones(min(step, length), x.dtype)
    parts = [x[:, start : start + step] for start in range(0, length, step)]
    return functools.reduce(operator.add, [ones[: part.shape[1]] @ part for part in parts])
