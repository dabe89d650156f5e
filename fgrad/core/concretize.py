"""Concretization: what may leave a trace as a plain number or array. Decided by the tensor and the conversion.

check_number(frame, how, tensor)  raises where a traced number would become a plain one
is_collected(tensor)              whether NumPy gets an array of traced numbers
check_array(rank)                 raises where NumPy or SciPy requests a plain array
values_alone(rank)                a block that needs values only, while a rule gives the derivative
unwrap(error)                     raises the fgrad error that NumPy or SciPy has wrapped
refuse_objects(error)             raises an fgrad error where NumPy cannot work on an array of traced numbers
advise(error)                     adds a hint on what to write instead to a Python error

Inspection is always allowed: comparisons, `bool`, `int`, `round`, formatting. So are the explicit `.item()`, `.numpy()`
and `.tolist()`. `float()`, `complex()` and functions that call them raise, and so does an array of a numeric dtype.

Frames and bytecode instructions are used for the wording of messages. They decide only in five places, where NumPy or
SciPy would compute something else with objects than with numbers and no other sign of it reaches a tensor:
`refuse_logical`, `refuse_nan`, `refuse_reciprocal`, `refuse_strides` and `is_left_to_operand`. The first two refuse
callers they do not recognize.
"""

from __future__ import annotations

import cmath
import linecache
import math
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.errors import places
from fgrad.typing import Array


class _Wanted(threading.local):
    """Thread state: tensors of traces up to rank `rank` may become plain values."""

    rank = 0
    collected: tuple[str, int] | None = None  # where an array of traced numbers was built last
    labelled: tuple[str, int] | None = None  # where that was done last for an object with labels, such as a Series
    is_exact = False  # whether they are integers or booleans
    refused: tuple[str, str] | None = None  # the function of SciPy, and the line, where a plain array was refused last


_wanted = _Wanted()


@contextmanager
def values_alone(rank: int) -> Iterator[None]:
    """Allow tensors of traces up to a rank to become plain numbers and arrays: their derivative is not needed.

    A transform that starts in the block has a higher rank, and its derivatives are needed: a solver may compute the
    Jacobian of the user's function.
    """
    before, _wanted.rank = _wanted.rank, rank
    try:
        yield
    finally:
        _wanted.rank = before


def check_number(frame: FrameType, how: str, tensor: Any) -> None:
    """Refuse to make a traced tensor a plain number, which would drop its derivative.

    Args:
        frame: the frame that requests the number, for the message.
        how: `float()` or `complex()`; any other conversion is allowed.
        tensor: a Tensor of real or complex numbers of a running trace.

    Raises:
        DetachedError: a TypeError; in its subclasses `ArrayConversionError` and `ScipyCallError` the message names the
            function that requested the number.
    """
    trace = tensor._trace
    if trace.rank <= _wanted.rank or tensor.size != 1:
        return
    if how == "bool()":
        refuse_logical(frame)
    if how not in ("float()", "complex()"):
        return
    step, use, is_there = places.step_at(frame), _use_in_library(frame), not (trace.is_map or trace.is_program)
    if is_there and any(places.is_file_of(name, frame.f_code.co_filename) for name in ("numpy", "scipy")):
        check_array(trace.rank)
    if use or _is_storing(step):
        raise errors.ArrayConversionError(errors.users_line(), _library_call(frame)[1] or _use(frame))
    if not is_there:  # the trace raises its own error
        return
    raise _error_of_number(frame, step, how)


def refuse_logical(frame: FrameType) -> None:
    """Refuse a logical NumPy function on an array of traced numbers: it would return numbers instead of truth values.

    Args:
        frame: the frame that requests a truth value.

    Raises:
        ObjectArrayError: a TypeError; the request comes, or may come, from a function such as `np.logical_or`.
    """
    module = _module_of(frame)
    is_numpys = module.startswith("numpy.") and not module.startswith(
        "numpy.ma."
    )  # such as `np.any`, which returns truth values
    if _wanted.collected is None or is_numpys or _is_of_python(frame, {bool, any, all}, _TAKING_TRUTH):
        return
    built = errors.line_at(_wanted.collected)
    raise errors.ObjectArrayError("it would give numbers for truth values", errors.users_line(), built)


