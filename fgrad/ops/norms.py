"""Norms and functions of them: `norm`, `vector_norm`, `matrix_norm`, `cond`, `matrix_rank`.

They are composed of other operations. A norm of any order has the derivative 0 where it is 0: the
subgradient of least norm. The same holds in all matrix norms for singular values that are zero to rounding.
"""

from __future__ import annotations

from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.ops.elementwise import power_derivative, stop_gradient_of
from fgrad.ops.families import constant_in_pieces, elementwise, plain_axis, sample, scale
from fgrad.ops.inverses import inverse
from fgrad.ops.lengths import length
from fgrad.ops.matrices import as_matrices, rounding, stacked_batch
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array, ArrayLike, Axes, Operand


def _as_numbers(x: Array) -> Any:
    """Return `x` as an array or tensor of floats or complex numbers."""
    x = as_array(x)
    return x if x.dtype.kind in "fcO" else x.astype(float)


def absolute_power(x: Array, order: Array | float) -> Any:
    """Return |x|**order of real numbers. Up to order 1, where 0 is a kink or a cusp, derivatives at 0 are 0."""
    is_cusp = np.logical_and(np.equal(x, 0), np.less_equal(order, 1))
    return np.where(is_cusp, 0, apply(_absolute_power, (x, order)))


def _absolute_slope(x: Array, order: Operand) -> Any:
    """Return the slope of |x|**order, x |x|**(order - 2) order; |x| itself would give a square the curvature 0 at 0."""
    return scale(x, order * apply(_absolute_power, (x, order - 2)))


_absolute_power = elementwise(
    lambda x, order: np.abs(x) ** order,
    lambda ct, x, order: ct * _absolute_slope(x, order),
    lambda ct, x, order: ct * power_derivative(0, 1, np.abs(x), order),
    name="absolute_power",
    names="x order",
    domain=((-2, 2), (1.2, 3)),
    complex=False,
)


def _of_order(x: Array, order: float, axis: Axes, keepdims: bool) -> Any:
    """Return the norm of a vector of an order other than 0, 1, 2 or infinity.

    Below order 1 there is a cusp where an element is 0: the derivative with respect to it is 0.
    """
    lengths = np.abs(x)
    if order < 1:
        is_zero = lengths == 0
        at_zero = np.array(0 if order > 0 else np.inf, lengths.dtype)
        powers = np.where(is_zero, at_zero, np.where(is_zero, 1, lengths) ** order)
    else:
        powers = absolute_power(lengths if x.dtype.kind == "c" else x, order)
    total = np.sum(powers, axis=axis, keepdims=keepdims)
    is_regular = (total != 0) & (total != np.inf)
    root = np.where(is_regular, total, 1) ** (1 / order)
    # Another norm that is 0 there has nonzero second derivatives, as this one does.
    zero = length(x, axis, keepdims) if order >= 1 else np.zeros((), root.dtype)
    at_edge = np.where((total == 0) == (order > 0), zero, np.array(np.inf, root.dtype))
    return np.where(is_regular, root, at_edge)


def _vector_norm(x: Array, order: float | None, axis: Axes, keepdims: bool) -> Any:
    if order is None or order == 2:
        return length(x, axis, keepdims)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    if order == np.inf:
        return np.max(np.abs(x), axis=axis, keepdims=keepdims, initial=0)
    if order == -np.inf:
        return np.min(np.abs(x), axis=axis, keepdims=keepdims)
    if order == 0:
        return np.sum((x != 0).astype(np.abs(x).dtype), axis=axis, keepdims=keepdims)
    if order == 1:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    return _of_order(x, float(order), axis, keepdims)


def _without_zeros(s: Array) -> Array:
    """Return singular values; those equal to zero have the derivative 0."""
    return np.where(s <= rounding(s), stop_gradient_of(s), s)


