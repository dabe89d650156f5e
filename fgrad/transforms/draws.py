"""Whether NumPy's global generator has drawn numbers, found out in a tenth of a microsecond.

To ask NumPy for the state of the generator copies it, which takes longer than a small function under `vmap`.

position()      a number that changes with every draw from the global generator
of_algorithm    decorates a function of SciPy whose algorithm draws, such as one that estimates a norm
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
"""How many words of 32 bits the state of the Mersenne Twister has, the last of which says how many have been used."""


@functools.cache
def _state() -> tuple[Any, Any]:
    """Return NumPy's global generator and a view of its state; None for it if it does not lie in memory as expected."""
    generator: Any = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if type(generator) is not np.random.MT19937:
        return generator, None
    view = (ctypes.c_uint32 * _WORDS).from_address(generator.ctypes.state_address)
    known = generator.state["state"]
    return generator, view if view[:-1] == known["key"].tolist() and view[-1] == known["pos"] else None


def position() -> Any:
    """Return what changes when a number is drawn from NumPy's global generator; None if that cannot be told.

    `np.random.normal` makes two numbers at a time: every other one changes nothing.
    """
    _, state = _state()
    return None if state is None else (state[-1], state[0])


def of_algorithm(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose draws are its algorithm's: no `vmap` warns of them."""

    @functools.wraps(function)
    def unnoticed(*args: P.args, **keywords: P.kwargs) -> R:
        before = position()
        result = function(*args, **keywords)
        for trace in running.maps:
            if trace.drawn_until == before:
                trace.drawn_until = position()
        return result

    return unnoticed
