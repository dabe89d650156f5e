"""Nests of loops, from arrays to the loop language.

    nest_function(rows, pointers)      a function that runs nests

Where an array begins or ends within the space of a nest, the loops are parted, so that they need not ask where they
are.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fgrad.native.elements import Pointers, Values
from fgrad.native.hoisting import hoisted
from fgrad.native.indices import ZERO, Affine, Index, plus, variable
from fgrad.native.ir import (
    FALSE,
    Builder,
    Callee,
    Carried,
    Constant,
    Instruction,
    Item,
    Loop,
    Op,
    Parameter,
    Type,
    Value,
    Variable,
    instructions_of,
    integer,
    real,
)
from fgrad.native.lanes import Widths
from fgrad.native.nests import MOST_PARTS, Nest, Rows, Write, squeezed
from fgrad.native.nodes import Elementwise, Node, Reduction, Remap, Scan, Scatter, Shape, axis_index
from fgrad.native.scalars import SCALAR_OPERATIONS, SCALARS, Scalar, convert, literal, scalar_of
from fgrad.native.tiling import MOST_VECTORS, tiled
from fgrad.native.vectorization import widened
from fgrad.native.verifier import verify_reads

# What is accumulated

_IDENTITIES = {"sum": 0, "prod": 1, "any": False, "all": True}


def identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return what changes no sum, product, ..."""
    if kind in _IDENTITIES:
        return _IDENTITIES[kind]
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def accumulated(
    code: Builder, kind: str, scalar: Scalar, total: Value, value: Value, in_order: bool = False
) -> Instruction:
    """Append one step of a sum, product, ...; the order is the compiler's to choose, or not."""
    if kind in ("sum", "prod"):
        if scalar.is_float:
            return code.binary(Op.FADD if kind == "sum" else Op.FMUL, total, value, "" if in_order else "reassoc")
        return code.binary(Op.ADD if kind == "sum" else Op.MUL, total, value)
    if kind in ("any", "all"):
        return code.binary(Op.OR if kind == "any" else Op.AND, total, value)
    if scalar.is_float:
        return code.intrinsic(f"{kind}imum", total, value)
    return code.intrinsic(f"{'s' if scalar.family == 'signed' else 'u'}{kind}", total, value)


def _summed_as(target: Reduction) -> Scalar:
    """Return the kind of number in which a sum is taken: short ones lose digits where very many are added in a row."""
    kind = scalar_of(target.dtype)
    return SCALARS["float64"] if target.kind == "sum" and kind.is_float else kind


class _Cell(NamedTuple):
    """A number that lives on from one run of the innermost loop to the next.

    Attributes:
        address: where it lies.
        depth: how many loops are around all of these runs, in front of which it is set.
        start: appends its first value.
    """

    address: Instruction
    depth: int
    start: Callable[[], Value]


Box = tuple[tuple[int, int], ...]
"""What the loops run through: beginnings and ends."""


