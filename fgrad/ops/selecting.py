"""Selection of elements by conditions and indices, in-place writes, and functions applied to slices.

Functions that write into their first argument (`np.put`, `np.fill_diagonal`, ...) make the handle of a tensor
refer to another value, as `x[i] = v` does. A traced tensor cannot be written into a plain array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import strip_ended
from fgrad.core.tree import flatten, unflatten
from fgrad.ops.elementwise import astype, in_c_order
from fgrad.ops.families import answers, plain_axis, reduced_axis
from fgrad.ops.indexing import getitem, setitem, to_write, traced, values_of, written
from fgrad.ops.rearranging import axis_index
from fgrad.ops.selected import is_open
from fgrad.ops.shaping import promoted, reshape, unstack
from fgrad.typing import Array, ArrayLike, Operand

# Selection


@answers(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: object = 0) -> Any:
    """Choose from the first array whose condition holds; elements that are not chosen contribute exactly 0."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [as_array(each) for each in condlist]
    for place, condition in enumerate(conditions):
        if condition.dtype.kind != "b":
            raise TypeError(f"invalid entry {place} in condlist: should be boolean ndarray")
    # Python numbers adapt to the dtype of the others, which may truncate them.
    dtype = np.result_type(*map(promoted, [*choicelist, default]))
    *arrays, default = map(as_array, (*choicelist, default))
    for each in arrays:
        if not np.can_cast(each.dtype, dtype, "same_kind"):  # a Python integer among unsigned ones; not so the default
            raise TypeError(
                f"Cannot cast array data from {each.dtype!r} to {dtype!r} according to the rule 'same_kind'"
            )
    *choices, result = (astype(x, dtype, copy=False) for x in (*arrays, default))
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = np.where(condition, choice, result)
    return in_c_order(result)


@answers(np.choose)
def choose(a: ArrayLike, choices: Any, out: Array | None = None, mode: str = "raise") -> Any:
    """Choose each element from the array with the given index."""
    a = as_array(a)
    choices = unstack(choices) if hasattr(choices, "ndim") else list(choices)
    dtype, count = np.result_type(*map(promoted, choices)), len(choices)
    number, *arrays = np.broadcast_arrays(a, *(astype(as_array(x), dtype) for x in choices))
    if mode == "wrap":
        number = np.remainder(number, count)
    elif mode == "clip":
        number = np.clip(number, 0, count - 1)
    elif not traced(a) and a.size and not 0 <= np.min(a) <= np.max(a) < count:
        raise ValueError("invalid entry in choice array")
    else:
        number = np.where(number < 0, count, number)  # out of range, rather than an index from the end
    chosen = take_along_axis(np.stack(arrays), np.expand_dims(number, 0), 0)
    return written("np.choose", out, in_c_order(chosen[0]))


@answers(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: object, **kw: object) -> Any:
    """Compute each element by the function, or take the number, of the last condition that holds.

    A function receives the elements where its condition holds. Under `vmap` and while recording these are unknown, so
    it receives all elements; the excluded ones still contribute exactly 0.
    """
    x, functions = as_array(x), list(funclist)
    conditions = _conditions(condlist, x)
    if len(functions) == len(conditions) + 1:
        otherwise = np.logical_not(np.logical_or.reduce(np.stack(conditions)))
        conditions.append(otherwise)
    elif len(functions) != len(conditions):
        count = len(conditions)
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are expected")
    result: Any = np.zeros_like(x)
    for condition, function in zip(conditions, functions, strict=True):
        if not callable(function):
            result = np.where(condition, astype(to_write(function, x.dtype), x.dtype), result)
            continue
        if is_open(condition):
            result = np.where(condition, astype(as_array(function(x, *args, **kw)), x.dtype), result)
        elif (chosen := getitem(x, condition)).size:
            result = setitem(result, condition, astype(as_array(function(chosen, *args, **kw)), x.dtype))
    return result


def _conditions(condlist: ArrayLike, x: Array) -> list[Any]:
    """Return a list of conditions; a single condition is wrapped."""
    first = condlist[0] if isinstance(condlist, (list, tuple)) else None
    if isinstance(condlist, (list, tuple)) and not np.isscalar(first):
        several = [as_array(each) for each in condlist]
        if x.ndim == 0 or several[0].ndim > 0:
            return [astype(each, bool) for each in several]
        return [astype(np.stack(several), bool)]
    condition = astype(as_array(condlist), bool)
    return list(unstack(condition)) if condition.ndim > x.ndim else [condition]


