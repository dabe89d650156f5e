"""Lowering of reductions, scans and extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.native.lowering import LOWERINGS, Program, axes_of, count_of, lowers
from fgrad.native.nodes import Node, Scan, Scatter
from fgrad.native.shapes import concatenated, sliced
from fgrad.typing import Axes

if TYPE_CHECKING:
    from fgrad.graphs.equations import Name

Rule = Callable[..., Node | None]


def _reduction_of(kind: str) -> Rule:
    def rule(
        program: Program, out: Name, x: Node, axis: Axes = None, keepdims: bool = False, **others: object
    ) -> Node | None:
        if others:
            return None
        own = {"max": "any", "min": "all"}.get(kind, kind) if out.dtype.kind == "b" else kind
        return program.reduced(own, program.cast(x, out.dtype), axis, keepdims, out.dtype)

    return rule


for _kind in ("sum", "prod", "max", "min", "any", "all"):
    LOWERINGS[_kind] = _reduction_of(_kind)


@lowers("mean")
def _mean(program: Program, out: Name, x: Node, axis: Axes = None, keepdims: bool = False) -> Node:
    total = program.reduced("sum", program.cast(x, out.dtype), axis, keepdims, out.dtype)
    return program.elementwise("divide", total, program.node(count_of(x.shape, axis), out.dtype))


def _extremum_of_numbers(kind: str, worst: float) -> Rule:
    """Return the lowering rule of an extremum that ignores NaN, and is NaN if all elements are."""

    def rule(program: Program, out: object, x: Node, axis: Axes = None, keepdims: bool = False) -> Node | None:
        if x.dtype.kind != "f":
            return _reduction_of(kind)(program, out, x, axis, keepdims)
        unknown = program.elementwise("isnan", x)
        kept = program.elementwise("select", unknown, program.node(worst, x.dtype), x)
        found = program.reduced(kind, kept, axis, keepdims, x.dtype)
        nothing = program.reduced("all", unknown, axis, keepdims, np.bool_)
        return program.elementwise("select", nothing, program.node(np.nan, x.dtype), found)

    return rule


LOWERINGS["nanmax"] = _extremum_of_numbers("max", -np.inf)
LOWERINGS["nanmin"] = _extremum_of_numbers("min", np.inf)


def _moved_to_end(ndim: int, axis: int) -> list[int]:
    """Return the axes with one of them moved to the end."""
    return [*(each for each in range(ndim) if each != axis), axis]


_LONGEST_ROW = 4096


def _index_of_extremum(kind: str) -> Callable[..., Any]:
    """Return the lowering rule of the index of an extremum: the first of equal elements, or the first NaN.

    The extremum is computed first, and then the smallest index where it occurs: two vectorized loops, faster than one
    scalar loop that tracks the index. The indices are a constant in memory; for long rows they would be larger than the
    data, and NumPy is faster.
    """

    def rule(program: Program, out: Name, x: Node, axis: Axes = None, keepdims: bool = False, **others: object) -> Any:
        if others or 0 in x.shape:
            return None
        x = program.cast(x, np.int8) if x.dtype.kind == "b" else x
        if axis is None:
            x, axis = program.reshaped(x, (x.size,)), 0
        if not x.shape:
            return program.zeros(out.shape, np.int64)
        (along,) = axes_of(x.shape, axis)
        if x.shape[along] > _LONGEST_ROW:
            return None
        best = program.reduced(kind, x, along, True, x.dtype)
        wanted = program.elementwise("equal", x, best)
        if x.dtype.kind == "f":
            wanted = program.elementwise("logical_or", wanted, program.elementwise("isnan", x))
        size = x.shape[along]
        numbers = program.array(np.arange(size, dtype=np.int64).reshape((-1, *[1] * (len(x.shape) - along - 1))))
        places = program.elementwise("select", wanted, numbers, program.node(size - 1, np.int64))
        return program.reshaped(program.reduced("min", places, along, False, np.int64), out.shape)

    return rule


LOWERINGS["argmax"] = _index_of_extremum("max")
LOWERINGS["argmin"] = _index_of_extremum("min")


def _cumulative(kind: str) -> Callable[..., Any]:
    def rule(program: Program, out: Name, x: Node, axis: int) -> Node | None:
        if out.dtype.kind == "b":
            return None
        order = _moved_to_end(len(x.shape), axis % len(x.shape))
        found = program.add(Scan(kind, program.permuted(program.cast(x, out.dtype), order)))
        return program.permuted(found, np.argsort(order).tolist())

    return rule


LOWERINGS["cumsum"] = _cumulative("sum")
LOWERINGS["cumprod"] = _cumulative("prod")


@lowers("logsumexp")
def _logsumexp(program: Program, out: Name, x: Node, axis: Axes = None, keepdims: bool = False) -> Node | None:
    if x.dtype.kind != "f" or x.dtype != out.dtype:
        return None
    largest = program.reduced("max", x, axis, True, x.dtype)
    total = program.reduced("sum", program.elementwise("share", x, largest), axis, True, x.dtype)
    # The largest element adds 1 to the total, so this changes it only where all elements are minus infinity.
    total = program.elementwise("maximum", total, program.node(1, x.dtype))
    found = program.elementwise("add", program.elementwise("log", total), largest)
    return program.reshaped(found, out.shape)


@lowers("cross")
def _cross(program: Program, out: Name, a: Node, b: Node) -> Node:
    parts = []
    for first, second in ((1, 2), (2, 0), (0, 1)):
        x, y = program.cast(a, out.dtype), program.cast(b, out.dtype)
        left, right = (
            program.elementwise("multiply", *(sliced(program, each, (..., place)) for each, place in pair))
            for pair in (((x, first), (y, second)), ((x, second), (y, first)))
        )
        part = program.elementwise("subtract", left, right)
        parts.append(program.broadcast(program.reshaped(part, (*part.shape, 1)), (*out.shape[:-1], 1)))
    return concatenated(program, parts, -1)


_FEW = 16


@lowers("segment_sums")
def _segment_sums(program: Program, out: Name, x: Node, starts: Sequence[int], axis: int) -> Node | None:
    """Return the sums from each start to the next; where the next start is not larger, the element at the start."""
    (axis,), starts = axes_of(x.shape, axis), [int(each) for each in starts]
    ends = [*starts[1:], x.shape[axis]]
    if x.dtype != out.dtype or 0 in x.shape or not starts:
        return None
    lead = (slice(None),) * axis
    if len(starts) <= _FEW:
        parts = [
            program.reduced("sum", sliced(program, x, (*lead, slice(a, max(b, a + 1)))), axis, True, x.dtype)
            for a, b in zip(starts, ends, strict=True)
        ]
        return concatenated(program, parts, axis)
    if any(a >= b for a, b in zip(starts, ends, strict=True)):
        return None
    order = [axis, *(each for each in range(len(x.shape)) if each != axis)]
    turned = program.permuted(sliced(program, x, (*lead, slice(starts[0], None))), order)
    numbers = program.array(np.repeat(np.arange(len(starts)), np.diff([*starts, x.shape[axis]])))
    found = program.add(Scatter(turned, [numbers], (len(starts), *turned.shape[1:])))
    return program.permuted(found, np.argsort(order).tolist())


@lowers("abs_squared")
def _abs_squared(program: Program, out: object, x: Node) -> Node | None:
    return program.elementwise("square", x) if x.dtype.kind == "f" else None


@lowers("hypot_squared")
def _hypot_squared(program: Program, out: Name, x: Any, y: Any) -> Node | None:
    if out.dtype.kind != "f":
        return None
    length = program.elementwise("hypot", program.cast(x, out.dtype), program.cast(y, out.dtype))
    return program.elementwise("square", length)
