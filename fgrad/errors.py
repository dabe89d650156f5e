"""fgrad's errors, each with the mistake that causes it and the program to write instead.

Every class derives from `FgradError` and from the built-in exception that fits, so
`except ValueError` works as anywhere in Python. The examples below run as tests.
"""

from __future__ import annotations

import linecache
import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def users_line() -> str:
    """Return `file:line: source` of the innermost frame outside of fgrad and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    name, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, number).strip()
    return f"{os.path.basename(name)}:{number}" + (f": {source}" if source else "")


def _is_library(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or f"{os.sep}numpy{os.sep}" in filename


class FgradError(Exception):
    """The base of all of fgrad's errors; every message ends with where its manual stands."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\n(help: fgrad.errors.{type(self).__name__})")


class ArrayConversionError(FgradError, TypeError):
    """NumPy was to make a plain array out of a traced tensor, which would drop its derivative.

    The mistake, and the same for `np.asarray(x)` and for `result[i] = x` with a plain array:

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda x: np.sum(np.array([x, x * x])))(3.0)
        Traceback (most recent call last):
        fgrad.errors.ArrayConversionError: ...

    Stack tensors, and create arrays that you fill from `fgrad.numpy`:

        >>> fg.grad(lambda x: np.sum(np.stack([x, x * x])))(3.0)
        Tensor(7.)

        >>> import fgrad.numpy as fnp
        >>> def powers(x):
        ...     result = fnp.zeros(3)
        ...     for i in range(3):
        ...         result[i] = x**i
        ...     return np.sum(result)
        >>> fg.grad(powers)(3.0)
        Tensor(7.)

    A value that is meant to be a constant is `fg.stop_gradient(x)`, or `x.numpy()` as an array.
    """

    def __init__(self, line: str) -> None:
        super().__init__(
            "NumPy asked a traced tensor for its plain array; its derivative would be lost.\n"
            f"  at {line}\n"
            "np.array([x, y]): write np.stack([x, y]) (also fg.stack, fgrad.numpy.array).\n"
            "result[i] = x:    create `result` with fgrad.numpy.zeros, empty or array instead of numpy's.\n"
            "np.asarray(x):    leave it out; or x.numpy(), fg.stop_gradient(x) where no derivative is wanted."
        )


class InPlaceError(FgradError, TypeError):
    """A traced tensor was to be written into a plain array, which cannot hold its derivative.

        >>> import numpy as np, fgrad as fg
        >>> def total(x):
        ...     result = np.zeros(2)
        ...     result += x
        ...     return np.sum(result)
        >>> fg.grad(total)(np.ones(2))
        Traceback (most recent call last):
        fgrad.errors.InPlaceError: ...

    Let the result be a new array, or let the array be a tensor from the start:

        >>> import fgrad.numpy as fnp
        >>> def total(x):
        ...     result = fnp.zeros(2)
        ...     result += x
        ...     return np.sum(result)
        >>> fg.grad(total)(np.ones(2))
        Tensor([1., 1.])
    """

    def __init__(self, what: str, line: str) -> None:
        super().__init__(
            f"{what} was to write a tensor into a plain NumPy array (`out=`, or `a += x`), "
            f"which cannot hold a derivative.\n  at {line}\n"
            "Write `a = a + x`, or create `a` with fgrad.numpy.zeros, empty or array."
        )


class MissingRuleError(FgradError, TypeError):
    """A NumPy function has no derivative rule in fgrad.

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda x: np.spacing(x))(3.0)
        Traceback (most recent call last):
        fgrad.errors.MissingRuleError: ...

    Write it with operations that have one, or treat its result as a constant:

        >>> fg.grad(lambda x: x * np.spacing(fg.stop_gradient(x)))(4.0)
        Tensor(8.8817842e-16)

    `fgrad.extend` adds an operation with its rules.
    """

    def __init__(self, name: str, line: str) -> None:
        super().__init__(
            f"{name} has no derivative rule, and a traced tensor was passed to it.\n  at {line}\n"
            "Write it with functions that have one, pass fg.stop_gradient(x) if no derivative is wanted, "
            "or add a rule with fgrad.extend.register_primitive."
        )