@answers(np.compress)
def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Array | None = None) -> Any:
    """Return the slices along an axis where a condition holds; this needs its values."""
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    return written("np.compress", out, np.take(as_array(a), np.flatnonzero(values_of(condition, "np.compress")), axis))


@answers(np.extract)
def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """Return the elements where a condition holds."""
    if is_open(condition):
        return getitem(np.ravel(as_array(arr)), np.ravel(astype(condition, np.bool_)))  # type: ignore[no-any-return]
    return np.take(np.ravel(as_array(arr)), np.flatnonzero(values_of(condition, "np.extract")))


@answers(np.argwhere)
def argwhere(a: ArrayLike) -> Any:
    """Return the indices of nonzero elements; this needs concrete values."""
    return np.argwhere(values_of(a, "np.argwhere"))


@answers(np.flatnonzero)
def flatnonzero(a: ArrayLike) -> Any:
    """Return the flat indices of nonzero elements; this needs concrete values."""
    return np.flatnonzero(values_of(a, "np.flatnonzero"))


@answers(np.take)
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Array | None = None, mode: str = "raise"
) -> Any:
    """Return the elements at integer indices along an axis, by default of the flattened array."""
    a, indices = as_array(a), as_array(indices)
    axis = reduced_axis(axis, a)
    if axis is None:
        a, axis = np.ravel(a), 0
    if mode == "wrap":
        indices = np.remainder(indices, a.shape[axis])
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    axis = axis_index(plain_axis(axis), a.ndim)
    return written("np.take", out, in_c_order(getitem(a, (slice(None),) * axis + (indices,))))


def _along_axis(x: Array, indices: Array, axis: int) -> tuple[Any, ...]:
    """Return a key of the indices along one axis and matching indices along all others."""
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if indices.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    places = [
        np.reshape(np.arange(size), tuple(-1 if i == each else 1 for i in range(x.ndim)))
        for each, size in enumerate(x.shape)
    ]
    return (*places[:axis], indices, *places[axis + 1 :])


@answers(np.take_along_axis)
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Any:
    """Return the elements at indices along an axis, such as the result of `argsort`."""
    arr, indices = as_array(arr), as_array(indices)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    return getitem(arr, _along_axis(arr, indices, axis_index(plain_axis(axis), arr.ndim)))


# Writing in place


