"""Nests of loops, before there is code for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fgrad.native.nodes import Node, Reshape, Shape


@dataclass(eq=False)
class Write:
    """What one nest of loops does for one array.

    Attributes:
        target: the array.
        value: what is computed at each index of the space.
        offset: where the space begins in the array, along `axis`; for arrays that are joined.
    """

    target: Node
    value: Node
    axis: int = 0
    offset: int = 0

    @property
    def space(self) -> Shape:
        """The sizes of the loops."""
        return self.value.shape


@dataclass(eq=False)
class Nest:
    """Loops over one index space, and the arrays that are written in them."""

    writes: list[Write] = field(default_factory=list)


MOST_PARTS = 16
"""In how many parts loops run, at most."""


@dataclass(eq=False)
class Rows:
    """Nests that run one after the other in each iteration of the loops over the first axes, which they share.

    Attributes:
        nests: in the order in which they run.
        outer: how many axes they share; none, where there is one nest.
        buffers: arrays that nothing else needs, with the number of the loop for each of their axes, -1 for none that is
            shared: of these, a row is overwritten by the next one.
    """

    nests: list[Nest]
    outer: int = 0
    buffers: dict[Node, tuple[int, ...]] = field(default_factory=dict)

    def forms(self) -> dict[Node, Shape]:
        """Return the shapes that buffers have in memory: one row for each of the parts in which the nests may run."""
        return {
            array: tuple(
                size if loop < 0 else 1 if loop else min(MOST_PARTS, size)
                for size, loop in zip(array.shape, loops, strict=True)
            )
            for array, loops in self.buffers.items()
        }

    @property
    def writes(self) -> Iterator[Write]:
        """All that is written."""
        return (write for nest in self.nests for write in nest.writes)


def memory_of(node: Node) -> Node:
    """Return the array in whose memory a node lies."""
    while isinstance(node, Reshape):
        node = node.arguments[0]
    return node


def squeezed(shape: Shape) -> Shape:
    """Return a shape without the axes of size 1."""
    return tuple([size for size in shape if size != 1])