def _is_of_python(frame: FrameType, built_in: set[Any], others: set[str]) -> bool:
    """Return whether a truth value is requested by Python itself, and not by a NumPy loop over an object array.

    Args:
        frame: the frame that requests it.
        built_in: Python functions that may request it; others, such as `next`, may run NumPy loops.
        others: names of NumPy functions that treat objects like numbers.
    """
    step = places.step_at(frame)
    if step.kind != "call":
        return step.kind in ("test", "store")
    callee = places.called(frame, step)
    return any(callee is each for each in built_in) or not others.isdisjoint(step.names[-1:])


def _is_storing(step: places.Step) -> bool:
    """Return whether the instruction stores a value, as `array[i] = x` does: NumPy then requests a plain number."""
    return step.kind == "store" or (step.kind == "call" and not _STORING.isdisjoint((*step.names[-1:], *step.mentions)))


def _error_of_number(frame: FrameType, step: places.Step, how: str) -> errors.DetachedError:
    """Return the error for a request of a plain number in the user's program."""
    line = errors.users_line()
    if called := places.statistics_function(frame):
        return errors.DetachedError.of_number(called, line)
    if step.kind == "operator" and step.names[0] in ("%", "%="):
        return errors.DetachedError.of_number("%", line)
    callee = places.called(frame, step) if step.kind == "call" else None
    if any(callee is each for each in _ARRAYS_OF) or (isinstance(callee, type) and issubclass(callee, np.inexact)):
        return errors.ArrayConversionError(line, _use(frame))
    written = ".".join(step.names) + "("
    if errors.ArrayConversionError.remedies(written):
        return errors.ArrayConversionError(line, written)
    return errors.DetachedError.of_number(_name_of(callee, step, how), line)


def _name_of(callee: object, step: places.Step, how: str) -> str:
    """Return the name of the function that requests a number, as users write it; empty if it is unknown."""
    if callee is float or callee is complex:
        return str(callee.__name__)
    if isinstance(callee, _BUILT_IN) and callee in _OF_MATH:
        return _OF_MATH[callee]
    module = "cmath" if how == "complex()" else "math"
    known = (f"{module}.{name}" for name in (*step.names[-1:], *step.mentions))
    return next((name for name in known if name in _NAMES_OF_MATH), "")


def is_collected(tensor: Any) -> bool:
    """Return whether NumPy gets an array of traced numbers when it requests the array of a traced tensor.

    Each element is an object with its derivative. So `np.array([x, y])`, however it is spelled, is such an array;
    functions that need floating-point numbers call `float` on each element, which raises. There are no complex ones: to
    NumPy the imaginary part of an object is 0.
    """
    trace = tensor._trace
    if trace.rank <= _wanted.rank or tensor.size > _MANY:
        return False
    # Booleans and integers carry no derivative: NumPy gets their plain array, if they have a value.
    return tensor.dtype.kind in ("fbui" if trace.is_map or trace.is_program else "f")


def collecting(tensor: Array) -> None:
    """Remember where an array of traced numbers is built, for messages."""
    caller = sys._getframe(2)
    refuse_strides(caller)
    _wanted.collected, _wanted.is_exact = errors.users_place(), tensor.dtype.kind in "bui"
    if places.has_labels(caller.f_code.co_filename):
        _wanted.labelled = _wanted.collected


def refuse_strides(frame: FrameType) -> None:
    """Refuse `as_strided` of a traced tensor: it would lay strides of numbers over an array of objects.

    Raises:
        ArrayConversionError: a TypeError; `as_strided` requests the array.
    """
    if frame.f_code.co_name == "as_strided" and places.is_file_of("numpy", frame.f_code.co_filename):
        raise errors.ArrayConversionError(errors.users_line(), "as_strided(")


def is_left_to_operand(frame: FrameType) -> bool:
    """Return whether an operator of a SciPy sparse matrix requests the array of its other operand.

    If NumPy makes it a single object, SciPy leaves the operator to that operand.
    """
    return frame.f_code.co_name in _OPERATORS_OF_SPARSE and _module_of(frame).startswith("scipy.sparse.")


