"""The user's file and line, and the instruction that runs there; for messages and a few decisions by caller.

    users_place(), users_line()    the innermost file and line outside of fgrad and its libraries
    is_file_of("scipy", name)      whether a file belongs to a package, by the package's folder
    step_at(frame)                 the kind of instruction that a frame runs: store, index, call, ...

The kind is read from the bytecode, once for each place, and not from the source: a program from `python -c` or a pipe
has none.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import linecache
import os
import re
import sys
import weakref
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

_LIBRARIES = (
    "fgrad", "numpy", "scipy", "pandas", "optree", "sparse", "numba", "xarray", "pint", "astropy", "unyt", "cvxpy",
    "jax", "matplotlib",
)  # fmt: skip


_BETWEEN = (functools.__file__, contextlib.__file__)
"""Python modules through which one function of fgrad calls another."""

_STATISTICS = os.path.join(os.path.dirname(functools.__file__), "statistics.py")
"""A Python module whose functions compute with the user's numbers."""


def users_line() -> str:
    """Return `file:line: source` of the innermost frame outside of fgrad, NumPy and SciPy."""
    return line_at(users_place())


def users_place(known: int = 0) -> tuple[str, int]:
    """Return the file and line of that frame; faster than the text.

    Args:
        known: the number of frames above the caller's that are known to be of fgrad, and need no test.
    """
    frame = sys._getframe(1 + known)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    found = _at(frame.f_code).places
    place = found.get(frame.f_lasti)
    if place is None:  # finding the line number takes longer in long functions
        place = found[frame.f_lasti] = _place(frame, frame.f_lineno)
    return place


def _place(frame: FrameType, number: int) -> tuple[str, int]:
    """Return the file and line of a frame; registers its module as the source of the text, for files in archives."""
    name = frame.f_code.co_filename
    linecache.lazycache(name, frame.f_globals)
    return name, number


