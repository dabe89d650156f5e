"""Lowering with the rules of all primitives.

Import `lowered` from here, so that all lowering rules are registered.
"""

from __future__ import annotations

from fgrad.native import (  # noqa: F401  # register lowering rules
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
