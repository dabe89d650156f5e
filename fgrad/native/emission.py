"""Nests of loops in LLVM's language.

    nest_function(name, nest, ...)      the text of a function that runs a nest

The value of a node at an index is computed from those of its arguments, each once in a nest. Graphs may be deep, so
what is still to be computed lies on a list, and not on Python's stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.native.indices import ZERO, Affine, Index, in_code, interval, placed, plus, variable
from fgrad.native.nodes import (
    Bound,
    Gathered,
    Literal,
    Moved,
    Node,
    Pointwise,
    Reduced,
    Running,
    Scattered,
    Shape,
)
from fgrad.native.plan import Nest, Write, squeezed
from fgrad.native.scalars import OPERATIONS, Code, Scalar, convert, literal, scalar_of, select

Key = tuple[Node, Index]


class Values:
    """Computes elements in the body of a nest.

    Args:
        code: where instructions go.
        pointers: the names of the memory of the arrays that exist.
        ranges: what the variables of the loops run through, ends included.
    """

    def __init__(self, code: Code, pointers: Callable[[Node], str | None], ranges: dict[str, tuple[int, int]]) -> None:
        self.code, self.pointers, self.ranges = code, pointers, ranges
        self.own: set[Node] = set()
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
        return node not in self.own and self.pointers(node) is not None

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
        flat, stride = ZERO, 1
        for size, each in zip(reversed(node.shape), reversed(index), strict=True):
            flat = plus(flat, each, stride)
            stride *= size
        pointer = self.pointers(node)
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
            shifted = self._sum(plus(along, Affine(-start)))
            checks.append(code.do(f"icmp ult i64 {shifted}, {last - start + 1}"))
        if step > 1 and not self._divides(plus(along, Affine(-start)), step):
            rest = code.do(f"urem i64 {self._sum(plus(along, Affine(-start)))}, {step}")
            checks.append(code.do(f"icmp eq i64 {rest}, 0"))
        if not checks:
            return "true", along
        inside = checks[0] if len(checks) == 1 else code.do(f"and i1 {checks[0]}, {checks[1]}")
        return inside, variable(code.do(f"select i1 {inside}, i64 {self._sum(along)}, i64 {start}"))

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


# What is accumulated

_IDENTITIES = {"sum": 0, "prod": 1, "any": False, "all": True}


def identity(kind: str, dtype: Any) -> Any:
    """Return what changes no sum, product, ..."""
    if kind in _IDENTITIES:
        return _IDENTITIES[kind]
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def accumulated(code: Code, kind: str, scalar: Scalar, total: str, value: str) -> str:
    """Emit one step of a sum, product, ...; the order in which numbers are added is the compiler's to choose."""
    if kind in ("sum", "prod"):
        name = "add" if kind == "sum" else "mul"
        name = f"f{name} reassoc contract" if scalar.is_float else name
        return code.do(f"{name} {scalar.type} {total}, {value}")
    if kind in ("any", "all"):
        return code.do(f"{'or' if kind == 'any' else 'and'} i1 {total}, {value}")
    if scalar.is_float:
        return code.call(f"llvm.{kind}imum.{scalar.suffix}", scalar.type, total, value, flags="")
    sign = "s" if scalar.family == "signed" else "u"
    return code.call(f"llvm.{sign}{kind}.{scalar.suffix}", scalar.type, total, value)


class Loop:
    """The innermost loop of a nest: what is carried from turn to turn, and what happens behind it."""

    def __init__(self) -> None:
        self.carried: list[tuple[str, str, str, str]] = []
        self.behind: list[Callable[[], None]] = []

    def carry(self, code: Code, kind: str, start: str) -> str:
        """Return the name of a carried value; `next_` says later what it becomes."""
        name = code.name()
        self.carried.append((name, kind, start, ""))
        return name

    def next_(self, name: str, value: str) -> None:
        """Say what a carried value becomes."""
        place = next(place for place, each in enumerate(self.carried) if each[0] == name)
        self.carried[place] = (*self.carried[place][:3], value)


