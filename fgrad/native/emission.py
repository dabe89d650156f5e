"""Nests of loops in LLVM's language.

    nest_function(rows, pointers)      the body of a function that runs nests

Where an array begins or ends within the space of a nest, the loops are parted, so that they need not ask where they
are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fgrad.native.elements import KEPT, Pointers, Values
from fgrad.native.hoisting import hoisted
from fgrad.native.indices import ZERO, Affine, Index, plus, variable
from fgrad.native.nests import Nest, Rows, Write, squeezed
from fgrad.native.nodes import Moved, Node, Place, Pointwise, Reduced, Running, Scattered, Shape, Term
from fgrad.native.scalars import OPERATIONS, SCALARS, Code, Scalar, convert, literal, scalar_of
from fgrad.native.widening import Innermost, Widths, narrow, widened

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


def accumulated(code: Code, kind: str, scalar: Scalar, total: str, value: str, in_order: bool = False) -> str:
    """Emit one step of a sum, product, ...; the order is the compiler's to choose, or not."""
    if kind in ("sum", "prod"):
        name = "add" if kind == "sum" else "mul"
        name = f"f{name}{'' if in_order else ' reassoc'}" if scalar.is_float else name
        return code.do(f"{name} {scalar.type} {total}, {value}")
    if kind in ("any", "all"):
        return code.do(f"{'or' if kind == 'any' else 'and'} i1 {total}, {value}")
    if scalar.is_float:
        return code.call(f"llvm.{kind}imum.{scalar.suffix}", scalar.type, total, value)
    sign = "s" if scalar.family == "signed" else "u"
    return code.call(f"llvm.{sign}{kind}.{scalar.suffix}", scalar.type, total, value)


def _summed_as(target: Reduced) -> Scalar:
    """Return the kind of number in which a sum is taken: short ones lose digits where very many are added in a row."""
    kind = scalar_of(target.dtype)
    return SCALARS["float64"] if target.kind == "sum" and kind.is_float else kind


class Loop:
    """The innermost loop of a nest: what is carried from iteration to iteration, and what happens behind it.

    Attributes:
        carried: name, type, start, and the name of what it becomes.
        behind: emit what happens behind it.
        cells: numbers that live on from one run of it to the next: name, type, and how many loops are around all of
            these runs, in front of which the number is set.
        begins: by cell, emit its first value.
    """

    def __init__(self) -> None:
        self.carried: list[tuple[str, str, str, str]] = []
        self.behind: list[Callable[[], None]] = []
        self.cells: list[tuple[str, str, int]] = []
        self.begins: dict[str, Callable[[], str]] = {}

    def carry(self, code: Code, kind: str, start: str) -> str:
        """Return the name of a carried value; `next_` says later what it becomes."""
        name = code.name()
        self.carried.append((name, kind, start, ""))
        return name

    def cell(self, code: Code, kind: str, depth: int, start: Callable[[], str]) -> str:
        """Return the address of a number that lives on, and that is set to a start inside of so many loops."""
        name = code.name()
        self.cells.append((name, kind, depth))
        self.begins[name] = start
        return name

    def next_(self, name: str, value: str) -> None:
        """Say what a carried value becomes."""
        place = next(place for place, each in enumerate(self.carried) if each[0] == name)
        self.carried[place] = (*self.carried[place][:3], value)


Box = tuple[tuple[int, int], ...]
"""What the loops run through: beginnings and ends."""


SHARED = "0_"
"""In the names of loops that nests share: sums of indices begin with them."""