def _by_singular_values(x: Array, order: object) -> Any:
    s = _without_zeros(np.linalg.svdvals(x))
    if order == "nuc":
        return np.sum(s, axis=-1)
    if not s.shape[-1]:
        return np.zeros(s.shape[:-1], s.dtype) if order == 2 else np.min(s, axis=-1)
    # Values that are equal to rounding share the derivative, which is then independent of the basis.
    extreme = np.max(s, axis=-1, keepdims=True) if order == 2 else np.min(s, axis=-1, keepdims=True)
    return np.mean(s, axis=-1, where=np.abs(s - extreme) <= rounding(s))


def _matrix_norm(x: Any, order: object, axis: tuple[int, int], keepdims: bool) -> Any:
    axes = tuple(np.lib.array_utils.normalize_axis_index(each, x.ndim) for each in axis)
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if order in (None, "fro", "f"):
        return length(x, axes, keepdims)
    kept = tuple(1 if each in axes else size for each, size in enumerate(x.shape))
    x = np.moveaxis(x, axes, (-2, -1))
    if order in (2, -2, "nuc"):
        result = _by_singular_values(x, order)
    elif order in (1, -1, np.inf, -np.inf):
        sums = np.sum(np.abs(x), axis=-2 if abs(order) == 1 else -1)
        result = np.max(sums, axis=-1, initial=0) if order > 0 else np.min(sums, axis=-1)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return np.reshape(result, kept) if keepdims else result


@answers_traced(np.linalg.norm)
def norm(x: Array, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return norms of vectors (one axis) or matrices (two axes) of any order; at 0 the derivative is 0."""
    x = _as_numbers(x)
    if axis is None:
        if ord is None:
            return length(x, None, keepdims)
        axes: Any = tuple(range(x.ndim))
    else:
        try:
            axes = plain_axis(axis)
        except TypeError as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
        axes = axes if type(axes) is tuple else (axes,)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@answers_traced(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return norms of vectors; the elements of a vector may extend over several axes."""
    x = _as_numbers(x)
    axis = tuple(range(x.ndim)) if axis is None else plain_axis(axis)
    axes = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    rest = [size for place, size in enumerate(x.shape) if place not in axes]
    flat = np.reshape(np.moveaxis(x, axes, range(-len(axes), 0)), (*rest, prod_of(x.shape[a] for a in axes)))
    result = _vector_norm(flat, ord, -1, False)
    if not keepdims:
        return result
    return np.reshape(result, tuple(1 if place in axes else size for place, size in enumerate(x.shape)))


@answers_traced(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: object = "fro") -> Any:
    """Return norms of matrices in the last two axes."""
    return _matrix_norm(_as_numbers(as_matrices(x)), ord, (-2, -1), keepdims)


@answers_traced(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Array:
    """Return the condition numbers of matrices; infinity for singular matrices."""
    x = as_matrices(x)
    if prod_of(x.shape[-2:]) == 0:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = np.linalg.svdvals(x)
            result = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        else:
            result = norm(x, p, (-2, -1)) * norm(inverse(x, strict=False), p, (-2, -1))
    is_singular = np.isnan(result) & ~np.any(np.isnan(x), axis=(-2, -1))
    return np.where(is_singular, np.inf, result)


def _count(x: Array, hermitian: bool, tol: float | None, rtol: Any) -> Array:
    return np.asarray(np.linalg.matrix_rank(x, tol, hermitian, rtol=rtol))[()]


_matrix_rank = constant_in_pieces(
    _count,
    stacked_batch,
    sample((3, 2), hermitian=False, tol=None, rtol=None),
    sample((2, 3, 3), hermitian=True, tol=1e-3, rtol=None),
    name="matrix_rank",
)


@answers_traced(np.linalg.matrix_rank)
def matrix_rank(A: ArrayLike, tol: object = None, hermitian: bool = False, *, rtol: object = None) -> Any:  # noqa: N803
    """Return the ranks of matrices; their derivative is 0."""
    return apply(_matrix_rank, (as_array(A),), {"hermitian": hermitian, "tol": tol, "rtol": rtol})
