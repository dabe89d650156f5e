"""Lowering of array elements at an index of a loop nest to the loop language.

The element of a node is computed from the elements of its arguments; each element is computed once. Graphs may be
deep, so the traversal uses an explicit stack instead of recursion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import numpy as np

from fgrad.native.indices import ZERO, Affine, Index, append_index, interval, plus, source_index, variable
from fgrad.native.ir import FALSE, TRUE, Builder, Constant, Op, Parameter, Value, Variable, integer
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Bound, Elementwise, Gather, Input, Literal, Node, Remap, Shape
from fgrad.native.scalars import SCALAR_OPERATIONS, convert, literal, loaded, scalar_of, store

Key = tuple[Node, Index]


class Pointers:
    """The pointer parameters of a function: one for each array and each constant offset of its indices.

    Constant offsets are in the pointers, so functions that differ only in these offsets have the same code.

    Args:
        stored: the arrays in memory, apart from inputs.
        homes: the inputs in whose memory results are stored.

    Attributes:
        parameters: the function's parameters, by array and offset in elements.
        buffers: arrays of which only some rows are in memory at a time: the index along each axis, None where it is
            the index of the element, and their shapes in memory.
    """

    def __init__(self, stored: Set[Node], homes: Mapping[Node, Node]) -> None:
        self._stored, self._homes = stored, homes
        self.parameters: dict[tuple[Node, int], Parameter] = {}
        self._into: defaultdict[Node, list[Parameter]] = defaultdict(list)
        self.buffers: dict[Node, tuple[tuple[Affine | None, ...], Shape]] = {}

    def has(self, node: Node) -> bool:
        """Return whether an array is in memory."""
        root = memory_of(node)
        return root in self._stored or isinstance(root, Input)

    def at(self, node: Node, offset: int = 0) -> Parameter:
        """Return the pointer to an element of an array, as a parameter."""
        key = self._home_of(node), offset
        if key not in self.parameters:
            self.parameters[key] = made = Parameter(f"p{len(self.parameters)}", is_noalias=True)
            self._into[key[0]].append(made)
        return self.parameters[key]

    def _home_of(self, node: Node) -> Node:
        """Return the array in whose memory a node is."""
        root = memory_of(node)
        return self._homes.get(root, root)

    def parameters_of(self, nodes: Iterable[Node]) -> set[Parameter]:
        """Return all parameters that point into arrays."""
        return {parameter for root in set(map(self._home_of, nodes)) for parameter in self._into[root]}

    def note_writes(self, nodes: Iterable[Node]) -> None:
        """Note writes to arrays: several parameters that point into one of them alias each other."""
        for node in nodes:
            parameters = self.parameters_of([node])
            for each in parameters if len(parameters) > 1 else ():
                each.is_noalias = False


class Values:
    """Appends the computation of elements to the body of a nest.

    Args:
        code: the builder to which instructions are appended.
        pointers: the arrays in memory.
        ranges: the ranges of the loop variables, with inclusive ends.

    Attributes:
        own: the arrays that the nest writes, whose elements are computed instead of loaded.
        boundaries: by loop variable, the values at which an array begins or ends; a loop that is split there needs no
            bounds checks.
        strides: for each element that is loaded or stored, its stride in memory along each loop variable.
    """

    def __init__(self, code: Builder, pointers: Pointers, ranges: dict[Variable, tuple[int, int]]) -> None:
        self.code, self.pointers, self.ranges = code, pointers, ranges
        self.own: set[Node] = set()
        self.boundaries: dict[Variable, set[int]] = {}
        self.strides: list[dict[Variable, int]] = []
        self._known: dict[Key, Value] = {}
        self._sums: dict[Affine, Value] = {}
        self._remapped: dict[Key, tuple[Value, Index]] = {}

    def at(self, node: Node, index: Index) -> Value:
        """Return the value of an element."""
        waiting = [(node, index)]
        known = self._known
        while waiting:
            key = waiting[-1]
            if key in known:
                waiting.pop()
                continue
            missing = [each for each in self._operands(*key) if each not in known]
            if missing:
                waiting += reversed(missing)
            else:
                known[key] = self._compute(*key)
                waiting.pop()
        return known[node, index]

    def _is_stored(self, node: Node) -> bool:
        """Return whether elements are loaded from memory, instead of computed in this nest."""
        return node not in self.own and self.pointers.has(node)

    def _operands(self, node: Node, index: Index) -> list[Key]:
        if isinstance(node, Literal) or self._is_stored(node):
            return []
        if isinstance(node, Elementwise):
            return [(each, index if each.shape == node.shape else ()) for each in node.arguments]
        if isinstance(node, Remap):
            inside, source = self._remap(node, index)
            fill = [] if inside is TRUE else [self._fill(node, index)]
            return fill if inside is FALSE else [(node.arguments[0], source), *fill]
        assert isinstance(node, Gather), node
        return self._indices_of(node, index)

    def _fill(self, node: Remap, index: Index) -> Key:
        """Return the fill value outside the bounds: a scalar, or the element of an array of the same shape."""
        fill = node.arguments[1]
        return fill, index if fill.shape == node.shape else ()

    def _indices_of(self, node: Node, index: Index) -> list[Key]:
        first = node.arguments[1]
        return [(each, index[: len(first.shape)]) for each in node.arguments[1:]]

    def _compute(self, node: Node, index: Index) -> Value:
        if isinstance(node, Literal):
            return literal(node.value, node.dtype)
        if self._is_stored(node):
            return self.load(node, index)
        known, code = self._known, self.code
        if isinstance(node, Elementwise):
            arguments = [known[each, index if each.shape == node.shape else ()] for each in node.arguments]
            return operation(code, node, arguments)
        if isinstance(node, Remap):
            inside, source = self._remap(node, index)
            if inside is TRUE:
                return known[node.arguments[0], source]
            fill = known[self._fill(node, index)]
            if inside is FALSE:
                return fill
            return code.select(inside, known[node.arguments[0], source], fill)
        keys = self._indices_of(node, index)
        gathered = [self._integer(known[key], key[0]) for key in keys]
        return self.load(node.arguments[0], (*gathered, *index[len(keys[0][1]) :]))

    def _integer(self, value: Value, node: Node) -> Affine:
        """Return the value of an element as a 64-bit index."""
        as_int64 = convert(self.code, value, scalar_of(node.dtype), scalar_of(np.dtype(np.int64)))
        return Affine(as_int64.integer) if isinstance(as_int64, Constant) else variable(as_int64)

    def integer(self, node: Node, index: Index) -> Affine:
        """Return an element as a 64-bit index."""
        return self._integer(self.at(node, index), node)

    # Memory

    def address(self, node: Node, index: Index) -> Value:
        """Return the address of an element."""
        shape = node.shape
        if node in self.pointers.buffers:
            row, shape = self.pointers.buffers[node]
            index = tuple(each if own is None else own for each, own in zip(index, row, strict=True))
        flat, stride = ZERO, 1
        for size, each in zip(reversed(shape), reversed(index), strict=True):
            flat = plus(flat, each, stride)
            stride *= size
        self.strides.append(dict(flat.terms))
        pointer = self.pointers.at(node, max(flat.constant, 0))
        flat = Affine(min(flat.constant, 0), flat.terms)
        return self.code.address(pointer, scalar_of(node.dtype).stored, self._sum(flat))

    def _sum(self, affine: Affine) -> Value:
        return append_index(self.code, affine, self._sums)

    def load(self, node: Node, index: Index) -> Value:
        """Append the load of an element."""
        return loaded(self.code, scalar_of(node.dtype), self.address(node, index))

    def store(self, node: Node, index: Index, value: Value) -> None:
        """Append the store of an element."""
        store(self.code, scalar_of(node.dtype), value, self.address(node, index))

    # Indices

    def _remap(self, node: Remap, index: Index) -> tuple[Value, Index]:
        """Return whether an index is within the bounds, and the index of the source element."""
        key = node, index
        if key not in self._remapped:
            self._remapped[key] = self._remap_index(node, index)
        return self._remapped[key]

    def _remap_index(self, node: Remap, index: Index) -> tuple[Value, Index]:
        inside: Value = TRUE
        clamped = list(index)
        for bound in node.bounds:
            is_inside, clamped[bound.axis] = self._clamped(bound, index[bound.axis])
            if is_inside is FALSE or inside is FALSE:
                inside = FALSE
            elif is_inside is not TRUE:
                inside = is_inside if inside is TRUE else self.code.both(inside, is_inside)
        pairs = zip(source_index(node, tuple(clamped)), node.index_map, strict=True)
        return inside, tuple([x if each.divisor == 1 else self._quotient(x, each.divisor) for x, each in pairs])

    def _quotient(self, along: Affine, divisor: int) -> Affine:
        if self._divides(along, divisor):
            return Affine(along.constant // divisor, tuple((n, c // divisor) for n, c in along.terms))
        return variable(self.code.binary(Op.SDIV, self._sum(along), integer(divisor)))

    def _clamped(self, bound: Bound, along: Affine) -> tuple[Value, Affine]:
        """Return whether an index is within a bound, and the index, clamped to the bound."""
        start, step, count = bound.start, bound.step, bound.number
        if step < 0:
            start, step = start + step * (count - 1), -step
        if count == 0:
            return FALSE, along
        last = start + step * (count - 1)
        limits = interval(along, self.ranges)
        if limits is not None and (limits[1] < start or limits[0] > last):
            return FALSE, along
        code, checks = self.code, []
        if limits is None or limits[0] < start or limits[1] > last:
            self._note_boundaries(along, start, last + 1)
            shifted = self._sum(plus(along, Affine(-start)))
            checks.append(code.compare("ult", shifted, integer(last - start + 1)))
        if step > 1 and not self._divides(plus(along, Affine(-start)), step):
            remainder = code.binary(Op.UREM, self._sum(plus(along, Affine(-start))), integer(step))
            checks.append(code.compare("eq", remainder, integer(0)))
        if not checks:
            return TRUE, along
        inside = checks[0] if len(checks) == 1 else code.both(checks[0], checks[1])
        return inside, variable(code.select(inside, self._sum(along), integer(start)))

    def _note_boundaries(self, along: Affine, start: int, stop: int) -> None:
        """Note the values of a loop variable at which an index enters and leaves a range."""
        if len(along.terms) != 1 or along.terms[0][0] not in self.ranges or abs(along.terms[0][1]) != 1:
            return
        ((x, sign),) = along.terms
        for end in (start, stop):
            at = end - along.constant if sign > 0 else along.constant - end + 1
            if self.ranges[x][0] < at <= self.ranges[x][1]:
                self.boundaries.setdefault(x, set()).add(at)

    def _divides(self, along: Affine, step: int) -> bool:
        return along.constant % step == 0 and all(coefficient % step == 0 for _, coefficient in along.terms)


def operation(code: Builder, node: Elementwise, arguments: list[Value]) -> Value:
    """Append an elementwise operation on scalars."""
    kind = scalar_of(node.arguments[-1].dtype)
    if node.operation == "cast":
        return convert(code, arguments[0], kind, scalar_of(node.dtype))
    if node.operation == "select":
        return code.select(*arguments)
    return SCALAR_OPERATIONS[node.operation].emit(code, kind, *arguments)
