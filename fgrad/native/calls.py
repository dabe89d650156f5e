"""Functions of the items of a plan, as LLVM IR, and the calls of them in order.

Calls(name, items, plan, functions)        a function for each item, without duplicates
arena_offsets(touched, temporary, forms)   offsets of temporary arrays in an arena
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from fgrad.graphs.loop import Along
from fgrad.native import ir
from fgrad.native.elements import Pointers
from fgrad.native.emission import NestFunction, fills, nest_function
from fgrad.native.ir import (
    FALSE,
    Builder,
    Callee,
    Carried,
    Op,
    Parameter,
    Symbol,
    Type,
    Value,
    Variable,
    While,
    integer,
)
from fgrad.native.lanes import Widths
from fgrad.native.linkage import IN_PROCESS, Linkage
from fgrad.native.llvm_text import Used, parameter_list, printed
from fgrad.native.lowering import Program
from fgrad.native.nests import Rows, memory_of
from fgrad.native.nodes import Input, LibraryCall, LoopNode, Node, Projection, Shape
from fgrad.native.parallel import ChunkedNest, is_worth_chunks, products_in_chunks, split_of
from fgrad.native.plan import Item, Plan, make_plan
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import SCALARS, loaded, scalar_of

ALIGNMENT = 64

Pointer = tuple[Node, int]
"""An array, and an offset into it in elements."""


Definition = Callable[[str], str]
"""The LLVM IR of a function, by the function's name."""


class Functions:
    """The functions of a program's items.

    Args:
        threads: the number of threads on which large nests run in chunks; 0: they run in the calling thread.
        widths: the vector widths of the processor; None: LLVM vectorizes.
        linkage: how constants and routines are linked.

    Attributes:
        threads, widths, linkage: the same.
        known: the names of the functions, by their IR with an empty name; equal functions are emitted once.
        texts: the IR of the functions.
        unvectorized: the IR of functions with loops that LLVM vectorizes; they form a separate module.
        declarations: declarations of the latter, for the module that calls them.
        has_iterations: whether there are loops over programs, whose bodies run many times.
        used: the library functions that they call.
    """

    def __init__(self, threads: int, widths: Widths | None, linkage: Linkage = IN_PROCESS) -> None:
        self.threads, self.widths, self.linkage = threads, widths, linkage
        self.known: dict[str, str] = {}
        self.texts: list[str] = []
        self.unvectorized: list[str] = []
        self.declarations: list[str] = []
        self.has_iterations = False
        self.used: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, definition: Definition, used: Used, arguments: int, is_vectorized: bool = True) -> str:
        """Add a function of a number of pointers; return its name, or that of an equal function."""
        self.used.update(used)
        known = self.known.setdefault(definition(""), name)
        if known == name:
            (self.texts if is_vectorized else self.unvectorized).append(definition(name))
            if not is_vectorized:
                self.declarations.append(f"declare {self.linkage.scope} void @{name}({', '.join(['ptr'] * arguments)})")
        return known

    def module(self, library: str, others: Sequence[str]) -> tuple[str, str]:
        """Return the IR of the module with these and other functions, and that of loops that LLVM vectorizes, if any.

        Args:
            library: the declarations of library functions.
            others: the IR of the other functions.
        """
        unvectorized = "\n".join([library, *self.unvectorized]) if self.unvectorized else ""
        return "\n".join([library, *self.declarations, *self.texts, *others]), unvectorized

    def definition(self, parameters: Iterable[Parameter], body: str, is_caller: bool = False) -> Definition:
        """Return the definition of a function of pointers; `is_caller`: it mostly calls other functions."""
        how, scope = self.linkage.callers if is_caller else self.linkage.nests, self.linkage.scope
        signature = parameter_list(parameters)
        return lambda name: f"define {scope} void @{name}({signature}) {how} #0 {{\n{body}\n}}"


