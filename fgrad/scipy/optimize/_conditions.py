"""Optimality conditions of constrained minima, with multipliers and active constraints.

For constraints lower <= c(x) <= upper there are multipliers at a minimum with

    grad f + J^T multipliers = 0      J is the Jacobian of c
    c = upper, or multiplier <= 0     and c = lower, or multiplier >= 0

the Karush-Kuhn-Tucker conditions. While the set of active constraints stays the same, they are equations, which define
the minimum and the multipliers as functions of all values in them (Fiacco 1976, https://doi.org/10.1007/BF01580677).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.errors.places import depth_of_user
from fgrad.ops.tracing import first_example
from fgrad.rules.vectors import raveled
from fgrad.scipy.optimize._constraints import Constraint, Given, slopes_of, together, values_and_limits
from fgrad.scipy.optimize._search import Function
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import hessian
from fgrad.transforms.reverse import grad
from fgrad.typing import Array

NEARLY = 1e-10
"""Threshold below which a multiplier and a distance count as zero, in units of the problem."""

AMBIGUOUS = 1e-2
"""Ratio of the two from which a constraint is clearly active or clearly inactive."""


class Conditions:
    """The Karush-Kuhn-Tucker conditions of a problem; a solution is the minimum and all multipliers.

    Args:
        function: the user's function, for messages.
        number: the objective, a function of structured unknowns and arguments.
        constraints: constraints in common form; `given` has the arguments of each, in the same order.
    """

    def __init__(self, function: Function, number: Function, constraints: Sequence[Constraint]) -> None:
        self._function, self._number, self._constraints = function, number, constraints

    def optimality(self, solution: tuple[Any, Any], given: Sequence[Given], *args: Array) -> Any:
        """Return the residuals of the conditions, which are zero at a solution."""
        (vector, restore), multipliers = raveled(solution[0]), solution[1]

        def lagrangian(vector: Array) -> Any:
            values = together(self._constraints, vector, given)[0]
            return self._number(restore(vector), args) + np.sum(multipliers * values)

        return grad(lagrangian)(vector), held(*together(self._constraints, vector, given), multipliers)

    def used(self, solution: tuple[Any, Any], given: Sequence[Given], *args: Array) -> Any:
        """Return a function that uses the same inputs as `optimality`."""
        values = together(self._constraints, raveled(solution[0])[0], given)[0]
        return self._number(solution[0], args), values

    def multipliers(self, x: Array, given: Sequence[Given], args: Sequence[Any]) -> Any:
        """Return the multipliers at a minimum, for plain numbers."""
        vector, restore = raveled(x)
        number = lambda vector: self._number(restore(vector), args)  # noqa: E731
        slope, matrix = np.array(grad(number)(vector)), np.array(hessian(number)(vector))
        stiffness = float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
        estimate = Multipliers(self._function, slope, stiffness, float(np.max(np.abs(vector), initial=0)))
        slopes = np.concatenate([np.array(each) for each in slopes_of(self._constraints, vector, given)])
        parts = values_and_limits(self._constraints, vector, given)
        names = np.repeat([each.name for each in self._constraints], [len(values) for values, _, _ in parts])
        values, lower, upper = together(self._constraints, vector, given)
        return estimate.of(slopes, np.array(values), np.array(lower), np.array(upper), names)

    def reported(self, solution: tuple[Any, Any], given: Sequence[Given], found: Any) -> dict[str, Any]:
        """Return SciPy's reports on constraints, computed from a solution."""
        vector = raveled(solution[0])[0]
        parts = values_and_limits(self._constraints, vector, given)
        multipliers = parted(solution[1], parts)
        if "multipliers" in found:  # for SLSQP, which has none for bounds
            count = len(multipliers) - (self._constraints[-1].original is None)
            return {"multipliers": as_slsqp_counts(multipliers[:count], parts[:count])}
        if "v" in found:  # for trust-constr
            slopes = slopes_of(self._constraints, vector, given)
            return {"v": multipliers, "constr": [values for values, _, _ in parts], "jac": slopes}
        return {}


def held(values: Array, lower: Array, upper: Array, multipliers: Array) -> Array:
    """Return residuals for each constraint: the distance from the limit for active ones, otherwise the multiplier."""
    one_sided = np.where(multipliers < 0, values - lower, multipliers)
    one_sided = np.where(multipliers > 0, values - upper, one_sided)
    return np.where(lower == upper, values - lower, one_sided)


