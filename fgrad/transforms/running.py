"""How a function runs under a trace: shared by all transforms.

run(trace, function, arguments)    the results, as leaves, with an optional watch of variables, and aux
run_connected(...)                 the same, for a result to be differentiated
untraced(leaf)                     a result without the layers of traces that have ended
check_result(function, ran)        raises if the result cannot be differentiated
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import is_of_objects, overwritten
from fgrad.core.foreign import FOREIGN, OVERRIDES, is_exact_number
from fgrad.core.layers import is_undecided
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, box, boxed, own_handle, strip_ended
from fgrad.core.trace import Trace, running
from fgrad.core.tree import flatten, unflatten
from fgrad.core.variable import VariableWatch
from fgrad.errors.places import is_library
from fgrad.transforms.calls import name_of, place_name
from fgrad.transforms.cuts import DEPARTURES
from fgrad.typing import Array, Operand

_NOBODY = contextlib.nullcontext()


def run(
    trace: Trace,
    function: Callable[..., Any],
    arguments: Callable[[], tuple[Any, Any]],
    watch: VariableWatch | contextlib.AbstractContextManager[Any] = _NOBODY,
    has_aux: bool = False,
) -> tuple[Any, list[Any], Any, Any]:
    """Run a function under a trace.

    Args:
        trace: the trace.
        function: the user's function.
        arguments: returns the positional and keyword arguments, with tensors of the trace in them. It is called while
            the trace runs: the constructor of a user's container class may compute with tensors.
        watch: the watch of the variables that the trace follows.
        has_aux: the function returns a pair, of which the second item is returned unchanged.

    Returns:
        The result of the function; its leaves, with tensors freed of traces that have ended; their structure; and aux,
        or None.
    """
    try:
        with trace, watch:
            args, keywords = arguments()
            result = call_users(function, args, keywords)
            result, aux = _parted(function, result) if has_aux else (result, None)
            leaves, treedef = flatten(result)
            return result, [untraced(leaf, trace.level) for leaf in leaves], treedef, aux
    finally:
        trace.level = 0  # also if an interrupt prevented the block from closing


def run_connected(
    trace: Trace,
    function: Callable[..., Any],
    arguments: Callable[[], tuple[Any, Any]],
    watch: VariableWatch | contextlib.AbstractContextManager[Any] = _NOBODY,
    has_aux: bool = False,
) -> tuple[list[Any], Any, Any]:
    """Run a function under a trace, for a result to be differentiated.

    Args:
        trace, function, arguments, watch, has_aux: as for `run`.

    Returns:
        The leaves of the result, their structure, and aux, or None.

    Raises:
        NoResultError, OutputError: there is no result, or one that cannot be differentiated.
        DetachedError: values have left the trace, and the result is not connected to it.
    """
    result, leaves, treedef, aux = run(trace, function, arguments, watch, has_aux)
    check_result(function, result, leaves)
    if not any([type(leaf) is Tensor and leaf._trace is trace for leaf in leaves]):  # noqa: C419  # takes half the time
        check_detached(function, trace)
    return leaves, treedef, aux


def check_detached(function: Callable[..., Any], trace: Trace) -> None:
    """Raise if values left the trace before a result that is not connected to it."""
    # Truth values and indices do not count: control flow uses them.
    departures = [(how, place) for how, place in trace.exits if how in _DEPARTURES]
    if departures:
        lines = "".join(f"\n  {how} at {errors.line_at(place)}" for how, place in departures[:5])
        raise errors.DetachedError(
            f"{name_of(function)} returned a value that is not connected to its arguments, "
            f"because values left the trace:{lines}\n"
            "Compute with the tensors themselves: NumPy's functions accept them."
        )


_DEPARTURES = {*DEPARTURES, "storing it in a variable"}


def call_users(function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """Call a function; for a user's own function, transforms inside do not belong to the running one."""
    code = getattr(function, "__code__", None)
    if code is not None and is_library(code.co_filename):
        return function(*args, **keywords)
    before = running.call
    try:
        if code is not None:
            running.call = None if before is None else (None, None, before[2], before[3])
        return function(*args, **keywords)
    except TypeError as error:
        _explain_lists(error, function, args, keywords)
        raise
    finally:
        running.call = before


_EXPLAINED = "of tensors. For arithmetic on all of it pass an array, np.array(...), in its place."


