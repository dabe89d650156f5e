"""When a traced tensor may become a plain number or array, and when its derivative would be lost.

check_number(frame, how, rank)    raises where an array is to store a number, or SciPy asks for it
check_array(rank)                 raises where NumPy or SciPy wants a plain array
values_alone(rank)                a block in which values are wanted, and a rule gives the derivative
unwrap(error)                     raises what is under an error of NumPy's or SciPy's
"""

from __future__ import annotations

import cmath
import linecache
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np

from fgrad import errors
from fgrad.errors import places


class _Wanted(threading.local):
    """What this thread wants of traced tensors: of those of traces up to this rank, values alone."""

    rank = 0


_wanted = _Wanted()


@contextmanager
def values_alone(rank: int) -> Iterator[None]:
    """Let tensors become plain numbers and arrays where a trace up to a rank follows them: nobody wants its derivative.

    A transform that starts in the block has a higher rank, and does want one: a solver may ask for the Jacobian of
    the user's function.
    """
    before, _wanted.rank = _wanted.rank, rank
    try:
        yield
    finally:
        _wanted.rank = before


def check_number(frame: FrameType, how: str, rank: int) -> None:
    """Refuse to make a traced tensor a number where its derivative would be lost without a word.

    Args:
        frame: what asks for the number.
        how: the name of the conversion, such as `float()`.
        rank: of the trace that follows the tensor.

    Raises:
        ArrayConversionError: a TypeError; an array is to store it.
        ScipyCallError: a TypeError; a function of SciPy has asked for it.
    """
    if rank <= _wanted.rank:
        return
    step = places.step_at(frame)
    if _is_storing(step):
        raise errors.ArrayConversionError(errors.users_line(), _use(frame))
    if how == "bool()":
        return
    if step.kind == "call":
        _check_callee(frame, step, how)
    if places.is_file_of("scipy", frame.f_code.co_filename):
        check_array(rank)


def _is_storing(step: places.Step) -> bool:
    """Return whether it is `array[i] = x` or the like: NumPy asks what it stores for a number."""
    return step.kind == "store" or (step.kind == "call" and not _STORING.isdisjoint((*step.names[-1:], *step.mentions)))


def _check_callee(frame: FrameType, step: places.Step, how: str) -> None:
    callee = places.called(frame, step)
    if callee is np.float64 or callee is np.complex128:
        raise errors.ArrayConversionError(errors.users_line(), _use(frame))
    if how == "float()" and callee is not float and isinstance(callee, _BUILT_IN) and callee in _OF_MATH:
        math_calls[errors.users_place()] = f"{callee.__module__}.{callee.__name__}"


def check_array(rank: int) -> None:
    """Refuse to make a tensor a plain array, if the derivative by the trace that follows it is wanted.

    Args:
        rank: of the trace.

    Raises:
        ArrayConversionError: a TypeError; NumPy wants the array.
        ScipyCallError: a TypeError; it is wanted in a function of SciPy.
    """
    if rank <= _wanted.rank:
        return
    frame: FrameType | None = sys._getframe(1)
    called = use = ""
    while frame is not None and places.is_library(frame.f_code.co_filename):
        if places.is_file_of("scipy", frame.f_code.co_filename):
            called = _public_name(frame) or called
        elif called and places.is_file_of("fgrad", frame.f_code.co_filename):
            break  # SciPy runs further out, too: what it has called takes a derivative of what is called here
        use = _use_in_library(frame) or use
        frame = frame.f_back
    line = errors.users_line()
    if called:
        raise errors.ScipyCallError(called, line)
    raise errors.ArrayConversionError(line, use or ("" if frame is None else _use(frame)))


def unwrap(error: BaseException) -> None:
    """Raise the error of fgrad's on top of which NumPy or SciPy has put one of its own; a user's stays."""
    if isinstance(error.__cause__, errors.FgradError) and not _is_raised_in_python(error):
        raise error.__cause__.with_traceback(error.__traceback__) from None


def _is_raised_in_python(error: BaseException) -> bool:
    """Return whether a `raise` of the user's has raised an error, and not NumPy: in Python, or in C."""
    traceback = error.__traceback__
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    if any(places.is_file_of(package, traceback.tb_frame.f_code.co_filename) for package in ("numpy", "scipy")):
        return False
    return places.step_in(traceback.tb_frame.f_code, traceback.tb_lasti).kind == "raise"


# What messages say


def _public_name(frame: FrameType) -> str:
    """Return how users write the function of SciPy that runs in a frame, or nothing if it is not public."""
    function, owner = frame.f_code.co_name, frame.f_locals.get("self")
    parts = frame.f_globals["__name__"].split(".")
    for depth in (3, 2):
        area = ".".join(parts[:depth])
        public = vars(sys.modules[area]) if len(parts) >= depth and not parts[depth - 1].startswith("_") else {}
        of_object = [name for name, value in public.items() if owner is not None and value is owner]
        if of_object:
            return f"{area}.{of_object[0]}.{function}"  # a distribution's method
        if function == "__init__" and type(owner).__name__ in public:
            return f"{area}.{type(owner).__name__}"
        if function in public:
            return f"{area}.{function}"
        if type(owner).__name__ in public:
            method = "" if function.startswith("__") else f".{function}"
            return f"{area}.{type(owner).__name__}{method}"
    return ""


math_calls: dict[tuple[str, int], str] = {}
"""The user's lines in which a function of `math` took a traced tensor as a plain number, and which function."""

_BUILT_IN = type(math.sin)
_OF_MATH = {
    function
    for module in (math, cmath)
    for name, function in vars(module).items()
    if callable(function) and not name.startswith(("_", "is", "floor", "ceil", "trunc"))
}
_STORING = {"fill", "fromiter", "setitem", "__setitem__"}


def _use(frame: FrameType) -> str:
    """Return what the program does at a frame: an expression, or one like it."""
    step = places.step_at(frame)
    if _is_storing(step):
        return "result[i] = x"
    if step.kind == "index":
        return "a[x]"
    if step.kind == "operator":
        return f"array {step.names[0]} x"
    return _source_of(frame) or (".".join(step.names) + "(" if step.kind == "call" else "")


_JOINS = {"np.r_[x, y]": np.r_, "np.c_[x, y]": np.c_}
"""What is indexed, and joins what it is indexed by."""


def _use_in_library(frame: FrameType) -> str:
    """Return what the user's program does, by a frame of NumPy's or pandas' that tells it better than the user's."""
    owner = frame.f_locals.get("self")
    if frame.f_code.co_name == "__init__" and places.is_file_of("pandas", frame.f_code.co_filename):
        return f"pd.{type(owner).__name__}(x)"
    return next((use for use, joined in _JOINS.items() if owner is joined), "")


def _source_of(frame: FrameType) -> str:
    """Return the expression that a frame is at, or what is in its first line; nothing where it is not known."""
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0).encode()  # positions count bytes
    return source[start : stop if line == end else None].decode(errors="ignore")
