"""Lowering of computed indices: `x[i, j]` with integer arrays, `take`, `put`, counts.

An index may be negative or out of range. An index known at compile time is wrapped then. Any other is wrapped and
clamped at run time, and a run with an index out of range fails: NumPy repeats it, and raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.core.shapes import broadcast_shapes
from fgrad.native.calls import append_copy
from fgrad.native.ir import Builder, Type, Value, integer
from fgrad.native.linkage import Linkage
from fgrad.native.llvm_text import Used, printed
from fgrad.native.lowering import Program, lowers
from fgrad.native.memory import strides_in_order
from fgrad.native.nodes import Gather, Input, LibraryCall, Literal, Node, Remap, Scatter, Shape
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import scalar_of
from fgrad.native.shapes import items_of, put_into, sliced, view_of
from fgrad.ops.indexing import ARRAY

if TYPE_CHECKING:
    from fgrad.graphs.equations import Name

_INTEGER = np.dtype(np.int64)


def constant_of(program: Program, node: Node) -> Any:
    """Return the value of a constant node, None for any other node."""
    if isinstance(node, Literal):
        return np.asarray(node.value)
    if isinstance(node, Input):
        return program.constants.get(node)
    if isinstance(node, Remap) and node.arguments[0].shape == () and not node.bounds:
        number = constant_of(program, node.arguments[0])
        return None if number is None else np.broadcast_to(number, node.shape)
    return None


def in_range(program: Program, index: Node, size: int, wraps: bool = True) -> Node:
    """Return indices along an axis, wrapped and clamped to `[0, size)`."""
    known = constant_of(program, index)
    if known is not None and known.dtype.kind in "iu":
        known = known.astype(_INTEGER)
        if ((known >= (-size if wraps else 0)) & (known < size)).all():
            return program.array(np.where(known < 0, known + size, known))
    index = program.cast(index, _INTEGER)
    low, high = (program.node(each, _INTEGER) for each in (0, size - 1))
    if wraps:
        is_negative = program.elementwise("less", index, low)
        length = program.node(size, _INTEGER)
        index = program.elementwise("select", is_negative, program.elementwise("add", index, length), index)
    kept = program.elementwise("minimum", program.elementwise("maximum", index, low), high)
    program.add_failure(program.elementwise("not_equal", kept, index))
    return kept


# Keys of slices, integers and arrays


def _are_adjacent(template: Sequence[Any]) -> bool:
    """Return whether arrays and integers are adjacent in a key, so that the axes of the arrays stay there."""
    places = [place for place, each in enumerate(template) if _is_advanced(each)]
    return places[-1] - places[0] == len(places) - 1


def _is_advanced(item: object) -> bool:
    return item is ARRAY or isinstance(item, (int, np.integer))


def flat_indices(program: Program, template: Sequence[Any], arrays: Sequence[Node], shape: Shape) -> Node:
    """Return the flat indices of the elements at a key, in the shape of `x[key]`."""
    items = items_of(template, len(shape))
    view, _ = view_of(tuple(slice(None) if each is ARRAY else each for each in template), shape)
    strides = strides_in_order(shape)
    own = broadcast_shapes(*[each.shape for each in arrays])
    before = next(place for place, each in enumerate(items) if _is_advanced(each)) if _are_adjacent(template) else 0
    offsets, total, axis = np.zeros((), _INTEGER), None, 0
    lengths: list[int] = []
    rest = iter(arrays)
    count = sum(each is None or isinstance(each, slice) for each in items)
    for item in items:
        if item is ARRAY:
            index = in_range(program, next(rest), shape[axis])
            part = program.elementwise("multiply", index, program.node(strides[axis], _INTEGER))
            total = part if total is None else program.elementwise("add", total, part)
        elif isinstance(item, slice):
            _, _, start, step = view[axis]
            lengths.append(len(range(*item.indices(shape[axis]))))
            line = (start + step * np.arange(lengths[-1])) * strides[axis]
            behind = count - len(lengths) + (len(own) if len(lengths) <= before else 0)
            offsets = offsets + line.reshape((-1, *[1] * behind))
        elif item is None:
            lengths.append(1)
        else:
            offsets = offsets + view[axis][1] * strides[axis]
        axis += item is not None
    assert total is not None
    total = program.reshaped(program.broadcast(total, own), (*own, *[1] * (count - before)))
    total = program.elementwise("add", total, program.array(offsets))
    return program.broadcast(total, (*lengths[:before], *own, *lengths[before:]))


def _without_masks(
    program: Program, template: tuple[Any, ...], arrays: Sequence[Node]
) -> tuple[list[Any], list[Node]] | None:
    """Return a key with constant masks replaced by integers; None if a mask is not constant."""
    items: list[Any] = []
    nodes: list[Node] = []
    rest = iter(arrays)
    for item in template:
        if item is not ARRAY:
            items.append(item)
            continue
        array = next(rest)
        if array.dtype.kind != "b":
            items.append(ARRAY)
            nodes.append(array)
            continue
        known = constant_of(program, array)
        if known is None or not known.ndim:
            return None
        found = [program.array(each) for each in np.nonzero(known)]
        items += [ARRAY] * len(found)
        nodes += found
    return items, nodes


def _key(program: Program, template: tuple[Any, ...], arrays: Sequence[Any], shape: Shape) -> Node | None:
    """Return the flat indices of a key with arrays, None if only NumPy can evaluate it."""
    found = _without_masks(program, template, [program.node(each) for each in arrays])
    if found is None or 0 in shape:
        return None
    return flat_indices(program, found[0], found[1], shape)


def gathered(program: Program, x: Node, template: tuple[Any, ...], arrays: Sequence[Any]) -> Node | None:
    """Return `x[key]` for a key with arrays."""
    if all(each is ARRAY for each in template) and all(program.node(each).dtype.kind != "b" for each in arrays):
        if 0 in x.shape:
            return None
        own = broadcast_shapes(*[program.node(each).shape for each in arrays])
        indices = [
            program.broadcast(in_range(program, program.node(each), size), own)
            for each, size in zip(arrays, x.shape, strict=False)
        ]
        return program.add(Gather(x, indices))
    places = _key(program, template, arrays, x.shape)
    return places and program.add(Gather(program.reshaped(x, (x.size,)), [places]))


@lowers("index")
def _index(program: Program, out: object, x: Node, *arrays: object, template: tuple[Any, ...]) -> Node | None:
    return gathered(program, x, template, arrays) if arrays else sliced(program, x, template)


@lowers("scatter")
def _scatter(
    program: Program, out: Name, values: Node, *arrays: object, template: tuple[Any, ...], shape: Shape
) -> Node | None:
    values, shape = program.cast(values, out.dtype), tuple(shape)
    if not arrays:
        return put_into(program, values, template, shape, program.node(0, out.dtype))
    places = _key(program, template, arrays, shape)
    return places and _scattered(program, program.broadcast(values, places.shape), places, shape)


def _scattered(program: Program, values: Node, places: Node, shape: Shape) -> Node:
    """Return zeros of a shape to which values are added at flat indices."""
    flat = [program.reshaped(each, (each.size,)) for each in (values, places)]
    found = program.add(Scatter(flat[0], [flat[1]], (math.prod(shape),)))
    return program.reshaped(found, shape)


@lowers("replace")
def _replace(
    program: Program,
    out: Name,
    x: Node,
    value: Any,
    *arrays: object,
    template: tuple[Any, ...],
    path: tuple[Any, ...] = (),
    lead: int = 0,
) -> Node | None:
    """Return an array with the value at a key of a view replaced; `path` has the steps from the array to the view."""
    x, value = program.cast(x, out.dtype), program.cast(value, out.dtype)
    if not lead and not arrays and all(step[0].name == "index" for step in path):
        return _with_value(program, x, value, [*(step[1]["template"] for step in path), template])
    if lead or path:
        return None
    nodes = [program.node(each) for each in arrays]
    if len(template) == 1 and nodes[0].dtype.kind == "b" and constant_of(program, nodes[0]) is None:
        return _masked(program, x, value, nodes[0])
    places = _key(program, template, nodes, x.shape)
    return places and put(program, x, value, places)


def _with_value(program: Program, x: Node, value: Node, keys: Sequence[Any]) -> Node:
    if len(keys) > 1:
        value = _with_value(program, sliced(program, x, keys[0]), value, keys[1:])
    return put_into(program, value, keys[0], x.shape, x)


def _masked(program: Program, x: Node, value: Node, mask: Node) -> Node | None:
    """Return an array with a value where a mask is true; None unless all elements of the mask get the same value."""
    rest = len(x.shape) - len(mask.shape)
    if len(value.shape) > rest or mask.shape != x.shape[: len(mask.shape)]:
        return None
    mask = program.reshaped(mask, (*mask.shape, *[1] * rest))
    return program.elementwise("select", mask, value, x)


def put(program: Program, x: Node, values: Node, places: Node) -> Node:
    """Return an array with values at flat indices replaced; the last value for an index wins."""
    known = constant_of(program, places)
    while len(values.shape) > len(places.shape):  # NumPy allows additional leading axes of size 1 in a value
        values = program.reshaped(values, values.shape[1:])
    values = program.broadcast_operand(values, places.shape)
    if known is None:
        return program.add(LibraryCall("put", x.shape, x.dtype, [x, values, places]))
    order = np.full(x.size, -1, _INTEGER)
    order[known.reshape(-1)] = np.arange(known.size)
    order = order.reshape(x.shape)
    if values.shape and known.size:
        values = program.reshaped(values, (values.size,))
        values = program.add(Gather(values, [program.array(np.maximum(order, 0))]))
    return program.elementwise("select", program.array(order >= 0), values, x) if known.size else x


def _write_put(item: LibraryCall, pointer: Callable[[Node], Value], linkage: Linkage) -> tuple[str, Used]:
    """Return a function that copies an array and stores values into the copy."""
    x, values, places = map(pointer, item.arguments)
    kind, code, result = scalar_of(item.dtype).stored, Builder(), pointer(item)
    append_copy(code, result, x, item.nbytes)
    with code.loop(item.arguments[2].size) as each:
        value = code.load(kind, code.address(values, kind, each if item.arguments[1].shape else integer(0)))
        place = code.load(Type.I64, code.address(places, Type.I64, each))
        code.store(value, code.address(result, kind, place))
    return printed(code.body)


ROUTINES["put"] = _write_put


# Permutations, counts


def _indices_along(program: Program, x: Node, order: Node, axis: int) -> Node:
    """Return the flat indices of the elements selected by an order along an axis."""
    axis %= len(x.shape)
    strides = strides_in_order(x.shape)
    index = in_range(program, order, x.shape[axis])
    total = program.elementwise("multiply", index, program.node(strides[axis], _INTEGER))
    offsets = np.zeros((), _INTEGER)
    for each, size in enumerate(x.shape):
        line = np.arange(size if each != axis else 1) * strides[each] * (each != axis)
        offsets = offsets + line.reshape((-1, *[1] * (len(x.shape) - each - 1)))
    return program.elementwise("add", total, program.array(offsets))


@lowers("permute")
def _permute(program: Program, out: Name, x: Node, order: Any, axis: int) -> Node | None:
    order = program.node(order)
    if 0 in x.shape or 0 in out.shape:
        return program.zeros(out.shape, out.dtype) if 0 in out.shape else None
    places = program.broadcast(_indices_along(program, x, order, axis), out.shape)
    return program.add(Gather(program.reshaped(x, (x.size,)), [places]))


@lowers("unpermute")
def _unpermute(program: Program, out: Name, x: Node, order: object, axis: int) -> Node | None:
    if 0 in x.shape:
        return program.zeros(out.shape, out.dtype)
    places = program.broadcast(_indices_along(program, x, program.node(order), axis), x.shape)
    return put(program, program.zeros(x.shape, x.dtype), x, places)


@lowers("tally")
def _tally(program: Program, out: Name, weights: Node, places: Any, length: int) -> Node | None:
    if out.shape != (length,) or 0 in (length, weights.size):
        return program.zeros(out.shape, out.dtype)
    places = in_range(program, program.node(places), length, wraps=False)
    return _scattered(program, program.cast(weights, out.dtype), program.broadcast(places, weights.shape), out.shape)
