"""Nodes of the array program: for each array, how an element is computed from its index.

    Input, Literal              an array from outside the program, a scalar constant
    Elementwise                 an elementwise operation on arrays of one shape
    Remap                       a view with affine indices: slice, transpose, broadcast, padding
    Reshape                     the memory of another array under another shape
    Gather, Scatter             elements at computed indices, values added at computed indices
    Reduction, Scan             reductions along axes, cumulative sums and products
    Concatenation               arrays concatenated along an axis
    LibraryCall                 a call of a library routine on whole arrays
    NumpyStep, LoopNode         an operation executed by NumPy, a loop over a program
    Projection                  one result of a `NumpyStep` or a `LoopNode`

Slices, scatters of slices, transposes and broadcasts are index arithmetic, and disappear when loops are generated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fgrad.typing import Array, DTypeLike

Shape = tuple[int, ...]


class AffineTerm(NamedTuple):
    """`coefficient * index[axis]`."""

    axis: int
    coefficient: int


class AffineIndex(NamedTuple):
    """Affine index along one axis of a source: `(offset + sum of terms) / divisor`; the division is exact."""

    offset: int
    terms: tuple[AffineTerm, ...]
    divisor: int = 1


def axis_index(axis: int, size: int = 2) -> AffineIndex:
    """Return the index along an axis itself, or 0 for an axis of size 1."""
    return AffineIndex(0, (AffineTerm(axis, 1),) if size != 1 else ())


class Bound(NamedTuple):
    """Restriction of the index along an axis to `start + step * k`, with `0 <= k < number`."""

    axis: int
    start: int
    step: int
    number: int


class Node:
    """An array of the program.

    Attributes:
        shape, dtype: shape and dtype of the array.
        arguments: the operands.
        number: position in order of creation; operands come first.
        equation: position in the graph of the equation for which it was created, -1 for none.
        is_merged: whether equal nodes are created once.
    """

    __slots__ = ("shape", "dtype", "arguments", "number", "equation")
    is_merged = True

    def __init__(self, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node] = ()) -> None:
        self.shape, self.dtype, self.arguments = shape, np.dtype(dtype), tuple(arguments)
        self.number, self.equation = -1, -1

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def key(self) -> Any:
        """Return what determines the value besides the operands, the shape and the dtype: the fields of the class."""
        return tuple([getattr(self, field) for field in self.__slots__])


class Input(Node):
    """An array from outside the program: an argument, the value of a variable, a constant."""

    __slots__ = ()
    is_merged = False


class Literal(Node):
    """A scalar constant."""

    __slots__ = ("value",)

    def __init__(self, value: Array | float, dtype: DTypeLike) -> None:
        super().__init__((), dtype)
        self.value = np.asarray(value, dtype)[()]

    @override
    def key(self) -> Any:
        return self.value.tobytes()  # 0.0 and -0.0 differ


class Elementwise(Node):
    """An elementwise operation; operands have the shape of the result or are scalars."""

    __slots__ = ("operation",)

    def __init__(self, operation: str, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node]) -> None:
        super().__init__(shape, dtype, arguments)
        self.operation = operation


class Remap(Node):
    """Elements of another array: `source[index_map]` where all bounds hold, and the fill value elsewhere.

    The fill value is the second operand: a scalar, or an array of the shape of the result.
    """

    __slots__ = ("index_map", "bounds")

    def __init__(
        self,
        source: Node,
        shape: Shape,
        index_map: Sequence[AffineIndex],
        bounds: Sequence[Bound] = (),
        fill: Node | None = None,
    ) -> None:
        super().__init__(shape, source.dtype, (source,) if fill is None else (source, fill))
        self.index_map, self.bounds = tuple(index_map), tuple(bounds)

    def is_identity(self) -> bool:
        """Return whether the result equals the source, element by element."""
        own = [axis_index(axis, size) for axis, size in enumerate(self.shape)]
        return (
            not self.bounds
            and self.arguments[0].shape == self.shape
            and all(
                found in (each, axis_index(axis))
                for axis, (found, each) in enumerate(zip(self.index_map, own, strict=True))
            )
        )


class Reshape(Node):
    """The memory of another array under another shape, in C order."""

    __slots__ = ()

    def __init__(self, source: Node, shape: Shape) -> None:
        super().__init__(shape, source.dtype, (source,))


class Gather(Node):
    """`source[i, j, ..., rest]`, where i, j, ... are integer arrays of one shape, which leads the shape of the result.

    The integers are in range, since the lowering rule has wrapped and clipped them (see `indexing`).
    """

    __slots__ = ()

    def __init__(self, source: Node, indices: Sequence[Node]) -> None:
        shape = (*indices[0].shape, *source.shape[len(indices) :])
        super().__init__(shape, source.dtype, (source, *indices))


class Reduction(Node):
    """A reduction along axes, which are removed: "sum", "prod", "max", "min", "any", "all", "argmax", ..."""

    __slots__ = ("kind", "axes")

    def __init__(self, kind: str, source: Node, axes: Sequence[int], dtype: DTypeLike) -> None:
        shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
        super().__init__(shape, dtype, (source,))
        self.kind, self.axes = kind, frozenset(axes)


class Scan(Node):
    """Cumulative sums or products along the last axis."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, source: Node) -> None:
        super().__init__(source.shape, source.dtype, (source,))
        self.kind = kind