class Multipliers:
    """The multipliers at an approximate minimum, for plain numbers.

    They are estimated for all constraints by least squares, which penalizes multipliers of distant ones (Glad &
    Polak 1979, https://doi.org/10.1007/BF01582117). A constraint is active if its multiplier exceeds the one that would
    move the minimum to it: as in an active-set method, this does not depend on the accuracy of the minimum.
    The multipliers of the active constraints are then recomputed.

    Args:
        function: the user's function, for messages.
        slope: the gradient of the objective.
        stiffness: the scale of the Hessian, a number.
    """

    def __init__(self, function: Function, slope: Array, stiffness: float, largest: float) -> None:
        self._function, self._slope = function, slope
        self._stiffness = max(stiffness, float(np.linalg.norm(slope)) / max(1.0, largest)) or 1.0
        self._least = NEARLY * self._stiffness * max(1.0, largest)

    def of(self, slopes: Array, values: Array, lower: Array, upper: Array, names: Any) -> Any:
        """Return the multipliers, which are 0 for inactive constraints.

        Args:
            slopes: the Jacobian of the constraints.
            values: the values of the constraints.
            lower: their lower limits.
            upper: their upper limits.
            names: the names of the constraints, for messages.

        Raises:
            SingularEquationError: a ValueError; the gradients of active constraints are linearly dependent.
        """
        lengths = np.linalg.norm(slopes, axis=1)
        lengths = np.where(lengths > 0, lengths, 1.0)
        normals = slopes / lengths[:, None]
        below, above = (np.maximum(distance, 0) / lengths for distance in (values - lower, upper - values))
        is_equation = lower == upper
        near = np.where(is_equation, 0, np.minimum(below, above))
        estimate = self._estimate(normals, near)
        distance = np.where(estimate > 0, above, below)
        is_active = is_equation | (np.abs(estimate) > self._stiffness * distance + self._least)
        self._warn_of_weak(estimate, near, names, is_equation)
        self._check(normals[is_active], names[is_active])
        found = np.zeros(len(values))
        found[is_active] = np.linalg.lstsq(normals[is_active].T, -self._slope)[0]
        # Their signs tell which limit is active; the signs of small ones may be wrong.
        found = np.where(is_active & ~is_equation, np.copysign(np.maximum(np.abs(found), self._least), estimate), found)
        return found / lengths

    def _estimate(self, normals: Array, near: Array) -> Array:
        limited = np.isfinite(near)
        weights = self._stiffness * near[limited] / max(float(np.linalg.norm(self._slope)), self._least)
        matrix = np.concatenate([normals[limited].T, np.diag(weights)])
        right = np.concatenate([-self._slope, np.zeros(len(weights))])
        estimate = np.zeros(len(near))
        estimate[limited] = np.linalg.lstsq(matrix, right)[0]
        return estimate

    def _warn_of_weak(self, estimate: Array, near: Array, names: Any, is_equation: Array) -> None:
        force, away = np.abs(estimate), self._stiffness * near
        weak = ~is_equation & (np.minimum(force, away) + self._least >= AMBIGUOUS * np.maximum(force, away))
        if weak.any():
            warnings.warn(
                f"the minimum of {name_of(self._function)} lies on {_named(names[weak])} with a zero multiplier: "
                "the derivatives towards the two sides differ, and one of them "
                "is used.\nIf this is due to SciPy's inaccuracy, minimize with a smaller tolerance.",
                errors.WeaklyActiveWarning,
                stacklevel=depth_of_user(),
            )

    def _check(self, normals: Array, names: object) -> None:
        if len(normals) and np.linalg.matrix_rank(normals) < len(normals):
            raise errors.SingularEquationError(
                f"the active constraints at the minimum of {name_of(self._function)} are redundant "
                f"({_named(names)}): their gradients are linearly dependent. The multipliers are not unique, and "
                "the minimum is not a differentiable function of its inputs.\n"
                "Omit constraints that follow from the others, such as x <= 1 beside sum(x) = 1 and x >= 0."
            )


def _named(names: Any) -> str:
    return ", ".join(dict.fromkeys(map(str, names)))


def parted(multipliers: Array, parts: Sequence[tuple[Any, Any, Any]]) -> list[Any]:
    """Return the multipliers split by constraint, given their values and limits."""
    ends = np.cumsum([0, *(values.shape[0] for values, _, _ in parts)])
    return [multipliers[start:stop] for start, stop in itertools.pairwise(ends)]


def as_slsqp_counts(multipliers: Sequence[Any], parts: Sequence[tuple[Any, Any, Any]]) -> Array:
    """Return multipliers in SLSQP's order: equations, lower and upper limits; positive for active limits."""
    equations, limits = [], []
    for each, (_, lower, upper) in zip(multipliers, parts, strict=True):
        low, high = first_example(lower), first_example(upper)
        equations.append(-each[low == high])
        limits.append(np.maximum(-each, 0)[(low != high) & (low > -np.inf)])
        limits.append(np.maximum(each, 0)[(low != high) & (high < np.inf)])
    return np.concatenate([*equations, *limits])