class Calls:
    """The calls of consecutive items.

    Args:
        name: the prefix of the functions' names.
        items: nests, routines and loops.
        plan: the plan, for the stored arrays.
        functions: the functions of the program, to which those of the items are added.

    Attributes:
        writes: the arrays that are written.
        touched: the arrays that each call reads or writes.
        forms: the shapes in memory of buffers, which hold only some rows of an array at a time.
    """

    def __init__(self, name: str, items: Iterable[Item], plan: Plan, functions: Functions) -> None:
        self._plan, self._functions, self._projections = plan, functions, plan.projections()
        items = list(items)
        self.writes = [node for item in items for node in self._written(item)]
        self._calls = [self._call(f"{name}_{position}", item) for position, item in enumerate(items)]
        self.touched = [list(dict.fromkeys(node for node, _ in order)) for _, order in self._calls]
        self.forms = plan.memory_shapes()

    def append(self, code: Builder, memory: Mapping[Node, Value]) -> None:
        """Append the calls of the functions, for arrays at the addresses in `memory`."""
        for name, order in self._calls:
            arguments = [
                code.address(memory[node], scalar_of(node.dtype).stored, integer(offset), flags="")
                if offset
                else memory[node]
                for node, offset in order
            ]
            code.do(Op.CALL, None, *arguments, attribute=Callee(f"@{name}", is_declared=False))

    def _written(self, item: Item) -> Iterable[Node]:
        if isinstance(item, LoopNode):
            return [item, *self._projections.get(item, ())]
        return [write.target for write in item.writes] if isinstance(item, Rows) else [item]

    def _call(self, name: str, item: Item) -> tuple[str, list[Pointer]]:
        """Return the name of the function of an item, and its pointers."""
        if isinstance(item, LoopNode):
            self._functions.has_iterations = True
            loop = _Loop(item, self._projections.get(item, []), name, self._functions)
            body, used = printed(loop.body())
            definition = self._functions.definition(loop.parameters.values(), body)
            arrays: list[Pointer] = [(node, 0) for node in loop.parameters]
            return self._functions.add(name, definition, used, len(arrays)), arrays
        pointers, is_vectorized = Pointers(self._plan.stored, self._plan.homes), True
        if isinstance(item, LibraryCall):
            definition, used = self._routine(item, pointers)
        else:
            assert isinstance(item, Rows)
            function = nest_function(item, pointers, self._functions.widths)
            body, used = printed(function.body)
            definition = self._functions.definition(pointers.parameters.values(), body)
            is_vectorized = function.is_vectorized
            if self._functions.threads and is_worth_chunks(function):
                definition, used, is_vectorized = self._in_chunks(item, function, pointers)
        parameters = list(pointers.parameters)
        return self._functions.add(name, definition, used, len(parameters), is_vectorized), parameters

    def _routine(self, item: LibraryCall, pointers: Pointers) -> tuple[Definition, Used]:
        """Return the definition of a routine, with large products in chunks, and the functions that it uses."""
        threads, linkage = self._functions.threads, self._functions.linkage
        cut = split_of(item) if threads else None
        if cut is None:
            body, used = ROUTINES[item.routine](item, pointers.at, linkage)
            return self._functions.definition(pointers.parameters.values(), body, is_caller=True), used
        return products_in_chunks(item, cut, pointers, threads, linkage)

    def _in_chunks(self, item: Rows, whole: NestFunction, pointers: Pointers) -> tuple[Definition, Used, bool]:
        """Return the definition of a nest in chunks, the functions that it uses, and whether it is vectorized."""
        function = nest_function(item, pointers, self._functions.widths, in_chunks=True)
        totals = [list(pointers.parameters).index((total, 0)) for total in whole.totals]
        fill_body = fills(function.initial_values, pointers)
        parameters, threads = list(pointers.parameters.values()), self._functions.threads
        widths, linkage = self._functions.widths, self._functions.linkage
        chunks = ChunkedNest(function, fill_body, parameters, totals, threads, widths, linkage)
        return chunks.text, chunks.used, function.is_vectorized


