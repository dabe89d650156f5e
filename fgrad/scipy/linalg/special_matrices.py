"""Structured matrices made of vectors, such as `toeplitz` and `companion`, and equations with them.

    toeplitz, circulant, hankel, convolution_matrix     constant diagonals
    solve_toeplitz, solve_circulant, matmul_toeplitz    equations and products without the full matrix
    companion, fiedler, fiedler_companion, leslie       matrices of polynomials, and of populations
    block_diag, khatri_rao                              matrices made of matrices

Integer matrices such as `hilbert` or `dft` are constants: use SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import trailing_batch
from fgrad.ops.families import linear, register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.matrices import stacked_batch, transposed
from fgrad.ops.patterns import added, moved, of_system
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.linalg._arguments import (
    OPTIONS,
    SOLUTION,
    as_columns,
    check_finite_values,
    in_double,
    in_one_stack,
    rows_of,
    scipys_error,
)
from fgrad.typing import Array, ArrayLike

# Constant diagonals


def _diagonals_of(values: Array, columns: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(values, columns, axis=-1)
    return np.ascontiguousarray(windows[..., ::-1, :])


def _sums_along_diagonals(x: Array) -> Any:
    """Return the sums along the diagonals of matrices, from the lower left to the upper right.

    After each row is shifted by one more place, the elements of a diagonal are in one column.
    """
    *stack, rows, columns = x.shape
    if not rows * columns:
        return np.zeros((*stack, rows + columns - 1), x.dtype)
    padded = np.concatenate([x[..., ::-1, :], np.zeros((*stack, rows, rows), x.dtype)], axis=-1)
    flat = padded.reshape((*stack, rows * (rows + columns)))[..., :-rows]
    return np.sum(flat.reshape((*stack, rows, rows + columns - 1)), axis=-2)


_sums = linear(
    _sums_along_diagonals,
    lambda ans, x: lambda ct: _by_diagonals(ct, x.shape[-1]),
    sample((3, 4)),
    sample((2, 3, 2)),
    sample((1, 1)),
    name="sums_along_diagonals",
    batch=trailing_batch,
    pattern=lambda step: added(step, lambda places: _diagonals_of(places, step.shape[-1])),
)

_diagonals = linear(
    _diagonals_of,
    lambda ans, values, columns: lambda ct: apply(_sums, (ct,)),
    sample((5,), columns=3),
    sample((2, 4), columns=1),
    sample((1,), columns=1),
    name="by_diagonals",
    batch=trailing_batch,
    pattern=moved,
)
_diagonals.masks = "tangent"


def _by_diagonals(values: Array, columns: int) -> Any:
    """Return the matrices with given numbers along their diagonals, from the lower left to the upper right."""
    return apply(_diagonals, (values,), {"columns": columns})


def _of_column_and_row(column: Array, row: Array, columns: int) -> Any:
    """Return the matrices with constant diagonals from their first column and the rest of their first row."""
    rows, values = column.shape[-1], _joined(column[..., ::-1], row)
    if rows * columns:
        return _by_diagonals(values, columns)
    return np.reshape(values[..., :0], (*values.shape[:-1], rows, columns))


def _vector(x: ArrayLike) -> Array:
    """Return an array with at least one axis."""
    x = as_array(x)
    return np.reshape(x, (1,)) if x.ndim == 0 else x


def _joined(*parts: Array) -> Array:
    """Return vectors joined together; stacks of them are broadcast."""
    return np.concatenate(in_one_stack(*parts, ndim=1), axis=-1)


@differentiates(scipy.linalg.toeplitz)
def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix with a given first column and first row, in which each diagonal is constant.

    Args:
        c: the first column, of shape (..., m).
        r: the first row, of shape (..., n), by default the conjugate of `c`. Its first element is not used, and
            has the derivative 0.

    Returns:
        The matrix, of shape (..., m, n).

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda c: np.sum(toeplitz(c)))(np.ones(3))
        Tensor([3., 4., 2.])
    """
    c = _vector(c)
    r = np.conjugate(c) if r is None else _vector(r)
    return _of_column_and_row(c, r[..., 1:], r.shape[-1])