class _Body:
    """The body of loops over a part of a nest's space: all writes at one index.

    Args:
        nest: what is written.
        pointers: the memory of arrays.
        code: where instructions go.
        box: what the loops run through, by axis of the space.
        order: the axes, from the outermost loop to the innermost.
        is_part: whether other loops run through other parts of the space.
        is_flat: whether one loop runs through all elements as they lie in memory.
        shared: the variables of the outermost loops that are around other nests, too.
        tile: how many elements the last loop but one is to take at once, at most; 0 if it is a plain loop.

    Attributes:
        variables: of the loops, by axis of the space.
        loops: the variables of the loops from the outermost on, and what they run through.
        inner: the variable of the innermost loop, unless that is shared.
        carried: what goes from iteration to iteration of the innermost loop.
        cells: the numbers that live on from one run of it to the next.
        behind: append what happens behind it.
    """

    def __init__(
        self,
        nest: Nest,
        pointers: Pointers,
        code: Builder,
        box: Box,
        order: Sequence[int],
        is_part: bool = False,
        is_flat: bool = False,
        shared: Sequence[Variable] = (),
        tile: int = 0,
    ) -> None:
        self.nest, self.code, self.box, self._is_part, self.is_flat = nest, code, box, is_part, is_flat
        self.tile = tile
        self.carried: list[Carried] = []
        self.cells: list[_Cell] = []
        self.behind: list[Callable[[], None]] = []
        # By the order of the loops, in which sums of indices are taken: what inner loops need not do comes first.
        own = [*shared, *(Variable(place) for place in range(len(shared), len(box)))]
        self.variables = [own[order.index(axis)] for axis in range(len(box))]
        ranges = {each: (start, stop - 1) for each, (start, stop) in zip(self.variables, box, strict=True)}
        self.values = Values(code, pointers, ranges)
        self.values.own = {write.target for write in nest.writes if write.target is write.value}
        self.loops = [(self.variables[axis], box[axis]) for axis in order]
        self.inner = self.loops[-1][0] if len(box) > len(shared) else None
        for write in nest.writes:
            self._write(write)

    @property
    def parted(self) -> int:
        """The place of the loop that may run in parts: the first one, or that along sums if there are few of them."""
        has_few = len(self.loops) == 2 and self.loops[0][1][1] < MOST_PARTS * self.tile
        return int(has_few and self.loops[1][1][1] > MOST_PARTS)

    def index(self, shape: Shape) -> Index:
        if self.is_flat:
            return flat_index(shape, self.variables[0])
        variables = iter(self.variables)
        return tuple(ZERO if size == 1 else variable(next(variables)) for size in shape)

    def _write(self, write: Write) -> None:
        target = write.target
        index = self.index(write.space)
        if isinstance(target, Reduction):
            self._reduce(target, write.value, index)
        elif isinstance(target, Scan):
            self._run(target, write.value, index)
        elif isinstance(target, Scatter):
            self._scatter(target, write.value, index)
        else:
            place = list(index)
            if write.offset:
                place[write.axis] = plus(place[write.axis], Affine(write.offset))
            self.values.store(target, tuple(place), self.values.at(write.value, index))

    def _carry(self, start: Value) -> Carried:
        made = Carried(start)
        self.carried.append(made)
        return made

    def _reduce(self, target: Reduction, source: Node, index: Index) -> None:
        kind = scalar_of(target.dtype)
        kept = tuple(each for axis, each in enumerate(index) if axis not in target.axes)
        gone = {x for axis in target.axes for x, _ in index[axis].terms}
        value = self.values.at(source, index)
        if not gone:
            if target.kind == "sum" and kind.is_float:  # NumPy's begins at 0.0, which makes 0.0 of -0.0
                value = self.code.fadd(value, real(0.0, kind.type))
            self.values.store(target, kept, value)
        elif self.inner in gone:
            wide = _summed_as(target)
            total = self._carry(Constant(wide.type, identity(target.kind, target.dtype)))
            total.next = accumulated(self.code, target.kind, wide, total, convert(self.code, value, kind, wide))
            if gone == {self.inner} and not self._is_part:
                self.behind.append(lambda: self.values.store(target, kept, convert(self.code, total.after, wide, kind)))
            else:
                self._add_rows(target, kept, total.after, gone)
        else:
            before = self.values.load(target, kept)
            self.values.store(target, kept, accumulated(self.code, target.kind, kind, before, value))

    def _add_rows(self, target: Reduction, kept: Index, row: Value, gone: Collection[Value]) -> None:
        """Add up what runs of the innermost loop have found.

        Short numbers lose digits here as well: where such runs follow each other, their sum stays a long number.
        """
        code, values = self.code, self.values
        kind, wide = scalar_of(target.dtype), _summed_as(target)
        depth = len(self.loops) - 1
        while depth and self.loops[depth - 1][0] in gone:
            depth -= 1
        cell: Instruction | None = None
        if wide != kind and depth < len(self.loops) - 1:
            cell = Builder().alloca(wide.type)
            self.cells.append(_Cell(cell, depth, lambda: convert(code, values.load(target, kept), kind, wide)))

        def end() -> None:
            before = code.load(wide.type, cell) if cell else convert(code, values.load(target, kept), kind, wide)
            total = accumulated(code, target.kind, wide, before, row)
            if cell:
                code.store(total, cell)
            values.store(target, kept, convert(code, total, wide, kind))

        self.behind.append(end)

    def _run(self, target: Scan, source: Node, index: Index) -> None:
        value = self.values.at(source, index)
        if self.inner in [x for x, _ in index[-1].terms]:
            kind = scalar_of(target.dtype)
            # What is added to the first element is -0.0, because 0.0 would make 0.0 of -0.0.
            start = -0.0 if target.kind == "sum" and kind.is_float else identity(target.kind, target.dtype)
            total = self._carry(literal(start, target.dtype))
            name = {"sum": "add", "prod": "multiply"}[target.kind]
            total.next = value = SCALAR_OPERATIONS[name].emit(self.code, kind, total, value)
        self.values.store(target, index, value)

    def _scatter(self, target: Scatter, values: Node, index: Index) -> None:
        indices = target.arguments[1:]
        count = len(indices[0].shape)
        places = [self.values.integer(each, index[:count]) for each in indices]
        place = (*places, *index[count:])
        value = self.values.at(values, index)
        before = self.values.load(target, place)
        self.values.store(target, place, accumulated(self.code, "sum", scalar_of(target.dtype), before, value))


