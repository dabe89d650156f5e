"""Lowering of loop nests from arrays to the loop language.

    nest_function(rows, pointers)      the function of some nests

Where an array begins or ends within the index space of a nest, the loops are split, so that their bodies need no
bounds checks.
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
from fgrad.native.nests import MOST_CHUNKS, Nest, Rows, Write, squeezed
from fgrad.native.nodes import Elementwise, Node, Reduction, Remap, Scan, Scatter, Shape, axis_index
from fgrad.native.scalars import SCALAR_OPERATIONS, SCALARS, Scalar, convert, literal, scalar_of
from fgrad.native.tiling import MOST_VECTORS, tiled
from fgrad.native.vectorization import vectorized
from fgrad.native.verifier import verify_reads

# Accumulation

_IDENTITIES = {"sum": 0, "prod": 1, "any": False, "all": True}


def identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the identity element of a reduction."""
    if kind in _IDENTITIES:
        return _IDENTITIES[kind]
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def append_accumulation(
    code: Builder, kind: str, scalar: Scalar, total: Value, value: Value, in_order: bool = False
) -> Instruction:
    """Append the accumulation of a value into a reduction; unless `in_order`, LLVM may reassociate it."""
    if kind in ("sum", "prod"):
        if scalar.is_float:
            return code.binary(Op.FADD if kind == "sum" else Op.FMUL, total, value, "" if in_order else "reassoc")
        return code.binary(Op.ADD if kind == "sum" else Op.MUL, total, value)
    if kind in ("any", "all"):
        return code.binary(Op.OR if kind == "any" else Op.AND, total, value)
    if scalar.is_float:
        return code.intrinsic(f"{kind}imum", total, value)
    return code.intrinsic(f"{'s' if scalar.family == 'signed' else 'u'}{kind}", total, value)


def _accumulator_type(target: Reduction) -> Scalar:
    """Return the accumulator's type: float64 for floating-point sums, since long float32 sums lose precision."""
    kind = scalar_of(target.dtype)
    return SCALARS["float64"] if target.kind == "sum" and kind.is_float else kind


class _StackAccumulator(NamedTuple):
    """An accumulator on the stack, which is preserved between runs of the innermost loop.

    Attributes:
        address: its address.
        depth: the number of loops around its initialization.
        start: appends the computation of its initial value.
    """

    address: Instruction
    depth: int
    start: Callable[[], Value]


Box = tuple[tuple[int, int], ...]
"""The ranges of loops: start and stop of each."""


