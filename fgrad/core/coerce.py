"""Operands of operations besides tensors: numbers, arrays, and objects of other libraries.

PARTNERS[kind]    the function that combines tensors with objects of a type
defers_to(x)      whether the other operand defines what an operator means; then see `overrides.py`
as_operand(x)     an argument of an operation, as NumPy takes it
as_array(x)       an array or tensor, from a list or number
collected(x)      one tensor, from an array of traced numbers
overwritten(x)    an array of numbers, from one of traced numbers of which none is left
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from numbers import Number, Rational
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.foreign import FOREIGN, OBJECT, OVERRIDES, Objects, as_objects, holds_numbers
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES, FUNCTIONS, METHODS
from fgrad.typing import Array, Operand

OPERANDS: set[type] = {float, int}
"""Types that operations take unchanged, as they do arrays of numbers; an object of another type is converted."""

PLAIN: set[type] = {np.ndarray, np.float64, np.float32, float, int}
"""The commonest types of payloads and operands: an implementation takes them without conversion."""


class _Partners(dict[type, Any]):
    """Maps a type to the function that combines tensors with its objects; None if the tensor's own operations do."""

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = next((compute for find in FIND_PARTNER if (compute := find(kind))), None)
        return found


PARTNERS = _Partners()
FIND_PARTNER: list[Callable[[type], Callable[..., Any] | None]] = []
"""Finders of such functions, `compute(primitive, args)`, called when a type is met for the first time."""


def classes_of(library: str, *names: str) -> tuple[type, ...]:
    """Return classes of a library that fgrad does not import.

    Those that do not exist are left out: the library is not imported, or another thread is importing it.
    """
    module = sys.modules.get(library)
    return tuple(found for name in names if isinstance(found := getattr(module, name, None), type))


def defers_to(x: Any) -> bool:
    """Return whether an operator of a tensor defers to the other operand, as the operators of arrays do.

    https://numpy.org/devdocs/user/basics.subclassing.html#array-ufunc-for-ufuncs
    """
    kind = type(x)
    has_ufuncs = hasattr(kind, "__array_ufunc__")
    if has_ufuncs and kind.__array_ufunc__ is None:
        return True
    has_operators = OVERRIDES[kind] if has_ufuncs else bool(getattr(x, "__array_priority__", 0.0) > 0.0)
    return has_operators and PARTNERS[kind] is None


def changes_operations(x: object) -> bool:
    """Return whether operations have another meaning for an array: whether it is masked, or a matrix.

    There are no masked arrays before `numpy.ma` is imported, which NumPy does when the module is first used. A function
    that imports it here could block a child process that is forked meanwhile.
    """
    if type(x) is np.ndarray or not isinstance(x, np.ndarray):
        return False
    masked = sys.modules.get("numpy.ma")
    return isinstance(x, (np.matrix, getattr(masked, "MaskedArray", ())))


def as_operand(x: Any) -> Any:
    """Return an argument of an operation, as NumPy takes it.

    Raises:
        StructureError: a TypeError; `x` is a masked array or a matrix, which would give the operation another meaning,
            or not an array of numbers.
    """
    if hasattr(type(x), "to_numpy"):
        return np.asarray(x.to_numpy())
    if changes_operations(x):
        raise errors.StructureError(
            f"a tensor cannot be combined with a {type(x).__name__}, for which operations have another meaning."
            f"\n  at {errors.users_line()}\n"
            "Use a plain array, np.asarray(x), or for a masked array x.filled(0) and the mask for np.where."
        )
    if type(x) is np.ndarray:
        x = collected(x)
        return _as_floats(x) if is_of_objects(x) else x
    if isinstance(x, Rational) and not isinstance(x, (int, np.integer)):
        return float(x)  # a Fraction: NumPy would make an array of Python objects
    if FOREIGN[type(x)]:  # it computes with payloads itself
        return x
    if isinstance(x, (list, tuple)):
        array = as_array(x)
        return array if type(array) in BOXES else as_operand(array)
    if isinstance(x, np.ndarray):  # a memmap or another subclass: the same memory as a plain array
        return as_operand(np.asarray(x))
    if defers_to(x):
        return _as_constant(x)
    if not isinstance(x, (np.generic, Number, str, bytes)) and (array := np.array(x)).dtype.kind in "biufc":
        return array  # the user may write to its buffer
    OPERANDS.add(type(x))
    return x


