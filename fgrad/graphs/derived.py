"""Programs made of programs: derivatives, recorded by the transforms themselves, and many examples at once.

    computed(block, leaves)                      the results, as NumPy and the transforms that run compute them
    Directions(block, ours, moves, examples)     which inputs move, and which results are to follow
        .pushed()                                the program of the tangents
        .parted()                                that of the run, and that of the pass back
    mapped(block, axes, examples)                the program for many examples

A pass back is parted from the run before it where the cotangents come in; what it needs of the run are the residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.tensor import Tensor, strip_ended
from fgrad.core.views import VIEWS
from fgrad.graphs.equations import Equation, Name, in_pythons_way
from fgrad.graphs.graph import Block
from fgrad.graphs.record import recorded
from fgrad.transforms.batch import vmap
from fgrad.transforms.forward import jvp
from fgrad.transforms.linearization import Linearization, UnconnectedGradients

Leaves = Sequence[Any]
Places = tuple[bool, ...]


def computed(block: Block, leaves: Leaves) -> list[Any]:
    """Return the results of a program as NumPy and the transforms that run compute them."""
    pairs = zip(block.inputs, leaves, strict=True)
    return block.computed({name: in_pythons_way(x) if name.is_weak else x for name, x in pairs})


def chosen(values: Sequence[Any], places: Sequence[bool]) -> list[Any]:
    """Return the values at some places."""
    return [x for x, own in zip(values, places, strict=True) if own]


def recorded_block(function: Callable[..., Any], leaves: Leaves) -> Block:
    """Return the program of a function; it does not keep the function."""
    graph = recorded(function, tuple(leaves), {}, integers=True)[0]
    return Block(graph.inputs, graph.constants, graph.equations, list(map(unboxed, graph.outputs)))


def unboxed(result: Any) -> Any:
    """Return a result of a graph without a box, if it is a constant that nothing follows."""
    value = strip_ended(result)
    return result if type(value) in (Name, Tensor) else value


def outputs_of(block: Block) -> list[Any]:
    """Return what has the shape and dtype of each result."""
    return [x if type(x) is Name else np.asarray(x) for x in block.outputs]


def mapped(block: Block, axes: Sequence[int | None], examples: Leaves) -> Block:
    """Return the program for many examples: along these axes of the inputs, and along the first of all results."""
    return recorded_block(vmap(lambda *each: computed(block, each), in_axes=tuple(axes)), examples)


class Parted(NamedTuple):
    """A program in two parts.

    Attributes:
        forward: the run: from leaves to results, and to what the pass back needs of it.
        backward: the pass back: of that, of the leaves at some places, and of cotangents.
        places: of these leaves.
        connected: the leaves for which there are results of the pass back.
    """

    forward: Block
    backward: Block
    places: list[int]
    connected: Places


@dataclass(frozen=True)
class Directions:
    """Along which inputs of a program derivatives are taken.

    Attributes:
        block: the program.
        ours: which inputs move.
        moves: which results have a derivative.
        examples: arrays in the form of the inputs.
    """

    block: Block
    ours: Places
    moves: Places
    examples: Leaves

    def pushed(self) -> Block:
        """Return the program that takes leaves and tangents, and returns the results and their tangents."""

        def push(*given: Any) -> Any:
            leaves, tangents = given[: len(self.ours)], given[len(self.ours) :]
            found = jvp(self._moving(leaves), chosen(leaves, self.ours), list(tangents), has_aux=True)
            return self._merged(found[0], found[2]), found[1]

        tangents = [np.ones(np.shape(x), np.asarray(x).dtype) for x in chosen(self.examples, self.ours)]
        return self._program(push, tangents)

    def parted(self, recomputes: bool = False) -> Parted:
        """Return the program of the run, and that of the pass back.

        Args:
            recomputes: the pass back runs all again, and takes nothing but leaves from the run.
        """
        count = len(self.ours)
        connected: list[bool] = []

        def both(*given: Any) -> Any:
            leaves, cotangents = given[:count], given[count:]
            moving = tuple(chosen(leaves, self.ours))
            traced = Linearization(self._moving(leaves), moving, {}, range(len(moving)), has_aux=True)
            results = self._merged(traced.result, traced.aux or ())
            found = traced.gradients(traced.pull(list(cotangents), "the cotangents"), UnconnectedGradients.NONE)
            connected[:] = [each is not None for each in found]
            return results, found  # None is no leaf

        ones = [np.ones(each.shape, each.dtype) for each in chosen(outputs_of(self.block), self.moves)]
        block = self._program(both, ones)
        rest = iter(connected)
        return _parted(block, len(self.moves), tuple(own and next(rest) for own in self.ours), recomputes)

    def _moving(self, leaves: Leaves) -> Callable[..., Any]:
        """Return the function of those leaves that move; results that are not to follow are aux."""

        def function(*moving: Any) -> tuple[list[Any], list[Any]]:
            rest = iter(moving)
            results = computed(self.block, [next(rest) if own else x for x, own in zip(leaves, self.ours, strict=True)])
            return chosen(results, self.moves), chosen(results, [not each for each in self.moves])

        return function

    def _merged(self, moving: Leaves, others: Leaves) -> list[Any]:
        rest, other = iter(moving), iter(others)
        return [next(rest) if own else next(other) for own in self.moves]

    def _program(self, function: Callable[..., Any], others: Leaves) -> Block:
        """Record a function of the leaves, and of more arrays."""
        names = zip(self.examples, self.block.inputs, strict=True)
        return recorded_block(function, [*(np.asarray(x).item() if name.is_weak else x for x, name in names), *others])


def _parted(block: Block, results: int, connected: Places, recomputes: bool) -> Parted:
    """Part a program where cotangents come in.

    Args:
        block: takes leaves, and then cotangents; returns results, and then what depends on cotangents.
        results: how many there are.
        connected: has an entry for each leaf.
        recomputes: the second part begins with the leaves.
    """
    leaves, cotangents = block.inputs[: len(connected)], block.inputs[len(connected) :]
    later = set(block.inputs if recomputes else cotangents)
    parts: tuple[list[Equation], list[Equation]] = ([], [])
    for equation in block.equations:
        is_later = not later.isdisjoint(x for x in equation.inputs if type(x) is Name)
        parts[is_later].append(equation)
        if is_later:
            later.update(equation.outputs)
    again, gradients = _moved_again(parts, later, {*leaves, *block.constants}), block.outputs[results:]
    used = dict.fromkeys(x for equation in (*again, *parts[1]) for x in equation.inputs if type(x) is Name)
    used.update(dict.fromkeys(x for x in gradients if type(x) is Name))
    made = {name for equation in again for name in equation.outputs}
    kept = [x for x in used if x not in later | made and x not in block.constants and x not in leaves]
    places = [place for place, leaf in enumerate(leaves) if leaf in used]
    taken = [*kept, *(leaves[place] for place in places), *cotangents]
    first = [*parts[0], *parts[1]] if recomputes else parts[0]
    forward = Block(leaves, block.constants, first, [*block.outputs[:results], *kept])
    backward = Block(taken, block.constants, [*again, *parts[1]], gradients)
    return Parted(forward, backward, places, connected)


def _moved_again(parts: tuple[list[Equation], list[Equation]], later: set[Name], given: set[Name]) -> list[Equation]:
    """Return what the second part does again rather than to be handed it: moves of what is no larger, or is given."""
    used = {x for equation in parts[1] for x in equation.inputs if type(x) is Name and x not in later}
    again: list[Equation] = []
    for equation in reversed(parts[0]):
        if equation.primitive not in VIEWS or used.isdisjoint(equation.outputs):
            continue
        sources = [x for x in equation.inputs if type(x) is Name]
        size = math.prod(equation.outputs[0].shape)
        if all(x in given or math.prod(x.shape) <= size for x in sources):
            again.append(equation)
            used.update(sources)
    return again[::-1]
