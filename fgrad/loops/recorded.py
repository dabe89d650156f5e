"""Loops in a recording: one iteration is recorded, and the loop is one equation of the program.

as_loop(function, iteration, carry, arrays, ...)    the results, or None if iterations must be recorded one by one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.tree import flatten, unflatten
from fgrad.core.variable import open_watches
from fgrad.graphs import loop_rules  # noqa: F401  # registers the rules of loops
from fgrad.graphs.derived import unboxed
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.loop import Along, Iterations
from fgrad.graphs.record import RecordTrace, recorded
from fgrad.loops.avals import WEAK, kind_of, own, strong
from fgrad.loops.values import is_of_program
from fgrad.loops.writes import OuterWriteError, no_outer_writes
from fgrad.native.purity import check_repeats
from fgrad.ops.tracing import first_example
from fgrad.rules.randomness import RandomStates

if TYPE_CHECKING:
    import optree

Leaves = Sequence[Any]
Iteration = Callable[[Leaves, Leaves], tuple[Leaves, Leaves]]
Kind = tuple[Any, Any]
"""The dtype of a leaf, or WEAK, and the Python type of its elements."""


def is_recorded(leaves: Leaves) -> bool:
    """Return whether the current computation is part of a recorded program."""
    return any(watch.trace.is_program for watch in open_watches()) or any(map(is_of_program, leaves))


def as_loop(
    function: Callable[..., Any],
    prepared: Callable[[Any], Callable[[Any, Leaves], tuple[Any, Leaves]]],
    init: Any,
    arrays: Leaves,
    along: Along,
    count: int,
    has_condition: bool = False,
    **options: object,
) -> tuple[Any, list[Any]] | None:
    """Return the last carry and the outputs of all iterations, as results of one equation of a program.

    The result is None if iterations must be recorded one by one: they assign to variables, request values that are
    known without the program, draw random numbers, or return a Python number of another type in each iteration.

    Args:
        function: the user's function.
        prepared: a function of the initial carry. It returns a function of the carry, which that may modify in place,
            and of the leaves of an element of each array, which returns the next carry and the leaves of an output; for
            a loop with a condition the output is the condition.
        init: the carry before the first iteration.
        arrays: the arrays that the loop reads.
        along: the position of the first iteration, and the direction; an array of Python integers is a range.
        count: the number of iterations.
        has_condition: whether the loop ends when a condition is false.
        options: further options of the loop.
    """
    carry, treedef = flatten(init)
    elements = [(x if isinstance(x, range) else first_example(x))[along.start] for x in arrays]
    while True:
        kinds: list[Any] = []
        graph = recorded_iteration(function, _on_leaves(prepared, carry, treedef), carry, elements, kinds)
        if graph is None:
            return None
        settled = [_like_after(x, kind) for x, kind in zip(carry, kinds, strict=True)]
        if any(x is None for x in settled):
            return None
        if all(x is y for x, y in zip(settled, carry, strict=True)):
            break
        carry = settled
    is_weak = [dtype is WEAK for dtype, _ in kinds]
    last, outputs = _run(graph, carry, arrays, elements, along, count, has_condition, is_weak, options)
    return unflatten(treedef, last), outputs


def _on_leaves(prepared: Callable[[Any], Callable[..., Any]], carry: Leaves, treedef: optree.PyTreeSpec) -> Iteration:
    """Return an iteration as a function of the leaves of the carry."""
    step = prepared(unflatten(treedef, carry))

    def iteration(leaves: Leaves, elements: Leaves) -> tuple[Leaves, Leaves]:
        after, outputs = step(own(unflatten(treedef, leaves)), elements)
        return flatten(after)[0], outputs

    return iteration


_TYPES = (bool, int, float, complex)
"""The types of Python numbers; each can represent values of those before it."""


def leaf_kind(leaf: object) -> Kind:
    """Return the dtype and the Python type of a leaf."""
    kind, dtype = kind_of(leaf), leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return (None if kind is None else kind[1]), type(np.zeros((), dtype).item())


def _like_after(x: Any, after: Kind) -> Any:
    """Convert a Python number of the initial carry to the dtype that it has after an iteration.

    The result is None if the later type cannot represent the earlier value.
    """
    (before, kind), (dtype, later) = leaf_kind(x), after
    if before is not WEAK or (dtype is WEAK and kind is later):
        return x
    if kind not in _TYPES or later not in _TYPES or _TYPES.index(kind) > _TYPES.index(later):
        return None
    if dtype is not WEAK:
        return strong(x, dtype)
    # A subtraction, since it preserves the sign of 0.
    return later(x) if type(x) in _TYPES else x - later(0)


def recorded_iteration(
    function: Callable[..., Any], iteration: Iteration, carry: Leaves, elements: Leaves, kinds: list[Any]
) -> Graph | None:
    """Return the program of one iteration, or None if it is not representative; set `kinds` of the next carry."""
    count = len(carry)

    def flat(*leaves: object) -> tuple[list[Any], list[Any]]:
        following, outputs = iteration(leaves[:count], leaves[count:])
        kinds[:] = map(leaf_kind, following)
        return list(following), list(outputs)

    flat.__name__ = "loop"
    examples = tuple(map(leaf_example, [*carry, *elements]))
    with RandomStates(function).put_back(), no_outer_writes():
        try:
            trace = RecordTrace(is_compiled=True, lifts=True)
            graph, assigned = recorded(flat, examples, {}, integers=True, trace=trace)
            if assigned or len(graph.inputs) != len(examples):
                return None
            check_repeats(flat, examples, graph, assigned, trace, lifts=True)
        except (errors.ConcretizationError, errors.FrozenValueError, OuterWriteError):
            return None
    return graph


def leaf_example(leaf: object) -> Any:
    """Return a number or array like a leaf, with which an iteration is recorded."""
    if type(leaf) is bool:
        return np.bool_(leaf)
    if type(leaf) in _TYPES:
        return leaf
    kind = kind_of(leaf)
    example = first_example(leaf)
    return example.item() if kind is not None and kind[1] is WEAK else example


def _run(
    graph: Graph,
    carry: Leaves,
    arrays: Leaves,
    elements: Leaves,
    along: Along,
    count: int,
    has_condition: bool,
    is_weak: Sequence[bool],
    options: dict[str, Any],
) -> tuple[list[Any], list[Any]]:
    """Return the results of a loop; values that iterations capture become inputs."""
    shared, names, constants, outputs = lifted(graph)
    for position, x in enumerate(outputs):
        if type(x) is not Name and position < len(carry) and is_weak[position]:
            outputs[position] = x.item()
    names += graph.inputs
    if has_condition:
        options["condition"] = Block(names, constants, graph.equations, [outputs.pop()])
    iterations = Iterations(
        Block(names, constants, graph.equations, outputs),
        count,
        len(shared),
        len(carry),
        [along] * len(arrays),
        [along] * (len(outputs) - len(carry)),
        [leaf_example(strip_ended(x)) for x in (*shared, *carry, *elements)],
        **options,
    )
    found = iterations(*shared, *carry, *map(_array, arrays))
    return list(found[: len(carry)]), list(found[len(carry) :])


def lifted(graph: Graph) -> tuple[list[Any], list[Name], dict[Name, Any], list[Any]]:
    """Return the values that a program captures, their names, its other constants, and its results."""
    captured = {name: value for name, value in graph.constants.items() if type(strip_ended(value)) is Tensor}
    outputs = list(map(unboxed, graph.outputs))
    for position, x in enumerate(map(strip_ended, outputs)):
        if type(x) is Tensor:
            outputs[position] = Name(x, x._trace.is_weak(x))
            captured[outputs[position]] = x
    constants = {name: value for name, value in graph.constants.items() if name not in captured}
    shared = [*captured.values(), *graph.variables.values()]
    return list(map(strip_ended, shared)), [*captured, *graph.variables], constants, outputs


def _array(x: Any) -> Any:
    return np.arange(x.start, x.stop, x.step) if isinstance(x, range) else x
