"""Creation, reshaping, joining, splitting and selection: TensorFlow's functions that move elements.

zeros, ones, fill, range, linspace, eye ...     new tensors
cast, convert_to_tensor, to_float ...           conversions
reshape, transpose, concat, stack, split ...    moving elements
gather, boolean_mask, where, one_hot ...        selecting elements
sort, argsort                                   ordering
shape, size, rank                               properties
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.convert import CONVERSIONS, as_dtype
from fgrad.compat.deferred.graph import Convertible, Symbol, TensorShape, as_node, operation
from fgrad.compat.deferred.scattering import IndexedSlices
from fgrad.compat.deferred.state import identity as identity
from fgrad.compat.tensorflow.arguments import (
    along,
    at,
    axes,
    check_each_axis,
    check_integers,
    check_within,
    chosen,
    convert,
    is_known,
    is_version_1,
    known_size,
    on_diagonal,
    operands,
    order,
    plain,
    several,
    sizes,
    with_facts_at_zeros,
    with_facts_by,
    with_sizes_known_of,
    with_unknown_size,
)
from fgrad.compat.tensorflow.formulas import in_rows
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed
from fgrad.transforms.reverse import stop_gradient as _stop_gradient
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand

_FLOAT, _INT = np.dtype(np.float32), np.dtype(np.int32)


# Conversions


@operation("Const")
def _converted(value: ArrayLike, dtype: DTypeLike | None = None, hint: object = None) -> Any:
    return convert(value, as_dtype(dtype), as_dtype(hint))


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    dtype_hint: DTypeLike | None = None,
    preferred_dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return a value as a tensor.

    Args:
        value: a number, array, tensor, variable, nested lists of them, or `tf.IndexedSlices` with a `dense_shape`.
        dtype: the required dtype; numbers and arrays are converted to it.
        dtype_hint, preferred_dtype: the dtype of numbers and arrays that can be represented in it.

    Raises:
        ParameterError: a ValueError; a tensor has another dtype, or slices have no `dense_shape`.
    """
    if isinstance(value, IndexedSlices):
        value = _dense(value, name)
    if isinstance(value, Symbol):
        node = as_node(value)
        if dtype is not None and node.dtype not in (None, as_dtype(dtype)):
            raise errors.ParameterError(
                f"Tensor conversion requested dtype {as_dtype(dtype)} for a tensor of dtype {node.dtype}; use tf.cast."
            )
        return node
    return _converted(value, dtype, chosen("dtype_hint", dtype_hint, "preferred_dtype", preferred_dtype), name=name)


def _dense(slices: IndexedSlices, name: str | None = None) -> Any:
    if slices.dense_shape is None:
        raise errors.ParameterError(
            "IndexedSlices without dense_shape cannot be a tensor: its number of rows is unknown.\n"
            "Write tf.IndexedSlices(values, indices, dense_shape)."
        )
    return _with_rows(slices.values, slices.indices, slices.dense_shape, name=name)


CONVERSIONS[IndexedSlices] = _dense


@operation("IndexedSlicesToTensor")
def _with_rows(values: Any, indices: Any, shape: Any) -> Any:
    """Return an array of zeros to which rows have been added."""
    rows, numbers, wanted = convert(values), plain(convert(indices)), sizes(shape)
    check_within(numbers, wanted[0])
    if rows.shape != (*numbers.shape, *wanted[1:]):
        raise errors.ShapeError(f"rows of shape {rows.shape} at {numbers.size} indices do not fit the shape {wanted}.")
    return in_rows(rows, numbers, wanted[0])


def is_tensor(x: Convertible) -> bool:
    """Return whether an object is a tensor or variable, of a graph or not."""
    return type(x) in BOXES or isinstance(x, Symbol)


