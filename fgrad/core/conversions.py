"""When a traced tensor may become a plain number or array, and when its derivative would be lost.

check_number(frame, how, tensor)  raises where an array is to store a number, or SciPy asks for it; notes a `Loss`
is_left_to_operand(frame)         whether SciPy asks for an array only to see whether the tensor knows better
is_collected(tensor, frame)       whether NumPy builds an array of traced numbers
check_array(rank)                 raises where NumPy or SciPy wants a plain array
values_alone(rank)                a block in which values are wanted, and a rule gives the derivative
unwrap(error)                     raises what is under an error of NumPy's or SciPy's
refuse_objects(error)             raises an error of fgrad's where NumPy cannot work on an array of traced numbers
"""

from __future__ import annotations

import cmath
import linecache
import math
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.errors import places


class _Wanted(threading.local):
    """What this thread wants of traced tensors: of those of traces up to this rank, values alone."""

    rank = 0
    collected: tuple[str, int] | None = None  # where an array of traced numbers was built last


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


@dataclass(eq=False, slots=True)
class Loss:
    """An instruction of the user's that takes plain numbers of a traced tensor, without saying that it means to.

    Attributes:
        function: what took the number, such as `math.sin` or `float`; empty where that is not known.
        place: the user's file and line.
        code: in which the instruction stands.
        is_told: whether the user has been warned of it.
    """

    function: str
    place: tuple[str, int]
    code: CodeType
    is_told: bool = False


def check_number(frame: FrameType, how: str, tensor: Any) -> str:
    """Refuse to make a traced tensor a number where its derivative would be lost without a word.

    A number that is asked for by `float()` or `complex()` is noted in the traces that follow the tensor: whether a
    derivative is lost shows when the function has ended.

    Args:
        frame: what asks for the number.
        how: the name of the conversion, such as `float()`.
        tensor: a Tensor that a running trace follows.

    Returns:
        How the value leaves its traces: `how`, or `formatting`.

    Raises:
        ArrayConversionError: a TypeError; an array is to store it.
        ScipyCallError: a TypeError; a function of SciPy has asked for it.
    """
    trace = tensor.tracing
    # What has been noted holds its code, so that the identity is of no other.
    if trace.rank <= _wanted.rank or (id(frame.f_code), frame.f_lasti) in trace.losses:
        return how
    step = places.step_at(frame)
    if _is_storing(step):
        raise errors.ArrayConversionError(errors.users_line(), _use(frame))
    if how == "bool()":
        if _is_logical(frame, step):
            raise errors.ObjectArrayError("it would give numbers for truth values", errors.users_line(), "")
        return how
    if (step.kind == "operator" and step.names[0] in ("%", "%=")) or not _FORMATTING.isdisjoint(step.names[-1:]):
        return "formatting"  # a remainder of two numbers would be an operation
    function = _function_at(frame, step, how)
    if how != "int()" and any(places.is_file_of(name, frame.f_code.co_filename) for name in ("numpy", "scipy")):
        check_array(trace.rank)
    if how != "int()" and function not in _LOOKING:
        _note(frame, function, tensor)
    return how


def _is_logical(frame: FrameType, step: places.Step) -> bool:
    """Return whether NumPy asks for truth in `np.logical_or`, `np.any` or the like of an array of objects."""
    name = frame.f_code.co_name if places.is_file_of("numpy", frame.f_code.co_filename) else "".join(step.names[-1:])
    return step.kind == "call" and (name.startswith("logical_") or name in _ALL_AND_ANY)


def _is_storing(step: places.Step) -> bool:
    """Return whether it is `array[i] = x` or the like: NumPy asks what it stores for a number."""
    return step.kind == "store" or (step.kind == "call" and not _STORING.isdisjoint((*step.names[-1:], *step.mentions)))


def _function_at(frame: FrameType, step: places.Step, how: str) -> str:
    """Return what asks for a number, as users write it; it is told by its name alone where it stands for a local one.

    Raises:
        ArrayConversionError: it is a type of NumPy's.
    """
    callee = places.called(frame, step) if step.kind == "call" else None
    if callee in _OF_FLOATS:
        raise errors.ArrayConversionError(errors.users_line(), _use_in_library(frame) or _use(frame))
    if callee is float or callee is complex:
        return str(callee.__name__)
    if isinstance(callee, _BUILT_IN) and callee in _OF_MATH:
        return _OF_MATH[callee]
    module = "cmath" if how == "complex()" else "math"
    known = (f"{module}.{name}" for name in (*step.names[-1:], *step.mentions))
    return next((name for name in known if name in _NAMES_OF_MATH), "")