class _Loop:
    """The function of a loop over a program.

    The carry is not copied: iterations pass on its address. Where the carry is not a row of a result, it is
    double-buffered.

    Args:
        item: the loop.
        projections: the results of the loop that are used.
        name: the prefix of the functions' names.
        functions: the functions of the program.

    Attributes:
        parameters: the function's parameters, by array: the arguments, the results, and the workspace.
    """

    def __init__(self, item: LoopNode, projections: list[Projection], name: str, functions: Functions) -> None:
        self._iterations = iterations = item.iterations
        plan = make_plan(item.program.all, item.results)
        self._calls = Calls(name, plan.items, plan, functions)
        order = dict.fromkeys([*map(memory_of, item.arguments), *projections, item])
        self.parameters = {node: Parameter(f"p{position}", is_noalias=True) for position, node in enumerate(order)}
        self._results = {projection.position: self.parameters[projection] for projection in projections}
        self._item, self._size = item, 0
        self._code = Builder()  # the code before the first iteration, and then the loop
        self._loop = While(Variable(), [], FALSE, [], [])
        self._functions = functions
        self._memory = self._constants(item.program)
        self._condition: tuple[Program, Calls, Node] | None = None
        if item.condition is not None:
            program, result = item.condition
            plan = make_plan(program.all, [result])
            self._condition = program, Calls(f"{name}_c", plan.items, plan, functions), result
        inputs = [item.program.inputs[name] for name in iterations.body.inputs]
        addresses = [self.parameters[memory_of(x)] for x in item.arguments]
        pairs = list(zip(inputs, addresses, strict=True))
        self._shared, self._starts, self._elements = iterations.parted(pairs)

    def body(self) -> list[ir.Item]:
        """Return the body of the function."""
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
            each.next = self._next_carry(slot, node, copies)
        loop.carried += carried
        self._memory.update(self._temporaries(self._calls, roots, self._memory))
        with code.within(loop.body):
            self._calls.append(code, self._memory)
            for target, node in copies:
                append_copy(code, target, self._memory[node], node.nbytes)
        self._note_failure(roots[len(iterations.body.outputs) :])
        loop.condition = self._append_condition()
        code.body.append(loop)
        for slot, ((node, _), each) in enumerate(zip(self._starts, carried, strict=True)):
            if slot in self._results:
                append_copy(code, self._results[slot], each.after, node.nbytes)
        self._item.shape = (self._size,)
        return code.body

    def _append_condition(self) -> Value:
        """Append the condition to the head of the loop, and return it."""
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
            flag = self._failure_flag()  # after a failed iteration the condition may hold forever
            if flag is None:
                return is_left
            return code.both(is_left, code.compare("eq", code.load(Type.I8, flag), integer(0, Type.I8)))

    def _failure_flag(self) -> Value | None:
        """Return the address of the flag that an iteration has failed; None if none can fail."""
        return self._results.get(len(self._iterations.body.outputs))

    # Addresses of arrays

    def _constants(self, program: Program) -> dict[Node, Value]:
        constant = self._functions.linkage.constant
        return {node: Symbol(constant(array)) for node, array in program.constants.items()}

    def _row(self, array: Value, node: Node, along: Along) -> Value:
        """Append the address of an iteration's row of an array."""
        code, size = self._code, node.nbytes
        with code.within(self._loop.body):
            offset = code.add(code.mul(self._loop.variable, integer(along.step * size)), integer(along.start * size))
            return code.address(array, Type.I8, offset, flags="")

    def _workspace(self, size: int) -> Value:
        """Append the address of a new part of the workspace."""
        address = self._code.address(self.parameters[self._item], Type.I8, integer(self._size), flags="")
        self._size += size
        return address

    def _outputs(self, outputs: Sequence[Node]) -> list[tuple[Value, Node]]:
        """Let outputs be written into the rows of results; return those that must be copied there."""
        copies: list[tuple[Value, Node]] = []
        for position, (node, along) in enumerate(
            zip(outputs, self._iterations.writes, strict=True), self._iterations.carried
        ):
            if position in self._results:
                row = self._row(self._results[position], node, along)
                if isinstance(node, Input) or node in self._memory:
                    copies.append((row, node))
                else:
                    self._memory[node] = row
        return copies

    def _next_carry(self, slot: int, node: Node, copies: list[tuple[Value, Node]]) -> Value:
        """Return the address of a carried array for the next iteration."""
        is_carried = node in [each for each, _ in self._starts]
        if node in self._memory and (not is_carried or node is self._starts[slot][0]):
            return self._memory[node]
        size = aligned_size(node)
        one, other = Carried(self._workspace(size)), Carried(self._workspace(size))
        one.next, other.next = other, one
        self._loop.carried += [one, other]
        if is_carried:
            copies.append((one, node))
        else:
            self._memory[node] = one
        return one

    def _temporaries(self, calls: Calls, read: list[Node], memory: Mapping[Node, Value]) -> dict[Node, Value]:
        """Return the addresses of temporaries of an iteration; those in `read` are used after all calls."""
        offsets, size = arena_offsets([*calls.touched, read], set(calls.writes) - memory.keys(), calls.forms)
        begin = self._workspace(size)
        known = {
            offset: self._code.address(begin, Type.I8, integer(offset), flags="")
            for offset in sorted(set(offsets.values()))
        }
        return {node: known[offset] for node, offset in offsets.items()}

    def _note_failure(self, failed: Sequence[Node]) -> None:
        """Append the update of the flag that an iteration has failed."""
        code, flag = self._code, self._failure_flag()
        for node in failed if flag is not None else ():
            assert flag is not None
            code.store(integer(0, Type.I8), flag)
            with code.within(self._loop.body):
                now = code.load(Type.I8, self._memory[node])
                code.store(code.either(now, code.load(Type.I8, flag)), flag)


