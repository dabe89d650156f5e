"""Detection of draws from NumPy's global generator, in a tenth of a microsecond.

A request for the state of the generator copies it, which takes longer than a small function under `vmap`.

position()      a number that changes with every draw from the global generator
of_algorithm    decorates a SciPy function whose algorithm draws random numbers, such as a norm estimator
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fgrad.core.trace import running

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = 625
"""The number of 32-bit words in the state of the Mersenne Twister; the last one counts the words used."""


@functools.cache
def _state() -> tuple[Any, Any]:
    """Return NumPy's global generator and a view of its state; None for the view if the memory layout is unexpected."""
    generator: Any = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if type(generator) is not np.random.MT19937:
        return generator, None
    view = (ctypes.c_uint32 * _WORDS).from_address(generator.ctypes.state_address)
    known = generator.state["state"]
    return generator, view if view[:-1] == known["key"].tolist() and view[-1] == known["pos"] else None


def position() -> Any:
    """Return a value that changes with each draw from NumPy's global generator; None if it is unavailable.

    `np.random.normal` makes two numbers at a time: every second call changes nothing.
    """
    _, state = _state()
    return None if state is None else (state[-1], state[0])


def of_algorithm(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function whose draws belong to its algorithm: `vmap` does not warn of them."""

    @functools.wraps(function)
    def unnoticed(*args: P.args, **keywords: P.kwargs) -> R:
        before = position()
        result = function(*args, **keywords)
        for trace in running.maps:
            if trace.drawn_until == before:
                trace.drawn_until = position()
        return result

    return unnoticed
