"""Payloads besides NumPy's arrays of numbers: arrays of other libraries, and arrays of exact numbers.

    FOREIGN                     by type, whether its arrays can be payloads and dispatch NumPy's functions
    OVERRIDES                   by type, whether it overrides ufuncs and operators
    Objects                     an array of objects that are numbers, such as fractions
    as_payload(x)               the array or number that a tensor may hold
    computed_by(primitive, ..)  the result of an operation on such arrays, or an error that names the library
    reduced_by(ufunc, x, ...)   `ufunc.reduce`, which arrays of other libraries lack
    in_memory(x)                a sparse array made dense, where the user requests NumPy's
    is_at_hand(x)               whether values can be read cheaply: a lazy array would have to be computed

The supported libraries are declared in `HELD`: for any other type it is unknown whether its arrays are plain numbers,
or carry labels and units. Types that override ufuncs are in `OVERRIDES`; see `overrides.py`.

Of an array of another library only its shape, its dtype and NumPy's functions are used. Its values may not exist yet:
they may be computed much later, and elsewhere. Code that reads values to save time therefore takes the general path for
them. Results of a library for sparse arrays may be plain, such as the product with a plain vector; those of other
foreign arrays may not.
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
from fgrad.typing import Array, Operand

OBJECT = np.dtype(object)
"""The dtype of arrays of traced numbers, such as `np.array([x, y])`, and of exact numbers."""

INEXACT = "fcO"
"""The kinds of dtypes that carry derivatives; object arrays are checked when they become payloads."""


HELD: set[str] = {"dask", "sparse"}
"""Packages whose arrays are plain numbers in another form than NumPy's: tensors may hold them."""


class _Foreign(dict[type, bool]):
    """By type, whether tensors may hold its objects: arrays that dispatch NumPy's functions."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = kind is Objects or _is_held(kind)
        return found


def _is_held(kind: type) -> bool:
    is_declared = any(package_of(base) in HELD for base in kind.__mro__)
    return is_declared and all(hasattr(kind, name) for name in ("__array_ufunc__", "__array_function__", "astype"))


def package_of(kind: type) -> str:
    """Return the name of the package of a class; empty if it has none."""
    return str(getattr(kind, "__module__", "")).partition(".")[0]  # a class that `exec` has made may have none


FOREIGN = _Foreign()


class _Overrides(dict[type, bool]):
    """By type, whether its objects override ufuncs and operators, by NEP 13.

    https://numpy.org/neps/nep-0013-ufunc-overrides.html
    """

    def __missing__(self, kind: type) -> bool:
        override = getattr(kind, "__array_ufunc__", None)
        is_theirs = override is not None and override is not np.ndarray.__array_ufunc__
        found = self[kind] = is_theirs and kind not in BOXES and not FOREIGN[kind]
        return found


OVERRIDES = _Overrides()


class Objects(np.ndarray[Any, np.dtype[Any]]):
    """An array of numbers that are objects; also of shape `()`, where NumPy would return the object itself."""

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
    def __setitem__(self, key: Any, value: Any) -> None:  # an `Objects` array would be stored as an element
        super().__setitem__(key, np.asarray(value)[()] if isinstance(value, np.ndarray) else value)

    @override
    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, keywords: Any) -> Any:
        kinds = () if function in _FACTS else _NUMBERS
        return _as_results(super().__array_function__(function, types, args, keywords), kinds)

    @override
    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        return _as_results(np.asarray(self).astype(dtype, *args, **keywords), ())

    @override
    def dot(self, other: Any, out: object = None) -> Any:
        return as_objects(super().dot(other))


def _bare(x: Objects) -> Array | Objects:
    return np.asarray(x) if type(x) is Objects else x


_NUMBERS = (int, float, complex)
_FACTS = {np.shape, np.ndim, np.size, np.count_nonzero}
"""Functions whose integer results are not elements."""


def _as_results(x: object, kinds: tuple[type, ...]) -> Any:
    """Return a result of NumPy with exact numbers, and numbers of the types `kinds`, as `Objects`."""
    if type(x) is tuple:
        return tuple(_as_results(each, kinds) for each in x)
    is_ours = getattr(x, "dtype", None) is OBJECT or type(x) in kinds or is_exact_number(x)
    return as_objects(x) if is_ours else x


def _quotient(x: Operand, y: Operand) -> Any:
    return Fraction(x, y) if type(x) is int is type(y) and y else x / y  # for two integers Python returns a float


_exact_quotient: Any = np.frompyfunc(_quotient, 2, 1)


def is_exact_number(x: object) -> bool:
    """Return whether `x` is a number that NumPy keeps as an object, such as a fraction."""
    return isinstance(x, Number) and not isinstance(x, (int, float, complex, np.generic))


def as_objects(x: object) -> Any:
    """Return an object array, or one object, as `Objects`."""
    if not isinstance(x, np.ndarray):
        array = np.empty((), OBJECT)
        array[()] = x
        x = array
    return x.view(Objects)


def holds_numbers(x: Operand) -> bool:
    """Return whether all elements of an object array are numbers, with no tensors among them."""
    return all(isinstance(element, Number) for element in np.asarray(x).flat)


def exact_numbers(x: Operand) -> Any:
    """Return an exact number, or an object array of numbers, as `Objects`; otherwise None."""
    if isinstance(x, np.ndarray):
        return as_objects(x) if x.dtype is OBJECT and holds_numbers(x) else None
    return as_objects(x) if is_exact_number(x) else None


def as_payload(x: Operand) -> Any:
    """Return `x` as a payload: arrays of other libraries unchanged, all other values as a NumPy array."""
    if FOREIGN[type(x)] or (type(x) is np.ndarray and x.dtype is not OBJECT):
        return x
    if not hasattr(x, "dtype") and is_exact_number(x):
        return as_objects(x)
    array = np.asarray(x)
    return as_objects(array) if array.dtype is OBJECT and holds_numbers(array) else array


def own_payload(x: Any, dtype: Any = None) -> Any:
    """Return the payload of a new tensor: a copy, which costs a lazy array nothing."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        known_shape(x)
        return x.copy() if dtype is None or x.dtype == dtype else x.astype(dtype)
    return as_payload(np.array(x, dtype))[()]