class _Body:
    """The body of loops over a part of a nest's space: all writes at one index.

    Args:
        nest: what is written.
        pointers: the memory of arrays.
        code: where instructions go.
        box: what the loops run through, by axis of the space.
        order: the axes, from the outermost loop to the innermost.
        tag: in the names of variables and labels.
        is_part: whether other loops run through other parts of the space.
        is_flat: whether one loop runs through all elements as they lie in memory.
        outer: how many loops are around other nests, too.
    """

    def __init__(
        self,
        nest: Nest,
        pointers: Pointers,
        code: Code,
        box: Box,
        order: Sequence[int],
        tag: str,
        is_part: bool = False,
        is_flat: bool = False,
        outer: int = 0,
    ) -> None:
        self.nest, self.code, self.box, self._is_part, self.is_flat = nest, code, box, is_part, is_flat
        self.loop = Loop()
        # By the order of the loops, in which sums of indices are taken: what inner loops need not do comes first.
        places = map(order.index, range(len(box)))
        self.names = [f"%v{SHARED if place < outer else tag}{place}" for place in places]
        ranges = {name: (start, stop - 1) for name, (start, stop) in zip(self.names, box, strict=True)}
        self.values = Values(code, pointers, ranges)
        self.values.own = {write.target for write in nest.writes if write.target is write.value}
        self.loops = [(self.names[axis], box[axis]) for axis in order]
        self.inner = self.loops[-1][0] if len(box) > outer else ""
        for write in nest.writes:
            self._write(write)

    def index(self, shape: Shape) -> Index:
        if self.is_flat:
            return flat_index(shape, self.inner)
        names = iter(self.names)
        return tuple(ZERO if size == 1 else variable(next(names)) for size in shape)

    def _write(self, write: Write) -> None:
        target = write.target
        index = self.index(write.space)
        if isinstance(target, Reduced):
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
        if not gone:
            if target.kind == "sum" and kind.is_float:  # NumPy's begins at 0.0, which makes 0.0 of -0.0
                value = self.code.do(f"fadd {kind.type} {value}, 0.0")
            self.values.store(target, kept, value)
        elif self.inner in gone:
            wide = _summed_as(target)
            start = literal(identity(target.kind, target.dtype), target.dtype)
            total = self.loop.carry(self.code, wide.type, start)
            ended = accumulated(self.code, target.kind, wide, total, convert(self.code, value, kind, wide))
            self.loop.next_(total, ended)
            if gone == {self.inner} and not self._is_part:
                self.loop.behind.append(lambda: self.values.store(target, kept, convert(self.code, ended, wide, kind)))
            else:
                self._add_rows(target, kept, ended, gone)
        else:
            before = self.values.load(target, kept)
            self.values.store(target, kept, accumulated(self.code, target.kind, kind, before, value))

    def _add_rows(self, target: Reduced, kept: Index, row: str, gone: set[str]) -> None:
        """Add up what runs of the innermost loop have found.

        Short numbers lose digits here as well: where such runs follow each other, their sum stays a long number.
        """
        code, loop, values = self.code, self.loop, self.values
        kind, wide = scalar_of(target.dtype), _summed_as(target)
        depth = len(self.loops) - 1
        while depth and self.loops[depth - 1][0] in gone:
            depth -= 1
        cell = ""
        if wide != kind and depth < len(self.loops) - 1:
            cell = loop.cell(code, wide.type, depth, lambda: convert(code, values.load(target, kept), kind, wide))

        def end() -> None:
            if cell:
                before = code.do(f"load {wide.type}, ptr {cell}")
            else:
                before = convert(code, values.load(target, kept), kind, wide)
            total = accumulated(code, target.kind, wide, before, row)
            if cell:
                code.lines.append(f"  store {wide.type} {total}, ptr {cell}")
            values.store(target, kept, convert(code, total, wide, kind))

        loop.behind.append(end)

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


def flat_index(shape: Shape, name: str) -> Index:
    """Return an index that goes through all elements as they lie in memory."""
    last = max(axis for axis, size in enumerate(shape) if size != 1)
    return tuple(variable(name) if axis == last else ZERO for axis in range(len(shape)))


# Nests

_MOST_PARTS = 27


class NestFunction(NamedTuple):
    """A function that runs a nest.

    Attributes:
        body: in LLVM's language.
        used: the functions of libraries that it calls.
        work: about how many instructions it runs.
        iterations: of the outermost loop, if that may run in parts at once; else 0.
        totals: the reductions along that loop, which such parts take for themselves.
        begins: the other arrays that are filled with a number before the loops run.
        is_wide: its innermost loops compute several elements at once already.
    """

    body: str
    used: dict[str, tuple[str, ...]]
    work: int
    iterations: int
    totals: tuple[Reduced, ...]
    begins: tuple[tuple[Node, Any], ...]
    is_wide: bool


