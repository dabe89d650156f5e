"""Lowering of composite primitives: their implementation is recorded, and its operations are lowered.

An implementation is plain NumPy code, so it can be recorded like a user's function. `COMPOSITES` lists the primitives
whose implementation computes the same for tensors and arrays, and requests no values.
"""

from __future__ import annotations

from typing import Any

from fgrad import errors
from fgrad.graphs.derived import implementation_of
from fgrad.graphs.equations import Equation
from fgrad.native.lowering import FALLBACKS, Program
from fgrad.native.nodes import Node

COMPOSITES = {
    "derivative_of_power", "log_of_quotient", "absolute_power",
    "along", "softmax", "log_softmax", "length", "length_squared", "variance", "standard_deviation",
    "standard_deviation_squared", "difference", "central_difference", "sums_along_diagonals",
    "quarters_of_square", "error_density", "complement_density", "normal_density", "far_density",
    "beta_distribution_inverse", "beta_distribution_tail", "f_distribution_inverse", "f_distribution_tail",
    "gamma_distribution_inverse", "gamma_distribution_tail", "student_distribution_inverse",
    "student_distribution_tail",
    *(f"{name}_log_density" for name in (
        "beta", "cauchy", "chi2", "expon", "f", "gamma", "gumbel_r", "halfnorm", "invgamma", "laplace", "logistic",
        "lognorm", "norm", "pareto", "t", "uniform", "vonmises", "weibull_min",
    )),
}  # fmt: skip


def _by_recording(program: Program, equation: Equation, arguments: list[Any]) -> tuple[Node, ...] | None:
    """Return the nodes of an implementation's results; None if one of its operations cannot be lowered."""
    if equation.primitive.name not in COMPOSITES:
        return None
    refused = len(program.refused)
    try:
        block = implementation_of(equation, equation.primitive.implementation)
    except errors.ConcretizationError:  # it requests values of these arguments
        return None
    found = program.inlined(block, equation, arguments)
    return None if len(program.refused) > refused else tuple(found)


FALLBACKS.append(_by_recording)
