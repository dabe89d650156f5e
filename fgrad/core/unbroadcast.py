"""Sums over axes that were repeated: what undoes a broadcast.

summed(x, axes, keepdims)       the sum over axes
summed_product(x, y, shape)     the sum of products over what was repeated of a shape, without an array of the products
SUMMED[primitive]               reverse rules of arguments that were repeated
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

SUMMED: dict[Primitive, Rules] = {}
"""As `Primitive.vjps`, for arguments that were repeated: the pullback returns the cotangent in the form of its
argument, so that products are added up as they are made. None of an argument: there is no such way."""

_ARRAY = np.ndarray
_MANY = 1 << 14
_LETTERS = 26
FEW_PRODUCTS = 256
"""Up to how many it takes less time to make an array of them than to find out how to add them up at once."""
_SHORT = 32
"""Up to which length NumPy takes several times as long to add rows as BLAS does to multiply them with ones."""
_UNSHARED = 10_000
"""Up to how many elements OpenBLAS leaves a product of vectors to one thread."""
_BLOCK = 1 << 15
"""Elements of a product for which BLAS does not begin to share the work between threads, which takes longer."""


def is_finite(x: Any) -> bool:
    """Return whether a plain number or array has no infinity and no NaN, nor elements whose squares are infinite.

    A sum of squares sees them anywhere, and costs less than a look at each element.
    """
    if (kind := type(x)) is _ARRAY:
        return isfinite(x.dot(x) if x.ndim == 1 and x.size <= _UNSHARED else _dot(x, x))
    if kind is np.float64:
        return isfinite(x)
    if kind is Objects:
        return bool(np.all(np.equal(x - x, 0)))
    return is_at_hand(x) and isfinite(x)  # else nobody knows


def summed(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the sum over axes, which are given in order; of many short rows as a product with ones."""
    # Not of complex numbers: an infinity times 1 is not itself among them.
    if type(x) is np.ndarray and x.size >= _MANY and x.flags.c_contiguous and x.dtype.char in "fd":
        first, last = axes[0], axes[-1]
        length, rest = prod(x.shape[first : last + 1]), prod(x.shape[last + 1 :])
        if last - first + 1 == len(axes) and 1 < rest <= _SHORT and length >= _SHORT:
            sums = _sum_of_rows(x.reshape(-1, length, rest))
            kept = (1,) * len(axes) if keepdims else ()
            return sums.reshape((*x.shape[:first], *kept, *x.shape[last + 1 :]))
    return total(x, axis=axes, keepdims=keepdims)


def _sum_of_rows(x: Any) -> Any:
    """Return the sum over the axis in the middle."""
    _, length, rest = x.shape
    step = _BLOCK // rest
    ones = np.ones(min(step, length), x.dtype)
    parts = [x[:, start : start + step] for start in range(0, length, step)]
    return functools.reduce(operator.add, [ones[: part.shape[1]] @ part for part in parts])


def summed_product(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Return the sum of products over the axes along which an array of `shape` was repeated; None: there is no way.

    The products are never in memory: they are made and added up at once. Both are plain arrays of the same shape.
    """
    if not (type(x) is _ARRAY is type(y) and x.shape == y.shape and x.dtype is y.dtype and x.dtype.char in "fd"):
        return None  # nor of complex numbers: an infinite one times 1 is not itself
    if (ndim := x.ndim) > _LETTERS:
        return None
    if not shape or prod(shape) == 1:
        product = _dot(x, y) if any(x.strides) or not x.size else x[(0,) * ndim] * total(y, axis=None)
        return product.reshape(shape) if shape else product
    new = ndim - len(shape)
    if not new and _vecdot is not None and shape[:-1] == x.shape[:-1]:
        return _vecdot(x, y)[..., None]
    return np.einsum(_subscripts(ndim, shape), x, y).reshape(shape)


def _dot(x: Any, y: Any) -> Any:
    """Return the sum of the products of all elements.

    BLAS shares the work on long vectors between threads. Where other programs keep the cores busy, these wait for each
    other a hundred times as long as they compute; so it gets vectors that are short enough to be left to one.
    """
    if x.size <= _UNSHARED:
        return x.dot(y) if x.ndim == 1 else np.vdot(x, y)  # of which the method takes half the time
    x, y = x.reshape(-1), y.reshape(-1)
    end = x.size // _UNSHARED * _UNSHARED
    return total(_dot_of_rows(x[:end].reshape(-1, _UNSHARED), y[:end].reshape(-1, _UNSHARED))) + x[end:].dot(y[end:])


@functools.lru_cache(maxsize=1024)
def _subscripts(ndim: int, shape: tuple[int, ...]) -> str:
    """Return what `np.einsum` is told, which it reads faster than lists of axes."""
    new = ndim - len(shape)
    axes = "".join(map(chr, range(ord("a"), ord("a") + ndim)))
    return f"{axes},{axes}->" + "".join(axes[new + axis] for axis, size in enumerate(shape) if size != 1)


_vecdot: Any = getattr(np, "vecdot", None)  # of NumPy 2.1
_dot_of_rows: Any = _vecdot or functools.partial(np.einsum, "ij,ij->i")
