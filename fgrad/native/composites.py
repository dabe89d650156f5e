"""Lowering of composite primitives: their implementation is recorded, and its operations are lowered.

An implementation is plain NumPy code, so it can be recorded like a user's function. `COMPOSITES` lists the primitives
whose implementation computes the same for tensors and arrays, and requests no values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Equation
from fgrad.graphs.record import trace
from fgrad.native.lowering import FALLBACKS, Program
from fgrad.native.nodes import Node
from fgrad.typing import Array

COMPOSITES = {
    "derivative_of_power", "log_of_quotient", "absolute_power",
    "along", "softmax", "log_softmax", "length", "length_squared", "variance", "standard_deviation",
    "standard_deviation_squared", "difference", "central_difference", "sums_along_diagonals",
    "quarters_of_square", "error_density", "complement_density", "normal_density", "far_density",
    "beta_distribution_inverse", "beta_distribution_tail", "f_distribution_inverse", "f_distribution_tail",
    "gamma_distribution_inverse", "gamma_distribution_tail", "student_distribution_inverse",
    "student_distribution_tail",
    *(f"{name}_log_density" for name in (
        "beta", "chi2", "expon", "f", "gamma", "gumbel_r", "halfnorm", "invgamma", "laplace", "logistic", "lognorm",
        "norm", "pareto", "t", "uniform", "vonmises", "weibull_min",
    )),
}  # fmt: skip


def _by_recording(program: Program, equation: Equation, arguments: list[Any]) -> tuple[Node, ...] | None:
    """Return the nodes of an implementation's results; None if one of its operations cannot be lowered."""
    if equation.primitive.name not in COMPOSITES:
        return None
    node_positions = [position for position, x in enumerate(arguments) if isinstance(x, Node)]

    def implementation(*given: Array) -> Any:
        inputs = list(arguments)
        for position, x in zip(node_positions, given, strict=True):
            inputs[position] = x
        return equation.primitive.implementation(*inputs, **equation.metadata)

    examples = [np.ones(arguments[position].shape, arguments[position].dtype) for position in node_positions]
    try:
        with np.errstate(all="ignore"):
            graph = trace(implementation)(*examples)
    except errors.ConcretizationError:  # it requests values of these arguments
        return None
    names = dict(program.names)
    program.names.update(
        {name: arguments[position] for name, position in zip(graph.inputs, node_positions, strict=True)}
    )
    program.names.update({name: program.array(value) for name, value in graph.constants.items()})
    refused = len(program.refused)
    for each in graph.equations:
        program.lower(each)
    found = tuple(program.names[name] for name in graph.outputs)
    program.names = names
    if len(program.refused) > refused:
        return None
    return tuple(program.cast(node, name.dtype) for node, name in zip(found, equation.outputs, strict=True))


FALLBACKS.append(_by_recording)
