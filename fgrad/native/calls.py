"""Items of a plan as functions in LLVM's language, and the calls of them, in order.

Calls(name, plan, ...)      a function for each item, equal ones once
places(touched, temporary)  where temporary arrays lie in memory that they share
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
from fgrad.native.parallel import ChunkedNest, ChunkedProducts, is_worth_chunks, split_of
from fgrad.native.plan import Item, Plan, make_plan
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import SCALARS, loaded, scalar_of

ALIGNMENT = 64

Pointer = tuple[Node, int]
"""An array, and the element of it at which memory begins."""


Written = Callable[[str], str]
"""A function in LLVM's language, by the name that it is to have."""


class Functions:
    """The functions of a program's items.

    Args:
        threads: on how many cores large nests run, in parts; 0: in one piece.
        widths: how many elements are computed at once; None: LLVM decides.
        linkage: how constants and routines are reached.

    Attributes:
        threads, widths, linkage: the same.
        known: the names of those that there are, by their text without a name; equal ones are written once.
        texts: what is written of them.
        unvectorized: those with loops that LLVM is to make wide; they form a separate module.
        declarations: of the latter, for the module that calls them.
        has_iterations: there are loops over programs, of which what stands in an iteration runs again and again.
        used: the functions of libraries that they call.
    """

    def __init__(self, threads: int, widths: Widths | None, linkage: Linkage = IN_PROCESS) -> None:
        self.threads, self.widths, self.linkage = threads, widths, linkage
        self.known: dict[str, str] = {}
        self.texts: list[str] = []
        self.unvectorized: list[str] = []
        self.declarations: list[str] = []
        self.has_iterations = False
        self.used: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, written: Written, used: Used, arguments: int, is_wide: bool = True) -> str:
        """Return the name of a function of some addresses: of one that there is, if that does the same."""
        self.used.update(used)
        known = self.known.setdefault(written(""), name)
        if known == name:
            (self.texts if is_wide else self.unvectorized).append(written(name))
            if not is_wide:
                self.declarations.append(f"declare {self.linkage.scope} void @{name}({', '.join(['ptr'] * arguments)})")
        return known

    def definition(self, parameters: Iterable[Parameter], body: str, is_caller: bool = False) -> Written:
        """Return a function that takes memory; `is_caller`: it does little but call others."""
        how, scope = self.linkage.callers if is_caller else self.linkage.nests, self.linkage.scope
        given = parameter_list(parameters)
        return lambda name: f"define {scope} void @{name}({given}) {how} #0 {{\n{body}\n}}"


