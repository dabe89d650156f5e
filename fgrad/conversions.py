"""When a traced tensor may become a plain number or array, and when its derivative would be lost.

    check_number(frame, how)    raises where an array is to store a number, or SciPy asks for it
    check_array()               raises where NumPy or SciPy wants a plain array
    values_alone()              a block in which values are wanted, and a rule gives the derivative
"""

from __future__ import annotations

import dis
import linecache
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fgrad import errors


class _Wanted(threading.local):
    """What this thread wants of traced tensors."""

    values_alone = False


_wanted = _Wanted()


@contextmanager
def values_alone() -> Iterator[None]:
    """Let traced tensors become plain numbers and arrays: in the block nobody wants a derivative."""
    before, _wanted.values_alone = _wanted.values_alone, True
    try:
        yield
    finally:
        _wanted.values_alone = before


def check_number(frame: FrameType, how: str) -> None:
    """Refuse to make a traced tensor a number where its derivative would be lost without a word.

    Args:
        frame: what asks for the number.
        how: the name of the conversion, such as `float()`.

    Raises:
        ArrayConversionError: a TypeError; an array is to store it.
        ScipyCallError: a TypeError; a function of SciPy has asked for it.
    """
    if _wanted.values_alone:
        return
    if _is_storing(frame):
        raise errors.ArrayConversionError(errors.users_line())
    if how != "bool()" and errors.is_scipys(frame.f_code.co_filename):
        check_array()


def check_array() -> None:
    """Refuse to make a traced tensor a plain array.

    Raises:
        ArrayConversionError: a TypeError; NumPy wants the array.
        ScipyCallError: a TypeError; it is wanted in a function of SciPy.
    """
    if _wanted.values_alone:
        return
    frame: FrameType | None = sys._getframe(1)
    called = ""
    while frame is not None and errors.is_library(frame.f_code.co_filename):
        if errors.is_scipys(frame.f_code.co_filename):
            called = _public_name(frame) or called
        frame = frame.f_back
    line = errors.users_line()
    raise errors.ScipyCallError(called, line) if called else errors.ArrayConversionError(line)


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


_STORING = re.compile(r"\b(fill|fromiter|setitem|__setitem__)\b")


def _is_storing(frame: FrameType) -> bool:
    """Return whether the frame is at `array[i] = x` or the like: NumPy asks what it stores for a number."""
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "STORE_SUBSCR":
        return True
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0)
    return bool(_STORING.search(source[start : stop if line == end else None]))
