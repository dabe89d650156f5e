"""What the functions of this package share: their arguments, and the rules of NumPy's operations.

numbers(a, b)                arrays or tensors of the one dtype that LAPACK takes for all of them
as_columns(b)                a vector as a matrix with one column
rules_of("eigh")             the rules of an operation of NumPy, for SciPy's implementation of it
refused(f, why, instead)     the function of SciPy that has no derivative, and says why
scipys_error(f, ...)         let SciPy itself say what is wrong with a call
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

Array = Any
"""An array, or a tensor that may be traced."""

SCIPY: Any = scipy.linalg
"""SciPy's functions, as they are called with options that are handed on."""


def lapack_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return the dtype in which LAPACK computes with arrays: of single or double precision, real or complex.

    Raises:
        ValueError: an array holds objects; SciPy says so in the same words.
    """
    dtype = np.result_type(*(x.dtype for x in arrays))
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind not in "fc":
        raise ValueError("object arrays are not supported")
    is_double = np.finfo(dtype).bits > 32
    return np.dtype(("FD" if dtype.kind == "c" else "fd")[is_double])


def of_dtype(x: Any, dtype: Any) -> Any:
    """Return an array in a dtype; as it is, if it has that."""
    return x if x.dtype == dtype else astype(x, dtype)


def check_finite_values(*arrays: Any) -> None:
    """Refuse infinities and NaN, as SciPy does; the message is NumPy's.

    Raises:
        ValueError: there are some.
    """
    for x in arrays:
        np.asarray_chkfinite(raw_array(x))


def numbers(*arrays: Any, check_finite: bool = True) -> list[Any]:
    """Return arguments as arrays or tensors of one dtype that LAPACK has; infinities and NaN may be refused."""
    arrays = tuple(map(as_array, arrays))
    if check_finite:
        check_finite_values(*arrays)
    dtype = lapack_dtype(*arrays)
    return [of_dtype(x, dtype) for x in arrays]


def scipys_error(function: Any, *arrays: Any, **keywords: Any) -> None:
    """Call a function of SciPy on ones of the shapes and dtypes of arguments that do not fit, for its error."""
    function(*(np.ones(x.shape, x.dtype) for x in arrays), **keywords)


def refused(function: Any, why: str, instead: str, example: str) -> Callable[..., Any]:
    """Return a function of SciPy that says why it has no derivative, where something is traced.

    Args:
        function: SciPy's, which answers where nothing is.
        why: the rest of a sentence that begins with its name.
        instead: what to use; a sentence.
        example: a program that uses it on plain arrays, and its output.
    """
    parameters = ", ".join(inspect.signature(function).parameters)

    def refuse(*args: Any, **keywords: Any) -> Any:
        raise errors.NoDerivativeError(f"scipy.linalg.{function.__name__} {why}\n{instead}")

    refuse.__name__ = refuse.__qualname__ = function.__name__
    refuse.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    refuse.__doc__ = f"""As in SciPy, without a derivative: it {why}

    {instead}

    Args:
        {parameters}: SciPy's; none of them may be traced.

    Returns:
        What SciPy returns.

    Raises:
        NoDerivativeError: a ValueError; something is traced.

    Example:
        >>> import numpy as np, fgrad.scipy.linalg
        {example}
    """
    return differentiates(function)(refuse)


def as_columns(b: Any) -> Any:
    """Return a vector as a matrix with one column; matrices as they are."""
    return b[:, None] if b.ndim == 1 else b


def is_square(a: Any) -> bool:
    """Return whether an array is a matrix with as many rows as columns, or a stack of such."""
    return bool(a.ndim >= 2 and a.shape[-1] == a.shape[-2])


def rows_of(b: Any) -> int | None:
    """Return how many rows a right-hand side has, which is a vector or matrices; None for a number."""
    return None if b.ndim == 0 else int(b.shape[0 if b.ndim == 1 else -2])


def fits(a: Any, b: Any) -> bool:
    """Return whether `b` is a right-hand side, a vector or matrices, for the square matrices `a`."""
    return is_square(a) and rows_of(b) == a.shape[-1]


def rules_of(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the reverse rule and the forward rule of an operation on one array."""
    primitive = PRIMITIVES[name]
    reverse = primitive.vjps[0] if primitive.vjps is not None else None
    assert reverse is not None
    assert primitive.jvp is not None
    return reverse, primitive.jvp