class _Body:
    """The body of a nest: all writes at one index."""

    def __init__(self, nest: Nest, pointers: Callable[[Node], str | None], sizes: Shape) -> None:
        self.code, self.loop, self.sizes = Code(), Loop(), sizes
        self.values = Values(self.code, pointers, {f"%v{k}": (0, size - 1) for k, size in enumerate(sizes)})
        self.values.own = {write.target for write in nest.writes if write.target is write.value}
        self.inner = f"%v{len(sizes) - 1}" if sizes else ""
        for write in nest.writes:
            self._write(write)

    def _index(self, shape: Shape) -> Index:
        names = iter(range(len(self.sizes)))
        return tuple(ZERO if size == 1 else variable(f"%v{next(names)}") for size in shape)

    def _write(self, write: Write) -> None:
        target = write.target
        index = self._index(write.space)
        if write.fills:
            self.values.store(target, index, self.values.at(write.value, index))
        elif isinstance(target, Reduced):
            self._reduce(target, write.value, index)
        elif isinstance(target, Running):
            self._run(target, write.value, index)
        elif isinstance(target, Scattered):
            self._scatter(target, write.value, index)
        else:
            place = list(index)
            if write.offset:
                place[write.axis] = plus(place[write.axis], Affine(write.offset))
            self.values.store(target, tuple(place), self.values.at(write.value, index))

    def _reduce(self, target: Reduced, source: Node, index: Index) -> None:
        kind = scalar_of(target.dtype)
        kept = tuple(each for axis, each in enumerate(index) if axis not in target.axes)
        gone = {name for axis in target.axes for name, _ in index[axis].terms}
        value = self.values.at(source, index)
        if target.kind in ("argmax", "argmin"):
            self._choose(target, source, value, kept, gone)
        elif not gone:
            self.values.store(target, kept, value)
        elif self.inner in gone:
            start = literal(identity(target.kind, target.dtype), target.dtype)
            total = self.loop.carry(self.code, kind.type, start)
            ended = accumulated(self.code, target.kind, kind, total, value)
            self.loop.next_(total, ended)
            self.loop.behind.append(lambda: self._end(target, kind, kept, ended, gone == {self.inner}))
        else:
            before = self.values.load(target, kept)
            self.values.store(target, kept, accumulated(self.code, target.kind, kind, before, value))

    def _end(self, target: Reduced, kind: Scalar, kept: Index, total: str, is_all: bool) -> None:
        if not is_all:
            before = self.values.load(target, kept)
            total = accumulated(self.code, target.kind, kind, before, total)
        self.values.store(target, kept, total)

    def _choose(self, target: Reduced, source: Node, value: str, kept: Index, gone: set[str]) -> None:
        """Keep the first of the largest or smallest elements, or the first NaN."""
        if not gone:
            self.values.store(target, kept, "0")
            return
        kind, code = scalar_of(source.dtype), self.code
        best = self.loop.carry(code, kind.type, literal(identity(target.kind[3:], source.dtype), source.dtype))
        place = self.loop.carry(code, "i64", "0")
        better = OPERATIONS["greater" if target.kind == "argmax" else "less"](code, kind, value, best)
        better = code.do(f"or i1 {better}, {code.do(f'icmp eq i64 {self.inner}, 0')}")
        if kind.is_float:
            known = code.do(f"fcmp ord {kind.type} {best}, {best}")
            first = code.do(f"and i1 {known}, {code.do(f'fcmp uno {kind.type} {value}, {value}')}")
            better = code.do(f"or i1 {better}, {first}")
        self.loop.next_(best, select(code, kind, better, value, best))
        ended = code.do(f"select i1 {better}, i64 {self.inner}, i64 {place}")
        self.loop.next_(place, ended)
        self.loop.behind.append(lambda: self.values.store(target, kept, ended))

    def _run(self, target: Running, source: Node, index: Index) -> None:
        value = self.values.at(source, index)
        if self.inner in [name for name, _ in index[-1].terms]:
            kind = scalar_of(target.dtype)
            # What is added to the first element is -0.0, because 0.0 would make 0.0 of -0.0.
            start = -0.0 if target.kind == "sum" and kind.is_float else identity(target.kind, target.dtype)
            total = self.loop.carry(self.code, kind.type, literal(start, target.dtype))
            name = {"sum": "add", "prod": "multiply"}[target.kind]
            value = OPERATIONS[name](self.code, kind, total, value)
            self.loop.next_(total, value)
        self.values.store(target, index, value)

    def _scatter(self, target: Scattered, values: Node, index: Index) -> None:
        indices = target.arguments[1:]
        count = len(indices[0].shape)
        places = [self.values.integer(each, index[:count]) for each in indices]
        place = (*places, *index[count:])
        value = self.values.at(values, index)
        before = self.values.load(target, place)
        self.values.store(target, place, accumulated(self.code, "sum", scalar_of(target.dtype), before, value))


def begins_with(write: Write) -> Any:
    """Return the number with which an array is to be filled before the loops, None if with nothing."""
    target = write.target
    if isinstance(target, Scattered):
        return 0
    if not isinstance(target, Reduced) or target.kind in ("argmax", "argmin"):
        return None
    sizes = [axis for axis, size in enumerate(write.space) if size != 1]
    gone = [axis for axis in sizes if axis in target.axes]
    if 0 in write.space or (gone and gone != sizes[-1:]):
        return identity(target.kind, target.dtype)
    return None


def nest_function(nest: Nest, pointers: Callable[[Node], str | None]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the body of a function that runs a nest, and the functions of libraries that it calls."""
    sizes = squeezed(nest.writes[0].space)
    body = _Body(nest, pointers, sizes)
    inner = body.code.lines
    body.code.lines = []
    for each in body.loop.behind:
        each()
    lines = _loops(sizes, inner, body.loop, body.code.lines)
    return "\n".join(["entry:", *lines, "  ret void"]), body.code.used


def _loops(sizes: Shape, inner: list[str], loop: Loop, behind: list[str]) -> list[str]:
    """Return the loops around a body."""
    if not sizes:
        return [*inner, *behind]
    lines: list[str] = []
    last = len(sizes) - 1
    before = "entry"
    for k in range(len(sizes)):
        latch = f"loop{k}" if k == last else f"exit{k + 1}"
        lines += [f"  br label %loop{k}", f"loop{k}:", f"  %v{k} = phi i64 [ 0, %{before} ], [ %n{k}, %{latch} ]"]
        before = f"loop{k}"
    outside = f"loop{last - 1}" if last else "entry"
    for name, kind, start, end in loop.carried:
        lines.append(f"  {name} = phi {kind} [ {start}, %{outside} ], [ {end}, %loop{last} ]")
    lines += inner
    for k in range(last, -1, -1):
        lines += [
            f"  %n{k} = add nuw nsw i64 %v{k}, 1",
            f"  %c{k} = icmp eq i64 %n{k}, {sizes[k]}",
            f"  br i1 %c{k}, label %exit{k}, label %loop{k}",
            f"exit{k}:",
        ]
        if k == last:
            lines += behind
    return lines


def size_of(nest: Nest) -> int:
    """Return how often the body of a nest runs."""
    return math.prod(nest.writes[0].space)
