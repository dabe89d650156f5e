"""What may lie in a tensor besides NumPy's arrays of numbers: arrays of other libraries, and of exact numbers.

    FOREIGN                     by a type, whether its arrays may lie in a tensor, and answer NumPy's functions there
    OVERRIDES                   by a type, whether it says itself what ufuncs and operators do with its objects
    Objects                     an array of objects that are numbers, such as fractions
    as_payload(x)               the array or number that a tensor may hold
    computed_by(primitive, ..)  the result of an operation on such arrays, or an error that names who refuses it
    reduced_by(ufunc, x, ...)   `ufunc.reduce`, which arrays of other libraries do not know
    in_memory(x)                a sparse array with all its elements, where the user asks for NumPy's
    is_at_hand(x)               whether values may be looked at: a lazy array would have to be computed

Of which libraries is declared, in `HELD`: of another type, nobody knows whether its arrays mean numbers, or labels and
units with them. Which types have a say of their own is in `OVERRIDES`; see `overrides.py`.

An array of another library is asked for nothing but its shape, its dtype and NumPy's functions. Its values may not be
there: they may be computed much later, and elsewhere. So what looks at values to save time goes the general way here.
What the library makes of sparse arrays may be plain, such as their product with a plain vector; of others it may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.shapes import broadcast_shapes

OBJECT = np.dtype(object)
"""The dtype of arrays of traced numbers, as `np.array([x, y])` makes them, and of exact ones."""

INEXACT = "fcO"
"""The kinds of dtypes that carry derivatives; objects are looked at when they become a tensor's."""


HELD: set[str] = {"dask", "sparse"}
"""Packages whose arrays are numbers and nothing else, in another form than NumPy's: tensors may hold them."""


class _Foreign(dict[type, bool]):
    """Knows of each type whether tensors may hold its objects: arrays that answer NumPy's functions."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = kind is Objects or _is_held(kind)
        return found


def _is_held(kind: type) -> bool:
    is_declared = any(base.__module__.partition(".")[0] in HELD for base in kind.__mro__)
    return is_declared and all(hasattr(kind, name) for name in ("__array_ufunc__", "__array_function__", "astype"))


FOREIGN = _Foreign()


class _Overrides(dict[type, bool]):
    """Knows of each type whether its objects say themselves what ufuncs and operators do with them, by NEP 13.

    https://numpy.org/neps/nep-0013-ufunc-overrides.html
    """

    def __missing__(self, kind: type) -> bool:
        override = getattr(kind, "__array_ufunc__", None)
        is_theirs = override is not None and override is not np.ndarray.__array_ufunc__
        found = self[kind] = is_theirs and kind not in BOXES and not FOREIGN[kind]
        return found


OVERRIDES = _Overrides()


class Objects(np.ndarray[Any, np.dtype[Any]]):
    """An array of numbers that are objects; one number, too, which NumPy would take out of its array."""

    @override
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        function = _exact_quotient if ufunc is np.true_divide and method == "__call__" else ufunc
        if "out" in keywords:
            keywords["out"] = tuple(map(_bare, keywords["out"]))
        return _as_results(getattr(function, method)(*map(_bare, inputs), **keywords), _NUMBERS)

    @override
    def __repr__(self) -> str:
        return repr(np.asarray(self))

    @override
    def __str__(self) -> str:
        return str(np.asarray(self)[()])

    @override
    def __getitem__(self, key: Any) -> Any:
        return as_objects(super().__getitem__(key))

    @override
    def __setitem__(self, key: Any, value: Any) -> None:  # an array of our own would be kept as an element
        super().__setitem__(key, np.asarray(value)[()] if isinstance(value, np.ndarray) else value)

    @override
    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        kinds = () if function in _FACTS else _NUMBERS
        return _as_results(super().__array_function__(function, types, args, keywords), kinds)

    @override
    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        return _as_results(np.asarray(self).astype(dtype, *args, **keywords), ())

    @override
    def dot(self, other: Any, out: Any = None) -> Any:
        return as_objects(super().dot(other))


def _bare(x: Any) -> Any:
    return np.asarray(x) if type(x) is Objects else x


_NUMBERS = (int, float, complex)
_FACTS = {np.shape, np.ndim, np.size, np.count_nonzero}
"""Functions whose integers are none of the elements."""


def _as_results(x: Any, kinds: tuple[type, ...]) -> Any:
    """Return what NumPy has made, with numbers that are objects, and others of some kinds, in arrays of our own."""
    if type(x) is tuple:
        return tuple(_as_results(each, kinds) for each in x)
    is_ours = getattr(x, "dtype", None) is OBJECT or type(x) in kinds or is_exact_number(x)
    return as_objects(x) if is_ours else x


def _quotient(x: Any, y: Any) -> Any:
    return Fraction(x, y) if type(x) is int is type(y) and y else x / y  # of two integers Python makes a float


_exact_quotient: Any = np.frompyfunc(_quotient, 2, 1)


def is_exact_number(x: Any) -> bool:
    """Return whether something is a number of a kind that NumPy keeps as an object, such as a fraction."""
    return isinstance(x, Number) and not isinstance(x, (int, float, complex, np.generic))


def as_objects(x: Any) -> Any:
    """Return an array of objects, or one of them, as an array of our own."""
    if not isinstance(x, np.ndarray):
        array = np.empty((), OBJECT)
        array[()] = x
        x = array
    return x.view(Objects)


def holds_numbers(x: Any) -> bool:
    """Return whether all elements of an array of objects are numbers, and no tensors."""
    return all(isinstance(element, Number) for element in np.asarray(x).flat)


def exact_numbers(x: Any) -> Any:
    """Return an exact number, or an array of objects that are all numbers, as an array of our own; None of all else."""
    if isinstance(x, np.ndarray):
        return as_objects(x) if x.dtype is OBJECT and holds_numbers(x) else None
    return as_objects(x) if is_exact_number(x) else None


def as_payload(x: Any) -> Any:
    """Return something as what a tensor may hold: an array of another library as it is, all else as NumPy has it."""
    if FOREIGN[type(x)] or (type(x) is np.ndarray and x.dtype is not OBJECT):
        return x
    if not hasattr(x, "dtype") and is_exact_number(x):
        return as_objects(x)
    array = np.asarray(x)
    return as_objects(array) if array.dtype is OBJECT and holds_numbers(array) else array


def own_payload(x: Any, dtype: Any = None) -> Any:
    """Return what a tensor of its own holds: a copy, which costs a lazy array nothing."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        known_shape(x)
        return x.copy() if dtype is None or x.dtype == dtype else x.astype(dtype)
    return as_payload(np.array(x, dtype))[()]