class _Body:
    """The body of the loops over a box of a nest's index space: all writes at one index.

    Args:
        nest: the nest.
        pointers: the arrays in memory.
        code: the builder to which instructions are appended.
        box: the ranges of the loops, by axis of the space.
        order: the axes, from the outermost loop to the innermost.
        is_partial: whether the box is only a part of the space, so that other loops cover the rest.
        is_flat: whether a single loop iterates over all elements in memory order.
        shared: the variables of the outermost loops, if other nests share these.
        tile: the maximal tile size of the second innermost loop, in elements; 0 if it is not tiled.

    Attributes:
        variables: the loop variables, by axis of the space.
        loops: the loop variables and their ranges, from the outermost loop to the innermost.
        inner: the variable of the innermost loop, unless that is shared.
        carried: the values carried between iterations of the innermost loop.
        accumulators: the accumulators that are preserved between runs of the innermost loop.
        epilogue: functions that append the code after the innermost loop.
    """

    def __init__(
        self,
        nest: Nest,
        pointers: Pointers,
        code: Builder,
        box: Box,
        order: Sequence[int],
        is_partial: bool = False,
        is_flat: bool = False,
        shared: Sequence[Variable] = (),
        tile: int = 0,
    ) -> None:
        self.nest, self.code, self.box, self._is_partial, self.is_flat = nest, code, box, is_partial, is_flat
        self.tile = tile
        self.carried: list[Carried] = []
        self.accumulators: list[_StackAccumulator] = []
        self.epilogue: list[Callable[[], None]] = []
        # Numbered from the outermost loop: terms of an index are added in this order, so that partial sums are hoisted.
        own = [*shared, *(Variable(position) for position in range(len(shared), len(box)))]
        self.variables = [own[order.index(axis)] for axis in range(len(box))]
        ranges = {each: (start, stop - 1) for each, (start, stop) in zip(self.variables, box, strict=True)}
        self.values = Values(code, pointers, ranges)
        self.values.own = {write.target for write in nest.writes if write.target is write.value}
        self.loops = [(self.variables[axis], box[axis]) for axis in order]
        self.inner = self.loops[-1][0] if len(box) > len(shared) else None
        for write in nest.writes:
            self._write(write)

    @property
    def chunked_loop(self) -> int:
        """The position of the loop that may be split into chunks: the first, or the reduction loop if that is short."""
        has_few = len(self.loops) == 2 and self.loops[0][1][1] < MOST_CHUNKS * self.tile
        return int(has_few and self.loops[1][1][1] > MOST_CHUNKS)

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
            self._scan(target, write.value, index)
        elif isinstance(target, Scatter):
            self._scatter(target, write.value, index)
        else:
            position = list(index)
            if write.offset:
                position[write.axis] = plus(position[write.axis], Affine(write.offset))
            self.values.store(target, tuple(position), self.values.at(write.value, index))

    def _carry(self, start: Value) -> Carried:
        made = Carried(start)
        self.carried.append(made)
        return made

    def _reduce(self, target: Reduction, source: Node, index: Index) -> None:
        kind = scalar_of(target.dtype)
        kept = tuple(each for axis, each in enumerate(index) if axis not in target.axes)
        reduced = {x for axis in target.axes for x, _ in index[axis].terms}
        value = self.values.at(source, index)
        if not reduced:
            if target.kind == "sum" and kind.is_float:  # NumPy starts at 0.0, so that -0.0 becomes 0.0
                value = self.code.fadd(value, real(0.0, kind.type))
            self.values.store(target, kept, value)
        elif self.inner in reduced:
            acc_type = _accumulator_type(target)
            total = self._carry(Constant(acc_type.type, identity(target.kind, target.dtype)))
            total.next = append_accumulation(
                self.code, target.kind, acc_type, total, convert(self.code, value, kind, acc_type)
            )
            if reduced == {self.inner} and not self._is_partial:
                self.epilogue.append(
                    lambda: self.values.store(target, kept, convert(self.code, total.after, acc_type, kind))
                )
            else:
                self._accumulate_runs(target, kept, total.after, reduced)
        else:
            before = self.values.load(target, kept)
            self.values.store(target, kept, append_accumulation(self.code, target.kind, kind, before, value))

    def _accumulate_runs(self, target: Reduction, kept: Index, run_total: Value, reduced: Collection[Value]) -> None:
        """Append the accumulation of the totals of several runs of the innermost loop.

        Across consecutive runs the total stays in the accumulator's type, since float32 would lose precision here too.
        """
        code, values = self.code, self.values
        kind, acc_type = scalar_of(target.dtype), _accumulator_type(target)
        depth = len(self.loops) - 1
        while depth and self.loops[depth - 1][0] in reduced:
            depth -= 1
        slot: Instruction | None = None
        if acc_type != kind and depth < len(self.loops) - 1:
            slot = Builder().alloca(acc_type.type)
            self.accumulators.append(
                _StackAccumulator(slot, depth, lambda: convert(code, values.load(target, kept), kind, acc_type))
            )

        def end() -> None:
            before = (
                code.load(acc_type.type, slot) if slot else convert(code, values.load(target, kept), kind, acc_type)
            )
            total = append_accumulation(code, target.kind, acc_type, before, run_total)
            if slot:
                code.store(total, slot)
            values.store(target, kept, convert(code, total, acc_type, kind))

        self.epilogue.append(end)

    def _scan(self, target: Scan, source: Node, index: Index) -> None:
        value = self.values.at(source, index)
        if self.inner in [x for x, _ in index[-1].terms]:
            kind = scalar_of(target.dtype)
            # The initial value is -0.0, since adding 0.0 to a first element of -0.0 gives 0.0.
            start = -0.0 if target.kind == "sum" and kind.is_float else identity(target.kind, target.dtype)
            total = self._carry(literal(start, target.dtype))
            name = {"sum": "add", "prod": "multiply"}[target.kind]
            total.next = value = SCALAR_OPERATIONS[name].emit(self.code, kind, total, value)
        self.values.store(target, index, value)

    def _scatter(self, target: Scatter, values: Node, index: Index) -> None:
        indices = target.arguments[1:]
        count = len(indices[0].shape)
        positions = [self.values.integer(each, index[:count]) for each in indices]
        position = (*positions, *index[count:])
        value = self.values.at(values, index)
        before = self.values.load(target, position)
        self.values.store(
            target, position, append_accumulation(self.code, "sum", scalar_of(target.dtype), before, value)
        )