@differentiates(scipy.linalg.circulant)
def circulant(c: Any) -> Any:
    """Return the matrix in which each column is the previous one, shifted cyclically by one place.

    Args:
        c: the first column, of shape (..., n).

    Returns:
        The matrix, of shape (..., n, n).

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda c: circulant(c)[0, 1])(np.ones(3))
        Tensor([0., 0., 1.])
    """
    c = _vector(c)
    return _of_column_and_row(c, c[..., :0:-1], c.shape[-1])


@differentiates(scipy.linalg.hankel)
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrix with a given first column and last row, in which each antidiagonal is constant.

    Args:
        c: the first column, a vector of length m.
        r: the last row, a vector of length n, by default zeros. Its first element is not used, and has the
            derivative 0.

    Returns:
        The matrix, of shape (m, n).

    Raises:
        ShapeError: a ValueError; `c` or `r` is not a vector.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda c: np.sum(hankel(c)))(np.ones(3))
        Tensor([1., 2., 3.])
    """
    c = as_array(c)
    r = np.zeros(c.shape, c.dtype) if r is None else as_array(r)
    if c.ndim != 1 or r.ndim != 1:
        raise errors.ShapeError(
            f"hankel needs vectors if something is traced, but got shapes {c.shape} and {r.shape}.\n"
            "SciPy is about to change its treatment of other shapes; use np.ravel, or fg.vmap."
        )
    return _of_column_and_row(c[::-1], r[1:], len(r))[::-1]


@differentiates(scipy.linalg.convolution_matrix)
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Any:
    """Return the matrix of a convolution: `convolution_matrix(a, len(v), mode) @ v`.

    Args:
        a: of shape (..., m).
        n: the number of columns.
        mode: "full", "valid" or "same", as in `np.convolve`.

    Returns:
        The matrix, of shape (..., k, n), where k is the length of the convolution.

    Raises:
        ValueError: `a` is empty, `n` is not positive, or the mode is unknown.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(convolution_matrix(a, 3, "same")))(np.ones(2))
        Tensor([3., 2.])
    """
    a = as_array(a)
    if n <= 0 or not a.size or mode not in ("full", "valid", "same"):
        scipys_error(scipy.linalg.convolution_matrix, a, n=n, mode=mode)
    empty = np.zeros((*a.shape[:-1], n - 1), a.dtype)
    whole = _by_diagonals(np.concatenate([empty, a, empty], axis=-1)[..., ::-1], n)
    if mode == "full":
        return whole
    left_out = min(n, a.shape[-1]) - 1
    first = left_out if mode == "valid" else left_out // 2
    last = left_out if mode == "valid" else left_out - first
    return whole[..., first : whole.shape[-2] - last, :]


# Equations and products


def _toeplitz_solved(values: Array, b: Array) -> Any:
    rows = b.shape[-2]

    def solve_one(values: Array, b: Array) -> Array:
        pair = values[0, rows - 1 :: -1], values[0, rows - 1 :]
        return scipy.linalg.solve_toeplitz(pair, b, check_finite=False)

    return in_stacks(solve_one, values, b)


def _toeplitz_solution(values: Array, b: Array) -> Any:
    return apply(_solve_toeplitz, (values, b))


def _values_rule(ans: Array, values: Array, b: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = _toeplitz_solution(values[..., ::-1], ct)
        return -apply(_sums, (moved @ transposed(ans),))[..., None, :]

    return pullback


def _toeplitz_tangent(tangents: Sequence[Any], ans: Array, values: Array, b: Array) -> Any:
    tv, tb = tangents
    if tv is ZERO:
        return _toeplitz_solution(values, tb)
    pushed = -(_by_diagonals(tv[..., 0, :], b.shape[-2]) @ ans)
    return _toeplitz_solution(values, pushed if tb is ZERO else tb + pushed)


# The elements of the diagonals are one row, so that stacks of them are like stacks of matrices. The pullback uses
# the transpose.
_solve_toeplitz = register(
    Primitive(
        "solve_toeplitz",
        _toeplitz_solved,
        (
            _values_rule,
            lambda ans, values, b: lambda ct: _toeplitz_solution(values[..., ::-1], ct),
        ),
        _toeplitz_tangent,
        broadcasts=True,
        samples=(sample((1, 1), (1, 2), domain=(0.5, 2)), sample((2, 1, 1), (1, 1), domain=(0.5, 2))),
        pattern=of_system,
    )
)
_solve_toeplitz.batch = stacked_batch(_solve_toeplitz)


def _column_and_row(c_or_cr: ArrayLike) -> tuple[Any, Any]:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    c = as_array(c)
    return c, np.conjugate(c) if r is None else as_array(r)


@differentiates(scipy.linalg.solve_toeplitz, SOLUTION, OPTIONS)
def solve_toeplitz(c_or_cr: ArrayLike, b: Any, check_finite: bool = True) -> Any:
    """Solve the equation `toeplitz(c, r) @ x = b` in quadratic time.

    Args:
        c_or_cr: the first column, of shape (..., n), or a tuple of it and the first row, as in `toeplitz`.

    Returns:
        The solution, of shape (..., n) or (..., n, k), in double precision.

    Raises:
        LinAlgError: a ValueError; a leading part of the matrix is singular.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> b = np.array([2.0, 4.0])
        >>> fg.grad(lambda c: solve_toeplitz(c, b)[0])(np.array([2.0, 0.0]))
        Tensor([-0.5, -1. ])
    """
    c, r = _column_and_row(c_or_cr)
    b = as_array(b)
    if check_finite:
        check_finite_values(c, r, b)
    if c.shape[-1:] != r.shape[-1:] or c.ndim < 1 or rows_of(b) != c.shape[-1]:
        scipys_error(lambda c, r, b: scipy.linalg.solve_toeplitz((c, r), b), c, r, b)
    c, r, b = in_double(c, r, b, check_finite=False)
    if not b.size:
        return b
    values = _joined(c[..., ::-1], r[..., 1:])[..., None, :]
    x = _toeplitz_solution(values, as_columns(b))
    return x[..., 0] if b.ndim == 1 else x


@differentiates(scipy.linalg.matmul_toeplitz, OPTIONS)
def matmul_toeplitz(c_or_cr: ArrayLike, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Return `toeplitz(c, r) @ x` by Fourier transforms.

    Args:
        c_or_cr: the first column, of shape (..., m), or a tuple of it and the first row, of shape (..., n).
        x: a vector of shape (n,), or of shape (..., n, k); stacks are broadcast.
        workers: accepted, and ignored if something is traced.

    Returns:
        The product, of shape (..., m) or (..., m, k), in double precision.

    Raises:
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda c: matmul_toeplitz(c, np.array([1.0, 10.0]))[0])(np.ones(2)).round(12)
        Tensor([ 1., 10.])
    """
    c, r = _column_and_row(c_or_cr)
    x = as_array(x)
    if check_finite:
        check_finite_values(c, r, x)
    if min(c.ndim, r.ndim) < 1 or rows_of(x) != r.shape[-1]:
        scipys_error(lambda c, r, x: scipy.linalg.matmul_toeplitz((c, r), x), c, r, x)
    c, r, x = in_double(c, r, x, check_finite=False)
    rows, columns = c.shape[-1], as_columns(x)
    if not x.size:
        result = np.zeros((*x.shape[:-2], rows, columns.shape[-1]), x.dtype)
    else:
        ring = _joined(c, r[..., :0:-1])[..., None]
        size = ring.shape[-2]
        if ring.dtype.kind == "c":
            result = np.fft.ifft(np.fft.fft(ring, axis=-2) * np.fft.fft(columns, size, axis=-2), axis=-2)
        else:
            product = np.fft.rfft(ring, axis=-2) * np.fft.rfft(columns, size, axis=-2)
            result = np.fft.irfft(product, size, axis=-2)
        result = result[..., :rows, :]
    return result[..., 0] if x.ndim == 1 else result


