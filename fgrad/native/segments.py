"""Native items that follow each other, as one function in LLVM's language."""

from __future__ import annotations

import ctypes
import functools
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.elements import Pointers
from fgrad.native.emission import NestFunction, fills, nest_function
from fgrad.native.nodes import Called, Node
from fgrad.native.parallel import Parts, is_worth_parts
from fgrad.native.plan import Nest, Plan
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import scalar_of

_ALIGNMENT = 64
_DATA = object.__basicsize__
"""Where the object of an array holds the address of its elements."""
_FLAGS = _DATA + 48
"""Where it holds the flags that say how its elements lie."""
_IN_ORDER = 0x101
"""The flags of an array whose elements lie in C order, and where the processor wants numbers of their size."""


@functools.cache
def check_layout() -> None:
    """Raise if the objects of arrays are not laid out as native code takes them to be; looked at once.

    Raises:
        UnsupportedError: a NotImplementedError; this is another Python, or another NumPy, than there have been so far.
    """
    square = np.ones((2, 2))
    odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    for array in (square, square[1:], square[::-1], square[:, :1], square.T, odd):
        data = ctypes.c_void_p.from_address(id(array) + _DATA).value
        flags = ctypes.c_int.from_address(id(array) + _FLAGS).value
        in_order = array.flags.c_contiguous and array.flags.aligned
        if data != array.ctypes.data or (flags & _IN_ORDER == _IN_ORDER) != in_order:
            python = f"{platform.python_implementation()} {platform.python_version()}"
            raise errors.UnsupportedError(
                "fgrad.compile reads where the elements of an array lie, and does not find it with NumPy "
                f"{np.__version__} on {python}.\nLeave out compile: the function itself gives the same results."
            )


Pointer = tuple[Node, int]
"""An array, and the element of it at which memory begins."""


