"""Loops and branches as functions, with the meaning that JAX's `lax` gives to their names.

They run as Python's own loops and branches do, so every transform sees what they do. In a recording a loop is one
equation, of which one iteration is recorded, and each way of a choice is a loop of at most one iteration. Where
examples of a `vmap` go different ways, all ways are computed, and for each example one is chosen.
"""

from fgrad.loops.cond_switch import cond as cond
from fgrad.loops.cond_switch import switch as switch
from fgrad.loops.fori_while import fori_loop as fori_loop
from fgrad.loops.fori_while import while_loop as while_loop
from fgrad.loops.scanning import map as map
from fgrad.loops.scanning import scan as scan

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]


def __dir__() -> list[str]:
    return __all__
