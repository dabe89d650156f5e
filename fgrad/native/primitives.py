"""Recorded programs as nodes, with all that says how primitives are lowered.

Whoever makes nodes of a program takes `lowered` from here, so that no primitive is missing.
"""

from __future__ import annotations

from fgrad.native import (  # noqa: F401  # they say how primitives are lowered
    composites,
    indexing,
    integers,
    looping,
    products,
    reductions,
    shapes,
    solving,
    ufuncs,
)
from fgrad.native.lowering import lowered

__all__ = ["lowered"]
