"""Native items that follow each other, as one function in LLVM's language."""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.calls import Calls, Functions, places
from fgrad.native.nodes import Node
from fgrad.native.plan import Item, Plan

_DATA = object.__basicsize__
"""Where the object of an array holds the address of its elements."""
_FLAGS = _DATA + 48
"""Where it holds the flags that say how its elements lie."""
_IN_ORDER = 0x101
"""The flags of an array whose elements lie in C order, and where the processor wants numbers of their size."""
_ITEMS = tuple.__basicsize__
"""Where a tuple holds the address of its first item."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)


@functools.cache
def check_layout() -> None:
    """Raise if the objects of arrays are not laid out as native code takes them to be; looked at once.

    Raises:
        UnsupportedError: a NotImplementedError; this is another Python, or another NumPy, than there have been so far.
    """
    square = np.ones((2, 2))
    odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    arrays = (square, square[1:], square[::-1], square[:, :1], square.T, odd)
    for place, array in enumerate(arrays):
        item = ctypes.c_void_p.from_address(id(arrays) + _ITEMS + place * _POINTER).value
        data = ctypes.c_void_p.from_address(id(array) + _DATA).value
        flags = ctypes.c_int.from_address(id(array) + _FLAGS).value
        in_order = array.flags.c_contiguous and array.flags.aligned
        if item != id(array) or data != array.ctypes.data or (flags & _IN_ORDER == _IN_ORDER) != in_order:
            python = f"{platform.python_implementation()} {platform.python_version()}"
            raise errors.UnsupportedError(
                "fgrad.compile reads where the elements of an array lie, and does not find it with NumPy "
                f"{np.__version__} on {python}.\nLeave out compile: the function itself gives the same results."
            )


class Segment:
    """One function that runs items, and the arrays that it takes.

    Args:
        name: of the function.
        items: nests, routines and loops.
        plan: says which arrays are stored.
        known: arrays that do not change, by node.
        functions: those that there are; more are added.
        begun: arrays of which segments before have written a part, and that exist then; more are added.

    Attributes:
        touches: the arrays that it reads or writes.
        needs: the arrays that it reads and that come from elsewhere.
        makes: the arrays that it writes and that others read; known when it is finished.
        arena: how many bytes it needs besides; known when it is finished.
    """

    def __init__(
        self, name: str, items: Sequence[Item], plan: Plan, known: Mapping[Node, Any], functions: Functions,
        begun: set[Node],
    ) -> None:  # fmt: skip
        self.name, self._known, self._linkage = name, known, functions.linkage
        self._calls = Calls(name, items, plan, functions)
        self._made = dict.fromkeys(node for node in self._calls.writes if node not in begun)
        begun.update(self._made)
        self.touches = dict.fromkeys(node for nodes in self._calls.touched for node in nodes)
        self.needs = [node for node in self.touches if node not in self._made and node not in known]
        self.makes: list[Node] = []
        self.arena = 0

    def finished(self, wanted: set[Node]) -> str:
        """Return the function in LLVM's language, where others read the arrays `wanted`.

        It takes a tuple of arrays, those that it reads and those that it makes, and the arena.
        """
        lines = _in_order(len(self.needs))
        objects = [*self.needs, *self._made_for(wanted)]
        memory = {node: f"%d{place}" for place, node in enumerate(objects)}
        for place in range(len(objects)):
            lines.append(f"%o{place} = getelementptr i8, ptr %a{place}, i64 {_DATA}")
            lines.append(f"%d{place} = load ptr, ptr %o{place}")
        return self.function("ptr %arrays, ptr %arena", [*_items(len(objects)), *lines], memory, wanted, ["ret i32 0"])

    def _made_for(self, wanted: set[Node]) -> list[Node]:
        self.makes = [node for node in self._made if node in wanted]
        return self.makes

    def function(
        self, taken: str, before: Sequence[str], memory: dict[Node, str], wanted: set[Node], behind: Sequence[str]
    ) -> str:
        """Return the function with given parameters.

        Args:
            taken: the parameters, `%arena` among them.
            before: what runs first.
            memory: where the arrays lie that come from elsewhere, and those that others read; the others are added.
            wanted: the arrays that others read.
            behind: what runs last.
        """
        offsets, self.arena = places(self._calls.touched, self._made.keys() - wanted, self._calls.forms)
        lines = list(before)
        for place, (node, offset) in enumerate(offsets.items()):
            lines.append(f"%r{place} = getelementptr i8, ptr %arena, i64 {offset}")
            memory[node] = f"%r{place}"
        for node, array in self._known.items():
            memory[node] = self._linkage.constant(array)
        lines += self._calls.lines(memory)
        body = "\n".join(f"  {line}" for line in [*lines, *behind])
        return f"define i32 @{self.name}({taken}) {self._linkage.callers} #0 {{\nentry:\n{body}\n}}"


def _items(count: int) -> list[str]:
    """Return what reads the first items of the tuple."""
    lines = []
    for place in range(count):
        lines.append(f"%p{place} = getelementptr i8, ptr %arrays, i64 {_ITEMS + place * _POINTER}")
        lines.append(f"%a{place} = load ptr, ptr %p{place}")
    return lines


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
