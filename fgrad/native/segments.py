"""Native items that follow each other, as one function in LLVM's language."""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.calls import Calls, Functions, arena_offsets
from fgrad.native.ir import Builder, Op, Parameter, Symbol, Type, Value, integer
from fgrad.native.llvm_text import printed, taken
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
        arena: how many bytes it needs besides; known when its arrays have places.
    """

    def __init__(
        self, name: str, items: Sequence[Item], plan: Plan, known: Mapping[Node, Any], functions: Functions,
        begun: set[Node],
    ) -> None:  # fmt: skip
        self.name, self._known, self._functions = name, known, functions
        self._calls = Calls(name, items, plan, functions)
        self._made = dict.fromkeys(node for node in self._calls.writes if node not in begun)
        begun.update(self._made)
        self.touches = dict.fromkeys(node for nodes in self._calls.touched for node in nodes)
        self.needs = [node for node in self.touches if node not in self._made and node not in known]
        self.makes: list[Node] = []
        self.arena, self._offsets = 0, dict[Node, int]()

    def finished(self, wanted: set[Node]) -> str:
        """Return the function in LLVM's language, where others read the arrays `wanted`.

        It takes a tuple of arrays, those that it reads and those that it makes, and the arena. It returns 1, and does
        nothing, unless the arrays that it reads all lie in memory as they should.
        """
        code, arrays, arena = Builder(), Parameter("arrays"), Parameter("arena")
        self.place(wanted)
        self.makes = [node for node in self._made if node in wanted]
        nodes = [*self.needs, *self.makes]
        objects = [
            code.load(Type.PTR, code.address(arrays, Type.I8, integer(_ITEMS + place * _POINTER)))
            for place in range(len(nodes))
        ]
        fits = _are_in_order(code, objects[: len(self.needs)])
        refused = code.cast(Op.ZEXT, code.negated(fits), Type.I32)
        with code.when(fits):
            memory: dict[Node, Value] = {
                node: code.load(Type.PTR, code.address(each, Type.I8, integer(_DATA)))
                for node, each in zip(nodes, objects, strict=True)
            }
            self.append(code, memory, arena)
        return self.definition(code, [arrays, arena], refused)

    def place(self, wanted: set[Node]) -> None:
        """Find places in the arena for the arrays that it makes, but for those that others read, `wanted`."""
        self._offsets, self.arena = arena_offsets(self._calls.touched, self._made.keys() - wanted, self._calls.forms)

    def append(self, code: Builder, memory: dict[Node, Value], arena: Value) -> None:
        """Append the items.

        Args:
            code: where they go.
            memory: where the arrays lie that come from elsewhere, and those that others read; the others are added.
            arena: memory to work in.
        """
        for node, offset in self._offsets.items():
            memory[node] = code.address(arena, Type.I8, integer(offset))
        for node, array in self._known.items():
            memory[node] = Symbol(self._functions.linkage.constant(array))
        self._calls.append(code, memory)

    def definition(self, code: Builder, parameters: Sequence[Parameter], result: Value) -> str:
        """Return the function in LLVM's language."""
        body, used = printed(code.body, result)
        self._functions.used.update(used)
        return f"define i32 @{self.name}({taken(parameters)}) {self._functions.linkage.callers} #0 {{\n{body}\n}}"


def _are_in_order(code: Builder, objects: Sequence[Value]) -> Value:
    """Append whether the elements of arrays all lie in memory as they should."""
    total: Value = integer(_IN_ORDER, Type.I32)
    for each in objects:
        flags = code.load(Type.I32, code.address(each, Type.I8, integer(_FLAGS)))
        total = code.both(flags, total)
    return code.compare("eq", total, integer(_IN_ORDER, Type.I32))
