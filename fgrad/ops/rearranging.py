"""Operations that flip, shift, repeat, remove and insert elements: `flip`, `roll`, `tile`, `insert`, `diag` ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.core.views import VIEWS, view
from fgrad.ops.batching import along_axis_batch, trailing_batch
from fgrad.ops.elementwise import astype, in_c_or_f_order
from fgrad.ops.elementwise import copy as copy_of
from fgrad.ops.families import answers, linear, plain_axis, reduced_axis, sample
from fgrad.ops.indexing import scatter_add, to_write, traced, values_of, written
from fgrad.ops.patterns import moved
from fgrad.ops.shaping import concatenate, reshape, transpose
from fgrad.typing import Array, ArrayLike, Axes, DTypeLike

axis_index = np.lib.array_utils.normalize_axis_index
axis_indices = np.lib.array_utils.normalize_axis_tuple


# Flipping and shifting


@answers(np.flip)
def flip(m: ArrayLike, axis: Axes = None) -> Any:
    """Reverse the order of the elements along axes, by default along all."""
    m = as_array(m)
    axes = range(m.ndim) if axis is None else axis_indices(plain_axis(axis), m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


@answers(np.flipud)
def flipud(m: ArrayLike) -> Any:
    """Reverse the order along the first axis."""
    m = as_array(m)
    if m.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


@answers(np.fliplr)
def fliplr(m: ArrayLike) -> Any:
    """Reverse the order along the second axis."""
    m = as_array(m)
    if m.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@answers(np.rot90)
def rot90(m: ArrayLike, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotate by quarter turns in the plane of two axes."""
    m = as_array(m)
    np.rot90(np.broadcast_to(0, m.shape), k, axes)  # NumPy's checks and messages
    first, second = (axis % m.ndim for axis in plain_axis(axes))
    turns = k % 4
    if turns == 2:
        return flip(m, (first, second))
    if turns == 0:
        return m[...]
    order = [{first: second, second: first}.get(i, i) for i in range(m.ndim)]
    return transpose(flip(m, second), order) if turns == 1 else flip(transpose(m, order), second)


_roll = linear(
    lambda x, shift, axis: np.roll(x, shift, axis),
    lambda ans, x, shift, axis: lambda ct: np.roll(ct, tuple(-each for each in shift), axis),
    sample((4,), shift=(1,), axis=(0,)),
    sample((2, 3), shift=(-1, 5), axis=(0, -1)),
    sample((0, 3), shift=(1,), axis=(0,)),
    name="roll",
    batch=along_axis_batch,
    pattern=moved,
)


@answers(np.roll)
def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Any:
    """Shift elements along axes, with wrap-around; without an axis, of the flattened array."""
    a, shift = as_array(a), plain_axis(values_of(shift, "the shift of np.roll").tolist())
    if axis is None:
        total = shift if isinstance(shift, int) else sum(shift)
        return reshape(apply(_roll, (np.ravel(a),), {"shift": (total,), "axis": (0,)}), a.shape)
    axes = axis_indices(plain_axis(axis), a.ndim, allow_duplicate=True)
    pairs = np.broadcast(np.atleast_1d(shift), np.atleast_1d(axes))
    shifts, places = zip(*((int(each), int(place)) for each, place in pairs), strict=True)
    return apply(_roll, (a,), {"shift": shifts, "axis": places})


# Repeating


@answers(np.tile)
def tile(A: ArrayLike, reps: Any) -> Any:  # noqa: N803  # NumPy's name
    """Repeat a whole array along axes."""
    A = as_array(A)  # noqa: N806
    times = tuple(np.atleast_1d(values_of(reps, "the repetitions of np.tile")).tolist())
    ndim = max(A.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - A.ndim) + tuple(A.shape)
    pairs = list(zip(times, sizes, strict=True))
    apart = reshape(A, tuple(size for each in sizes for size in (1, each)))
    repeated = np.broadcast_to(apart, tuple(size for pair in pairs for size in pair))
    return reshape(repeated, tuple(time * size for time, size in pairs), copy=True)


