"""Matrix powers, chains of products, and the products and diagonals that `np.linalg` has under its own names."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.tensor import boxed
from fgrad.core.views import as_number
from fgrad.ops.families import answers
from fgrad.ops.matrices import as_matrices, conjugated
from fgrad.ops.tracing import answers_traced, no_out
from fgrad.typing import Array, ArrayLike, DTypeLike


@answers_traced(np.linalg.matrix_power)
def matrix_power(a: Array, n: int) -> Any:
    """Return an integer power of square matrices, by squaring."""
    try:
        n = index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    a = as_matrices(a)
    if a.shape[-1] != a.shape[-2]:
        np.linalg.matrix_power(np.zeros(a.shape), 1)  # NumPy's error
    if n == 0:
        return boxed(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    if n < 0:
        a, n = np.linalg.inv(a), -n
    result = None
    while n:
        n, bit = divmod(n, 2)
        if bit:
            result = a if result is None else np.matmul(result, a)
        a = np.matmul(a, a) if n else a
    return result


def _cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to split each run of matrices, for the fewest multiplications.

    Source: Cormen et al., "Introduction to Algorithms", section 15.2 (matrix-chain order).
    """
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            choices = [
                (costs[first, k] + costs[k + 1, last] + sizes[first] * sizes[k + 1] * sizes[last + 1], k)
                for k in range(first, last)
            ]
            costs[first, last], splits[first, last] = min(choices)
    return splits


@answers_traced(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: object = None) -> Any:
    """Return the product of several matrices in the cheapest order; the first and last may be vectors."""
    no_out("linalg.multi_dot", out)
    arrays = [as_array(x) for x in arrays]
    ndims = [x.ndim for x in arrays]
    if len(arrays) < 2 or any(ndim != 2 for ndim in ndims[1:-1]) or not {ndims[0], ndims[-1]} <= {1, 2}:
        np.linalg.multi_dot([np.zeros(x.shape) for x in arrays])  # NumPy's error
    first, last = ndims[0] == 1, ndims[-1] == 1
    arrays[0] = arrays[0][None] if first else arrays[0]
    arrays[-1] = arrays[-1][:, None] if last else arrays[-1]
    splits = _cheapest_splits([*(x.shape[0] for x in arrays), arrays[-1].shape[1]])

    def product(start: int, stop: int) -> Any:
        if start == stop:
            return arrays[start]
        split = splits[start, stop]
        return np.matmul(product(start, split), product(split + 1, stop))

    result = product(0, len(arrays) - 1)
    result = result[:, 0] if last else result
    return result[0] if first else result


# Products and parts


@answers_traced(np.linalg.outer)
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return all products of an element of one vector and one of another."""
    x1, x2 = as_array(x1), as_array(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        np.linalg.outer(np.zeros(x1.shape), np.zeros(x2.shape))  # NumPy's error
    return np.multiply(x1[:, None], x2)


@answers_traced(np.linalg.cross)
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any:
    """Return the cross products of three-dimensional vectors along an axis."""
    x1, x2 = as_array(x1), as_array(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        np.linalg.cross(np.zeros(x1.shape), np.zeros(x2.shape), axis=axis)  # NumPy's error
    return np.cross(x1, x2, axis=axis)


@answers_traced(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the dot products of vectors along an axis, the first ones conjugated."""
    x1, x2 = (np.moveaxis(x, axis, -1) for x in (as_array(x1), as_array(x2)))  # type: ignore[type-var]  # or tensors
    return as_number(np.matmul(conjugated(x1)[..., None, :], x2[..., None])[..., 0, 0])


@answers_traced(np.linalg.trace)
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the sums along a diagonal of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


answers(np.linalg.matmul)(np.matmul)
answers(np.linalg.tensordot)(np.tensordot)
answers(np.linalg.matrix_transpose)(lambda x, /: np.matrix_transpose(x))
answers(np.linalg.diagonal)(lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1))
