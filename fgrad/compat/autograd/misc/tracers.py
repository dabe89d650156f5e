"""Programs that were recorded once, and nodes of all of their operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import fgrad as fg
from fgrad.compat.autograd.tracer import Node, trace
from fgrad.compat.autograd.values import as_point, plain


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return a function that is recorded at the first call, and runs what was recorded from then on.

    Args:
        fun: does the same operations whatever the numbers are.
        args, kwargs: arguments that stay the same, in front of the others.
    """
    graphs: list[Any] = []

    @functools.wraps(fun)
    def call(*rest: Any) -> Any:
        if not graphs:
            graphs.append(fg.trace(functools.partial(fun, *args, **kwargs))(*as_point(rest)))
        return plain(graphs[0](*as_point(rest)))

    return call


class FullGraphNode(Node):
    """An operation with its value and its recipe: the function, its arguments, and which of them come from where."""

    def __init__(
        self, value: Any, fun: Any, args: Any, kwargs: dict[str, Any], parent_argnums: Any, parents: Any
    ) -> None:
        self.value = value
        self.recipe: Any = (fun, args, kwargs, list(zip(parent_argnums, parents, strict=True)))

    def initialize_root(self) -> None:
        self.value = None
        self.recipe = (_identity, (), {}, [])


def _identity(x: Any) -> Any:
    return x


def full_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the node of the result of a function, from which those of all of its operations can be reached."""
    return trace(FullGraphNode.new_root(), lambda args: fun(*args, **kwargs), args)[1]
