"""What a program is made of when it is turned round: for each array, what its value at an index is.

    Given, Literal              an array from outside, one number
    Pointwise                   an operation element by element, on arrays of one shape
    Moved                       another array's elements at other indices: slices, transposes, broadcasts, padding
    Reshaped                    another array's memory under another shape
    Gathered                    elements at indices that are computed
    Reduced, Running            sums along axes and their kin, cumulative sums
    Joined, Scattered           arrays beside each other, values added at computed indices
    Called                      a routine of a library
    Stepped, Looped, Part       an operation that NumPy runs, a loop over a program, one of the results of these

Slices, scatters of slices, transposes and broadcasts are arithmetic of indices here, and vanish when loops are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad.typing import Array, DTypeLike

Shape = tuple[int, ...]


class AffineTerm(NamedTuple):
    """`coefficient * index[axis]`."""

    axis: int
    coefficient: int


class AffineIndex(NamedTuple):
    """Where an element lies along one axis: `offset` and a sum of terms, divided by `divisor` without remainder."""

    offset: int
    terms: tuple[AffineTerm, ...]
    divisor: int = 1


def axis_index(axis: int, size: int = 2) -> AffineIndex:
    """Return the index of an element along an axis: 0 if the axis has one element."""
    return AffineIndex(0, (AffineTerm(axis, 1),) if size != 1 else ())


class Bound(NamedTuple):
    """An index along an axis is one of `start + step * k`, for k from 0 to `number - 1`."""

    axis: int
    start: int
    step: int
    number: int


class Node:
    """An array of the program.

    Attributes:
        shape, dtype: of the array.
        arguments: the arrays of which it is made.
        number: in the order in which nodes were made, so arguments come first.
        equation: the place in the graph of the equation that it is for, -1 for none.
    """

    __slots__ = ("shape", "dtype", "arguments", "number", "equation")

    def __init__(self, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node] = ()) -> None:
        self.shape, self.dtype, self.arguments = shape, np.dtype(dtype), tuple(arguments)
        self.number, self.equation = -1, -1

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def key(self) -> Any:
        """Return what two nodes with the same value have in common, besides their arguments; None: nothing."""
        return None


class Input(Node):
    """An array from outside the program: an argument, a variable's value, a constant."""

    __slots__ = ()


class Literal(Node):
    """One number, of shape ()."""

    __slots__ = ("value",)

    def __init__(self, value: Array | float, dtype: DTypeLike) -> None:
        super().__init__((), dtype)
        self.value = np.asarray(value, dtype)[()]

    def key(self) -> Any:
        """Return its bits: 0.0 is not -0.0."""
        return self.value.tobytes()


class Elementwise(Node):
    """An operation element by element; its arguments have its shape, or are single numbers."""

    __slots__ = ("operation",)

    def __init__(self, operation: str, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node]) -> None:
        super().__init__(shape, dtype, arguments)
        self.operation = operation

    def key(self) -> Any:
        """Return the operation."""
        return self.operation


class Remap(Node):
    """Elements of another array: `source[places]` where all bounds hold, and the second argument elsewhere.

    The latter is a number, or an array of the shape of the result.
    """

    __slots__ = ("places", "bounds")

    def __init__(
        self,
        source: Node,
        shape: Shape,
        places: Sequence[AffineIndex],
        bounds: Sequence[Bound] = (),
        fill: Node | None = None,
    ) -> None:
        super().__init__(shape, source.dtype, (source,) if fill is None else (source, fill))
        self.places, self.bounds = tuple(places), tuple(bounds)

    def key(self) -> Any:
        """Return the places."""
        return self.places, self.bounds

    def is_identity(self) -> bool:
        """Return whether nothing is moved."""
        own = [axis_index(axis, size) for axis, size in enumerate(self.shape)]
        return (
            not self.bounds
            and self.arguments[0].shape == self.shape
            and all(
                place in (each, axis_index(axis))
                for axis, (place, each) in enumerate(zip(self.places, own, strict=True))
            )
        )


class Reshape(Node):
    """The memory of another array under another shape, in C order."""

    __slots__ = ()

    def __init__(self, source: Node, shape: Shape) -> None:
        super().__init__(shape, source.dtype, (source,))

    def key(self) -> Any:
        """Return nothing more than the shape."""
        return ()


