"""How shapes, keys and choices are lowered: most are other indices, and vanish."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fgrad.native.lowering import Program, lowers
from fgrad.native.nodes import Bound, Literal, Moved, Node, Place, Shape, Term


@lowers("broadcast_to")
def _broadcast_to(program: Program, out: Any, x: Node, shape: Any) -> Node:
    return program.repeat(program.node(x), out.shape)


@lowers("reshape")
def _reshape(program: Program, out: Any, x: Node, shape: Any, order: str = "C") -> Node | None:
    if order == "C":
        return program.reshaped(x, out.shape)
    if order == "F":
        turned = program.permuted(x, range(len(x.shape))[::-1])
        return program.permuted(program.reshaped(turned, out.shape[::-1]), range(len(out.shape))[::-1])
    return None


@lowers("transpose")
def _transpose(program: Program, out: Any, x: Node, axes: Any = None) -> Node:
    count = len(x.shape)
    return program.permuted(x, range(count)[::-1] if axes is None else [each % count for each in axes])


@lowers("astype")
def _astype(program: Program, out: Any, x: Node, dtype: Any) -> Node | None:
    if x.dtype.kind == "f" and out.dtype.kind in "iu":
        return None  # what is out of range is the processor's to say
    return program.cast(x, out.dtype)


@lowers("stop_gradient", "sealed", "real", "conjugate", "positive")
def _same(program: Program, out: Any, x: Node, *others: Any, **metadata: Any) -> Node:
    return program.node(x, out.dtype)


@lowers("where")
def _where(program: Program, out: Any, condition: Node, a: Any, b: Any) -> Node:
    chosen = program.cast(a, out.dtype), program.cast(b, out.dtype)
    return program.pointwise("select", program.cast(condition, np.bool_), *chosen, dtype=out.dtype)


# Keys


def view_of(template: tuple[Any, ...], shape: Shape) -> tuple[list[tuple[str, int, int, int]], Shape]:
    """Return what a key of slices and integers takes from each axis, and the shape of the result.

    Returns:
        For each axis of the array: "at" with an index, or "along" with an axis of the result, start and step.
    """
    items = list(template)
    if Ellipsis not in [each for each in items if each is Ellipsis]:
        items.append(Ellipsis)
    place = next(place for place, each in enumerate(items) if each is Ellipsis)
    taken = sum(each is not None and each is not Ellipsis for each in items)
    items[place : place + 1] = [slice(None)] * (len(shape) - taken)
    axes: list[tuple[str, int, int, int]] = []
    result: list[int] = []
    for item in items:
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
    """Return `x[template]` for slices, integers, None and an ellipsis."""
    axes, shape = view_of(template, x.shape)
    places = [
        Place(first, ()) if kind == "at" else Place(start, (Term(first, step),) if shape[first] != 1 else ())
        for kind, first, start, step in axes
    ]
    if shape == x.shape and all(place == Place(0, (Term(axis, 1),)) for axis, place in enumerate(places)):
        return x
    return program.add(Moved(x, shape, places))


def put_into(program: Program, values: Node, template: tuple[Any, ...], shape: Shape, fill: Node) -> Node:
    """Return an array with `values` at a key of slices and integers, and `fill` elsewhere: a number, or an array."""
    axes, view = view_of(template, shape)
    values = program.repeat(values, view)
    places = [Place(0, ())] * len(view)
    bounds = []
    for axis, (kind, first, start, step) in enumerate(axes):
        if kind == "at":
            bounds.append(Bound(axis, first, 1, 1))
        else:
            bounds.append(Bound(axis, start, step, view[first]))
            sign = 1 if step > 0 else -1
            if view[first] != 1:
                places[first] = Place(-sign * start, (Term(axis, sign),), abs(step))
    bounds = [each for each in bounds if (each.start, each.step, each.number) != (0, 1, shape[each.axis])]
    return program.add(Moved(values, shape, places, bounds, fill if bounds else None))


@lowers("index")
def _index(program: Program, out: Any, x: Node, *arrays: Any, template: tuple[Any, ...]) -> Node | None:
    return None if arrays else sliced(program, x, template)


@lowers("scatter")
def _scatter(
    program: Program, out: Any, values: Node, *arrays: Any, template: tuple[Any, ...], shape: Shape
) -> Node | None:
    zero = program.add(Literal(0, out.dtype))
    return None if arrays else put_into(program, program.node(values, out.dtype), template, tuple(shape), zero)


@lowers("replace")
def _replace(
    program: Program, out: Any, x: Node, value: Any, *arrays: Any, template: Any, path: Any = (), lead: int = 0
) -> Node | None:
    """Return an array with another value at a key of a view, which is found by steps from the array."""
    if arrays or lead or any(step[0].name != "index" for step in path):
        return None
    keys = [step[1]["template"] for step in path]
    return _with_value(program, x, program.cast(value, out.dtype), [*keys, template])


def _with_value(program: Program, x: Node, value: Node, keys: Sequence[Any]) -> Node:
    if len(keys) > 1:
        value = _with_value(program, sliced(program, x, keys[0]), value, keys[1:])
    return put_into(program, value, keys[0], x.shape, x)


@lowers("split")
def _split(program: Program, out: Any, x: Node, sections: Any, axis: int) -> tuple[Node, ...]:
    axis %= len(x.shape)
    size = x.shape[axis]
    cuts = [size // sections * k for k in range(1, sections)] if isinstance(sections, int) else list(sections)
    ends = [0, *cuts, size]
    lead = (slice(None),) * axis
    return tuple(sliced(program, x, (*lead, slice(a, b))) for a, b in pairwise(ends))
