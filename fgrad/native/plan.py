"""Decide which arrays are stored, and in which loop nests they are computed.

    make_plan(nodes, outputs)      the loop nests, library calls and NumPy steps, in order of execution

An array that is not stored is computed where it is used. Stored are: results, operands of library calls and of NumPy
steps, reductions, and values that are expensive to recompute. Arrays over one index space that depend on each other
only at equal indices share a loop nest; nests that depend on each other only within a row are fused over rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fgrad.native.indices import Index, own_index, source_index, variable
from fgrad.native.nests import Nest, Rows, Write, memory_of, squeezed
from fgrad.native.nodes import (
    Concatenation,
    Elementwise,
    Gather,
    Input,
    LibraryCall,
    Literal,
    LoopNode,
    Node,
    NumpyStep,
    Projection,
    Reduction,
    Remap,
    Reshape,
    Scan,
    Scatter,
    Shape,
)
from fgrad.native.row_fusion import fuse_rows
from fgrad.native.scalars import Cost, cost_of

ALWAYS_STORED = (Reduction, Scan, Concatenation, Scatter, LibraryCall, NumpyStep, LoopNode, Projection)
"""Nodes that are always stored, and complete before any element is read."""
ON_WHOLE_ARRAYS = (LibraryCall, NumpyStep, LoopNode)
"""Nodes that read whole arrays."""

_WORTH_STORING = 10
"""Cost of recomputing an element above which it is stored."""
_MOST_CONTEXTS = 8
_LONG = 800
"""Number of nodes from which a program is split."""
_LARGEST_BODY = 200
"""Number of nodes in a nest above which another nest is started."""

Item = Rows | LibraryCall | NumpyStep | LoopNode


@dataclass(eq=False)
class Plan:
    """The items to execute, in order.

    Attributes:
        items: loop nests (`Rows`), `LibraryCall`s, `NumpyStep`s and `LoopNode`s.
        stored: the arrays in memory, apart from inputs.
        homes: the inputs in whose memory results are stored, by the array of the result.
    """

    items: list[Item]
    stored: set[Node]
    homes: Mapping[Node, Node] = field(default_factory=dict)

    def memory_shapes(self) -> dict[Node, Shape]:
        """Return the shapes in memory of arrays of which only some rows are stored at a time."""
        return {
            node: form for item in self.items if isinstance(item, Rows) for node, form in item.memory_shapes().items()
        }

    def projections(self) -> dict[Node, list[Projection]]:
        """Return the used results of each NumPy step and each loop, in order."""
        found: dict[Node, list[Projection]] = {}
        for node in sorted(
            (each for each in self.stored if isinstance(each, Projection)), key=lambda node: node.number
        ):
            found.setdefault(node.arguments[0], []).append(node)
        return found


def make_plan(nodes: Sequence[Node], outputs: Iterable[Node]) -> Plan:
    """Return the plan that computes the outputs."""
    outputs = list(outputs)
    needed = _needed(nodes, outputs)
    stored = _stored(needed, outputs)
    return Plan(fuse_rows(_items(needed, stored), stored, outputs), stored)


def _needed(nodes: Sequence[Node], outputs: list[Node]) -> list[Node]:
    """Return the nodes on which the outputs depend, operands first."""
    used = set(outputs)
    for node in reversed(nodes):
        if node in used:
            used.update(node.arguments)
    return [node for node in nodes if node in used]


# Stored arrays


def _stored(needed: list[Node], outputs: list[Node]) -> set[Node]:
    stored = {memory_of(node) for node in outputs}
    for node in needed:
        if isinstance(node, ALWAYS_STORED):
            stored.add(node)
        if isinstance(node, ON_WHOLE_ARRAYS):
            stored.update(map(memory_of, node.arguments))
        elif isinstance(node, Reshape):
            stored.add(memory_of(node))
        elif isinstance(node, Gather):
            stored.add(memory_of(node.arguments[0]))
    stored = {node for node in stored if not isinstance(node, Input)}
    stored |= _splits(needed, stored)
    return _with_expensive(needed, stored)


def _splits(needed: list[Node], stored: set[Node]) -> set[Node]:
    """Return the nodes to store so as to split long programs: LLVM's compile time grows faster than a loop body."""
    if len(needed) < _LONG:
        return set()
    cuts: set[Node] = set()
    places = {node: place for place, node in enumerate(needed)}
    lengths: dict[Node, int] = {}
    for node in needed:
        lengths[node] = 0
        if isinstance(node, (Input, Literal, Reshape)) or node in stored:
            continue
        for each in node.arguments:
            if isinstance(each, Elementwise) and places[node] - places[each] > _LONG // 4:
                cuts.add(each)
            elif each not in cuts:
                lengths[node] = max(lengths[node], lengths[each] + 1)
        if lengths[node] > _LONG // 8 and isinstance(node, Elementwise):
            cuts.add(node)
            lengths[node] = 0
    return cuts - stored


