"""Solving with an existing factorization: derivatives of all orders reuse the factors.

    by_triangle(a, b, "lower")      with one triangle of `a`
    by_factors(a, b)                with `a`, whose LU factors are computed once
    by_cholesky(a, b)               with positive definite `a`, likewise

Matrices and right-hand sides are stacks, which are broadcast; a right-hand side is a matrix. With
`of_transpose=True` the transposed equation is solved, without conjugation.

For `x = inv(a) @ b` the cotangents are `inv(a).T @ ct` of `b`, and that times `-x.T` of `a` (M. Giles,
"Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008),
https://doi.org/10.1007/978-3-540-68942-3_4, section 2.3.1). The factors are constants in the rules: derivatives
with respect to `a` are written in terms of `a` itself.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply, boxed
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import fixed, in_stacks, lapack, scipys
from fgrad.ops.matrices import conjugated, stacked_batch, transposed, where_used
from fgrad.ops.patterns import of_system
from fgrad.typing import Array, Operand

# Single matrices, by LAPACK


def _by_triangle(is_lower: bool, is_transposed: bool, a: Any, b: Array) -> Any:
    trtrs = lapack("trtrs", np.result_type(a, b).char)
    if a.flags.f_contiguous:
        x, info = trtrs(a, b, lower=is_lower, trans=int(is_transposed))
    else:  # the transpose has LAPACK's memory order, and is not copied
        x, info = trtrs(a.T, b, lower=not is_lower, trans=int(not is_transposed))
    if info > 0:
        raise np.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return x


def _by_lu(is_transposed: bool, a: Array, b: Array, lu: Array, pivots: Array) -> Any:
    return lapack("getrs", b.dtype.char)(lu, pivots[:, 0], b, trans=int(is_transposed))[0]


def _by_cholesky(is_transposed: bool, a: Array, b: Array, factor: Array) -> Any:
    potrs = lapack("potrs", b.dtype.char)
    if is_transposed and np.iscomplexobj(b):  # the transpose of a Hermitian matrix is its conjugate
        return np.conjugate(potrs(factor, np.conjugate(b), lower=1)[0])
    return potrs(factor, b, lower=1)[0]


_METHODS: dict[str, Callable[..., Any]] = {
    "lower": functools.partial(_by_triangle, True),
    "upper": functools.partial(_by_triangle, False),
    "lu": _by_lu,
    "cholesky": _by_cholesky,
}


# Stacks of matrices, and their rules


def _solved(a: Array, b: Any, *factors: Array, method: str, of_transpose: bool) -> Any:
    rows, columns = b.shape[-2:]
    if not rows * columns:
        return np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns), b.dtype)
    solver = functools.partial(_METHODS[method], of_transpose)
    if a.ndim == 2 and b.ndim > 2:  # one matrix for all right-hand sides, which become columns
        side_by_side = np.moveaxis(b, -2, 0)
        x = solver(a, side_by_side.reshape(rows, -1), *factors)
        return np.moveaxis(x.reshape(side_by_side.shape), 0, -2)
    return in_stacks(solver, a, b, *factors)


def _of_triangle(x: Array, method: str) -> Any:
    """Return the part of a matrix cotangent or tangent that the solution method reads."""
    return {"lower": np.tril, "upper": np.triu}.get(method, lambda x: x)(x)


def _matrix_rule(
    ans: Array, a: Array, b: Array, *factors: Array, method: str, of_transpose: bool
) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = apply(_solve, (a, ct, *factors), {"method": method, "of_transpose": not of_transpose})
        left, right = (ans, moved) if of_transpose else (moved, ans)
        return _of_triangle(-left @ transposed(right), method)

    return where_used(pullback, a)


def _side_rule(
    ans: Array, a: Array, b: Array, *factors: Array, method: str, of_transpose: bool
) -> Callable[[Any], Any]:
    options = {"method": method, "of_transpose": not of_transpose}
    return where_used(lambda ct: apply(_solve, (a, ct, *factors), options), a)


def _solve_tangent(
    tangents: Sequence[Any], ans: Array, a: Array, b: Array, *factors: Array, method: str, of_transpose: bool
) -> Any:
    ta, tb = tangents[:2]
    moved = tb
    if ta is not ZERO:
        ta = _of_triangle(ta, method)
        pushed = -((transposed(ta) if of_transpose else ta) @ ans)
        moved = pushed if tb is ZERO else tb + pushed
    return apply(_solve, (a, moved, *factors), {"method": method, "of_transpose": of_transpose})


_solve = register(
    Primitive(
        "solve_factored",
        _solved,
        (_matrix_rule, _side_rule, None, None),
        _solve_tangent,
        broadcasts=True,
        scales="pullback",
        samples=(
            sample((3, 3), (3, 2), domain=(0.5, 2), method="lower", of_transpose=False),
            sample((2, 2, 2), (2, 1), domain=(0.5, 2), method="upper", of_transpose=False),
            sample((2, 2), (2, 2, 3), domain=(0.5, 2), method="lower", of_transpose=True),
            sample((2, 1, 2, 2), (3, 2, 1), domain=(0.5, 2), method="upper", of_transpose=True),
            sample((0, 0), (0, 2), method="lower", of_transpose=False),
        ),
        pattern=of_system,
    )
)
_solve.batch = stacked_batch(_solve)


# Factors


def _warn_of_condition(reciprocal: Operand, dtype: np.dtype[Any]) -> None:
    if not reciprocal >= np.finfo(dtype).eps:
        message = f"An ill-conditioned matrix detected: rcond = {reciprocal}."
        warnings.warn(message, scipys().LinAlgWarning, stacklevel=2)


def _norm(a: Array) -> Any:
    return np.max(np.sum(np.abs(a), axis=0))


def _refuse_singular(info: int) -> None:
    if info > 0:
        raise np.linalg.LinAlgError("A singular matrix detected.")


def _lu(a: Array, warns: bool) -> tuple[Any, Any]:
    """Return the LU factors in one matrix, and the row interchanges, counted from 0, as a column."""
    lu, pivots, info = lapack("getrf", a.dtype.char)(a)
    if not warns and info > 0:
        raise np.linalg.LinAlgError("Singular matrix")
    _refuse_singular(info)
    if warns:
        _warn_of_condition(lapack("gecon", a.dtype.char)(lu, _norm(a))[0], a.dtype)
    return lu, pivots[:, None]


def _cholesky(a: Array) -> Any:
    factor, info = lapack("potrf", a.dtype.char)(a, lower=1, clean=0)
    _refuse_singular(info)
    _warn_of_condition(lapack("pocon", a.dtype.char)(factor, _norm(a), uplo="L")[0], a.dtype)
    return factor


def _no_factor(a: Array) -> bool:
    """Return whether matrices are empty, which LAPACK does not accept."""
    return not a.shape[-1]


def _lu_of(a: Array, warns: bool) -> tuple[Any, Any]:
    if _no_factor(a):
        return a, np.zeros((*a.shape[:-1], 1), np.int32)
    return in_stacks(functools.partial(_lu, warns=warns), a)  # type: ignore[no-any-return]


_lu_factors = fixed("lu_factors", _lu_of)
_cholesky_factor = fixed("cholesky_factor", lambda a: a if _no_factor(a) else in_stacks(_cholesky, a))


def _held(factor: Array) -> Any:
    """Return a factor as a tensor. The array is private, so no pullback needs a copy or a fingerprint."""
    return boxed(factor) if type(factor) is np.ndarray else factor


# Functions for other modules


def by_triangle(a: Array, b: Array, triangle: str, of_transpose: bool = False) -> Any:
    """Return the `x` with `a @ x = b`, where only one triangle of `a`, "lower" or "upper", is read.

    Raises:
        LinAlgError: a ValueError; the diagonal contains a 0.
    """
    return apply(_solve, (a, b), {"method": triangle, "of_transpose": of_transpose})


def by_factors(a: Array, b: Array, of_transpose: bool = False, warns: bool = True) -> Any:
    """Return the `x` with `a @ x = b`; for an `a` singular to rounding, warn as SciPy does, or not, as NumPy.

    Raises:
        LinAlgError: a ValueError; `a` is singular.
    """
    factors = map(_held, _lu_factors(a, warns=warns))
    return apply(_solve, (a, b, *factors), {"method": "lu", "of_transpose": of_transpose})


def by_cholesky(a: Array, b: Array, of_transpose: bool = False) -> Any:
    """Return the `x` with `a @ x = b` for a Hermitian positive definite `a`, given in full.

    Raises:
        LinAlgError: a ValueError; `a` is not positive definite.
    """
    return apply(_solve, (a, b, _held(_cholesky_factor(a))), {"method": "cholesky", "of_transpose": of_transpose})


def conjugating(solver: Callable[..., Any], a: Array, b: Array, *args: object) -> Any:
    """Return the solution for the adjoint of `a`, using a solver of the transposed equation."""
    return conjugated(solver(a, conjugated(b), *args, of_transpose=True))