def flat_index(shape: Shape, x: Variable) -> Index:
    """Return an index that goes through all elements as they lie in memory."""
    last = max(axis for axis, size in enumerate(shape) if size != 1)
    return tuple(variable(x) if axis == last else ZERO for axis in range(len(shape)))


# Nests

_MOST_BOXES = 27


class NestFunction(NamedTuple):
    """A function that runs a nest.

    Attributes:
        body: in the loop language.
        work: about how many instructions it runs, those of elementary functions included.
        iterations: of the loop that may run in parts at once, which is the outermost or `_Body.parted`; 0 if none may.
        step: of how many iterations a part is to have a multiple.
        totals: the reductions along that loop, which such parts take for themselves.
        begins: the other arrays that are filled with a number before the loops run.
        is_wide: its innermost loops compute several elements at once already.
    """

    body: list[Item]
    work: int
    iterations: int
    step: int
    totals: tuple[Reduction, ...]
    begins: tuple[tuple[Node, Any], ...]
    is_wide: bool


_OF_FUNCTION = 16
"""Instructions of an elementary function."""

PART = (Parameter("row", Type.I64), Parameter("lo", Type.I64), Parameter("hi", Type.I64))
"""What a function that runs a part of a nest takes besides: its number, and what the outermost loop runs through."""


def nest_function(rows: Rows, pointers: Pointers, widths: Widths | None = None, in_parts: bool = False) -> NestFunction:
    """Return the function that runs nests, or a part of their outermost loop; `PART` says which."""
    pointers.buffers = {
        array: (_row(rows.buffers[array], in_parts), form) for array, form in rows.memory_shapes().items()
    }
    bodies = _bodies_of(rows, pointers, widths)
    code = Builder()
    iterations, totals = _parallel(rows, [body for body, _ in bodies])
    beginnings = [each for nest in rows.nests for each in _beginnings(nest, [x for x, _ in bodies if x.nest is nest])]
    for target, start in [each for each in beginnings if each[0] in totals] if in_parts else beginnings:
        _fill(code, target, start, pointers)
    written = pointers.all_of([write.target for write in rows.writes])
    pieces = [_piece(body, inner, pointers, (written, rows.outer)) for body, inner in bodies]
    code.body += [cell.address for piece in pieces for cell in piece.body.cells]
    is_wide = _shared_loops(code, pieces, rows.outer, in_parts, widths)
    pointers.note_writes(write.target for write in rows.writes)
    verify_reads(code.body)
    work = sum(
        math.prod(stop - start for start, stop in body.box) * sum(map(_work_of, inner)) for body, inner in bodies
    )
    begins = tuple(each for each in beginnings if each[0] not in totals)
    step = max([body.tile for body, _ in bodies if len(body.loops) == 2 and not body.parted], default=0) or 1
    return NestFunction(code.body, work, iterations, step, totals, begins, is_wide)


def _work_of(each: Instruction) -> int:
    """Return about how many instructions one runs: a call of `exp` and its like runs many."""
    is_function = isinstance(each.attribute, Callee) and not each.attribute.name.startswith("@llvm.")
    return _OF_FUNCTION if is_function else 1


