"""Equations and inverses: `solve`, `solve_triangular`, `inv`, `det`, `lstsq`, `pinv`, `pinvh`, `norm`.

The part of a matrix that a function does not read has the derivative 0: with `assume_a="sym"` one triangle, with
`assume_a="diagonal"` everything off the diagonal. So a gradient is that of SciPy's function, in agreement with finite
differences; for a symmetric matrix computed from parameters, the derivative with respect to these is the same.

`solve` factors its matrix once, for the value and for derivatives of every order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from fgrad.core.coerce import as_array
from fgrad.core.primitive import PRIMITIVES, ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.core.views import as_number
from fgrad.ops.families import register, sample
from fgrad.ops.matrices import (
    adjoint,
    cotangent_of,
    diagonal,
    hermitian_from,
    real,
    stacked_batch,
    transposed,
)
from fgrad.ops.solving import by_cholesky, by_factors, by_triangle, conjugating
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.linalg._arguments import (
    OPTIONS,
    SOLUTION,
    as_columns,
    check_finite_values,
    fits,
    is_square,
    numbers,
    of_dtype,
    rows_of,
    rules_of,
    scipys_error,
)
from fgrad.scipy.linalg.banded import by_diagonals
from fgrad.typing import Array, ArrayLike

# Structured matrices

_NAMES = {"gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}
_STRUCTURES = {
    *("diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular"),
    *("symmetric", "hermitian", "positive definite", "general"),
}


def _structure(assume_a: str | None) -> str:
    """Return the full name of a structure. Without one SciPy detects it, and the whole matrix is used."""
    name = "general" if assume_a is None else _NAMES.get(assume_a, assume_a)
    if name not in _STRUCTURES:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return name


def _whole(a: Array, structure: str, lower: bool) -> Any:
    """Return the symmetric or Hermitian matrix that SciPy reads from one triangle; other structures are unchanged."""
    if structure == "symmetric" and a.dtype.kind == "c":
        rows = np.arange(a.shape[-1])[:, None]
        return np.where(rows >= rows.T if lower else rows <= rows.T, a, transposed(a))
    if structure in ("symmetric", "hermitian", "positive definite"):
        return hermitian_from(a, "L" if lower else "U")
    return a


def _without_zeros(values: Array) -> Array:
    """Return the divisor, after a check for zeros."""
    if np.any(raw_array(values) == 0):
        raise np.linalg.LinAlgError("A singular matrix detected.")
    return values


def _solved(a: Array, columns: Array, structure: str, lower: bool, is_transposed: bool) -> Any:
    if structure == "diagonal":
        return columns / _without_zeros(diagonal(a))[..., None]
    if structure == "tridiagonal":
        return by_diagonals(transposed(a) if is_transposed else a, columns)
    if structure in ("lower triangular", "upper triangular"):
        return by_triangle(a, columns, structure[:5], is_transposed)
    method = by_cholesky if structure == "positive definite" else by_factors
    return method(_whole(a, structure, lower), columns, is_transposed)


@differentiates(scipy.linalg.solve, SOLUTION, OPTIONS)
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Solve the equation `a @ x = b` for square `a`.

    Args:
        a: of shape (..., n, n).
        lower: which triangle is read, if only one is.
        assume_a: "diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular", "symmetric"
            ("sym"), "hermitian" ("her"), "positive definite" ("pos") or "general" ("gen"). The part of `a` that is
            not read has the derivative 0. None means no assumption.
        transposed: whether to solve `a.T @ x = b`, for real `a`.

    Raises:
        LinAlgError: a ValueError; `a` is singular, or not positive definite where that is assumed.
        ValueError: the shapes are incompatible, there are infinities or NaN, or `assume_a` is unknown.
        NotImplementedError: `transposed` with complex `a`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, b = np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0])
        >>> fg.grad(lambda a: solve(a, b, assume_a="upper triangular")[0])(a)
        Tensor([[-0.5  , -0.5  ],
                [ 0.   ,  0.125]])
    """
    structure = _structure(assume_a)
    a, b = numbers(a, b, check_finite=check_finite)
    a = np.reshape(a, (1,) * (2 - a.ndim) + a.shape) if a.ndim < 2 else a
    if a.size == 1 and b.size:
        return _by_one_number(a, b)
    if not fits(a, b) or (transposed and a.dtype.kind == "c"):
        scipys_error(scipy.linalg.solve, a, b, transposed=transposed)
    x = _solved(a, as_columns(b), structure, lower, transposed)
    return x[..., 0] if b.ndim == 1 else x


