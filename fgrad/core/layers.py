"""The layers of a tensor: each trace that follows a value has a box around what the traces below have made of it.

    layers(x)          the boxes, from the outermost
    below(x, stop)     what lies in them all: a plain array or number; or the first box at whose trace to stop
    concrete(x, how)   the same where it leaves the traces, each of which is asked

Of a value that is to be used, `strip_ended` in `tensor.py` takes off the layers of traces that have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fgrad.core.primitive import BOXES


def layers(x: Any) -> Iterator[Any]:
    """Yield a tensor, and those that lie in it one in the other, also of traces that have ended."""
    while type(x) in BOXES:
        yield x
        x = getattr(x, "_payload", None)  # of a variable there are no others


def below(x: Any, stop: Callable[[Any], bool] | None = None) -> Any:
    """Return what lies below the layers of a tensor, or the first of these for whose trace `stop` says so."""
    while type(x) in BOXES and not (stop is not None and stop(x._trace)):
        x = x.unbox()
    return x


def concrete(x: Any, how: str) -> Any:
    """Return the value itself, which Python asks for by `how`, such as `.item()`; each trace notes it, or refuses."""
    while type(x) in BOXES:
        x = x._trace.concrete(x, how)
    return x


def is_program(trace: Any) -> bool:
    """Return whether the tensors of a trace have no value, since they stand for all values of their shape."""
    return trace.is_program  # type: ignore[no-any-return]


def is_undecided(trace: Any) -> bool:
    """Return whether the tensors of a trace have no single value: they stand for all values, or for many examples."""
    return trace.is_map or trace.is_program  # type: ignore[no-any-return]
