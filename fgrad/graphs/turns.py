"""Loops in programs: what one turn computes, and how turns follow each other.

Turns(body, count, ...)        the loop, as a function of what goes into it
equation_of(turns, inputs)     one line of a graph that runs it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import settle
from fgrad.graphs.equations import Equation, Name, in_pythons_way
from fgrad.graphs.graph import Block
from fgrad.ops.shaping import stack


class Along(NamedTuple):
    """Turn k is at `start + step * k` along the first axis of an array."""

    start: int = 0
    step: int = 1


@dataclass(eq=False)
class Turns:
    """A loop that runs a block again and again.

    The block takes what is the same in all turns, then what the turn before has left (the carry), then an element of
    each array that the loop goes along. It returns the next carry, and an output for each array that the loop makes.

    The loop takes the same, with whole arrays in place of elements, and returns the last carry and the whole arrays.

    Attributes:
        body: what a turn computes.
        count: the number of turns, at least 1.
        shared, carried: how many inputs of the block are the same in all turns, and how many are the carry.
        reads: where each turn reads, for each array that the loop goes along.
        writes: where each turn writes, for each array that it makes, whose first axis has `count` elements: from the
            first to the last, or from the last to the first.
    """

    body: Block
    count: int
    shared: int
    carried: int
    reads: Sequence[Along]
    writes: Sequence[Along]

    @property
    def __name__(self) -> str:
        return "loop"

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Run the loop in Python, as operations that traces see."""
        shared, carry, arrays = self.parted(leaves)
        names = self.body.inputs
        rows: list[list[Any]] = []
        for turn in range(self.count):
            elements = [x[along.start + along.step * turn] for x, along in zip(arrays, self.reads, strict=True)]
            values = [in_pythons_way(x) if name.is_weak else x for name, x in self._named(shared, carry, elements)]
            found = self.body.computed(dict(zip(names, values, strict=True)))
            carry, outputs = found[: self.carried], found[self.carried :]
            rows.append(outputs)
        columns = [list(column) for column in zip(*rows, strict=True)]
        made = [
            stack(column[::-1] if along.step < 0 else column)
            for column, along in zip(columns, self.writes, strict=True)
        ]
        return (*carry, *made)

    def parted(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return what turns share, the carry, and the arrays along which they go."""
        leaves = list(leaves)
        middle = self.shared + self.carried
        return leaves[: self.shared], leaves[self.shared : middle], leaves[middle:]

    def _named(self, shared: list[Any], carry: list[Any], elements: list[Any]) -> Any:
        return zip(self.body.inputs, [*shared, *carry, *elements], strict=True)

    def outputs(self) -> tuple[Name, ...]:
        """Return new names for what the loop returns."""
        found = [each if type(each) is Name else np.asarray(settle(each)) for each in self.body.outputs]
        made = [np.broadcast_to(np.zeros((), x.dtype), (self.count, *x.shape)) for x in found[self.carried :]]
        return tuple(Name(x) for x in (*found[: self.carried], *made))


def equation_of(turns: Turns, inputs: Sequence[Any], place: tuple[str, int] | None = None) -> Equation:
    """Return the line of a graph that runs a loop.

    Args:
        turns: the loop.
        inputs: names, and constants that are short enough to stand in the line.
        place: the user's line that it is for.
    """
    return Equation(turns.outputs(), Primitive("loop", turns), tuple(inputs), {}, quiet=True, direct=True, place=place)


def turns_of(equation: Equation) -> Turns | None:
    """Return the loop that an equation runs, or None."""
    loop = equation.primitive.implementation
    return loop if equation.direct and isinstance(loop, Turns) else None
