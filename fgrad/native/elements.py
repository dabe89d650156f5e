"""Elements of arrays at an index of a nest of loops, in LLVM's language.

The value of a node at an index is computed from those of its arguments, each once. Graphs may be deep, so what is still
to be computed lies on a list, and not on Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np

from fgrad.native.indices import ZERO, Affine, Index, in_code, interval, placed, plus, variable
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Bound, Gathered, Given, Literal, Moved, Node, Pointwise, Shape
from fgrad.native.scalars import OPERATIONS, Code, convert, literal, scalar_of, select

Key = tuple[Node, Index]

KEPT = Affine(0, (("as it is", 1),))
"""Stands for an index that is not replaced by another one."""


class Pointers:
    """The memory that a function is handed: a name for each array, and for each place in it where an index begins.

    Functions that differ in nothing but these places are one.

    Attributes:
        order: the arrays and the number of elements before the place, by which the function's parameters are named.
        buffers: arrays of which a part is in memory at a time: the index for each axis, or `KEPT`, and their shapes.
    """

    def __init__(self, stored: Set[Node]) -> None:
        self._stored = stored
        self.order: dict[tuple[Node, int], str] = {}
        self.buffers: dict[Node, tuple[Index, Shape]] = {}

    def has(self, node: Node) -> bool:
        """Return whether an array exists."""
        root = memory_of(node)
        return root in self._stored or isinstance(root, Given)

    def at(self, node: Node, offset: int = 0) -> str:
        """Return the name of an array's memory, from an element on."""
        return self.order.setdefault((memory_of(node), offset), f"%p{len(self.order)}")

    def names_of(self, nodes: Iterable[Node]) -> set[str]:
        """Return all names for the memory of arrays."""
        roots = set(map(memory_of, nodes))
        return {name for (root, _), name in self.order.items() if root in roots}


