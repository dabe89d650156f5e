"""Common code of this package: conversion of arguments, and rules of NumPy's operations.

numbers(a, b)                arrays or tensors of a common dtype of LAPACK
as_columns(b)                a vector as a matrix with one column
in_one_stack(a, b)           matrices whose stacks are broadcast
rules_of("eigh")             the rules of a NumPy operation, for SciPy's implementation of it
refused(f, why, instead)     a SciPy function without a derivative, with the reason
scipys_error(f, ...)         raise SciPy's own error for a wrong call
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import PRIMITIVES
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.typing import Array, ArrayLike, DTypeLike

OPTIONS = """
Args:
    overwrite_a, overwrite_b, overwrite_ab: accepted, and ignored if something is traced.
    check_finite: whether infinities and NaN are rejected.
"""
"""What functions of a matrix are documented with."""

SOLUTION = """
Args:
    b: a vector of shape (n,), or of shape (..., n, k); stacks are broadcast.

Returns:
    The solution, of shape (..., n) or (..., n, k).
"""
"""What functions that solve `a @ x = b` are documented with, besides."""

SCIPY: Any = scipy.linalg
"""SciPy's functions, typed for calls with arbitrary options."""


def lapack_dtype(*arrays: Array) -> np.dtype[Any]:
    """Return LAPACK's dtype for arrays: of single or double precision, real or complex.

    Raises:
        ValueError: an array holds objects; the message is SciPy's.
    """
    dtype = np.result_type(*(x.dtype for x in arrays))
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind not in "fc":
        raise ValueError("object arrays are not supported")
    is_double = np.finfo(dtype).bits > 32
    return np.dtype(("FD" if dtype.kind == "c" else "fd")[is_double])


def of_dtype(x: Array, dtype: DTypeLike) -> Any:
    """Return an array in a dtype; unchanged if it has this dtype."""
    return x if x.dtype == dtype else astype(x, dtype)


def check_finite_values(*arrays: Any) -> None:
    """Reject infinities and NaN, as SciPy does; the message is NumPy's.

    Raises:
        ValueError: there are infinities or NaN.
    """
    for x in arrays:
        np.asarray_chkfinite(raw_array(x))


def numbers(*arrays: Any, check_finite: bool = True) -> list[Any]:
    """Return arguments as arrays or tensors of a common dtype of LAPACK; infinities and NaN may be rejected."""
    arrays = tuple(map(as_array, arrays))
    if check_finite:
        check_finite_values(*arrays)
    dtype = lapack_dtype(*arrays)
    return [of_dtype(x, dtype) for x in arrays]


def in_double(*arrays: Any, check_finite: bool = True) -> list[Any]:
    """Return arguments in double precision, as some of SciPy's functions compute; see `numbers`."""
    found = numbers(*arrays, check_finite=check_finite)
    return [of_dtype(x, np.result_type(x.dtype, np.float64)) for x in found]


def scipys_error(function: Callable[..., Any], *arrays: Any, **keywords: Any) -> None:
    """Call a SciPy function on ones with the shapes and dtypes of invalid arguments, to raise its error."""
    function(*(np.ones(x.shape, x.dtype) for x in arrays), **keywords)


def refused(function: Callable[..., Any], why: str, instead: str, example: str) -> Callable[..., Any]:
    """Return a SciPy function that raises if something is traced, with the reason why it has no derivative.

    Args:
        function: SciPy's function, which is used if nothing is traced.
        why: the end of a sentence that begins with its name.
        instead: a sentence with the alternative.
        example: a program that calls it with plain arrays, and its output.
    """
    parameters = ", ".join(inspect.signature(function).parameters)

    def refuse(*args: ArrayLike, **keywords: object) -> Any:
        raise errors.NoDerivativeError(f"scipy.linalg.{function.__name__} {why}\n{instead}")

    refuse.__name__ = refuse.__qualname__ = function.__name__
    refuse.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    refuse.__doc__ = f"""As in SciPy, without a derivative: it {why}

    {instead}

    Args:
        {parameters}: as in SciPy; none of them may be traced.

    Returns:
        SciPy's result.

    Raises:
        NoDerivativeError: a ValueError; something is traced.

    Example:
        >>> import numpy as np, fgrad.scipy.linalg
        {example}
    """
    return differentiates(function)(refuse)


def as_columns(b: Array) -> Any:
    """Return a vector as a matrix with one column; matrices are returned unchanged."""
    return b[:, None] if b.ndim == 1 else b


def in_one_stack(*arrays: Array, ndim: int = 2) -> list[Any]:
    """Return arrays with all but their last axes broadcast."""
    stack = np.broadcast_shapes(*(x.shape[:-ndim] for x in arrays))
    return [x if x.shape[:-ndim] == stack else np.broadcast_to(x, (*stack, *x.shape[-ndim:])) for x in arrays]


def is_square(a: Any) -> bool:
    """Return whether an array is a square matrix, or a stack of square matrices."""
    return bool(a.ndim >= 2 and a.shape[-1] == a.shape[-2])


def rows_of(b: Array) -> int | None:
    """Return the number of rows of a right-hand side, a vector or matrices; None for a number."""
    return None if b.ndim == 0 else int(b.shape[0 if b.ndim == 1 else -2])


def fits(a: Array, b: Array) -> bool:
    """Return whether `b` is a valid right-hand side, a vector or matrices, for the square matrices `a`."""
    return is_square(a) and rows_of(b) == a.shape[-1]


def rules_of(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the reverse rule and the forward rule of an operation on one array."""
    primitive = PRIMITIVES[name]
    reverse = primitive.vjps[0] if primitive.vjps is not None else None
    assert reverse is not None
    assert primitive.jvp is not None
    return reverse, primitive.jvp