def append_copy(code: Builder, target: Value, source: Value, size: int) -> None:
    """Append a copy of bytes."""
    if size:
        code.do(Op.CALL, None, target, source, integer(size), FALSE, attribute=Callee("@llvm.memcpy.p0.p0.i64"))


def arena_offsets(
    touched: list[list[Node]], temporary: Iterable[Node], forms: Mapping[Node, Shape]
) -> tuple[dict[Node, int], int]:
    """Return the offset of each temporary array in an arena, and the arena's size in bytes.

    Arrays whose live ranges do not overlap may share memory.

    Args:
        touched: the arrays that each item reads and writes, in order.
        temporary: the arrays to allocate.
        forms: the shapes in memory of arrays for which it differs from their shape.
    """
    wanted = set(temporary)
    sizes = {node: aligned_size(node, forms.get(node)) for node in wanted}
    lives: dict[Node, list[int]] = {}
    for time, nodes in enumerate(touched):
        for node in nodes:
            if node in wanted:
                lives.setdefault(node, [time, time])[1] = time
    offsets: dict[Node, int] = {}
    occupied: list[tuple[int, int, int, int]] = []
    for node in sorted(lives, key=lambda node: -sizes[node]):
        begin, end = lives[node]
        offset = 0
        for start, stop, first, last in sorted(occupied):
            if first <= end and begin <= last and start < offset + sizes[node] and offset < stop:
                offset = stop
        offsets[node] = offset
        occupied.append((offset, offset + sizes[node], begin, end))
    return offsets, max((stop for _, stop, _, _ in occupied), default=0)


def aligned_size(node: Node, form: Shape | None = None) -> int:
    """Return the size of an array in memory, in bytes, rounded up to a multiple of the alignment.

    Args:
        node: the array.
        form: its shape in memory, if that differs from its shape.
    """
    size = node.nbytes if form is None else math.prod(form) * node.dtype.itemsize
    return max(-(-size // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
