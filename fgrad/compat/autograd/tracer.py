"""What is traced, and what nodes a trace leaves.

    getval(x), isbox(x), Box       whether something is traced, and its plain value
    trace(start_node, fun, x)      run a function, and have a node made of each operation
    primitive, notrace_primitive   functions with rules of their own (see `primitives`)

Traced values are fgrad's tensors; `isinstance(x, Box)` is True for them as long as something follows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.primitives import getval, notrace_primitive, primitive, register_notrace
from fgrad.compat.autograd.util import subval, subvals, toposort
from fgrad.core.tensor import ATTRIBUTES, strip_ended
from fgrad.errors import UnsupportedError
from fgrad.extend import Operation

__all__ = [
    "Box", "Node", "getval", "isbox", "new_box", "notrace_primitive", "primitive", "register_notrace", "subval", "subvals",
    "toposort", "trace",
]  # fmt: skip


def isbox(x: Any) -> bool:
    """Return whether something is a traced tensor."""
    return fg.is_traced(x)


class _Traced(type):
    """The type of classes whose instances are traced tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return fg.is_traced(instance)


class Box(metaclass=_Traced):
    """What traced values are instances of; it is made by tracing alone."""

    @classmethod
    def register(cls, value_type: type) -> None:
        """Say that values of a type may be traced, which those of NumPy's arrays and numbers may be already.

        Raises:
            UnsupportedError: a NotImplementedError; the type is no array or number.
        """
        if not issubclass(value_type, (np.ndarray, np.inexact, float, complex)):
            raise UnsupportedError(
                f"{value_type.__name__} is no array, and traced values are tensors of numbers.\n"
                "fg.register_pytree_node makes the class a container, of which the arrays in it are traced."
            )


def _value(tensor: Any, name: str) -> Any:
    """Answer for `x._value`: what is in a tensor below the layer of the highest trace."""
    if name != "_value":
        return None
    inner = strip_ended(tensor)
    return inner.unbox() if isinstance(inner, fg.Tensor) else inner


ATTRIBUTES.append(_value)


class Node:
    """What a trace makes of an operation, or of the input; to be subclassed.

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
    """Run a function, and have a node made of each operation on what depends on the input.

    The function is recorded first, so that `if` and `while` on traced values are refused.

    Args:
        start_node: the node of the input; the others are of its type.
        fun: a function of one argument.
        x: the argument.

    Returns:
        The value of the function, and the node of the operation that gave it, None if it does not depend on the input.
    """
    graph = fg.trace(fun)(x)
    values: dict[Any, Any] = {**graph.constants}
    nodes = {}
    inputs = iter(graph.inputs)
    for leaf in fg.tree_leaves(x):
        if hasattr(leaf, "dtype") or isinstance(leaf, (float, complex)):
            name = next(inputs)
            values[name], nodes[name] = leaf, start_node
    for equation in graph.equations:
        found = dict(equation.run(values))
        values.update(found)
        argnums = tuple(place for place, name in enumerate(equation.inputs) if name in nodes)
        if argnums:
            args = tuple(
                values.get(name, name) if type(name) is type(graph.outputs[0]) else name for name in equation.inputs
            )
            nodes.update(_nodes(type(start_node), equation, found, args, argnums, nodes))
    results = [values.get(each, each) for each in graph.outputs]
    end = next((nodes[each] for each in graph.outputs if each in nodes), None)
    return fg.tree.unflatten(graph.treedef, results), end


def _nodes(kind: Any, equation: Any, found: dict[Any, Any], args: Any, argnums: Any, nodes: dict[Any, Any]) -> Any:
    """Return a node for each output of an equation."""
    operation: Any = Operation(equation.primitive)
    operation.__name__ = equation.primitive.name
    parents = tuple(nodes[equation.inputs[argnum]] for argnum in argnums)
    return {
        name: kind(value, operation, args, dict(equation.metadata), argnums, parents) for name, value in found.items()
    }


def new_box(value: Any, trace: Any, node: Any) -> Any:
    """Traced values are made by transforms alone.

    Raises:
        UnsupportedError: a NotImplementedError, always.
    """
    raise UnsupportedError(
        "new_box makes a traced value by hand, which fgrad's transforms do themselves.\n"
        "Run the function under grad, make_vjp, make_jvp or tracer.trace."
    )