def nest_function(rows: Rows, pointers: Pointers, widths: Widths | None = None, in_parts: bool = False) -> NestFunction:
    """Return the function that runs nests, or a part of their outermost loop, from `%lo` to `%hi`."""
    code = Code()
    pointers.buffers = {array: (_row(rows.buffers[array], in_parts), form) for array, form in rows.forms().items()}
    bodies = _bodies_of(rows, pointers, code)
    lines, label = ["entry:", *_room(body.loop for body, _ in bodies)], "entry"
    iterations, totals = _parallel(rows, [body for body, _ in bodies])
    beginnings = [each for nest in rows.nests for each in _beginnings(nest, [x for x, _ in bodies if x.nest is nest])]
    own = [each for each in beginnings if each[0] in totals] if in_parts else beginnings
    for number, (target, start) in enumerate(own):
        fill, label = _fill(target, start, pointers, f"f{number}_", label, code.used)
        lines += fill
    written = pointers.names_of([write.target for write in rows.writes])
    pieces = [_piece(body, inner, pointers, (written, rows.outer)) for body, inner in bodies]
    loops, label = _shared_loops(pieces, rows.outer, label, in_parts, widths)
    work = sum(math.prod(stop - start for start, stop in body.box) * len(inner) for body, inner in bodies)
    begins = tuple(each for each in beginnings if each[0] not in totals)
    whole = "\n".join([*lines, *loops, "  ret void"])
    return NestFunction(whole, code.used, work, iterations, totals, begins, code.is_wide)


def _room(loops: Iterable[Loop]) -> list[str]:
    """Return what makes room for numbers that live on."""
    return [f"  {name} = alloca {kind}" for loop in loops for name, kind, _ in loop.cells]


def _row(loops: tuple[int, ...], in_parts: bool) -> Index:
    """Return what stands for each axis along which there is one row at a time; each part has its own."""
    first = variable("%row") if in_parts else ZERO
    return tuple(KEPT if loop < 0 else ZERO if loop else first for loop in loops)


class _Piece(NamedTuple):
    """The code of a body: the instructions by the number of loops around them, and what is behind the innermost."""

    body: _Body
    levels: list[list[str]]
    behind: list[str]


def _piece(body: _Body, inner: list[str], pointers: Pointers, before: tuple[Collection[str], int]) -> _Piece:
    code, loop = body.code, body.loop
    written = pointers.names_of([write.target for write in body.nest.writes])
    names, carried = [name for name, _ in body.loops], [each[0] for each in loop.carried]
    levels = hoisted(inner, names, carried, written, before)
    # The outer ones first: what sums of indices are called there is known further inside, too.
    for cell, kind, depth in sorted(loop.cells, key=lambda each: each[2]):
        code.lines = []
        start = loop.begins[cell]()
        levels[depth] += [*code.lines, f"  store {kind} {start}, ptr {cell}"]
    code.lines = []
    for each in loop.behind:
        each()
    return _Piece(body, levels, code.lines)


def fills(begins: Sequence[tuple[Node, Any]], pointers: Pointers, used: dict[str, tuple[str, ...]]) -> str:
    """Return the body of a function that fills arrays with numbers; the functions that it calls are noted."""
    lines, label = ["entry:"], "entry"
    for number, (target, start) in enumerate(begins):
        fill, label = _fill(target, start, pointers, f"f{number}_", label, used)
        lines += fill
    return "\n".join([*lines, "  ret void"])


