"""Python's integers in programs: they have no bounds, and the dtypes of arrays have.

    compared_in(equation)            the dtype in which a comparison needs not give up
    narrow_dtype(equation)           the dtype of integers in which an operation takes integers of Python's
    always(equation)                 what a comparison answers whose integer no element can be
    is_by_sign(equation)             whether a power of integers has a fraction, since its exponent is negative
    check_holds(value, name)         raises for an integer that no array holds

An integer that is an argument is one of 64 bits in the program. Where it meets an array whose dtype does not hold it,
and where Python's own arithmetic leaves 64 bits or divides by zero, engines give up: NumPy runs the program with the
integers as they are, and has the answer, or the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Equation, Name

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}


LARGEST = 1 << 62
"""Integers that go into programs are smaller, so that the sum of two has a place in a register."""
EXACT = 1 << 53
"""Those below have a floating-point number of their own."""
GROW = {"add", "subtract", "multiply"}
"""Python's operators whose results may have too many bits."""
DIVIDE = {"divide", "floor_divide", "remainder"}
"""Those that raise for 0."""


def promoted(x: Any) -> Any:
    """Return what NumPy asks for the dtype of an operation: a dtype, or a number of Python's, which follows others."""
    if type(x) is Name and x.is_weak:
        return {"f": 1.0, "i": 1, "b": True, "c": 1j}[x.dtype.kind]
    return x.dtype if hasattr(x, "dtype") else 1 if type(x) is int else x


def is_integer(x: Any) -> bool:
    """Return whether an input of an equation is an integer of Python's, or the name of one."""
    return type(x) is int or (type(x) is Name and x.is_weak and x.dtype.kind == "i")


def holds(dtype: Any, value: int) -> bool:
    """Return whether a dtype of integers has a value."""
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def narrow_dtype(equation: Equation) -> np.dtype[Any] | None:
    """Return the dtype in which an operation takes integers of Python's; None if it takes none, or cuts them off."""
    primitive, inputs = equation.primitive, equation.inputs
    if primitive.name == "where":
        inputs = () if _CUTS_OFF else inputs[1:]  # without the condition, which stays a truth value
    if not primitive.is_elementwise or not any(map(is_integer, inputs)):
        return None
    if equation.outputs[0].is_weak or all(map(is_integer, inputs)):
        return None
    dtype = np.result_type(*map(promoted, inputs))
    return dtype if dtype.kind in "iu" else None


_CUTS_OFF = np.lib.NumpyVersion(np.__version__) < "2.5.0"
"""Whether `np.where` cuts off the bits of integers that its dtype does not hold; later ones raise, as others do."""


def compared_in(equation: Equation) -> np.dtype[Any] | None:
    """Return a dtype that holds all integers that a comparison meets, those of Python's too; None if there is none."""
    dtype = narrow_dtype(equation)
    is_wide = dtype is None or equation.primitive.name not in COMPARISONS or dtype == np.uint64
    named = any(type(x) is Name and is_integer(x) for x in equation.inputs)
    return np.dtype(np.int64) if named and not is_wide else None


def always(equation: Equation) -> bool | None:
    """Return what a comparison answers for all elements, since its integer is beyond all of them; None of all else."""
    compare, dtype = COMPARISONS.get(equation.primitive.name), narrow_dtype(equation)
    if compare is None or dtype is None:
        return None
    beyond = [type(x) is int and not holds(dtype, x) for x in equation.inputs]
    if not any(beyond):
        return None
    zero = np.zeros((), dtype)
    return bool(compare(*(x if own else zero for x, own in zip(equation.inputs, beyond, strict=True))))


def is_by_sign(equation: Equation) -> bool:
    """Return whether it is a power of integers that is none because of the sign of an exponent that may change."""
    if equation.primitive.name != "power" or not equation.outputs[0].is_weak or equation.outputs[0].dtype.kind != "f":
        return False
    return all(map(is_integer, equation.inputs)) and type(equation.inputs[1]) is Name


def check_holds(value: Any, name: str) -> None:
    """Raise for an integer of Python's that no array holds.

    Args:
        value: a number of Python's.
        name: of the function that is compiled.

    Raises:
        IntegerRangeError: an OverflowError.
    """
    if type(value) is int and not holds(np.int64, value):
        raise errors.IntegerRangeError(
            f"{name} makes an integer of {value.bit_length() + 1} bits, and a compiled function returns those of 64.\n"
            "Pass floats, or call the function itself."
        )