def refuse_nan(frame: FrameType, *compared: object) -> None:
    """Refuse a comparison with NaN where NumPy computes a maximum or minimum of an array of objects.

    For floating-point numbers the result would be NaN; for objects it is either of them.

    Args:
        frame: the frame that compares.
        compared: tensors of shape `()` and numbers.

    Raises:
        ObjectArrayError: a TypeError; NumPy compares, and not the user's program.
    """
    if _wanted.collected is None or all(x == x for x in compared) or _is_of_python(frame, {max, min, sorted}, set()):
        return
    built = errors.line_at(_wanted.collected)
    raise errors.ObjectArrayError("one of them is NaN, which is neither larger nor smaller", errors.users_line(), built)


def refuse_reciprocal(frame: FrameType, tensor: Array) -> None:
    """Refuse `1 / x` of an integer where NumPy computes the reciprocal of an array of objects.

    For integers the result would be an integer; for objects it is the quotient.

    Args:
        frame: the frame that requests the quotient.
        tensor: of shape `()`.

    Raises:
        ObjectArrayError: a TypeError; the request comes from `np.reciprocal`.
    """
    if _wanted.collected is None or not _wanted.is_exact or tensor.dtype.kind not in "iu":
        return
    step = places.step_at(frame)
    if step.kind == "call" and (step.names[-1:] == ("reciprocal",) or places.called(frame, step) is np.reciprocal):
        built = errors.line_at(_wanted.collected)
        raise errors.ObjectArrayError("for integers the result would be an integer", errors.users_line(), built)


def refuse_objects(error: BaseException) -> None:
    """Raise an fgrad error in place of the one with which NumPy or SciPy refuses an array of traced numbers.

    Other errors of a SciPy function that requested such an array get a note about it.
    """
    _name_scipys_function(error)
    if not isinstance(error, Exception) or isinstance(error, errors.FgradError):
        return
    if _wanted.collected is None and _wanted.refused is None:
        return
    called, line = _scipy_function(error), errors.line_of(error)
    if _wanted.refused == (called, line):  # as by `brentq`, whose C code goes on without the number
        forget_objects()
        raise errors.ScipyCallError(called, line).with_traceback(error.__traceback__) from None
    if _wanted.collected is None:
        return
    if _is_raised_by_user(error) or not (called or type(error).__module__.partition(".")[0] in ("builtins", "numpy")):
        return
    built = errors.line_at(_wanted.collected)
    if isinstance(error, IndexError) and _wanted.is_exact:  # an index in a plain run
        ours: Exception = errors.ConcretizationError("use as an index", line)
    elif "read-only" in str(error):
        if not errors.ArrayConversionError.remedies(line):
            _add(error, "np.asarray(x) is a read-only array of traced numbers: write np.copy(x), which is a tensor.")
            return
        ours = errors.ArrayConversionError(line, line)
    elif not (_OF_OBJECTS.search(str(error)) or _lacks_member(error)):
        if called and built == line:
            _add(error, str(errors.ScipyCallError(called, line)))
        return
    elif called:
        ours = errors.ScipyCallError(called, line)
    else:
        ours = errors.ObjectArrayError(
            str(error), line, built, _series_function(error), _wanted.labelled == _wanted.collected
        )
    forget_objects()
    raise ours.with_traceback(error.__traceback__) from None


def _name_scipys_function(error: BaseException) -> None:
    """Raise an error in place of one about a value that a SciPy function wanted, if fgrad has one of its name."""
    if type(error) not in (errors.ConcretizationError, errors.ArrayConversionError):
        return
    called = _scipy_function(error, by_user=True)
    if called and any(has_twin(called) for has_twin in errors.HAS_TWIN):
        raise errors.ScipyCallError(called, errors.line_of(error)).with_traceback(error.__traceback__) from None