def _parallel(rows: Rows, bodies: Sequence[_Body]) -> tuple[int, tuple[Reduced, ...]]:
    """Return how many iterations of the outermost loop may run at once, and what is added up along it."""
    if not bodies or not bodies[0].box:
        return 0, ()
    iterations, totals = 0, []
    for body in bodies:
        outermost = body.loops[0][0]
        iterations = max(iterations, body.box[body.names.index(outermost)][1])
        for write in body.nest.writes:
            target = write.target
            if isinstance(target, Scattered) or (isinstance(target, Running) and len(body.loops) == 1):
                return 0, ()
            if isinstance(target, Reduced):
                gone = {name for place in target.axes for name, _ in body.index(write.space)[place].terms}
                if outermost in gone:
                    totals.append(target)
    return iterations, tuple(dict.fromkeys(totals))


def _bodies_of(rows: Rows, pointers: Pointers, code: Code) -> list[tuple[_Body, list[str]]]:
    """Return the bodies of nests, each with its code."""
    if not rows.outer:
        return _bodies(rows.nests[0], pointers, code)
    found = []
    for number, nest in enumerate(rows.nests, 1):
        code.lines = []
        box = tuple((0, size) for size in squeezed(nest.writes[0].space))
        body = _Body(nest, pointers, code, box, range(len(box)), f"{number}_", outer=rows.outer)
        assert not any(body.values.cuts.values())
        found.append((body, code.lines))
    return found


def _bodies(nest: Nest, pointers: Pointers, code: Code) -> list[tuple[_Body, list[str]]]:
    """Return the bodies for the parts of a nest's space, each with its code."""
    space = nest.writes[0].space
    if 0 in space:
        return []
    sizes, is_flat = squeezed(space), is_flat_nest(nest, pointers)
    if is_flat:
        sizes = (math.prod(sizes),)
    waiting: list[Box] = [tuple((0, size) for size in sizes)]
    can_be_cut = not any(isinstance(write.target, Running) for write in nest.writes)
    found: list[tuple[_Body, list[str]]] = []
    is_whole = True
    order = list(range(len(sizes)))
    is_settled = not can_be_cut or len(sizes) < 2
    while waiting:
        box = waiting.pop(0)
        code.lines = []
        body = _Body(nest, pointers, code, box, order, f"{len(found)}_", not is_whole, is_flat)
        if not is_settled:
            better, is_settled = _order(body, sizes), True
            if better != order:
                order = better
                waiting.insert(0, box)
                continue
        parts = _cut(box, body) if can_be_cut else [box]
        if len(parts) > 1 and len(parts) + len(waiting) + len(found) <= _MOST_PARTS:
            waiting, is_whole = parts + waiting, False
        else:
            found.append((body, code.lines))
    return found


def _order(body: _Body, sizes: Shape) -> list[int]:
    """Return the axes with that one last along which most elements are neighbours in memory."""
    costs = []
    for name, size in zip(body.names, sizes, strict=True):
        steps = [abs(each.get(name, 0)) for each in body.values.steps]
        cost = sum(_FAR if step > 1 else step for step in steps) + 1
        costs.append(cost if size >= _SHORT else cost * _FAR)
    axes = list(range(len(sizes)))
    best = min(axes, key=lambda axis: (costs[axis], -axis))
    if costs[best] > 0.7 * costs[-1]:
        return axes
    return [*(axis for axis in axes if axis != best), best]


_FAR, _SHORT = 6, 8
"""What a step over memory costs beside one to a neighbour; a loop of fewer iterations is no good innermost one."""


def _cut(box: Box, body: _Body) -> list[Box]:
    """Return the parts of a box between the places where arrays begin and end."""
    parts: list[Box] = [()]
    for name, (start, stop) in zip(body.names, box, strict=True):
        ends = [start, *sorted(body.values.cuts.get(name, ())), stop]
        parts = [(*part, piece) for part in parts for piece in pairwise(ends)]
    return parts


