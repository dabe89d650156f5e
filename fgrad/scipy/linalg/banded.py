"""Equations with banded matrices: `solve_banded`, `solveh_banded`.

The bands are rows: `ab[upper + i - j, j]` is the element `a[i, j]`. Derivatives have the complexity of the
solution, linear in the number of rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.matrices import conjugated, real, stacked_batch
from fgrad.ops.patterns import of_system
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.linalg._arguments import OPTIONS, SOLUTION, as_columns, numbers, rows_of, scipys_error
from fgrad.typing import Array


@functools.cache
def _rows_of(lower: int, upper: int, size: int) -> tuple[Any, Any]:
    """Return for each element of the bands its row in the matrix, and whether the matrix has that row."""
    rows = np.arange(-upper, lower + 1)[:, None] + np.arange(size)
    is_inside = (rows >= 0) & (rows < size)
    return np.where(is_inside, rows, 0), is_inside


def _transposed_bands(ab: Array, lower: int, upper: int) -> Array:
    """Return the bands of the transpose, which has `upper` bands below the diagonal."""
    rows, is_inside = _rows_of(upper, lower, ab.shape[-1])
    bands = np.arange(lower + upper, -1, -1)[:, None]
    return np.where(is_inside, ab[..., bands, rows], np.zeros((), ab.dtype))


def _at_rows(x: Array, lower: int, upper: int) -> Array:
    """Return for each element of the bands the corresponding row of `x`, or zeros."""
    rows, is_inside = _rows_of(lower, upper, x.shape[-2])
    return np.where(is_inside[..., None], np.take(x, rows, axis=-2), np.zeros((), x.dtype))


def _product(ab: Array, x: Array, lower: int, upper: int) -> Any:
    """Return the product of a banded matrix with columns."""
    turned = _transposed_bands(ab, lower, upper)
    return np.sum(turned[..., None] * _at_rows(x, upper, lower), axis=-3)


def _solved(ab: Array, b: Array, lower: int, upper: int) -> Any:
    def solve_one(ab: Array, b: Array) -> Array:
        return scipy.linalg.solve_banded((lower, upper), ab, b, check_finite=False)

    return in_stacks(solve_one, ab, b)


def _solution(ab: Array, b: Array, lower: int, upper: int) -> Any:
    return apply(_solve, (ab, b), {"lower": lower, "upper": upper})


def _bands_rule(ans: Array, ab: Array, b: Array, lower: int, upper: int) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = _solution(_transposed_bands(ab, lower, upper), ct, upper, lower)
        return -np.sum(_at_rows(moved, lower, upper) * ans[..., None, :, :], axis=-1)

    return pullback


def _side_rule(ans: Array, ab: Array, b: Array, lower: int, upper: int) -> Callable[[Any], Any]:
    return lambda ct: _solution(_transposed_bands(ab, lower, upper), ct, upper, lower)


def _tangent(tangents: Sequence[Any], ans: Array, ab: Array, b: Array, lower: int, upper: int) -> Any:
    moved, tb = tangents
    if moved is ZERO:
        return _solution(ab, tb, lower, upper)
    pushed = -_product(moved, ans, lower, upper)
    return _solution(ab, pushed if tb is ZERO else tb + pushed, lower, upper)


_solve = register(
    Primitive(
        "solve_banded",
        _solved,
        (_bands_rule, _side_rule),
        _tangent,
        broadcasts=True,
        samples=(
            sample((1, 3), (3, 2), domain=(0.5, 2), lower=0, upper=0),
            sample((2, 3), (3, 2), domain=(0.5, 2), lower=1, upper=0),
            sample((2, 3, 4), (4, 1), domain=(0.5, 1), lower=0, upper=2),
        ),
        pattern=of_system,
    )
)
_solve.batch = stacked_batch(_solve)


@differentiates(scipy.linalg.solve_banded, SOLUTION, OPTIONS)
def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve the equation `a @ x = b` for a banded matrix.

    Args:
        l_and_u: the number of diagonals below, and above, the main one.
        ab: the diagonals as rows, of shape (..., l + u + 1, n); `ab[u + i - j, j]` is `a[i, j]`. Unused
            elements have the derivative 0.

    Raises:
        LinAlgError: a ValueError; the matrix is singular.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> ab, b = np.array([[2.0, 4.0], [1.0, 7.0]]), np.array([2.0, 9.0])
        >>> fg.grad(lambda ab: solve_banded((1, 0), ab, b)[1])(ab) + 0
        Tensor([[ 0.125, -0.5  ],
                [-0.25 ,  0.   ]])
    """
    lower, upper = map(int, l_and_u)
    ab, b = numbers(ab, b, check_finite=check_finite)
    if not _fits(ab, b) or ab.shape[-2] != lower + upper + 1:
        scipys_error(functools.partial(scipy.linalg.solve_banded, l_and_u), ab, b)
    x = _solution(ab, as_columns(b), lower, upper) if b.size else b
    return x[..., 0] if b.ndim == 1 and b.size else x


def _fits(ab: Array, b: Array) -> bool:
    return bool(ab.ndim >= 2 and rows_of(b) == ab.shape[-1])


def by_diagonals(a: Any, columns: Any) -> Any:
    """Return the solution for the three central diagonals of square matrices; other elements are not read."""
    rows, is_inside = _rows_of(1, 1, a.shape[-1])
    ab = np.where(is_inside, a[..., rows, np.arange(a.shape[-1])], np.zeros((), a.dtype))
    return _solution(ab, columns, 1, 1)


@differentiates(scipy.linalg.solveh_banded, SOLUTION, OPTIONS)
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve the equation `a @ x = b` for a banded matrix that is Hermitian and positive definite.

    Args:
        ab: the main diagonal and those above it (or below it), as in `solve_banded`, of shape (..., u + 1, n).
        lower: whether the diagonals are those below the main one.

    Raises:
        LinAlgError: a ValueError; the matrix is not positive definite.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> ab, b = np.array([[2.0, 4.0], [0.0, 7.0]]), np.array([2.0, 8.0])
        >>> fg.grad(lambda ab: solveh_banded(ab, b, lower=True)[0])(ab)
        Tensor([[-0.5,  0. ],
                [-1. ,  0. ]])
    """
    ab, b = numbers(ab, b, check_finite=check_finite)
    if not _fits(ab, b):
        scipys_error(scipy.linalg.solveh_banded, ab, b)
    if not b.size:
        return b
    count = ab.shape[-2] - 1
    examples = raw_array(ab)
    in_stacks(lambda ab: scipy.linalg.cholesky_banded(ab, lower=lower, check_finite=False), examples)
    main = real(ab[..., :1, :] if lower else ab[..., count:, :]).astype(ab.dtype)
    others = conjugated(_transposed_bands(ab, count, 0) if lower else _transposed_bands(ab, 0, count))
    parts = [others[..., :count, :], main, ab[..., 1:, :]] if lower else [ab[..., :count, :], main, others[..., 1:, :]]
    x = _solution(np.concatenate(parts, axis=-2), as_columns(b), count, count)
    return x[..., 0] if b.ndim == 1 else x
