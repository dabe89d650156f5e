"""Segments: consecutive native items, as one function in LLVM IR."""

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
from fgrad.native.llvm_text import parameter_list, printed
from fgrad.native.nodes import Node
from fgrad.native.plan import Item, Plan

_DATA = object.__basicsize__
"""Offset of the data pointer in an array object."""
_FLAGS = _DATA + 48
"""Offset of the array flags in an array object."""
_IN_ORDER = 0x101
"""Flags of a C-contiguous, aligned array."""
_ITEMS = tuple.__basicsize__
"""Offset of the first item in a tuple."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)


@functools.cache
def check_layout() -> None:
    """Raise if array objects have another memory layout than native code assumes; checked once.

    Raises:
        UnsupportedError: a NotImplementedError; this Python or NumPy has another layout than known versions.
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
    """One function that executes items, and its arrays.

    Args:
        name: of the function.
        items: nests, library calls and loops.
        plan: says which arrays are stored.
        known: constant arrays, by node.
        functions: the functions emitted so far; more are added.
        begun: arrays partly written by earlier segments, which exist already; more are added.

    Attributes:
        touches: the arrays that it reads or writes.
        needs: the arrays that it reads from elsewhere.
        makes: the arrays that it writes for others; set by `finished`.
        arena: the bytes of its arena; set by `place`.
    """

    def __init__(
        self, name: str, items: Sequence[Item], plan: Plan, known: Mapping[Node, Any], functions: Functions,
        begun: set[Node],
    ) -> None:  # fmt: skip
        self.name, self._known, self._functions = name, known, functions
        self._calls = Calls(name, items, plan, functions)
        self._made = dict.fromkeys(node for node in self._calls.writes if node not in begun and node not in plan.homes)
        begun.update(self._made)
        self.touches = dict.fromkeys(node for nodes in self._calls.touched for node in nodes)
        self.needs = [node for node in self.touches if node not in self._made and node not in known]
        self.makes: list[Node] = []
        self.arena, self._offsets = 0, dict[Node, int]()

    def finished(self, wanted: set[Node]) -> str:
        """Return the function as LLVM IR; `wanted` are the arrays that others read.

        Its parameters are a tuple of arrays, first those that it reads, then those that it makes, and the arena. It
        returns 1 without any effect unless the arrays that it reads are all C-contiguous and aligned; otherwise 0.
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
        """Assign arena offsets to the arrays that it makes, except those that others read, `wanted`."""
        self._offsets, self.arena = arena_offsets(self._calls.touched, self._made.keys() - wanted, self._calls.forms)

    def append(self, code: Builder, memory: dict[Node, Value], arena: Value) -> None:
        """Append the items.

        Args:
            code: the builder.
            memory: addresses of the arrays from elsewhere and of those that others read; the others are added.
            arena: the address of the arena.
        """
        for node, offset in self._offsets.items():
            memory[node] = code.address(arena, Type.I8, integer(offset))
        for node, array in self._known.items():
            memory[node] = Symbol(self._functions.linkage.constant(array))
        self._calls.append(code, memory)

    def definition(self, code: Builder, parameters: Sequence[Parameter], result: Value) -> str:
        """Return the function as LLVM IR."""
        body, used = printed(code.body, result)
        self._functions.used.update(used)
        return (
            f"define i32 @{self.name}({parameter_list(parameters)}) {self._functions.linkage.callers} #0 {{\n{body}\n}}"
        )


def _are_in_order(code: Builder, objects: Sequence[Value]) -> Value:
    """Append a check that all arrays are C-contiguous and aligned."""
    total: Value = integer(_IN_ORDER, Type.I32)
    for each in objects:
        flags = code.load(Type.I32, code.address(each, Type.I8, integer(_FLAGS)))
        total = code.both(flags, total)
    return code.compare("eq", total, integer(_IN_ORDER, Type.I32))