def in_memory(x: Any) -> Any:
    """Return an array for which NumPy's own was asked: of a sparse one, all its elements; all else is left to NumPy."""
    return x.todense() if is_sparse(x) else x


def is_at_hand(x: Any) -> bool:
    """Return whether an array or number is NumPy's, so that it costs little to look at its values."""
    return not FOREIGN[type(x)]


def library_of(x: Any) -> str:
    """Return what a message calls an array or tensor that is not NumPy's."""
    if type(x) is Objects:
        kinds = sorted({type(element).__name__ for element in x.flat} - {"int"})
        return f"an array of objects ({', '.join(kinds) or 'int'})"
    return f"an array of {type(x).__module__.partition('.')[0]}"


def known_shape(x: Any) -> None:
    """Refuse an array that does not know its shape, by which derivatives are brought into form.

    Raises:
        ShapeError: a ValueError; a size is unknown.
    """
    if any(math.isnan(size) for size in x.shape):
        raise errors.ShapeError(
            f"{library_of(x)} has the shape {x.shape}: a size is not known before it is computed, and a derivative "
            f"needs it.\n  at {errors.users_line()}\n"
            "Write x.compute_chunk_sizes() before, or choose with np.where(mask, x, 0) instead of x[mask]."
        )


LOOKING_AT_VALUES: set[str] = set()
"""By their names, operations that depend on values, or are done by what wants plain arrays: for them a lazy array would
be computed."""

ON_BLOCKS: list[Callable[..., Any]] = []
"""How libraries run elementwise functions that are not theirs: `each(function, args, metadata)`, or NotImplemented."""