def _row(loops: tuple[int, ...], in_parts: bool) -> tuple[Affine | None, ...]:
    """Return what stands for each axis along which there is one row at a time; each part has its own."""
    first = variable(PART[0]) if in_parts else ZERO
    return tuple(None if loop < 0 else ZERO if loop else first for loop in loops)


class _Piece(NamedTuple):
    """The code of a body: the instructions by the number of loops around them, and what is behind the innermost."""

    body: _Body
    levels: list[list[Item]]
    behind: list[Item]


def _piece(body: _Body, inner: list[Instruction], pointers: Pointers, before: tuple[Collection[Value], int]) -> _Piece:
    code = body.code
    written = pointers.all_of([write.target for write in body.nest.writes])
    levels = hoisted(inner, [each for each, _ in body.loops], body.carried, written, before)
    # The outer ones first: what sums of indices are called there is known further inside, too.
    for cell in sorted(body.cells, key=lambda each: each.depth):
        with code.within(levels[cell.depth]):
            code.store(cell.start(), cell.address)
    behind: list[Item] = []
    with code.within(behind):
        for each in body.behind:
            each()
    return _Piece(body, levels, behind)


def fills(begins: Sequence[tuple[Node, Any]], pointers: Pointers) -> list[Item]:
    """Return the body of a function that fills arrays with numbers."""
    code = Builder()
    for target, start in begins:
        _fill(code, target, start, pointers)
    return code.body


def _parallel(rows: Rows, bodies: Sequence[_Body]) -> tuple[int, tuple[Reduction, ...]]:
    """Return how many iterations of the parted loop may run at once, and what is added up along it."""
    if not bodies or not bodies[0].box:
        return 0, ()
    iterations, totals = 0, []
    for body in bodies:
        parted = body.loops[body.parted][0]
        iterations = max(iterations, body.box[body.variables.index(parted)][1])
        for write in body.nest.writes:
            target = write.target
            if isinstance(target, Scatter) or (isinstance(target, Scan) and len(body.loops) == 1):
                return 0, ()
            if isinstance(target, Reduction):
                gone = {x for place in target.axes for x, _ in body.index(write.space)[place].terms}
                if parted in gone:
                    totals.append(target)
    return iterations, tuple(dict.fromkeys(totals))


_Coded = tuple[_Body, list[Instruction]]
"""A body with its instructions."""


def _bodies_of(rows: Rows, pointers: Pointers, widths: Widths | None) -> list[_Coded]:
    """Return the bodies of nests."""
    if not rows.outer:
        return _bodies(rows.nests[0], pointers, widths)
    found, shared = [], [Variable(place) for place in range(rows.outer)]
    for nest in rows.nests:
        code = Builder()
        box = tuple((0, size) for size in squeezed(nest.writes[0].space))
        body = _Body(nest, pointers, code, box, range(len(box)), shared=shared)
        assert not any(body.values.cuts.values())
        found.append((body, list(instructions_of(code.body))))
    return found


def _bodies(nest: Nest, pointers: Pointers, widths: Widths | None) -> list[_Coded]:
    """Return the bodies for the parts of a nest's space."""
    space = nest.writes[0].space
    if 0 in space:
        return []
    sizes, is_flat = squeezed(space), is_flat_nest(nest, pointers)
    if is_flat:
        sizes = (math.prod(sizes),)
    waiting: list[Box] = [tuple((0, size) for size in sizes)]
    can_be_cut = not any(isinstance(write.target, Scan) for write in nest.writes)
    found: list[_Coded] = []
    is_whole = True
    order = list(range(len(sizes)))
    is_settled, tile = not can_be_cut or len(sizes) < 2, 0
    while waiting:
        box, code = waiting.pop(0), Builder()
        body = _Body(nest, pointers, code, box, order, not is_whole, is_flat, tile=tile)
        if not is_settled:
            of_tiles = None if widths is None else _order_of_tiles(body, sizes, widths)
            better = of_tiles or _order(body, sizes)
            is_settled, tile = True, MOST_VECTORS * widths.lanes[64] if widths is not None and of_tiles else 0
            if better != order:
                order = better
                waiting.insert(0, box)
                continue
            body.tile = tile
        parts = _cut(box, body) if can_be_cut else [box]
        if len(parts) > 1 and len(parts) + len(waiting) + len(found) <= _MOST_BOXES:
            waiting, is_whole = parts + waiting, False
        else:
            found.append((body, list(instructions_of(code.body))))
    return found