@differentiates(scipy.linalg.solve_circulant)
def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """Solve the equation `circulant(c) @ x = b` by Fourier transforms.

    Args:
        c: the coefficients of the matrix.
        b: the right-hand side.
        singular: "raise" an error for a matrix that is singular to `tol`, or "lstsq" for the least-squares
            solution, whose derivative holds for changes that keep the rank.
        tol: the size up to which a Fourier coefficient counts as 0; by default a multiple of the precision.
        caxis, baxis, outaxis: the axes of `c`, `b` and the solution along which the equations are solved.

    Returns:
        The solution, for all rows of `c` and `b` broadcast against each other.

    Raises:
        LinAlgError: a ValueError; the matrix is singular.
        ValueError: the shapes are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> c = np.array([2.0, 0.0, 0.0])
        >>> fg.grad(lambda b: solve_circulant(c, b)[0])(np.ones(3)).round(12)
        Tensor([0.5, 0. , 0. ])
    """
    c, b = _vector(c), _vector(b)
    fits = -c.ndim <= caxis < c.ndim and -b.ndim <= baxis < b.ndim and c.shape[caxis] == b.shape[baxis]
    if not fits or not b.size:
        scipys_error(lambda c, b: scipy.linalg.solve_circulant(c, b, caxis=caxis, baxis=baxis), c, b)
        return b
    is_real = c.dtype.kind != "c" and b.dtype.kind != "c"
    values = np.fft.fft(np.moveaxis(c, caxis, -1), axis=-1)
    sizes = np.abs(values)
    if tol is None:
        factor = sizes.shape[-1] * float(np.finfo(np.float64).eps)
        is_zero = sizes <= np.max(sizes, axis=-1, keepdims=True) * factor
    else:
        is_zero = sizes <= tol
    quotient = np.fft.fft(np.moveaxis(b, baxis, -1), axis=-1) / np.where(is_zero, 1, values)
    if singular != "raise":
        quotient = np.where(is_zero, np.zeros((), quotient.dtype), quotient)
    elif np.any(raw_array(is_zero)):
        raise np.linalg.LinAlgError("near singular circulant matrix.")
    x = np.fft.ifft(quotient, axis=-1)
    return np.moveaxis(np.real(x) if is_real else x, -1, outaxis)


