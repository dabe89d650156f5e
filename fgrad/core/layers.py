"""The layers of a tensor: each trace of a value has boxed the result of the traces below it.

    layers(x)          the boxes, the outermost first
    below(x, stop)     the plain array or number inside all boxes; or the first box at whose trace `stop` is true
    concrete(x, how)   the plain value; each trace records that it leaves, or refuses

To use a value, `strip_ended` in `tensor.py` takes off the layers of traces that have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fgrad.core.primitive import BOXES


def layers(x: Any) -> Iterator[Any]:
    """Yield a tensor and the tensors nested in it, also those of traces that have ended."""
    while type(x) in BOXES:
        yield x
        x = getattr(x, "_payload", None)  # a variable has no layers below


def below(x: Any, stop: Callable[[Any], bool] | None = None) -> Any:
    """Return the value below the layers of a tensor, or the first layer for whose trace `stop` returns true."""
    while type(x) in BOXES and not (stop is not None and stop(x._trace)):
        x = x.unbox()
    return x


def concrete(x: Any, how: str) -> Any:
    """Return the value that Python requests by `how`, such as `.item()`; each trace records the exit, or refuses it."""
    while type(x) in BOXES:
        x = x._trace.concrete(x, how)
    return x


def is_program(trace: Any) -> bool:
    """Return whether tensors of a trace have no value, since they stand for all values of their shape."""
    return trace.is_program  # type: ignore[no-any-return]


def is_undecided(trace: Any) -> bool:
    """Return whether tensors of a trace have no single value: they stand for all values, or for a batch of examples."""
    return trace.is_map or trace.is_program  # type: ignore[no-any-return]
