"""The names of the primitives that fgrad enters into its table, for the tests that go through all of them.

Every area of SciPy is imported here, so that it does not matter which test files were imported before;
and what tests register while they run is not among the names.
"""

import importlib

from fgrad.core.primitive import PRIMITIVES
from fgrad.scipy.special._declaring import NOT_SAMPLED

AREAS = (
    "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "sparse.linalg", "spatial",
    "special", "stats",
)  # fmt: skip
for area in AREAS:
    importlib.import_module(f"fgrad.scipy.{area}")  # which enters its primitives
importlib.import_module("fgrad.random._implicit")

INTEGERS_ONLY = {
    "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm", "bitwise_count",
    "isnat",
}  # fmt: skip
"""Defined for integers or dates alone, which have no derivative; tested with the operators."""

NAMES = sorted(PRIMITIVES)
SAMPLED = [name for name in NAMES if name not in INTEGERS_ONLY and name not in NOT_SAMPLED]
DRAWS = {name for name in SAMPLED if name.startswith("draw_")}
"""Draws of random numbers: they need values, so that they are no part of a program, nor of a lazy array."""