def _order(body: _Body, sizes: Shape) -> list[int]:
    """Return the axes with that one last along which most elements are neighbours in memory."""
    costs = []
    for x, size in zip(body.variables, sizes, strict=True):
        steps = [abs(each.get(x, 0)) for each in body.values.steps]
        cost = sum(_FAR if step > 1 else step for step in steps) + 1
        costs.append(cost if size >= _SHORT else cost * _FAR)
    axes = list(range(len(sizes)))
    best = min(axes, key=lambda axis: (costs[axis], -axis))
    if costs[best] > 0.7 * costs[-1]:
        return axes
    return [*(axis for axis in axes if axis != best), best]


_FAR, _SHORT = 6, 8
"""What a step over memory costs beside one to a neighbour; a loop of fewer iterations is no good innermost one."""


def _order_of_tiles(body: _Body, sizes: Shape, widths: Widths) -> list[int] | None:
    """Return the axes with that of a sum last, behind the one along which several sums are to be taken at once.

    This pays where what is needed for such sums are neighbours in memory, and where the terms of each lie together.
    None: it does not.
    """
    writes = body.nest.writes
    reductions = [(write.space, write.target.axes) for write in writes if isinstance(write.target, Reduction)]
    if body.values.cuts or len(reductions) < len(writes) or len({*reductions}) > 1:
        return None
    space, axes = reductions[0]
    is_gone = [axis in axes for axis, size in enumerate(space) if size != 1]
    gone = [place for place, each in enumerate(is_gone) if each]
    kept = [place for place, each in enumerate(is_gone) if not each]
    if len(gone) != 1 or not kept or sizes[kept[-1]] < widths.lanes[64]:
        return None
    across, along = body.variables[kept[-1]], body.variables[gone[0]]
    for steps in body.values.steps:
        step = abs(steps.get(along, 0))
        allowed = (0, 1) if step <= _NEAR or step * sizes[gone[0]] <= _FEW else (0,)
        if steps.get(across, 0) not in allowed or not steps.keys() <= {*body.variables}:
            return None
    return [*kept, *gone]


_NEAR, _FEW = 8, 2048
"""Elements between two terms of a sum, or between the first and the last one, that lie together."""


