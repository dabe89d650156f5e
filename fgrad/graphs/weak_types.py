"""Conversions of Python's numbers to NumPy's in recorded programs, as derivatives make them: `shortened(...)`.

A number of Python's takes the dtype of what it meets, unlike one of NumPy's. Where both give the same, a program does
not need the conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgrad.graphs.equations import Equation, Name, names_of, renamed
from fgrad.graphs.integers import promoted


def shortened(equations: Sequence[Equation], outputs: Iterable[Any]) -> Sequence[Equation]:
    """Return equations without the conversions that change no dtype."""
    reshaped = [equation for equation in equations if equation.primitive.name == "reshape"]
    found = {equation.outputs[0]: equation.inputs[0] for equation in reshaped if _converts(equation)}
    if not found:
        return equations
    for x in names_of(outputs):
        found.pop(x, None)
    for equation in equations:
        if not _is_as_before(equation, renamed(equation.inputs, found)):
            for x in names_of(equation.inputs):
                found.pop(x, None)
    return [_rewritten(equation, found) for equation in equations if equation.outputs[0] not in found]


def _rewritten(equation: Equation, found: dict[Name, Any]) -> Equation:
    inputs = renamed(equation.inputs, found)
    return equation if _are_same(inputs, equation.inputs) else replace(equation, inputs=tuple(inputs))


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(x is y for x, y in zip(some, others, strict=True))


def _converts(equation: Equation) -> bool:
    x = equation.inputs[0] if equation.inputs else None
    return type(x) is Name and x.is_weak and not equation.outputs[0].shape


def _is_as_before(equation: Equation, inputs: Sequence[Any]) -> bool:
    if _are_same(equation.inputs, inputs):
        return True
    if equation.direct or not equation.primitive.is_elementwise:
        return False
    return bool(np.result_type(*map(promoted, equation.inputs)) == np.result_type(*map(promoted, inputs)))