def in_memory(x: Any) -> Any:
    """Return a sparse array as a dense one, other values unchanged."""
    return x.todense() if is_sparse(x) else x


def is_at_hand(x: object) -> bool:
    """Return whether an array or number is NumPy's, so that reading its values is cheap."""
    return not FOREIGN[type(x)]


def library_of(x: Operand) -> str:
    """Return the name in messages for an array or tensor that is not NumPy's."""
    if type(x) is Objects:
        kinds = sorted({type(element).__name__ for element in x.flat} - {"int"})
        return f"an array of objects ({', '.join(kinds) or 'int'})"
    return f"an array of {type(x).__module__.partition('.')[0]}"


def known_shape(x: Objects) -> None:
    """Refuse an array with an unknown size: derivatives are converted to the shapes of their primals.

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
"""Names of operations that depend on values, or whose implementation needs plain arrays: a lazy array would have to be
computed for them."""

ON_BLOCKS: list[Callable[..., Any]] = []
"""How libraries run elementwise functions of others: `each(function, args, metadata)`, or NotImplemented."""


def computed_by(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    """Return the result of an operation on arrays of which some are not NumPy's.

    Raises:
        PayloadError: a TypeError; the library lacks the operation, or would have to compute its lazy arrays for it.
    """
    foreign = [x for x in args if FOREIGN[type(x)]]
    for x in foreign:
        known_shape(x)
    if primitive.name in LOOKING_AT_VALUES and any(map(is_lazy, foreign)):
        raise refused(primitive, args, "it depends on values, which would have to be computed")
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
    """Return a result of a library as a payload: a sparse array of shape `()` as a plain number."""
    if _is_bare(x):
        return as_objects(x)
    return x if x.shape or not is_sparse(x) else x.todense()[()]


_FLOATS = ("fc", "c")
"""Kinds of dtypes that exact numbers never have; in second place, those that a conversion must not return."""


def _computed(primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
    if primitive.is_elementwise and not primitive.is_ufunc:
        for on_blocks in ON_BLOCKS:
            if (result := on_blocks(primitive.implementation, args, metadata)) is not NotImplemented:
                return result
    return primitive.implementation(*args, **metadata)


def is_lazy(x: Operand) -> bool:
    """Return whether an array is lazy: a plan of a computation, by dask's protocol."""
    return hasattr(type(x), "__dask_graph__")


