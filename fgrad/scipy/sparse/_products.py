"""The two primitives of sparse linear algebra, each the transpose of the other.

    product(data, x, pattern)      the product of a sparse matrix with columns
    sampled(u, v, pattern)         the elements of `u @ v.T` at the positions of a pattern

The elements `data` have the shape (..., nnz), columns the shape (..., n, k); stacks are broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.ops.batching import ndim_of
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.families import sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.patterns import Chain, Step, linked
from fgrad.scipy.sparse._patterns import Pattern, placed
from fgrad.typing import Array

_AT_ONCE = 1_000_000
"""Number of products that are computed before they are summed."""


def stacks(*cores: int) -> Callable[[Primitive], Callable[..., Any]]:
    """Return the batching rule of operations on stacks of arrays with the given numbers of core axes."""

    def rule(primitive: Primitive) -> Callable[..., Any]:
        def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
            leads = [ndim_of(v, m) - core for v, m, core in zip(values, mapped, cores, strict=True)]
            wide = [
                np.reshape(v, (size, *(1,) * (max(leads) - lead), *v.shape[1:])) if m and lead < max(leads) else v
                for v, m, lead in zip(values, mapped, leads, strict=True)
            ]
            return contract(primitive, wide, metadata)

        return batch

    return rule


def supported(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of SciPy's sparse products, which do not support half precision."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _product(data: Array, x: Array, pattern: Pattern) -> Any:
    data, x = np.asarray(data), np.asarray(x)
    dtype = np.result_type(data, x)
    data, x = data.astype(supported(data.dtype), copy=False), x.astype(supported(x.dtype), copy=False)
    if data.ndim > 1:
        found = in_stacks(lambda row, x: pattern.with_elements(row[0]) @ x, data[..., None, :], x)
    elif x.ndim == 2:
        found = pattern.with_elements(data) @ x
    else:
        found = side_by_side(lambda columns: pattern.with_elements(data) @ columns, x)
    return found.astype(dtype, copy=False)


def side_by_side(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the result of a function of columns, for stacks of them: all columns are joined."""
    columns = np.moveaxis(x, -2, 0)
    found = function(columns.reshape(len(columns), math.prod(columns.shape[1:])))
    return np.moveaxis(found.reshape(len(found), *columns.shape[1:]), 0, -2)


def _sampled(u: Array, v: Array, pattern: Pattern) -> Array:
    rows, columns = pattern.coordinates
    width = max(1, _AT_ONCE // max(pattern.nnz, 1))
    stack = np.broadcast_shapes(u.shape[:-2], v.shape[:-2])
    total = np.zeros((*stack, pattern.nnz), np.result_type(u, v))
    for start in range(0, u.shape[-1], width):
        part = np.s_[..., start : start + width]
        left, right = np.take(u[part], rows, axis=-2), np.take(v[part], columns, axis=-2)
        total += np.einsum("...k,...k->...", left, right)
    return total


_EXAMPLE = placed(np.array([0, 2, 0, 1, 0]), np.array([1, 0, 3, 2, 1]), (3, 4))  # with one duplicate


def _product_pattern(step: Step) -> Chain:
    rows, columns = step.metadata["pattern"].coordinates
    if step.argnum == 0:
        return (linked(step.ans.shape, step.shape, lambda out, data: (out[..., rows, :], data[..., None])),)
    return (linked(step.ans.shape, step.shape, lambda out, x: (out[..., rows, :], x[..., columns, :])),)


def _sampled_pattern(step: Step) -> Chain:
    lines = step.metadata["pattern"].coordinates[step.argnum]
    return (linked(step.ans.shape, step.shape, lambda out, x: (out[..., None], x[..., lines, :])),)


_product_entry: Primitive = multilinear(
    _product,
    (
        lambda ans, data, x, pattern: lambda ct: contract(_sampled_entry, (ct, x), {"pattern": pattern}),
        lambda ans, data, x, pattern: lambda ct: contract(_product_entry, (data, ct), {"pattern": pattern.T}),
    ),
    sample((5,), (4, 2), pattern=_EXAMPLE),
    sample((2, 5), (4, 1), pattern=_EXAMPLE),
    sample((5,), (2, 3, 1), pattern=_EXAMPLE.T),
    sample((0,), (2, 1), pattern=placed([], [], (3, 2))),
    name="sparse_product",
    broadcasts=True,
    pattern=_product_pattern,
)
_product_entry.batch = stacks(1, 2)(_product_entry)

_sampled_entry: Primitive = multilinear(
    _sampled,
    (
        lambda ans, u, v, pattern: lambda ct: contract(_product_entry, (ct, v), {"pattern": pattern}),
        lambda ans, u, v, pattern: lambda ct: contract(_product_entry, (ct, u), {"pattern": pattern.T}),
    ),
    sample((3, 2), (4, 2), pattern=_EXAMPLE),
    sample((2, 4, 1), (3, 1), pattern=_EXAMPLE.T),
    name="sampled_product",
    broadcasts=True,
    pattern=_sampled_pattern,
)
_sampled_entry.batch = stacks(2, 2)(_sampled_entry)


def product(data: Array, x: Array, pattern: Pattern) -> Any:
    """Return the product of the sparse matrix with given elements and pattern with columns."""
    return contract(_product_entry, (data, x), {"pattern": pattern})


def sampled(u: Array, v: Array, pattern: Pattern) -> Any:
    """Return the elements of `u @ v.T` at the positions of a pattern."""
    return contract(_sampled_entry, (u, v), {"pattern": pattern})


def summed(data: Array, sums: Pattern) -> Any:
    """Return the product of a matrix of ones with elements, which sums duplicates."""
    return product(np.ones(sums.nnz, data.dtype), data[:, None], sums)[:, 0]
