"""Python integers in programs: they are unbounded, unlike the dtypes of arrays.

    compared_in(equation)            the dtype in which a comparison is always possible
    narrow_dtype(equation)           the integer dtype to which an operation converts Python integers
    always(equation)                 the constant result of a comparison with an integer beyond all elements
    is_by_sign(equation)             whether the dtype of an integer power depends on the sign of its exponent
    check_holds(value, name)         raises for an integer that no array can hold

An integer argument has 64 bits in the program. If it is combined with an array whose dtype cannot hold it, or if
Python's arithmetic exceeds 64 bits, divides by zero or shifts by less than 0, engines give up: NumPy runs the program
with the integers themselves, and returns the result, or raises the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Equation, Name
from fgrad.typing import DTypeLike, Operand

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}


LARGEST = 1 << 62
"""Bound of the integer inputs of programs, such that the sum of two fits in a register."""
EXACT = 1 << 53
"""Integers below this bound are represented exactly in floating point."""
GROW = {"add", "subtract", "multiply"}
"""Python's operators whose results may exceed 64 bits."""
DIVIDE = {"divide", "floor_divide", "remainder"}
"""Operators that raise for 0."""
SHIFT = {"left_shift", "right_shift"}
"""Operators that raise for a negative number on the right; the first is a product with a power of 2."""


def promoted(x: object) -> Any:
    """Return the operand from which NumPy determines a result dtype: a dtype, or a Python number."""
    if type(x) is Name and x.is_weak:
        return {"f": 1.0, "i": 1, "b": True, "c": 1j}[x.dtype.kind]
    return x.dtype if hasattr(x, "dtype") else 1 if type(x) is int else x


def is_integer(x: object) -> bool:
    """Return whether an input of an equation is a Python integer, or the name of one."""
    return type(x) is int or (type(x) is Name and x.is_weak and x.dtype.kind == "i")


def holds(dtype: DTypeLike, value: int) -> bool:
    """Return whether an integer dtype can represent a value."""
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def narrow_dtype(equation: Equation) -> np.dtype[Any] | None:
    """Return the dtype to which an operation converts Python integers; None if none, or if it truncates."""
    primitive, inputs = equation.primitive, equation.inputs
    if primitive.name == "where":
        inputs = () if _CUTS_OFF else inputs[1:]  # without the condition, which is boolean
    if not primitive.is_elementwise or not any(map(is_integer, inputs)):
        return None
    if equation.outputs[0].is_weak or all(map(is_integer, inputs)):
        return None
    dtype = np.result_type(*map(promoted, inputs))
    return dtype if dtype.kind in "iu" else None


_CUTS_OFF = np.lib.NumpyVersion(np.__version__) < "2.5.0"
"""Whether `np.where` truncates integers that do not fit its dtype; later versions raise, as other functions do."""


def compared_in(equation: Equation) -> np.dtype[Any] | None:
    """Return a dtype for all integers in a comparison, including Python integers; None if there is none."""
    dtype = narrow_dtype(equation)
    is_wide = dtype is None or equation.primitive.name not in COMPARISONS or dtype == np.uint64
    named = any(type(x) is Name and is_integer(x) for x in equation.inputs)
    return np.dtype(np.int64) if named and not is_wide else None


def always(equation: Equation) -> bool | None:
    """Return the constant result of a comparison if its integer is beyond the dtype's range, otherwise None."""
    compare, dtype = COMPARISONS.get(equation.primitive.name), narrow_dtype(equation)
    if compare is None or dtype is None:
        return None
    beyond = [type(x) is int and not holds(dtype, x) for x in equation.inputs]
    if not any(beyond):
        return None
    zero = np.zeros((), dtype)
    return bool(compare(*(x if own else zero for x, own in zip(equation.inputs, beyond, strict=True))))


def is_by_sign(equation: Equation) -> bool:
    """Return whether an integer power has a floating-point result only because its exponent may be negative."""
    if equation.primitive.name != "power" or not equation.outputs[0].is_weak or equation.outputs[0].dtype.kind != "f":
        return False
    return all(map(is_integer, equation.inputs)) and type(equation.inputs[1]) is Name


def check_holds(value: Operand, name: str) -> None:
    """Raise for a Python integer that no array can hold.

    Args:
        value: a Python number.
        name: the name of the compiled function.

    Raises:
        IntegerRangeError: an OverflowError.
    """
    if type(value) is int and not holds(np.int64, value):
        raise errors.IntegerRangeError(
            f"{name} computes an integer of {value.bit_length() + 1} bits; a compiled function can return 64.\n"
            "Pass floats, or call the function itself."
        )
