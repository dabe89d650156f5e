"""Other values in a sequence, and nodes in the order of a backward pass."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with other values at some positions."""
    others = dict(ivs)
    return tuple(others.get(place, value) for place, value in enumerate(x))


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with another value at one position."""
    return subvals(x, [(i, v)])


def toposort(end_node: Any, parents: Callable[[Any], Iterable[Any]] = operator.attrgetter("parents")) -> Iterator[Any]:
    """Yield a node and all that it depends on, each before those that it depends on."""
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