def is_sparse(x: object) -> bool:
    """Return whether an array is one of the package sparse: it stores elements that differ from the fill value."""
    return hasattr(type(x), "todense") and hasattr(x, "fill_value")


def _is_bare(x: object) -> bool:
    """Return whether a result is a number that NumPy has taken out of an object array, or an array of such numbers."""
    return not hasattr(x, "dtype") or (x.dtype is OBJECT and type(x) is not Objects)


def explain_refusal(primitive: Primitive, args: Sequence[Any], error: Exception) -> None:
    """Raise an error that names the library and the operation, if the library has refused the operation.

    All libraries implement ufuncs, so that a ValueError of one is mostly about shapes; for other functions it means
    that something is not supported.
    """
    if isinstance(error, errors.FgradError) or not any(map(_library_in, args)):
        return
    is_shape = primitive.is_ufunc and isinstance(error, ValueError) and not _fit(primitive.implementation, args)
    if isinstance(error, _REFUSALS if is_shape else (*_REFUSALS, *_REFUSALS_OF_SOME)):
        raise refused(primitive, args, str(error)) from error


_REFUSALS: tuple[type[Exception], ...] = (TypeError, NotImplementedError, AttributeError, FutureWarning)
"""Errors that libraries raise for unknown functions; dask warns, which a filter may turn into an error."""

_REFUSALS_OF_SOME: tuple[type[Exception], ...] = (ValueError, IndexError, RuntimeError)
"""Errors that libraries raise for unsupported arguments, unless the shapes do not match."""


def _fit(ufunc: Any, args: Sequence[Any]) -> bool:
    """Return whether shapes match for a ufunc; a matrix product is run on small arrays to find out."""
    shapes = [getattr(x, "shape", ()) for x in args]
    small = {size: place for place, size in enumerate(sorted({0, 1}.union(*shapes)))}
    try:
        if ufunc.signature is None:
            broadcast_shapes(*shapes)
        else:
            ufunc(*(np.ones([small[size] for size in shape]) for shape in shapes))
    except ValueError:
        return False
    except TypeError:  # the arrays of a rule, of which the product may have fewer
        return True
    return True


def _library_in(x: Any) -> str:
    """Return the name in messages of an array's library, or of a tensor's payload; "" if it is NumPy's."""
    x = below(x)
    return library_of(x) if FOREIGN[type(x)] else ""


def refused(primitive: Primitive, args: Sequence[Any], reason: str) -> errors.PayloadError:
    """Return the error that names the library without an operation, and the reason."""
    whose = next(filter(None, map(_library_in, args)))
    return errors.PayloadError(primitive.name.removesuffix("_guarded"), whose, errors.users_line(), reason)


def refuse_payloads(name: str, values: Iterable[Any], reason: str) -> None:
    """Raise an error with a reason if one of the values is an array that is not NumPy's."""
    for whose in filter(None, map(_library_in, values)):
        raise errors.PayloadError(name, whose, errors.users_line(), reason)


def payload_of(x: Any) -> Any:
    """Return a result of a rule as an array, where NumPy has taken a number out of an object array."""
    if type(x) is np.ndarray or type(x) in BOXES:  # common case
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
"""The functions that do what `ufunc.reduce` does; other libraries have only these."""


def reduced_by(ufunc: np.ufunc, x: Array, **keywords: Any) -> Any:
    """Return `ufunc.reduce(x, **keywords)`, for arrays of any library."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        return _OF_ARRAYS[ufunc](x, **{"axis": 0, **keywords})
    return ufunc.reduce(x, **keywords)


def total(x: Array, **keywords: object) -> Any:
    """Return `np.add.reduce(x, **keywords)`, for arrays of any library."""
    return _total(x, **keywords) if type(x) is np.ndarray else reduced_by(np.add, x, **keywords)


_total: Any = np.add.reduce


def accumulated_by(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    """Return `ufunc.accumulate(x, axis)`, for arrays of any library."""
    if FOREIGN[type(x)] and type(x) is not Objects:
        return (np.cumsum if ufunc is np.add else np.cumprod)(x, axis=axis)
    return ufunc.accumulate(x, axis=axis)