def _cut(box: Box, body: _Body) -> list[Box]:
    """Return the parts of a box between the places where arrays begin and end."""
    parts: list[Box] = [()]
    for x, (start, stop) in zip(body.variables, box, strict=True):
        ends = [start, *sorted(body.values.cuts.get(x, ())), stop]
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
        gone = target.axes if isinstance(target, Reduction) else frozenset()
        is_total = isinstance(target, Reduction) and all(
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
        if isinstance(node, Remap) and not _keeps_order(node):
            return False
        if not isinstance(node, (Elementwise, Remap)):
            return False
        waiting += node.arguments
    return True


def _keeps_order(node: Remap) -> bool:
    """Return whether an array is a number that is repeated, or another one with more or fewer axes of size 1."""
    source = node.arguments[0]
    if node.bounds:
        return False
    if source.size == 1:
        return True
    axes = [axis for axis, size in enumerate(node.shape) if size != 1]
    expected = iter(axes)
    return len(axes) == len(squeezed(source.shape)) and all(
        place == axis_index(next(expected, -1))
        for place, size in zip(node.index_map, source.shape, strict=True)
        if size != 1
    )


def _beginnings(nest: Nest, bodies: Sequence[_Body]) -> Iterator[tuple[Node, Any]]:
    """Yield the arrays to which the loops add, and with what these are filled before."""
    for write in nest.writes:
        target = write.target
        if isinstance(target, Scatter):
            yield target, 0
        elif isinstance(target, Reduction) and not _is_stored_whole(write, bodies):
            yield target, identity(target.kind, target.dtype)


def _is_stored_whole(write: Write, bodies: Sequence[_Body]) -> bool:
    """Return whether each element of a reduction is stored once, and not added to."""
    if len(bodies) != 1:
        return False
    (body,) = bodies
    sizes = [axis for axis, size in enumerate(write.space) if size != 1]
    assert isinstance(write.target, Reduction)
    gone = [axis for axis in sizes if axis in write.target.axes]
    return body.is_flat or not gone or [body.variables[sizes.index(axis)] for axis in gone] == [body.inner]


def _fill(code: Builder, target: Node, start: int, pointers: Pointers) -> None:
    """Append what fills an array with a number."""
    if not target.size:
        return
    memory = pointers.at(target)
    if not target.dtype.type(start).tobytes().strip(b"\0"):
        size = integer(target.size * target.dtype.itemsize)
        code.do(Op.CALL, None, memory, integer(0, Type.I8), size, FALSE, attribute=_FILL)
        return
    kind = scalar_of(target.dtype)
    with code.loop(target.size) as place:
        code.store(Constant(kind.stored, start), code.address(memory, kind.stored, place))


_FILL = Callee("@llvm.memset.p0.i64")


_Loop = tuple[Variable, tuple[int, int]]
"""The variable of a loop, and what it runs through."""


def _shared_loops(code: Builder, pieces: Sequence[_Piece], outer: int, in_parts: bool, widths: Widths | None) -> bool:
    """Append pieces one after the other, in loops that all of them share, and return whether all loops are wide."""
    if not outer:
        are_wide = [_own_loops(code, piece, 0, in_parts, widths) for piece in pieces]
        return all(are_wide)
    levels = [[item for piece in pieces for item in piece.levels[depth]] for depth in range(outer)]
    with contextlib.ExitStack() as stack:
        for place, (each, ends) in enumerate(pieces[0].body.loops[:outer]):
            code.body += levels[place]
            stack.enter_context(_loop_within(code, _loop(code, each, ends, in_parts and not place)))
        are_wide = [_own_loops(code, piece, outer, False, widths) for piece in pieces]
    return all(are_wide)


def _own_loops(code: Builder, piece: _Piece, outer: int, in_parts: bool, widths: Widths | None) -> bool:
    """Append a piece in the loops that are its own, and return whether its innermost loop is wide."""
    body, levels, behind = piece
    loops = body.loops[outer:]
    code.body += levels[outer]
    if not loops:
        code.body += behind
        return True
    parted = body.parted if in_parts else -1
    each, ends = loops[-1]
    inner = _loop(code, each, ends, parted == len(loops) - 1)
    inner.body, inner.carried = levels[-1], body.carried
    with contextlib.ExitStack() as stack:
        for place, (around, its_ends) in enumerate(loops[:-1]):
            loop = _loop(code, around, its_ends, place == parted)
            if body.tile and widths is not None and place == len(loops) - 2:
                whole = replace(loop, body=[*levels[-2], inner, *behind])
                tiles = tiled(whole, widths, its_ends[1] - its_ends[0])
                if tiles is not None:
                    code.body += tiles
                    return True
            stack.enter_context(_loop_within(code, loop))
            code.body += levels[outer + place + 1]
        return append_innermost(code, inner, widths, ends[1] - ends[0], behind)


def append_innermost(code: Builder, loop: Loop, widths: Widths | None, most: int, behind: Sequence[Item] = ()) -> bool:
    """Append an innermost loop, wide if it can be made so, and what is behind it, and return whether it is wide.

    Args:
        code: where it goes.
        loop: the loop.
        widths: how many elements are computed at once; None: one.
        most: how many iterations there are at most.
        behind: what is behind it.
    """
    found = None if widths is None else widened(loop, widths, most)
    code.body += [loop] if found is None else found
    code.body += behind
    return found is not None


def _loop(code: Builder, each: Variable, ends: tuple[int, int], in_parts: bool) -> Loop:
    """Return a loop, which takes the iterations of a part if there are parts; what computes its ends is appended."""
    start: Value = integer(ends[0])
    stop: Value = integer(ends[1])
    if in_parts:
        _, low, high = PART
        start = code.select(code.compare("sgt", low, start), low, start)
        stop = code.select(code.compare("slt", high, stop), high, stop)
    return Loop(each, start, stop, may_be_empty=in_parts)


@contextlib.contextmanager
def _loop_within(code: Builder, loop: Loop) -> Iterator[None]:
    """Append a loop, to whose body goes what is appended in the `with` block."""
    code.body.append(loop)
    with code.within(loop.body):
        yield
