"""Loops over programs: which are native, and their functions in LLVM's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import strip_ended
from fgrad.graphs.equations import Equation
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Along, Iterations, iterations_of
from fgrad.native.calls import LOOPS, Calls, Functions, places, room_for, size_of
from fgrad.native.functions import Function
from fgrad.native.ir import Parameter
from fgrad.native.llvm_text import Used
from fgrad.native.lowering import CALLS, Program, any_failure, lowered
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Given, Looped, Moved, Node, Part, Place, Stepped, Term
from fgrad.native.plan import planned

_COPY = "llvm.memcpy.p0.p0.i64"


def _loop(program: Program, equation: Equation, arguments: list[Any]) -> tuple[Node, ...] | None:
    """Return the results of a loop; None of what is no loop."""
    iterations = iterations_of(equation)
    if iterations is None:
        return None
    try:
        return _native_loop(program, iterations, equation.outputs, arguments)
    except _NotNativeError as error:
        program.refused[program.equation] = f"in each iteration, {error}"
        loop = Primitive("loop", PythonLoop(iterations))
        return tuple(program.step(replace(equation, primitive=loop), arguments))


def _native_loop(
    program: Program, iterations: Iterations, outputs: Sequence[Any], arguments: list[Any]
) -> tuple[Node, ...]:
    inner, condition = _native(iterations.body), None
    results = _results(inner, iterations.body)
    failed = any_failure(inner)
    if iterations.condition is not None:
        asked = _native(iterations.condition)
        condition = asked, _results(asked, iterations.condition)[0]
        if asked.failures:
            raise _NotNativeError("the condition may raise")
    given = [program.cast(x, name.dtype) for x, name in zip(arguments, iterations.body.inputs, strict=True)]
    middle = iterations.shared + iterations.carried
    peeled = [_peeled(x, along) for x, along in zip(given[middle:], iterations.reads, strict=True)]
    iterations = replace(iterations, reads=[along for _, along in peeled])
    given[middle:] = [x for x, _ in peeled]
    loop = Looped(iterations, inner, [*results, *([failed] if failed else [])], condition, given)
    program.add(loop)
    parts = [Part(loop, place, name.shape, name.dtype) for place, name in enumerate(outputs)]
    if failed is not None:
        program.failures.append(program.add(Part(loop, len(parts), (), failed.dtype)))
    return tuple(program.add(part) for part in parts)


CALLS.append(_loop)


def _peeled(node: Node, along: Along) -> tuple[Node, Along]:
    """Return the array of which another one has some rows, and where the iterations are there."""
    while isinstance(node, Moved) and not node.bounds and _has_rows_of(node, node.arguments[0]):
        first, step = node.places[0], node.places[0].terms[0].coefficient
        node, along = node.arguments[0], Along(first.offset + step * along.start, step * along.step)
    return node, along


def _has_rows_of(node: Moved, source: Node) -> bool:
    if not source.shape or source.shape[1:] != node.shape[1:]:
        return False
    first, *others = node.places
    own = [Place(0, (Term(axis, 1),)) if size != 1 else Place(0, ()) for axis, size in enumerate(node.shape)][1:]
    return others == own and first.divisor == 1 and [term.axis for term in first.terms] == [0]


def _results(program: Program, block: Block) -> list[Node]:
    return [program.node(program.argument(strip_ended(x))) for x in block.outputs]


class PythonLoop:
    """A loop of Python's, of which each iteration is a compiled program."""

    def __init__(self, iterations: Iterations) -> None:
        self.iterations = iterations
        self._body = Function(iterations.body, "loop")

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        return tuple(self.iterations.run(leaves, self._body))


class _NotNativeError(Exception):
    """An iteration is not native, for the reason that is given."""


def _native(block: Block) -> Program:
    """Return the nodes of a program.

    Raises:
        _NotNativeError: NumPy has to run some of it.
    """
    program = lowered(block)
    for node in program.all:
        if isinstance(node, Stepped):
            raise _NotNativeError(program.refused.get(node.equation, "NumPy runs an operation"))
    program.constants = {node: np.ascontiguousarray(array) for node, array in program.constants.items()}
    return program


