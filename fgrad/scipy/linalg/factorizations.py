"""Factorizations, and solutions by them: `cholesky`, `cho_factor`, `cho_solve`, `lu`, `lu_factor`, `lu_solve`, `qr`.

Where a function reads only one triangle of a matrix, only that triangle has a derivative.

The permutation of LU, and that of QR with `pivoting`, is constant wherever it is unique. With a fixed permutation
`a[p] = l @ u` has the tangent, where `w = inv(l) @ da[p] @ inv(u)`,

    dl = l @ strictly_lower(w)        du = upper(w) @ u

(S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010),
https://arxiv.org/abs/1001.1654). A matrix with more rows than columns has `l2 = a2 @ inv(u)` below, one with
more columns has `u2 = inv(l) @ a2` on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import fixed, in_stacks, lapack
from fgrad.ops.matrices import (
    adjoint,
    conjugated,
    cotangent_of,
    require_invariance,
    skew,
    stacked_batch,
    transposed,
)
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.linalg._arguments import (
    OPTIONS,
    SCIPY,
    SOLUTION,
    as_columns,
    fits,
    in_one_stack,
    is_square,
    numbers,
    scipys_error,
)
from fgrad.scipy.linalg.equations import triangular_solution
from fgrad.typing import Array, ArrayLike

# Cholesky


def _factor(a: Any, lower: bool) -> Array:
    try:
        return np.linalg.cholesky(a, upper=not lower)
    except np.linalg.LinAlgError:
        in_stacks(lambda a: scipy.linalg.cholesky(a, lower=lower), raw_array(a))  # SciPy's message is more specific
        raise


_OF_CHOLESKY = """
Args:
    a: Hermitian, of shape (..., n, n). Only one triangle is read; the other has the derivative 0.
    lower: whether to read the lower triangle and return the lower factor; the default is the upper one.

Raises:
    LinAlgError: a ValueError; the matrix is not positive definite.
    ValueError: `a` is not square, or there are infinities or NaN.
"""


@family(scipy.linalg, _OF_CHOLESKY, OPTIONS)
def _with_factor(
    result: Callable[..., Any],
    /,
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return what a function makes of the triangular factor of a positive definite matrix."""
    (a,) = numbers(a, check_finite=check_finite)
    if not is_square(a):
        scipys_error(getattr(scipy.linalg, result.__name__), a)
    return result(_factor(a, lower), lower)


@_with_factor
def cholesky(factor: ArrayLike, lower: bool) -> Any:
    """Return the triangular factor of a positive definite matrix: `r.conj().T @ r`, or `l @ l.conj().T`.

    Returns:
        The factor, of the shape of `a`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: cholesky(a)[1, 1])(np.array([[4.0, 2.0], [0.0, 2.0]]))
        Tensor([[ 0.125, -0.5  ],
                [ 0.   ,  0.5  ]])
    """
    return factor


@_with_factor
def cho_factor(factor: ArrayLike, lower: bool) -> Any:
    """Return the factor of a positive definite matrix for `cho_solve`.

    Returns:
        A matrix and `lower`. One triangle of the matrix is the factor; the contents of the other one are unspecified:
        zeros, or SciPy's values.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> b = np.array([2.0, 4.0])
        >>> fg.grad(lambda a: cho_solve(cho_factor(a), b)[0])(np.array([[2.0, 0.0], [0.0, 4.0]]))
        Tensor([[-0.5, -0.5],
                [ 0. ,  0. ]])
    """
    return factor, lower