# Matrices with given elements


def _placed(places: Array, *values: Array) -> Any:
    """Return matrices with values at given places: 0 means 0, 1 means 1, and values are numbered from 2 on."""
    parts = [as_array(x) for x in values]
    dtype = np.result_type(*(x.dtype for x in parts))
    return _joined(np.arange(2).astype(dtype), *parts)[..., places]


@differentiates(scipy.linalg.companion)
def companion(a: Any) -> Any:
    """Return the companion matrix of a polynomial, whose eigenvalues are the roots.

    Args:
        a: the coefficients in order of decreasing powers, of shape (..., n).

    Returns:
        The matrix, of shape (..., n - 1, n - 1).

    Raises:
        ValueError: there are fewer than two coefficients, or the first one is 0.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: companion(a)[0, 1])(np.array([2.0, 3.0, 4.0]))
        Tensor([ 1. ,  0. , -0.5])
    """
    a = _vector(a)
    size = a.shape[-1] - 1
    if size < 1 or np.any(raw_array(a[..., 0]) == 0):
        scipys_error(lambda a: scipy.linalg.companion(a * 0), a)
    places = np.eye(size, k=-1, dtype=int)
    places[0] = np.arange(2, size + 2)
    return _placed(places, -a[..., 1:] / (1.0 * a[..., :1]))


