"""SciPy's constraints in a common form: lower <= function(x) <= upper, with equal limits for an equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fgrad import errors
from fgrad.rules.rule import settled
from fgrad.scipy.optimize._search import SCIPYS, Function, Search, as_tuple, on_own
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.jacobians import jacobian
from fgrad.typing import Array

ESTIMATES = ("2-point", "3-point", "cs")
"""Names of SciPy's finite difference schemes, which are replaced by exact Jacobians."""


Given = tuple[Any, Any, Any]
"""Arguments of a constraint's function, and its limits: the inputs of derivatives."""


@dataclass
class Constraint:
    """A constraint.

    Attributes:
        name: the name in messages.
        function: maps the vector of unknowns, and `given`, to a vector.
        given: the arguments and limits.
        original: makes SciPy's constraint from `given`; None for bounds, which SciPy takes separately.
    """

    name: str
    function: Function
    given: Given
    original: Callable[[Given], Any] | None = None


def constraints_of(search: Search, constraints: Sequence[Any]) -> list[Constraint]:
    """Return SciPy's constraints in common form."""
    return [_constraint_of(search, f"constraints[{place}]", each) for place, each in enumerate(constraints)]


def bounds_as_constraint(limits: tuple[Any, Any]) -> Constraint:
    """Return bounds of the unknowns, two vectors, as constraints."""
    return Constraint("bounds", lambda vector, _: vector, ((), *limits))


def _constraint_of(search: Search, name: str, constraint: object) -> Constraint:
    if isinstance(constraint, dict):
        return _of_dictionary(search, name, constraint)
    if isinstance(constraint, SCIPYS.NonlinearConstraint):
        return _nonlinear(search, name, constraint)
    if isinstance(constraint, SCIPYS.LinearConstraint):
        return _linear(name, constraint)
    raise errors.StructureError(
        f"{name} must be a dictionary, a LinearConstraint or a NonlinearConstraint of scipy.optimize, but its type is "
        f"{type(constraint).__name__}."
    )


def _of_dictionary(search: Search, name: str, constraint: dict[str, Any]) -> Constraint:
    extra = as_tuple(constraint.get("args", ()))
    check_solvers_function(f"fun of {name}", constraint["fun"], "x", extra)
    function = search.on_vectors(on_own(constraint["fun"]), constraint["fun"])
    value, exact, own = search.plain(function), search.plain_jacobian(function), constraint.get("jac")

    def original(given: Given) -> Any:
        slopes = (lambda vector, *_: own(vector, *given[0])) if callable(own) else exact(given[0])
        return {**constraint, "fun": value(given[0]), "jac": slopes, "args": ()}

    limits = (0.0, 0.0 if str(constraint.get("type")).lower() == "eq" else np.inf)
    return Constraint(name, lambda vector, extra: function(vector, *extra), (extra, *limits), original)


def _nonlinear(search: Search, name: str, constraint: Any) -> Constraint:
    check_solvers_function(f"fun of {name}", constraint.fun, "x")
    function = search.on_vectors(on_own(constraint.fun), constraint.fun)
    slopes = search.plain_jacobian(function)(()) if constraint.jac in ESTIMATES else constraint.jac
    options = {"jac": slopes, "hess": constraint.hess, "keep_feasible": constraint.keep_feasible}
    value = search.plain(function)(())

    def original(given: Given) -> Any:
        return SCIPYS.NonlinearConstraint(value, np.array(given[1]), np.array(given[2]), **options)

    limits = settled(constraint.lb) * 1.0, settled(constraint.ub) * 1.0
    return Constraint(name, lambda vector, _: function(vector), ((), *limits), original)


def _linear(name: str, constraint: Any) -> Constraint:
    is_sparse = issparse(constraint.A)

    def function(vector: Any, matrix: Any) -> Any:
        return constraint.A @ vector if is_sparse else matrix @ vector

    def original(given: Given) -> Any:
        matrix = constraint.A if is_sparse else np.array(given[0])
        return SCIPYS.LinearConstraint(matrix, np.array(given[1]), np.array(given[2]), constraint.keep_feasible)

    return Constraint(name, function, (() if is_sparse else constraint.A, constraint.lb, constraint.ub), original)


def values_and_limits(
    constraints: Sequence[Constraint], vector: Array, given: Sequence[Given]
) -> list[tuple[Any, Any, Any]]:
    """Return the values of each constraint, and its limits broadcast to their shape."""
    found = []
    for constraint, (extra, lower, upper) in zip(constraints, given, strict=True):
        values = constraint.function(vector, extra)
        found.append((values, np.broadcast_to(lower, values.shape), np.broadcast_to(upper, values.shape)))
    return found


def together(constraints: Sequence[Constraint], vector: Array, given: Sequence[Given]) -> tuple[Any, Any, Any]:
    """Return the values of all constraints as one vector, and their lower and upper limits."""
    parts = zip(*values_and_limits(constraints, vector, given), strict=True)
    values, lower, upper = (np.concatenate(part) for part in parts)
    return values, lower, upper


def slopes_of(constraints: Sequence[Constraint], vector: Array, given: Sequence[Given]) -> list[Any]:
    """Return the Jacobian of each constraint."""
    return [
        jacobian(lambda vector, each=each, extra=extra: each.function(vector, extra))(vector)
        for each, (extra, _, _) in zip(constraints, given, strict=True)
    ]