def _own_cost(node: Node) -> int:
    if isinstance(node, Elementwise):
        return cost_of(node.operation)
    return 1 if isinstance(node, Remap) and node.bounds else 0


def _costs(needed: list[Node], stored: set[Node]) -> dict[Node, int]:
    """Return the cost of computing an element of each node from stored arrays."""
    costs: dict[Node, int] = {}
    for node in needed:
        costs[node] = _own_cost(node)
        if not isinstance(node, (*ALWAYS_STORED, Reshape)):
            costs[node] += sum([0 if each in stored else costs[each] for each in node.arguments])
        costs[node] = min(costs[node], 1 << 20)
    return costs


_Context = tuple[int, Shape, Index]
"""Context of the computation of an element: depth in reductions and scans, index space, index."""


def _with_expensive(needed: list[Node], stored: set[Node]) -> set[Node]:
    """Add the nodes that several nests or indices use and that are expensive to recompute."""
    levels = _depths(needed)
    costs = _costs(needed, stored)
    contexts: dict[Node, dict[_Context, None]] = {node: {} for node in needed}  # in order, each once
    for node in reversed(needed):
        # A remap is not stored: where its elements are expensive, its source is.
        if node not in stored and not isinstance(node, (Input, Literal, Reshape, Remap)):
            again = min(len(contexts[node]), _MOST_CONTEXTS) - 1
            is_expensive = costs[node] >= Cost.EXPENSIVE or (costs[node] and _is_in_windows(contexts[node]))
            if costs[node] * again > _WORTH_STORING or (is_expensive and _is_expanded(node, contexts[node])):
                stored.add(node)
            elif len(contexts[node]) > _MOST_CONTEXTS:
                contexts[node] = dict.fromkeys(list(contexts[node])[:_MOST_CONTEXTS])
        if isinstance(node, (*ON_WHOLE_ARRAYS, Projection, Input, Literal, Reshape)):
            continue
        for place, argument in enumerate(node.arguments):
            if isinstance(argument, (Input, Literal)) or argument in stored:
                continue
            if node in stored:
                space = node.arguments[0].shape if isinstance(node, ALWAYS_STORED) else node.shape
                space = argument.shape if isinstance(node, Concatenation) else space
                at: Iterable[_Context] = [(levels[node], squeezed(space), own_index(space))]
            else:
                at = contexts[node]
            contexts[argument].update(
                dict.fromkeys((level, space, _index_of(node, place, index)) for level, space, index in at)
            )
    return stored


def _index_of(node: Node, place: int, index: Index) -> Index:
    """Return the index at which an operand is read for a node at an index, where bounds hold."""
    argument = node.arguments[place]
    if isinstance(node, Remap) and place == 0:
        pairs = zip(source_index(node, index), node.index_map, strict=True)
        return tuple([x if each.divisor == 1 else variable(f"{x}/{each.divisor}") for x, each in pairs])
    if isinstance(node, (Gather, Scatter)) and place:
        return index[: len(argument.shape)]
    return index if len(argument.shape) == len(index) else ()


def _is_expanded(node: Node, contexts: Iterable[_Context]) -> bool:
    """Return whether an array is computed in an index space of at least twice its size."""
    return any(math.prod(space) >= 2 * node.size for _, space, _ in contexts)


def _is_in_windows(contexts: Iterable[_Context]) -> bool:
    """Return whether an index depends on several loop variables along an axis, as in a moving sum."""
    return any(len(along.terms) > 1 for _, _, index in contexts for along in index)


def _depths(needed: list[Node]) -> dict[Node, int]:
    """Return the number of `ALWAYS_STORED` nodes on the longest path to each node."""
    levels: dict[Node, int] = {}
    for node in needed:
        waits = [levels[each] + isinstance(memory_of(each), ALWAYS_STORED) for each in node.arguments]
        levels[node] = max(waits, default=0)
    return levels


# Loop nests


