"""Unbroadcasting: sums over axes along which an array was repeated.

summed(x, axes, keepdims)       the sum over axes
summed_product(x, y, shape)     the sum of products over the repeated axes of a shape, without an array of products
SUMMED[primitive]               reverse rules of broadcast arguments
is_finite(x)                    whether there is no infinity and no NaN
"""

from __future__ import annotations

import functools
import operator
from cmath import isfinite
from math import prod
from typing import Any

import numpy as np

from fgrad.core.foreign import Objects, is_at_hand, total
from fgrad.core.primitive import Primitive, Rules
from fgrad.typing import Array

SUMMED: dict[Primitive, Rules] = {}
"""Like `Primitive.vjps`, for broadcast arguments: the pullback returns the cotangent in the shape of its argument, so
that products are summed as they are computed. None for an argument: there is no such rule."""

_ARRAY = np.ndarray
_MANY = 1 << 14
_LETTERS = 26
FEW_PRODUCTS = 256
"""Number of products up to which an array of them takes less time than the search for a fused sum."""
_SHORT = 32
"""Length of rows up to which NumPy's sum is several times slower than BLAS's product with ones."""
_UNSHARED = 10_000
"""Number of elements up to which OpenBLAS computes a product of vectors in one thread."""
_BLOCK = 1 << 15
"""Number of elements of a product up to which BLAS uses one thread, which is faster."""


def is_finite(x: Any) -> bool:
    """Return whether a plain number or array has no infinity, no NaN, and no elements whose squares are infinite.

    A sum of squares detects them, and is cheaper than a test of each element.
    """
    if (kind := type(x)) is _ARRAY:
        return isfinite(x.dot(x) if x.ndim == 1 and x.size <= _UNSHARED else _dot(x, x))
    if kind is np.float64:
        return isfinite(x)
    if kind is Objects:
        return bool(np.all(np.equal(x - x, 0)))
    return is_at_hand(x) and isfinite(x)  # unknown for a lazy array


def summed(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the sum over axes, given in ascending order; many short rows are summed by a product with ones."""
    # Not for complex numbers: there infinity times 1 is not infinity.
    if type(x) is np.ndarray and x.size >= _MANY and x.flags.c_contiguous and x.dtype.char in "fd":
        first, last = axes[0], axes[-1]
        length, rest = prod(x.shape[first : last + 1]), prod(x.shape[last + 1 :])
        if last - first + 1 == len(axes) and 1 < rest <= _SHORT and length >= _SHORT:
            sums = _sum_of_rows(x.reshape(-1, length, rest))
            kept = (1,) * len(axes) if keepdims else ()
            return sums.reshape((*x.shape[:first], *kept, *x.shape[last + 1 :]))
    return total(x, axis=axes, keepdims=keepdims)


def _sum_of_rows(x: Array) -> Any:
    """Return the sum over the middle axis."""
    _, length, rest = x.shape
    step = _BLOCK // rest
    ones = np.ones(min(step, length), x.dtype)
    parts = [x[:, start : start + step] for start in range(0, length, step)]
    return functools.reduce(operator.add, [ones[: part.shape[1]] @ part for part in parts])


def summed_product(x: object, y: Array, shape: tuple[int, ...]) -> Any:
    """Return the sum of products over the axes along which an array of `shape` was repeated; None if unsupported.

    The products are summed as they are computed, without an array of them. Both are plain arrays of the same shape.
    """
    if not (type(x) is _ARRAY is type(y) and x.shape == y.shape and x.dtype is y.dtype and x.dtype.char in "fd"):
        return None  # not for complex numbers, as above
    if (ndim := x.ndim) > _LETTERS:
        return None
    if not shape or prod(shape) == 1:
        product = _dot(x, y) if any(x.strides) or not x.size else x[(0,) * ndim] * total(y, axis=None)
        return product.reshape(shape) if shape else product
    new = ndim - len(shape)
    if not new and shape[:-1] == x.shape[:-1]:
        return np.vecdot(x, y)[..., None]
    return np.einsum(_subscripts(ndim, shape), x, y).reshape(shape)


def _dot(x: Any, y: Any) -> Any:
    """Return the sum of the products of all elements: the inner product of the raveled arrays.

    BLAS splits long vectors between threads. If other programs keep the cores busy, these threads wait for each other a
    hundred times as long as they compute, so BLAS gets vectors that are short enough for one thread.
    """
    if x.size <= _UNSHARED:
        return x.dot(y) if x.ndim == 1 else np.vdot(x, y)  # the method takes half the time
    x, y = x.reshape(-1), y.reshape(-1)
    end = x.size // _UNSHARED * _UNSHARED
    return total(np.vecdot(x[:end].reshape(-1, _UNSHARED), y[:end].reshape(-1, _UNSHARED))) + x[end:].dot(y[end:])


@functools.lru_cache(maxsize=1024)
def _subscripts(ndim: int, shape: tuple[int, ...]) -> str:
    """Return the subscripts of `np.einsum` as a string, which it parses faster than lists of axes."""
    new = ndim - len(shape)
    axes = "".join(map(chr, range(ord("a"), ord("a") + ndim)))
    return f"{axes},{axes}->" + "".join(axes[new + axis] for axis, size in enumerate(shape) if size != 1)
