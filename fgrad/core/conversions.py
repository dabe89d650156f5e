"""When a traced tensor may become a plain number or array, and when its derivative would be lost.

check_number(frame, how, rank)    raises where an array is to store a number, or SciPy asks for it
check_array(rank)                 raises where NumPy or SciPy wants a plain array
values_alone(rank)                a block in which values are wanted, and a rule gives the derivative
"""

from __future__ import annotations

import cmath
import dis
import linecache
import math
import re
import sys
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from fgrad import errors


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
    if _is_storing(frame) or (how != "bool()" and _callee(frame) in _SCALARS):
        raise errors.ArrayConversionError(errors.users_line(), _use(frame))
    if how == "float()" and (function := _callee(frame)) is not None and function in _OF_MATH:
        math_calls[errors.users_line()] = f"{function.__module__}.{function.__name__}"
    if how != "bool()" and errors.is_scipys(frame.f_code.co_filename):
        check_array(rank)


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
    called = ""
    while frame is not None and errors.is_library(frame.f_code.co_filename):
        if errors.is_scipys(frame.f_code.co_filename):
            called = _public_name(frame) or called
        frame = frame.f_back
    line = errors.users_line()
    if called:
        raise errors.ScipyCallError(called, line)
    raise errors.ArrayConversionError(line, "" if frame is None else _use(frame))


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
    return ""


math_calls: dict[str, str] = {}
"""The user's lines in which a function of `math` took a traced tensor as a plain number, and which function."""

_SCALARS = (np.float64, np.complex128)
_OF_MATH = {
    function
    for module in (math, cmath)
    for name, function in vars(module).items()
    if callable(function) and not name.startswith(("_", "is", "floor", "ceil", "trunc"))
}
_STORING = re.compile(r"\b(fill|fromiter|setitem|__setitem__)\b")
_CALLED = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)*)\s*\(")


def _is_storing(frame: FrameType) -> bool:
    """Return whether the frame is at `array[i] = x` or the like: NumPy asks what it stores for a number."""
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "STORE_SUBSCR":
        return True
    return bool(_STORING.search(_source_of(frame)))


def _source_of(frame: FrameType) -> str:
    """Return the expression that a frame is at, or what is in its first line; nothing where it is not known."""
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0).encode()  # positions count bytes
    return source[start : stop if line == end else None].decode(errors="ignore")


def _use(frame: FrameType) -> str:
    """Return what the program does at a frame, for a message: an expression, or one like it."""
    if _is_storing(frame):
        return "result[i] = x"
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    source = _source_of(frame)
    return "a[x]" if operation == "BINARY_SUBSCR" or source.endswith("]") else source


def _callee(frame: FrameType) -> Any:
    """Return the function that is called where a frame is, or None if it has no name in the module.

    Local names are not looked up: `frame.f_locals` would keep what they stand for alive.
    """
    match, code = _CALLED.match(_source_of(frame)), frame.f_code
    if match is None:
        return None
    first, *rest = match[1].split(".")
    is_local = first in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    found = None if is_local else frame.f_globals.get(first, frame.f_builtins.get(first))
    for name in rest:
        found = vars(found).get(name) if isinstance(found, ModuleType) else None
    return found if isinstance(found, Hashable) else None