class Calls:
    """The calls of items that follow each other.

    Args:
        name: what those of the functions begin with.
        items: nests, routines and loops.
        plan: says which arrays are stored.
        functions: those that there are; more are added.

    Attributes:
        writes: the arrays that are written.
        touched: the arrays that each call reads or writes.
        forms: the shapes in memory of arrays of which only some rows are there at a time.
    """

    def __init__(self, name: str, items: Iterable[Item], plan: Plan, functions: Functions) -> None:
        self._plan, self._functions, self._parts = plan, functions, plan.projections()
        items = list(items)
        self.writes = [node for item in items for node in self._written(item)]
        self._calls = [self._call(f"{name}_{place}", item) for place, item in enumerate(items)]
        self.touched = [list(dict.fromkeys(node for node, _ in order)) for _, order in self._calls]
        self.forms = plan.memory_shapes()

    def append(self, code: Builder, memory: Mapping[Node, Value]) -> None:
        """Append the calls of the functions, with arrays that lie at given addresses."""
        for name, order in self._calls:
            given = [
                code.address(memory[node], scalar_of(node.dtype).stored, integer(offset), flags="")
                if offset
                else memory[node]
                for node, offset in order
            ]
            code.do(Op.CALL, None, *given, attribute=Callee(f"@{name}", is_declared=False))

    def _written(self, item: Item) -> Iterable[Node]:
        if isinstance(item, LoopNode):
            return [item, *self._parts.get(item, ())]
        return [write.target for write in item.writes] if isinstance(item, Rows) else [item]

    def _call(self, name: str, item: Item) -> tuple[str, list[Pointer]]:
        """Return the name of a function that runs an item, and the memory that it takes."""
        if isinstance(item, LoopNode):
            self._functions.has_iterations = True
            loop = _Loop(item, self._parts.get(item, []), name, self._functions)
            body, used = printed(loop.body())
            written = self._functions.definition(loop.given.values(), body)
            return self._functions.add(name, written, used, len(loop.given)), [(node, 0) for node in loop.given]
        pointers, is_wide = Pointers(self._plan.stored), True
        if isinstance(item, LibraryCall):
            written, used = self._routine(item, pointers)
        else:
            assert isinstance(item, Rows)
            function = nest_function(item, pointers, self._functions.widths)
            body, used = printed(function.body)
            written, is_wide = self._functions.definition(pointers.order.values(), body), function.is_wide
            if self._functions.threads and is_worth_chunks(function):
                written, used, is_wide = self._in_parts(item, function, pointers)
        return self._functions.add(name, written, used, len(pointers.order), is_wide), list(pointers.order)

    def _routine(self, item: LibraryCall, pointers: Pointers) -> tuple[Written, Used]:
        """Return the functions that run a routine, large products in parts, and what they use."""
        threads, linkage = self._functions.threads, self._functions.linkage
        cut = split_of(item) if threads else None
        if cut is None:
            body, used = ROUTINES[item.routine](item, pointers.at, linkage)
            return self._functions.definition(pointers.order.values(), body, is_caller=True), used
        arrays = [pointers.at(each) for each in (*item.arguments, item)]
        parts = ChunkedProducts(item, cut, pointers.order.values(), arrays, threads, linkage)
        return parts.text, parts.used

    def _in_parts(self, item: Rows, whole: NestFunction, pointers: Pointers) -> tuple[Written, Used, bool]:
        """Return the functions that run a nest in parts, what they use, and whether their loops are wide."""
        function = nest_function(item, pointers, self._functions.widths, in_parts=True)
        totals = [list(pointers.order).index((total, 0)) for total in whole.totals]
        begins = fills(function.begins, pointers)
        parameters, threads = list(pointers.order.values()), self._functions.threads
        widths, linkage = self._functions.widths, self._functions.linkage
        parts = ChunkedNest(function, begins, parameters, totals, threads, widths, linkage)
        return parts.text, parts.used, function.is_wide


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
        given: what the function takes, by array: arguments, results, and memory to work in.
    """

    def __init__(self, item: LoopNode, parts: list[Projection], name: str, functions: Functions) -> None:
        self._iterations = iterations = item.iterations
        plan = make_plan(item.program.all, item.results)
        self._calls = Calls(name, plan.items, plan, functions)
        order = dict.fromkeys([*map(memory_of, item.arguments), *parts, item])
        self.given = {node: Parameter(f"p{place}", is_noalias=True) for place, node in enumerate(order)}
        self._made = {part.position: self.given[part] for part in parts}
        self._item, self._size = item, 0
        self._code = Builder()  # what runs before the first iteration, and then the loop
        self._loop = While(Variable(), [], FALSE, [], [])
        self._functions = functions
        self._memory = self._constants(item.program)
        self._condition: tuple[Program, Calls, Node] | None = None
        if item.condition is not None:
            program, result = item.condition
            plan = make_plan(program.all, [result])
            self._condition = program, Calls(f"{name}_c", plan.items, plan, functions), result
        inputs = [item.program.inputs[name] for name in iterations.body.inputs]
        addresses = [self.given[memory_of(x)] for x in item.arguments]
        pairs = list(zip(inputs, addresses, strict=True))
        middle = iterations.shared + iterations.carried
        self._shared, self._starts = pairs[: iterations.shared], pairs[iterations.shared : middle]
        self._elements = pairs[middle:]

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
        return code.body

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
        place = self._code.address(self.given[self._item], Type.I8, integer(self._size), flags="")
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
                if isinstance(node, Input) or node in self._memory:
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


def append_copy(code: Builder, target: Value, source: Value, size: int) -> None:
    """Append a copy of bytes."""
    if size:
        code.do(Op.CALL, None, target, source, integer(size), FALSE, attribute=Callee("@llvm.memcpy.p0.p0.i64"))


def places(
    touched: list[list[Node]], temporary: Iterable[Node], forms: Mapping[Node, Shape]
) -> tuple[dict[Node, int], int]:
    """Return a place in an arena for each temporary array, and its size: arrays that live apart in time may share.

    Args:
        touched: the arrays that each item reads and writes, in order.
        temporary: those that want a place.
        forms: the shapes of those that have another one in memory.
    """
    wanted = set(temporary)
    rooms = {node: room_for(node, forms.get(node)) for node in wanted}
    lives: dict[Node, list[int]] = {}
    for time, nodes in enumerate(touched):
        for node in nodes:
            if node in wanted:
                lives.setdefault(node, [time, time])[1] = time
    offsets: dict[Node, int] = {}
    taken: list[tuple[int, int, int, int]] = []
    for node in sorted(lives, key=lambda node: -rooms[node]):
        begin, end = lives[node]
        offset = 0
        for start, stop, first, last in sorted(taken):
            if first <= end and begin <= last and start < offset + rooms[node] and offset < stop:
                offset = stop
        offsets[node] = offset
        taken.append((offset, offset + rooms[node], begin, end))
    return offsets, max((stop for _, stop, _, _ in taken), default=0)


def size_of(node: Node) -> int:
    """Return how many bytes an array has."""
    return node.size * node.dtype.itemsize


def room_for(node: Node, form: Shape | None = None) -> int:
    """Return how many bytes an array takes, so that the next begins where processors like.

    Args:
        node: the array.
        form: its shape in memory, if that is another one.
    """
    size = size_of(node) if form is None else math.prod(form) * node.dtype.itemsize
    return max(-(-size // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