def _scipy_function(error: BaseException, by_user: bool = False) -> str:
    """Return the public SciPy function that the user's program called last before an error, or "".

    Args:
        error: the error, with its traceback.
        by_user: whether one that fgrad has called on behalf of the user does not count.
    """
    traceback, called, is_ours = error.__traceback__, "", False
    while traceback is not None:
        frame = traceback.tb_frame
        file = frame.f_code.co_filename
        if not places.is_library(file):
            called, is_ours = "", False
        elif places.is_file_of("scipy", file):
            called = called or ("" if by_user and is_ours else _public_name(frame))
        elif not called:
            # `call_users` is where a transform calls the function that it was given, as vmap(scipy.linalg.inv) does.
            is_ours = places.is_file_of("fgrad", file) and frame.f_code.co_name != "call_users"
        traceback = traceback.tb_next
    return called


def advise(error: BaseException, has_no_value: bool = False) -> None:
    """Add a hint on what to write instead to an error with which Python refuses a tensor.

    Args:
        error: the error, with its traceback.
        has_no_value: whether it was raised under a trace whose tensors have no value.
    """
    if has_no_value and _is_of_series(error):
        _add(error, errors.WITHOUT_VALUES)
    if isinstance(error, errors.FgradError):
        return
    for text, note in _ADVICE:
        if text in str(error):
            _add(error, note)
    if "to numerator/denominator" in str(error) and (innermost := _innermost(error)) is not None:
        _add(error, errors.instead_of_number(places.statistics_function(innermost.tb_frame)))


def _is_of_series(error: BaseException) -> bool:
    """Return whether a series of `np.polynomial` requested a value, or NumPy has hidden that it did."""
    if not isinstance(error, errors.ConcretizationError):
        return isinstance(error, TypeError) and _OF_SERIES_OPERATORS.match(str(error)) is not None
    traceback = error.__traceback__
    while traceback is not None and not _module_of(traceback.tb_frame).startswith("numpy.polynomial."):
        traceback = traceback.tb_next
    return traceback is not None


def _add(error: BaseException, note: str) -> None:
    if note not in getattr(error, "__notes__", ()):  # the error may pass through several transforms
        error.add_note(note)


_LOOK = "x.item() and x.numpy() give the value alone, which carries no derivative"
_JAX = f"A function of JAX takes traced tensors as fgrad.interop.from_jax(function)(x); {_LOOK}."
_ADVICE = (
    (
        "unhashable type: 'Tensor'",
        "A tensor cannot be a key of a dict, a member of a set or an argument of a cached function: leave out the "
        f"cache; {_LOOK}.",
    ),
    ("conversion from Tensor to Decimal", f"{_LOOK}."),
    ("argument should be a string or a Rational", f"{_LOOK}."),
    ("requires a real number, not fgrad", f'Write f"{{x:.3f}}" for "%.3f" % x; {_LOOK}.'),
    ("required argument is not a float", f"struct takes plain numbers: {_LOOK}."),
    ("bytes-like object is required, not 'Tensor'", f"A traced tensor has no memory: {_LOOK}."),
    ("convert 'Tensor' object to bytes", f"A traced tensor has no memory: {_LOOK}."),
    ("Object of type Tensor is not JSON serializable", f"{_LOOK}; so does x.tolist()."),
    ("component: Tensor", f"{_LOOK}."),
    (
        "SeedSequence expects int",
        "A seed must be an integer, and vmap runs the function once for all examples: draw with "
        "fg.random.default_rng(0), from which each example draws its own numbers, or run [f(seed) for seed in seeds].",
    ),
    ("only integers, slices", "An index must be an integer: int(x), or x.astype(int), which have no derivative."),
    (
        "Multiple namespaces for array inputs",
        "Where a library wants all its arrays of one kind, as SciPy does with SCIPY_ARRAY_API=1, make tensors of the "
        "plain arrays and lists beside tensors: fgrad.numpy.asarray(data). Or write the function of fgrad.scipy, which "
        "takes both.",
    ),
    ("Tensor'> is not a valid JAX type", _JAX),
    ("requires ndarray or scalar arguments, got <class 'fgrad.", _JAX),
    (
        "Tensor type unknown to einops <class 'fgrad.",
        "Call fgrad.interop.register_einops() once, or import einops.array_api, whose functions take tensors.",
    ),
    ("unsupported types for true division: '<class 'numpy.polynomial", "Write p * (1 / x) for p / x."),
)
"""Hints for errors of libraries other than NumPy and SciPy, by part of the error text."""