def _explain_lists(error: TypeError, function: Callable[..., Any], args: Any, keywords: Any) -> None:
    """Add a note to a Python error that mentions a list: which arguments were lists of numbers."""
    if isinstance(error, errors.FgradError) or not re.search(r"\b(list|tuple)\b", str(error)):
        return
    if any(_EXPLAINED in note for note in getattr(error, "__notes__", ())):
        return  # the inner call has added it
    for place, argument in [*enumerate(args), *keywords.items()]:
        if isinstance(argument, (list, tuple)) and any(type(leaf) is Tensor for leaf in flatten(argument)[0]):
            kind = type(argument).__name__
            error.add_note(
                f"{name_of(function)} got a {kind} for {place_name(function, place)}, that is, a {kind} " + _EXPLAINED
            )


def untraced(leaf: Operand, level: float = math.inf) -> Any:
    """Return a result without the layers of traces that have ended; a tensor as a new object.

    Args:
        leaf: the result.
        level: the level of the trace that ends next. Tapes above it that are still open do not matter to the result.
    """
    if type(leaf) not in BOXES:
        return overwritten(leaf) if is_of_objects(leaf) else leaf
    value = strip_ended(leaf)
    while type(value) is Tensor and value._trace.level > level and not is_undecided(value._trace):
        value = strip_ended(value._payload)
    return own_handle(value) if type(value) is Tensor else boxed(value)


def owned(results: list[Any], given: Iterable[Any]) -> list[Any]:
    """Return results, copied where they share memory with the user's arguments, which the user may write to.

    Args:
        results: leaves; only tensors that are not traced are checked.
        given: leaves of the user's arguments.
    """
    for each in results:
        if type(each) is Tensor and type(each._payload) is np.ndarray:
            break
    else:  # only numbers; any() takes three times as long
        return results
    arrays = [leaf for leaf in given if type(leaf) is np.ndarray]
    return [_apart_from(each, arrays) for each in results] if arrays else results


def _apart_from(result: Array, arrays: list[Any]) -> Array:
    if type(result) is not Tensor or type(result._payload) is not np.ndarray:
        return result
    return box(result._payload.copy("K"), result._trace, result._mark) if _shares(result._payload, arrays) else result


def _shares(value: Any, arrays: list[Any]) -> bool:
    if value.base is None:  # a new array, or an argument itself: common, and ten times faster
        return any(array is value or array.base is value for array in arrays)
    return any(np.may_share_memory(value, array) for array in arrays)


def owned_tree(tree: object, given: Iterable[Any]) -> Any:
    """Return a container of results, such as aux, without ended traces and without the user's memory."""
    leaves, treedef = flatten(tree)
    return unflatten(treedef, owned([untraced(leaf) for leaf in leaves], given))


def _parted(function: Callable[..., Any], result: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a result and its aux as a pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise errors.OutputError(
            f"with has_aux=True {name_of(function)} must return a pair (result, aux), and it returned {result!r:.200}."
        )
    return result


def check_result(function: Callable[..., Any], result: Any, leaves: list[Any]) -> None:
    """Raise if a function returned nothing, or something that cannot be differentiated."""
    if result is None or not leaves:
        raise errors.NoResultError(
            f"Cannot differentiate a function that returns {result!r:.200}; "
            f"did you forget to return a value from {name_of(function)}?"
        )
    check_numbers(function, leaves)


def check_numbers(function: Callable[..., Any], leaves: list[Any]) -> None:
    """Raise if a function returned something that is not a number, array or tensor."""
    for leaf in leaves:
        if type(leaf) is not Tensor and not is_number(leaf):
            raise errors.OutputError(
                f"{name_of(function)} returned {leaf!r} of type {type(leaf).__name__}, which is not a "
                "number, array or tensor.\n"
                "Return the value to differentiate; return other results as aux, with has_aux=True."
            )


def is_number(leaf: object) -> bool:
    """Return whether a leaf is a number or an array of numbers, with a derivative or without."""
    if isinstance(leaf, (int, float, complex, np.ndarray, np.generic)) or type(leaf) in BOXES:
        return not OVERRIDES[type(leaf)]
    return FOREIGN[type(leaf)] or is_exact_number(leaf)


def is_array_of_others(leaf: object) -> bool:
    """Return whether a leaf is an array of a library whose arrays tensors do not hold, such as one of JAX."""
    return hasattr(type(leaf), "__array__") and hasattr(leaf, "dtype") and not is_number(leaf)
