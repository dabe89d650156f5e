"""Objects of other libraries that override operations: labels, units, expressions.

    refused(x)             the error for one that does not accept tensors
    reflected_by(x, ...)   its result for an operator
    overridden(x, ...)     its result for a ufunc
    answered(x, ...)       its result for another NumPy function
    as_arguments(f, args)  plain numbers, for functions that its type does not override
    as_leaf(x)             the leaf of a container, as a transform takes it
    refuse_labelled(x)     raises where its numbers would become a tensor, without their labels

For operators and ufuncs such an object is not an array: its type defines what they mean (`__array_ufunc__`), or they
raise. For other NumPy functions it is one, unless its type defines otherwise (`__array_function__`). These are the
rules of NEP 13 and NEP 18, so a function has the same value as for plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import PARTNERS, changes_operations, collected, holds_tensors, refused_series
from fgrad.core.foreign import OBJECT, OVERRIDES, package_of
from fgrad.core.primitive import BOXES, UFUNCS
from fgrad.typing import Array, Operand

PLAIN_FORMS = {
    "astropy": "x.to_value(unit)",
    "pandas": "x.to_numpy()",
    "pint": "x.to(unit).magnitude",
    "polars": "x.to_numpy()",
    "unyt": "x.to_value(unit)",
    "xarray": "x.to_numpy()",
}
"""How to convert objects of a package to plain arrays, for messages."""


def refused(x: Operand, reason: str = "") -> errors.StructureError:
    """Return the error for an operand that overrides operations and does not accept tensors."""
    kind = type(x)
    return refused_series(x) or errors.StructureError(
        f"a tensor cannot be combined with this {kind.__name__} of {package_of(kind)}: "
        f"{reason or 'it does not take tensors as operands, and as a plain array it could have another meaning'}."
        f"\n  at {errors.users_line()}\n"
        f"Use its numbers, {_plain_form(kind)}, and put labels or units on the result."
    )


def _plain_form(kind: type) -> str:
    return PLAIN_FORMS.get(package_of(kind), "such as np.asarray(x)")


def reflected_by(x: Any, twin: str, ufunc: np.ufunc, tensor: Array) -> Any:
    """Return the result of an operator with a tensor on its left, by the right operand's own method.

    Args:
        x: the operand.
        twin: the name of the method.
        ufunc: the ufunc of the operator.
        tensor: the other operand; its value if it is not traced and `x` overrides ufuncs.

    Raises:
        StructureError: a TypeError; `x` does not accept tensors.
    """
    if type(tensor) not in BOXES:
        return ufunc(tensor, x)
    result = method(tensor) if (method := getattr(x, twin, None)) is not None else NotImplemented
    if result is not NotImplemented:
        return result
    if not OVERRIDES[type(x)] and hasattr(type(x), "__array__"):  # numbers, which leave operators to tensors
        return ufunc(tensor, np.asarray(x))
    if twin not in ("__eq__", "__ne__"):  # defined by Python for any two objects
        raise refused(x)
    return result


def overridden(x: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return the result of a ufunc that an operand overrides.

    Args:
        x: the operand.
        ufunc, method, keywords: as NumPy passes them.
        inputs: the inputs of the ufunc, with values in place of tensors that are not traced.

    Raises:
        StructureError: a TypeError; `x` does not accept tensors.
    """
    if not any(type(each) in BOXES for each in inputs):
        return getattr(ufunc, method)(*inputs, **keywords)
    if (compute := PARTNERS[type(x)]) is not None and method == "__call__" and not keywords and ufunc in UFUNCS:
        return compute(UFUNCS[ufunc], inputs)
    result = x.__array_ufunc__(ufunc, method, *inputs, **keywords)
    if result is NotImplemented:
        raise refused(x)
    return result


def answered(
    function: Callable[..., Any], types: Iterable[type], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """Return the result of a NumPy function that an argument overrides.

    Raises:
        StructureError: a TypeError; the argument does not accept tensors.
    """
    x = next((x for x in _arguments([*args, *keywords.values()]) if OVERRIDES[type(x)] and type(x) in types), None)
    if x is None:
        return NotImplemented  # NumPy calls it next
    result = x.__array_function__(function, types, args, keywords)
    if result is NotImplemented:
        raise refused(x)
    return result


def _arguments(args: Iterable[Any]) -> Iterable[Any]:
    """Yield arguments, and the elements of lists among them."""
    for x in args:
        if isinstance(x, (list, tuple)):
            yield from _arguments(x)
        else:
            yield x


def as_arguments(function: object, args: Iterable[Any]) -> tuple[Any, ...]:
    """Return the arguments of a NumPy function, with plain numbers for objects that do not override it."""
    if function is np.clip:  # a ufunc for everything but tensors
        return tuple(args)
    return tuple(np.asarray(x) if OVERRIDES[type(x)] else x for x in args)


def as_leaf(x: Any) -> Any:
    """Return a leaf of a container: an array of traced numbers as a tensor, an object with labels unchanged.

    Raises:
        StructureError: a TypeError; it has labels or a unit, and holds a traced tensor.
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
    if not held.shape and hasattr(type(x), "to_numpy"):  # a single number loses no labels
        return held
    kind = type(x)
    raise errors.StructureError(
        f"this {kind.__name__} of {package_of(kind)} holds a differentiated, batched or recorded value, and was passed "
        f"to a function of fgrad, or returned to one; these take tensors and arrays.\n  at {errors.users_line()}\n"
        f"Pass or return its numbers, {_plain_form(kind)}, and put labels or units on the result."
    )


def _held_by(x: Any) -> list[Any]:
    """Return the tensors, or the arrays, inside an object with labels or a unit."""
    kind = type(x)
    if package_of(kind) == "pandas":
        return [collected(np.asarray(x.to_numpy()))]
    if package_of(kind) == "xarray":
        variables = x.variables.values() if hasattr(x, "data_vars") else [getattr(x, "variable", x)]
        return [getattr(each, "_data", None) for each in variables]  # `data` would read a file
    return [getattr(x, "_magnitude", None)]


def refuse_masked(x: object) -> None:
    """Raise if a masked array or a matrix would become a tensor, which would lose its own meaning of the operations.

    Raises:
        StructureError: a TypeError.
    """
    if changes_operations(x):
        raise errors.StructureError(
            f"a {type(x).__name__} cannot be differentiated, batched or recorded: its own meaning of the operations "
            "would be lost.\nPass a plain array, np.asarray(x), or for a masked array x.filled(0) and the mask for "
            "np.where."
        )


def refuse_labelled(x: Any, dtypes: str = "biufc") -> None:
    """Raise if numbers with labels, a unit or a mask would become a tensor, which cannot keep them.

    Args:
        x: a leaf of an argument.
        dtypes: kinds of dtypes to check.

    Raises:
        StructureError: a TypeError; they have labels or a unit.
    """
    kind = type(x)
    refuse_masked(x)
    if not OVERRIDES[kind]:
        return
    dtype = np.asarray(x.to_numpy()).dtype if hasattr(kind, "to_numpy") else getattr(x, "dtype", None)
    if hasattr(x, "_magnitude") or (isinstance(dtype, np.dtype) and dtype.kind in dtypes):
        raise errors.StructureError(
            f"this {kind.__name__} of {package_of(kind)} cannot be differentiated, batched or recorded: in a tensor, "
            f"its labels or its unit would be lost.\n  at {errors.users_line()}\nPass its numbers, {_plain_form(kind)}."
        )