def flat_index(shape: Shape, x: Variable) -> Index:
    """Return the index of the element at position `x` in memory order."""
    last = max(axis for axis, size in enumerate(shape) if size != 1)
    return tuple(variable(x) if axis == last else ZERO for axis in range(len(shape)))


# Nests

_MOST_BOXES = 27


class NestFunction(NamedTuple):
    """The function of some nests.

    Attributes:
        body: the body, in the loop language.
        work: the approximate number of instructions that it executes, including those of elementary functions.
        iterations: the trip count of the loop that may run in parallel chunks, `_Body.chunked_loop`; 0 if none may.
        chunk_multiple: a number that divides the trip count of each chunk but the last.
        totals: the reductions along that loop; each chunk computes its own partial results of them.
        initial_values: the other arrays that are filled before the loops run, with their fill values.
        is_vectorized: whether all innermost loops are vectorized already.
    """

    body: list[Item]
    work: int
    iterations: int
    chunk_multiple: int
    totals: tuple[Reduction, ...]
    initial_values: tuple[tuple[Node, Any], ...]
    is_vectorized: bool


_FUNCTION_WORK = 16
"""The approximate number of instructions of an elementary function."""

CHUNK = (Parameter("row", Type.I64), Parameter("lo", Type.I64), Parameter("hi", Type.I64))
"""Additional parameters of the function of a chunk: its number, and start and stop of the chunked loop."""


def nest_function(
    rows: Rows, pointers: Pointers, widths: Widths | None = None, in_chunks: bool = False
) -> NestFunction:
    """Return the function of some nests, or with `in_chunks` that of one chunk, with the parameters `CHUNK`."""
    pointers.buffers = {
        array: (_buffer_index(rows.buffers[array], in_chunks), form) for array, form in rows.memory_shapes().items()
    }
    bodies = _bodies_of(rows, pointers, widths)
    code = Builder()
    iterations, totals = _parallel_loop(rows, [body for body, _ in bodies])
    initial = [each for nest in rows.nests for each in _initial_values(nest, [x for x, _ in bodies if x.nest is nest])]
    for target, start in [each for each in initial if each[0] in totals] if in_chunks else initial:
        _fill(code, target, start, pointers)
    written = pointers.parameters_of([write.target for write in rows.writes])
    body_codes = [_body_code(body, inner, pointers, (written, rows.outer)) for body, inner in bodies]
    code.body += [slot.address for body_code in body_codes for slot in body_code.body.accumulators]
    is_vectorized = _shared_loops(code, body_codes, rows.outer, in_chunks, widths)
    pointers.note_writes(write.target for write in rows.writes)
    verify_reads(code.body)
    work = sum(
        math.prod(stop - start for start, stop in body.box) * sum(map(_work_of, inner)) for body, inner in bodies
    )
    initial_values = tuple(each for each in initial if each[0] not in totals)
    chunk_multiple = (
        max([body.tile for body, _ in bodies if len(body.loops) == 2 and not body.chunked_loop], default=0) or 1
    )
    return NestFunction(code.body, work, iterations, chunk_multiple, totals, initial_values, is_vectorized)


def _work_of(each: Instruction) -> int:
    """Return the approximate number of instructions that are executed: a call of `exp`, for example, executes many."""
    is_function = isinstance(each.attribute, Callee) and not each.attribute.name.startswith("@llvm.")
    return _FUNCTION_WORK if is_function else 1


def _buffer_index(loops: tuple[int, ...], in_chunks: bool) -> tuple[Affine | None, ...]:
    """Return the index of a buffer's row along shared axes, None for other axes; each chunk has its own rows."""
    first = variable(CHUNK[0]) if in_chunks else ZERO
    return tuple(None if loop < 0 else ZERO if loop else first for loop in loops)


class _BodyCode(NamedTuple):
    """The code of a body: its instructions by the number of enclosing loops, and the epilogue of the innermost loop."""

    body: _Body
    levels: list[list[Item]]
    epilogue: list[Item]


