"""Lowering of other NumPy and SciPy ufuncs: calls of their inner loops.

A ufunc has a table of C loops, one for each combination of dtypes. Native code calls the loop that the ufunc would
choose, so results are bitwise equal, in single precision too. Loops over numbers do not use the interpreter: NumPy
itself calls them without the GIL.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fgrad.graphs.equations import Equation
from fgrad.graphs.integers import promoted
from fgrad.native.ir import Builder, Callee, Op, Symbol, Type, Value, integer
from fgrad.native.linkage import Linkage
from fgrad.native.llvm_text import Used, printed
from fgrad.native.lowering import FALLBACKS, Program
from fgrad.native.nodes import LibraryCall, Node
from fgrad.native.routines import ROUTINES
from fgrad.native.scalars import is_native
from fgrad.native.shapes import sliced
from fgrad.typing import DTypeLike

_RAISES = {"power", "left_shift", "right_shift"}
"""Ufuncs whose integer loops may raise Python errors, or have processor-dependent results."""


class Inner(NamedTuple):
    """An inner loop of a ufunc.

    Attributes:
        ufunc: keeps the table alive.
        address: the address of the function.
        data: the address of its data argument.
        outputs: the number of results.
        dtypes: of arguments and results.
        wanted: the result that is stored; -1 for all, stacked along a new first axis.
    """

    ufunc: np.ufunc
    address: int
    data: int
    outputs: int
    dtypes: tuple[str, ...]
    wanted: int


class _Layout(ctypes.Structure):
    """The first fields of NumPy's `PyUFuncObject`, after the object header."""

    _fields_: ClassVar[Any] = [
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("loops", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
    ]  # fmt: skip


def _layout_of(ufunc: np.ufunc) -> _Layout | None:
    """Return the fields of a ufunc; None if they contradict its Python attributes: NumPy's layout has changed."""
    found = _Layout.from_address(id(ufunc) + object.__basicsize__)
    shown = ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes
    if (found.nin, found.nout, found.nargs, found.ntypes) != shown or found.name != ufunc.__name__.encode():
        return None
    return found


def inner_loop(ufunc: np.ufunc, dtypes: Sequence[Any], wanted: int) -> Inner | None:
    """Return the loop of a ufunc for dtypes, None if its table has none."""
    layout = _layout_of(ufunc)
    place = next((k for k, types in enumerate(ufunc.types) if _dtypes(types) == list(dtypes)), None)
    if layout is None or place is None:
        return None
    address, given = layout.loops[place], layout.data[place] if layout.data else None
    names = tuple(dtype.name for dtype in dtypes)
    return Inner(ufunc, address, given or 0, ufunc.nout, names, wanted) if address else None


def _dtypes(types: str) -> list[Any]:
    return [np.dtype(char) for char in types.replace("->", "")]


def _resolved(ufunc: np.ufunc, equation: Equation) -> list[Any] | None:
    """Return the dtypes in which a ufunc computes an equation, None if there are none."""
    promotable = [_promotable(x) for x in equation.inputs]
    try:
        return list(ufunc.resolve_dtypes((*promotable, *[None] * ufunc.nout)))
    except TypeError:  # no loop for these dtypes
        return None


def _promotable(x: Any) -> Any:
    """Return the argument of `resolve_dtypes`: a dtype, or the type of a Python number."""
    known = promoted(x)
    if isinstance(known, np.dtype):
        return known
    return np.dtype(np.bool_) if isinstance(known, bool) else type(known)


def _by_inner_loop(program: Program, equation: Equation, arguments: list[Any]) -> tuple[Node, ...] | None:
    ufunc = equation.primitive.implementation
    if not isinstance(ufunc, np.ufunc) or ufunc.signature or equation.metadata or len(arguments) != ufunc.nin:
        return None
    dtypes = _resolved(ufunc, equation)
    if dtypes is None or not all(map(is_native, dtypes)) or (ufunc.__name__ in _RAISES and dtypes[0].kind != "f"):
        return None
    shape = equation.outputs[0].shape
    nodes = [program.cast(x, dtype) for x, dtype in zip(arguments, dtypes, strict=False)]
    nodes = [program.broadcast_operand(x, shape) for x in nodes]
    made = dtypes[ufunc.nin :]
    if len(made) > 1 and len(set(made)) == 1:
        found = _called(program, inner_loop(ufunc, dtypes, -1), nodes, (len(made), *shape), made[0])
        return found and tuple(
            program.cast(sliced(program, found, (place,)), name.dtype) for place, name in enumerate(equation.outputs)
        )
    results = [
        _called(program, inner_loop(ufunc, dtypes, place), nodes, shape, dtype) for place, dtype in enumerate(made)
    ]
    pairs = zip(results, equation.outputs, strict=True)
    return None if None in results else tuple(program.cast(node, name.dtype) for node, name in pairs)


def _called(program: Program, loop: Inner | None, nodes: list[Node], shape: Any, dtype: DTypeLike) -> Any:
    return loop and program.add(LibraryCall("ufunc", shape, dtype, nodes, loop))


FALLBACKS.append(_by_inner_loop)


def _call(item: LibraryCall, pointer: Callable[[Node], Value], linkage: Linkage) -> tuple[str, Used]:
    """Return a function that calls an inner loop, with addresses, a size, and strides in bytes."""
    loop: Inner = item.options
    shape, width = item.shape[1:] if loop.wanted < 0 else item.shape, item.dtype.itemsize
    size, code = math.prod(shape), Builder()
    every = [(pointer(x), x.dtype.itemsize if x.shape == shape else 0) for x in item.arguments]
    result, scratch = pointer(item), code.alloca(Type.I64, 2)
    for place in range(loop.outputs):
        if loop.wanted < 0:
            every.append((code.address(result, Type.I8, integer(place * size * width)), width))
        else:
            every.append((result, width) if place == loop.wanted else (scratch, 0))
    addresses, steps, count = (
        code.alloca(Type.PTR, len(every)),
        code.alloca(Type.I64, len(every)),
        code.alloca(Type.I64),
    )
    code.store(integer(size), count)
    for place, (address, step) in enumerate(every):
        code.store(address, code.address(addresses, Type.PTR, integer(place)))
        code.store(integer(step), code.address(steps, Type.I64, integer(place)))
    inner, data = Callee(linkage.of_ufunc(loop.address), is_declared=False), Symbol(linkage.of_ufunc(loop.data))
    code.do(Op.CALL, None, addresses, count, steps, data, attribute=inner)
    return printed(code.body)


ROUTINES["ufunc"] = _call