class Gather(Node):
    """`source[i, j, ..., rest]`, where i, j, ... are arrays of integers of one shape, which comes first.

    The integers are in range, since the lowering rule has wrapped and clipped them (see `indexing`).
    """

    __slots__ = ()

    def __init__(self, source: Node, indices: Sequence[Node]) -> None:
        shape = (*indices[0].shape, *source.shape[len(indices) :])
        super().__init__(shape, source.dtype, (source, *indices))

    def key(self) -> Any:
        """Return nothing more."""
        return ()


class Reduction(Node):
    """What is left of an array along axes, which vanish: "sum", "prod", "max", "min", "any", "all", "argmax"..."""

    __slots__ = ("kind", "axes")

    def __init__(self, kind: str, source: Node, axes: Sequence[int], dtype: DTypeLike) -> None:
        shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
        super().__init__(shape, dtype, (source,))
        self.kind, self.axes = kind, frozenset(axes)

    def key(self) -> Any:
        """Return the kind and the axes."""
        return self.kind, self.axes


class Scan(Node):
    """Cumulative sums or products along the last axis."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, source: Node) -> None:
        super().__init__(source.shape, source.dtype, (source,))
        self.kind = kind

    def key(self) -> Any:
        """Return the kind."""
        return self.kind


class Concatenation(Node):
    """Arrays beside each other along an axis."""

    __slots__ = ("axis",)

    def __init__(self, parts: Sequence[Node], axis: int) -> None:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        super().__init__(tuple(shape), parts[0].dtype, parts)
        self.axis = axis

    def key(self) -> Any:
        """Return the axis."""
        return self.axis


class Scatter(Node):
    """Zeros to which values are added at `[i, j, ..., rest]`; indices as those of `Gather`."""

    __slots__ = ()

    def __init__(self, values: Node, indices: Sequence[Node], shape: Shape) -> None:
        super().__init__(shape, values.dtype, (values, *indices))

    def key(self) -> Any:
        """Return nothing more than the shape."""
        return ()


class LibraryCall(Node):
    """What a native routine computes from whole arrays."""

    __slots__ = ("routine", "options")

    def __init__(
        self, routine: str, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node], options: Any = ()
    ) -> None:
        super().__init__(shape, dtype, arguments)
        self.routine, self.options = routine, options

    def key(self) -> Any:
        """Return the routine."""
        return self.routine, self.options


class NumpyStep(Node):
    """An equation that NumPy runs; its results are `Projection`s."""

    __slots__ = ("step",)

    def __init__(self, step: tuple[Any, ...], arguments: Sequence[Node]) -> None:
        super().__init__((), np.float64, arguments)
        self.step = step


class LoopNode(Node):
    """A loop that runs a program again and again; its results are `Projection`s.

    As an array it is the memory in which it works; how much that is is known when its code has been written.

    Attributes:
        iterations: what is run, and how iterations hang together.
        program: the nodes of what an iteration computes.
        results: those of what it returns, and a truth value that makes the run void if there is one more.
        condition: the program of the condition, and its result; or None.
    """

    __slots__ = ("iterations", "program", "results", "condition")

    def __init__(
        self, iterations: Any, program: Any, results: Sequence[Node], condition: Any, arguments: Sequence[Node]
    ) -> None:
        super().__init__((0,), np.uint8, arguments)
        self.iterations, self.program, self.results, self.condition = iterations, program, list(results), condition


class Projection(Node):
    """One of the results of an equation that NumPy runs, or of a loop."""

    __slots__ = ("place",)

    def __init__(self, maker: NumpyStep | LoopNode, place: int, shape: Shape, dtype: DTypeLike) -> None:
        super().__init__(shape, dtype, (maker,))
        self.place = place


@dataclass
class Nodes:
    """Makes nodes, each once: what is computed twice in the graph is one node here.

    Attributes:
        all: the nodes in the order in which they were made.
        equation: the place of the equation for which nodes are made now.
    """

    def __post_init__(self) -> None:
        self.all: list[Node] = []
        self.equation = -1
        self._known: dict[Any, Node] = {}

    def add(self, node: Node) -> Node:
        """Return a node, or the one that has the same value."""
        if isinstance(node, Remap) and node.is_identity():
            return node.arguments[0]
        own = node.key()
        if own is not None:
            key = type(node), own, node.shape, node.dtype.num, tuple([argument.number for argument in node.arguments])
            known = self._known.setdefault(key, node)
            if known is not node:
                return known
        node.number, node.equation = len(self.all), self.equation
        self.all.append(node)
        return node
