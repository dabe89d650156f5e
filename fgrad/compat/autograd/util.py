"""Small helpers that Autograd's users import."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with other values at some positions."""
    others = dict(ivs)
    return tuple(others.get(place, value) for place, value in enumerate(x))


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple, with another value at one position."""
    return subvals(x, [(i, v)])


def func(f: Any) -> Any:
    """Return a function that was taken from a class, which is itself."""
    return f


def toposort(end_node: Any, parents: Callable[[Any], Iterable[Any]] = operator.attrgetter("parents")) -> Iterator[Any]:
    """Yield a node and all that it depends on, each before those that it depends on."""
    order: list[Any] = []
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(end_node, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in parents(node)]
    return reversed(order)


def quick_grad_check(
    fun: Callable[..., Any],
    arg0: Any,
    extra_args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    **ignored: Any,
) -> None:
    """Compare a gradient with finite differences, as old versions of Autograd had it; see `test_util.check_grads`."""
    from fgrad.compat.autograd.test_util import check_grads

    warnings.warn("write check_grads of autograd.test_util for quick_grad_check", DeprecationWarning, stacklevel=2)
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