def _by_one_number(a: Array, b: Array) -> Any:
    """Return `b / a` for a matrix with one element, which SciPy treats as a number."""
    x = as_columns(np.reshape(b, (1,)) if b.ndim == 0 else b) / _without_zeros(a)
    return x[..., 0] if b.ndim <= 1 else x


_TRANSPOSES: dict[Any, int] = {"N": 0, "T": 1, "C": 2}


@differentiates(scipy.linalg.solve_triangular, SOLUTION, OPTIONS)
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve the equation `a @ x = b` for triangular `a`.

    Args:
        a: of shape (..., n, n). Only one triangle is read; the other has the derivative 0.
        trans: 0 or "N" for `a`, 1 or "T" for its transpose, 2 or "C" for its adjoint.
        lower: whether to read the lower triangle.
        unit_diagonal: whether the diagonal is assumed to be 1, and not read.

    Raises:
        LinAlgError: a ValueError; the diagonal contains a 0.
        ValueError: the shapes are incompatible, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, b = np.array([[2.0, 7.0], [1.0, 4.0]]), np.array([2.0, 9.0])
        >>> fg.value_and_grad(lambda a: solve_triangular(a, b, lower=True)[1])(a)
        (Tensor(2.), Tensor([[ 0.125,  0.   ],
                [-0.25 , -0.5  ]]))
    """
    a, b = numbers(a, b, check_finite=check_finite)
    if not fits(a, b):
        scipys_error(scipy.linalg.solve_triangular, a, b)
    if unit_diagonal:
        a = (np.tril(a, -1) if lower else np.triu(a, 1)) + np.eye(a.shape[-1], dtype=a.dtype)
    x = triangular_solution(a, as_columns(b), lower, _TRANSPOSES.get(trans, trans))
    return x[..., 0] if b.ndim == 1 else x


def triangular_solution(a: Any, b: Any, lower: bool, trans: int | str) -> Any:
    """Return the solution with one triangle of `a`, of its transpose (1) or of its adjoint (2)."""
    triangle = "lower" if lower else "upper"
    if trans == 2 and a.dtype.kind == "c":
        return conjugating(by_triangle, a, b, triangle)
    return by_triangle(a, b, triangle, bool(trans))


# Inverses and determinants


def _inverse(a: Array, options: tuple[tuple[str, Any], ...]) -> Array:
    if a.ndim > 2 and _ONE_AT_A_TIME:
        flat = a.reshape((-1, *a.shape[-2:]))
        return np.reshape([scipy.linalg.inv(each, check_finite=False, **dict(options)) for each in flat], a.shape)
    return scipy.linalg.inv(a, check_finite=False, **dict(options))


_ONE_AT_A_TIME = np.lib.NumpyVersion(scipy.__version__) < "1.16.0"
"""Whether SciPy's `inv` takes no stacks of matrices."""


_REVERSE, _FORWARD = rules_of("inv")

_inv = register(
    Primitive(
        "scipy_inv",
        _inverse,
        (lambda ans, a, options: _REVERSE(ans, a, strict=True),),
        lambda tangents, ans, a, options: _FORWARD(tangents, ans, a, strict=True),
        samples=(sample((3, 3), options=()), sample((2, 2, 2), options=())),
    )
)
_inv.batch = stacked_batch(_inv)


