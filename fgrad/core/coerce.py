"""What operations take beside tensors: numbers, arrays, and objects of other libraries.

PARTNERS[kind]    how operations of tensors with objects of a type are computed
defers_to(x)      whether an operand of another kind decides what an operator means; then see `overrides.py`
as_operand(x)     an argument of an operation as NumPy is to see it
as_array(x)       something with a shape and a dtype, in place of a list or number
collected(x)      one tensor, in place of an array of traced numbers
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number, Rational
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import FOREIGN, OBJECT, OVERRIDES, Objects, as_objects, holds_numbers
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES, FUNCTIONS, METHODS

OPERANDS: set[type] = {float, int}
"""Types that operations take as they are, as they do arrays of numbers; the others are looked at once."""

PLAIN: set[type] = {np.ndarray, np.float64, np.float32, float, int}
"""The commonest types of what is in a tensor, or beside one: an implementation takes them as a trace has them."""


class _Partners(dict[type, Any]):
    """Knows of each type how operations of tensors with its objects are computed, or None if by the tensor alone."""

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = next((compute for find in FIND_PARTNER if (compute := find(kind))), None)
        return found


PARTNERS = _Partners()
FIND_PARTNER: list[Callable[[type], Callable[..., Any] | None]] = []
"""Who is asked for such a function, `compute(primitive, args)`, when a type is met for the first time."""


def defers_to(x: Any) -> bool:
    """Return whether an operator of a tensor leaves it to the other operand what it means, as those of arrays do.

    https://numpy.org/devdocs/user/basics.subclassing.html#array-ufunc-for-ufuncs
    """
    kind = type(x)
    has_ufuncs = hasattr(kind, "__array_ufunc__")
    if has_ufuncs and kind.__array_ufunc__ is None:
        return True
    has_operators = OVERRIDES[kind] if has_ufuncs else bool(getattr(x, "__array_priority__", 0.0) > 0.0)
    return has_operators and PARTNERS[kind] is None


def as_operand(x: Any) -> Any:
    """Return an argument of an operation as NumPy is to see it.

    Raises:
        StructureError: a TypeError; a masked array or a matrix, which would give the operation another meaning, or
            what is no array of numbers.
    """
    if hasattr(type(x), "to_numpy"):
        return np.asarray(x.to_numpy())
    if isinstance(x, (np.ma.MaskedArray, np.matrix)):
        raise errors.StructureError(
            f"a tensor cannot be combined with a {type(x).__name__}, which has a meaning of the operations of its own."
            f"\n  at {errors.users_line()}\n"
            "Use a plain array, np.asarray(x), or for a masked array x.filled(0) and the mask for np.where."
        )
    if type(x) is np.ndarray:
        x = collected(x)
        return _as_floats(x) if is_of_objects(x) else x
    if isinstance(x, Rational) and not isinstance(x, (int, np.integer)):
        return float(x)  # a Fraction: NumPy would make an array of Python's numbers
    if FOREIGN[type(x)]:  # which computes with what is in tensors by itself
        return x
    if isinstance(x, (list, tuple)):
        array = as_array(x)
        return array if type(array) in BOXES else as_operand(array)
    if isinstance(x, np.ndarray):  # a memmap or another subclass: the same memory as a plain array
        return as_operand(np.asarray(x))
    if defers_to(x):
        return _as_constant(x)
    if not isinstance(x, (np.generic, Number, str, bytes)) and (array := np.array(x)).dtype.kind in "biufc":
        return array  # of a buffer, to which the user may write
    OPERANDS.add(type(x))
    return x


def _as_constant(x: Any) -> Any:
    """Return an array of another library that has left it to the tensor what an operation means.

    Raises:
        StructureError: a TypeError; it is no array of numbers.
    """
    array = np.asarray(x)  # where the library follows what is computed with it, it refuses
    if array.dtype.kind not in "biufc":
        raise errors.StructureError(
            f"a tensor cannot be combined with a {type(x).__name__}, which is no array of numbers."
            f"\n  at {errors.users_line()}"
        )
    return array


def as_exact_operand(x: Any) -> Any:
    """Return an argument of an operation on an array of objects, whose numbers stay what they are."""
    if isinstance(x, Rational) and not isinstance(x, (int, np.integer)):
        return as_objects(x)
    if type(x) is not np.ndarray or x.dtype is not OBJECT:
        return as_operand(x)
    x = collected(x)
    return as_objects(x) if is_of_objects(x) and holds_numbers(x) else x


def is_exact(x: Any) -> bool:
    """Return whether an argument of an operation is, or holds below its traces, an array of objects."""
    return type(below(x)) is Objects


def _as_floats(x: Any) -> Any:
    """Return an array of numbers of other kinds, such as fractions, in floating point."""
    if not all(isinstance(element, Number) for element in x.flat):
        raise errors.StructureError(
            f"a tensor cannot be combined with an array of objects that are no numbers.\n  at {errors.users_line()}"
        )
    return x.astype(complex if any(isinstance(element, complex) for element in x.flat) else float)


def is_of_objects(x: Any) -> bool:
    """Return whether `x` is an array of objects, such as one of traced numbers."""
    return type(x) is np.ndarray and x.dtype is OBJECT


def collected(x: Any) -> Any:
    """Return one tensor in place of an array of objects that has tensors among them, and all else as it is."""
    if not is_of_objects(x) or not holds_tensors(elements := x.ravel().tolist()):
        return x
    if any(type(element) is complex for element in elements):
        raise errors.ObjectArrayError("one of them is complex", errors.users_line(), "")
    whole = FUNCTIONS[np.stack](elements)
    return FUNCTIONS[np.reshape](whole, (*x.shape, *whole.shape[1:]))


def holds_tensors(x: Any) -> bool:
    """Return whether nested lists have a tensor among their elements, or an array of traced numbers."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_tensors, x))
    return type(x) in BOXES or (is_of_objects(x) and holds_tensors(x.ravel().tolist()))


def as_array(x: Any, dtype: Any = None) -> Any:
    """Return `x` as something with a shape; nested lists with tensors inside are stacked."""
    if type(x) not in BOXES:
        if not hasattr(x, "dtype"):
            x = FUNCTIONS[np.stack](x) if holds_tensors(x) else np.asarray(x)
        if is_of_objects(x):
            x = collected(x)
            x = _as_floats(x) if is_of_objects(x) and all(isinstance(each, Number) for each in x.flat) else x
    return x if dtype is None or x.dtype == dtype else METHODS["astype"](x, dtype)