class Concatenation(Node):
    """Arrays concatenated along an axis."""

    __slots__ = ("axis",)

    def __init__(self, parts: Sequence[Node], axis: int) -> None:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        super().__init__(tuple(shape), parts[0].dtype, parts)
        self.axis = axis


class Scatter(Node):
    """Zeros to which values are added at `[i, j, ..., rest]`; indices as for `Gather`."""

    __slots__ = ()

    def __init__(self, values: Node, indices: Sequence[Node], shape: Shape) -> None:
        super().__init__(shape, values.dtype, (values, *indices))


class LibraryCall(Node):
    """A call of a library routine on whole arrays."""

    __slots__ = ("routine", "options")

    def __init__(
        self, routine: str, shape: Shape, dtype: DTypeLike, arguments: Sequence[Node], options: Any = ()
    ) -> None:
        super().__init__(shape, dtype, arguments)
        self.routine, self.options = routine, options


class NumpyStep(Node):
    """An equation executed by NumPy; its results are `Projection`s."""

    __slots__ = ("step",)
    is_merged = False

    def __init__(self, step: tuple[Any, ...], arguments: Sequence[Node]) -> None:
        super().__init__((), np.float64, arguments)
        self.step = step


class LoopNode(Node):
    """A loop that executes a program once per iteration; its results are `Projection`s.

    As an array, it is the workspace of the loop; its size is known once the code of the body has been generated.

    Attributes:
        iterations: the loop of the graph: its body and the values passed between iterations.
        program: the nodes of the body.
        results: the nodes of the outputs of the body; a further boolean, if any, says that the run failed.
        condition: the program of the condition and its result, or None.
    """

    __slots__ = ("iterations", "program", "results", "condition")
    is_merged = False

    def __init__(
        self, iterations: Any, program: Any, results: Sequence[Node], condition: Any, arguments: Sequence[Node]
    ) -> None:
        super().__init__((0,), np.uint8, arguments)
        self.iterations, self.program, self.results, self.condition = iterations, program, list(results), condition


class Projection(Node):
    """One result of a `NumpyStep` or of a `LoopNode`."""

    __slots__ = ("position",)
    is_merged = False

    def __init__(self, maker: NumpyStep | LoopNode, position: int, shape: Shape, dtype: DTypeLike) -> None:
        super().__init__(shape, dtype, (maker,))
        self.position = position


@dataclass
class Nodes:
    """Creates nodes, with value numbering: equal nodes are created once.

    Attributes:
        all: the nodes in order of creation.
        equation: position of the equation for which nodes are being created.
    """

    def __post_init__(self) -> None:
        self.all: list[Node] = []
        self.equation = -1
        self._known: dict[Any, Node] = {}

    def add(self, node: Node) -> Node:
        """Add a node and return it, or return the existing node of the same value."""
        if isinstance(node, Remap) and node.is_identity():
            return node.arguments[0]
        if node.is_merged:
            key = (
                type(node),
                node.key(),
                node.shape,
                node.dtype.num,
                tuple([argument.number for argument in node.arguments]),
            )
            known = self._known.setdefault(key, node)
            if known is not node:
                return known
        node.number, node.equation = len(self.all), self.equation
        self.all.append(node)
        return node
