"""Items of a plan as functions in LLVM's language, and the calls of them, in order.

Calls(name, plan, ...)      a function for each item, equal ones once
places(touched, temporary)  where temporary arrays lie in memory that they share
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from fgrad.native.elements import Pointers
from fgrad.native.emission import NestFunction, fills, nest_function
from fgrad.native.ir import FALSE, Builder, Callee, Op, Parameter, Value, integer
from fgrad.native.linkage import IN_PROCESS, Linkage
from fgrad.native.llvm_text import Used, printed, taken
from fgrad.native.nests import Rows
from fgrad.native.nodes import Called, Looped, Node, Part, Shape
from fgrad.native.parallel import Parts, is_worth_parts
from fgrad.native.plan import Item, Plan
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import scalar_of
from fgrad.native.widening import Widths

ALIGNMENT = 64

Pointer = tuple[Node, int]
"""An array, and the element of it at which memory begins."""

LOOPS: list[Callable[[Looped, list[Part], str, Functions], tuple[str, list[Node], Used]]] = []
"""How a loop is written: its text, the arrays that it takes, and the functions of libraries that it calls."""


class Functions:
    """The functions of a program's items.

    Args:
        threads: on how many cores large nests run, in parts; 0: in one piece.
        widths: how many elements are computed at once; None: LLVM decides.
        linkage: how constants and routines are reached.

    Attributes:
        threads, widths, linkage: the same.
        known: the names of those that there are, by their text; equal ones are written once.
        texts: what is written of them.
        narrow: those with loops that are left for the compiler to make wide; they are a module of their own.
        declarations: of the latter, for the module that calls them.
        has_iterations: there are loops over programs, of which what stands in an iteration runs again and again.
        used: the functions of libraries that they call.
    """

    def __init__(self, threads: int, widths: Widths | None, linkage: Linkage = IN_PROCESS) -> None:
        self.threads, self.widths, self.linkage = threads, widths, linkage
        self.known: dict[str, str] = {}
        self.texts: list[str] = []
        self.narrow: list[str] = []
        self.declarations: list[str] = []
        self.has_iterations = False
        self.used: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, text: str, used: Used, arguments: int, is_wide: bool = True) -> str:
        """Return the name of a function of some addresses, which is called `@THIS` in its text."""
        self.used.update(used)
        known = self.known.setdefault(text, name)
        if known == name:
            (self.texts if is_wide else self.narrow).append(text.replace("@THIS", f"@{name}"))
            if not is_wide:
                self.declarations.append(f"declare {self.linkage.scope} void @{name}({', '.join(['ptr'] * arguments)})")
        return known

    def definition(self, parameters: Iterable[Parameter], body: str, is_caller: bool = False) -> str:
        """Return a function that takes memory; `is_caller`: it does little but call others."""
        how = self.linkage.callers if is_caller else self.linkage.nests
        return f"define {self.linkage.scope} void @THIS({taken(parameters, 'noalias')}) {how} #0 {{\n{body}\n}}"


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
        self._plan, self._functions, self._parts = plan, functions, plan.parts()
        items = list(items)
        self.writes = [node for item in items for node in self._written(item)]
        self._calls = [self._call(f"{name}_{place}", item) for place, item in enumerate(items)]
        self.touched = [list(dict.fromkeys(node for node, _ in order)) for _, order in self._calls]
        self.forms = plan.forms()

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
        if isinstance(item, Looped):
            return [item, *self._parts.get(item, ())]
        return [write.target for write in item.writes] if isinstance(item, Rows) else [item]

    def _call(self, name: str, item: Item) -> tuple[str, list[Pointer]]:
        """Return the name of a function that runs an item, and the memory that it takes."""
        if isinstance(item, Looped):
            self._functions.has_iterations = True
            text, order, used = LOOPS[0](item, self._parts.get(item, []), name, self._functions)
            return self._functions.add(name, text, used, len(order)), [(node, 0) for node in order]
        pointers, is_wide = Pointers(self._plan.stored), True
        if isinstance(item, Called):
            body, used = ROUTINES[item.routine](item, pointers.at, self._functions.linkage)
            text = self._functions.definition(pointers.order.values(), body, is_caller=True)
        else:
            assert isinstance(item, Rows)
            function = nest_function(item, pointers, self._functions.widths)
            body, used = printed(function.body)
            text, is_wide = self._functions.definition(pointers.order.values(), body), function.is_wide
            if self._functions.threads and is_worth_parts(function):
                text, used, is_wide = self._in_parts(item, function, pointers)
        return self._functions.add(name, text, used, len(pointers.order), is_wide), list(pointers.order)

    def _in_parts(self, item: Rows, whole: NestFunction, pointers: Pointers) -> tuple[str, Used, bool]:
        """Return the functions that run a nest in parts, what they use, and whether their loops are wide."""
        function = nest_function(item, pointers, self._functions.widths, in_parts=True)
        totals = [list(pointers.order).index((total, 0)) for total in whole.totals]
        begins = fills(function.begins, pointers)
        parameters, threads = list(pointers.order.values()), self._functions.threads
        parts = Parts("THIS", function, parameters, totals, threads, self._functions.widths)
        return *parts.text(begins), function.is_wide


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