def _body_code(
    body: _Body, inner: list[Instruction], pointers: Pointers, outer_writes: tuple[Collection[Value], int]
) -> _BodyCode:
    code = body.code
    written = pointers.parameters_of([write.target for write in body.nest.writes])
    levels = hoisted(inner, [each for each, _ in body.loops], body.carried, written, outer_writes)
    # The outer ones first, since their index computations are reused further inside.
    for slot in sorted(body.accumulators, key=lambda each: each.depth):
        with code.within(levels[slot.depth]):
            code.store(slot.start(), slot.address)
    epilogue: list[Item] = []
    with code.within(epilogue):
        for each in body.epilogue:
            each()
    return _BodyCode(body, levels, epilogue)


def fills(initial_values: Sequence[tuple[Node, Any]], pointers: Pointers) -> list[Item]:
    """Return the body of a function that fills arrays with their initial values."""
    code = Builder()
    for target, start in initial_values:
        _fill(code, target, start, pointers)
    return code.body


def _parallel_loop(rows: Rows, bodies: Sequence[_Body]) -> tuple[int, tuple[Reduction, ...]]:
    """Return the trip count of the loop that may run in parallel, 0 if none may, and the reductions along it."""
    if not bodies or not bodies[0].box:
        return 0, ()
    iterations, totals = 0, []
    for body in bodies:
        chunked_loop = body.loops[body.chunked_loop][0]
        iterations = max(iterations, body.box[body.variables.index(chunked_loop)][1])
        for write in body.nest.writes:
            target = write.target
            if isinstance(target, Scatter) or (isinstance(target, Scan) and len(body.loops) == 1):
                return 0, ()
            if isinstance(target, Reduction):
                reduced = {x for axis in target.axes for x, _ in body.index(write.space)[axis].terms}
                if chunked_loop in reduced:
                    totals.append(target)
    return iterations, tuple(dict.fromkeys(totals))


_LoweredBody = tuple[_Body, list[Instruction]]
"""A body with its instructions."""


def _bodies_of(rows: Rows, pointers: Pointers, widths: Widths | None) -> list[_LoweredBody]:
    """Return the bodies of nests."""
    if not rows.outer:
        return _bodies(rows.nests[0], pointers, widths)
    found, shared = [], [Variable(position) for position in range(rows.outer)]
    for nest in rows.nests:
        code = Builder()
        box = tuple((0, size) for size in squeezed(nest.writes[0].space))
        body = _Body(nest, pointers, code, box, range(len(box)), shared=shared)
        assert not any(body.values.boundaries.values())
        found.append((body, list(instructions_of(code.body))))
    return found


def _bodies(nest: Nest, pointers: Pointers, widths: Widths | None) -> list[_LoweredBody]:
    """Return the bodies of a nest, one for each box of its index space."""
    space = nest.writes[0].space
    if 0 in space:
        return []
    sizes, is_flat = squeezed(space), is_flat_nest(nest, pointers)
    if is_flat:
        sizes = (math.prod(sizes),)
    waiting: list[Box] = [tuple((0, size) for size in sizes)]
    can_be_split = not any(isinstance(write.target, Scan) for write in nest.writes)
    found: list[_LoweredBody] = []
    is_whole = True
    order = list(range(len(sizes)))
    is_settled, tile = not can_be_split or len(sizes) < 2, 0
    while waiting:
        box, code = waiting.pop(0), Builder()
        body = _Body(nest, pointers, code, box, order, not is_whole, is_flat, tile=tile)
        if not is_settled:
            tiled_order = None if widths is None else _tiled_order(body, sizes, widths)
            better = tiled_order or _loop_order(body, sizes)
            is_settled, tile = True, MOST_VECTORS * widths.lanes[64] if widths is not None and tiled_order else 0
            if better != order:
                order = better
                waiting.insert(0, box)
                continue
            body.tile = tile
        boxes = _split_at_boundaries(box, body) if can_be_split else [box]
        if len(boxes) > 1 and len(boxes) + len(waiting) + len(found) <= _MOST_BOXES:
            waiting, is_whole = boxes + waiting, False
        else:
            found.append((body, list(instructions_of(code.body))))
    return found