def _module_of(frame: FrameType) -> str:
    """Return the name of the module of a frame; code run by `exec` may have none."""
    return frame.f_globals.get("__name__") or ""


def forget_objects() -> None:
    """Forget where an array of traced numbers was built: later errors are unrelated to it."""
    _wanted.collected = _wanted.labelled = _wanted.refused = None


def _series_function(error: BaseException) -> str:
    """Return the innermost function of `numpy.polynomial` in a traceback, such as chebfit, or ""."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        if _module_of(traceback.tb_frame).startswith("numpy.polynomial."):
            found = traceback.tb_frame.f_code.co_name if _OF_SERIES.match(traceback.tb_frame.f_code.co_name) else found
        traceback = traceback.tb_next
    return found


def _lacks_member(error: BaseException) -> bool:
    """Return whether a number lacked the method for a binary ufunc, such as `hypot`, or a library wanted an array's."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, (int, float, complex)):
        return False
    traceback = _innermost(error)
    is_librarys = traceback is not None and places.is_library(traceback.tb_frame.f_code.co_filename)
    return isinstance(getattr(np, error.name or "", None), np.ufunc) or (is_librarys and error.name in _OF_ARRAYS)


def check_array(rank: int) -> None:
    """Refuse to make a tensor a plain array if its trace takes derivatives that are needed.

    Args:
        rank: the rank of the trace.

    Raises:
        ArrayConversionError: a TypeError; NumPy requests the array.
        ScipyCallError: a TypeError; a SciPy function requests it.
    """
    if rank <= _wanted.rank:
        return
    called, use, users = _library_call(sys._getframe(1))
    line = errors.users_line()
    if called:
        _wanted.refused = called, line
        raise errors.ScipyCallError(called, line)
    if use in ("", "pd.Series(x)") and _wanted.labelled == errors.users_place():
        use = "s.to_numpy()"
    raise errors.ArrayConversionError(line, use or ("" if users is None else _use(users)))


def missing_member(name: str) -> errors.MissingMemberError:
    """Return the error for an attribute of NumPy's arrays that a traced tensor does not have."""
    called, _, _ = _library_call(sys._getframe(1))
    return errors.MissingMemberError(name, errors.users_line(), called)


def _library_call(frame: FrameType | None) -> tuple[str, str, FrameType | None]:
    """Return the function of SciPy that the user has called, what the program does there, and the user's frame."""
    called = use = ""
    while frame is not None and places.is_library(frame.f_code.co_filename):
        if places.is_file_of("scipy", frame.f_code.co_filename):
            called = _public_name(frame) or called
        elif called and places.is_file_of("fgrad", frame.f_code.co_filename):
            break  # an outer SciPy call; its callback takes the derivative of the inner one
        use = _use_in_library(frame) or use
        frame = frame.f_back
    return called, use, frame


def unwrap(error: BaseException) -> None:
    """Raise the fgrad error that other libraries have wrapped in their own."""
    ours: BaseException | None = error
    while ours is not None and not isinstance(ours, errors.FgradError):
        ours = ours.__cause__ if _is_of_library(ours) else None
    if ours is not None and ours is not error:
        error.__cause__ = None  # avoid a cycle of causes
        ours = ours.with_traceback(error.__traceback__)
        _name_scipys_function(ours)
        raise ours from None


def _is_of_library(error: BaseException) -> bool:
    """Return whether a library raised an error: in Python, or in C with a known message."""
    traceback = _innermost(error)
    is_raised_there = traceback is not None and places.is_library(traceback.tb_frame.f_code.co_filename)
    return is_raised_there or str(error).startswith(_OF_LIBRARIES)


def _innermost(error: BaseException) -> TracebackType | None:
    """Return the traceback entry where an error was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


_OF_LIBRARIES = (
    "setting an array element with a sequence.",  # NumPy
    "Result from function call is not a proper array of floats.",  # SciPy
    "Could not convert Tensor",  # pandas
)
"""Messages of other libraries' errors that hide the reason why a number is missing."""