@differentiates(scipy.linalg.cho_solve, SOLUTION, OPTIONS)
def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Solve the equation `a @ x = b` with the Cholesky factor of `a`.

    Args:
        c_and_lower: a matrix and a flag, from `cho_factor`. Only one triangle is read; the other has the derivative 0.

    Raises:
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> c, b = np.array([[2.0, 0.0], [5.0, 1.0]]), np.array([4.0, 3.0])
        >>> fg.grad(lambda c: cho_solve((c, False), b)[0])(c) + 0
        Tensor([[-1. , -1.5],
                [ 0. ,  0. ]])
    """
    c, lower = c_and_lower[0], bool(np.all(c_and_lower[1]))  # for stacks SciPy's flag is an array
    c, b = numbers(c, b, check_finite=check_finite)
    if not fits(c, b):
        scipys_error(lambda c, b: scipy.linalg.cho_solve((c, lower), b), c, b)
    half = triangular_solution(c, as_columns(b), lower, 0 if lower else 2)
    x = triangular_solution(c, half, lower, 2 if lower else 0)
    return x[..., 0] if b.ndim == 1 else x


# LU


def _order_of(pivots: Array, rows: int) -> Array:
    """Return the permutation made by row interchanges: each step exchanges a row with a later one."""
    order = list(range(rows))
    for row, other in enumerate(pivots[:, 0].tolist()):
        order[row], order[other] = order[other], order[row]
    return np.array(order, np.int32)[:, None]


def _lu_one(a: Array) -> tuple[Any, Any, Any]:
    lu, pivots = lapack("getrf", a.dtype.char)(a)[:2]
    pivots = pivots[:, None]
    return np.ascontiguousarray(lu), pivots, _order_of(pivots, a.shape[0])


def _lu(a: Array) -> tuple[Any, Any, Any]:
    """Return both factors in one matrix, the interchanges, and the permutation of rows; the latter two as columns."""
    if not a.size:
        *stack, rows, columns = a.shape
        order = np.broadcast_to(np.arange(rows, dtype=np.int32)[:, None], (*stack, rows, 1))
        return a, np.zeros((*stack, min(rows, columns), 1), np.int32), order
    return in_stacks(_lu_one, a)  # type: ignore[no-any-return]


def _parts(lu: Array) -> tuple[Any, Any]:
    """Return the lower factor, with ones on its diagonal, and the upper one."""
    rows, columns = lu.shape[-2:]
    count = min(rows, columns)
    return np.tril(lu[..., :count], -1) + np.eye(rows, count, dtype=lu.dtype), np.triu(lu[..., :count, :])


def _check_regular(lu: Array) -> None:
    """Reject a derivative if one of the first pivots is 0."""
    if np.any(np.diagonal(raw_array(lu), 0, -2, -1) == 0):
        raise errors.NoDerivativeError(
            "scipy.linalg.lu and lu_factor have no derivative here: the first columns of the matrix, or its first "
            "rows, are linearly dependent."
        )


def _by_lower(lu: Array, x: Array, trans: int = 0) -> Any:
    count = min(lu.shape[-2:])
    square = lu[..., :count, :count]
    return triangular_solution(np.tril(square, -1) + np.eye(count, dtype=lu.dtype), x, True, trans)


def _by_upper_from_right(lu: Array, x: Array, trans: int = 0) -> Any:
    """Return `x @ inv(u)`, or with `trans` the product with the inverse of the transpose."""
    count = min(lu.shape[-2:])
    return transposed(triangular_solution(lu[..., :count, :count], transposed(x), False, 1 - trans))


def _lu_rule(ans: tuple[Any, ...], a: Array) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        lu, _, order = ans
        ct = cotangent_of(cts, 0)
        if ct is None:
            return ZERO
        _check_regular(lu)
        lower, upper = _parts(lu)
        count = lower.shape[-1]
        below, right = ct[..., count:, :], ct[..., :, count:]
        ct_lower = transposed(lower[..., :count, :]) @ np.tril(ct[..., :count, :count], -1)
        ct_upper = np.triu(ct[..., :count, :count]) @ transposed(upper[..., :count])
        inner = np.tril(ct_lower, -1) + np.triu(ct_upper)
        if lu.shape[-2] > count:
            inner = inner - np.triu(transposed(lower[..., count:, :]) @ below)
        if lu.shape[-1] > count:
            inner = inner - np.tril(right @ transposed(upper[..., count:]), -1)
        back = _by_lower(lu, _by_upper_from_right(lu, inner, 1), 1)
        if lu.shape[-2] > count:
            back = np.concatenate([back, _by_upper_from_right(lu, below, 1)], axis=-2)
        if lu.shape[-1] > count:
            back = np.concatenate([back, _by_lower(lu, right, 1)], axis=-1)
        return np.take_along_axis(back, np.argsort(order, axis=-2), axis=-2)

    return pullback


def _lu_tangent(tangents: Sequence[Any], ans: tuple[Any, ...], a: Array) -> Any:
    lu, _, order = ans
    _check_regular(lu)
    lower, upper = _parts(lu)
    count = lower.shape[-1]
    moved = np.take_along_axis(tangents[0], order, axis=-2)
    first, below, right = moved[..., :count, :count], moved[..., count:, :count], moved[..., :count, count:]
    inner = _by_lower(lu, _by_upper_from_right(lu, first))
    strict, rest = np.tril(inner, -1), np.triu(inner)
    result = lower[..., :count, :] @ strict + rest @ upper[..., :count]
    if lu.shape[-2] > count:
        result = np.concatenate([result, _by_upper_from_right(lu, below) - lower[..., count:, :] @ rest], axis=-2)
    if lu.shape[-1] > count:
        result = np.concatenate([result, _by_lower(lu, right) - strict @ upper[..., count:]], axis=-1)
    return result, ZERO, ZERO


_lu_primitive = register(
    Primitive(
        "lu",
        _lu,
        (_lu_rule,),
        _lu_tangent,
        samples=(sample((3, 3)), sample((4, 2)), sample((2, 2, 3)), sample((0, 2))),
    )
)
_lu_primitive.batch = stacked_batch(_lu_primitive)


@differentiates(scipy.linalg.lu_factor, OPTIONS)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return both factors of LU in one matrix, for `lu_solve`.

    Args:
        a: of shape (..., m, n).

    Returns:
        The factors, of the shape of `a`: `l` below the diagonal, and `u` on and above it. And the index of the row with
        which each row was exchanged, of shape (..., min(m, n)).

    Raises:
        NoDerivativeError: a ValueError; the matrix does not have full rank, and a derivative is needed.
        ValueError: there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> b = np.array([2.0, 4.0])
        >>> fg.grad(lambda a: lu_solve(lu_factor(a), b)[0])(np.array([[2.0, 0.0], [0.0, 4.0]]))
        Tensor([[-0.5, -0.5],
                [ 0. ,  0. ]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if a.ndim < 2:
        scipys_error(scipy.linalg.lu_factor, a)
    factors, pivots, _ = apply(_lu_primitive, (a,))
    return factors, pivots[..., 0]


@differentiates(scipy.linalg.lu, OPTIONS)
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """Return the factors `p`, `l` and `u` of LU with row interchanges.

    Args:
        a: of shape (..., m, n).
        permute_l: whether to return `p @ l` and `u`.
        p_indices: whether `p` is an index vector with `a = l[p] @ u`.

    Returns:
        A permutation of shape (..., m, m) or (..., m), a lower factor with ones on its diagonal, of shape
        (..., m, k), and an upper one, of shape (..., k, n), where k is min(m, n). The permutation is constant.

    Raises:
        NoDerivativeError: a ValueError; the matrix does not have full rank, and a derivative is needed.
        ValueError: there are infinities or NaN, or fewer than two axes.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: lu(a)[1][1, 0])(np.array([[1.0, 2.0], [4.0, 3.0]]))
        Tensor([[ 0.25  ,  0.    ],
                [-0.0625,  0.    ]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if a.ndim < 2:
        scipys_error(scipy.linalg.lu, a)
    factors, _, order = apply(_lu_primitive, (a,))
    lower, upper = _parts(factors)
    places = np.argsort(order, axis=-2).astype(np.int32)
    if permute_l:
        return np.take_along_axis(lower, places, axis=-2), upper
    if p_indices:
        return places[..., 0], lower, upper
    letter = "f" if a.dtype.char in "fF" else "d"
    return (places == np.arange(a.shape[-2])).astype(letter), lower, upper


_row_order = fixed("row_order", lambda pivots: in_stacks(lambda each: _order_of(each, each.shape[0]), pivots))


@differentiates(scipy.linalg.lu_solve, SOLUTION, OPTIONS)
def lu_solve(
    lu_and_piv: Any,
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve the equation `a @ x = b` with the factors of `a` from `lu_factor`.

    Args:
        lu_and_piv: the factors of shape (..., n, n), and the row interchanges.
        trans: 0 for `a`, 1 for its transpose, 2 for its adjoint.

    Raises:
        LinAlgError: a ValueError; the diagonal of the factors contains a 0.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> factors, b = (np.array([[2.0, 1.0], [0.5, 4.0]]), np.array([0, 1])), np.array([2.0, 9.0])
        >>> fg.grad(lambda b: lu_solve(factors, b)[1])(b)
        Tensor([-0.125,  0.25 ])
    """
    factors, pivots = lu_and_piv
    factors, b = numbers(factors, b, check_finite=check_finite)
    if not fits(factors, b):
        scipys_error(lambda a, b: scipy.linalg.lu_solve((a, np.zeros(a.shape[:-1], int)), b), factors, b)
    order = _row_order(np.asarray(pivots)[..., None] if isinstance(pivots, (list, tuple)) else pivots[..., None])
    columns = as_columns(b)
    if trans == 0:
        columns = _rows_in_order(columns, order)
        x = triangular_solution(factors, _by_lower(factors, columns), False, 0)
    else:
        half = triangular_solution(factors, columns, False, trans)
        x = _rows_in_order(_by_lower(factors, half, trans), np.argsort(order, axis=-2))
    return x[..., 0] if b.ndim == 1 else x


def _rows_in_order(x: Array, order: Array) -> Array:
    """Return permuted rows of matrices; stacks are broadcast."""
    wide, places = in_one_stack(x, order)
    return np.take_along_axis(wide, places, axis=-2)


# QR


def _added_rule(ans: Array, first: Array, added: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        require_invariance(skew(transposed(ans) @ ct), [ct], "qr", "the vectors that mode='full' adds")
        return -conjugated(ans) @ (adjoint(ct) @ conjugated(first))

    return pullback


# The columns that complete an orthonormal basis rotate relative to the first ones, du2 = -u1 @ (du1^H @ u2).
_added_columns = Primitive(
    "added_columns",
    lambda first, added: added,
    (_added_rule, None),
    lambda tangents, ans, first, added: -first @ (adjoint(tangents[0]) @ ans),
)
_added_columns.batch = stacked_batch(_added_columns)


def _beyond(a: Array) -> Any:
    """Return the columns that SciPy adds to an orthonormal basis of the column space of a matrix."""
    return in_stacks(lambda a: scipy.linalg.qr(a, check_finite=False)[0][:, a.shape[1] :], a)


def _pivots_of(a: Array) -> Any:
    return in_stacks(lambda a: scipy.linalg.qr(a, mode="r", pivoting=True, check_finite=False)[1][None], a)


_columns_beyond, _pivots = fixed("columns_beyond", _beyond), fixed("qr_pivots", _pivots_of)


@differentiates(scipy.linalg.qr, OPTIONS)
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the factors of QR: orthonormal columns, and an upper triangular matrix.

    Args:
        a: of shape (..., m, n); the first columns must be linearly independent.
        lwork: accepted, and ignored if something is traced.
        mode: "full" for `q` of shape (..., m, m), "economic" for (..., m, min(m, n)), "r" for `r` alone. The
            columns that "full" adds are arbitrary: a loss may depend only on their span.
        pivoting: whether to permute columns, `a[:, p] = q @ r`, and return the constant `p`.

    Returns:
        A tuple of the requested ones of `q`, `r` and `p`.

    Raises:
        NoDerivativeError: a ValueError; `mode` is "raw", the first columns are linearly dependent, or the loss
            depends on the choice of added columns.
        ValueError: the mode is unknown, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a = np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]])
        >>> fg.grad(lambda a: qr(a, mode="r")[0][0, 0])(a)
        Tensor([[-0.6,  0. ],
                [-0.8,  0. ],
                [ 0. ,  0. ]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if mode not in ("full", "qr", "r", "economic", "raw") or a.ndim < 2:
        scipys_error(lambda a: SCIPY.qr(a, mode=mode), a)
    if mode == "raw":
        raise errors.NoDerivativeError("scipy.linalg.qr with mode='raw' has no derivative; use mode='economic'.")
    rows, columns = a.shape[-2:]
    order: tuple[Any, ...] = ()
    if pivoting:
        pivots = _pivots(a)
        a, order = np.take_along_axis(a, np.broadcast_to(pivots, a.shape), axis=-1), (pivots[..., 0, :],)
    q, r = np.linalg.qr(a)
    if rows > columns and mode != "economic":
        empty = np.zeros((*r.shape[:-2], rows - columns, columns), r.dtype)
        r = np.concatenate([r, empty], axis=-2)
        if mode != "r":
            q = np.concatenate([q, apply(_added_columns, (q, _columns_beyond(a)))], axis=-1)
    return (r, *order) if mode == "r" else (q, r, *order)
