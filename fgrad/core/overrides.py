"""Objects of other libraries with a meaning of their own: labels, units, expressions.

    refused(x)             the error for one that does not take tensors
    reflected_by(x, ...)   what it makes of an operator, in its turn
    overridden(x, ...)     what it makes of a ufunc
    answered(x, ...)       what it makes of another function of NumPy's
    as_arguments(f, args)  its numbers alone, for functions that its type does not answer
    as_leaf(x)             what a transform sees in place of a leaf of a container
    refuse_labelled(x)     raises where its numbers would become a tensor, without their labels

To operators and ufuncs such an object is no array: its type says what they mean (`__array_ufunc__`), or they raise. To
other functions of NumPy it is one, if its type does not say otherwise (`__array_function__`). That is what NEP 13 and
NEP 18 have, so that a function has the value that it has for plain arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import PARTNERS, collected, holds_tensors
from fgrad.core.foreign import OBJECT, OVERRIDES
from fgrad.core.primitive import BOXES, UFUNCS

PLAIN_FORMS = {
    "astropy": "x.to_value(unit)",
    "pandas": "x.to_numpy()",
    "pint": "x.to(unit).magnitude",
    "polars": "x.to_numpy()",
    "unyt": "x.to_value(unit)",
    "xarray": "x.to_numpy()",
}
"""How objects of a package become plain arrays, as messages say it."""


def refused(x: Any, reason: str = "") -> errors.StructureError:
    """Return the error for an operand with a meaning of its own that does not take tensors."""
    kind = type(x)
    return errors.StructureError(
        f"a tensor cannot be combined with this {kind.__name__} of {_package(kind)}: "
        f"{reason or 'it does not take tensors as operands, and as a plain array it could have another meaning'}."
        f"\n  at {errors.users_line()}\n"
        f"Use its numbers, {_plain_form(kind)}, and put labels or units on the result."
    )


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _plain_form(kind: type) -> str:
    return PLAIN_FORMS.get(_package(kind), "such as np.asarray(x)")


def reflected_by(x: Any, twin: str, ufunc: np.ufunc, tensor: Any) -> Any:
    """Return what an operand makes of an operator with a tensor on its left, by its own method.

    Args:
        x: the operand.
        twin: the name of the method.
        ufunc: what the operator is of arrays.
        tensor: the other operand; or its value where no trace follows it and `x` says what ufuncs do with that.

    Raises:
        StructureError: a TypeError; it does not take tensors.
    """
    if type(tensor) not in BOXES:
        return ufunc(tensor, x)
    result = method(tensor) if (method := getattr(x, twin, None)) is not None else NotImplemented
    if result is NotImplemented and twin not in ("__eq__", "__ne__"):  # which Python knows of any two objects
        raise refused(x)
    return result


def overridden(x: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return what an operand makes of a ufunc that says itself what ufuncs do with it.

    Args:
        x: the operand.
        ufunc, method, keywords: as NumPy passes them.
        inputs: those of the ufunc, with values in place of tensors that no trace follows.

    Raises:
        StructureError: a TypeError; it does not take tensors.
    """
    if not any(type(each) in BOXES for each in inputs):
        return getattr(ufunc, method)(*inputs, **keywords)
    if (compute := PARTNERS[type(x)]) is not None and method == "__call__" and not keywords and ufunc in UFUNCS:
        return compute(UFUNCS[ufunc], inputs)
    result = x.__array_ufunc__(ufunc, method, *inputs, **keywords)
    if result is NotImplemented:
        raise refused(x)
    return result


def answered(function: Any, types: Iterable[type], args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return what an argument makes of a function of NumPy's that says itself what functions do with it.

    Raises:
        StructureError: a TypeError; it does not take tensors.
    """
    x = next((x for x in _arguments([*args, *keywords.values()]) if OVERRIDES[type(x)] and type(x) in types), None)
    if x is None:
        return NotImplemented  # to NumPy, which asks it next
    result = x.__array_function__(function, types, args, keywords)
    if result is NotImplemented:
        raise refused(x)
    return result


def _arguments(args: Iterable[Any]) -> Iterable[Any]:
    """Yield arguments, and what is in lists of them."""
    for x in args:
        if isinstance(x, (list, tuple)):
            yield from _arguments(x)
        else:
            yield x


def as_arguments(function: Any, args: Iterable[Any]) -> tuple[Any, ...]:
    """Return arguments of a function of NumPy's, which takes the numbers alone of what does not answer it."""
    if function is np.clip:  # which is a ufunc on all but tensors
        return tuple(args)
    return tuple(np.asarray(x) if OVERRIDES[type(x)] else x for x in args)


def as_leaf(x: Any) -> Any:
    """Return a leaf of a container; an array of traced numbers as a tensor, and an object with labels as it is.

    Raises:
        StructureError: a TypeError; it has labels or a unit, and holds what a trace follows.
    """
    if OVERRIDES[type(x)]:
        return _as_labelled_leaf(x)
    if hasattr(type(x), "to_numpy"):
        array = np.asarray(x.to_numpy())
        return array if array.dtype.kind in "biufc" else x
    if isinstance(x, np.ndarray) and x.dtype is OBJECT and type(x) is not np.ndarray and holds_tensors(x.tolist()):
        raise errors.ObjectArrayError(f"a {type(x).__name__}", errors.users_line(), "")
    return collected(x)


def _as_labelled_leaf(x: Any) -> Any:
    held = next((each for each in _held_by(x) if type(each) in BOXES and each._trace.level), None)
    if held is None:
        return x
    if not held.shape and hasattr(type(x), "to_numpy"):  # of one number, labels say nothing
        return held
    kind = type(x)
    raise errors.StructureError(
        f"this {kind.__name__} of {_package(kind)} holds what is differentiated, batched or recorded, and was passed "
        f"to a function of fgrad's, or returned to it; these take tensors and arrays.\n  at {errors.users_line()}\n"
        f"Pass or return its numbers, {_plain_form(kind)}, and put labels or units on the result."
    )


def _held_by(x: Any) -> list[Any]:
    """Return the tensors in an object with labels or a unit, or the arrays in their place."""
    kind = type(x)
    if _package(kind) == "pandas":
        return [collected(np.asarray(x.to_numpy()))]
    if _package(kind) == "xarray":
        variables = x.variables.values() if hasattr(x, "data_vars") else [getattr(x, "variable", x)]
        return [getattr(each, "_data", None) for each in variables]  # `data` would read what is in a file
    return [getattr(x, "_magnitude", None)]


def refuse_labelled(x: Any, dtypes: str = "biufc") -> None:
    """Raise if numbers are to become a tensor that have labels or a unit, which the tensor would not have.

    Args:
        x: a leaf of an argument.
        dtypes: kinds of dtypes of the numbers in question.

    Raises:
        StructureError: a TypeError; they have.
    """
    kind = type(x)
    if not OVERRIDES[kind]:
        return
    dtype = np.asarray(x.to_numpy()).dtype if hasattr(kind, "to_numpy") else getattr(x, "dtype", None)
    if hasattr(x, "_magnitude") or (isinstance(dtype, np.dtype) and dtype.kind in dtypes):
        raise errors.StructureError(
            f"this {kind.__name__} of {_package(kind)} cannot be differentiated, batched or recorded: in a tensor, its "
            f"labels or its unit would be lost.\n  at {errors.users_line()}\nPass its numbers, {_plain_form(kind)}."
        )