def _loop_order(body: _Body, sizes: Shape) -> list[int]:
    """Return the loop order: innermost the axis along which most accesses are contiguous."""
    costs = []
    for x, size in zip(body.variables, sizes, strict=True):
        strides = [abs(each.get(x, 0)) for each in body.values.strides]
        cost = sum(_STRIDED_COST if stride > 1 else stride for stride in strides) + 1
        costs.append(cost if size >= _SHORT else cost * _STRIDED_COST)
    axes = list(range(len(sizes)))
    best = min(axes, key=lambda axis: (costs[axis], -axis))
    if costs[best] > 0.7 * costs[-1]:
        return axes
    return [*(axis for axis in axes if axis != best), best]


_STRIDED_COST, _SHORT = 6, 8
"""The cost of a strided access relative to a contiguous one; the least trip count of a good innermost loop."""


def _tiled_order(body: _Body, sizes: Shape, widths: Widths) -> list[int] | None:
    """Return the loop order for tiling: the reduction is innermost, and the loop around it computes several at once.

    The result is None unless accesses are contiguous across these reductions, and close to each other along each.
    """
    writes = body.nest.writes
    reductions = [(write.space, write.target.axes) for write in writes if isinstance(write.target, Reduction)]
    if body.values.boundaries or len(reductions) < len(writes) or len({*reductions}) > 1:
        return None
    space, axes = reductions[0]
    is_reduced = [axis in axes for axis, size in enumerate(space) if size != 1]
    reduced = [position for position, each in enumerate(is_reduced) if each]
    kept = [position for position, each in enumerate(is_reduced) if not each]
    if len(reduced) != 1 or not kept or sizes[kept[-1]] < widths.lanes[64]:
        return None
    across, along = body.variables[kept[-1]], body.variables[reduced[0]]
    for strides in body.values.strides:
        stride = abs(strides.get(along, 0))
        allowed = (0, 1) if stride <= _NEAR_STRIDE or stride * sizes[reduced[0]] <= _NEAR_EXTENT else (0,)
        if strides.get(across, 0) not in allowed or not strides.keys() <= {*body.variables}:
            return None
    return [*kept, *reduced]


_NEAR_STRIDE, _NEAR_EXTENT = 8, 2048
"""The greatest stride, and the greatest extent, of accesses that are close to each other, in elements."""


def _split_at_boundaries(box: Box, body: _Body) -> list[Box]:
    """Return the boxes into which the boundaries of arrays split a box."""
    boxes: list[Box] = [()]
    for x, (start, stop) in zip(body.variables, box, strict=True):
        ends = [start, *sorted(body.values.boundaries.get(x, ())), stop]
        boxes = [(*prefix, span) for prefix in boxes for span in pairwise(ends)]
    return boxes


