"""Fusion of loop nests over rows: a row stays in the cache from one nest to the next.

    fuse_rows(items, stored, kept)     the items of a plan, with nests fused

The mean of a row, its variance, and the normalized row: each depends only on what the nests before have computed from
the same row. So one loop over rows executes all three nests. This pays off where the nests are bound by memory: for
large arrays, unless a nest computes exponentials or other expensive functions of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from fgrad.native.indices import Affine, Index, own_index, plus, source_index
from fgrad.native.nests import Nest, Rows, Write, memory_of, squeezed
from fgrad.native.nodes import (
    Concatenation,
    Elementwise,
    Gather,
    Input,
    Literal,
    Node,
    Projection,
    Reduction,
    Remap,
    Scan,
    Scatter,
    Shape,
)
from fgrad.native.scalars import Cost, cost_of

_SHORTEST = 64
"""Shortest last axis for which a loop along it is as fast as a loop over contiguous memory."""
_LARGE = 1 << 16
"""Size of an array from which it is evicted from the cache before the next nest reads it."""
_SEARCHED = 16
"""Number of preceding items searched for a nest to fuse with."""


@dataclass(frozen=True)
class _Access:
    """Elements of an array that a nest reads or writes at each of its indices.

    Attributes:
        array: the array in memory.
        index: the index of the element; None if it is not affine in the loop variables.
    """

    array: Node
    index: Index | None

    def loops(self) -> tuple[int, ...]:
        """Return, for each axis, the number of the loop whose variable is the index, -1 for none."""
        return tuple(map(_loop_of, self.index)) if self.index is not None else (-1,) * len(self.array.shape)


@dataclass(eq=False)
class _Unit:
    """Items executed together: one item, or several fused nests.

    Attributes:
        items: the items.
        makes, needs: the arrays that they write and read.
        written: the write access of nests, by array.
        read: the read accesses of nests.
        sizes: the loop sizes of the deepest nest.
        outer: the number of loops shared by fused nests.
        is_compute_bound: whether the nest is bound by computation rather than memory.
    """

    items: list[Any]
    makes: set[Node]
    needs: set[Node]
    written: dict[Node, _Access] = field(default_factory=dict)
    read: list[_Access] = field(default_factory=list)
    sizes: Shape = ()
    outer: int = 0
    is_compute_bound: bool = False


def fuse_rows(items: Sequence[Any], stored: Set[Node], kept: Iterable[Node]) -> list[Any]:
    """Return the items with nests fused over rows; values and their order of computation are unchanged.

    Args:
        items: nests and other items.
        stored: the arrays in memory.
        kept: those that are read outside of the items.
    """
    if not any(isinstance(item, Nest) and math.prod(item.writes[0].space) >= _LARGE for item in items):
        return [Rows([item]) if isinstance(item, Nest) else item for item in items]
    units: list[_Unit] = []
    for item in items:
        unit = _unit_of(item, stored)
        if not (isinstance(item, Nest) and _fuse(units, unit)):
            units.append(unit)
    wanted = {memory_of(node) for node in kept}
    touched = [each.needs | each.makes for each in units]  # another item may write a part of a concatenation
    return [_item_of(unit, wanted.union(*touched[:place], *touched[place + 1 :])) for place, unit in enumerate(units)]


def _unit_of(item: Any, stored: Set[Node]) -> _Unit:
    if not isinstance(item, Nest):
        return _Unit([item], {item}, {_producer(each) for each in item.arguments})
    written = {write.target: _Access(write.target, _write_index(write)) for write in item.writes}
    read = list(_reads(item, stored))
    needs, sizes = {_producer(each.array) for each in read}, squeezed(item.writes[0].space)
    return _Unit([item], set(written), needs, written, read, sizes, is_compute_bound=_is_compute_bound(item, stored))


def _producer(node: Node) -> Node:
    """Return the node that represents an array in dependences: for a result of a step, the step."""
    root = memory_of(node)
    return root.arguments[0] if isinstance(root, Projection) else root


def _fuse(units: list[_Unit], unit: _Unit) -> bool:
    """Fuse a nest into an earlier unit, if possible, and return whether it was."""
    for place in range(len(units) - 1, max(len(units) - _SEARCHED, 0) - 1, -1):
        other, between = units[place], units[place + 1 :]
        outer = _shared_loops(other, unit)
        if not outer:
            if other.makes & unit.needs:
                return False  # the nest cannot move before a unit on which it depends
            continue
        if any(each.makes & unit.needs for each in between):
            if any(each.needs & other.makes for each in between):
                return False
            units.append(units.pop(place))
        _merge(other, unit, outer)
        return True
    return False


def _merge(unit: _Unit, other: _Unit, outer: int) -> None:
    unit.items += other.items
    unit.makes |= other.makes
    unit.needs |= other.needs
    unit.written.update(other.written)
    unit.read += other.read
    unit.sizes, unit.outer = max(unit.sizes, other.sizes, key=len), outer


def _shared_loops(unit: _Unit, other: _Unit) -> int:
    """Return the number of loops that two units can share, where the second reads from the first; 0 for none."""
    if other.is_compute_bound or not (unit.read and unit.makes & other.needs and unit.makes.isdisjoint(other.makes)):
        return 0
    sizes = max(unit.sizes, other.sizes, key=len)
    count = min(len(unit.sizes), len(other.sizes), len(sizes) - 1)
    while count and unit.sizes[:count] != other.sizes[:count]:
        count -= 1
    for each in other.read:
        if each.array in unit.written:
            count = min(count, _shared_outer_loops(unit.written[each.array].loops(), each.loops()))
    if count <= 0 or count < unit.outer or math.prod(sizes) < _LARGE:
        return 0
    count = unit.outer or count
    along = [each[-1] for each in (unit.sizes, other.sizes) if len(each) > count]
    return count if min(along) >= _SHORTEST and all(map(_is_along_last_axis, (unit, other))) else 0


def _shared_outer_loops(written: tuple[int, ...], read: tuple[int, ...]) -> int:
    """Return the number of outermost loops that index the same axes in a write and a read."""
    same = {one for one, other in zip(written, read, strict=True) if one == other}
    return next(count for count in range(len(written) + 1) if count not in same)


def _is_along_last_axis(unit: _Unit) -> bool:
    """Return whether the last loop of each nest runs along the last axis of the arrays alone."""
    last = f"v{len(unit.sizes) - 1}"
    for each in (*unit.read, *unit.written.values()):
        if each.index is None:
            return False
        along = [x for x, size in zip(each.index, each.array.shape, strict=True) if size != 1]
        if any(name == last for x in along[:-1] for name, _ in x.terms):
            return False
    return True


def _item_of(unit: _Unit, wanted: Set[Node]) -> Any:
    """Return the item of a unit; of an array that only its own nests read, one row at a time is in memory."""
    nests = unit.items
    if not isinstance(nests[0], Nest):
        return nests[0]
    rows = Rows(nests, unit.outer)
    for write in rows.writes if unit.outer else ():
        loops = tuple(each if each < unit.outer else -1 for each in unit.written[write.target].loops())
        is_of_a_row = set(range(unit.outer)) <= set(loops) and _is_stored_once(write, unit.outer)
        if is_of_a_row and write.target not in wanted:
            rows.buffers[write.target] = loops
    return rows


def _is_stored_once(write: Write, outer: int) -> bool:
    """Return whether each element is stored once, not accumulated over iterations."""
    if not isinstance(write.target, Reduction):
        return True
    axes = [axis for axis, size in enumerate(write.space) if size != 1]
    return [axis for axis in axes if axis in write.target.axes] == axes[-1:] and len(axes) > outer


# Accesses


def _loop_of(along: Affine) -> int:
    is_plain = along.constant == 0 and len(along.terms) == 1 and along.terms[0][1] == 1
    return int(along.terms[0][0][1:]) if is_plain else -1


def _write_index(write: Write) -> Index | None:
    """Return the index at which a nest writes into an array."""
    index, target = own_index(write.space), write.target
    if isinstance(target, (Scatter, Scan)):
        return None
    if isinstance(target, Reduction):
        return tuple(each for axis, each in enumerate(index) if axis not in target.axes)
    if isinstance(target, Concatenation):
        moved = plus(index[write.axis], Affine(write.offset))
        return (*index[: write.axis], moved, *index[write.axis + 1 :])
    return index


def _reads(nest: Nest, stored: Set[Node]) -> Iterator[_Access]:
    """Yield the read accesses of a nest."""
    for node, index in _visited(nest, stored):
        if _is_read(nest, node, stored):
            yield _Access(memory_of(node), index if memory_of(node) is node else None)
        elif isinstance(node, Gather):
            yield _Access(memory_of(node.arguments[0]), None)


def _is_compute_bound(nest: Nest, stored: Set[Node]) -> bool:
    """Return whether a nest evaluates an expensive function of each of its elements."""
    size = math.prod(nest.writes[0].space)
    computed = [node for node, _ in _visited(nest, stored) if not _is_read(nest, node, stored)]
    operations = {node.operation for node in computed if isinstance(node, Elementwise) and node.size == size}
    return any(cost_of(each) is Cost.EXPENSIVE for each in operations)


def _is_read(nest: Nest, node: Node, stored: Set[Node]) -> bool:
    """Return whether an element is loaded from memory rather than computed in the nest."""
    root = memory_of(node)
    is_own = any(write.target is write.value is node for write in nest.writes)
    return isinstance(root, Input) or (root in stored and not is_own)


def _visited(nest: Nest, stored: Set[Node]) -> Iterator[tuple[Node, Index | None]]:
    """Yield the nodes computed or loaded, with their indices; None for an index that is not affine."""
    waiting: list[tuple[Node, Index | None]] = [(write.value, own_index(write.space)) for write in nest.writes]
    scattered = [write.target for write in nest.writes if isinstance(write.target, Scatter)]
    waiting += [(each, None) for target in scattered for each in target.arguments[1:]]
    seen: set[Any] = set()
    while waiting:
        node, index = waiting.pop()
        if (node, index) in seen or isinstance(node, Literal):
            continue
        seen.add((node, index))
        yield node, index
        if _is_read(nest, node, stored):
            continue
        if isinstance(node, Remap):
            waiting.append((node.arguments[0], _source_index(node, index)))
            waiting += [(fill, index if fill.shape == node.shape else ()) for fill in node.arguments[1:]]
        elif isinstance(node, Gather):
            waiting += [(each, index and index[: len(each.shape)]) for each in node.arguments[1:]]
        else:
            waiting += [(each, index if each.shape == node.shape else ()) for each in node.arguments]


def _source_index(node: Remap, index: Index | None) -> Index | None:
    """Return the index of an element in the source of a remap, unless bounds decide it."""
    if index is None or node.bounds or any(place.divisor != 1 for place in node.index_map):
        return None
    return source_index(node, index)
