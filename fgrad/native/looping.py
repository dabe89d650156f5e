"""Lowering of loops over programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import strip_ended
from fgrad.graphs.equations import Equation
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Along, Iterations, iterations_of
from fgrad.native.functions import Function
from fgrad.native.lowering import CALLS, Program, any_failure, lowered
from fgrad.native.nodes import LoopNode, Node, NumpyStep, Projection, Remap, axis_index


def _loop(program: Program, equation: Equation, arguments: list[Any]) -> tuple[Node, ...] | None:
    """Return the results of a loop; None for an equation that is not a loop."""
    iterations = iterations_of(equation)
    if iterations is None:
        return None
    try:
        return _native_loop(program, iterations, equation.outputs, arguments)
    except _NotNativeError as error:
        program.refused[program.equation] = f"in each iteration, {error}"
        loop = Primitive("loop", PythonLoop(iterations))
        return tuple(program.step(replace(equation, primitive=loop), arguments))


def _native_loop(
    program: Program, iterations: Iterations, outputs: Sequence[Any], arguments: list[Any]
) -> tuple[Node, ...]:
    inner, condition = _native(iterations.body), None
    results = _results(inner, iterations.body)
    failed = any_failure(inner)
    if iterations.condition is not None:
        condition_program = _native(iterations.condition)
        condition = condition_program, _results(condition_program, iterations.condition)[0]
        if condition_program.failures:
            raise _NotNativeError("the condition may raise")
    given = [program.cast(x, name.dtype) for x, name in zip(arguments, iterations.body.inputs, strict=True)]
    shared, carry, arrays = iterations.parted(given)
    peeled = [_peeled(x, along) for x, along in zip(arrays, iterations.reads, strict=True)]
    iterations = replace(iterations, reads=[along for _, along in peeled])
    given = [*shared, *carry, *(x for x, _ in peeled)]
    loop = LoopNode(iterations, inner, [*results, *([failed] if failed else [])], condition, given)
    program.add(loop)
    parts = [Projection(loop, place, name.shape, name.dtype) for place, name in enumerate(outputs)]
    if failed is not None:
        program.failures.append(program.add(Projection(loop, len(parts), (), failed.dtype)))
    return tuple(program.add(part) for part in parts)


CALLS.append(_loop)


def _peeled(node: Node, along: Along) -> tuple[Node, Along]:
    """Return the source of an array whose rows are rows of the source, and the rows that the iterations read there."""
    while isinstance(node, Remap) and not node.bounds and _has_rows_of(node, node.arguments[0]):
        first, step = node.index_map[0], node.index_map[0].terms[0].coefficient
        node, along = node.arguments[0], Along(first.offset + step * along.start, step * along.step)
    return node, along


def _has_rows_of(node: Remap, source: Node) -> bool:
    if not source.shape or source.shape[1:] != node.shape[1:]:
        return False
    first, *others = node.index_map
    own = [axis_index(axis, size) for axis, size in enumerate(node.shape)][1:]
    return others == own and first.divisor == 1 and [term.axis for term in first.terms] == [0]


def _results(program: Program, block: Block) -> list[Node]:
    return [program.node(program.argument(strip_ended(x))) for x in block.outputs]


class PythonLoop:
    """A loop executed by Python, with a compiled program for its iterations."""

    def __init__(self, iterations: Iterations) -> None:
        self.iterations = iterations
        self._body = Function(iterations.body, "loop")

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        return tuple(self.iterations.run(leaves, self._body))


class _NotNativeError(Exception):
    """An iteration is not native; the message has the reason."""


def _native(block: Block) -> Program:
    """Return the nodes of a block.

    Raises:
        _NotNativeError: NumPy has to execute some of it.
    """
    program = lowered(block)
    for node in program.all:
        if isinstance(node, NumpyStep):
            raise _NotNativeError(program.refused.get(node.equation, "NumPy runs an operation"))
    return program