def is_flat_nest(nest: Nest, pointers: Pointers) -> bool:
    """Return whether all arrays of a nest are gone through as they lie in memory, so that one loop does."""
    space = squeezed(nest.writes[0].space)
    if len(space) < 2:
        return False
    seen: set[Node] = set()
    waiting: list[Node] = []
    for write in nest.writes:
        target = write.target
        gone = target.axes if isinstance(target, Reduced) else frozenset()
        is_total = isinstance(target, Reduced) and all(
            axis in gone for axis, size in enumerate(write.space) if size != 1
        )
        if not (target is write.value or is_total):
            return False
        waiting.append(write.value)
    own = {write.target for write in nest.writes}
    while waiting:
        node = waiting.pop()
        if node in seen or node.size == 1 or (node not in own and pointers.has(node)):
            if node.size != 1 and squeezed(node.shape) != space:
                return False
            continue
        seen.add(node)
        if isinstance(node, Moved) and not _keeps_order(node):
            return False
        if not isinstance(node, (Pointwise, Moved)):
            return False
        waiting += node.arguments
    return True


def _keeps_order(node: Moved) -> bool:
    """Return whether an array is a number that is repeated, or another one with more or fewer axes of size 1."""
    source = node.arguments[0]
    if node.bounds:
        return False
    if source.size == 1:
        return True
    axes = [axis for axis, size in enumerate(node.shape) if size != 1]
    expected = iter(axes)
    return len(axes) == len(squeezed(source.shape)) and all(
        place == Place(0, (Term(next(expected, -1), 1),))
        for place, size in zip(node.places, source.shape, strict=True)
        if size != 1
    )


def _beginnings(nest: Nest, bodies: Sequence[_Body]) -> Iterator[tuple[Node, Any]]:
    """Yield the arrays to which the loops add, and with what these are filled before."""
    for write in nest.writes:
        target = write.target
        if isinstance(target, Scattered):
            yield target, 0
        elif isinstance(target, Reduced) and not _is_stored_whole(write, bodies):
            yield target, identity(target.kind, target.dtype)


def _is_stored_whole(write: Write, bodies: Sequence[_Body]) -> bool:
    """Return whether each element of a reduction is stored once, and not added to."""
    if len(bodies) != 1:
        return False
    (body,) = bodies
    sizes = [axis for axis, size in enumerate(write.space) if size != 1]
    assert isinstance(write.target, Reduced)
    gone = [axis for axis in sizes if axis in write.target.axes]
    return body.is_flat or not gone or [body.names[sizes.index(axis)] for axis in gone] == [body.inner]


def _fill(
    target: Node, start: Any, pointers: Pointers, tag: str, before: str, used: dict[str, tuple[str, ...]]
) -> tuple[list[str], str]:
    """Return what fills an array with a number, and the label behind it; the functions that it calls are noted."""
    if not target.size:
        return [], before
    if not target.dtype.type(start).tobytes().strip(b"\0"):
        used[_FILL] = ("void", "ptr", "i8", "i64", "i1")
        size = target.size * target.dtype.itemsize
        return [f"  call void @{_FILL}(ptr {pointers.at(target)}, i8 0, i64 {size}, i1 false)"], before
    kind = scalar_of(target.dtype).stored
    value = literal(start, target.dtype).replace("true", "1").replace("false", "0")
    place = f"%{tag}p"
    lines = [
        f"  {place} = getelementptr inbounds {kind}, ptr {pointers.at(target)}, i64 %{tag}i",
        f"  store {kind} {value}, ptr {place}",
    ]
    return narrow(Innermost(lines, f"%{tag}i", 0, target.size, (), (), tag, before, target.size)), f"behind{tag}"


_FILL = "llvm.memset.p0.i64"


def _shared_loops(
    pieces: Sequence[_Piece], outer: int, before: str, in_parts: bool, widths: Widths | None
) -> tuple[list[str], str]:
    """Return the code of pieces one after the other, in loops that all of them share, and the label behind it."""

    def inside(before: str, shares: bool = False) -> tuple[list[str], str]:
        lines: list[str] = []
        for piece in pieces:
            more, before = _own_loops(piece, outer, before, shares, widths)
            lines += more
        return lines, before

    if not outer:
        return inside(before, in_parts)
    loops: list[_Loop] = list(pieces[0].body.loops[:outer])
    levels = [[line for piece in pieces for line in piece.levels[depth]] for depth in range(outer)]
    lines, before, shared = _begun(loops, before, in_parts)
    more, before = _around(loops, [*levels[1:], []], inside, before)
    return [*levels[0], *lines, *more, *_ended(shared)], shared or before


