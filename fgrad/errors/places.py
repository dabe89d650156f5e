"""Where in the user's program we are, and what it does there; for messages, and for what hangs on who calls.

    users_place(), users_line()    the innermost file and line outside of fgrad and the libraries below it
    is_file_of("scipy", name)      whether a file belongs to a package, by the folder of the package itself
    step_at(frame)                 what a frame is doing: it stores, indexes, formats, or calls something by a name

What a frame is doing is read off its instructions, once for each place, and not off the source: a program has
none when it comes from `python -c` or a pipe.
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
)  # fmt: skip


_BETWEEN = (functools.__file__, contextlib.__file__)
"""Python's modules through which one function of fgrad calls another."""


def users_line() -> str:
    """Return `file:line: source` of the innermost frame outside of fgrad, NumPy and SciPy."""
    return line_at(users_place())


def users_place() -> tuple[str, int]:
    """Return the file and line of that frame; it costs less than the text."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    found = _at(frame.f_code).places
    place = found.get(frame.f_lasti)
    if place is None:  # to find the number of a line takes longer the longer the function is
        place = found[frame.f_lasti] = _place(frame, frame.f_lineno)
    return place


def _place(frame: FrameType, number: int) -> tuple[str, int]:
    """Return the file and a line of a frame, whose module is asked for its text where the file is in an archive."""
    name = frame.f_code.co_filename
    linecache.lazycache(name, frame.f_globals)
    return name, number


def depth_of_user() -> int:
    """Return how many frames the user's line is above the caller: the `stacklevel` of a warning."""
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
    """Return the innermost line of the user's that an error has come through, as `file:line: source`."""
    place, traceback = users_place(), error.__traceback__
    while traceback is not None:
        if not is_library(traceback.tb_frame.f_code.co_filename):
            place = _place(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return line_at(place)


def _file_or_cell(name: str) -> str:
    """Return the name of a file, or of a notebook's cell what stands beside it, such as `In[3]`."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    cell = None if shell is None else shell.compile.format_code_name(name)
    return str(cell[1]) if cell else os.path.basename(name)


@functools.cache
def is_library(filename: str) -> bool:
    """Return whether a file is one of fgrad's, or of a library through which a call comes to it, such as NumPy.

    A module that was compiled from Cython has frames in tracebacks, with the name of a source that is not there.
    """
    return (
        filename in _BETWEEN
        or filename.startswith(("<frozen importlib", "<stringsource>"))  # the latter is Cython's own part of a module
        or filename.endswith(".pyx")
        or any(is_file_of(package, filename) for package in _LIBRARIES)
    )


def is_file_of(package: str, filename: str) -> bool:
    """Return whether a file lies in the folder of a package; what has not been imported has no file that runs."""
    module = sys.modules.get(package)
    origin = None if module is None else module.__file__
    return origin is not None and filename.startswith(os.path.dirname(origin) + os.sep)


FULL_TRACEBACKS = bool(os.environ.get("FGRAD_FULL_TRACEBACKS"))
"""Whether tracebacks show what happens inside of fgrad, too: set the variable in the environment to see it."""


def without_library(traceback: TracebackType | None, is_ours: bool) -> TracebackType | None:
    """Return a traceback with the user's frames alone.

    Args:
        traceback: of an error that leaves fgrad.
        is_ours: the error is one of fgrad's, whose message says all; others stay as they are if no frame is the user's.
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


# What a frame is doing


class Step(NamedTuple):
    """What a program does at one instruction.

    Attributes:
        kind: "store" for `a[i] = x`, "index" for `a[x]`, "operator" for `a + x`, "test" for a comparison or a branch,
            "call", "raise", or "other".
        names: of what is called, as in `np.linalg.inv(x)`: ("np", "linalg", "inv"); the first of them is empty
            where it is not a name, as in `a[0].fill(x)`. Of an operator, how it is written.
        is_global: whether the first name is one of the module's, and none of the function's own.
        mentions: the names of attributes among what is passed, as in `map(a.__setitem__, places, values)`.
    """

    kind: str
    names: tuple[str, ...] = ()
    is_global: bool = False
    mentions: tuple[str, ...] = ()


class _Known:
    """What has been found out about the instructions of a code object, by their positions."""

    __slots__ = ("reference", "steps", "places")

    def __init__(self, code: CodeType) -> None:
        identity = id(code)
        self.reference = weakref.ref(code, lambda _: _known.pop(identity, None))  # the entry goes with the code
        self.steps: dict[int, Step] = {}
        self.places: dict[int, tuple[str, int]] = {}


_known: dict[int, _Known] = {}
"""By the ids of code objects, whose own hash is that of all their contents."""


def _at(code: CodeType) -> _Known:
    known = _known.get(id(code))
    if known is None:
        known = _known[id(code)] = _Known(code)
    return known


def step_at(frame: FrameType) -> Step:
    """Return what a frame is doing."""
    return step_in(frame.f_code, frame.f_lasti)


def step_in(code: CodeType, position: int) -> Step:
    """Return what an instruction does; where it has been asked before, in a fraction of a microsecond."""
    steps = _at(code).steps
    step = steps.get(position)
    if step is None:
        step = steps[position] = _step(code, position)
    return step


def called(frame: FrameType, step: Step) -> Any:
    """Return the function that a frame calls by a step, or None if it has no name in the module.

    Local names are not looked up: `frame.f_locals` would keep what they stand for alive.
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
    """Return the names of the function that an instruction calls: what was put on the stack before its arguments."""
    wanted = instructions[index].arg or 0
    if instructions[index].opname == "CALL_KW":
        wanted += 1  # the names of the keywords
    elif instructions[index].opname not in ("CALL", "PRECALL"):
        return Step("call")  # with *args or **keywords, whose number the instruction does not tell
    place = index - 1
    while place >= 0 and instructions[place].opname in ("PRECALL", "KW_NAMES"):  # of this call itself
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
    """Return where the loop begins that ends at an instruction."""
    starts = (place for place in range(end) if instructions[place].opname == "FOR_ITER")
    return next((place for place in starts if instructions[place].argval == instructions[end].offset), end)
