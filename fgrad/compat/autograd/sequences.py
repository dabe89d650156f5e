"""Updates of sequences, and topological order of nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with values replaced at some positions."""
    others = dict(ivs)
    return tuple(others.get(place, value) for place, value in enumerate(x))


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with the value at one position replaced."""
    return subvals(x, [(i, v)])


def toposort(
    end_node: object, parents: Callable[[Any], Iterable[Any]] = operator.attrgetter("parents")
) -> Iterator[Any]:
    """Yield a node and its ancestors in reverse topological order."""
    order: list[Any] = []
    seen: set[Any] = set()
    stack = [(end_node, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in parents(node)]
    yield from reversed(order)
