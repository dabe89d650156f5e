"""Traced values, and nodes of traced operations.

    getval(x), isbox(x), Box       the plain value of an object, whether it is traced, and the type of traced values
    trace(start_node, fun, x)      run a function, creating a node for each operation
    primitive, notrace_primitive   functions with user-defined rules (see `primitives`)

Traced values are fgrad tensors; `isinstance(x, Box)` is True for them while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.boxes import BOX_CLASSES, BOXED
from fgrad.compat.autograd.primitives import notrace_primitive, primitive, register_notrace
from fgrad.compat.autograd.sequences import subval, subvals, toposort
from fgrad.compat.autograd.values import getval, is_number, plain
from fgrad.core.foreign import OBJECT
from fgrad.core.tensor import ATTRIBUTES, strip_ended
from fgrad.errors import UnsupportedError
from fgrad.extend import Operation
from fgrad.typing import Array, ArrayLike

if TYPE_CHECKING:
    from fgrad.graphs.equations import Equation

__all__ = [
    "Box", "Node", "getval", "isbox", "new_box", "notrace_primitive", "primitive", "register_notrace", "subval",
    "subvals", "toposort", "trace",
]  # fmt: skip


def isbox(x: Any) -> bool:
    """Return whether an object is a traced tensor of floating-point numbers, or a box; booleans count as plain."""
    return type(x) in BOX_CLASSES or (fg.is_traced(x) and (is_number(x) or x.dtype is OBJECT))


class _Traced(type):
    """The metaclass of boxes: traced tensors are instances of those for arrays and numbers."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type(instance) not in BOX_CLASSES and "holds_numbers" in vars(cls):
            return isbox(instance)
        return type.__instancecheck__(cls, instance)


class Box(metaclass=_Traced):
    """The type of traced values, which are created by tracing only.

    Arrays and numbers are traced as tensors. Values of any other type are traced as a whole, in instances of a subclass
    of `Box` that is registered for the type, as a subclass of `VSpace` must be, too. Only primitives compute with them.

    Example:
        >>> from fgrad.compat.autograd import grad
        >>> from fgrad.compat.autograd.extend import VSpace, defvjp
        >>> class Line:
        ...     def __init__(self, slope):
        ...         self.slope = slope
        >>> class LineBox(Box):
        ...     pass
        >>> class LineSpace(VSpace):
        ...     def _add(self, x, y):
        ...         return Line(x.slope + y.slope)
        >>> LineBox.register(Line)
        >>> LineSpace.register(Line)
        >>> height = primitive(lambda line, x: line.slope * x)
        >>> defvjp(height, lambda ans, line, x: lambda g: Line(g * x))
        >>> grad(lambda line: height(line, 2.0) + height(line, 3.0))(Line(1.0)).slope
        np.float64(5.0)
    """

    holds_numbers = True
    _tensor: Any

    @classmethod
    def register(cls, value_type: type) -> None:
        """Register this class for the values of a type; NumPy arrays and numbers are traced as tensors anyway."""
        if not issubclass(value_type, (np.ndarray, np.inexact, float, complex)):
            BOXED[value_type] = cls
            BOX_CLASSES.add(cls)

    @property
    def _value(self) -> Any:
        """The value without the layer of the highest trace."""
        return plain(_value(self._tensor, "_value"))

    def __bool__(self) -> bool:
        return bool(getval(self))

    def __str__(self) -> str:
        return f"Autograd {type(self).__name__} with value {self._value!s}"


def _value(tensor: Array, name: str) -> Any:
    """Implement `x._value`: the value of a tensor without the layer of the highest trace."""
    if name != "_value":
        return None
    inner = strip_ended(tensor)
    return inner.unbox() if isinstance(inner, fg.Tensor) else inner


ATTRIBUTES.append(_value)


class Node:
    """Base class of nodes: one for each operation of a trace, and for the input.

    A subclass has `__init__(value, fun, args, kwargs, parent_argnums, parents)` and `initialize_root(*args, **kwargs)`.
    """

    def __init__(
        self,
        value: Any,
        fun: Callable[..., Any],
        args: object,
        kwargs: dict[str, Any],
        parent_argnums: object,
        parents: object,
    ) -> None:
        raise NotImplementedError(type(self).__name__)

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def new_root(cls, *args: ArrayLike, **kwargs: object) -> Any:
        """Return the node of an input."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


def trace(start_node: object, fun: Callable[..., Any], x: ArrayLike) -> tuple[Any, Any]:
    """Run a function, creating a node for each operation that depends on the input.

    The function is recorded first, so `if` and `while` on traced values raise.

    Args:
        start_node: the node of the input; the others are of its type.
        fun: a function of one argument.
        x: the argument.

    Returns:
        The value of the function, and the node of its last operation; None if it does not depend on the input.
    """
    graph = fg.trace(fun)(x)
    given = [leaf for leaf in fg.tree_leaves(x) if is_number(leaf)]
    values = {**graph.constants, **dict(zip(graph.inputs, given, strict=True))}
    nodes = dict.fromkeys(graph.inputs, start_node)
    for equation in graph.equations:
        found = dict(equation.run(values))
        values.update(found)
        nodes.update(_nodes(type(start_node), equation, found, values, nodes))
    results = [_named(each, values) for each in graph.outputs]
    ends = [_named(each, nodes) for each in graph.outputs if _is_named(each, nodes)]
    return plain(fg.tree.unflatten(graph.treedef, results)), ends[0] if ends else None


def _is_named(x: object, known: dict[Any, Any]) -> bool:
    """Return whether an object in a graph is a known name; otherwise it is a constant, such as an array."""
    return isinstance(x, Hashable) and x in known


def _named(x: object, known: dict[Any, Any]) -> Any:
    return known[x] if _is_named(x, known) else x


def _nodes(kind: Any, equation: Equation, found: dict[Any, Any], values: dict[Any, Any], nodes: dict[Any, Any]) -> Any:
    """Return a node for each output of an equation that depends on the input."""
    argnums = tuple(place for place, name in enumerate(equation.inputs) if _is_named(name, nodes))
    if not argnums:
        return {}
    operation: Any = Operation(equation.primitive)
    operation.__name__ = equation.primitive.name
    args = tuple(_named(name, values) for name in equation.inputs)
    parents = tuple(nodes[equation.inputs[argnum]] for argnum in argnums)
    options = dict(equation.metadata)
    return {name: kind(value, operation, args, options, argnums, parents) for name, value in found.items()}


def new_box(value: Any, trace: Any, node: Any) -> Any:
    """Raise: traced values are created by transforms only.

    Raises:
        UnsupportedError: a NotImplementedError, always.
    """
    raise UnsupportedError(
        "new_box would create a traced value, which only fgrad's transforms do.\n"
        "Run the function under grad, make_vjp, make_jvp or tracer.trace."
    )