@answers(np.repeat)
def repeat_elements(a: ArrayLike, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element along an axis, by default of the flattened array."""
    a = as_array(a)
    axis = reduced_axis(axis, a)
    if axis is None:
        a, axis = np.ravel(a), 0
    axis = axis_index(axis, a.ndim)
    counts = values_of(repeats, "the repeats of np.repeat")
    if counts.size != 1:
        return np.take(a, np.repeat(np.arange(a.shape[axis]), counts), axis)
    count, shape = int(counts.ravel()[0]), a.shape
    if count < 0:
        raise ValueError("negative dimensions are not allowed")
    apart = np.broadcast_to(np.expand_dims(a, axis + 1), (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape(apart, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]), copy=True)


@answers(np.resize)
def resize(a: ArrayLike, new_shape: Any) -> Any:
    """Return the elements in another shape, repeated if there are too few."""
    shape = tuple(np.atleast_1d(values_of(new_shape, "the shape of np.resize")).tolist())
    if any(size < 0 for size in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    a, count = np.ravel(as_array(a)), prod_of(shape)
    if a.size == 0 or count == 0:
        return np.zeros_like(a, shape=shape)
    return reshape(np.tile(a, -(-count // a.size))[:count], shape)


# Removing and inserting


@answers(np.append)
def append(arr: Array, values: Array, axis: int | None = None) -> Any:
    """Append values to an array; without an axis both are flattened."""
    return concatenate([arr, values], axis)


def _places_of(obj: Any, name: str) -> Any:
    """Return the positions that an argument gives; an empty list, which NumPy makes real numbers of, has integers."""
    found = values_of(obj, name)
    return found.astype(np.intp) if isinstance(obj, (list, tuple)) and not found.size else found


@answers(np.delete)
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Any:
    """Return an array without some of the slices along an axis."""
    arr = as_array(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = axis_index(plain_axis(axis), arr.ndim)
    obj = obj if isinstance(obj, slice) else _places_of(obj, "np.delete")
    kept = np.delete(np.arange(arr.shape[axis]), obj)
    found = arr[(slice(None),) * axis + (kept,)]
    is_block = isinstance(obj, slice) or (obj.size == 1 and obj.dtype.kind in "iu")
    return in_c_or_f_order(found, arr) if is_block else found  # as NumPy joins blocks, or selects elements


@answers(np.insert)
def insert(arr: ArrayLike, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return an array with values inserted before some of the slices along an axis."""
    arr = as_array(arr)
    values = to_write(values, arr.dtype)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = axis_index(plain_axis(axis), arr.ndim)
    values = astype(reshape(values, (1,) * (arr.ndim - values.ndim) + tuple(values.shape)), arr.dtype)
    size = arr.shape[axis]
    places = np.arange(size)[obj] if isinstance(obj, slice) else _places_of(obj, "np.insert")
    if places.dtype == np.bool_:
        places = np.flatnonzero(places)
    if places.ndim == 0:
        values = np.moveaxis(values, 0, axis)
    count = values.shape[axis] if places.size == 1 else places.size  # a single position receives all values
    values = np.broadcast_to(values, (*arr.shape[:axis], count, *arr.shape[axis + 1 :]))
    order = np.insert(np.arange(size), places, size + np.arange(count))
    return in_c_or_f_order(np.take(concatenate([arr, values], axis), order, axis), arr)


@answers(np.trim_zeros)
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Any:
    """Return an array without its leading and trailing zeros; this needs concrete values."""
    filt, trim = as_array(filt), trim.lower()
    places = np.argwhere(values_of(filt, "np.trim_zeros"))
    axes = range(filt.ndim) if axis is None else axis_indices(plain_axis(axis), filt.ndim)
    key = [slice(None)] * filt.ndim
    for i in axes:
        if not len(places):
            key[i] = slice(0, 0)
            continue
        start = int(places[:, i].min()) if "f" in trim else 0
        stop = int(places[:, i].max()) + 1 if "b" in trim else None
        key[i] = slice(start, stop)
    return filt[tuple(key)]


# Windows


_windows = linear(
    lambda x, sizes, axes: np.lib.stride_tricks.sliding_window_view(x, sizes, axes),
    lambda ans, x, sizes, axes: _overlapped(sizes, axes, x.shape),
    sample((5,), sizes=(2,), axes=(0,)),
    sample((3, 4), sizes=(2, 3), axes=(1, 0)),
    sample((3, 4), sizes=(4,), axes=(-1,)),
    name="sliding_windows",
    pattern=moved,
)


def _overlapped(sizes: tuple[int, ...], axes: tuple[int, ...], shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return the pullback of windows: each element gets the sum over the windows that contain it."""
    counts = list(shape)
    for size, axis in zip(sizes, axes, strict=True):
        counts[axis] -= size - 1

    def by_offsets(ct: Any) -> Iterator[tuple[Any, list[slice]]]:
        """Yield the elements at each place in all windows, and where these are in the array."""
        for offsets in product(*map(range, sizes)):
            starts = [0] * len(shape)
            for offset, axis in zip(offsets, axes, strict=True):
                starts[axis] += offset
            place = [slice(start, start + count) for start, count in zip(starts, counts, strict=True)]
            yield ct[(..., *offsets)], place

    def by_windows(ct: Any) -> Iterator[tuple[Any, list[slice]]]:
        """Yield each window, and where it is in the array."""
        for starts in product(*(range(counts[axis]) for axis in axes)):
            index: list[Any] = [slice(None)] * len(shape)
            place = [slice(None)] * len(shape)
            for start, size, axis in zip(starts, sizes, axes, strict=True):
                index[axis], place[axis] = start, slice(start, start + size)
            yield np.moveaxis(ct[tuple(index)], range(-len(axes), 0), axes), place

    def pullback(ct: Array) -> Any:
        has_few = len({*axes}) == len(axes) and prod_of(counts[axis] for axis in axes) < prod_of(sizes)
        total = np.zeros((), ct.dtype)
        for part, place in by_windows(ct) if has_few else by_offsets(ct):
            total = total + scatter_add(part, tuple(place), shape)
        return total

    return pullback


def _batched_windows(values: Any, mapped: object, size: int, metadata: Any) -> Any:
    axes = tuple(axis + 1 if axis >= 0 else axis for axis in metadata["axes"])
    return apply(_windows, values, {**metadata, "axes": axes})


_windows.batch = _batched_windows
VIEWS[_windows] = lambda x, lead, sizes, axes: np.lib.stride_tricks.sliding_window_view(
    x, sizes, tuple(axis % (x.ndim - lead) + lead for axis in axes)
)


@answers(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Axes = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Return all windows of a given size along axes, which come last."""
    if writeable and traced(x):
        raise errors.InPlaceError("np.lib.stride_tricks.sliding_window_view(..., writeable=True)", errors.users_line())
    x = as_array(x)
    sizes = tuple(np.atleast_1d(values_of(window_shape, "the shape of a window")).tolist())
    axes = tuple(range(x.ndim)) if axis is None else axis_indices(plain_axis(axis), x.ndim, allow_duplicate=True)
    return view(_windows, x, {"sizes": sizes, "axes": axes})


# Diagonals and triangles


def _on_diagonal(values: Array, shape: tuple[int, int], offset: int) -> Any:
    """Return zeros with values on a diagonal of the last two axes, which have the given shape."""
    if not isinstance(values, np.ndarray):
        return _chosen_diagonal(values, shape, offset)
    rows = np.arange(values.shape[-1]) + max(-offset, 0)
    result = np.zeros_like(values, shape=(*values.shape[:-1], *shape))
    result[..., rows, rows + offset] = values
    return result


def _chosen_diagonal(values: Any, shape: tuple[int, int], offset: int) -> Array:
    """Return the same result without writing into an array: each row has all values, and the diagonal is kept."""
    before = max(offset, 0)
    sizes = before, shape[1] - before - values.shape[-1]
    left, right = (np.zeros_like(values, shape=(*values.shape[:-1], size)) for size in sizes)
    row = np.concatenate([left, values, right], axis=-1)
    return np.where(np.eye(*shape, offset, dtype=np.bool_), row[..., None, :], np.zeros((), values.dtype))


_diagonal = linear(
    lambda x, offset: np.diagonal(x, offset, -2, -1),
    lambda ans, x, offset: _back_on_diagonal(x.shape[-2:], offset),
    sample((3, 3), offset=0),
    sample((2, 3, 4), offset=1),
    sample((4, 2), offset=-1),
    sample((2, 2), offset=5),
    name="diagonal",
    batch=trailing_batch,
    pattern=moved,
)
_diagonal_matrix = linear(
    _on_diagonal,
    lambda ans, values, shape, offset: lambda ct: apply(_diagonal, (ct,), {"offset": offset}),
    sample((3,), shape=(3, 3), offset=0),
    sample((2, 3), shape=(3, 4), offset=1),
    sample((2,), shape=(4, 2), offset=-1),
    name="diagonal_matrix",
    batch=trailing_batch,
    pattern=moved,
)
_diagonal_matrix.masks = "tangent"


def _back_on_diagonal(shape: tuple[int, int], offset: int) -> Callable[[Any], Any]:
    return lambda ct: apply(_diagonal_matrix, (ct,), {"shape": shape, "offset": offset})


VIEWS[_diagonal] = lambda x, lead, offset: np.diagonal(x, offset, -2, -1)


@answers(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return a diagonal in the plane of two axes, as the last axis."""
    a = as_array(a)
    np.diagonal(np.broadcast_to(0, a.shape), offset, axis1, axis2)  # NumPy's checks and messages
    return view(_diagonal, np.moveaxis(a, (axis1, axis2), (-2, -1)), {"offset": plain_axis(offset)})


@answers(np.diag)
def diag(v: ArrayLike, k: int = 0) -> Any:
    """Return a diagonal of a matrix, or the matrix with a vector as its diagonal."""
    v, k = as_array(v), plain_axis(k)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    size = v.shape[0] + abs(k)
    return apply(_diagonal_matrix, (v,), {"shape": (size, size), "offset": k})


@answers(np.diagflat)
def diagflat(v: ArrayLike, k: int = 0) -> Any:
    """Return the matrix with the flattened elements as its diagonal."""
    return diag(np.ravel(as_array(v)), k)


@answers(np.trace)
def trace(
    a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: Array | None = None
) -> Any:
    """Return the sum along a diagonal in the plane of two axes."""
    return written("np.trace", out, np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype))


@answers(np.tril)
def tril(m: Array, k: int = 0) -> Array:
    """Return the elements on and below a diagonal of the last two axes, and zeros above."""
    m = as_array(m)
    return np.where(_lower(m, k), m, np.zeros((), m.dtype))


@answers(np.triu)
def triu(m: Array, k: int = 0) -> Array:
    """Return the elements on and above a diagonal of the last two axes, and zeros below."""
    m = as_array(m)
    return np.where(_lower(m, k - 1), np.zeros((), m.dtype), m)


def _lower(m: Array, k: int) -> Any:
    """Return the lower triangle of the last two axes of an array, as a mask."""
    sizes = m.shape[-2:]
    return np.tri(sizes[0], sizes[-1], plain_axis(k), bool)


def _indices_of_shape(function: Callable[..., Any]) -> None:
    """Implement `tril_indices_from` and its kin, which depend on the shape alone."""

    @answers(function)
    def indices(arr: Any, *args: Any, **keywords: Any) -> Any:
        return function(np.broadcast_to(0, arr.shape), *args, **keywords)


for _function in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from):
    _indices_of_shape(_function)


# Grids


@answers(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Return the coordinates of all points of a grid, from those along each axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    arrays = [np.ravel(as_array(x)) for x in xi]
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = [1, 0]
    grids = [
        reshape(x, tuple(-1 if axis == place else 1 for axis in range(ndim)))
        for x, place in zip(arrays, places, strict=True)
    ]
    grids = grids if sparse or not grids else list(np.broadcast_arrays(*grids))
    return tuple([copy_of(each, "C") for each in grids]) if copy else tuple(grids)


@answers(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Return index vectors reshaped to broadcast to all combinations (an open mesh)."""
    arrays = [as_array(x) for x in args]
    if any(x.ndim != 1 for x in arrays):
        raise ValueError("Cross index must be 1 dimensional")
    arrays = [np.nonzero(x)[0] if x.dtype.kind == "b" else x for x in arrays]
    return tuple(
        reshape(x, tuple(-1 if axis == place else 1 for axis in range(len(arrays)))) for place, x in enumerate(arrays)
    )
