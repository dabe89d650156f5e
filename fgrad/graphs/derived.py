"""Programs derived from programs: forward and backward graphs, recorded by the transforms, and batches.

    computed(block, leaves)                      the results, computed by NumPy and the running transforms
    Directions(block, ours, moves, examples)     which inputs are differentiated, and which results
      .pushed()                                  the forward-mode program
      .parted()                                  the forward and the backward program
    mapped(block, axes, examples)                the batched program
    implementation_of(equation, function)        the program of an operation, of which a function computes the same

A program is split into forward and backward at the inputs of the cotangents; the residuals connect the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.views import VIEWS
from fgrad.graphs.equations import Equation, Name, in_pythons_way, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.record import RecordTrace, recorded
from fgrad.transforms.batch import vmap
from fgrad.transforms.forward import jvp
from fgrad.transforms.linearization import Linearization, UnconnectedGradients
from fgrad.typing import Array

Leaves = Sequence[Any]
Places = tuple[bool, ...]


def computed(block: Block, leaves: Leaves) -> list[Any]:
    """Return the results of a program, computed by NumPy and the running transforms."""
    pairs = zip(block.inputs, leaves, strict=True)
    return block.computed({name: in_pythons_way(x) if name.is_weak else x for name, x in pairs})


def chosen(values: Sequence[Any], places: Sequence[bool]) -> list[Any]:
    """Return the values selected by a boolean mask."""
    return [x for x, own in zip(values, places, strict=True) if own]


def recorded_block(function: Callable[..., Any], leaves: Leaves, trace: RecordTrace | None = None) -> Block:
    """Return the program of a function; it does not refer to the function."""
    graph = recorded(function, tuple(leaves), {}, integers=True, trace=trace)[0]
    return Block(graph.inputs, graph.constants, graph.equations, list(map(unboxed, graph.outputs)))


def implementation_of(equation: Equation, function: Callable[..., Any]) -> Block:
    """Return the program of a function that computes an equation; its inputs are those that `of_arrays` returns."""

    def flat(*arrays: Array) -> list[Any]:
        rest = iter(arrays)
        ans = function(*(next(rest) if _is_array(x) else x for x in equation.inputs), **equation.metadata)
        return list(ans) if isinstance(ans, (tuple, list)) else [ans]

    with np.errstate(all="ignore"):
        examples = [_example(x) for x in equation.inputs if _is_array(x)]
        return recorded_block(flat, examples, RecordTrace())  # without lines, which are those of the implementation


def of_arrays(equation: Equation, values: Sequence[Any]) -> list[Any]:
    """Return the values of the inputs that are names or arrays."""
    return chosen(values, list(map(_is_array, equation.inputs)))


def _is_array(x: object) -> bool:
    return hasattr(x, "dtype")


def _example(x: Any) -> Any:
    if type(x) is not Name:
        return x
    return in_pythons_way(np.ones((), x.dtype)[()]) if x.is_weak else np.ones(x.shape, x.dtype)


def unboxed(result: object) -> Any:
    """Return a constant result of a graph without its box."""
    value = strip_ended(result)
    return result if type(value) in (Name, Tensor) else value


def outputs_of(block: Block) -> list[Any]:
    """Return an object with the shape and dtype of each result."""
    return [x if type(x) is Name else np.asarray(x) for x in block.outputs]


def mapped(block: Block, axes: Sequence[int | None], examples: Leaves) -> Block:
    """Return the batched program: along the given axes of the inputs, and along the first axis of all results."""
    return recorded_block(vmap(lambda *each: computed(block, each), in_axes=tuple(axes)), examples)


class Parted(NamedTuple):
    """A program split into forward and backward parts.

    Attributes:
        forward: maps leaves to results and residuals.
        backward: maps residuals, some leaves and cotangents to the cotangents of leaves.
        places: the positions of these leaves.
        connected: the leaves with results in the backward part.
    """

    forward: Block
    backward: Block
    places: list[int]
    connected: Places


@dataclass(frozen=True)
class Directions:
    """The inputs and results of a program that are differentiated.

    Attributes:
        block: the program.
        ours: a mask of the differentiated inputs.
        moves: a mask of the results with derivatives.
        examples: arrays of the shapes and dtypes of the inputs.
    """

    block: Block
    ours: Places
    moves: Places
    examples: Leaves

    def pushed(self) -> Block:
        """Return the program that maps leaves and tangents to the results and their tangents."""

        def push(*given: Array) -> Any:
            leaves, tangents = given[: len(self.ours)], given[len(self.ours) :]
            found = jvp(self._moving(leaves), chosen(leaves, self.ours), list(tangents), has_aux=True)
            return self._merged(found[0], found[2]), found[1]

        tangents = [np.ones(np.shape(x), np.asarray(x).dtype) for x in chosen(self.examples, self.ours)]
        return self._program(push, tangents)

    def parted(self, recomputes: bool = False, masked: Sequence[bool] | None = None) -> Parted:
        """Return the program split into forward and backward parts.

        Args:
            recomputes: whether the backward part recomputes everything, and takes only leaves from the forward part.
            masked: a mask of the results with masked cotangents; by default all are.
        """
        weighed = [True] * sum(self.moves) if masked is None else chosen(masked, self.moves)
        count = len(self.ours)
        connected: list[bool] = []

        def both(*given: Array) -> Any:
            leaves, cotangents = given[:count], given[count:]
            moving = tuple(chosen(leaves, self.ours))
            traced = Linearization(self._moving(leaves), moving, {}, range(len(moving)), has_aux=True)
            results = self._merged(traced.result, traced.aux or ())
            found = traced.gradients(
                traced.pull(list(cotangents), "the cotangents", weighed=weighed), UnconnectedGradients.NONE
            )
            connected[:] = [each is not None for each in found]
            return results, found  # None is not a leaf

        ones = [np.ones(each.shape, each.dtype) for each in chosen(outputs_of(self.block), self.moves)]
        block = self._program(both, ones)
        rest = iter(connected)
        return _parted(block, len(self.moves), tuple(own and next(rest) for own in self.ours), recomputes)

    def _moving(self, leaves: Leaves) -> Callable[..., Any]:
        """Return the function of the differentiated leaves; other results are aux."""

        def function(*moving: Array) -> tuple[list[Any], list[Any]]:
            rest = iter(moving)
            results = computed(self.block, [next(rest) if own else x for x, own in zip(leaves, self.ours, strict=True)])
            return chosen(results, self.moves), chosen(results, [not each for each in self.moves])

        return function

    def _merged(self, moving: Leaves, others: Leaves) -> list[Any]:
        rest, other = iter(moving), iter(others)
        return [next(rest) if own else next(other) for own in self.moves]

    def _program(self, function: Callable[..., Any], others: Leaves) -> Block:
        """Record a function of the leaves and of further arrays."""
        names = zip(self.examples, self.block.inputs, strict=True)
        return recorded_block(function, [*(np.asarray(x).item() if name.is_weak else x for x, name in names), *others])


def _parted(block: Block, results: int, connected: Places, recomputes: bool) -> Parted:
    """Split a program at the inputs of the cotangents.

    Args:
        block: takes leaves, then cotangents; returns results, then values that depend on cotangents.
        results: the number of results.
        connected: a mask with an entry for each leaf.
        recomputes: the backward part starts from the leaves.
    """
    leaves, cotangents = block.inputs[: len(connected)], block.inputs[len(connected) :]
    later = set(block.inputs if recomputes else cotangents)
    parts: tuple[list[Equation], list[Equation]] = ([], [])
    for equation in block.equations:
        is_later = not later.isdisjoint(names_of(equation.inputs))
        parts[is_later].append(equation)
        if is_later:
            later.update(equation.outputs)
    again, gradients = _moved_again(parts, later, {*leaves, *block.constants}), block.outputs[results:]
    used = dict.fromkeys(x for equation in (*again, *parts[1]) for x in names_of(equation.inputs))
    used.update(dict.fromkeys(names_of(gradients)))
    known = {*later, *block.constants, *leaves, *(name for equation in again for name in equation.outputs)}
    kept = [x for x in used if x not in known]
    places = [place for place, leaf in enumerate(leaves) if leaf in used]
    taken = [*kept, *(leaves[place] for place in places), *cotangents]
    first = [*parts[0], *parts[1]] if recomputes else parts[0]
    forward = Block(leaves, block.constants, first, [*block.outputs[:results], *kept])
    backward = Block(taken, block.constants, [*again, *parts[1]], gradients)
    return Parted(forward, backward, places, connected)


def _moved_again(parts: tuple[list[Equation], list[Equation]], later: set[Name], given: set[Name]) -> list[Equation]:
    """Return the views that the backward part recomputes, since their operands are available or not larger."""
    used = {x for equation in parts[1] for x in names_of(equation.inputs) if x not in later}
    again: list[Equation] = []
    for equation in reversed(parts[0]):
        if equation.primitive not in VIEWS or used.isdisjoint(equation.outputs):
            continue
        sources = names_of(equation.inputs)
        size = math.prod(equation.outputs[0].shape)
        if all(x in given or math.prod(x.shape) <= size for x in sources):
            again.append(equation)
            used.update(sources)
    return again[::-1]
