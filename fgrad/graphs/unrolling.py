"""Unrolling of short loops inside of loops: `unrolled(block)`.

Computations common to the end of one iteration and the beginning of the next, such as the force in a leapfrog step, are
then done once, and the iterations of the outer loop avoid the overhead of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgrad.core.primitive import PRIMITIVES
from fgrad.graphs.equations import Equation, Name, renamed
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Iterations, equation_of, iterations_of

_MOST = 128
"""The number of equations that may replace a loop."""


def unrolled(block: Block, is_iteration: bool = False) -> Block:
    """Return a program that computes the same, bit by bit.

    Args:
        block: the program.
        is_iteration: whether it is the body of a loop.
    """
    if not any(map(iterations_of, block.equations)):
        return block
    written = _Written(block)
    for equation in block.equations:
        iterations = iterations_of(equation)
        if iterations is None:
            written.copy(equation)
            continue
        iterations = replace(iterations, body=unrolled(iterations.body, True))
        if is_iteration and _is_short(iterations, equation.inputs):
            written.constants.update(iterations.body.constants)
            written.unroll(iterations, equation)
        else:
            written.copy(replace(equation_of(iterations, equation.inputs, equation.place), outputs=equation.outputs))
    return Block(block.inputs, written.constants, written.equations, written.named(block.outputs))


def _is_short(iterations: Iterations, inputs: Sequence[Any]) -> bool:
    """Return whether a loop has few equations in total, and its inputs match the inputs of the body."""
    body, own = iterations.body, slice(iterations.shared, iterations.middle)
    if iterations.condition is not None or iterations.count * len(body.equations) > _MOST:
        return False
    if any(name.is_weak for name in body.inputs[own.stop :]):
        return False
    takes = [*zip(inputs, body.inputs[: own.stop], strict=False), *zip(body.outputs, body.inputs[own], strict=False)]
    return all(_form(x) == name.form for x, name in takes)


def _form(x: Any) -> Any:
    """Return the shape and dtype of a name or a constant, and whether it is weak."""
    if type(x) is Name:
        return x.form
    return np.shape(x), np.asarray(x).dtype, type(x) in (bool, int, float, complex)


class _Written:
    """The equations of a program while they are written.

    Args:
        block: the program, whose constants are copied.
    """

    def __init__(self, block: Block) -> None:
        self.constants = dict(block.constants)
        self.equations: list[Equation] = []
        self._names: dict[Any, Any] = {}

    def named(self, values: Sequence[Any]) -> list[Any]:
        """Return the names or constants that stand for values of the program."""
        return renamed(values, self._names)

    def copy(self, equation: Equation) -> None:
        """Copy an equation."""
        self.equations.append(replace(equation, inputs=tuple(self.named(equation.inputs))))

    def unroll(self, iterations: Iterations, loop: Equation) -> None:
        """Write the equations of all iterations of a loop."""
        shared, carry, arrays = iterations.parted(self.named(loop.inputs))
        names = iterations.parted(iterations.body.inputs)[2]
        rows = []
        for k in range(iterations.count):
            elements = [
                self._made("index", [x], name, loop.place, template=(along.start + along.step * k,))
                for x, along, name in zip(arrays, iterations.reads, names, strict=True)
            ]
            found = self._iteration(iterations.body, [*shared, *carry, *elements])
            carry = found[: iterations.carried]
            rows.append(found[iterations.carried :])
        columns = [
            column[:: along.step] for column, along in zip(zip(*rows, strict=True), iterations.writes, strict=True)
        ]
        made = loop.outputs[iterations.carried :]
        joined = [
            self._made("stack", column, name, loop.place, axis=0) for column, name in zip(columns, made, strict=True)
        ]
        self._names.update(zip(loop.outputs, [*carry, *joined], strict=True))

    def _iteration(self, body: Block, given: Sequence[Any]) -> list[Any]:
        """Write the equations of one iteration, and return its results."""
        outside = self._names
        self._names = dict(zip(body.inputs, given, strict=True))
        for equation in body.equations:
            outputs = tuple(Name(name, name.is_weak) for name in equation.outputs)
            self.copy(replace(equation, outputs=outputs))
            self._names.update(zip(equation.outputs, outputs, strict=True))
        results = self.named(body.outputs)
        self._names = outside
        return results

    def _made(self, primitive: str, inputs: Sequence[Any], like: Name, place: Any, **metadata: Any) -> Name:
        name = Name(like)
        self.equations.append(Equation((name,), PRIMITIVES[primitive], tuple(inputs), metadata, True, place=place))
        return name