@differentiates(scipy.linalg.inv, OPTIONS)
def inv(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Any:
    """Return the inverse of a square matrix.

    Args:
        a: of shape (..., n, n).
        assume_a: as in `solve`. With "diagonal" SciPy keeps the elements off the diagonal.
        lower: which triangle is read, if only one is.

    Returns:
        The inverse, of the shape of `a`.

    Raises:
        LinAlgError: a ValueError; `a` is singular, or not positive definite where that is assumed.
        ValueError: `a` is not square, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: inv(a)[0, 0])(np.diag([2.0, 4.0]))
        Tensor([[-0.25,  0.  ],
                [ 0.  ,  0.  ]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    options = () if assume_a is None else (("assume_a", assume_a), ("lower", bool(lower)))
    if not is_square(a):
        scipys_error(scipy.linalg.inv, a)
    if assume_a == "diagonal":
        is_diagonal = np.eye(a.shape[-1], dtype=np.bool_)
        return np.where(is_diagonal, 1 / _without_zeros(np.where(is_diagonal, a, 1)), a)
    if assume_a in ("upper triangular", "lower triangular"):
        a = np.triu(a) if assume_a[0] == "u" else np.tril(a)
    elif assume_a is not None:
        a = _whole(a, _NAMES.get(assume_a, assume_a), lower)
    return apply(_inv, (a,), {"options": options})


@differentiates(scipy.linalg.det, OPTIONS)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinant of a square matrix; the derivative is also correct for singular matrices.

    Args:
        a: of shape (..., n, n).

    Returns:
        The determinants, of shape (...), in double precision.

    Raises:
        ValueError: `a` is not square, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
        Tensor([[ 4., -2.],
                [-2.,  1.]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if not is_square(a):
        scipys_error(scipy.linalg.det, a)
    return np.linalg.det(of_dtype(a, np.complex128 if a.dtype.kind == "c" else np.float64))


# Least squares and pseudo-inverses


@differentiates(scipy.linalg.lstsq, OPTIONS)
def lstsq(
    a: Any,
    b: Any,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    """Return the least-squares solution of smallest norm of `a @ x = b`.

    The derivative of the solution holds for changes that keep the rank; without full rank, other changes have
    none.

    Args:
        a: of shape (..., m, n).
        b: a vector of shape (m,), or of shape (..., m, k).
        cond: singular values below this times the largest one count as 0; by default the precision of the dtype.
        lapack_driver: "gelsd", "gelss" or "gelsy"; the last returns neither residuals nor singular values.

    Returns:
        The solution of shape (..., n) or (..., n, k); the sums of squared residuals, if the rank is n < m, otherwise
        an empty array; the rank; and the singular values.

    Raises:
        NoDerivativeError: a ValueError; `cond` drops singular values that are not 0.
        ValueError: the shapes are incompatible, there are infinities or NaN, or the driver is unknown.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, b = np.array([[1.0], [2.0]]), np.array([2.0, 4.0])
        >>> fg.grad(lambda b: lstsq(a, b)[0][0])(b)
        Tensor([0.2, 0.4])
    """
    a, b = numbers(a, b, check_finite=check_finite)
    if a.ndim < 2 or rows_of(b) != a.shape[-2]:
        scipys_error(scipy.linalg.lstsq, a, b)
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    rows, size = a.shape[-2:]
    cutoff = float(np.finfo(a.dtype).eps if cond is None else cond)
    inverse, s = apply(PRIMITIVES["pinv_and_values"], (a,), {"cutoff": cutoff})
    columns = as_columns(b)
    x = inverse @ columns
    rank = np.sum(s > cutoff * np.max(s, axis=-1, keepdims=True, initial=0), axis=-1, dtype=np.intc)
    residuals = np.zeros(0, x.dtype)
    # Under vmap the residuals exist for all examples or for none: only if the matrices have full rank.
    if rows > size and lapack_driver != "gelsy" and np.all(raw_array(rank) == size):
        left = columns - a @ x
        residuals = np.sum(real(left * np.conjugate(left)), axis=-2)
        residuals = as_number(residuals[..., 0]) if b.ndim == 1 else residuals
    return (x[..., 0] if b.ndim == 1 else x), residuals, rank, None if lapack_driver == "gelsy" else s


def _pinv_and_rank(a: Array, atol: float, rtol: float) -> tuple[Any, Any]:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    is_kept = s > atol + rtol * np.max(s, axis=-1, keepdims=True, initial=0)
    inverse = np.where(is_kept, 1 / np.where(is_kept, s, 1), np.zeros((), s.dtype))
    v, uh = map(adjoint, (vh, u))
    return (v * inverse[..., None, :]) @ uh, np.sum(is_kept, axis=-1)[()]


_PINV_REVERSE, _PINV_FORWARD = rules_of("pinv")


def _pinv_rule(ans: tuple[Any, ...], a: Array, atol: float, rtol: float) -> Any:
    pullback = _PINV_REVERSE(ans[0], a, cutoff=rtol, hermitian=False)
    return lambda cts: ZERO if cotangent_of(cts, 0) is None else pullback(cts[0])


_pinv = register(
    Primitive(
        "pinv_and_rank",
        _pinv_and_rank,
        (_pinv_rule,),
        lambda tangents, ans, a, atol, rtol: (_PINV_FORWARD(tangents, ans[0], a, cutoff=rtol, hermitian=False), ZERO),
        samples=(sample((3, 3), atol=0.0, rtol=1e-15), sample((2, 2, 3), atol=1e-12, rtol=0.0)),
    )
)
_pinv.batch = stacked_batch(_pinv)


def _pseudo_inverse(a: Array, atol: float | None, rtol: float | None, return_rank: bool) -> Any:
    atol = 0.0 if atol is None else float(atol)
    rtol = float(max(a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else rtol)
    if atol < 0 or rtol < 0:
        raise ValueError("atol and rtol values must be positive.")
    inverse, rank = apply(_pinv, (a,), {"atol": atol, "rtol": rtol})
    return (inverse, rank) if return_rank else inverse


@differentiates(scipy.linalg.pinv, OPTIONS)
def pinv(
    a: Any,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the pseudo-inverse of a matrix.

    The derivative holds for changes that keep the rank; without full rank, other changes have none.

    Args:
        a: of shape (..., m, n).
        atol: absolute cutoff of singular values, by default 0.
        rtol: cutoff relative to the largest one, by default `max(m, n)` times the precision.
        return_rank: whether to return the rank, too.

    Returns:
        The pseudo-inverse of shape (..., n, m), or a pair of it and the rank.

    Raises:
        NoDerivativeError: a ValueError; `atol` or `rtol` drops singular values that are not 0.
        ValueError: `atol` or `rtol` is negative, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: pinv(a)[0, 0])(np.array([[2.0], [0.0]]))
        Tensor([[-0.25],
                [ 0.  ]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if a.ndim < 2:
        scipys_error(scipy.linalg.pinv, a)
    return _pseudo_inverse(a, atol, rtol, return_rank)


@differentiates(scipy.linalg.pinvh, OPTIONS)
def pinvh(
    a: ArrayLike,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the pseudo-inverse of a Hermitian matrix; only one triangle is read.

    Args:
        a: of shape (..., n, n). The triangle that is not read has the derivative 0.
        atol, rtol: cutoffs of absolute eigenvalues, as in `pinv`.
        lower: whether to read the lower triangle rather than the upper one.
        return_rank: whether to return the rank, too.

    Returns:
        The pseudo-inverse of the shape of `a`, or a pair of it and the rank.

    Raises:
        NoDerivativeError: a ValueError; `atol` or `rtol` drops eigenvalues that are not 0.
        ValueError: `a` is not square, `atol` or `rtol` is negative, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: pinvh(a)[0, 1])(np.eye(2))
        Tensor([[ 0.,  0.],
                [-1.,  0.]])
    """
    (a,) = numbers(a, check_finite=check_finite)
    if not is_square(a):
        scipys_error(scipy.linalg.pinvh, a)
    return _pseudo_inverse(hermitian_from(a, "L" if lower else "U"), atol, rtol, return_rank)


@differentiates(scipy.linalg.norm, OPTIONS)
def norm(a: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return the norm of a vector or matrix, of any order; at 0 its derivative is 0.

    Args:
        a: an array.
        ord: a number, "fro" or "nuc", as in `np.linalg.norm`.
        axis: one axis for vectors, two for matrices; by default all.
        keepdims: whether these axes are kept with size 1.

    Returns:
        A number, or an array of norms.

    Raises:
        ValueError: the order is unknown, the axes are invalid for it, or there are infinities or NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(norm)(np.array([3.0, 4.0]))
        Tensor([0.6, 0.8])
    """
    a = as_array(a)
    if check_finite:
        check_finite_values(a)
    return np.linalg.norm(a, ord=ord, axis=axis, keepdims=keepdims)