_Loop = tuple[str, tuple[int | str, int | str]]
"""The name of a loop's variable, and what it runs through."""


def _own_loops(piece: _Piece, outer: int, before: str, in_parts: bool, widths: Widths | None) -> tuple[list[str], str]:
    """Return a piece in the loops that are its own, and the label behind them."""
    body, levels, behind = piece
    loops: list[_Loop] = list(body.loops[outer:])
    if not loops:
        return [*levels[outer], *behind], before
    lines, before, shared = _begun(loops, before, in_parts)
    last, ends = loops.pop()
    most = body.loops[-1][1][1] - body.loops[-1][1][0]
    tag = last.removeprefix("%v")

    def inside(before: str) -> tuple[list[str], str]:
        loop = Innermost(levels[-1], last, *ends, body.loop.carried, behind, tag, before, most)
        return [*innermost(body.code, loop, widths), f"  br label %exit{tag}", f"exit{tag}:", *behind], f"exit{tag}"

    more, before = _around(loops, levels[outer + 1 : -1], inside, before)
    return [*levels[outer], *lines, *more, *_ended(shared)], shared or before


def _around(
    loops: Sequence[_Loop], levels: Sequence[list[str]], inside: Callable[[str], tuple[list[str], str]], before: str
) -> tuple[list[str], str]:
    """Return loops, each with its own instructions, around what is inside, and the label behind them."""
    if not loops:
        return inside(before)
    (name, (start, stop)), *rest = loops
    tag = name.removeprefix("%v")
    lines, last = _around(rest, levels[1:], inside, f"loop{tag}")
    return [
        f"  br label %loop{tag}",
        f"loop{tag}:",
        f"  {name} = phi i64 [ {start}, %{before} ], [ %n{tag}, %{last} ]",
        *levels[0],
        *lines,
        f"  %n{tag} = add nuw nsw i64 {name}, 1",
        f"  %c{tag} = icmp eq i64 %n{tag}, {stop}",
        f"  br i1 %c{tag}, label %exit{tag}, label %loop{tag}",
        f"exit{tag}:",
    ], f"exit{tag}"


def innermost(code: Code, loop: Innermost, widths: Widths | None) -> list[str]:
    """Return an innermost loop, which ends in another block than it begins in."""
    wide = None if widths is None else widened(loop, widths)
    if wide is None:
        code.is_wide = False
        return narrow(loop)
    code.used.update(wide[1])
    return wide[0]


def _begun(loops: list[_Loop], before: str, in_parts: bool) -> tuple[list[str], str, str]:
    """Let the first loop take the iterations between `%lo` and `%hi`, and leave it out if there are none.

    Returns:
        What does so, the label in front of the loops, and that behind them; nothing where all iterations are taken.
    """
    if not in_parts:
        return [], before, ""
    name, (start, stop) = loops[0]
    tag = name.removeprefix("%v")
    loops[0] = name, (f"%s{tag}", f"%e{tag}")
    return (
        [
            f"  %a{tag} = icmp sgt i64 %lo, {start}",
            f"  %s{tag} = select i1 %a{tag}, i64 %lo, i64 {start}",
            f"  %b{tag} = icmp slt i64 %hi, {stop}",
            f"  %e{tag} = select i1 %b{tag}, i64 %hi, i64 {stop}",
            f"  %k{tag} = icmp slt i64 %s{tag}, %e{tag}",
            f"  br i1 %k{tag}, label %begin{tag}, label %end{tag}",
            f"begin{tag}:",
        ],
        f"begin{tag}",
        f"end{tag}",
    )


def _ended(shared: str) -> list[str]:
    """Return the end of loops of which others take a part."""
    return [f"  br label %{shared}", f"{shared}:"] if shared else []