def _is_raised_by_user(error: BaseException) -> bool:
    """Return whether a `raise` statement of the user's raised an error, and not NumPy or SciPy, in Python or in C."""
    traceback = _innermost(error)
    if traceback is None or places.is_library(traceback.tb_frame.f_code.co_filename):
        return False
    return places.step_in(traceback.tb_frame.f_code, traceback.tb_lasti).kind == "raise"


# Words for messages


def _public_name(frame: FrameType) -> str:
    """Return the public name of the SciPy function that runs in a frame, or "" if it is not public."""
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
_ARRAYS_OF = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
_OF_MATH: dict[Any, str] = {
    function: f"{module.__name__}.{name}"
    for module in (math, cmath)
    for name, function in vars(module).items()
    if isinstance(function, _BUILT_IN)
}
_NAMES_OF_MATH = set(_OF_MATH.values())
_STORING = {"fill", "fromiter", "setitem", "__setitem__", "astype"}
_TAKING_TRUTH = {*_STORING, "nonzero", "count_nonzero", "array", "asarray", "asanyarray", "where", "put"}
"""NumPy functions that use the truth value of an object; logical ones return the object itself."""
_OPERATORS_OF_SPARSE = {"_matmul_dispatch", "_divide"}
"""SciPy functions that return NotImplemented for an operand that is a single object; others compute with objects."""
_OF_ARRAYS = ("shape", "ndim", "size", "dtype")
_MANY = 10_000
"""Size above which it would take too long to make an object of each element."""
_OF_SERIES = re.compile("(poly|cheb|leg|herm|herme|lag)(fit|roots)$")
"""The functions of `numpy.polynomial` that need floating-point numbers; the others also work on objects."""
_OF_SERIES_OPERATORS = re.compile(
    r"unsupported operand type.*: '(Polynomial|Chebyshev|Legendre|Laguerre|Hermite|HermiteE)' and "
)
_OF_OBJECTS = re.compile(
    r"object arrays|object dtype|dtype[= ]'?object|dtype\('O'\)|numpy\.object_|ObjectDType|loop of ufunc"
    "|not supported for the input types|real dtype|unsupported data types|proper array of floats"
    "|input type 'object'|(array|data) type not supported|not available for this type|Unsupported array type"
    "|No matching signature found|NPY_ITER_REFS_OK"
)
"""Error texts with which NumPy and SciPy refuse an array because of its object dtype."""


def _use(frame: FrameType) -> str:
    """Return the expression that runs in a frame, or one like it."""
    step = places.step_at(frame)
    if _is_storing(step):
        return "result[i] = x"
    if step.kind == "index":
        return "a[x]"
    if step.kind == "operator":
        return f"array {step.names[0]} x"
    return _source_of(frame) or (".".join(step.names) + "(" if step.kind == "call" else "")


_JOINS = {"np.r_[x, y]": np.r_, "np.c_[x, y]": np.c_}
"""Objects that join what they are indexed with."""


def _use_in_library(frame: FrameType) -> str:
    """Return the user's expression if a frame of NumPy or pandas shows it better than the user's frame."""
    owner = frame.f_locals.get("self")
    if places.is_file_of("pandas", frame.f_code.co_filename):
        is_window = os.path.basename(os.path.dirname(frame.f_code.co_filename)) == "window"
        return "rolling(" if is_window else "s.loc" if frame.f_code.co_name == "__setitem__" else "pd.Series(x)"
    if type(owner) is np.vectorize:
        return "vectorize(f, otypes=...)" if owner.otypes else "vectorize(f)"
    if frame.f_code.co_name == "as_strided":
        return "as_strided("
    return next((use for use, joined in _JOINS.items() if owner is joined), "")


def _source_of(frame: FrameType) -> str:
    """Return the source of the expression that runs in a frame, or its first line; "" if it is unknown."""
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0).encode()  # positions count bytes
    return source[start : stop if line == end else None].decode(errors="ignore")
