"""Nests that go through the same rows one after the other, joined: a row stays in the cache from nest to nest.

    joined(items, stored, kept)     the items of a plan, with nests joined

The mean of a row, its variance, and what is left when the row is divided by that: each needs nothing but what the ones
before have made of the same row. So one loop over rows runs all three. This pays where memory is what takes the time,
which is so with large arrays, unless a nest computes exponentials or other functions of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from fgrad.native.indices import ZERO, Affine, Index, placed, plus, variable
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
"""Elements along the last axis from which on a loop over it is as good as one over all that lies in memory."""
_LARGE = 1 << 16
"""Elements from which on an array is far from the processor when the next nest comes."""
_SEARCHED = 16
"""How many items before a nest are looked at."""


@dataclass(frozen=True)
class _Access:
    """Elements of an array that are read or written at each index of a nest.

    Attributes:
        array: in memory.
        index: where; None where that is no sum of the loops' variables.
    """

    array: Node
    index: Index | None

    def loops(self) -> tuple[int, ...]:
        """Return the number of the loop whose variable alone is the index, for each axis; -1 for none."""
        return tuple(map(_loop_of, self.index)) if self.index is not None else (-1,) * len(self.array.shape)


@dataclass(eq=False)
class _Unit:
    """Items that run together: one of any kind, or several nests.

    Attributes:
        items: these.
        makes, needs: the arrays that they write, and that they read.
        written: where nests write, by array.
        read: where nests read.
        sizes: of the loops of the nest with most of them.
        outer: how many loops the nests share, if there are several.
        is_busy: whether memory is not what takes the time.
    """

    items: list[Any]
    makes: set[Node]
    needs: set[Node]
    written: dict[Node, _Access] = field(default_factory=dict)
    read: list[_Access] = field(default_factory=list)
    sizes: Shape = ()
    outer: int = 0
    is_busy: bool = False


def joined(items: Sequence[Any], stored: Set[Node], kept: Iterable[Node]) -> list[Any]:
    """Return items that do the same in the same order, but for nests that run row by row together.

    Args:
        items: nests, and what else there is.
        stored: the arrays that exist.
        kept: those that are needed elsewhere.
    """
    if not any(isinstance(item, Nest) and math.prod(item.writes[0].space) >= _LARGE for item in items):
        return [Rows([item]) if isinstance(item, Nest) else item for item in items]
    units: list[_Unit] = []
    for item in items:
        unit = _unit_of(item, stored)
        if not (isinstance(item, Nest) and _join(units, unit)):
            units.append(unit)
    wanted = {memory_of(node) for node in kept}
    touched = [each.needs | each.makes for each in units]  # a part of a joined array may be written elsewhere
    return [_item_of(unit, wanted.union(*touched[:place], *touched[place + 1 :])) for place, unit in enumerate(units)]


def _unit_of(item: Any, stored: Set[Node]) -> _Unit:
    if not isinstance(item, Nest):
        return _Unit([item], {item}, {_maker(each) for each in item.arguments})
    written = {write.target: _Access(write.target, _place_of(write)) for write in item.writes}
    read = list(_reads(item, stored))
    needs, sizes = {_maker(each.array) for each in read}, squeezed(item.writes[0].space)
    return _Unit([item], set(written), needs, written, read, sizes, is_busy=_is_busy(item, stored))


def _maker(node: Node) -> Node:
    """Return what stands for an array in the dependences of items: a result of a step stands for the step."""
    root = memory_of(node)
    return root.arguments[0] if isinstance(root, Projection) else root


def _join(units: list[_Unit], unit: _Unit) -> bool:
    """Let a nest run with others before it, and return whether there are such."""
    for place in range(len(units) - 1, max(len(units) - _SEARCHED, 0) - 1, -1):
        other, between = units[place], units[place + 1 :]
        outer = _shared(other, unit)
        if not outer:
            if other.makes & unit.needs:
                return False  # what comes before it cannot wait for the nest
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


def _shared(unit: _Unit, other: _Unit) -> int:
    """Return how many loops two units can share, of which the second one needs what the first one makes; 0: none."""
    if other.is_busy or not (unit.read and unit.makes & other.needs and unit.makes.isdisjoint(other.makes)):
        return 0
    sizes = max(unit.sizes, other.sizes, key=len)
    count = min(len(unit.sizes), len(other.sizes), len(sizes) - 1)
    while count and unit.sizes[:count] != other.sizes[:count]:
        count -= 1
    for each in other.read:
        if each.array in unit.written:
            count = min(count, _rows_in(unit.written[each.array].loops(), each.loops()))
    if count <= 0 or count < unit.outer or math.prod(sizes) < _LARGE:
        return 0
    count = unit.outer or count
    along = [each[-1] for each in (unit.sizes, other.sizes) if len(each) > count]
    return count if min(along) >= _SHORTEST and all(map(_is_straight, (unit, other))) else 0


def _rows_in(written: tuple[int, ...], read: tuple[int, ...]) -> int:
    """Return how many of the outermost loops are at the same place where an array is written and where it is read."""
    same = {one for one, other in zip(written, read, strict=True) if one == other}
    return next(count for count in range(len(written) + 1) if count not in same)


def _is_straight(unit: _Unit) -> bool:
    """Return whether the last loop of each nest goes along neighbours in memory, and bounds none of the first ones."""
    last = f"v{len(unit.sizes) - 1}"
    for each in (*unit.read, *unit.written.values()):
        if each.index is None:
            return False
        along = [x for x, size in zip(each.index, each.array.shape, strict=True) if size != 1]
        if any(name == last for x in along[:-1] for name, _ in x.terms):
            return False
    return True


def _item_of(unit: _Unit, wanted: Set[Node]) -> Any:
    """Return an item; of what only its own nests need, one row is in memory at a time."""
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
    """Return whether each element is stored once, and not added to from iteration to iteration."""
    if not isinstance(write.target, Reduction):
        return True
    axes = [axis for axis, size in enumerate(write.space) if size != 1]
    return [axis for axis in axes if axis in write.target.axes] == axes[-1:] and len(axes) > outer


# Where nests read and write


def _own_index(shape: Shape) -> Index:
    names = iter(range(len(shape)))
    return tuple([ZERO if size == 1 else variable(f"v{next(names)}") for size in shape])


def _loop_of(along: Affine) -> int:
    is_plain = along.constant == 0 and len(along.terms) == 1 and along.terms[0][1] == 1
    return int(along.terms[0][0][1:]) if is_plain else -1


def _place_of(write: Write) -> Index | None:
    """Return where a nest writes into an array."""
    index, target = _own_index(write.space), write.target
    if isinstance(target, (Scatter, Scan)):
        return None
    if isinstance(target, Reduction):
        return tuple(each for axis, each in enumerate(index) if axis not in target.axes)
    if isinstance(target, Concatenation):
        moved = plus(index[write.axis], Affine(write.offset))
        return (*index[: write.axis], moved, *index[write.axis + 1 :])
    return index


def _reads(nest: Nest, stored: Set[Node]) -> Iterator[_Access]:
    """Yield what a nest reads."""
    for node, index in _visited(nest, stored):
        if _is_read(nest, node, stored):
            yield _Access(memory_of(node), index if memory_of(node) is node else None)
        elif isinstance(node, Gather):
            yield _Access(memory_of(node.arguments[0]), None)


def _is_busy(nest: Nest, stored: Set[Node]) -> bool:
    """Return whether a nest computes something dear for each of its elements."""
    size = math.prod(nest.writes[0].space)
    computed = [node for node, _ in _visited(nest, stored) if not _is_read(nest, node, stored)]
    operations = {node.operation for node in computed if isinstance(node, Elementwise) and node.size == size}
    return any(cost_of(each) is Cost.DEAR for each in operations)


def _is_read(nest: Nest, node: Node, stored: Set[Node]) -> bool:
    """Return whether an element is read from memory, and not computed in the nest."""
    root = memory_of(node)
    is_own = any(write.target is write.value is node for write in nest.writes)
    return isinstance(root, Input) or (root in stored and not is_own)


def _visited(nest: Nest, stored: Set[Node]) -> Iterator[tuple[Node, Index | None]]:
    """Yield what is computed or read, and at which index; None where bounds or other elements decide."""
    waiting: list[tuple[Node, Index | None]] = [(write.value, _own_index(write.space)) for write in nest.writes]
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
            waiting.append((node.arguments[0], _moved(node, index)))
            waiting += [(fill, index if fill.shape == node.shape else ()) for fill in node.arguments[1:]]
        elif isinstance(node, Gather):
            waiting += [(each, index and index[: len(each.shape)]) for each in node.arguments[1:]]
        else:
            waiting += [(each, index if each.shape == node.shape else ()) for each in node.arguments]


def _moved(node: Remap, index: Index | None) -> Index | None:
    """Return where an element of an array that is moved comes from, unless bounds decide."""
    if index is None or node.bounds or any(place.divisor != 1 for place in node.places):
        return None
    sizes = node.arguments[0].shape
    return tuple(placed(place, index) if size != 1 else ZERO for place, size in zip(node.places, sizes, strict=True))