class _Levels:
    """Levels of the schedule: an item at a level depends only on items at lower ones.

    Attributes:
        done: the level at which each stored node is written.
        earliest: for other nodes, the first level at which a nest over the node's shape can compute its elements.
        latest: for other nodes, the last level of their stored dependences; -1 for none.
    """

    def __init__(self, stored: set[Node]) -> None:
        self._stored = stored
        self.done: dict[Node, int] = {}
        self.earliest: dict[Node, int] = {}
        self.latest: dict[Node, int] = {}

    def last(self, node: Node) -> int:
        """Return the last level of the stored dependences of a node, itself included."""
        node = memory_of(node)
        return self.done[node] if node in self._stored else self.latest[node]

    def at(self, node: Node, space: Shape) -> int:
        """Return the first level at which a nest over a space can compute a node's elements at the nest's own index."""
        if isinstance(node, (Input, Literal)):
            return 0
        if isinstance(node, Reshape) or squeezed(node.shape) != squeezed(space):
            return self.last(node) + 1
        if node in self._stored:
            return self.done[node] + isinstance(node, ALWAYS_STORED)
        return self.earliest[node]

    def note(self, node: Node) -> None:
        """Set the level of a node, whose operands have theirs."""
        if isinstance(node, Reshape):
            return
        if isinstance(node, ON_WHOLE_ARRAYS):
            level = max([self.last(each) + 1 for each in node.arguments], default=0)
        elif isinstance(node, Projection):
            level = self.done[node.arguments[0]]
        else:
            level = max(self._levels_of_arguments(node), default=0)
        if node in self._stored:
            self.done[node] = level
        else:
            self.earliest[node] = level
            self.latest[node] = max([self.last(each) for each in node.arguments], default=-1)

    def _levels_of_arguments(self, node: Node) -> list[int]:
        if isinstance(node, (Remap, Gather)):
            return [self.last(each) + 1 for each in node.arguments]
        if isinstance(node, Scatter):
            values, *indices = node.arguments
            return [self.at(values, values.shape), *[self.last(x) + 1 for x in indices]]
        if isinstance(node, (Reduction, Scan, Concatenation)):
            return [self.at(each, each.shape) for each in node.arguments]
        return [self.at(each, node.shape) for each in node.arguments]


def _items(needed: list[Node], stored: set[Node]) -> list[Nest | LibraryCall | NumpyStep | LoopNode]:
    levels = _Levels(stored)
    found: dict[int, list[Nest | LibraryCall | NumpyStep | LoopNode]] = {}
    nests: dict[tuple[int, Shape, Node | None], Nest] = {}
    bodies: dict[tuple[int, Shape, Node | None], set[Node]] = {}

    def write(level: int, each: Write) -> None:
        # A sum over windows reads little memory, and is fastest in its own nest.
        is_alone = isinstance(each.target, Reduction) and any(
            map(_has_overlapping_windows, _add_body(each, stored, set()))
        )
        key = level, squeezed(each.space), each.target if is_alone else None
        if key not in nests or len(bodies[key]) > _LARGEST_BODY:
            nests[key], bodies[key] = Nest(), set()
            found.setdefault(level, []).append(nests[key])
        nests[key].writes.append(each)
        _add_body(each, stored, bodies[key])

    for node in needed:
        levels.note(node)
        if node not in stored or isinstance(node, Projection):
            continue
        level = levels.done[node]
        if isinstance(node, ON_WHOLE_ARRAYS):
            found.setdefault(level, []).append(node)
        elif isinstance(node, Concatenation):
            for each in _writes_of(node):
                write(levels.at(each.value, each.space), each)
        elif isinstance(node, (Reduction, Scan, Scatter)):
            write(level, Write(node, node.arguments[0]))
        else:
            write(level, Write(node, node))
    return [each for level in sorted(found) for each in found[level]]


def _add_body(write: Write, stored: set[Node], body: set[Node]) -> set[Node]:
    """Add the nodes computed for a write to the body of a nest, and return the body."""
    waiting = [write.value]
    while waiting:
        node = waiting.pop()
        if node not in body and (node is write.target or (node not in stored and not isinstance(node, Input))):
            body.add(node)
            if not isinstance(node, Reshape):
                waiting += node.arguments
    return body


def _has_overlapping_windows(node: Node) -> bool:
    """Return whether a node reads overlapping windows of its source."""
    return isinstance(node, Remap) and any(len(place.terms) > 1 for place in node.index_map)


def _writes_of(node: Concatenation) -> list[Write]:
    writes, offset = [], 0
    for part in node.arguments:
        writes.append(Write(node, part, node.axis, offset))
        offset += part.shape[node.axis]
    return writes
