"""Columns of other libraries, such as pandas, as arrays: what `to_numpy()` gives of them.

    as_leaf(x)        what a transform sees in place of a column among its arguments
    defers_to(x)      whether an operand of another kind decides what an operator means
    as_operand(x)     what an operation sees in place of a column that a tensor is combined with

Without this, `tensor * series` would be a tensor around a Series, whose `[0]` looks for the label 0.
"""

from __future__ import annotations

from numbers import Rational
from typing import Any

import numpy as np

from fgrad import errors

OPERANDS: set[type] = {np.ndarray, float, int}
"""Types that operations take as they are; the others are looked at once."""


def defers_to(x: Any) -> bool:
    """Return whether an operator of a tensor leaves it to the other operand what it means, as those of arrays do.

    https://numpy.org/devdocs/user/basics.subclassing.html#array-ufunc-for-ufuncs
    """
    kind = type(x)
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    return bool(getattr(x, "__array_priority__", 0.0) > 0.0)


def as_operand(x: Any) -> Any:
    """Return an argument of an operation as NumPy is to see it.

    Raises:
        StructureError: a TypeError; a masked array or a matrix, which would give the operation another meaning.
    """
    if hasattr(type(x), "to_numpy"):
        return np.asarray(x.to_numpy())
    if isinstance(x, (np.ma.MaskedArray, np.matrix)):
        raise errors.StructureError(
            f"a tensor cannot be combined with a {type(x).__name__}, which has a meaning of the operations of its own."
            f"\n  at {errors.users_line()}\n"
            "Use a plain array, np.asarray(x), or for a masked array x.filled(0) and the mask for np.where."
        )
    if isinstance(x, Rational) and not isinstance(x, (int, np.integer)):
        return float(x)  # a Fraction: NumPy would make an array of Python's numbers
    if not defers_to(x):
        OPERANDS.add(type(x))
    return x


def as_leaf(x: Any) -> Any:
    """Return a leaf of a container; a column of numbers as an array, all else as it is."""
    if not hasattr(type(x), "to_numpy"):
        return x
    array = np.asarray(x.to_numpy())
    return array if array.dtype.kind in "biufc" else x
