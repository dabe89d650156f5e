"""Native code as C functions in this process, for libraries that take callbacks in C.

low_level(block, name, "double (double)")      a ctypes function, which keeps its code alive
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad import errors
from fgrad.graphs.derived import outputs_of
from fgrad.graphs.graph import Block
from fgrad.native.calls import Functions
from fgrad.native.exporting import function
from fgrad.native.ir import TRUE, Builder, Callee, Constant, Op, Parameter, Type, Value, integer, real
from fgrad.native.linkage import Standalone
from fgrad.native.llvm_text import parameter_list, printed
from fgrad.native.machine import Machine

_MOST_ON_STACK = 1 << 18
"""Most bytes of workspace that a call takes from the stack."""

_DOUBLE, _DOUBLES, _VOID = ctypes.c_double, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p
_INTEGERS = ctypes.POINTER(ctypes.c_ssize_t)


_NUMBER, _NUMBERS = "one number", "one vector, or numbers,"
_STATE = "a time, a state of one vector or number, and parameters (none, one vector, or numbers)"


class _Form(NamedTuple):
    """A kind of C function.

    Attributes:
        result: the C type of its result: the program's result, 1 for success, or void.
        parameters: the C types of its parameters.
        given: positions of the inputs among the parameters; further inputs follow the last one in memory.
        takes: a description of the inputs, for messages.
        dtype: of the inputs.
        made: position of the address of the results; -1 for a function that returns its result.
        size: position of the number of inputs; -1 if there is none.
        results: position of the number of results; `_ONE` for one, `_AS_MADE` for as many as the program has.
        leads: the input whose shape is a prefix of the result's shape; -1 for none.
    """

    result: Any
    parameters: tuple[Any, ...]
    given: tuple[int, ...]
    takes: str
    dtype: str
    made: int
    size: int = -1
    results: int = -1
    leads: int = -1


_ONE, _AS_MADE = -1, -2

SIGNATURES = {
    "double (double)": _Form(_DOUBLE, (_DOUBLE,), (0,), _NUMBER, "float64", -1),
    "double (double, void *)": _Form(_DOUBLE, (_DOUBLE, _VOID), (0,), _NUMBER, "float64", -1),
    "double (int, double *)": _Form(_DOUBLE, (ctypes.c_int, _DOUBLES), (1,), _NUMBERS, "float64", -1, 0),
    "double (int, double *, void *)": _Form(_DOUBLE, (ctypes.c_int, _DOUBLES, _VOID), (1,), _NUMBERS, "float64", -1, 0),
    "int (double *, intptr_t, double *, void *)": _Form(
        ctypes.c_int, (_DOUBLES, ctypes.c_ssize_t, _DOUBLES, _VOID), (0,), _NUMBERS, "float64", 2, 1
    ),
    "int (intptr_t *, double *, int, int, void *)": _Form(
        ctypes.c_int, (_INTEGERS, _DOUBLES, ctypes.c_int, ctypes.c_int, _VOID), (0,), _NUMBERS, "int64", 1, 2, 3
    ),
    "void (double *, double *)": _Form(None, (_DOUBLES, _DOUBLES), (0,), _NUMBERS, "float64", 1, -1, _AS_MADE),
    "void (double, double *, double *, double *)": _Form(
        None, (_DOUBLE, _DOUBLES, _DOUBLES, _DOUBLES), (0, 1, 3), _STATE, "float64", 2, -1, _AS_MADE, 1
    ),
}
"""Callbacks of SciPy: the first four of `quad` and `nquad`, then `generic_filter`, and `geometric_transform`; then a
function from an array to an array; and the right-hand side of an ODE, as numbalsoda calls it, or its Jacobian."""


def low_level(block: Block, name: str, signature: str) -> Any:
    """Return a program as a C function.

    Args:
        block: the program, with the inputs of the signature; its output is a number, or an array if the signature has
            an address of results.
        name: name of the user's function, for messages.
        signature: one of `SIGNATURES`.

    Raises:
        UnsupportedError: a NotImplementedError; an operation has no native code, or the workspace is too large.
        ParameterError: a ValueError; the program does not match the signature.
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
    texts, unvectorized = functions.module(
        machine.declarations(functions.used), [text, _wrapper(block, form, workspace)]
    )
    module = machine.compiled(f"{linkage.text()}\n{texts}", unvectorized, functions.has_iterations)
    made: Any = ctypes.CFUNCTYPE(form.result, *form.parameters)(module.address("outer"))
    made.module, made.address = module, module.address("outer")
    return made


