"""Loops and branches as functions, with the semantics of the same names in JAX's `lax`.

They run as Python loops and branches, so every transform traces their operations. In a recording a loop is one
equation, for which one iteration is recorded, and each branch is a loop of at most one iteration. If examples of a
`vmap` take different branches, all branches are computed, and the results are selected for each example.
"""

from fgrad.loops.cond_switch import cond, switch
from fgrad.loops.fori_while import fori_loop, while_loop
from fgrad.loops.scanning import map, scan

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]

__dir__ = __all__.copy
