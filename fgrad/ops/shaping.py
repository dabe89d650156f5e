"""Operations that move, repeat, join and split elements without arithmetic."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from math import prod as prod_of
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad import errors
from fgrad.core.coerce import as_array, holds_tensors
from fgrad.core.foreign import is_at_hand
from fgrad.core.primitive import BOXES, METHODS
from fgrad.core.reverse import conform
from fgrad.core.shapes import broadcast_shapes
from fgrad.core.tensor import Tensor, apply, is_weak
from fgrad.core.views import VIEWS, become_view, is_one_block, layout, layout_of_one, origin, seen, view
from fgrad.ops.batching import aligned, along_axis_batch
from fgrad.ops.families import answers, answers_member, jointly_linear, linear, plain_axis, sample
from fgrad.ops.indexing import sliced, traced, values_of, written
from fgrad.ops.patterns import moved
from fgrad.typing import Array, ArrayLike, DTypeLike

_reshape = linear(
    lambda x, shape, order="C": x.reshape(shape) if order == "C" else x.reshape(shape, order=order),
    lambda ans, x, shape, order="C": _reshape_back(x.shape, order),
    sample((2, 3), shape=(3, 2)),
    sample((2, 3), shape=(-1,)),
    sample((), shape=(1, 1)),
    sample((1,), shape=()),
    sample((0, 3), shape=(3, 0)),
    sample((2, 3), shape=(3, 2), order="F"),
    name="reshape",
    pattern=moved,
)


def _batched_reshape(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Array:
    (x,) = values
    shape, order = _filled(metadata["shape"], prod_of(x.shape[1:])), metadata.get("order", "C")
    if order == "C":
        return np.reshape(x, (size, *shape))
    # In Fortran order the last axis is the slowest, so the batch axis is moved last and back.
    return np.moveaxis(np.reshape(np.moveaxis(x, 0, -1), (*shape, size), order=order), -1, 0)


def _filled(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return a shape with -1 replaced by the inferred size."""
    known = prod_of(size for size in shape if size != -1)
    return tuple(count // known if size == -1 else size for size in shape)


_reshape.batch = _batched_reshape


def _reshape_back(shape: tuple[int, ...], order: Any) -> Callable[[Any], Any]:
    if order == "C":
        return lambda ct: reshaped(ct, shape)
    return lambda ct: np.reshape(ct, shape, order=order)


def reshaped(x: Array, shape: tuple[int, ...]) -> Any:
    """Reshape an array inside a rule, where views need not be tracked since nothing is written in place."""
    return apply(_reshape, (x,), {"shape": shape}) if type(x) is Tensor else x.reshape(shape)


@answers(np.reshape)
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Return the elements in another shape, in C or Fortran order."""
    a = as_array(a)
    if order not in ("C", "F"):
        raise errors.MissingRuleError(f"np.reshape with order={order!r}", errors.users_line())
    shape = tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)
    if copy or type(a) is not Tensor:
        result = apply(_reshape, (a,), {"shape": shape, "order": order})
        array = layout(result)
        is_apart = not isinstance(array, np.ndarray) or array.flags.forc
        return result if is_apart else METHODS["astype"](result, result.dtype)
    if order == "F":  # the C order of the transpose, so that the result can be a view
        return transpose(reshape(transpose(a), shape[::-1]))
    if a._trace.outdated and _stays_in_place(layout(a), a.ndim, shape):
        return view(_reshape, a, {"shape": shape, "order": order})
    result = apply(_reshape, (a,), {"shape": shape, "order": order})
    if is_one_block(a) or _stays_in_place(layout(a), a.ndim, shape):
        return seen(result, a, _reshape, {"shape": result.shape, "order": order})
    return result


def _stays_in_place(array: Array, ndim: int, shape: tuple[int, ...]) -> bool:
    # Arrays of other libraries are never written to, so views of them are equivalent to copies.
    return isinstance(array, np.ndarray) and np.may_share_memory(array, _reshaped_view(array, array.ndim - ndim, shape))


def _reshaped_view(x: Array, lead: int, shape: tuple[int, ...], order: str = "C") -> Array:
    return np.reshape(x, (*x.shape[:lead], *shape))


VIEWS[_reshape] = _reshaped_view


@answers_member("reshaped_in_place")
def _reshaped_in_place(x: Tensor, shape: object) -> None:
    """Implement `x.shape = shape`."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    array = layout(x)
    if isinstance(array, np.ndarray) and array.size and not _stays_in_place(array, len(x.shape), shape):
        raise AttributeError(f"the shape {shape} needs a copy of the elements: write x = x.reshape({shape}).")
    become_view(x, lambda before: reshape(before, shape))


@answers(np.ravel)
def ravel(a: Array, order: str = "C") -> Any:
    """Return the elements in one dimension: a view if they are contiguous, otherwise a copy."""
    if type(a) is Tensor and order in ("C", "F"):
        array = layout_of_one(a)
        if not isinstance(array, np.ndarray):
            return reshape(a, -1, order)
        flags = array.flags
        if not (flags.c_contiguous if order == "C" else flags.f_contiguous):
            return flattened(a, order)
    return reshape(a, -1, order)


def flattened(a: Array, order: str = "C") -> Any:
    """Return a flattened copy."""
    return reshape(a, -1, order, copy=True)


@answers(np.expand_dims)
def expand_dims(a: ArrayLike, axis: int | tuple[int, ...]) -> Any:
    """Insert axes of size 1 at the given positions of the result."""
    a, axis = as_array(a), plain_axis(axis)
    axes = (axis,) if isinstance(axis, int) else axis
    ndim = a.ndim + len(axes)
    places = {np.lib.array_utils.normalize_axis_index(each, ndim) for each in axes}
    sizes = iter(a.shape)
    return reshape(a, tuple(1 if place in places else next(sizes) for place in range(ndim)))


@answers(np.squeeze)
def squeeze(a: Array, axis: int | tuple[int, ...] | None = None) -> Any:
    """Remove axes of size 1: all of them, or the given ones."""
    a = as_array(a)
    shape = np.squeeze(np.broadcast_to(0, a.shape), axis).shape  # NumPy's checks and messages
    return reshape(a, shape)


def _permuted(x: Array, axes: int | Sequence[int] | None) -> Array:
    """Return the result of `np.transpose`; of a plain array in half the time."""
    return x.transpose(axes) if type(x) is np.ndarray else np.transpose(x, axes)


_transpose = linear(
    _permuted,
    lambda ans, x, axes: lambda ct: _permuted(ct, _inverse(axes)),
    sample((2, 3), axes=None),
    sample((2, 3, 1), axes=(2, 0, 1)),
    sample((), axes=None),
    sample((2, 3, 1), axes=(-1, 0, -2)),
    name="transpose",
    pattern=moved,
)


def _inverse(axes: tuple[int, ...] | None) -> list[Any] | None:
    """Return the inverse of a permutation of axes."""
    if axes is None:
        return None
    places = {axis % len(axes): place for place, axis in enumerate(axes)}
    return [places[axis] for axis in range(len(axes))]


def _batched_transpose(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Array:
    (x,) = values
    ndim = len(x.shape) - 1
    axes = range(ndim)[::-1] if metadata["axes"] is None else metadata["axes"]
    return np.transpose(x, (0, *(normalize_axis_index(axis, ndim) + 1 for axis in axes)))


_transpose.batch = _batched_transpose


@answers(np.transpose)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Permute the axes; by default reverse them."""
    return view(_transpose, as_array(a), {"axes": plain_axis(None if axes is None else tuple(axes))})


def _transposed(x: Array, lead: int, axes: tuple[int, ...] | None) -> Array:
    count = x.ndim - lead
    order = range(count)[::-1] if axes is None else [axis % count for axis in axes]
    return np.transpose(x, (*range(lead), *(lead + axis for axis in order)))


VIEWS[_transpose] = _transposed


def _permutation(function: Callable[..., Any]) -> None:
    """Make a function that permutes axes from NumPy's, which determines the permutation."""

    @answers(function)
    def permute(a: Array, *args: object, **keywords: object) -> Any:
        a = as_array(a)
        # Axes of size 1 are identified by their strides; distinct sizes would make the array huge.
        numbered = np.ndarray((1,) * a.ndim, np.bool_, b"\0", 0, tuple(range(a.ndim)))
        return transpose(a, function(numbered, *args, **keywords).strides)


_function: Any
for _function in (np.swapaxes, np.moveaxis, np.rollaxis, np.matrix_transpose):
    _permutation(_function)


def _repeated(x: Array, shape: tuple[int, ...]) -> Any:
    """Return the result of `np.broadcast_to`; for an array with the same number of axes in a third of the time."""
    if type(x) is not np.ndarray or x.ndim != len(shape) or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    steps = x.strides
    strides = tuple([0 if size == 1 else steps[axis] for axis, size in enumerate(x.shape)])
    view: Any = np.ndarray(shape, x.dtype, x, 0, strides)
    view.setflags(write=False)
    return view


_broadcast_to = linear(
    _repeated,
    lambda ans, x, shape: _sum_to(x.shape, x.dtype),
    sample((3,), shape=(2, 3)),
    sample((2, 1), shape=(4, 2, 3)),
    sample((), shape=(2,)),
    sample((1,), shape=(0,)),
    name="broadcast_to",
    pattern=moved,
)


def _broadcast_view(x: Array, lead: int, shape: tuple[int, ...]) -> Array:
    sizes = x.shape[:lead]
    return np.broadcast_to(
        np.reshape(x, (*sizes, *(1,) * (len(shape) + lead - x.ndim), *x.shape[lead:])), (*sizes, *shape)
    )


VIEWS[_broadcast_to] = _broadcast_view


def _batched_broadcast_to(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    shape = metadata["shape"]
    (x,) = aligned(values, mapped, len(shape))
    return repeat(x, (size, *shape))


_broadcast_to.batch = _batched_broadcast_to


def _sum_to(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    return lambda ct: conform(ct, shape, dtype)


def repeat(x: Array, shape: tuple[int, ...]) -> Any:
    """Broadcast an array along axes of size 1 to a shape that is known to be compatible."""
    return apply(_broadcast_to, (x,), {"shape": shape})


@answers(np.broadcast_to)
def broadcast_to(array: Array, shape: object, subok: bool = False) -> Any:
    """Repeat an array along new axes and along axes of size 1."""
    array = as_array(array)
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"cannot broadcast shape {array.shape} to shape {shape}")
    return view(_broadcast_to, array, {"shape": shape})


def _concatenate_rule(ans: Array, *arrays: Array, axis: int) -> Callable[[Any], list[Any]]:
    places = _places(axis % ans.ndim, tuple([x.shape[axis] for x in arrays]))
    return lambda ct: [ct[place] for place in places]


@functools.lru_cache(maxsize=4096)
def _places(axis: int, sizes: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Return the keys of parts with the given sizes along an axis."""
    ends = list(itertools.accumulate(sizes))
    before = (slice(None),) * axis
    return [(*before, slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


_concatenate = jointly_linear(
    lambda *arrays, axis: np.concatenate(arrays, axis),
    _concatenate_rule,
    sample((2,), (3,), axis=0),
    sample((2, 3), (2, 1), (2, 0), axis=-1),
    sample((1, 3), (2, 3), axis=0),
    name="concatenate",
)


@answers(np.concatenate)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Array | None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays along an existing axis; with `axis=None`, flattened."""
    arrays = _cast_alike(arrays, dtype, casting)
    if axis is None:
        arrays, axis = [np.ravel(x) for x in arrays], 0
    axis = plain_axis(axis)
    return written("np.concatenate", out, apply(_concatenate, arrays, {"axis": axis}))


def _cast_alike(sequence: Sequence[Any], dtype: DTypeLike, casting: Any) -> list[Any]:
    """Return the arrays to be joined, converted to a dtype if one is given."""
    arrays: list[Any] = [as_array(x) for x in sequence]
    if dtype is None:
        return arrays
    np.concatenate([np.empty(0, x.dtype) for x in arrays], dtype=dtype, casting=casting)  # NumPy's checks
    return [METHODS["astype"](x, dtype) for x in arrays]


def promoted(x: Any) -> Any:
    """Return an argument for `np.result_type`: a dtype, or a Python number, which adapts to others."""
    if type(x) in (int, float, complex):
        return x
    dtype = as_array(x).dtype
    return dtype.type(0).item() if is_weak(x) else dtype


def _stack_rule(ans: Array, *arrays: Array, axis: int) -> Callable[[Any], list[Any]]:
    axis %= ans.ndim
    return lambda ct: list(np.moveaxis(ct, axis, 0) if axis else ct)


def _stacked(*arrays: Any, axis: int) -> Any:
    shape = arrays[0].shape
    is_simple = not axis and all([x.shape == shape and is_at_hand(x) for x in arrays])  # noqa: C419  # a generator takes twice the time
    if is_simple and (len(shape) < 2 or all(x.flags.c_contiguous for x in arrays)):
        return np.array(arrays)  # the same result several times faster, for numbers ten times
    return np.stack(arrays, axis)


_stack = jointly_linear(
    _stacked,
    _stack_rule,
    sample((), (), (), axis=0),
    sample((3,), (3,), axis=-1),
    sample((2, 3), (2, 3), axis=1),
    name="stack",
)


@answers(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Join arrays of one shape along a new axis.

    Args:
        arrays: a sequence of tensors, arrays, numbers, or nested lists of them.
        axis: the index of the new axis in the result.
        out: a tensor to write the result into.
        dtype: the dtype of the result; by default NumPy's promotion applies.
        casting: the allowed conversions to `dtype`, as in NumPy.

    Returns:
        A Tensor with one axis more than each of `arrays`.

    Raises:
        ValueError: the shapes differ, or there is nothing to stack.
        InPlaceError: a TypeError; `out` is a plain array, and an argument is traced.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: fg.stack([x, x * x])[1])(3.0)
        Tensor(6.)
    """
    arrays = _cast_alike(arrays, dtype, casting)
    return written("np.stack", out, apply(_stack, arrays, {"axis": plain_axis(axis)}))


def _joined(function: Callable[..., Any], prepare: Callable[[Any], Any], axis_of: Callable[[Any], int]) -> None:
    """Make `hstack` and its kin from `concatenate` of arrays with enough axes."""

    @answers(function)
    def join(tup: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Any:
        arrays = [prepare(as_array(x)) for x in tup]
        return concatenate(arrays, axis_of(arrays[0]), dtype=dtype, casting=casting)


def _at_least(ndim: int) -> Callable[[Any], Any]:
    """Return a function that adds axes to an array as NumPy's `atleast_1d`, `atleast_2d` or `atleast_3d` does."""

    def extend(x: Array) -> Any:
        if x.ndim >= ndim:
            return x
        if ndim == 3:
            return reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])
        return reshape(x, (1,) * (ndim - x.ndim) + tuple(x.shape))

    return extend


def _column(x: Array) -> Any:
    return reshape(x, (-1, 1)) if x.ndim < 2 else x


_joined(np.vstack, _at_least(2), lambda first: 0)
_joined(np.hstack, _at_least(1), lambda first: 0 if first.ndim == 1 else 1)
_joined(np.dstack, _at_least(3), lambda first: 2)


@answers(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Any:
    """Join vectors as the columns of a matrix; matrices are joined side by side."""
    return concatenate([_column(as_array(x)) for x in tup], 1)


def _read_only(x: Array) -> Any:
    """Return the array of an untraced tensor or variable, which cannot be written to; a number is a new array."""
    array = np.asarray(x)
    return array if array.shape else array.copy()


def _extending(function: Callable[..., Any], ndim: int) -> None:
    """Implement `atleast_1d` and its kin."""
    extend = _at_least(ndim)

    @answers(function)
    def extended(*arys: Array) -> Any:
        results = tuple(
            # SciPy passes the results to compiled code, which needs arrays.
            extend(as_array(x)) if traced(x) else function(_read_only(x))
            for x in arys
        )
        return results[0] if len(results) == 1 else results


_extending(np.atleast_1d, 1)
_extending(np.atleast_2d, 2)
_extending(np.atleast_3d, 3)


@answers(np.block)
def block(arrays: Sequence[Any]) -> Any:
    """Join arrays in nested lists: the innermost ones along the last axis, each outer level along the axis before."""
    depth = _depth(arrays)
    ndim = max(depth, *(x.ndim for x in _blocks(arrays)))

    def joined(part: Any, level: int) -> Any:
        if level == depth:
            x = as_array(part)
            return reshape(x, (1,) * (ndim - x.ndim) + tuple(x.shape))
        return concatenate([joined(each, level + 1) for each in part], level - depth)

    return joined(arrays, 0)


def _depth(arrays: ArrayLike) -> int:
    """Return the depth of nested lists.

    Raises:
        ValueError: a list is empty, or the depths differ.
    """
    if not isinstance(arrays, list):
        return 0
    depths = set(map(_depth, arrays))
    if len(depths) != 1:
        raise ValueError("the lists of np.block must all be nested equally deep, and none may be empty")
    return depths.pop() + 1


def _blocks(arrays: ArrayLike) -> list[Any]:
    if isinstance(arrays, list):
        return [x for each in arrays for x in _blocks(each)]
    return [as_array(arrays)]


@answers(np.broadcast_arrays)
def broadcast_arrays(*args: Array, subok: bool = False) -> tuple[Any, ...]:
    """Repeat arrays to the shape that they broadcast to."""
    arrays = [as_array(x) if holds_tensors(x) else np.asarray(x) for x in args]  # other arguments may hold any objects
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return tuple((broadcast_to if type(x) in BOXES else np.broadcast_to)(x, shape) for x in arrays)


@functools.lru_cache(maxsize=4096)
def _cuts(
    function: Callable[..., Any], shape: tuple[int, ...], sections: object, axis: int
) -> tuple[tuple[tuple[slice, ...], ...], bool]:
    """Return the keys of the parts made by NumPy's `split` or `array_split`, and whether they overlap."""
    function(np.broadcast_to(0, shape), sections, axis)  # NumPy's checks and messages
    numbers = np.arange(shape[axis])
    parts = function(numbers, sections)
    before, keys, start = (slice(None),) * (axis % len(shape)), [], 0
    for part in parts:
        start = int(part[0]) if len(part) else start
        keys.append((*before, slice(start, start + len(part))))
        start += len(part)
    return tuple(keys), not np.array_equal(np.concatenate(parts), numbers)


def _parts(x: Array, sections: object, axis: int) -> tuple[Any, ...]:
    keys, _ = _cuts(np.split, x.shape, sections, axis)
    return tuple([x[key] for key in keys])


_split = linear(
    _parts,
    lambda ans, x, sections, axis: lambda cts: np.concatenate(list(cts), axis),
    sample((6,), sections=3, axis=0),
    sample((2, 5), sections=(1, 3), axis=-1),
    name="split",
    batch=along_axis_batch,
    pattern=moved,
)


def _parting(function: Any) -> None:
    """Make `split` or `array_split` from the primitive and NumPy's split points."""

    @answers(function)
    def part(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Any]:
        ary, sections = as_array(ary), indices_or_sections
        if type(sections) is not int:
            sections = values_of(sections, f"np.{function.__name__}").tolist()
            sections = tuple(sections) if type(sections) is list else sections
        keys, overlap = _cuts(function, ary.shape, sections, plain_axis(axis))
        if overlap:
            return [ary[key] for key in keys]
        ends = tuple([key[-1].stop for key in keys[:-1]])
        pieces = apply(_split, (ary,), {"sections": ends, "axis": plain_axis(axis)})
        return [sliced(piece, ary, key) for piece, key in zip(pieces, keys, strict=True)]


def _parting_along(function: Callable[..., Any], axis_of: Callable[[Any], int]) -> None:
    """Make `hsplit` and its kin from `split` along their axis."""

    @answers(function)
    def part(ary: ArrayLike, indices_or_sections: Any) -> Any:
        ary = as_array(ary)
        function(np.broadcast_to(0, ary.shape), indices_or_sections)  # NumPy's checks and messages
        return np.split(ary, indices_or_sections, axis_of(ary))


_parting(np.split)
_parting(np.array_split)
_parting_along(np.hsplit, lambda x: 0 if x.ndim == 1 else 1)
_parting_along(np.vsplit, lambda x: 0)
_parting_along(np.dsplit, lambda x: 2)


@answers(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along an axis, with this axis removed."""
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    count = x.shape[axis]
    if count == 0:
        return ()
    axis = np.lib.array_utils.normalize_axis_index(plain_axis(axis), x.ndim)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    pieces = apply(_split, (x,), {"sections": count, "axis": axis})
    before = (slice(None),) * axis
    return tuple(sliced(reshaped(piece, shape), x, (*before, i)) for i, piece in enumerate(pieces))


# Shapes and dtypes, which need no values


@answers(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    return a.shape  # type: ignore[no-any-return]


@answers(np.ndim)
def ndim(a: Array) -> int:
    """Return the number of axes of a tensor."""
    return len(a.shape)


@answers(np.size)
def size(a: Array, axis: int | None = None) -> int:
    """Return the number of elements, or the size of one axis."""
    return int(np.size(np.broadcast_to(0, a.shape), axis))


@answers(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Return whether the dtype is complex."""
    return x.dtype.kind == "c"  # type: ignore[no-any-return]


@answers(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Return whether the dtype is not complex."""
    return x.dtype.kind != "c"  # type: ignore[no-any-return]


@answers(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype of NumPy's type promotion."""
    return np.result_type(*(x.dtype if type(x) in BOXES else x for x in arrays_and_dtypes))


@answers(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether a conversion is allowed; for a tensor, from its dtype."""
    from_, to = (x.dtype if type(x) in BOXES else x for x in (from_, to))
    return np.can_cast(from_, to, casting)


@answers(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype[Any]:
    """Return the smallest dtype that holds a number, which needs its concrete value; for arrays, their dtype."""
    dtype: np.dtype[Any] = a.dtype
    return dtype if a.ndim else np.min_scalar_type(values_of(a, "np.min_scalar_type")[()])


@answers(np.common_type)
def common_type(*arrays: Any) -> Any:
    """Return the inexact type that holds the elements of all arrays."""
    return np.common_type(*(np.empty(0, x.dtype) for x in arrays))


@answers(np.may_share_memory, np.shares_memory)
def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    """Return whether writes to one tensor can be visible in the other; they are never visible in an array."""
    if type(a) is not Tensor or type(b) is not Tensor or origin(a)[0] is not origin(b)[0]:
        return False
    return np.may_share_memory(layout(a), layout(b), max_work)
