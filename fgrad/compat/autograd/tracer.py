"""Traced values, and nodes of traced operations.

    getval(x), isbox(x), Box       the plain value of an object, whether it is traced, and the type of traced values
    trace(start_node, fun, x)      run a function, creating a node for each operation
    primitive, notrace_primitive   functions with user-defined rules (see `primitives`)

Traced values are fgrad tensors; `isinstance(x, Box)` is True for them while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.primitives import notrace_primitive, primitive, register_notrace
from fgrad.compat.autograd.sequences import subval, subvals, toposort
from fgrad.compat.autograd.values import getval, is_number, plain
from fgrad.core.tensor import ATTRIBUTES, strip_ended
from fgrad.errors import UnsupportedError
from fgrad.extend import Operation

__all__ = [
    "Box", "Node", "getval", "isbox", "new_box", "notrace_primitive", "primitive", "register_notrace", "subval",
    "subvals", "toposort", "trace",
]  # fmt: skip


def isbox(x: Any) -> bool:
    """Return whether an object is a traced tensor of floating-point numbers; booleans count as plain."""
    return fg.is_traced(x) and is_number(x)


class _Traced(type):
    """The metaclass of classes whose instances are traced tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isbox(instance)


class Box(metaclass=_Traced):
    """The type of traced values, which are created by tracing only."""

    @classmethod
    def register(cls, value_type: type) -> None:
        """Register a type of values that may be traced; NumPy arrays and numbers are registered already.

        Raises:
            UnsupportedError: a NotImplementedError; the type is not an array or number type.
        """
        if not issubclass(value_type, (np.ndarray, np.inexact, float, complex)):
            raise UnsupportedError(
                f"{value_type.__name__} is not an array type, but traced values are tensors of numbers.\n"
                "fg.register_pytree_node makes the class a container, whose arrays are traced."
            )


def _value(tensor: Any, name: str) -> Any:
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
        self, value: Any, fun: Any, args: Any, kwargs: dict[str, Any], parent_argnums: Any, parents: Any
    ) -> None:
        raise NotImplementedError(type(self).__name__)

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the node of an input."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


def trace(start_node: Any, fun: Callable[..., Any], x: Any) -> tuple[Any, Any]:
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


def _is_named(x: Any, known: dict[Any, Any]) -> bool:
    """Return whether an object in a graph is a known name; otherwise it is a constant, such as an array."""
    return isinstance(x, Hashable) and x in known


def _named(x: Any, known: dict[Any, Any]) -> Any:
    return known[x] if _is_named(x, known) else x


def _nodes(kind: Any, equation: Any, found: dict[Any, Any], values: dict[Any, Any], nodes: dict[Any, Any]) -> Any:
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