class Values:
    """Computes elements in the body of a nest.

    Args:
        code: where instructions go.
        pointers: the memory of the arrays that exist.
        ranges: what the variables of the loops run through, ends included.

    Attributes:
        own: the arrays that the nest writes, whose elements are computed and not read.
        cuts: by variable, where an array begins or ends within its range: parted there, the loop needs not ask.
        steps: for each element that is read or written, how far it moves in memory with each variable.
    """

    def __init__(self, code: Code, pointers: Pointers, ranges: dict[str, tuple[int, int]]) -> None:
        self.code, self.pointers, self.ranges = code, pointers, ranges
        self.own: set[Node] = set()
        self.cuts: dict[str, set[int]] = {}
        self.steps: list[dict[str, int]] = []
        self._known: dict[Key, str] = {}
        self._sums: dict[Affine, str] = {}
        self._moves: dict[Key, tuple[str, Index]] = {}

    def at(self, node: Node, index: Index) -> str:
        """Return the name of an element."""
        waiting = [(node, index)]
        known = self._known
        while waiting:
            key = waiting[-1]
            if key in known:
                waiting.pop()
                continue
            needed = [each for each in self._needed(*key) if each not in known]
            if needed:
                waiting += reversed(needed)
            else:
                known[key] = self._computed(*key)
                waiting.pop()
        return known[node, index]

    def _is_stored(self, node: Node) -> bool:
        """Return whether an element is to be read from memory, and not computed in this nest."""
        return node not in self.own and self.pointers.has(node)

    def _needed(self, node: Node, index: Index) -> list[Key]:
        if isinstance(node, Literal) or self._is_stored(node):
            return []
        if isinstance(node, Pointwise):
            return [(each, index if each.shape == node.shape else ()) for each in node.arguments]
        if isinstance(node, Moved):
            inside, moved = self._move(node, index)
            fill = [] if inside == "true" else [self._fill(node, index)]
            return fill if inside == "false" else [(node.arguments[0], moved), *fill]
        assert isinstance(node, Gathered), node
        return self._indices_of(node, index)

    def _fill(self, node: Moved, index: Index) -> Key:
        """Return what stands outside of the bounds: a number, or the element of an array of the same shape."""
        fill = node.arguments[1]
        return fill, index if fill.shape == node.shape else ()

    def _indices_of(self, node: Node, index: Index) -> list[Key]:
        first = node.arguments[1]
        return [(each, index[: len(first.shape)]) for each in node.arguments[1:]]

    def _computed(self, node: Node, index: Index) -> str:
        if isinstance(node, Literal):
            return literal(node.value, node.dtype)
        if self._is_stored(node):
            return self._loaded(node, index)
        known, code = self._known, self.code
        if isinstance(node, Pointwise):
            arguments = [known[each, index if each.shape == node.shape else ()] for each in node.arguments]
            return operation(code, node, arguments)
        if isinstance(node, Moved):
            inside, moved = self._move(node, index)
            if inside == "true":
                return known[node.arguments[0], moved]
            fill = known[self._fill(node, index)]
            if inside == "false":
                return fill
            return select(code, scalar_of(node.dtype), inside, known[node.arguments[0], moved], fill)
        keys = self._indices_of(node, index)
        places = [variable(self._integer(known[key], key[0])) for key in keys]
        return self._loaded(node.arguments[0], (*places, *index[len(keys[0][1]) :]))

    def _integer(self, value: str, node: Node) -> str:
        """Return an index as an integer of 64 bits, with a name."""
        wide = convert(self.code, value, scalar_of(node.dtype), scalar_of(np.dtype(np.int64)))
        return wide if wide.startswith("%") else self.code.do(f"add i64 {wide}, 0")

    def integer(self, node: Node, index: Index) -> Affine:
        """Return an element as an index."""
        return variable(self._integer(self.at(node, index), node))

    # Memory

    def address(self, node: Node, index: Index) -> str:
        """Return where an element lies."""
        shape = node.shape
        if node in self.pointers.buffers:
            row, shape = self.pointers.buffers[node]
            index = tuple(each if own is KEPT else own for each, own in zip(index, row, strict=True))
        flat, stride = ZERO, 1
        for size, each in zip(reversed(shape), reversed(index), strict=True):
            flat = plus(flat, each, stride)
            stride *= size
        self.steps.append(dict(flat.terms))
        pointer = self.pointers.at(node, max(flat.constant, 0))
        flat = Affine(min(flat.constant, 0), flat.terms)
        kind = scalar_of(node.dtype)
        return self.code.do(f"getelementptr inbounds {kind.stored}, ptr {pointer}, i64 {self._sum(flat)}")

    def _sum(self, affine: Affine) -> str:
        return in_code(self.code, affine, self._sums)

    def _loaded(self, node: Node, index: Index) -> str:
        kind = scalar_of(node.dtype)
        found = self.code.do(f"load {kind.stored}, ptr {self.address(node, index)}")
        return self.code.do(f"icmp ne i8 {found}, 0") if kind.family == "bool" else found

    def load(self, node: Node, index: Index) -> str:
        """Read an element anew."""
        return self._loaded(node, index)

    def store(self, node: Node, index: Index, value: str) -> None:
        """Write an element."""
        kind = scalar_of(node.dtype)
        if kind.family == "bool":
            value = self.code.do(f"zext i1 {value} to i8")
        self.code.lines.append(f"  store {kind.stored} {value}, ptr {self.address(node, index)}")

    # Indices

    def _move(self, node: Moved, index: Index) -> tuple[str, Index]:
        """Return whether an index is inside of the bounds, and where the element lies then."""
        key = node, index
        if key not in self._moves:
            self._moves[key] = self._moved(node, index)
        return self._moves[key]

    def _moved(self, node: Moved, index: Index) -> tuple[str, Index]:
        inside, fixed = "true", list(index)
        for bound in node.bounds:
            here, fixed[bound.axis] = self._bounded(bound, index[bound.axis])
            if "false" in (here, inside):
                inside = "false"
            elif here != "true":
                inside = here if inside == "true" else self.code.do(f"and i1 {inside}, {here}")
        source = node.arguments[0]
        moved = []
        for place, size in zip(node.places, source.shape, strict=True):
            along = placed(place, tuple(fixed)) if size != 1 else ZERO
            moved.append(along if place.divisor == 1 else self._quotient(along, place.divisor))
        return inside, tuple(moved)

    def _quotient(self, along: Affine, divisor: int) -> Affine:
        if along.constant % divisor == 0 and all(coefficient % divisor == 0 for _, coefficient in along.terms):
            return Affine(along.constant // divisor, tuple((n, c // divisor) for n, c in along.terms))
        return variable(self.code.do(f"sdiv i64 {self._sum(along)}, {divisor}"))

    def _bounded(self, bound: Bound, along: Affine) -> tuple[str, Affine]:
        """Return whether an index keeps within a bound, and one that does, which is the same if so."""
        start, step, count = bound.start, bound.step, bound.number
        if step < 0:
            start, step = start + step * (count - 1), -step
        if count == 0:
            return "false", along
        last = start + step * (count - 1)
        reach = interval(along, self.ranges)
        if reach is not None and (reach[1] < start or reach[0] > last):
            return "false", along
        code, checks = self.code, []
        if reach is None or reach[0] < start or reach[1] > last:
            self._note_cuts(along, start, last + 1)
            shifted = self._sum(plus(along, Affine(-start)))
            checks.append(code.do(f"icmp ult i64 {shifted}, {last - start + 1}"))
        if step > 1 and not self._divides(plus(along, Affine(-start)), step):
            rest = code.do(f"urem i64 {self._sum(plus(along, Affine(-start)))}, {step}")
            checks.append(code.do(f"icmp eq i64 {rest}, 0"))
        if not checks:
            return "true", along
        inside = checks[0] if len(checks) == 1 else code.do(f"and i1 {checks[0]}, {checks[1]}")
        return inside, variable(code.do(f"select i1 {inside}, i64 {self._sum(along)}, i64 {start}"))

    def _note_cuts(self, along: Affine, start: int, stop: int) -> None:
        """Note at which values of a variable an index comes into a range, and leaves it."""
        if len(along.terms) != 1 or along.terms[0][0] not in self.ranges or abs(along.terms[0][1]) != 1:
            return
        ((name, sign),) = along.terms
        for end in (start, stop):
            at = end - along.constant if sign > 0 else along.constant - end + 1
            if self.ranges[name][0] < at <= self.ranges[name][1]:
                self.cuts.setdefault(name, set()).add(at)

    def _divides(self, along: Affine, step: int) -> bool:
        return along.constant % step == 0 and all(coefficient % step == 0 for _, coefficient in along.terms)


def operation(code: Code, node: Pointwise, arguments: list[str]) -> str:
    """Emit an operation on elements."""
    kind = scalar_of(node.arguments[-1].dtype)
    if node.operation == "cast":
        return convert(code, arguments[0], kind, scalar_of(node.dtype))
    if node.operation == "select":
        return select(code, kind, *arguments)
    return OPERATIONS[node.operation](code, kind, *arguments)
