"""Lowering of graph equations to nodes.

    lowered(block)            the nodes of a block
    @lowers("sum")            registers the lowering rule of a primitive: `rule(program, out, *arguments, **metadata)`
                              returns a node, a tuple of nodes, or None for an equation that NumPy executes

Arguments are nodes or Python numbers, as in the equation. `out` is the name of the result, with its shape and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.shapes import broadcast_shapes, first_of
from fgrad.graphs.derived import implementation_of, of_arrays
from fgrad.graphs.equations import Equation, Name, kind_of
from fgrad.graphs.graph import Block
from fgrad.graphs.integers import COMPARISONS, always, compared_in, promoted
from fgrad.native.nodes import (
    AffineIndex,
    AffineTerm,
    Elementwise,
    Input,
    Literal,
    Node,
    Nodes,
    NumpyStep,
    Projection,
    Reduction,
    Remap,
    Reshape,
    Shape,
    axis_index,
)
from fgrad.native.scalars import SCALAR_OPERATIONS, is_native
from fgrad.native.user_primitives import USERS
from fgrad.typing import Array, Axes, DTypeLike

LOWERINGS: dict[str, Callable[..., Any]] = {}
"""Lowering rules, by primitive."""

FALLBACKS: list[Callable[[Program, Equation, list[Any]], Any]] = []
"""Fallbacks for equations without a lowering rule, in order: each returns nodes, or None."""

CALLS: list[Callable[[Program, Equation, list[Any]], Any]] = []
"""Lowerings of direct calls, such as loops, in order: each returns nodes, or None."""

CHECKS: list[Callable[[Program, Equation, list[Any]], None]] = []
"""Functions called with each equation before it is lowered; they may add failure conditions."""

PREDICATES = {"isnan", "isfinite", "isinf", "signbit"}
LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}
_TRUTHS = COMPARISONS.keys() | PREDICATES | LOGICAL
"""Operations whose results are truth values."""


def lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the lowering rule of primitives."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            LOWERINGS[name] = rule
        return rule

    return register


class Program(Nodes):
    """The nodes of a graph.

    Attributes:
        names: the node of each name.
        inputs: the nodes of the graph's inputs and variables, by name.
        constants: the arrays of the other `Input` nodes, in C order.
        failures: boolean scalars; if one is true, the run has failed and NumPy repeats it.
        refused: for each equation executed by NumPy, by its position, the reason.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Name, Node] = {}
        self.inputs: dict[Name, Input] = {}
        self.constants: dict[Node, Any] = {}
        self.failures: list[Node] = []
        self.refused: dict[int, str] = {}
        self._arrays: dict[Any, Input] = {}
        self._comparisons: dict[Node, Node] = {}

    # Building blocks of rules

    def node(self, x: Any, dtype: DTypeLike | None = None) -> Node:
        """Return an argument as a node; a Python number gets a dtype."""
        return x if isinstance(x, Node) else self.add(Literal(x, np.result_type(x) if dtype is None else dtype))

    def cast(self, x: object, dtype: DTypeLike) -> Node:
        """Return an array converted to a dtype."""
        dtype = np.dtype(dtype)
        if not isinstance(x, Node):
            # NumPy has refused invalid casts while recording.
            return self.node(np.asarray(x).astype(dtype), dtype)
        if x.dtype == dtype:
            return x
        if isinstance(x, Literal):
            return self.node(x.value.astype(dtype), dtype)
        if isinstance(x, Remap) and _repeats_number(x):
            return self.broadcast(self.cast(x.arguments[0], dtype), x.shape)
        return self.add(Elementwise("cast", x.shape, dtype, [x]))

    def elementwise(self, operation: str, *arguments: object) -> Node:
        """Return an operation on broadcast operands of one dtype: that of the result, except for truth values."""
        nodes = [self.node(x) for x in arguments]
        shape = broadcast_shapes(*[x.shape for x in nodes])
        operands = [self.broadcast_operand(x, shape) for x in nodes]
        dtype = np.bool_ if operation in _TRUTHS else nodes[-1].dtype
        return self.add(Elementwise(operation, shape, dtype, operands))

    def broadcast_operand(self, x: Node, shape: Shape) -> Node:
        """Return an array broadcast to a shape, or the scalar that it repeats."""
        while isinstance(x, Remap) and _repeats_number(x):
            x = x.arguments[0]
        return x if x.shape == () else self.broadcast(x, shape)

    def broadcast(self, x: Node, shape: Shape) -> Node:
        """Return an array broadcast to a shape."""
        if x.shape == shape:
            return x
        lead = len(shape) - len(x.shape)
        places = [axis_index(lead + axis, size) for axis, size in enumerate(x.shape)]
        return self.add(Remap(x, tuple(shape), places))

    def permuted(self, x: Node, axes: Sequence[int]) -> Node:
        """Return an array with its axes in another order."""
        if list(axes) == list(range(len(axes))):
            return x
        where = {axis: place for place, axis in enumerate(axes)}
        shape = tuple(x.shape[axis] for axis in axes)
        return self.add(Remap(x, shape, [axis_index(where[axis]) for axis in range(len(x.shape))]))

    def reshaped(self, x: Node, shape: Sequence[int]) -> Node:
        """Return an array under another shape; axes of size 1 are added and removed without a copy."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if isinstance(x, Remap) and _repeats_number(x):
            return self.broadcast(x.arguments[0], shape)
        own = [axis for axis, size in enumerate(x.shape) if size != 1]
        new = [axis for axis, size in enumerate(shape) if size != 1]
        if [x.shape[axis] for axis in own] == [shape[axis] for axis in new]:
            where = dict(zip(own, new, strict=True))
            places = [
                AffineIndex(0, (AffineTerm(where[axis], 1),) if axis in where else ()) for axis in range(len(x.shape))
            ]
            return self.add(Remap(x, shape, places))
        if isinstance(x, Reshape):
            return self.reshaped(x.arguments[0], shape)
        return self.add(Reshape(x, shape))

    def reduced(self, kind: str, x: Node, axis: Axes, keepdims: bool, dtype: DTypeLike) -> Node:
        """Return a reduction along axes."""
        axes = axes_of(x.shape, axis)
        if not axes and kind == "sum" and np.dtype(dtype).kind in "fc":
            # NumPy's sum starts at 0.0: -0.0 becomes 0.0.
            return self.elementwise("add", x, self.node(0, dtype))
        if not axes and kind in ("sum", "prod", "max", "min", "any", "all"):
            return x
        done = self.add(Reduction(kind, x, axes, dtype))
        kept = tuple(1 if place in axes else size for place, size in enumerate(x.shape))
        return self.reshaped(done, kept) if keepdims else done

    def array(self, value: Any) -> Node:
        """Return the node of a known array."""
        value = np.asarray(value)
        if value.size and is_native(value.dtype) and _is_one_number(value):
            return self.broadcast(self.node(first_of(value), value.dtype), value.shape)
        if not (value.flags.c_contiguous and value.flags.aligned):
            value = np.array(value, order="C")  # native code assumes C order and alignment
        key = value.shape, value.dtype.str, value.tobytes() if value.size < 1024 else id(value)
        if key not in self._arrays:
            self._arrays[key] = given = Input(value.shape, value.dtype)
            self.constants[given] = value
            self.add(given)
        return self._arrays[key]

    def by_index_comparison(self, x: Any) -> Any:
        """Return an operand of an elementwise operation; a constant with one nonzero per row becomes index comparisons.

        Such constants are seeds of Jacobians and Hessians. Comparing indices takes less time than loading the elements.
        """
        value = self.constants.get(x) if isinstance(x, Input) else None
        if value is None or value.ndim < 2 or value.size < _LEAST_BY_INDEX:
            return x
        if x not in self._comparisons:
            found = _single_in_rows(value)
            self._comparisons[x] = x if found is None else self._selected_by_index(x, *found)
        return self._comparisons[x]

    def _selected_by_index(self, x: Node, columns: Any, numbers: Any) -> Node:
        """Return an array with `numbers` at `columns`, which have one element per row, and zeros elsewhere."""
        here = self.broadcast(self.array(np.arange(x.shape[-1])), x.shape)
        is_selected = self.elementwise("equal", here, self.array(columns))
        return self.elementwise("select", is_selected, self.array(numbers), self.node(0, x.dtype))

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Node:
        """Return an array of zeros."""
        return self.broadcast(self.node(0, dtype), shape)

    def add_failure(self, wrong: Node) -> None:
        """Add a failure condition: a run fails if any of an array of booleans is true."""
        if not (isinstance(wrong, Literal) and not wrong.value):
            self.failures.append(self.reduced("any", wrong, None, False, np.bool_))

    # Equations

    def lower(self, equation: Equation) -> None:
        """Add the nodes of an equation."""
        arguments = [self.argument(x) for x in equation.inputs]
        for check in CHECKS:
            check(self, equation, arguments)
        results = self._results(equation, arguments)
        for name, node in zip(equation.outputs, results, strict=True):
            assert node.shape == name.shape, (equation, node.shape)
            self.names[name] = node

    def argument(self, x: Any) -> Any:
        """Return the node of a name or of a constant; a Python number is returned unchanged."""
        if type(x) is Name:
            return self.names[x]
        return self.array(x) if isinstance(x, (np.ndarray, np.generic)) else x

    def _results(self, equation: Equation, arguments: list[Any]) -> Sequence[Node]:
        name = equation.primitive.name
        kinds = [x.dtype for x in (*arguments, *equation.outputs) if hasattr(x, "dtype")]
        reason = ""
        if not all(map(is_native, kinds)):
            odd = next(each for each in kinds if not is_native(each))
            reason = f"{odd} has no native code"
        elif equation.direct:
            found = next(filter(None, (call(self, equation, arguments) for call in CALLS)), None)
            if found is not None:
                return found  # type: ignore[no-any-return]
            reason = "a function with a custom derivative, which runs as a whole"
        elif equation.primitive in USERS:
            implementation = USERS[equation.primitive]
            if implementation is not None:
                return self._user_defined(implementation, equation, arguments)
            reason = f"{name} is an operation of the user's, which has no native code"
        else:
            found = self._by_rule(name, equation, arguments)
            if found is not None:
                return found
            reason = f"{name} has no native code" + ("" if name not in LOWERINGS else " for these arguments")
        self.refused[self.equation] = reason
        return self.step(equation, arguments)

    def _user_defined(
        self, implementation: Callable[..., Any], equation: Equation, arguments: list[Any]
    ) -> Sequence[Node]:
        """Return the results of the NumPy operations that implement a user-defined primitive.

        Raises:
            StructureError: its results differ from those of the primitive in shape or dtype.
        """
        block = implementation_of(equation, implementation)
        found, wanted = (", ".join(map(kind_of, outputs)) for outputs in (block.outputs, equation.outputs))
        if found != wanted:
            raise errors.StructureError(
                f"the lowering of {equation.primitive.name} gives {found}, and the operation {wanted}.\n"
                "Return from it what the operation returns."
            )
        return self.inlined(block, equation, arguments)

    def inlined(self, block: Block, equation: Equation, arguments: list[Any]) -> Sequence[Node]:
        """Return the results of an equation from the program of its implementation."""
        self.names.update(zip(block.inputs, of_arrays(equation, arguments), strict=True))
        for name, value in block.constants.items():
            self.names[name] = self.array(value)
        for each in block.equations:
            self.lower(each)
        results = [self.node(self.argument(x)) for x in block.outputs]
        return [self.cast(x, name.dtype) for x, name in zip(results, equation.outputs, strict=True)]

    def _by_rule(self, name: str, equation: Equation, arguments: list[Any]) -> Sequence[Node] | None:
        out = equation.outputs[0]
        rule = LOWERINGS.get(name)
        found = rule(self, out, *arguments, **equation.metadata) if rule else None
        if found is None and name in SCALAR_OPERATIONS and len(equation.outputs) == 1 and not equation.metadata:
            found = self._operation(name, equation, arguments)
        for fallback in FALLBACKS:
            found = fallback(self, equation, arguments) if found is None else found
        if found is None:
            return None
        if isinstance(found, tuple):
            return found
        return [self.cast(found, out.dtype)]

    def _operation(self, name: str, equation: Equation, arguments: list[Any]) -> Node | None:
        """Return an elementwise operation, in the dtype in which NumPy computes it."""
        out = equation.outputs[0]
        if (known := always(equation)) is not None:
            return self.broadcast(self.node(known, np.bool_), out.shape)
        if name in COMPARISONS or name in PREDICATES:
            dtype = compared_in(equation) or np.result_type(*[promoted(x) for x in equation.inputs])
            if name in PREDICATES and dtype.kind in "biu" and (name != "signbit" or dtype.kind != "i"):
                return self.broadcast(self.node(name == "isfinite", np.bool_), out.shape)
        else:
            dtype = np.dtype(np.bool_) if name in LOGICAL else out.dtype
        if SCALAR_OPERATIONS[name].is_for_floats and dtype.kind != "f":
            return None
        if dtype.kind == "b" and name not in _ON_BOOLEANS:
            return None
        if not is_native(dtype):
            return None
        return self.elementwise(name, *[self.cast(self.by_index_comparison(x), dtype) for x in arguments])

    def step(self, equation: Equation, arguments: list[Any]) -> Sequence[Node]:
        """Add a step in which NumPy executes an equation, and return its results."""
        places = [x if isinstance(x, Node) else None for x in arguments]
        step = NumpyStep((equation, places), [x for x in places if x is not None])
        self.add(step)
        parts = [Projection(step, place, name.shape, name.dtype) for place, name in enumerate(equation.outputs)]
        return [self.add(part) for part in parts]


_LEAST_BY_INDEX = 1024
"""Smallest size of a constant that is replaced by index comparisons; smaller ones stay in the L1 cache."""


def _single_in_rows(value: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the column and the value of the only nonzero in each row, along an axis of size 1.

    Rows of zeros have the column -1 and an arbitrary value. None if a row has several nonzeros or negative zeros.
    """
    if np.count_nonzero(value) > value[..., 0].size:  # the common case, detected without a temporary
        return None
    is_there = (value != 0) | np.signbit(value)
    if is_there.sum(axis=-1).max() > 1:
        return None
    columns = is_there.argmax(axis=-1, keepdims=True)
    numbers, is_any = np.take_along_axis(value, columns, axis=-1), is_there.any(axis=-1, keepdims=True)
    return np.where(is_any, columns, -1), np.where(is_any, numbers, value[is_there][0])