def computed_by(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return the result of an operation on arrays of which some are not NumPy's.

    Raises:
        PayloadError: a TypeError; the library has no such operation, or would have computed its arrays for it.
    """
    foreign = [x for x in args if FOREIGN[type(x)]]
    for x in foreign:
        known_shape(x)
    if primitive.name in LOOKING_AT_VALUES and any(map(is_lazy, foreign)):
        raise refused(primitive, args, "it looks at values, for which they would have to be computed")
    try:
        result = _computed(primitive, args, metadata)
    except Exception as error:
        explain_refusal(primitive, args, error)
        raise
    several = type(result) is tuple
    payloads = [_payload_made(x) for x in (result if several else (result,))]
    for payload in payloads:
        if FOREIGN[type(payload)]:
            known_shape(payload)
        elif any(type(x) is not Objects and not is_sparse(x) for x in foreign):
            raise refused(primitive, args, "it has computed them")
        elif any(type(x) is Objects for x in foreign) and payload.dtype.kind in _FLOATS[primitive.kind == "conversion"]:
            raise refused(primitive, args, "it has made floating-point numbers of them")
    return tuple(payloads) if several else payloads[0]


def _payload_made(x: Any) -> Any:
    """Return what a library has made as what a tensor holds: one number of a sparse array is a plain one."""
    if _is_bare(x):
        return as_objects(x)
    return x if x.shape or not is_sparse(x) else x.todense()[()]


_FLOATS = ("fc", "c")
"""Kinds of dtypes that no exact numbers have, and those that a conversion does not make of them."""


def _computed(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    if primitive.is_elementwise and not primitive.is_ufunc:
        for on_blocks in ON_BLOCKS:
            if (result := on_blocks(primitive.implementation, args, metadata)) is not NotImplemented:
                return result
    return primitive.implementation(*args, **metadata)


def is_lazy(x: Any) -> bool:
    """Return whether an array is a plan to compute one, by dask's protocol for such."""
    return hasattr(type(x), "__dask_graph__")


def is_sparse(x: Any) -> bool:
    """Return whether an array keeps those elements alone that are not its fill value: one of the package sparse."""
    return hasattr(type(x), "todense") and hasattr(x, "fill_value")


def _is_bare(x: Any) -> bool:
    """Return whether a result is a number that NumPy has taken out of its array, or an array of such numbers."""
    return not hasattr(x, "dtype") or (x.dtype is OBJECT and type(x) is not Objects)


def explain_refusal(primitive: Primitive, args: Sequence[Any], error: Exception) -> None:
    """Raise an error that names the library and the operation, if the former has refused the latter.

    A ufunc is known to all libraries, and a ValueError of one is mostly about shapes; of other functions, it is about
    what of them is not there.
    """
    if isinstance(error, errors.FgradError) or not any(map(_library_in, args)):
        return
    is_shape = primitive.is_ufunc and isinstance(error, ValueError) and not _fit(primitive.implementation, args)
    if isinstance(error, _REFUSALS if is_shape else (*_REFUSALS, *_REFUSALS_OF_SOME)):
        raise refused(primitive, args, str(error)) from error


_REFUSALS: tuple[type[Exception], ...] = (TypeError, NotImplementedError, AttributeError, FutureWarning)
"""What libraries raise where they do not know a function; dask warns, which a filter may make an error."""

_REFUSALS_OF_SOME: tuple[type[Exception], ...] = (ValueError, IndexError, RuntimeError)
"""What they raise where they do not know it for these arrays, unless the shapes do not fit."""


def _fit(ufunc: Any, args: Sequence[Any]) -> bool:
    """Return whether NumPy has a result for arrays of such shapes; of a matrix product, each size as a small one."""
    shapes = [getattr(x, "shape", ()) for x in args]
    small = {size: place for place, size in enumerate(sorted({0, 1}.union(*shapes)))}
    try:
        if ufunc.signature is None:
            broadcast_shapes(*shapes)
        else:
            ufunc(*(np.ones([small[size] for size in shape]) for shape in shapes))
    except ValueError:
        return False
    except TypeError:  # a rule's arrays, which are not all of the product's
        return True
    return True


def _library_in(x: Any) -> str:
    """Return what a message calls an array, or what is in a tensor; nothing if it is NumPy's."""
    x = below(x)
    return library_of(x) if FOREIGN[type(x)] else ""


def refused(primitive: Primitive, args: Sequence[Any], reason: str) -> errors.PayloadError:
    """Return the error that says whose arrays do not know an operation, and why."""
    whose = next(filter(None, map(_library_in, args)))
    return errors.PayloadError(primitive.name.removesuffix("_guarded"), whose, errors.users_line(), reason)


def refuse_payloads(name: str, values: Iterable[Any], reason: str) -> None:
    """Raise if something does not work on arrays that are not NumPy's, and one of several values is one."""
    for whose in filter(None, map(_library_in, values)):
        raise errors.PayloadError(name, whose, errors.users_line(), reason)


def payload_of(x: Any) -> Any:
    """Return what a rule has computed as an array, where NumPy has taken a number out of its array of objects."""
    if type(x) is np.ndarray or type(x) in BOXES:  # as it mostly is
        return x
    if is_exact_number(x):
        return as_objects(x)
    return np.asarray(x)[()] if type(x) is float or type(x) is complex else x


_OF_ARRAYS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.fmax: np.nanmax,
    np.fmin: np.nanmin,
    np.logical_or: np.any,
    np.logical_and: np.all,
}
"""The functions that do what ufuncs do as `reduce`; other libraries answer these alone."""


def reduced_by(ufunc: np.ufunc, x: Any, **keywords: Any) -> Any:
    """Return `ufunc.reduce(x, **keywords)`, in the way that all arrays have."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        return _OF_ARRAYS[ufunc](x, **{"axis": 0, **keywords})
    return ufunc.reduce(x, **keywords)


def total(x: Any, **keywords: Any) -> Any:
    """Return `np.add.reduce(x, **keywords)`, in the way that all arrays have."""
    return _total(x, **keywords) if type(x) is np.ndarray else reduced_by(np.add, x, **keywords)


_total: Any = np.add.reduce


def accumulated_by(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    """Return `ufunc.accumulate(x, axis)`, in the way that all arrays have."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        return (np.cumsum if ufunc is np.add else np.cumprod)(x, axis=axis)
    return ufunc.accumulate(x, axis=axis)
