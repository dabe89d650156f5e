"""Loop nests of a plan, before their code is generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fgrad.native.nodes import Node, Reshape, Shape


@dataclass(eq=False)
class Write:
    """The computation of one array, or of a part of it, in a loop nest.

    Attributes:
        target: the array.
        value: the node computed at each index of the space.
        axis, offset: for concatenations, the axis and the offset of the space in the target.
    """

    target: Node
    value: Node
    axis: int = 0
    offset: int = 0

    @property
    def space(self) -> Shape:
        """The index space of the loops."""
        return self.value.shape


@dataclass(eq=False)
class Nest:
    """Loops over one index space, and the arrays that they write."""

    writes: list[Write] = field(default_factory=list)


MOST_CHUNKS = 16
"""Most chunks of a parallel loop."""


@dataclass(eq=False)
class Rows:
    """Nests executed one after the other in each iteration of shared outer loops.

    Attributes:
        nests: the nests, in order of execution.
        outer: the number of shared loops; 0 for a single nest.
        buffers: arrays used only here, with the shared loop of each of their axes, -1 for none: one row of them is in
            memory, which each iteration overwrites.
    """

    nests: list[Nest]
    outer: int = 0
    buffers: dict[Node, tuple[int, ...]] = field(default_factory=dict)

    def memory_shapes(self) -> dict[Node, Shape]:
        """Return the shapes of buffers in memory: one row for each chunk of the outermost loop."""
        return {
            array: tuple(
                size if loop < 0 else 1 if loop else min(MOST_CHUNKS, size)
                for size, loop in zip(array.shape, loops, strict=True)
            )
            for array, loops in self.buffers.items()
        }

    @property
    def writes(self) -> Iterator[Write]:
        """All writes of the nests."""
        return (write for nest in self.nests for write in nest.writes)


def memory_of(node: Node) -> Node:
    """Return the array whose memory a node shares."""
    while isinstance(node, Reshape):
        node = node.arguments[0]
    return node


def squeezed(shape: Shape) -> Shape:
    """Return a shape without axes of size 1."""
    return tuple([size for size in shape if size != 1])
