"""Python integers in native code: a run with an overflow fails (`fgrad.graphs.integers`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.graphs.equations import Equation
from fgrad.graphs.integers import DIVIDE, EXACT, GROW, LARGEST, compared_in, is_integer, narrow_dtype
from fgrad.native.lowering import CHECKS, Program
from fgrad.native.nodes import Node
from fgrad.typing import DTypeLike


def _check(program: Program, equation: Equation, arguments: list[Any]) -> None:
    dtype = narrow_dtype(equation)
    if dtype is not None and compared_in(equation) is None and dtype != np.int64:
        for x, node in zip(equation.inputs, arguments, strict=True):
            if is_integer(x) and isinstance(node, Node):
                _check_range(program, node, dtype)
    elif equation.outputs[0].is_weak and not equation.direct and all(map(is_integer, equation.inputs)):
        _check_python(program, equation.primitive.name, arguments)


def _check_range(program: Program, x: Node, dtype: DTypeLike) -> None:
    """Let a run fail if an integer does not fit the dtype of an array."""
    info = np.iinfo(dtype)
    program.add_failure(program.elementwise("less", x, program.cast(int(info.min), np.int64)))
    if info.max < LARGEST:
        program.add_failure(program.elementwise("greater", x, program.cast(int(info.max), np.int64)))


def _check_python(program: Program, name: str, arguments: list[Any]) -> None:
    """Let a run fail where Python's arithmetic raises, or a result has too many bits."""
    nodes = [program.cast(x, np.int64) for x in arguments]
    if name in DIVIDE:
        zero = program.cast(0, np.int64)
        program.add_failure(program.elementwise("equal", nodes[1], zero))
    if name in GROW:
        floats = [program.cast(x, np.float64) for x in nodes]
        _check_size(program, program.elementwise(name, *floats), LARGEST)
    if name == "divide":
        for each in nodes:
            _check_size(program, program.cast(each, np.float64), EXACT)


def _check_size(program: Program, x: Node, limit: int) -> None:
    size = program.elementwise("abs", x)
    program.add_failure(program.elementwise("greater_equal", size, program.cast(float(limit), np.float64)))


CHECKS.append(_check)