_ON_BOOLEANS = LOGICAL | COMPARISONS.keys() | {
    "add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "fmax", "fmin",
}  # fmt: skip


def _repeats_number(x: Remap) -> bool:
    """Return whether an array is a broadcast scalar."""
    return x.arguments[0].shape == () and not x.bounds


def _is_one_number(value: Array) -> bool:
    """Return whether all elements of an array are equal, bit for bit."""
    if value.size == 1:
        return True
    bits = np.ascontiguousarray(value).reshape(-1).view(f"u{value.dtype.itemsize}")
    return bool((bits == bits[0]).all())


def axes_of(shape: Shape, axis: Any) -> tuple[int, ...]:
    """Return axes as nonnegative integers."""
    if axis is None:
        return tuple(range(len(shape)))
    return tuple(each % len(shape) for each in (axis if isinstance(axis, tuple) else (axis,)))


def count_of(shape: Shape, axis: Axes) -> int:
    """Return the number of elements along axes."""
    return math.prod(shape[each] for each in axes_of(shape, axis))


def lowered(block: Block) -> Program:
    """Return the nodes of a block."""
    program = Program()
    for name in block.inputs:
        given = Input(name.shape, name.dtype)
        program.add(given)
        program.names[name] = program.inputs[name] = given
    for name, value in block.constants.items():
        program.names[name] = program.array(value)
    for place, equation in enumerate(block.equations):
        program.equation = place
        program.lower(equation)
    return program


def any_failure(program: Program) -> Node | None:
    """Return the boolean that says whether a run has failed; None if none can."""
    found: Node | None = None
    for each in program.failures:
        found = each if found is None else program.elementwise("logical_or", found, each)
    return found