def depth_of_user() -> int:
    """Return the number of frames from the caller up to the user's line: the `stacklevel` of a warning."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    return depth


def line_at(place: tuple[str, int]) -> str:
    """Return a file and line as `file:line: source`."""
    name, number = place
    source = linecache.getline(name, number).strip()
    return f"{_file_or_cell(name)}:{number}" + (f": {source}" if source else "")


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's in the traceback of an error, as `file:line: source`."""
    place, traceback = users_place(), error.__traceback__
    while traceback is not None:
        if not is_library(traceback.tb_frame.f_code.co_filename):
            place = _place(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return line_at(place)


def _file_or_cell(name: str) -> str:
    """Return the name of a file, or the label of a notebook's cell, such as `In[3]`."""
    ipython: Any = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()  # another thread may be importing it
    cell = None if shell is None else shell.compile.format_code_name(name)
    return str(cell[1]) if cell else os.path.basename(name)


@functools.cache
def is_library(filename: str) -> bool:
    """Return whether a file belongs to fgrad, or to a library that may call it, such as NumPy.

    A module compiled by Cython has frames in tracebacks, whose source file does not exist.
    """
    return (
        filename in (*_BETWEEN, _STATISTICS)
        or filename.startswith(("<frozen importlib", "<stringsource>"))  # the latter is Cython's own part of a module
        or filename.endswith(".pyx")
        or any(is_file_of(package, filename) for package in _LIBRARIES)
    )


@functools.cache
def has_labels(filename: str) -> bool:
    """Return whether a file belongs to a library whose arrays have labels."""
    return is_file_of("pandas", filename) or is_file_of("xarray", filename)


def is_file_of(package: str, filename: str) -> bool:
    """Return whether a file lies in the folder of a package; false for a package that is not imported."""
    module = sys.modules.get(package)
    origin = None if module is None else module.__file__
    return origin is not None and filename.startswith(os.path.dirname(origin) + os.sep)


FULL_TRACEBACKS = bool(os.environ.get("FGRAD_FULL_TRACEBACKS"))
"""Whether tracebacks include frames inside fgrad: set by the environment variable."""


def without_library(traceback: TracebackType | None, is_ours: bool) -> TracebackType | None:
    """Return a traceback with only the user's frames.

    Args:
        traceback: the traceback of an error that leaves fgrad.
        is_ours: whether the error is fgrad's, whose message suffices; others are unchanged if no frame is the user's.
    """
    if FULL_TRACEBACKS:
        return traceback
    frames = []
    each = traceback
    while each is not None:
        if not is_library(each.tb_frame.f_code.co_filename):
            frames.append(each)
        each = each.tb_next
    shown: TracebackType | None = None
    for each in reversed(frames):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shown or (None if is_ours else traceback)


def statistics_function(frame: FrameType | None) -> str:
    """Return the function of the module `statistics` that the user called, if one runs in a frame, or ""."""
    called = ""
    while frame is not None and frame.f_code.co_filename == _STATISTICS:
        called, frame = f"statistics.{frame.f_code.co_qualname}", frame.f_back
    return called


# The instruction of a frame


class Step(NamedTuple):
    """The instruction that a program runs.

    Attributes:
        kind: "store" for `a[i] = x`, "index" for `a[x]`, "operator" for `a + x`, "test" for a comparison or a branch,
            "call", "raise", or "other".
        names: the parts of the name of the called function, as in `np.linalg.inv(x)`: ("np", "linalg", "inv"); the
            first one is empty if it is not a name, as in `a[0].fill(x)`. For an operator, its symbol.
        is_global: whether the first name is a global of the module, and not local to the function.
        mentions: the names of attributes among the arguments, as in `map(a.__setitem__, places, values)`.
    """

    kind: str
    names: tuple[str, ...] = ()
    is_global: bool = False
    mentions: tuple[str, ...] = ()


class _Known:
    """The cached instructions and places of a code object, by position."""

    __slots__ = ("reference", "steps", "places")

    def __init__(self, code: CodeType) -> None:
        identity = id(code)
        self.reference = weakref.ref(code, lambda _: _known.pop(identity, None))  # the entry is removed with the code
        self.steps: dict[int, Step] = {}
        self.places: dict[int, tuple[str, int]] = {}


_known: dict[int, _Known] = {}
"""By the ids of code objects, whose hash would cover all their contents."""


def _at(code: CodeType) -> _Known:
    known = _known.get(id(code))
    if known is None:
        known = _known[id(code)] = _Known(code)
    return known


def step_at(frame: FrameType) -> Step:
    """Return the instruction that a frame runs."""
    return step_in(frame.f_code, frame.f_lasti)


def step_in(code: CodeType, position: int) -> Step:
    """Return the instruction at a position of a code object; cached."""
    steps = _at(code).steps
    step = steps.get(position)
    if step is None:
        step = steps[position] = _step(code, position)
    return step


def called(frame: FrameType, step: Step) -> Any:
    """Return the function that a frame calls, or None if it is not a global of the module.

    Local names are not looked up: `frame.f_locals` would keep their values alive.
    """
    if not step.is_global:
        return None
    first, *rest = step.names
    found = frame.f_globals.get(first, frame.f_builtins.get(first))
    for name in rest:
        found = vars(found).get(name) if isinstance(found, ModuleType) else None
    return found


def _step(code: CodeType, position: int) -> Step:
    instructions = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG")]
    index = next((i for i, each in enumerate(instructions) if each.offset == position), None)
    if index is None:
        return Step("other")
    now = instructions[index]
    if now.opname in ("STORE_SUBSCR", "STORE_SLICE"):
        return Step("store")
    if now.opname in ("BINARY_SUBSCR", "BINARY_SLICE") or (now.opname == "BINARY_OP" and now.argrepr == "[]"):
        return Step("index")
    if now.opname == "BINARY_OP":
        return Step("operator", (now.argrepr,))
    if now.opname in ("COMPARE_OP", "CONTAINS_OP", "UNARY_NOT", "TO_BOOL") or re.search("JUMP.*_IF_", now.opname):
        return Step("test")
    if now.opname in ("RAISE_VARARGS", "RERAISE"):
        return Step("raise")
    if now.opname.startswith("CALL") or now.opname == "PRECALL":
        return _call(instructions, index)
    return Step("other")


def _call(instructions: list[dis.Instruction], index: int) -> Step:
    """Return the names of the function that an instruction calls: it is on the stack below the arguments."""
    wanted = instructions[index].arg or 0
    if instructions[index].opname == "CALL_KW":
        wanted += 1  # the names of the keywords
    elif instructions[index].opname == "CALL_FUNCTION_EX":  # one tuple, and one dict if the lowest bit is set
        wanted = 2 if instructions[index].arg is None else 1 + wanted % 2  # Python 3.14 always has a dict, or NULL
    elif instructions[index].opname not in ("CALL", "PRECALL"):
        return Step("call")
    place = index - 1
    while place >= 0 and instructions[place].opname in ("PRECALL", "KW_NAMES"):  # of this call
        place -= 1
    mentions: list[str] = []
    while place >= 0 and wanted > 0:
        if instructions[place].opname in ("LOAD_ATTR", "LOAD_METHOD"):
            mentions.append(str(instructions[place].argval))
        wanted -= dis.stack_effect(instructions[place].opcode, instructions[place].arg, jump=False)
        if instructions[place].opname == "END_FOR":  # of a comprehension, whose body leaves nothing on the stack
            place = _start_of_loop(instructions, place)
            wanted -= 1
        place -= 1
    while place >= 0 and instructions[place].opname == "PUSH_NULL":
        place -= 1
    names: list[str] = []
    while place >= 0 and instructions[place].opname in ("LOAD_ATTR", "LOAD_METHOD"):
        names.insert(0, str(instructions[place].argval))
        place -= 1
    origin = instructions[place] if place >= 0 else None
    if origin is not None and origin.opname.startswith("LOAD_") and isinstance(origin.argval, str):
        is_global = origin.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        return Step("call", (origin.argval, *names), is_global, tuple(mentions))
    return Step("call", ("", *names), False, tuple(mentions))


def _start_of_loop(instructions: list[dis.Instruction], end: int) -> int:
    """Return the index of the start of the loop that ends at an instruction."""
    starts = (place for place in range(end) if instructions[place].opname == "FOR_ITER")
    return next((place for place in starts if instructions[place].argval == instructions[end].offset), end)
