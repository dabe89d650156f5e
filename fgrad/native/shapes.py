"""Lowering of shape operations, basic indexing and selections: mostly index arithmetic, which needs no loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.native.lowering import Program, lowers
from fgrad.native.nodes import AffineIndex, AffineTerm, Bound, Concatenation, Node, Remap, Shape, axis_index

if TYPE_CHECKING:
    from fgrad.graphs.equations import Name


@lowers("broadcast_to")
def _broadcast_to(program: Program, out: Name, x: Node, shape: tuple[int, ...]) -> Node:
    return program.broadcast(program.node(x), out.shape)


@lowers("reshape")
def _reshape(program: Program, out: Name, x: Node, shape: tuple[int, ...], order: str = "C") -> Node | None:
    if order == "C":
        return program.reshaped(x, out.shape)
    if order == "F":
        turned = program.permuted(x, range(len(x.shape))[::-1])
        return program.permuted(program.reshaped(turned, out.shape[::-1]), range(len(out.shape))[::-1])
    return None


@lowers("transpose")
def _transpose(program: Program, out: object, x: Node, axes: Any = None) -> Node:
    count = len(x.shape)
    return program.permuted(x, range(count)[::-1] if axes is None else [each % count for each in axes])


@lowers("astype")
def _astype(program: Program, out: Name, x: Node, dtype: object) -> Node | None:
    if x.dtype.kind == "f" and out.dtype.kind in "iu":
        return None  # out-of-range values: processor-dependent in NumPy, poison in LLVM
    return program.cast(x, out.dtype)


@lowers("stop_gradient", "sealed", "real", "conjugate", "positive")
def _same(program: Program, out: Name, x: Node, *others: object, **metadata: object) -> Node:
    return program.node(x, out.dtype)


@lowers("where")
def _where(program: Program, out: Name, condition: Node, a: object, b: object) -> Node:
    chosen = program.cast(a, out.dtype), program.cast(b, out.dtype)
    return program.elementwise("select", program.cast(condition, np.bool_), *chosen)


# Keys


def items_of(template: Sequence[Any], ndim: int) -> list[Any]:
    """Return a key with one item for each axis, apart from None, and without an ellipsis."""
    items = list(template)
    count = sum(each is not None and each is not Ellipsis for each in items)
    place = next((place for place, each in enumerate(items) if each is Ellipsis), len(items))
    return [*items[:place], *[slice(None)] * (ndim - count), *items[place + 1 :]]


def view_of(template: tuple[Any, ...], shape: Shape) -> tuple[list[tuple[str, int, int, int]], Shape]:
    """Return the selection of a basic key along each axis, and the shape of the result.

    Returns:
        For each axis of the array: ("at", index), or ("along", axis of the result, start, step).
    """
    axes: list[tuple[str, int, int, int]] = []
    result: list[int] = []
    for item in items_of(template, len(shape)):
        if item is None:
            result.append(1)
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[len(axes)])
            axes.append(("along", len(result), start, step))
            result.append(len(range(start, stop, step)))
        else:
            axes.append(("at", int(item) % max(shape[len(axes)], 1), 0, 0))
    return axes, tuple(result)


def sliced(program: Program, x: Node, template: tuple[Any, ...]) -> Node:
    """Return `x[template]` for a basic key: slices, integers, None and an ellipsis."""
    axes, shape = view_of(template, x.shape)
    places = [
        AffineIndex(first, ())
        if kind == "at"
        else AffineIndex(start, (AffineTerm(first, step),) if shape[first] != 1 else ())
        for kind, first, start, step in axes
    ]
    if shape == x.shape and all(place == axis_index(axis) for axis, place in enumerate(places)):
        return x
    return program.add(Remap(x, shape, places))


def put_into(program: Program, values: Node, template: tuple[Any, ...], shape: Shape, fill: Node) -> Node:
    """Return an array with `values` at a basic key, and `fill` elsewhere: a scalar, or an array."""
    axes, view = view_of(template, shape)
    values = program.broadcast(values, view)
    places = [AffineIndex(0, ())] * len(view)
    bounds = []
    for axis, (kind, first, start, step) in enumerate(axes):
        if kind == "at":
            bounds.append(Bound(axis, first, 1, 1))
        else:
            bounds.append(Bound(axis, start, step, view[first]))
            sign = 1 if step > 0 else -1
            if view[first] != 1:
                places[first] = AffineIndex(-sign * start, (AffineTerm(axis, sign),), abs(step))
    bounds = [each for each in bounds if (each.start, each.step, each.number) != (0, 1, shape[each.axis])]
    return program.add(Remap(values, shape, places, bounds, fill if bounds else None))


@lowers("split")
def _split(program: Program, out: object, x: Node, sections: Any, axis: int) -> tuple[Node, ...]:
    axis %= len(x.shape)
    size = x.shape[axis]
    cuts = [size // sections * k for k in range(1, sections)] if isinstance(sections, int) else list(sections)
    ends = [0, *cuts, size]
    lead = (slice(None),) * axis
    return tuple(sliced(program, x, (*lead, slice(a, b))) for a, b in pairwise(ends))


# Concatenation


def concatenated(program: Program, parts: Sequence[Node], axis: int) -> Node:
    """Return the concatenation of arrays along an axis."""
    axis %= len(parts[0].shape)
    kept = [part for part in parts if part.shape[axis]] or list(parts[:1])
    return kept[0] if len(kept) == 1 else program.add(Concatenation(kept, axis))


@lowers("concatenate")
def _concatenate(program: Program, out: Name, *arrays: Any, axis: int) -> Node:
    return concatenated(program, [program.cast(x, out.dtype) for x in arrays], axis)


@lowers("stack")
def _stack(program: Program, out: Name, *arrays: Any, axis: int) -> Node:
    axis %= len(out.shape)
    shape = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
    return concatenated(program, [program.reshaped(program.cast(x, out.dtype), shape) for x in arrays], axis)


@lowers("roll")
def _roll(program: Program, out: object, x: Node, shift: Sequence[int], axis: Sequence[int]) -> Node:
    for each, along in zip(shift, axis, strict=True):
        along %= len(x.shape)
        size = x.shape[along]
        cut = -each % size if size else 0
        lead = (slice(None),) * along
        if cut:
            parts = [sliced(program, x, (*lead, slice(cut, None))), sliced(program, x, (*lead, slice(cut)))]
            x = concatenated(program, parts, along)
    return x


@lowers("difference")
def _difference(program: Program, out: object, x: Node, axis: int) -> Node | None:
    if x.dtype.kind == "b":
        return None
    lead = (slice(None),) * (axis % len(x.shape))
    ends = [sliced(program, x, (*lead, each)) for each in (slice(1, None), slice(None, -1))]
    return program.elementwise("subtract", *ends)


# Diagonals and windows


@lowers("diagonal")
def _diagonal(program: Program, out: Name, x: Node, offset: int) -> Node:
    last = len(out.shape) - 1
    places = [axis_index(axis) for axis in range(last)]
    along = (AffineTerm(last, 1),) if out.shape[last] != 1 else ()
    places += [AffineIndex(max(-offset, 0), along), AffineIndex(max(offset, 0), along)]
    return program.zeros(out.shape, out.dtype) if 0 in out.shape else program.add(Remap(x, out.shape, places))


@lowers("diagonal_matrix")
def _diagonal_matrix(program: Program, out: Name, x: Node, shape: Any, offset: int) -> Node:
    """Return values on a diagonal: a slice of the flattened matrix with a constant step."""
    if not x.size:
        return program.zeros(out.shape, out.dtype)
    rows, columns = shape
    first = max(-offset, 0) * columns + max(offset, 0)
    key = (Ellipsis, slice(first, first + (x.shape[-1] - 1) * (columns + 1) + 1, columns + 1))
    flat = (*x.shape[:-1], rows * columns)
    return program.reshaped(put_into(program, x, key, flat, program.node(0, out.dtype)), out.shape)


@lowers("sliding_windows")
def _sliding_windows(program: Program, out: Name, x: Node, sizes: Sequence[int], axes: Sequence[int]) -> Node:
    terms = [[AffineTerm(axis, 1)] for axis in range(len(x.shape))]
    for place, axis in enumerate(axes):
        terms[axis].append(AffineTerm(len(x.shape) + place, 1))
    kept = [[term for term in each if out.shape[term.axis] != 1] for each in terms]
    return program.add(Remap(x, out.shape, [AffineIndex(0, tuple(each)) for each in kept]))


@lowers("by_diagonals")
def _by_diagonals(program: Program, out: Name, x: Node, columns: int) -> Node:
    """Return matrices with values constant along their diagonals, from the lower left to the upper right."""
    lead = len(x.shape) - 1
    rows = out.shape[-2]
    terms = [AffineTerm(axis, sign) for axis, sign in ((lead, -1), (lead + 1, 1)) if out.shape[axis] != 1]
    places = [*(axis_index(axis) for axis in range(lead)), AffineIndex(rows - 1, tuple(terms))]
    return program.add(Remap(x, out.shape, places))


# Composite operations


@lowers("imag")
def _imag(program: Program, out: Name, x: Node) -> Node:
    return program.zeros(out.shape, out.dtype)


@lowers("round")
def _round(program: Program, out: object, x: Node, decimals: int = 0) -> Node | None:
    """Return values rounded as in NumPy: scaled by a power of ten, rounded to integers, and scaled back."""
    if x.dtype.kind != "f":
        return x if decimals >= 0 else None
    power = program.node(10.0 ** abs(decimals), x.dtype)
    forth, back = ("multiply", "divide") if decimals >= 0 else ("divide", "multiply")
    whole = program.elementwise("rint", program.elementwise(forth, x, power) if decimals else x)
    return program.elementwise(back, whole, power) if decimals else whole


_MOST_COEFFICIENTS = 32


@lowers("polyval")
def _polyval(program: Program, out: Name, p: Node, x: Any) -> Node | None:
    """Return a polynomial by Horner's rule, which starts with 0 times `x` as in NumPy."""
    if 0 in out.shape:
        return program.zeros(out.shape, out.dtype)
    if not p.shape or p.shape[0] > _MOST_COEFFICIENTS:
        return None
    x, found = program.cast(x, out.dtype), program.node(0, out.dtype)
    for place in range(p.shape[0]):
        coefficient = program.cast(sliced(program, p, (place,)), out.dtype)
        found = program.elementwise("add", program.elementwise("multiply", found, x), coefficient)
    return program.broadcast(found, out.shape)