def refused_series(x: object) -> errors.StructureError | None:
    """Return the error for a series of `np.polynomial` as operand of a tensor that has no value; None for others."""
    if not type(x).__module__.startswith("numpy.polynomial."):
        return None
    line = errors.users_line()
    return errors.StructureError(
        f"a tensor cannot be combined with this {type(x).__name__}.\n  at {line}\n{errors.WITHOUT_VALUES}"
    )


def _as_constant(x: Operand) -> Array:
    """Return the constant array of an object of another library that defers to the tensor.

    Raises:
        StructureError: a TypeError; it is not an array of numbers.
    """
    array = np.asarray(x)  # a library that traces its own computations raises here
    if array.dtype.kind not in "biufc":
        raise refused_series(x) or errors.StructureError(
            f"a tensor cannot be combined with a {type(x).__name__}, which is not an array of numbers."
            f"\n  at {errors.users_line()}"
        )
    return array


def as_exact_operand(x: Any) -> Any:
    """Return an argument of an operation on an object array, with its numbers kept exact."""
    if isinstance(x, Rational) and not isinstance(x, (int, np.integer)):
        return as_objects(x)
    if type(x) is not np.ndarray or x.dtype is not OBJECT:
        return as_operand(x)
    x = collected(x)
    return as_objects(x) if is_of_objects(x) and holds_numbers(x) else x


def is_exact(x: object) -> bool:
    """Return whether an argument of an operation is an object array, possibly below traces."""
    return type(below(x)) is Objects


def _as_floats(x: Any) -> Any:
    """Return an object array of numbers, such as fractions, in floating point."""
    if not all(isinstance(element, Number) for element in x.flat):
        raise errors.StructureError(
            f"a tensor cannot be combined with an array of objects that are not numbers.\n  at {errors.users_line()}"
        )
    return x.astype(complex if any(isinstance(element, complex) for element in x.flat) else float)


def is_of_objects(x: object) -> bool:
    """Return whether `x` is an object array, such as one of traced numbers."""
    return type(x) is np.ndarray and x.dtype is OBJECT


def collected(x: Any) -> Any:
    """Return one tensor for an object array that holds tensors, otherwise `x`."""
    if not is_of_objects(x) or not holds_tensors(elements := x.ravel().tolist()):
        return x
    if any(type(element) is complex for element in elements):
        raise errors.ObjectArrayError("one of them is complex", errors.users_line(), "")
    whole = FUNCTIONS[np.stack](elements)
    return FUNCTIONS[np.reshape](whole, (*x.shape, *whole.shape[1:]))


def overwritten(x: Any) -> Any:
    """Return an object array of floats as an array of numbers: one of traced numbers that were all written over.

    Exact numbers, such as fractions and large integers, stay as they are.
    """
    elements = x.ravel().tolist()
    if not all(isinstance(each, _PLAIN_NUMBERS) for each in elements):
        return x
    return _as_floats(x) if any(isinstance(each, _INEXACT) for each in elements) else x


_INEXACT = (float, complex, np.inexact)
_PLAIN_NUMBERS = (int, np.integer, *_INEXACT)


def holds_tensors(x: Any) -> bool:
    """Return whether nested lists contain a tensor or an array of traced numbers."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_tensors, x))
    return type(x) in BOXES or (is_of_objects(x) and holds_tensors(x.ravel().tolist()))


def as_array(x: Any, dtype: object = None) -> Array:
    """Return `x` as an array or tensor; nested lists that contain tensors are stacked."""
    if type(x) not in BOXES:
        if not hasattr(x, "dtype"):
            x = FUNCTIONS[np.stack](x) if holds_tensors(x) else np.asarray(x)
        if is_of_objects(x):
            x = collected(x)
            x = _as_floats(x) if is_of_objects(x) and all(isinstance(each, Number) for each in x.flat) else x
    return x if dtype is None or x.dtype == dtype else METHODS["astype"](x, dtype)  # type: ignore[no-any-return]