def is_flat_nest(nest: Nest, pointers: Pointers) -> bool:
    """Return whether a nest accesses all arrays in memory order, so that a single loop suffices."""
    space = squeezed(nest.writes[0].space)
    if len(space) < 2:
        return False
    seen: set[Node] = set()
    waiting: list[Node] = []
    for write in nest.writes:
        target = write.target
        reduced = target.axes if isinstance(target, Reduction) else frozenset()
        is_total = isinstance(target, Reduction) and all(
            axis in reduced for axis, size in enumerate(write.space) if size != 1
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
    """Return whether a node only broadcasts a scalar, or adds and removes axes of size 1."""
    source = node.arguments[0]
    if node.bounds:
        return False
    if source.size == 1:
        return True
    axes = [axis for axis, size in enumerate(node.shape) if size != 1]
    expected = iter(axes)
    return len(axes) == len(squeezed(source.shape)) and all(
        index == axis_index(next(expected, -1))
        for index, size in zip(node.index_map, source.shape, strict=True)
        if size != 1
    )


def _initial_values(nest: Nest, bodies: Sequence[_Body]) -> Iterator[tuple[Node, Any]]:
    """Yield the arrays into which the loops accumulate, and their initial values."""
    for write in nest.writes:
        target = write.target
        if isinstance(target, Scatter):
            yield target, 0
        elif isinstance(target, Reduction) and not _is_stored_whole(write, bodies):
            yield target, identity(target.kind, target.dtype)


def _is_stored_whole(write: Write, bodies: Sequence[_Body]) -> bool:
    """Return whether each element of a reduction is stored once, without accumulation in memory."""
    if len(bodies) != 1:
        return False
    (body,) = bodies
    sizes = [axis for axis, size in enumerate(write.space) if size != 1]
    assert isinstance(write.target, Reduction)
    reduced = [axis for axis in sizes if axis in write.target.axes]
    return body.is_flat or not reduced or [body.variables[sizes.index(axis)] for axis in reduced] == [body.inner]


def _fill(code: Builder, target: Node, start: int, pointers: Pointers) -> None:
    """Append code that fills an array with a number."""
    if not target.size:
        return
    memory = pointers.at(target)
    if not target.dtype.type(start).tobytes().strip(b"\0"):
        size = integer(target.nbytes)
        code.do(Op.CALL, None, memory, integer(0, Type.I8), size, FALSE, attribute=_FILL)
        return
    kind = scalar_of(target.dtype)
    with code.loop(target.size) as position:
        code.store(Constant(kind.stored, start), code.address(memory, kind.stored, position))


_FILL = Callee("@llvm.memset.p0.i64")


_Loop = tuple[Variable, tuple[int, int]]
"""A loop variable and its range."""


def _shared_loops(
    code: Builder, body_codes: Sequence[_BodyCode], outer: int, in_chunks: bool, widths: Widths | None
) -> bool:
    """Append bodies in sequence within their shared loops; return whether all innermost loops are vectorized."""
    if not outer:
        are_vectorized = [_own_loops(code, body_code, 0, in_chunks, widths) for body_code in body_codes]
        return all(are_vectorized)
    levels = [[item for body_code in body_codes for item in body_code.levels[depth]] for depth in range(outer)]
    with contextlib.ExitStack() as stack:
        for level, (each, ends) in enumerate(body_codes[0].body.loops[:outer]):
            code.body += levels[level]
            stack.enter_context(_loop_within(code, _loop(code, each, ends, in_chunks and not level)))
        are_vectorized = [_own_loops(code, body_code, outer, False, widths) for body_code in body_codes]
    return all(are_vectorized)


def _own_loops(code: Builder, body_code: _BodyCode, outer: int, in_chunks: bool, widths: Widths | None) -> bool:
    """Append a body within its own loops; return whether its innermost loop is vectorized."""
    body, levels, epilogue = body_code
    loops = body.loops[outer:]
    code.body += levels[outer]
    if not loops:
        code.body += epilogue
        return True
    chunked_loop = body.chunked_loop if in_chunks else -1
    each, ends = loops[-1]
    inner = _loop(code, each, ends, chunked_loop == len(loops) - 1)
    inner.body, inner.carried = levels[-1], body.carried
    with contextlib.ExitStack() as stack:
        for depth, (around, its_ends) in enumerate(loops[:-1]):
            loop = _loop(code, around, its_ends, depth == chunked_loop)
            if body.tile and widths is not None and depth == len(loops) - 2:
                whole = replace(loop, body=[*levels[-2], inner, *epilogue])
                tiles = tiled(whole, widths, its_ends[1] - its_ends[0])
                if tiles is not None:
                    code.body += tiles
                    return True
            stack.enter_context(_loop_within(code, loop))
            code.body += levels[outer + depth + 1]
        return append_innermost(code, inner, widths, ends[1] - ends[0], epilogue)


def append_innermost(
    code: Builder, loop: Loop, widths: Widths | None, most: int, epilogue: Sequence[Item] = ()
) -> bool:
    """Append an innermost loop, vectorized if possible, and its epilogue; return whether it is vectorized.

    Args:
        code: the builder.
        loop: the loop.
        widths: the vector widths of the processor; None: no vectorization.
        most: the maximal trip count.
        epilogue: the code after the loop.
    """
    found = None if widths is None else vectorized(loop, widths, most)
    code.body += [loop] if found is None else found
    code.body += epilogue
    return found is not None


def _loop(code: Builder, each: Variable, ends: tuple[int, int], in_chunks: bool) -> Loop:
    """Return a loop, restricted to the range of a chunk if `in_chunks`; append the computation of its bounds."""
    start: Value = integer(ends[0])
    stop: Value = integer(ends[1])
    if in_chunks:
        _, low, high = CHUNK
        start = code.select(code.compare("sgt", low, start), low, start)
        stop = code.select(code.compare("slt", high, stop), high, stop)
        stop = code.select(code.compare("slt", start, stop), stop, start)  # a chunk outside of the box is empty
    return Loop(each, start, stop, may_be_empty=in_chunks)


@contextlib.contextmanager
def _loop_within(code: Builder, loop: Loop) -> Iterator[None]:
    """Append a loop, and append to its body within the `with` block."""
    code.body.append(loop)
    with code.within(loop.body):
        yield
