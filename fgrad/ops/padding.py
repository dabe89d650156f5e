"""`np.pad` in all its modes: along one axis after the other, as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype, copy, in_c_or_f_order
from fgrad.ops.families import answers
from fgrad.ops.indexing import cut, scatter_add, setitem, values_of
from fgrad.typing import Array, Operand

Widths = tuple[int, int]


@answers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Pad an array with elements before and after it along its axes.

    In the modes `mean`, `median`, `maximum` and `minimum` integers are rounded as in NumPy. A
    function as mode fills the ends of each vector, which it receives as a tensor.
    """
    given = array = as_array(array)
    if isinstance(pad_width, dict):
        named: Any = [pad_width.get(axis, pad_width.get(axis - array.ndim, 0)) for axis in range(array.ndim)]
        pad_width = [tuple(each) if np.ndim(each) else (each, each) for each in named]
    pad_width = values_of(pad_width, "the width of np.pad")
    if not callable(mode):
        plain = {name: _placeholder(name, value) for name, value in kwargs.items()}
        np.pad(np.ones(array.shape, np.int8), pad_width, mode, **plain)  # NumPy's checks and messages
    widths = [tuple(map(int, pair)) for pair in np.broadcast_to(pad_width, (array.ndim, 2))]
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    pad_axis = _MODES[mode]
    settings = {name: _by_axis(value, array.ndim) for name, value in kwargs.items() if name != "reflect_type"}
    for axis, (before, after) in enumerate(widths):
        if before or after:
            own = {name: values[axis] for name, values in settings.items()}
            if kwargs.get("reflect_type") == "odd":
                array = _oddly_reflected(array, axis, (before, after), mode)
            else:
                array = pad_axis(array, axis, (before, after), **own)
    return copy(array) if array is given else in_c_or_f_order(array, given)


def _placeholder(name: str, value: Any) -> Any:
    """Return a placeholder with the shape of a value for NumPy's checks."""
    return np.zeros(np.shape(as_array(value)), np.int8) if name in ("constant_values", "end_values") else value


def _by_axis(value: Operand, ndim: int) -> list[Any]:
    """Return a setting as one pair per axis: before and after."""
    if value is None:
        return [(None, None)] * ndim
    value = np.broadcast_to(as_array(value), (ndim, 2))
    return [(value[axis, 0], value[axis, 1]) for axis in range(ndim)]


def _ends(array: Array, axis: int) -> tuple[Any, Any]:
    """Return the first and the last slice along an axis."""
    return cut(array, axis, 0, 1), cut(array, axis, -1, None)


def _between(array: Array, axis: int, widths: Widths, before: Operand, after: Operand) -> Array:
    """Join an array with end slices repeated to the pad widths."""

    def spread(part: Operand, width: int) -> Any:
        shape = (*array.shape[:axis], width, *array.shape[axis + 1 :])
        return np.broadcast_to(astype(as_array(part), array.dtype), shape)

    return np.concatenate([spread(before, widths[0]), array, spread(after, widths[1])], axis)


def _constant(array: Array, axis: int, widths: Widths, constant_values: tuple[Any, ...] = (0, 0)) -> Any:
    return _between(array, axis, widths, *constant_values)


def _edge(array: Array, axis: int, widths: Widths) -> Any:
    return _between(array, axis, widths, *_ends(array, axis))


def _linear_ramp(array: Any, axis: int, widths: Widths, end_values: Any = (0, 0)) -> Array:
    first, last = _ends(array, axis)
    shape = tuple(-1 if i == axis else 1 for i in range(array.ndim))

    def ramp(end: Any, edge: Any, width: int) -> Any:
        steps = np.reshape(np.arange(width), shape)
        exact = end + (edge - end) / max(width, 1) * steps
        return astype(np.floor(exact) if array.dtype.kind in "iu" else exact, array.dtype)

    before, after = ramp(end_values[0], first, widths[0]), ramp(end_values[1], last, widths[1])
    return np.concatenate([before, array, cut(after, axis, None, None, -1)], axis)


def _statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the padding with a statistic of the elements nearest to each end."""

    def pad_axis(array: Any, axis: int, widths: Widths, stat_length: Any = (None, None)) -> Any:
        size = array.shape[axis]
        near, far = (size if length is None else min(int(length), size) for length in stat_length)
        before = function(cut(array, axis, 0, near), axis=axis, keepdims=True)
        after = function(cut(array, axis, size - far, None), axis=axis, keepdims=True)
        if array.dtype.kind in "iu":
            before, after = np.rint(before), np.rint(after)
        return _between(array, axis, widths, before, after)

    return pad_axis


def _by_index(mode: Any) -> Callable[..., Any]:
    """Return a padding with copies of elements of the array, whose indices come from NumPy."""

    def pad_axis(array: Array, axis: int, widths: Widths) -> Any:
        return np.take(array, np.pad(np.arange(array.shape[axis]), widths, mode), axis)

    return pad_axis


def _oddly_reflected(array: Array, axis: int, widths: Widths, mode: Any) -> Any:
    """Pad with the odd reflection: 2 * end - element.

    Each element of the result is sign * x[i] + a * x[0] + b * x[-1]. The coefficients follow from NumPy's padding
    of three vectors: 0, 1, 2, ... with odd and even reflection, and a vector that is 0 at both ends.
    Since constants are padded with themselves, sign + a + b = 1.
    """
    last = array.shape[axis] - 1
    if last == 0:
        return _edge(array, axis, widths)
    line = np.arange(last + 1)
    index = np.pad(line, widths, mode)
    arch, turned = (np.pad(x, widths, mode, reflect_type="odd") for x in (line * (last - line), line))
    sign = np.where(arch < 0, -1, 1)
    b = (turned - sign * index) // last
    shape = tuple(-1 if i == axis else 1 for i in range(array.ndim))
    sign, b = (astype(x.reshape(shape), np.result_type(np.int8, array.dtype)) for x in (sign, b))
    first, end = _ends(array, axis)
    ends = _part(1 - sign - b, first) + _part(b, end)
    return astype(sign * np.take(array, index, axis) + ends, array.dtype)


def _part(share: Array, end: Array) -> Array:
    """Return a multiple of an end element; 0 times an infinite end is 0."""
    return np.where(share == 0, 0, share * end)


def _by_function(array: Any, widths: Any, function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    """Let a user-defined function fill the ends of each vector along each axis."""
    inner = tuple(slice(before, before + size) for (before, _), size in zip(widths, array.shape, strict=True))
    shape = tuple(before + size + after for (before, after), size in zip(widths, array.shape, strict=True))
    result = scatter_add(array, inner, shape)
    for axis, pair in enumerate(widths):
        moved = np.moveaxis(result, axis, -1)
        for place in np.ndindex(*moved.shape[:-1]):
            vector = moved[place]
            function(vector, pair, axis, keywords)
            moved = setitem(moved, place, vector)
        result = np.moveaxis(moved, -1, axis)
    return result


_MODES: dict[str, Callable[..., Any]] = {
    "constant": _constant,
    "empty": _constant,
    "edge": _edge,
    "linear_ramp": _linear_ramp,
    "maximum": _statistic(np.max),
    "minimum": _statistic(np.min),
    "mean": _statistic(np.mean),
    "median": _statistic(np.median),
    "reflect": _by_index("reflect"),
    "symmetric": _by_index("symmetric"),
    "wrap": _by_index("wrap"),
}