class Segment:
    """One function that runs items, and the arrays that it takes.

    Args:
        name: of the function.
        items: nests and routines.
        plan: says which arrays are stored.
        known: arrays that do not change, by node.
        functions: the names of those that there are, by their text; equal ones are written once.
        begun: arrays of which segments before have written a part, and that exist then; more are added.
        threads: on how many cores large nests run.

    Attributes:
        touches: the arrays that it reads or writes.
        needs: the arrays that it reads and that come from elsewhere.
        makes: the arrays that it writes and that others read; known when it is finished.
        arena: how many bytes it needs besides; known when it is finished.
        used: the functions of libraries that it calls.
    """

    def __init__(
        self,
        name: str,
        items: Sequence[Nest | Called],
        plan: Plan,
        known: Mapping[Node, Any],
        functions: dict[str, str],
        begun: set[Node],
        threads: int,
    ) -> None:
        self._threads = threads
        self.name, self._plan, self._known, self._known_functions = name, plan, known, functions
        self.used: dict[str, tuple[str, ...]] = {}
        self._made = dict.fromkeys(node for item in items for node in _written(item) if node not in begun)
        begun.update(self._made)
        self._functions: list[str] = []
        self._calls = [self._call(f"{name}_{place}", item) for place, item in enumerate(items)]
        self._touched = [list(dict.fromkeys(node for node, _ in order)) for _, order in self._calls]
        self.touches = dict.fromkeys(node for nodes in self._touched for node in nodes)
        self.needs = [node for node in self.touches if node not in self._made and node not in known]
        self.makes: list[Node] = []
        self.arena = 0
        self._offsets = 0

    def finished(self, wanted: set[Node]) -> str:
        """Return the function and what it calls, in LLVM's language, where others read the arrays `wanted`."""
        self.makes = [node for node in self._made if node in wanted]
        offsets, self.arena = _places(self._touched, self._made.keys() - wanted)
        return "\n".join([*self._functions, self._function(offsets)])

    def _call(self, name: str, item: Nest | Called) -> tuple[str, list[Pointer]]:
        """Return the name of a function that runs an item, and the memory that it takes."""
        pointers = Pointers(self._plan.stored)
        if isinstance(item, Called):
            body, used = ROUTINES[item.routine](item, pointers.at)
            text = _definition(pointers, body)
        else:
            function = nest_function(item, pointers)
            text, used = _definition(pointers, function.body), function.used
            if is_worth_parts(function):
                text, more = self._in_parts(item, function, pointers)
                used = {**used, **more}
        self.used.update(used)
        known = self._known_functions.setdefault(text, name)
        if known == name:
            self._functions.append(text.replace("@THIS", f"@{name}"))
        return known, list(pointers.order)

    def _in_parts(self, item: Nest, whole: NestFunction, pointers: Pointers) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Return the functions that run a nest in parts, and what they use."""
        function = nest_function(item, pointers, in_parts=True)
        places = [list(pointers.order).index((total, 0)) for total in whole.totals]
        parts = Parts("THIS", function, list(pointers.order.values()), places, self._threads)
        return parts.text(fills(function.begins, pointers)), parts.used

    def _function(self, offsets: dict[Node, int]) -> str:
        """Return the function of the segment, which takes the objects of arrays, and the arena."""
        objects = [*self.needs, *self.makes]
        lines, memory = _in_order(len(self.needs)), {}
        for place, node in enumerate(objects):
            lines += [
                f"%o{place} = getelementptr i8, ptr %a{place}, i64 {_DATA}",
                f"%d{place} = load ptr, ptr %o{place}",
            ]
            memory[node] = f"%d{place}"
        for place, (node, offset) in enumerate(offsets.items()):
            lines.append(f"%r{place} = getelementptr i8, ptr %arena, i64 {offset}")
            memory[node] = f"%r{place}"
        for node, array in self._known.items():
            memory[node] = f"inttoptr (i64 {array.ctypes.data} to ptr)"
        for name, order in self._calls:
            lines += self._lines(name, order, memory)
        taken = ", ".join([*(f"ptr %a{place}" for place in range(len(objects))), "ptr %arena"])
        body = "\n".join(f"  {line}" for line in [*lines, "ret i32 0"])
        return f"define i32 @{self.name}({taken}) #0 {{\nentry:\n{body}\n}}"

    def _lines(self, name: str, order: list[Pointer], memory: Mapping[Node, str]) -> list[str]:
        """Return what calls a function."""
        lines, given = [], []
        for node, offset in order:
            place = memory[node]
            if offset:
                self._offsets += 1
                size = scalar_of(node.dtype).stored
                lines.append(f"%m{self._offsets} = getelementptr {size}, ptr {place}, i64 {offset}")
                place = f"%m{self._offsets}"
            given.append(f"ptr {place}")
        return [*lines, f"call void @{name}({', '.join(given)})"]


def _definition(pointers: Pointers, body: str) -> str:
    taken = ", ".join(f"ptr noalias {each}" for each in pointers.order.values())
    return f"define internal void @THIS({taken}) noinline #0 {{\n{body}\n}}"


def _in_order(count: int) -> list[str]:
    """Return what gives 1 back unless the first arrays all lie in memory as they should."""
    if not count:
        return []
    lines, total = [], str(_IN_ORDER)
    for place in range(count):
        lines.append(f"%f{place} = getelementptr i8, ptr %a{place}, i64 {_FLAGS}")
        lines.append(f"%g{place} = load i32, ptr %f{place}")
        lines.append(f"%h{place} = and i32 %g{place}, {total}")
        total = f"%h{place}"
    return [
        *lines,
        f"%fits = icmp eq i32 {total}, {_IN_ORDER}",
        "br i1 %fits, label %run, label %refuse",
        "refuse:",
        "ret i32 1",
        "run:",
    ]


def _written(item: Nest | Called) -> Iterable[Node]:
    return [item] if isinstance(item, Called) else [write.target for write in item.writes]


def _places(touched: list[list[Node]], temporary: Iterable[Node]) -> tuple[dict[Node, int], int]:
    """Return a place in an arena for each temporary array, and its size: arrays that live apart in time may share.

    Args:
        touched: the arrays that each item reads and writes, in order.
        temporary: those that want a place.
    """
    wanted = set(temporary)
    lives: dict[Node, list[int]] = {}
    for time, nodes in enumerate(touched):
        for node in nodes:
            if node in wanted:
                lives.setdefault(node, [time, time])[1] = time
    offsets: dict[Node, int] = {}
    taken: list[tuple[int, int, int, int]] = []
    for node in sorted(lives, key=lambda node: -_bytes(node)):
        begin, end = lives[node]
        offset = 0
        for start, stop, first, last in sorted(taken):
            if first <= end and begin <= last and start < offset + _bytes(node) and offset < stop:
                offset = stop
        offsets[node] = offset
        taken.append((offset, offset + _bytes(node), begin, end))
    return offsets, max((stop for _, stop, _, _ in taken), default=0)


def _bytes(node: Node) -> int:
    size = math.prod(node.shape) * np.dtype(node.dtype).itemsize
    return max(-(-size // _ALIGNMENT) * _ALIGNMENT, _ALIGNMENT)