def _check(block: Block, name: str, signature: str, form: _Form) -> None:
    """Raise if a program does not match a signature."""
    shapes, dtypes = [each.shape for each in block.inputs], {each.dtype.name for each in block.inputs}
    if not _takes(form, shapes) or dtypes != {form.dtype}:
        raise errors.ParameterError(
            f"{signature!r} is for a function of {form.takes} of dtype {form.dtype}, and {name} was given arrays of "
            f"shapes {shapes} and dtypes {sorted(dtypes)}.\nPass examples of the arguments: low_level(signature, "
            f"{'0.0, ' if len(form.given) > 1 else ''}np.zeros(3))."
        )
    results = outputs_of(block)
    is_one = len(results) == 1 and results[0].dtype.name == "float64"
    if not is_one or (form.results == _ONE and results[0].shape != ()):
        wanted = {_ONE: "one number", _AS_MADE: "one array"}.get(form.results, "a number or vector")
        raise errors.ParameterError(f"{signature!r} is for a function that returns {wanted} of dtype float64.")
    first = shapes[form.leads] if form.leads >= 0 else ()
    if results[0].shape[: len(first)] != first:
        raise errors.ParameterError(
            f"{signature!r} is for a function that returns the change of a state of shape {first}, or derivatives of "
            f"that with this shape first, and {name} returns an array of shape {results[0].shape}."
        )


def _takes(form: _Form, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether a kind of function accepts inputs of some shapes."""
    last = len(form.given) - 1
    for place, at in enumerate(form.given):
        own = shapes[place:] if place == last else shapes[place : place + 1]
        is_vector = len(own) == 1 and len(own[0]) == 1 and form.parameters[at] is not _DOUBLE
        is_all = len(own) == 1 or (place == last and form.parameters[at] is not _DOUBLE)
        if not is_vector and not (is_all and all(each == () for each in own)):
            return False
    return bool(shapes)


_TYPES = {_DOUBLE: Type.F64, ctypes.c_int: Type.I32, ctypes.c_ssize_t: Type.I64}


def _wrapper(block: Block, form: _Form, workspace: int) -> str:
    """Return the function with the signature, which calls the program with a workspace on the stack."""
    code = Builder()
    parameters = [Parameter(f"a{place}", _TYPES.get(each, Type.PTR)) for place, each in enumerate(form.parameters)]
    arrays: list[Value] = [parameters[place] for place in form.given]
    for place, number in enumerate(arrays):
        if number.type is Type.F64:
            arrays[place] = code.alloca(Type.F64)
            code.store(number, arrays[place])
    result = code.alloca(Type.F64) if form.made < 0 else parameters[form.made]
    work, state = code.alloca(Type.I8, max(workspace, 1)), code.alloca(Type.I32)
    code.store(integer(1, Type.I32), state)
    with code.when(_fits(code, block, form, parameters)):
        last = len(arrays) - 1  # scalars contiguous in memory
        given = [
            code.address(arrays[min(place, last)], Type.F64, integer(max(place - last, 0)), flags="")
            for place in range(len(block.inputs))
        ]
        inner = Callee("@inner", is_declared=False)
        code.store(code.do(Op.CALL, Type.I32, *given, result, work, attribute=inner), state)
    fails = code.compare("ne", code.load(Type.I32, state), integer(0, Type.I32))
    returned = _append_result(code, block, form, fails, result)
    body, _ = printed(code.body, returned)
    result_type = "void" if returned is None else returned.type
    return f"define {result_type} @outer({parameter_list(parameters)}) noinline #0 {{\n{body}\n}}"


def _append_result(code: Builder, block: Block, form: _Form, fails: Value, result: Value) -> Value | None:
    """Append the report of a failure, and return the function's result; None for void."""
    nan = real(float("nan"), Type.F64)
    if form.made < 0:
        return code.select(fails, nan, code.load(Type.F64, result))
    if form.result is not None:
        return code.select(fails, integer(0, Type.I32), integer(1, Type.I32))
    with code.when(fails), code.loop(math.prod(outputs_of(block)[0].shape)) as place:
        code.store(nan, code.address(result, Type.F64, place))
    return None


def _fits(code: Builder, block: Block, form: _Form, parameters: Sequence[Parameter]) -> Value:
    """Append a check that the numbers of inputs and results are those of the program."""
    given, made = (sum(math.prod(each.shape) for each in arrays) for arrays in (block.inputs, outputs_of(block)))
    fits: Value = TRUE
    for place, size in ((form.size, given), (form.results, made)):
        if place >= 0:
            same = code.compare("eq", parameters[place], Constant(parameters[place].type or Type.I64, size))
            fits = code.both(fits, same)
    return fits