def _in_place(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that writes into its first argument from one that computes the new value."""

    def enter(new_value: Callable[..., Any]) -> Callable[..., Any]:
        @answers(function)
        def write(x: Any, *args: object, **keywords: object) -> None:
            if type(x) in BOXES:
                x[...] = new_value(x, *args, **keywords)
                return
            leaves, treedef = flatten((args, keywords))
            if traced(*leaves):
                raise errors.InPlaceError(f"np.{function.__name__}", errors.users_line())
            args, keywords = unflatten(treedef, [strip_ended(leaf) for leaf in leaves])
            function(x, *args, **keywords)

        return new_value

    return enter


def _wherever(x: Array, places: Any, values: Any) -> Any:
    """Return `x` with values at flat indices; values are repeated if there are too few."""
    values = np.ravel(to_write(values, x.dtype))
    if places.size and values.size:
        x = reshape(setitem(np.ravel(x), places, np.resize(values, places.size)), x.shape)
    return x


@_in_place(np.put)
def put(a: Array, ind: Any, v: Operand, mode: Any = "raise") -> Any:
    """Set the elements at indices into the flattened tensor."""
    places = np.ravel(values_of(ind, "np.put"))
    if not a.size:
        np.put(np.zeros(0), places, 0, mode)  # NumPy's message
    if mode != "raise":
        places = places % a.size if mode == "wrap" else np.clip(places, 0, a.size - 1)
    return _wherever(a, places, v)


@_in_place(np.place)
def place(arr: Any, mask: Any, vals: Any) -> Any:
    """Set the elements where a mask holds to consecutive values, repeated if there are too few."""
    if is_open(mask) and np.size(vals) == 1:
        return np.where(np.reshape(astype(mask, np.bool_), arr.shape), to_write(np.reshape(vals, ()), arr.dtype), arr)
    mask = values_of(mask, "np.place")
    np.place(np.zeros(arr.shape), mask, np.zeros(np.size(vals)))  # NumPy's checks and messages
    return _wherever(arr, np.flatnonzero(mask), vals)


@_in_place(np.putmask)
def putmask(a: Array, mask: Any, values: Any) -> Any:
    """Set the elements where a mask holds to those at the same positions of the repeated values."""
    values = to_write(values, a.dtype)
    if not values.size:
        return a
    if tuple(values.shape) != tuple(a.shape):
        values = np.resize(values, a.shape)
    return np.where(mask, astype(values, a.dtype), a)


@_in_place(np.put_along_axis)
def put_along_axis(arr: Any, indices: ArrayLike, values: Any, axis: int | None) -> Any:
    """Set the elements at indices along an axis."""
    indices = as_array(indices)
    if axis is None:
        return reshape(setitem(np.ravel(arr), _along_axis(np.ravel(arr), indices, 0), values), arr.shape)
    return setitem(arr, _along_axis(arr, indices, axis_index(plain_axis(axis), arr.ndim)), values)


@_in_place(np.fill_diagonal)
def fill_diagonal(a: Array, val: object, wrap: bool = False) -> Any:
    """Set the diagonal; with `wrap`, it starts again below in a tall matrix."""
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    step = 1 + sum(prod_of(a.shape[i + 1 :]) for i in range(a.ndim - 1))
    stop = a.shape[1] * a.shape[1] if a.ndim == 2 and not wrap else a.size
    return _wherever(a, np.arange(a.size)[:stop:step], val)


# Functions applied to slices


@answers(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a function to every one-dimensional slice along an axis."""
    arr = as_array(arr)
    axis = axis_index(plain_axis(axis), arr.ndim)
    free = (*arr.shape[:axis], *arr.shape[axis + 1 :])
    if 0 in free:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    slices = unstack(reshape(np.moveaxis(arr, axis, -1), (math.prod(free), arr.shape[axis])))
    results = np.stack([as_array(func1d(each, *args, **kwargs)) for each in slices])
    several = results.ndim - 1
    results = reshape(results, (*free, *results.shape[1:]))
    ndim = len(free)
    return np.moveaxis(results, range(ndim, ndim + several), range(axis, axis + several))


@answers(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Any) -> Any:
    """Apply a function of an array and an axis to one axis after the other; removed axes are put back."""
    result = as_array(a)
    ndim = result.ndim
    for axis in np.atleast_1d(values_of(axes, "np.apply_over_axes")).tolist():
        axis = axis % ndim if axis < 0 else axis
        changed = func(result, axis)
        if changed.ndim != ndim:
            changed = np.expand_dims(changed, axis)
            if changed.ndim != ndim:
                raise ValueError("function is not returning an array of the correct shape")
        result = changed
    return result


# Operations that need concrete integers or booleans, or no values


def _by_values(function: Callable[..., Any]) -> None:
    """Make an operation on concrete values from a function of integers or booleans, or one that stores or shows."""

    @answers(function)
    def answer(*args: object, **keywords: object) -> Any:
        leaves, treedef = flatten((args, keywords))
        name = f"np.{function.__name__}"
        leaves = [values_of(leaf, name)[()] if type(leaf) in BOXES else leaf for leaf in leaves]
        args, keywords = unflatten(treedef, leaves)
        return function(*args, **keywords)


_function: Any
for _function in (
    np.ravel_multi_index, np.unravel_index, np.packbits, np.unpackbits,
    np.save, np.savetxt, np.savez, np.savez_compressed,
):  # fmt: skip
    _by_values(_function)


@answers(np.array_repr)
def array_repr(arr: object, *args: object, **keywords: object) -> str:
    """Return the text representation of the tensor."""
    return repr(arr)


def _as_text(function: Callable[..., Any]) -> None:
    @answers(function)
    def answer(a: Any, *args: object, **keywords: object) -> str:
        return function(a._shown(), *args, **keywords)  # type: ignore[no-any-return]


for _function in (np.array_str, np.array2string):
    _as_text(_function)
