"""Columns of other libraries, such as pandas, as arrays: what `to_numpy()` gives of them.

    as_leaf(x)        what a transform sees in place of a column among its arguments
    as_operand(x)     what an operation sees in place of a column that a tensor is combined with

Without this, `tensor * series` would be a tensor around a Series, whose `[0]` looks for the label 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors

OPERANDS: set[type] = {np.ndarray, float, int}
"""Types that operations take as they are; the others are looked at once."""


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
    OPERANDS.add(type(x))
    return x


def as_leaf(x: Any) -> Any:
    """Return a leaf of a container; a column of numbers as an array, all else as it is."""
    if not hasattr(type(x), "to_numpy"):
        return x
    array = np.asarray(x.to_numpy())
    return array if array.dtype.kind in "biufc" else x