def _note(frame: FrameType, function: str, tensor: Any) -> None:
    """Note in all traces that follow a tensor that an instruction takes a number of it."""
    code, place = frame.f_code, errors.users_place()
    loss = Loss(function, place, code)
    key = place if places.is_library(code.co_filename) else (id(code), frame.f_lasti)
    traces = []
    while hasattr(tensor, "tracing"):
        traces.append(tensor.tracing)
        tensor = tensor.payload
    if not any(trace.is_map or trace.is_program for trace in traces):  # which have no number to give
        for trace in traces:
            trace.losses.setdefault(key, loss)


def is_collected(tensor: Any, frame: FrameType) -> bool:
    """Return whether NumPy asks a traced tensor for its array in order to build an array of what it is given.

    Where there is no such array, it takes the numbers themselves, as objects, each of them with its derivative.

    Args:
        tensor: a Tensor that a running trace follows.
        frame: what has called NumPy.
    """
    trace = tensor.tracing
    if trace.rank <= _wanted.rank or tensor.size > _MANY:
        return False
    if tensor.dtype.kind != "f" and not ((trace.is_map or trace.is_program) and tensor.dtype.kind in "bui"):
        return False  # truth values and integers are plain to NumPy, and it takes objects for real numbers
    if places.is_file_of("numpy", frame.f_code.co_filename):
        if frame.f_code.co_name == "as_strided" or not _NOT_OF_OBJECTS.isdisjoint(_module_of(frame).split(".")):
            return False
    else:
        if places.is_library(frame.f_code.co_filename):
            return False
        step = places.step_at(frame)
        if step.kind not in ("operator", "other") and not (step.kind == "call" and _is_of_numpy(frame, step)):
            return False
    _wanted.collected = errors.users_place()
    return True


def is_left_to_operand(frame: FrameType) -> bool:
    """Return whether a sparse matrix of SciPy's asks its other operand for its array in an operator.

    Where NumPy makes one object of the operand, SciPy leaves it to that what the operator means.
    """
    return frame.f_code.co_name in _OPERATORS_OF_SPARSE and _module_of(frame).startswith("scipy.sparse.")


def _is_of_numpy(frame: FrameType, step: places.Step) -> bool:
    """Return whether a call is one of a function of NumPy that builds an array of its arguments."""
    callee = places.called(frame, step)
    if callee in _COLLECTING:
        return True
    return callee is None and not _NAMES_OF_COLLECTING.isdisjoint((*step.names[-1:], *step.mentions))


def refuse_nan(frame: FrameType, *compared: Any) -> None:
    """Refuse to compare numbers of which one is NaN, where NumPy wants the larger one of an array of objects.

    Of floating-point numbers it would be NaN; of objects it is either of them.

    Args:
        frame: what has asked for the comparison.
        compared: tensors of shape `()` and numbers.

    Raises:
        ObjectArrayError: a TypeError; NumPy compares, and not the program itself.
    """
    if all(x == x for x in compared) or not _is_in_loop_of_numpy(frame):
        return
    built = "" if _wanted.collected is None else errors.line_at(_wanted.collected)
    raise errors.ObjectArrayError("one of them is NaN, which is no larger and no smaller", errors.users_line(), built)


def _is_in_loop_of_numpy(frame: FrameType) -> bool:
    """Return whether a frame has called NumPy, which runs through an array of objects."""
    if places.is_file_of("numpy", frame.f_code.co_filename):
        return True
    step = places.step_at(frame)
    callee = places.called(frame, step) if step.kind == "call" else None
    return step.kind == "call" and (isinstance(callee, np.ufunc) or (callee is None and len(step.names) > 1))


def refuse_objects(error: BaseException) -> None:
    """Raise an error of fgrad's in place of one by which NumPy refuses an array of traced numbers."""
    reason = str(error)
    if _wanted.collected is None or type(error).__module__.partition(".")[0] not in ("builtins", "numpy"):
        return
    words = _WORDS_OF_OBJECTS if isinstance(error, TypeError) else ("numpy.object_", "dtype('O')")
    is_of_objects = isinstance(error, (TypeError, ValueError)) and any(each in reason for each in words)
    if not is_of_objects and not _lacks_ufunc(error):
        return
    built, _wanted.collected = errors.line_at(_wanted.collected), None
    if not _is_raised_by_user(error):
        ours = errors.ObjectArrayError(reason, errors.line_of(error), built, _series_function(error))
        raise ours.with_traceback(error.__traceback__) from None


