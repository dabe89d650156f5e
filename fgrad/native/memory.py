"""Memory layout of arrays that are views of other arrays: matrices that BLAS reads without a copy.

strides_of(node)      the strides, as far as they are known
matrices_of(node)     the array whose memory is read, and the layout of a stack of matrices in it
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fgrad.native.nests import memory_of
from fgrad.native.nodes import Elementwise, Input, Node, Remap, Shape
from fgrad.native.plan import ALWAYS_STORED

Along = tuple[int, tuple[int, ...]]
"""An affine index along an axis: a constant, and a coefficient for each index."""


class View(NamedTuple):
    """A strided view: `node[i, j, ...]` is the element `offset + i * strides[0] + j * strides[1] + ...` of `root`."""

    root: Node
    offset: int
    strides: tuple[int, ...]


class Matrices(NamedTuple):
    """Memory layout of a stack of matrices, in elements.

    Attributes:
        offset: the offset of the first matrix.
        strides: the strides along each axis of the stack.
        is_transposed: whether columns are contiguous, rather than rows.
        leading: the stride between rows, or between columns if these are contiguous.
    """

    offset: int
    strides: tuple[int, ...]
    is_transposed: bool
    leading: int


def strides_in_order(shape: Shape) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _through(node: Node) -> View:
    """Return the view through slices, transposes and broadcasts to their source."""
    count = len(node.shape)
    along: list[Along] = [(0, tuple(int(axis == own) for own in range(count))) for axis in range(count)]
    while isinstance(node, Remap) and not node.bounds and all(place.divisor == 1 for place in node.index_map):
        source: list[Along] = []
        for place in node.index_map:
            offset = place.offset + sum(along[axis][0] * factor for axis, factor in place.terms)
            terms = [sum(along[axis][1][own] * factor for axis, factor in place.terms) for own in range(count)]
            source.append((offset, tuple(terms)))
        node, along = node.arguments[0], source
    steps = strides_in_order(node.shape)
    own = tuple(sum(terms[axis] * step for (_, terms), step in zip(along, steps, strict=True)) for axis in range(count))
    return View(node, sum(offset * step for (offset, _), step in zip(along, steps, strict=True)), own)


def strides_of(node: Node) -> tuple[int, ...]:
    """Return the strides of an array in memory; for a computed array, those of an array that it reads."""
    view = _through(node)
    for _ in range(8):
        root = view.root
        same = [each for each in root.arguments if each.shape == root.shape] if isinstance(root, Elementwise) else []
        if not same or view.strides == () or view.strides != strides_in_order(root.shape):
            return view.strides
        view = _through(same[0])
    return view.strides


def matrices_of(node: Node) -> tuple[Node, Matrices]:
    """Return the array whose memory is read for a stack of matrices, and their layout.

    It is the stack itself if neither rows nor columns are contiguous, or if a larger array would be stored for it.
    """
    view = _through(node)
    exists = isinstance(memory_of(view.root), (Input, *ALWAYS_STORED))
    if exists or view.root.size <= node.size:
        found = _matrices(node.shape, view)
        if found is not None:
            return view.root, found
    own = _matrices(node.shape, View(node, 0, strides_in_order(node.shape)))
    assert own is not None
    return node, own


def _matrices(shape: Shape, view: View) -> Matrices | None:
    *steps, down, right = view.strides
    rows, columns = shape[-2:]
    if (right == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrices(view.offset, tuple(steps), False, down if rows > 1 else max(columns, 1))
    if (down == 1 or rows == 1) and (right >= rows or columns == 1):
        return Matrices(view.offset, tuple(steps), True, right if columns > 1 else max(rows, 1))
    return None
