"""Native code as C functions in this process, for libraries that call such functions in their inner loops.

low_level(block, name, "double (double)")      a ctypes function, which keeps its code alive
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad import errors
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block
from fgrad.native.calls import Functions
from fgrad.native.exporting import function
from fgrad.native.ir import TRUE, Builder, Callee, Constant, Op, Parameter, Type, Value, integer, real
from fgrad.native.linkage import Standalone
from fgrad.native.llvm_text import printed, taken
from fgrad.native.machine import Machine

_MOST_ON_STACK = 1 << 18
"""Bytes of workspace that a call may take from the stack of its thread."""

_DOUBLE, _DOUBLES, _VOID = ctypes.c_double, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p
_INTEGERS = ctypes.POINTER(ctypes.c_ssize_t)


class _Form(NamedTuple):
    """A kind of C function.

    Attributes:
        result: the type of its result: that of the program, or 1 for success.
        parameters: the types of its parameters.
        given: the place of the argument: a number, or the address of numbers.
        dtype: of these.
        made: the place of the address of results; -1: it returns the result.
        size: the place of how many numbers are at the address of the argument; -1: it is no address.
        results: the place of how many results are wanted; -1: one.
    """

    result: Any
    parameters: tuple[Any, ...]
    given: int
    dtype: str
    made: int
    size: int = -1
    results: int = -1


SIGNATURES = {
    "double (double)": _Form(_DOUBLE, (_DOUBLE,), 0, "float64", -1),
    "double (double, void *)": _Form(_DOUBLE, (_DOUBLE, _VOID), 0, "float64", -1),
    "double (int, double *)": _Form(_DOUBLE, (ctypes.c_int, _DOUBLES), 1, "float64", -1, 0),
    "double (int, double *, void *)": _Form(_DOUBLE, (ctypes.c_int, _DOUBLES, _VOID), 1, "float64", -1, 0),
    "int (double *, intptr_t, double *, void *)": _Form(
        ctypes.c_int, (_DOUBLES, ctypes.c_ssize_t, _DOUBLES, _VOID), 0, "float64", 2, 1
    ),
    "int (intptr_t *, double *, int, int, void *)": _Form(
        ctypes.c_int, (_INTEGERS, _DOUBLES, ctypes.c_int, ctypes.c_int, _VOID), 0, "int64", 1, 2, 3
    ),
}
"""What SciPy calls: the first four in `quad` and `nquad`, then in `generic_filter`, and in `geometric_transform`."""


def low_level(block: Block, name: str, signature: str) -> Any:
    """Return a program as a C function.

    Args:
        block: the program: of numbers, or of one vector; it returns one number, or, where the function takes the
            address of its results, one vector.
        name: of the user's function, for messages.
        signature: one of `SIGNATURES`.

    Raises:
        UnsupportedError: a NotImplementedError; an operation has no native code, or the program needs much memory.
        ParameterError: a ValueError; the program does not fit the signature.
    """
    form = SIGNATURES[signature]
    _check(block, name, signature, form)
    machine = Machine.this()
    linkage = Standalone()
    functions = Functions(0, machine.widths(precise=False), linkage)
    text, workspace = function("inner", block, functions)
    if workspace > _MOST_ON_STACK:
        raise errors.UnsupportedError(
            f"{name} needs {workspace} bytes to work in, and a C function takes at most {_MOST_ON_STACK} of the stack."
        )
    declarations = machine.declarations(functions.used)
    narrow = "\n".join([declarations, *functions.narrow]) if functions.narrow else ""
    texts = [
        linkage.text()[0],
        declarations,
        *functions.declarations,
        *functions.texts,
        text,
    ]
    module = machine.compiled("\n".join([*texts, _wrapper(block, form, workspace)]), narrow, functions.has_iterations)
    made: Any = ctypes.CFUNCTYPE(form.result, *form.parameters)(module.address("outer"))
    made.module = module
    return made


def _check(block: Block, name: str, signature: str, form: _Form) -> None:
    """Raise if a program does not fit a signature."""
    shapes, dtypes = [each.shape for each in block.inputs], {each.dtype.name for each in block.inputs}
    is_number = form.parameters[form.given] is _DOUBLE
    fits = shapes == [()] if is_number else shapes in ([()] * len(shapes), [(_length(shapes),)])
    results = [each for each in block.outputs if type(each) is Name]
    if not fits or not shapes or dtypes != {form.dtype}:
        wanted = "one number" if is_number else "one vector, or numbers,"
        raise errors.ParameterError(
            f"{signature!r} is for a function of {wanted} of dtype {form.dtype}, and {name} was given arrays of shapes "
            f"{shapes} and dtypes {sorted(dtypes)}.\nPass examples of the arguments: low_level(signature, np.zeros(3))."
        )
    is_one = len(block.outputs) == len(results) == 1 and results[0].dtype.name == "float64"
    if not is_one or (form.results < 0 and results[0].shape != ()):
        wanted = "one number" if form.results < 0 else "a number or vector"
        raise errors.ParameterError(f"{signature!r} is for a function that returns {wanted} of dtype float64.")


def _length(shapes: Sequence[tuple[int, ...]]) -> int:
    return shapes[0][0] if len(shapes) == 1 and len(shapes[0]) == 1 else -1


_TYPES = {_DOUBLE: Type.F64, ctypes.c_int: Type.I32, ctypes.c_ssize_t: Type.I64}


def _wrapper(block: Block, form: _Form, workspace: int) -> str:
    """Return the function that has the signature, and calls the program with memory from the stack."""
    code, inputs = Builder(), range(len(block.inputs))
    parameters = [Parameter(f"a{place}", _TYPES.get(each, Type.PTR)) for place, each in enumerate(form.parameters)]
    array: Value = parameters[form.given]
    if array.type is Type.F64:
        number, array = array, code.room(Type.F64)
        code.store(number, array)
    result = code.room(Type.F64) if form.made < 0 else parameters[form.made]
    work, state = code.room(Type.I8, max(workspace, 1)), code.room(Type.I32)
    code.store(integer(1, Type.I32), state)
    with code.when(_fits(code, block, form, parameters)):
        given = [code.address(array, Type.F64, integer(place), flags="") for place in inputs]
        inner = Callee("@inner", is_declared=False)
        code.store(code.do(Op.CALL, Type.I32, *given, result, work, attribute=inner), state)
    fails = code.compare("ne", code.load(Type.I32, state), integer(0, Type.I32))
    if form.made < 0:
        told = code.select(fails, real(float("nan"), Type.F64), code.load(Type.F64, result))
    else:
        told = code.select(fails, integer(0, Type.I32), integer(1, Type.I32))
    body, _ = printed(code.body, told)
    return f"define {told.type} @outer({taken(parameters)}) noinline #0 {{\n{body}\n}}"


def _fits(code: Builder, block: Block, form: _Form, parameters: Sequence[Parameter]) -> Value:
    """Append whether there are as many numbers at the addresses as the program has."""
    given, made = (sum(math.prod(each.shape) for each in arrays) for arrays in (block.inputs, block.outputs))
    fits: Value = TRUE
    for place, size in ((form.size, given), (form.results, made)):
        if place >= 0:
            same = code.compare("eq", parameters[place], Constant(parameters[place].type or Type.I64, size))
            fits = code.both(fits, same)
    return fits
