"""Branches in a recording: each branch is a loop of at most one iteration, which runs if its condition holds.

in_program(conditions, functions, names, operands)    the result, or None if all branches should be computed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.trace import Call, Observer, observed_by
from fgrad.core.tree import flatten, unflatten
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.loop import at_most_once, is_slight
from fgrad.loops.avals import WEAK, combined, kind_of, strong
from fgrad.loops.recorded import Kind, leaf_example, leaf_kind, lifted, recorded_iteration
from fgrad.loops.writes import own_operands


class _Branch(NamedTuple):
    """One branch.

    Attributes:
        graph: its program; the operands are constants in it, or captured tensors.
        result: zeros of the structure, shapes and dtypes of its result.
        kinds: the dtype and Python type of each leaf of the result.
    """

    graph: Graph
    result: Any
    kinds: list[Kind]


def in_program(
    conditions: Sequence[Any], functions: Sequence[Callable[..., Any]], names: Sequence[str], operands: Sequence[Any]
) -> Any:
    """Return the result of the function whose condition holds; the program runs only that function.

    The result is None if all functions should be computed instead: one of them assigns to variables, requests values,
    or draws random numbers; or together they are cheaper than the branch.

    Args:
        conditions: for each function, whether it is selected; exactly one is.
        functions: the user's functions.
        names: their names in messages.
        operands: the arguments of the functions.

    Raises:
        StructureError, DtypeError: TypeErrors; the structures or dtypes of results differ.
        ShapeError: a ValueError; the shapes differ.
    """
    branches = [_recorded(function, operands) for function in functions]
    known = [branch for branch in branches if branch is not None]
    if len(known) < len(branches) or all(is_slight(branch.graph.equations) for branch in known):
        return None
    for position in range(1, len(known)):
        combined(known[0].result, known[position].result, _neither, (names[0], names[position]))
    dtypes = [reduce(_common, column) for column in zip(*(branch.kinds for branch in known), strict=True)]
    if any(kind[0] is WEAK for branch in known for kind in branch.kinds):
        again = [_recorded(function, operands, dtypes) for function in functions]
        known = [branch for branch in again if branch is not None]
    leaves, treedef = flatten(known[0].result)
    carry: list[Any] = [np.zeros(x.shape, x.dtype) for x in leaves]
    for condition, branch in zip(conditions, known, strict=True):
        carry = _run(branch.graph, condition, carry)
    return unflatten(treedef, carry)


def _neither(one: Any, other: Any) -> None:
    """Do nothing: only the compatibility of the leaves is checked."""


def _common(one: Kind, other: Kind) -> Kind:
    """Return the common dtype of a leaf of two branches; a Python number takes that of the other."""
    if one[0] is WEAK and other[0] is WEAK:
        return max(one, other, key=lambda kind: _dtype(kind).num)
    return other if one[0] is WEAK else one


def _dtype(kind: Kind) -> np.dtype[Any]:
    return np.dtype(kind[1] if kind[0] is WEAK else kind[0])


def _recorded(function: Callable[..., Any], operands: Sequence[Any], kinds: Sequence[Kind] | None = None) -> Any:
    """Return the program of a function; None if it is not the same in each call, or has side effects.

    Args:
        function: the user's function.
        operands: its arguments.
        kinds: the dtypes to which its leaves are converted; None: no conversion.
    """
    results: list[Any] = []
    found: list[Kind] = []

    def branch(carry: object, elements: Sequence[Any]) -> Any:
        with observed_by(_Claimed(strip_ended(elements[0])._trace)):
            leaves, treedef = flatten(function(*own_operands(tuple(operands))))
        if kinds is not None:
            leaves = [strong(x, _dtype(kind)) for x, kind in zip(leaves, kinds, strict=True)]
        results[:] = [unflatten(treedef, map(_form, leaves))]
        return leaves, []

    graph = recorded_iteration(function, branch, [], [np.True_], found)
    if graph is None or any(dtype is None for dtype, _ in found):
        return None
    return _Branch(graph, results[0], found)


def _form(leaf: object) -> Any:
    """Return zeros like a leaf, weak for a Python number; a leaf that is neither number nor array unchanged."""
    kind = kind_of(leaf)
    if kind is None:
        return leaf
    shape, dtype = kind
    return leaf_kind(leaf)[1](0) if dtype is WEAK else np.zeros(shape, dtype)


class _Claimed(Observer):
    """Records operations that would belong to an outer recording, since all their arguments come from it.

    Args:
        trace: the inner recording.
    """

    def __init__(self, trace: Any) -> None:
        self._trace = trace

    def _is_claimed(self, args: Sequence[Any]) -> bool:
        levels = [x._trace.level for x in map(strip_ended, args) if type(x) is Tensor]
        return bool(levels) and max(levels) < self._trace.level

    @override
    def operation(self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Any) -> Any:
        return self._trace.process(primitive, args, metadata) if self._is_claimed(args) else go_on(args)

    @override
    def call(self, call: Call, leaves: Sequence[Any], go_on: Any) -> Any:
        return self._trace.process_call(call, leaves) if self._is_claimed(leaves) else go_on(leaves)


def _run(graph: Graph, condition: object, carry: Sequence[Any]) -> list[Any]:
    """Return the results of a program if a condition holds, otherwise the carry."""
    shared, names, constants, outputs = lifted(graph)
    block = Block([*names, *map(Name, carry)], constants, graph.equations, outputs)
    examples = list(map(leaf_example, [*shared, *map(strip_ended, carry)]))
    return list(at_most_once(block, len(shared), examples)(strip_ended(condition), *shared, *carry))
