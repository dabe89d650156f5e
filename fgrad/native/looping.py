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
from fgrad.native.calls import LOOPS, Calls, Functions, append_copy, places, room_for, size_of
from fgrad.native.functions import Function
from fgrad.native.ir import FALSE, Builder, Carried, Parameter, Symbol, Type, Value, Variable, While, integer
from fgrad.native.llvm_text import Used, printed
from fgrad.native.lowering import CALLS, Program, any_failure, lowered
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Given, Looped, Moved, Node, Part, Place, Stepped, Term
from fgrad.native.plan import planned
from fgrad.native.scalars import SCALARS, loaded


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
        self._given = {node: Parameter(f"p{place}") for place, node in enumerate(self.order)}
        self._made = {part.place: self._given[part] for part in parts}
        self._item, self._size = item, 0
        self._code = Builder()  # what runs before the first iteration, and then the loop
        self._loop = While(Variable(), [], FALSE, [], [])
        self._functions = functions
        self._memory = self._constants(item.program)
        self._condition: tuple[Program, Calls, Node] | None = None
        if item.condition is not None:
            program, result = item.condition
            plan = planned(program.all, [result])
            self._condition = program, Calls(f"{name}_c", plan.items, plan, functions), result
        inputs = [item.program.inputs[name] for name in iterations.body.inputs]
        addresses = [self._given[memory_of(x)] for x in item.arguments]
        pairs = list(zip(inputs, addresses, strict=True))
        middle = iterations.shared + iterations.carried
        self._shared, self._starts = pairs[: iterations.shared], pairs[iterations.shared : middle]
        self._elements = pairs[middle:]

    def text(self) -> tuple[str, Used]:
        """Return the function, and the functions that it calls."""
        iterations, code, loop = self._iterations, self._code, self._loop
        roots = list(map(memory_of, self._item.results))
        carry, outputs = roots[: iterations.carried], roots[iterations.carried : len(iterations.body.outputs)]
        self._memory.update(self._shared)
        for (node, array), along in zip(self._elements, iterations.reads, strict=True):
            self._memory[node] = self._row(array, node, along)
        carried = [Carried(start) for _, start in self._starts]
        self._memory.update({node: each for (node, _), each in zip(self._starts, carried, strict=True)})
        copies = self._outputs(outputs)
        for slot, (node, each) in enumerate(zip(carry, carried, strict=True)):
            each.next = self._next(slot, node, copies)
        loop.carried += carried
        self._memory.update(self._temporaries(self._calls, roots, self._memory))
        with code.within(loop.body):
            self._calls.append(code, self._memory)
            for target, node in copies:
                append_copy(code, target, self._memory[node], size_of(node))
        self._note_failure(roots[len(iterations.body.outputs) :])
        loop.condition = self._goes_on()
        code.body.append(loop)
        for slot, ((node, _), each) in enumerate(zip(self._starts, carried, strict=True)):
            if slot in self._made:
                append_copy(code, self._made[slot], each.after, size_of(node))
        self._item.shape = (self._size,)
        body, used = printed(code.body)
        return self._functions.definition(self._given.values(), body), used

    def _goes_on(self) -> Value:
        """Append to the head what finds out whether there is another iteration."""
        code, memory = self._code, {}
        if self._condition is not None:
            program, calls, result = self._condition
            names = zip(program.inputs.values(), [each for each, _ in (*self._shared, *self._starts)], strict=True)
            memory = self._constants(program)
            memory.update({node: self._memory[ours] for node, ours in names})
            memory.update(self._temporaries(calls, [memory_of(result)], memory))
        with code.within(self._loop.head):
            is_left: Value = code.compare("slt", self._loop.variable, integer(self._iterations.count))
            if self._condition is None:
                return is_left
            calls.append(code, memory)
            is_left = code.both(is_left, loaded(code, SCALARS["bool"], memory[memory_of(result)]))
            place = self._failed_at()  # the results of a void iteration may let the condition hold for ever
            if place is None:
                return is_left
            return code.both(is_left, code.compare("eq", code.load(Type.I8, place), integer(0, Type.I8)))

    def _failed_at(self) -> Value | None:
        """Return where it stands whether an iteration was void, if that can be."""
        return self._made.get(len(self._iterations.body.outputs))

    # Where arrays lie

    def _constants(self, program: Program) -> dict[Node, Value]:
        constant = self._functions.linkage.constant
        return {node: Symbol(constant(array)) for node, array in program.constants.items()}

    def _row(self, array: Value, node: Node, along: Along) -> Value:
        """Append the address of an iteration's place along an array."""
        code, size = self._code, size_of(node)
        with code.within(self._loop.body):
            offset = code.add(code.mul(self._loop.variable, integer(along.step * size)), integer(along.start * size))
            return code.address(array, Type.I8, offset, flags="")

    def _room(self, size: int) -> Value:
        """Append the address of memory to work in."""
        place = self._code.address(self._given[self._item], Type.I8, integer(self._size), flags="")
        self._size += size
        return place

    def _outputs(self, outputs: Sequence[Node]) -> list[tuple[Value, Node]]:
        """Let arrays be written into the rows of results; return what is to be copied there."""
        copies: list[tuple[Value, Node]] = []
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

    def _next(self, slot: int, node: Node, copies: list[tuple[Value, Node]]) -> Value:
        """Return where the carry lies for the next iteration."""
        is_carried = node in [each for each, _ in self._starts]
        if node in self._memory and (not is_carried or node is self._starts[slot][0]):
            return self._memory[node]
        size = room_for(node)
        one, other = Carried(self._room(size)), Carried(self._room(size))
        one.next, other.next = other, one
        self._loop.carried += [one, other]
        if is_carried:
            copies.append((one, node))
        else:
            self._memory[node] = one
        return one

    def _temporaries(self, calls: Calls, read: list[Node], memory: Mapping[Node, Value]) -> dict[Node, Value]:
        """Return memory for what is needed within one iteration alone; some is read behind all calls."""
        offsets, size = places([*calls.touched, read], set(calls.writes) - memory.keys(), calls.forms)
        begin = self._room(size)
        known = {
            offset: self._code.address(begin, Type.I8, integer(offset), flags="")
            for offset in sorted(set(offsets.values()))
        }
        return {node: known[offset] for node, offset in offsets.items()}

    def _note_failure(self, failed: Sequence[Node]) -> None:
        """Keep in mind that an iteration was void."""
        code, place = self._code, self._failed_at()
        for node in failed if place is not None else ():
            assert place is not None
            code.store(integer(0, Type.I8), place)
            with code.within(self._loop.body):
                now = code.load(Type.I8, self._memory[node])
                code.store(code.either(now, code.load(Type.I8, place)), place)


def _written(item: Looped, parts: list[Part], name: str, functions: Functions) -> tuple[str, list[Node], Used]:
    loop = _Loop(item, parts, name, functions)
    text, used = loop.text()
    return text, loop.order, used


LOOPS.append(_written)