def _in_dtype(x: Any, dtype: Any) -> Any:
    x = convert(x)
    if x.dtype.kind not in "fc":
        x = _stop_gradient(x)  # eagerly, fgrad's comparisons have the derivative zero
    return (np.real(x) if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


_cast = operation("Cast")(_in_dtype)
_cast_off = operation("Cast", differentiable=False)(_in_dtype)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert to another dtype; integers and booleans have no derivatives.

    Args:
        x: a tensor.
        dtype: the dtype of the result. Conversion to integers truncates, and conversion to real numbers drops the
            imaginary part.
    """
    dtype = as_dtype(dtype)
    return (_cast if dtype.kind in "fc" else _cast_off)(x, dtype, name=name)


def to_float(x: Convertible, name: str | None = None) -> Any:
    """Convert to float32."""
    return cast(x, np.float32, name)


def to_double(x: Convertible, name: str | None = None) -> Any:
    """Convert to float64."""
    return cast(x, np.float64, name)


def to_int32(x: Convertible, name: str | None = None) -> Any:
    """Convert to int32."""
    return cast(x, np.int32, name)


def to_int64(x: Convertible, name: str | None = None) -> Any:
    """Convert to int64."""
    return cast(x, np.int64, name)


@operation(differentiable=False)
def stop_gradient(input: Convertible) -> Any:
    """Return a tensor with the same values and no derivative."""
    return _stop_gradient(convert(input))


# New tensors


@operation(differentiable=False)
def zeros(shape: Any, dtype: Any = _FLOAT) -> Any:
    """Return zeros."""
    return boxed(np.zeros(sizes(shape), as_dtype(dtype))[()])


@operation(differentiable=False)
def ones(shape: Any, dtype: DTypeLike = _FLOAT) -> Any:
    """Return ones."""
    return boxed(np.ones(sizes(shape), as_dtype(dtype))[()])


@operation("zeros_like", differentiable=False)
def zeros_like(input: Convertible, dtype: Any = None, optimize: bool = True) -> Any:
    """Return zeros of the shape of a tensor, and of its dtype unless another is given."""
    return np.zeros_like(convert(input), as_dtype(dtype))


@operation("ones_like", differentiable=False)
def ones_like(input: Convertible, dtype: object = None, optimize: bool = True) -> Any:
    """Return ones of the shape of a tensor, and of its dtype unless another is given."""
    return np.ones_like(convert(input), as_dtype(dtype))


@operation()
def fill(dims: Any, value: Convertible) -> Any:
    """Return a tensor of the shape `dims`, filled with one value."""
    return np.broadcast_to(convert(value), sizes(dims))


@operation(differentiable=False)
def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None) -> Any:
    """Return `start, start + delta, ...` up to but excluding `limit`; a single argument is the limit, with start 0."""
    start, limit = (0, start) if limit is None else (start, limit)
    values = [plain(each) for each in operands(start, limit, delta)]
    return boxed(np.arange(*values, dtype=as_dtype(dtype) or _common_dtype(values)))


def _common_dtype(arrays: Sequence[Any]) -> np.dtype[Any]:
    """Return TensorFlow's dtype for numbers: for floats and integers that of the floats."""
    floats = [array.dtype for array in arrays if array.dtype.kind == "f"]
    return np.result_type(*(floats or [array.dtype for array in arrays]))


@operation("LinSpace")
def linspace(start: Convertible, stop: Any, num: Any, axis: int = 0) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, both included."""
    first, last = operands(start, stop)
    dtype = _common_dtype([first, last])
    return boxed(np.linspace(first, last, int(num), axis=axis, dtype=dtype if dtype.kind == "f" else None))


@operation(differentiable=False)
def eye(num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: DTypeLike = _FLOAT) -> Any:
    """Return the identity matrix, or a batch of it."""
    matrix = np.eye(int(num_rows), None if num_columns is None else int(num_columns), dtype=as_dtype(dtype))
    return boxed(matrix if batch_shape is None else np.broadcast_to(matrix, (*sizes(batch_shape), *matrix.shape)))


# Properties


@operation(differentiable=False)
def shape(input: Convertible, out_type: Any = _INT) -> Any:
    """Return the shape of a tensor as a tensor of integers."""
    return boxed(np.array(convert(input).shape, as_dtype(out_type)))


@operation(differentiable=False)
def size(input: Convertible, out_type: object = _INT) -> Any:
    """Return the number of elements of a tensor."""
    return boxed(as_dtype(out_type).type(convert(input).size))


@operation(differentiable=False)
def rank(input: Convertible) -> Any:
    """Return the number of axes of a tensor."""
    return boxed(np.int32(convert(input).ndim))


@operation("EnsureShape")
def ensure_shape(x: Any, shape: Any) -> Any:
    """Return a tensor that must have a given shape, in which None admits any size.

    Raises:
        InvalidArgumentError: a ValueError; the tensor has another shape.
    """
    x, shape = convert(x), TensorShape(shape)
    if not shape.admits(x.shape):
        raise errors.InvalidArgumentError(f"Shape of tensor {x.shape} is not compatible with expected shape {shape}.")
    return np.copy(x)


# Shapes


def _like_reshaped(tensor: Array, shape: Sequence[Any]) -> Array:
    """Return an array with the shape and dtype of `reshape`, also if the number of elements differs."""
    x, wanted = convert(tensor), sizes(shape)
    rest = math.prod(size for size in wanted if size != -1)
    # If the inferred size differs between two trial sizes, it is unknown, unless the shape of `x` is known.
    left = x.size // rest if rest and x.size % rest == 0 else x.size
    return np.broadcast_to(np.zeros((), x.dtype), [left if size == -1 else size for size in wanted])


@with_facts_by(_like_reshaped)
@operation()
def reshape(tensor: Any, shape: Any) -> Any:
    """Return the elements in another shape, in which one size may be -1, to be inferred."""
    return np.reshape(convert(tensor), sizes(shape))


@operation("transpose")
def transpose(a: Convertible, perm: Any = None, conjugate: bool = False) -> Any:
    """Permute the axes; by default reverse them."""
    turned = np.transpose(convert(a), axes(perm))
    return np.conjugate(turned) if conjugate else turned


def squeeze(input: Convertible, axis: Any = None, squeeze_dims: Any = None, name: str | None = None) -> Any:
    """Remove axes of size 1.

    Args:
        input: a tensor.
        axis: the axes to remove, by default all of size 1.
        squeeze_dims: the old name of `axis`.
    """
    result = _squeezed(input, chosen("axis", axis, "squeeze_dims", squeeze_dims), name=name)
    names_axes = axis is not None or squeeze_dims is not None
    return result if names_axes or is_known(input) else with_unknown_size(result, None)


@operation("Squeeze")
def _squeezed(x: Array, axis: Sequence[Any] | None) -> Any:
    axis = axes(axis)
    return np.squeeze(convert(x), None if axis == () else axis)


@operation()
def expand_dims(input: Convertible, axis: Any = None, dim: Any = None) -> Any:
    """Insert an axis of size 1; `dim` is the old name of `axis`."""
    axis = chosen("axis", axis, "dim", dim)
    if axis is None:
        raise errors.ParameterError("expand_dims needs the axis to insert: pass axis.")
    return np.expand_dims(convert(input), axes(axis))


@operation()
def broadcast_to(input: Convertible, shape: Any) -> Any:
    """Repeat a tensor along new axes and along axes of size 1."""
    return np.broadcast_to(convert(input), sizes(shape))


@operation()
def tile(input: Convertible, multiples: Any) -> Any:
    """Tile a tensor, `multiples[i]` times along axis i."""
    x, counts = convert(input), sizes(multiples)
    check_each_axis("multiples", counts, x)
    return np.tile(x, counts)


@operation()
def repeat(input: Convertible, repeats: Convertible, axis: int | None = None) -> Any:
    """Repeat each element.

    Args:
        input: a tensor.
        repeats: the number of repetitions: one number, or one for each element along the axis.
        axis: the axis; by default the tensor is flattened.
    """
    return np.repeat(convert(input), plain(convert(repeats)), axis)


@operation("ReverseV2")
def reverse(tensor: Convertible, axis: Any) -> Any:
    """Reverse the order of elements along one or several axes."""
    return np.flip(convert(tensor), sizes(axis))


@operation()
def roll(input: Convertible, shift: Any, axis: Any) -> Any:
    """Shift elements along axes with wrap-around."""
    x = convert(input)
    for count, each in zip(sizes(shift), sizes(axis), strict=True):
        x = np.roll(x, count, each)
    return x


@operation()
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0) -> Any:
    """Pad a tensor.

    Args:
        tensor: a tensor of any shape.
        paddings: for each axis, the numbers of elements before and after.
        mode: "CONSTANT", "REFLECT" (without the outermost element) or "SYMMETRIC" (with it).
        constant_values: the value of the new elements.
    """
    x = convert(tensor)
    widths: Any = [sizes(pair) for pair in paddings]
    check_each_axis("paddings", widths, x)
    kind: Any = mode.lower()
    if kind not in ("constant", "reflect", "symmetric"):
        raise errors.ParameterError(f"mode is {mode!r}; use 'CONSTANT', 'REFLECT' or 'SYMMETRIC'.")
    if kind == "constant":
        shape = tuple(before + size + after for (before, after), size in zip(widths, x.shape, strict=True))
        result = np.full_like(x, convert(constant_values, hint=x.dtype), shape=shape)
        key = (builtins.slice(before, before + size) for (before, _), size in zip(widths, x.shape, strict=True))
        result[tuple(key)] = x
        return result
    for axis, pair in enumerate(widths):
        if any(pair):
            x = at(x, axis, np.pad(np.arange(x.shape[axis]), pair, mode=kind))
    return x


# Joining and splitting


@operation("concat")
def concat(values: Any, axis: Any) -> Any:
    """Join tensors along an existing axis."""
    parts = operands(*values) if isinstance(values, (list, tuple)) else [convert(values)]
    return np.concatenate(parts, int(axis))


@operation("stack")
def stack(values: Any, axis: int = 0) -> Any:
    """Join tensors of one shape along a new axis."""
    return np.stack(operands(*values), int(axis))


def unstack(value: Convertible, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Any]:
    """Return the elements along an axis as a list of tensors.

    Args:
        value: a tensor.
        num: the number of results, if the shape does not determine it.
        axis: the axis that is removed.

    Raises:
        ShapeError: a ValueError; the number is unknown, or `num` is wrong.
    """
    value = convert_to_tensor(value)
    count = known_size(value, axis, "num") if num is None else num
    return [_element(value, axis, place, count, name=name) for place in builtins.range(count)]


@operation("unstack")
def _element(x: Array, axis: int, place: int, count: int) -> Any:
    x = convert(x)
    if x.shape[axis] != count:
        raise errors.ShapeError(f"num is {count}, and axis {axis} of the shape {x.shape} has the size {x.shape[axis]}.")
    return at(x, axis, place)


def split(
    value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str | None = None
) -> list[Any]:
    """Split a tensor along an axis.

    Args:
        value: a tensor.
        num_or_size_splits: the number of equal parts, or a list of sizes, one of which may be -1.
        axis: the axis that is split.
        num: the number of sizes, if the shape of a graph tensor with them does not determine it.

    Returns:
        A list of tensors.

    Raises:
        ShapeError: a ValueError; the sizes do not sum to that of the axis.
    """
    splits = num_or_size_splits
    if isinstance(splits, Symbol):
        count = known_size(splits, 0, "num") if num is None else num
    elif np.ndim(splits) if type(splits) in BOXES else isinstance(splits, (list, tuple, np.ndarray)):
        splits = list(splits)
        count = len(splits)
    else:
        splits = count = int(splits)
    value = convert_to_tensor(value)
    return [_part(value, splits, axis, place, name=name) for place in builtins.range(count)]


@operation("split")
def _part(x: Array, splits: Any, axis: int, place: int) -> Any:
    x = convert(x)
    total = x.shape[axis]
    if isinstance(splits, int):
        if total % splits:
            raise errors.ShapeError(f"axis {axis} of the shape {x.shape} cannot be split into {splits} equal parts.")
        widths = [total // splits] * splits
    else:
        widths = list(sizes(splits))
        if -1 in widths:
            widths[widths.index(-1)] = total - sum(widths) - 1
    if sum(widths) != total or min(widths, default=0) < 0:
        raise errors.ShapeError(f"the sizes {widths} do not sum to {total}, the size of axis {axis}.")
    start = sum(widths[:place])
    return at(x, axis, builtins.slice(start, start + widths[place]))


def meshgrid(*args: object, indexing: str = "xy", name: str | None = None) -> list[Any]:
    """Return the coordinates of a grid, one tensor for each axis.

    Args:
        args: the coordinates along each axis.
        indexing: "ij" for axes in the order of the arguments, "xy" for the first two exchanged.
    """
    if indexing not in ("xy", "ij"):
        raise errors.ParameterError(f"indexing is {indexing!r}; use 'xy' or 'ij'.")
    return list(several(_grids, len(args), "meshgrid")(*args, indexing=indexing, name=name))


def _grids(*coordinates: Array, indexing: Any) -> Sequence[Any]:
    return np.meshgrid(*map(convert, coordinates), copy=False, indexing=indexing)


# Selection


@operation()
def slice(input_: Convertible, begin: Any, size: Any) -> Any:
    """Return a block: `size[i]` elements from `begin[i]` along each axis, all remaining ones for -1.

    Raises:
        InvalidArgumentError: a ValueError; the block is not inside the tensor.
    """
    x = convert(input_)
    starts, widths = sizes(begin), sizes(size)
    check_each_axis("begin", starts, x)
    check_each_axis("size", widths, x)
    stops = [
        total if width == -1 else start + width for start, width, total in zip(starts, widths, x.shape, strict=True)
    ]
    if any(not 0 <= start <= stop <= total for start, stop, total in zip(starts, stops, x.shape, strict=True)):
        raise errors.InvalidArgumentError(
            f"the slice that begins at {starts} with the size {widths} is not inside of the shape {x.shape}."
        )
    return x[tuple(builtins.slice(start, stop) for start, stop in zip(starts, stops, strict=True))]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """Return `input_[begin[0]:end[0]:strides[0], begin[1]:end[1]:strides[1], ...]`.

    Args:
        input_: a tensor.
        begin, end, strides: integers, one for each part of the key.
        begin_mask, end_mask: the bits of parts whose begin or end is omitted.
        ellipsis_mask, new_axis_mask: the bits of parts that are `...` and `tf.newaxis`.
        shrink_axis_mask: the bits of parts that are only `begin`, so that the axis is removed.
        var: ignored.
    """
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    found = _strided(input_, begin, end, strides, masks, name=name)
    if is_known(input_):
        return found
    keeps_axes = not any(masks[2:])
    places = builtins.range(len(input_.shape))
    return with_sizes_known_of(input_, found, places) if keeps_axes else with_unknown_size(found, None)


@operation("StridedSlice")
def _strided(
    input_: Array, begin: Sequence[Any], end: Sequence[Any], strides: Sequence[Any], masks: Sequence[int]
) -> Any:
    starts, stops = sizes(begin), sizes(end)
    steps = (1,) * len(starts) if strides is None else sizes(strides)
    parts = enumerate(zip(starts, stops, steps, strict=True))
    return convert(input_)[tuple(_part_of_key(*part, [mask >> bit & 1 for mask in masks]) for bit, part in parts)]


def _part_of_key(start: int, stop: int, step: int, flags: Sequence[int]) -> Any:
    is_from_begin, is_to_end, is_ellipsis, is_new, is_index = flags
    if is_ellipsis:
        return Ellipsis
    if is_new:
        return None
    if is_index:
        return start
    return builtins.slice(None if is_from_begin else start, None if is_to_end else stop, step)


@with_facts_at_zeros
@operation("GatherV2")
def gather(
    params: Convertible, indices: Convertible, validate_indices: Any = None, axis: Any = None, batch_dims: int = 0
) -> Any:
    """Return the elements at indices along an axis.

    Args:
        params: a tensor.
        indices: integers of any shape, which replaces the axis in the result.
        validate_indices: ignored: indices are always checked.
        axis: the axis; by default the first one after the batch axes.
        batch_dims: the number of leading axes that `params` and `indices` share; a negative one counts from
            `indices.ndim`.

    Raises:
        InvalidArgumentError: a ValueError; an index is negative or too large.
    """
    x, places = convert(params), convert(indices)
    batch_dims += places.ndim if batch_dims < 0 else 0
    axis = batch_dims if axis is None else axes(axis) % x.ndim
    check_within(places, x.shape[axis])
    if not batch_dims:
        return np.take(x, places, axis)
    moved = np.moveaxis(x, axis, batch_dims)
    found = moved[(*_own_places(x, batch_dims, places.ndim), places)]
    count = places.ndim - batch_dims
    return np.moveaxis(found, builtins.range(batch_dims, batch_dims + count), builtins.range(axis, axis + count))


def _own_places(x: Array, batch_dims: int, ndim: int) -> list[Any]:
    """Return indices with `ndim` axes that select, along batch axes, the matching examples."""
    return [
        np.arange(size).reshape((size,) + (1,) * (ndim - place - 1)) for place, size in enumerate(x.shape[:batch_dims])
    ]


@with_facts_at_zeros
@operation("GatherNd")
def gather_nd(params: Convertible, indices: Any, batch_dims: int = 0) -> Any:
    """Return the elements at indices.

    Args:
        params: a tensor.
        indices: each index is a row along the last axis.
        batch_dims: the number of leading axes that `params` and `indices` share.

    Raises:
        InvalidArgumentError: a ValueError; an index is negative or too large.
    """
    x, places = convert(params), convert(indices)
    if not places.shape[-1]:  # each index is that of a whole example
        examples = np.expand_dims(x, tuple(builtins.range(batch_dims, places.ndim - 1)))
        return np.broadcast_to(examples, (*places.shape[:-1], *x.shape[batch_dims:]))
    parts = [places[..., axis] for axis in builtins.range(places.shape[-1])]
    for axis, part in enumerate(parts, batch_dims):
        check_within(part, x.shape[axis])
    return x[(*_own_places(x, batch_dims, places.ndim - 1), *parts)]


def boolean_mask(tensor: Convertible, mask: Convertible, axis: int | None = None, name: str | None = None) -> Any:
    """Return the elements where a mask is true.

    Args:
        tensor: a tensor of any shape.
        mask: booleans; its axes are those of `tensor` from `axis` on, and become one axis of the result.
        axis: the first masked axis, by default 0.
    """
    return with_unknown_size(_masked(tensor, mask, axis or 0, name=name), axis or 0)


@operation("boolean_mask")
def _masked(x: Array, mask: ArrayLike, axis: int) -> Any:
    return at(convert(x), axis, plain(convert(mask)).astype(np.bool_))


def where(
    condition: Convertible, x: Convertible | None = None, y: Convertible | None = None, name: str | None = None
) -> Any:
    """Choose elements from two tensors; with one argument, return the indices of its true elements.

    Args:
        condition: booleans.
        x, y: the elements for true and for false. All three broadcast; in TensorFlow 1's
            namespace a condition with one axis chooses whole rows.

    Raises:
        ParameterError: a ValueError; only one of `x` and `y` is given.
    """
    if (x is None) != (y is None):
        raise errors.ParameterError("x and y must both be given, or both omitted.")
    if x is None:
        return with_unknown_size(_true_places(condition, name=name), 0)
    return _select(condition, x, y, is_version_1(), name=name)


@operation("Select")
def _select(condition: Array, x: Array, y: Operand, chooses_rows: bool) -> Array:
    condition = convert(condition).astype(np.bool_)
    x, y = operands(x, y)
    if chooses_rows and condition.ndim == 1 and x.ndim > 1:
        condition = np.reshape(condition, (-1,) + (1,) * (x.ndim - 1))
    return np.where(condition, x, y)


@operation("Where", differentiable=False)
def _true_places(condition: Array) -> Any:
    return boxed(np.argwhere(plain(convert(condition))))


@operation(differentiable=False)
def one_hot(
    indices: Convertible,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
) -> Any:
    """Return one-hot vectors.

    Args:
        indices: the index of the hot element; none if it is negative or too large.
        depth: the length of the vectors.
        on_value, off_value: the values of the hot element and of the others, by default 1 and 0.
        axis: the position of the vectors' axis in the result, by default last.
        dtype: the dtype of the result, by default that of `on_value`, otherwise float32.
    """
    axis = -1 if axis is None else axis
    numbers = plain(convert(indices))
    check_integers(numbers)
    kind = next((convert(each).dtype for each in (on_value, off_value) if each is not None), _FLOAT)
    dtype = as_dtype(dtype) or kind
    is_on = np.expand_dims(numbers, -1) == np.arange(int(depth))
    on = 1 if on_value is None else plain(convert(on_value))
    off = 0 if off_value is None else plain(convert(off_value))
    return boxed(np.moveaxis(np.where(is_on, on, off).astype(dtype), -1, axis))


@operation("diag")
def diag(diagonal: Convertible) -> Any:
    """Return a tensor with given values on its diagonal and zeros elsewhere; it has twice as many axes."""
    x = convert(diagonal)
    return np.reshape(on_diagonal(np.reshape(x, (-1,))), (*x.shape, *x.shape))


# Ordering


def _descends(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise errors.ParameterError(f"direction is {direction!r}; use 'ASCENDING' or 'DESCENDING'.")
    return direction == "DESCENDING"


@operation("sort")
def sort(values: Convertible, axis: int = -1, direction: str = "ASCENDING") -> Any:
    """Return the elements in order along an axis, "ASCENDING" or "DESCENDING"."""
    x = convert(values)
    return along(x, order(x, axis, _descends(direction)), axis)


@operation("argsort", differentiable=False)
def argsort(values: Convertible, axis: int = -1, direction: str = "ASCENDING", stable: bool = True) -> Any:
    """Return the indices that sort along an axis; equal elements keep their order."""
    return boxed(order(convert(values), axis, _descends(direction)).astype(_INT))


__getattr__ = missing(__name__)