@differentiates(scipy.linalg.fiedler_companion)
def fiedler_companion(a: Any) -> Any:
    """Return a pentadiagonal companion matrix of a polynomial, whose eigenvalues are the roots.

    Args:
        a: the coefficients in order of decreasing powers, of shape (..., n).

    Returns:
        The matrix, of shape (..., n - 1, n - 1).

    Raises:
        ValueError: the first coefficient is 0.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: fiedler_companion(a)[0, 1])(np.array([2.0, 3.0, 4.0]))
        Tensor([ 1. ,  0. , -0.5])
    """
    a = _vector(a)
    size = a.shape[-1] - 1
    if size < 1:
        return np.zeros(0, a.dtype)
    if size > 1 and np.any(raw_array(a[..., 0]) == 0):
        raise ValueError("Leading coefficient is zero.")
    # SciPy makes the matrix from the numbers of the coefficients; 1 and 0 are constants.
    numbered = scipy.linalg.fiedler_companion(np.array([1.0, *range(-2, -2 - size, -1)]))
    return _placed(np.rint(numbered).astype(int), -a[..., 1:] / a[..., :1])


@differentiates(scipy.linalg.leslie)
def leslie(f: Any, s: Any) -> Any:
    """Return the Leslie matrix of a population.

    Args:
        f: the number of offspring of each age group, of shape (..., n).
        s: the fraction of each group that survives, of shape (..., n - 1).

    Returns:
        The matrix, of shape (..., n, n).

    Raises:
        ValueError: the lengths are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda s: leslie(np.ones(3), s)[1, 0])(np.array([0.5, 0.6]))
        Tensor([1., 0.])
    """
    f, s = _vector(f), _vector(s)
    size = f.shape[-1]
    if size != s.shape[-1] + 1 or size < 2:
        scipys_error(scipy.linalg.leslie, f, s)
    places = np.zeros((size, size), int)
    places[0] = np.arange(2, size + 2)
    places[range(1, size), range(size - 1)] = np.arange(size + 2, 2 * size + 1)
    return _placed(places, f, s)


@differentiates(scipy.linalg.fiedler)
def fiedler(a: Any) -> Any:
    """Return the absolute differences of all pairs of numbers; for equal ones the derivative is 0.

    Args:
        a: of shape (..., n).

    Returns:
        The matrix, of shape (..., n, n).

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: fiedler(a)[0, 1])(np.array([3.0, 5.0]))
        Tensor([-1.,  1.])
    """
    a = _vector(a)
    if a.size < 2:
        return np.zeros((1, 1) if a.size else 0)
    return np.abs(a[..., :, None] - a[..., None, :])


# Matrices made of matrices


@differentiates(scipy.linalg.block_diag)
def block_diag(*arrs: ArrayLike) -> Any:
    """Return the block-diagonal matrix.

    Args:
        arrs: numbers, rows, or arrays of shape (..., m, n); stacks are broadcast.

    Returns:
        The matrix, with the sums of the numbers of rows and columns.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(block_diag(a, a) ** 2))(np.array([[1.0, 2.0]]))
        Tensor([[4., 8.]])
    """
    blocks = [as_array(x) for x in arrs]
    blocks = [np.reshape(x, (1,) * (2 - x.ndim) + x.shape) if x.ndim < 2 else x for x in blocks]
    width, dtype = sum(x.shape[-1] for x in blocks), np.result_type(*(x.dtype for x in blocks))
    rows, before = [], 0
    for x in in_one_stack(*blocks):
        *sizes, columns = x.shape
        left, right = (np.zeros((*sizes, n), dtype) for n in (before, width - before - columns))
        rows.append(np.concatenate([left, x, right], axis=-1))
        before += columns
    return np.concatenate(rows, axis=-2)


@differentiates(scipy.linalg.khatri_rao)
def khatri_rao(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the Khatri-Rao product: the Kronecker products of corresponding columns.

    Args:
        a: of shape (..., m, k).
        b: of shape (..., n, k).

    Returns:
        The products, of shape (..., m n, k).

    Raises:
        ValueError: the numbers of columns differ, or an array has fewer than two axes.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(khatri_rao(a, np.array([[1.0, 2.0], [3.0, 4.0]]))))(np.ones((1, 2)))
        Tensor([[4., 6.]])
    """
    a, b = as_array(a), as_array(b)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        scipys_error(scipy.linalg.khatri_rao, a, b)
    products = a[..., :, None, :] * b[..., None, :, :]
    return np.reshape(products, (*products.shape[:-3], a.shape[-2] * b.shape[-2], a.shape[-1]))
