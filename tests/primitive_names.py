"""The names of the primitives that fgrad enters into its table, for the tests that go through all of them.

Every area of SciPy is imported here, so that it does not matter which test files were imported before;
and what tests register while they run is not among the names.
"""

import importlib

import numpy as np
import numpy.typing as npt

from fgrad.core.primitive import PRIMITIVES
from fgrad.ops.families import Sample
from fgrad.scipy.special._declaring import NOT_SAMPLED
from fgrad.testing import Call, calls

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

EVERY_SHAPE = {"exp", "multiply", "where", "elliprj"}
"""Elementwise operations, by their number of arguments, of which every sweep takes every sample."""

LONG = {name for name in SAMPLED if "_distribution_" in name} | {
    "agm", "airye", "elliprd", "elliprj", "draw_beta", "draw_dirichlet", "draw_f", "draw_vonmises", "f_density",
    "f_log_density", "beta_log_density", "betaprime_isf", "betaprime_log_density", "betaprime_ppf",
    "burr12_log_density", "far_density", "log_tukey", "logm", "ncfdtr", "ncfdtri", "nctdtr", "nctdtrinc", "nctdtrit",
    "noncentral_chi_square_density", "noncentral_f_kernel", "noncentral_t_moment", "recurrence", "rice_isf",
    "rice_ppf", "scaled_bessel_derivative", "skewnorm_ppf", "tklmbda",
}  # fmt: skip
"""Their derivatives are made of dozens or hundreds of operations, each of which goes through the sweeps by itself: so
sweeps of derivatives take one sample, except those against finite differences and of dtypes."""


def chosen(name: str, dtype: npt.DTypeLike = np.float64, seed: int = 0, derived: bool = True) -> list[tuple[str, Call]]:
    """Return sample calls of a primitive with what a failure calls them, for a sweep that need not take all.

    Shapes are treated by code that elementwise operations share, so of those samples of one that differ in nothing but
    shapes there is the one whose arrays differ most in their number of axes. Of other primitives there are all.

    Args:
        name: of the primitive.
        dtype: of the arrays.
        seed: of the random numbers.
        derived: whether the sweep takes derivatives, and so one sample alone of a long primitive.
    """
    primitive = PRIMITIVES[name]
    samples = [each for each in primitive.samples if each.complex or np.dtype(dtype).kind != "c"]
    kinds: dict[str, list[int]] = {}
    for place, each in enumerate(samples):
        joined = name in LONG or (primitive.is_elementwise and name not in EVERY_SHAPE)
        kind = repr((each.metadata, each.domain, each.constants, each.leading)) if joined else str(place)
        kinds.setdefault(kind, []).append(place)
    places = [max(group, key=lambda place: _variety(samples[place])) for group in kinds.values()]
    places = places[:1] if derived and name in LONG else places
    drawn = list(calls(primitive, dtype, seed))
    return [(f"sample {place} of {np.dtype(dtype)}", drawn[place]) for place in sorted(places)]


def _variety(sample: Sample) -> tuple[bool, int, int]:
    """Return what is larger for shapes with elements, of different numbers of axes, and of many."""
    axes = [len(shape) for shape in sample.shapes]
    return all(0 not in shape for shape in sample.shapes), len(set(axes)), sum(axes)