def _module_of(frame: FrameType) -> str:
    """Return the name of the module that runs in a frame; code that `exec` runs may have none."""
    return frame.f_globals.get("__name__") or ""


def forget_objects() -> None:
    """Forget where an array of traced numbers was built: later errors have nothing to do with it."""
    _wanted.collected = None


def _series_function(error: BaseException) -> str:
    """Return the innermost function of `numpy.polynomial` that an error has come through, such as chebfit, if any."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        if _module_of(traceback.tb_frame).startswith("numpy.polynomial."):
            found = traceback.tb_frame.f_code.co_name if _OF_SERIES.match(traceback.tb_frame.f_code.co_name) else found
        traceback = traceback.tb_next
    return found


def _lacks_ufunc(error: BaseException) -> bool:
    """Return whether a number had no method by which a ufunc of two arguments would run, such as `hypot`."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, (int, float, complex)):
        return False
    return isinstance(getattr(np, error.name or "", None), np.ufunc)


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
        ours, error.__cause__ = error.__cause__, None  # or each of them would be the reason of the other
        raise ours.with_traceback(error.__traceback__) from None


def _is_raised_in_python(error: BaseException) -> bool:
    """Return whether a `raise` of the user's has raised an error, and not NumPy: in Python, or in C."""
    return error.__traceback__ is None or _is_raised_by_user(error)


def _is_raised_by_user(error: BaseException) -> bool:
    traceback = error.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    if any(places.is_file_of(package, traceback.tb_frame.f_code.co_filename) for package in ("numpy", "scipy")):
        return False
    return places.step_in(traceback.tb_frame.f_code, traceback.tb_lasti).kind == "raise"


# What messages say


def _public_name(frame: FrameType) -> str:
    """Return how users write the function of SciPy that runs in a frame, or nothing if it is not public."""
    function, owner = frame.f_code.co_name, frame.f_locals.get("self")
    parts = _module_of(frame).split(".")
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


_BUILT_IN = type(math.sin)
_OF_FLOATS = {np.float64, np.complex128, np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray}
_OF_MATH: dict[Any, str] = {
    function: f"{module.__name__}.{name}"
    for module in (math, cmath)
    for name, function in vars(module).items()
    if isinstance(function, _BUILT_IN)
}
_NAMES_OF_MATH = set(_OF_MATH.values())
_LOOKING = {name for name in _NAMES_OF_MATH if name.partition(".")[2].startswith("is")}
_FORMATTING = {"dragon4_positional", "dragon4_scientific"}  # NumPy's
_STORING = {"fill", "fromiter", "setitem", "__setitem__", "astype"}
_ALL_AND_ANY = {"any", "all", "_any", "_all", "_wrapreduction_any_all"}
_NOT_OF_OBJECTS = {"ma", "matrixlib"}
"""Modules of NumPy with arrays of their own kinds."""
_OPERATORS_OF_SPARSE = {"_matmul_dispatch", "_divide"}
"""The functions of SciPy's that return NotImplemented for what is an object to NumPy; others compute with objects."""
_MANY = 10_000
"""Elements above which it would take long to make an object of each."""
_COLLECTING = {np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.dot, np.inner, np.where}
_NAMES_OF_COLLECTING = {function.__name__ for function in _COLLECTING}
_OF_SERIES = re.compile("(poly|cheb|leg|herm|herme|lag)(fit|roots)$")
"""The functions of `numpy.polynomial` that need floating-point numbers; the others compute with objects, too."""
_WORDS_OF_OBJECTS = ("object", "dtype('O')", "not supported for the input types", "loop of ufunc")


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
    if type(owner) is np.vectorize or frame.f_code.co_name == "as_strided":
        return f"{frame.f_code.co_name.strip('_')}("
    return next((use for use, joined in _JOINS.items() if owner is joined), "")


def _source_of(frame: FrameType) -> str:
    """Return the expression that a frame is at, or what is in its first line; nothing where it is not known."""
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0).encode()  # positions count bytes
    return source[start : stop if line == end else None].decode(errors="ignore")
