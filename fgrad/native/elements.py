"""Elements of arrays at an index of a nest of loops, in the loop language.

The value of a node at an index is computed from those of its arguments, each once. Graphs may be deep, so what is still
to be computed lies on a list, and not on Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np

from fgrad.native.indices import ZERO, Affine, Index, append_index, interval, plus, source_index, variable
from fgrad.native.ir import FALSE, TRUE, Builder, Constant, Op, Parameter, Value, Variable, integer
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Bound, Elementwise, Gather, Input, Literal, Node, Remap, Shape
from fgrad.native.scalars import SCALAR_OPERATIONS, convert, literal, loaded, scalar_of, store

Key = tuple[Node, Index]


class Pointers:
    """The memory that a function takes: a parameter for each array, and for each place in it where an index begins.

    Functions that differ in nothing but these places are one.

    Attributes:
        order: the function's parameters, by array and number of elements before the place.
        buffers: arrays of which a part is in memory at a time: the index along each axis, None for that of the element,
            and their shapes.
    """

    def __init__(self, stored: Set[Node]) -> None:
        self._stored = stored
        self.order: dict[tuple[Node, int], Parameter] = {}
        self.buffers: dict[Node, tuple[tuple[Affine | None, ...], Shape]] = {}

    def has(self, node: Node) -> bool:
        """Return whether an array exists."""
        root = memory_of(node)
        return root in self._stored or isinstance(root, Input)

    def at(self, node: Node, offset: int = 0) -> Parameter:
        """Return an array's memory, from an element on."""
        key = memory_of(node), offset
        if key not in self.order:
            self.order[key] = Parameter(f"p{len(self.order)}", is_noalias=True)
        return self.order[key]

    def all_of(self, nodes: Iterable[Node]) -> set[Parameter]:
        """Return all parameters in the memory of arrays."""
        roots = set(map(memory_of, nodes))
        return {parameter for (root, _), parameter in self.order.items() if root in roots}

    def note_writes(self, nodes: Iterable[Node]) -> None:
        """Note that arrays are written: where several parameters lead to one of them, none is alone."""
        for node in nodes:
            parameters = self.all_of([node])
            for each in parameters if len(parameters) > 1 else ():
                each.is_noalias = False


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

    def __init__(self, code: Builder, pointers: Pointers, ranges: dict[Variable, tuple[int, int]]) -> None:
        self.code, self.pointers, self.ranges = code, pointers, ranges
        self.own: set[Node] = set()
        self.cuts: dict[Variable, set[int]] = {}
        self.steps: list[dict[Variable, int]] = []
        self._known: dict[Key, Value] = {}
        self._sums: dict[Affine, Value] = {}
        self._moves: dict[Key, tuple[Value, Index]] = {}

    def at(self, node: Node, index: Index) -> Value:
        """Return an element."""
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
        if isinstance(node, Elementwise):
            return [(each, index if each.shape == node.shape else ()) for each in node.arguments]
        if isinstance(node, Remap):
            inside, moved = self._move(node, index)
            fill = [] if inside is TRUE else [self._fill(node, index)]
            return fill if inside is FALSE else [(node.arguments[0], moved), *fill]
        assert isinstance(node, Gather), node
        return self._indices_of(node, index)

    def _fill(self, node: Remap, index: Index) -> Key:
        """Return what stands outside of the bounds: a number, or the element of an array of the same shape."""
        fill = node.arguments[1]
        return fill, index if fill.shape == node.shape else ()

    def _indices_of(self, node: Node, index: Index) -> list[Key]:
        first = node.arguments[1]
        return [(each, index[: len(first.shape)]) for each in node.arguments[1:]]

    def _computed(self, node: Node, index: Index) -> Value:
        if isinstance(node, Literal):
            return literal(node.value, node.dtype)
        if self._is_stored(node):
            return self.load(node, index)
        known, code = self._known, self.code
        if isinstance(node, Elementwise):
            arguments = [known[each, index if each.shape == node.shape else ()] for each in node.arguments]
            return operation(code, node, arguments)
        if isinstance(node, Remap):
            inside, moved = self._move(node, index)
            if inside is TRUE:
                return known[node.arguments[0], moved]
            fill = known[self._fill(node, index)]
            if inside is FALSE:
                return fill
            return code.select(inside, known[node.arguments[0], moved], fill)
        keys = self._indices_of(node, index)
        places = [self._integer(known[key], key[0]) for key in keys]
        return self.load(node.arguments[0], (*places, *index[len(keys[0][1]) :]))

    def _integer(self, value: Value, node: Node) -> Affine:
        """Return an element's value as an index, of 64 bits."""
        wide = convert(self.code, value, scalar_of(node.dtype), scalar_of(np.dtype(np.int64)))
        return Affine(wide.integer) if isinstance(wide, Constant) else variable(wide)

    def integer(self, node: Node, index: Index) -> Affine:
        """Return an element as an index."""
        return self._integer(self.at(node, index), node)

    # Memory

    def address(self, node: Node, index: Index) -> Value:
        """Return where an element lies."""
        shape = node.shape
        if node in self.pointers.buffers:
            row, shape = self.pointers.buffers[node]
            index = tuple(each if own is None else own for each, own in zip(index, row, strict=True))
        flat, stride = ZERO, 1
        for size, each in zip(reversed(shape), reversed(index), strict=True):
            flat = plus(flat, each, stride)
            stride *= size
        self.steps.append(dict(flat.terms))
        pointer = self.pointers.at(node, max(flat.constant, 0))
        flat = Affine(min(flat.constant, 0), flat.terms)
        return self.code.address(pointer, scalar_of(node.dtype).stored, self._sum(flat))

    def _sum(self, affine: Affine) -> Value:
        return append_index(self.code, affine, self._sums)

    def load(self, node: Node, index: Index) -> Value:
        """Read an element anew."""
        return loaded(self.code, scalar_of(node.dtype), self.address(node, index))

    def store(self, node: Node, index: Index, value: Value) -> None:
        """Write an element."""
        store(self.code, scalar_of(node.dtype), value, self.address(node, index))

    # Indices

    def _move(self, node: Remap, index: Index) -> tuple[Value, Index]:
        """Return whether an index is inside of the bounds, and where the element lies then."""
        key = node, index
        if key not in self._moves:
            self._moves[key] = self._moved(node, index)
        return self._moves[key]

    def _moved(self, node: Remap, index: Index) -> tuple[Value, Index]:
        inside: Value = TRUE
        fixed = list(index)
        for bound in node.bounds:
            here, fixed[bound.axis] = self._bounded(bound, index[bound.axis])
            if here is FALSE or inside is FALSE:
                inside = FALSE
            elif here is not TRUE:
                inside = here if inside is TRUE else self.code.both(inside, here)
        source = node.arguments[0]
        moved = []
        for place, size in zip(node.index_map, source.shape, strict=True):
            along = source_index(place, tuple(fixed)) if size != 1 else ZERO
            moved.append(along if place.divisor == 1 else self._quotient(along, place.divisor))
        return inside, tuple(moved)

    def _quotient(self, along: Affine, divisor: int) -> Affine:
        if along.constant % divisor == 0 and all(coefficient % divisor == 0 for _, coefficient in along.terms):
            return Affine(along.constant // divisor, tuple((n, c // divisor) for n, c in along.terms))
        return variable(self.code.binary(Op.SDIV, self._sum(along), integer(divisor)))

    def _bounded(self, bound: Bound, along: Affine) -> tuple[Value, Affine]:
        """Return whether an index keeps within a bound, and one that does, which is the same if so."""
        start, step, count = bound.start, bound.step, bound.number
        if step < 0:
            start, step = start + step * (count - 1), -step
        if count == 0:
            return FALSE, along
        last = start + step * (count - 1)
        reach = interval(along, self.ranges)
        if reach is not None and (reach[1] < start or reach[0] > last):
            return FALSE, along
        code, checks = self.code, []
        if reach is None or reach[0] < start or reach[1] > last:
            self._note_cuts(along, start, last + 1)
            shifted = self._sum(plus(along, Affine(-start)))
            checks.append(code.compare("ult", shifted, integer(last - start + 1)))
        if step > 1 and not self._divides(plus(along, Affine(-start)), step):
            rest = code.binary(Op.UREM, self._sum(plus(along, Affine(-start))), integer(step))
            checks.append(code.compare("eq", rest, integer(0)))
        if not checks:
            return TRUE, along
        inside = checks[0] if len(checks) == 1 else code.both(checks[0], checks[1])
        return inside, variable(code.select(inside, self._sum(along), integer(start)))

    def _note_cuts(self, along: Affine, start: int, stop: int) -> None:
        """Note at which values of a variable an index comes into a range, and leaves it."""
        if len(along.terms) != 1 or along.terms[0][0] not in self.ranges or abs(along.terms[0][1]) != 1:
            return
        ((x, sign),) = along.terms
        for end in (start, stop):
            at = end - along.constant if sign > 0 else along.constant - end + 1
            if self.ranges[x][0] < at <= self.ranges[x][1]:
                self.cuts.setdefault(x, set()).add(at)

    def _divides(self, along: Affine, step: int) -> bool:
        return along.constant % step == 0 and all(coefficient % step == 0 for _, coefficient in along.terms)


def operation(code: Builder, node: Elementwise, arguments: list[Value]) -> Value:
    """Append an operation on elements."""
    kind = scalar_of(node.arguments[-1].dtype)
    if node.operation == "cast":
        return convert(code, arguments[0], kind, scalar_of(node.dtype))
    if node.operation == "select":
        return code.select(*arguments)
    return SCALAR_OPERATIONS[node.operation].emit(code, kind, *arguments)
