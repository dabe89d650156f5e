"""Programs that are recorded once, and graphs of nodes with all operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import fgrad as fg
from fgrad.compat.autograd.tracer import Node, trace
from fgrad.compat.autograd.values import as_point, plain
from fgrad.typing import ArrayLike, Operand


def const_graph(fun: Callable[..., Any], *args: ArrayLike, **kwargs: object) -> Callable[..., Any]:
    """Return a function that is recorded in the first call, and replayed from then on.

    Args:
        fun: performs the same operations for all values.
        args, kwargs: constant arguments, before the others.
    """
    graphs: list[Any] = []

    @functools.wraps(fun)
    def call(*rest: Operand) -> Any:
        if not graphs:
            graphs.append(fg.trace(functools.partial(fun, *args, **kwargs))(*as_point(rest)))
        return plain(graphs[0](*as_point(rest)))

    return call


class FullGraphNode(Node):
    """An operation with its value and its recipe: the function, its arguments, and the nodes of its parents."""

    def __init__(
        self,
        value: Any,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        self.value = value
        self.recipe: Any = (fun, args, kwargs, list(zip(parent_argnums, parents, strict=True)))

    def initialize_root(self) -> None:
        self.value = None
        self.recipe = (_identity, (), {}, [])


def _identity(x: Any) -> Any:
    return x


def full_graph(fun: Callable[..., Any], *args: ArrayLike, **kwargs: object) -> Any:
    """Return the node of the result of a function, from which the nodes of all its operations are reachable."""
    return trace(FullGraphNode.new_root(), lambda args: fun(*args, **kwargs), args)[1]