class _Loop:
    """The function of a loop.

    What an iteration hands to the next one stays where it has been written, and its address goes from iteration to
    iteration; where that is not the row of a result, there are two places, used alternately.

    Args:
        item: the loop.
        parts: those of its results that are used.
        name: what the names of its functions begin with.
        functions: those that there are.

    Attributes:
        order: the arrays that the function takes: arguments, results, and memory to work in.
    """

    def __init__(self, item: Looped, parts: list[Part], name: str, functions: Functions) -> None:
        self._iterations = iterations = item.iterations
        plan = planned(item.program.all, item.results)
        self._calls = Calls(name, plan.items, plan, functions)
        self.order = list(dict.fromkeys([*map(memory_of, item.arguments), *parts, item]))
        self._names = {node: f"%p{place}" for place, node in enumerate(self.order)}
        self._made = {part.place: self._names[part] for part in parts}
        self._item, self._size = item, 0
        self._begin: list[str] = []  # before the first iteration
        self._phis: list[str] = []
        self._iteration: list[str] = []
        self._end: list[str] = []
        self._functions = functions
        self._memory = self._constants(item.program)
        self._condition: tuple[Program, Calls, Node] | None = None
        if item.condition is not None:
            program, result = item.condition
            plan = planned(program.all, [result])
            self._condition = program, Calls(f"{name}_c", plan.items, plan, functions), result
        inputs = [item.program.inputs[name] for name in iterations.body.inputs]
        addresses = [self._names[memory_of(x)] for x in item.arguments]
        pairs = list(zip(inputs, addresses, strict=True))
        middle = iterations.shared + iterations.carried
        self._shared, self._carried = pairs[: iterations.shared], pairs[iterations.shared : middle]
        self._elements = pairs[middle:]

    def text(self) -> str:
        """Return the function."""
        iterations = self._iterations
        roots = list(map(memory_of, self._item.results))
        carry, outputs = roots[: iterations.carried], roots[iterations.carried : len(iterations.body.outputs)]
        self._memory.update(self._shared)
        for (node, array), along in zip(self._elements, iterations.reads, strict=True):
            self._memory[node] = self._row(array, node, along)
        self._memory.update({node: f"%c{slot}" for slot, (node, _) in enumerate(self._carried)})
        copies = self._outputs(outputs)
        following = [self._next(slot, node, copies) for slot, node in enumerate(carry)]
        self._memory.update(self._temporaries(self._calls, roots, self._memory))
        self._iteration += self._calls.lines(self._memory)
        self._iteration += [
            line for target, node in copies for line in _copied(target, self._memory[node], size_of(node))
        ]
        self._note_failure(roots[len(iterations.body.outputs) :])
        self._hand_on(following)
        body = self._body()
        self._item.shape = (self._size,)
        return self._functions.definition([Parameter(name[1:]) for name in self._names.values()], body)

    def _goes_on(self) -> list[str]:
        """Return what finds out whether there is another iteration."""
        if self._condition is None:
            return [f"%on = icmp slt i64 %k, {self._iterations.count}"]
        program, calls, result = self._condition
        names = zip(program.inputs.values(), [each for each, _ in (*self._shared, *self._carried)], strict=True)
        memory = self._constants(program)
        memory.update({node: self._memory[ours] for node, ours in names})
        memory.update(self._temporaries(calls, [memory_of(result)], memory))
        return [
            f"%left = icmp slt i64 %k, {self._iterations.count}",
            *calls.lines(memory),
            f"%held = load i8, ptr {memory[memory_of(result)]}",
            "%holds = icmp ne i8 %held, 0",
            "%iterations = and i1 %left, %holds",
            *self._unless_void(),
        ]

    def _unless_void(self) -> list[str]:
        """Return what ends a loop after a void iteration, whose results may let the condition hold for ever."""
        place = self._failed_at()
        if place is None:
            return ["%on = and i1 %iterations, true"]
        return [
            f"%void = load i8, ptr {place}",
            "%valid = icmp eq i8 %void, 0",
            "%on = and i1 %iterations, %valid",
        ]

    def _failed_at(self) -> str | None:
        """Return where it stands whether an iteration was void, if that can be."""
        return self._made.get(len(self._iterations.body.outputs))

    def _body(self) -> str:
        goes_on = self._goes_on()
        lines = [
            *self._begin,
            "br label %head",
            "head:",
            "%k = phi i64 [ 0, %entry ], [ %k1, %iteration ]",
            *self._phis,
            *goes_on,
            "br i1 %on, label %iteration, label %end",
            "iteration:",
            *self._iteration,
            "%k1 = add nuw nsw i64 %k, 1",
            "br label %head",
            "end:",
            *self._end,
            "ret void",
        ]
        return "\n".join(["entry:", *(line if line.endswith(":") else f"  {line}" for line in lines)])

    # Where arrays lie

    def _constants(self, program: Program) -> dict[Node, str]:
        return {node: self._functions.linkage.constant(array) for node, array in program.constants.items()}

    def _row(self, array: str, node: Node, along: Along) -> str:
        """Return the address of an iteration's place along an array."""
        name, size = f"%r{len(self._iteration)}", size_of(node)
        self._iteration += [
            f"{name}s = mul nsw i64 %k, {along.step * size}",
            f"{name}o = add nsw i64 {name}s, {along.start * size}",
            f"{name} = getelementptr i8, ptr {array}, i64 {name}o",
        ]
        return name

    def _room(self, size: int) -> str:
        """Return the address of memory to work in."""
        name = f"%room{len(self._begin)}_"
        self._begin.append(f"{name} = getelementptr i8, ptr {self._names[self._item]}, i64 {self._size}")
        self._size += size
        return name

    def _outputs(self, outputs: Sequence[Node]) -> list[tuple[str, Node]]:
        """Let arrays be written into the rows of results; return what is to be copied there."""
        copies = []
        for place, (node, along) in enumerate(
            zip(outputs, self._iterations.writes, strict=True), self._iterations.carried
        ):
            if place in self._made:
                row = self._row(self._made[place], node, along)
                if isinstance(node, Given) or node in self._memory:
                    copies.append((row, node))
                else:
                    self._memory[node] = row
        return copies

    def _next(self, slot: int, node: Node, copies: list[tuple[str, Node]]) -> str:
        """Return where the carry lies for the next iteration."""
        is_carried = node in [each for each, _ in self._carried]
        if node in self._memory and (not is_carried or node is self._carried[slot][0]):
            return self._memory[node]
        size = room_for(node)
        rooms = self._room(size), self._room(size)
        self._phis += [
            f"%w{slot} = phi ptr [ {rooms[0]}, %entry ], [ %v{slot}, %iteration ]",
            f"%v{slot} = phi ptr [ {rooms[1]}, %entry ], [ %w{slot}, %iteration ]",
        ]
        if is_carried:
            copies.append((f"%w{slot}", node))
        else:
            self._memory[node] = f"%w{slot}"
        return f"%w{slot}"

    def _temporaries(self, calls: Calls, read: list[Node], memory: Mapping[Node, str]) -> dict[Node, str]:
        """Return memory for what is needed within one iteration alone; some is read behind all calls."""
        offsets, size = places([*calls.touched, read], set(calls.writes) - memory.keys(), calls.forms)
        begin = self._room(size)
        for offset in set(offsets.values()):
            self._begin.append(f"{begin}t{offset} = getelementptr i8, ptr {begin}, i64 {offset}")
        return {node: f"{begin}t{offset}" for node, offset in offsets.items()}

    # From iteration to iteration

    def _note_failure(self, failed: Sequence[Node]) -> None:
        """Keep in mind that an iteration was void."""
        place = self._failed_at()
        for node in failed if place is not None else ():
            self._begin.append(f"store i8 0, ptr {place}")
            self._iteration += [
                f"%f0 = load i8, ptr {self._memory[node]}",
                f"%f1 = load i8, ptr {place}",
                "%f2 = or i8 %f0, %f1",
                f"store i8 %f2, ptr {place}",
            ]

    def _hand_on(self, following: Sequence[str]) -> None:
        """Let each iteration find the carry where the one before has left it, and copy the last one."""
        for slot, ((node, start), after) in enumerate(zip(self._carried, following, strict=True)):
            self._phis.append(f"%c{slot} = phi ptr [ {start}, %entry ], [ {after}, %iteration ]")
            if slot in self._made:
                self._end += _copied(self._made[slot], f"%c{slot}", size_of(node))


def _copied(target: str, source: str, size: int) -> list[str]:
    return [f"call void @{_COPY}(ptr {target}, ptr {source}, i64 {size}, i1 false)"] if size else []


def _written(item: Looped, parts: list[Part], name: str, functions: Functions) -> tuple[str, list[Node], Used]:
    loop = _Loop(item, parts, name, functions)
    return loop.text(), loop.order, {_COPY: ("void", "ptr", "ptr", "i64", "i1")}


LOOPS.append(_written)
