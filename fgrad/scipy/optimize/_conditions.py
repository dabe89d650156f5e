"""Minima under constraints: what defines them, their multipliers, and which constraints hold a minimum back.

Where constraints are lower <= c(x) <= upper there are multipliers at a minimum with

    grad f + J^T multipliers = 0      J has the slopes of c
    c = upper, or multiplier <= 0     and c = lower, or multiplier >= 0

the conditions of Karush, Kuhn and Tucker. While no constraint changes its side they are equations, which define the
minimum and the multipliers as functions of all that is in them (Fiacco 1976, https://doi.org/10.1007/BF01580677).
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

NEARLY = 1e-10
"""What counts as zero of a multiplier and of a distance that are both small, in units of the problem."""

AMBIGUOUS = 1e-2
"""How much smaller one of the two must be than the other, for a constraint to be clearly active or clearly not."""


class Conditions:
    """The conditions of Karush, Kuhn and Tucker for one problem; a solution is the minimum and all multipliers.

    Args:
        function: the user's, for messages.
        number: what is made least, from unknowns as the user nests them and arguments.
        constraints: in one form; `given` is what each is given, in the same order.
    """

    def __init__(self, function: Function, number: Function, constraints: Sequence[Constraint]) -> None:
        self._function, self._number, self._constraints = function, number, constraints

    def optimality(self, solution: tuple[Any, Any], given: Sequence[Given], *args: Any) -> Any:
        """Return what is zero at a solution, as many numbers as there are in it."""
        (vector, restore), multipliers = raveled(solution[0]), solution[1]

        def lagrangian(vector: Any) -> Any:
            values = together(self._constraints, vector, given)[0]
            return self._number(restore(vector), args) + np.sum(multipliers * values)

        return grad(lagrangian)(vector), held(*together(self._constraints, vector, given), multipliers)

    def used(self, solution: tuple[Any, Any], given: Sequence[Given], *args: Any) -> Any:
        """Return what uses all that `optimality` uses."""
        values = together(self._constraints, raveled(solution[0])[0], given)[0]
        return self._number(solution[0], args), values

    def multipliers(self, x: Any, given: Sequence[Given], args: Sequence[Any]) -> Any:
        """Return the multipliers at a minimum, of plain numbers."""
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
        """Return what SciPy reports of constraints, computed from a solution."""
        vector = raveled(solution[0])[0]
        parts = values_and_limits(self._constraints, vector, given)
        multipliers = parted(solution[1], parts)
        if "multipliers" in found:  # of SLSQP, which has none of bounds
            count = len(multipliers) - (self._constraints[-1].original is None)
            return {"multipliers": as_slsqp_counts(multipliers[:count], parts[:count])}
        if "v" in found:  # of trust-constr
            slopes = slopes_of(self._constraints, vector, given)
            return {"v": multipliers, "constr": [values for values, _, _ in parts], "jac": slopes}
        return {}


def held(values: Any, lower: Any, upper: Any, multipliers: Any) -> Any:
    """Return what is zero at a minimum: how far active constraints are from their limits, and multipliers of others."""
    one_sided = np.where(multipliers < 0, values - lower, multipliers)
    one_sided = np.where(multipliers > 0, values - upper, one_sided)
    return np.where(lower == upper, values - lower, one_sided)


class Multipliers:
    """The multipliers at a minimum that is known to some digits, of plain numbers.

    They are estimated for all constraints by least squares, in which far ones are to have small multipliers (Glad &
    Polak 1979, https://doi.org/10.1007/BF01582117). A constraint is active if its multiplier is more than what would
    move the minimum to it: as in an active-set method, that does not depend on how near to it the method has stopped.
    Of the active ones the multipliers are computed anew.

    Args:
        function: the user's, for messages.
        slope: of the function to minimize.
        stiffness: how much the slope changes with the unknowns, a number.
    """

    def __init__(self, function: Function, slope: Any, stiffness: float, largest: float) -> None:
        self._function, self._slope = function, slope
        self._stiffness = max(stiffness, float(np.linalg.norm(slope)) / max(1.0, largest)) or 1.0
        self._least = NEARLY * self._stiffness * max(1.0, largest)

    def of(self, slopes: Any, values: Any, lower: Any, upper: Any, names: Any) -> Any:
        """Return the multipliers, which are 0 of inactive constraints.

        Args:
            slopes: of the constraints, the Jacobian of `values`.
            values: of the constraints.
            lower: their lower limits.
            upper: their upper limits.
            names: of the constraints, for messages.

        Raises:
            SingularEquationError: a ValueError; the slopes of active constraints depend on one another.
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
        # Their signs tell at which limit a constraint is; what is small may have come out with another one.
        found = np.where(is_active & ~is_equation, np.copysign(np.maximum(np.abs(found), self._least), estimate), found)
        return found / lengths

    def _estimate(self, normals: Any, near: Any) -> Any:
        limited = np.isfinite(near)
        weights = self._stiffness * near[limited] / max(float(np.linalg.norm(self._slope)), self._least)
        matrix = np.concatenate([normals[limited].T, np.diag(weights)])
        right = np.concatenate([-self._slope, np.zeros(len(weights))])
        estimate = np.zeros(len(near))
        estimate[limited] = np.linalg.lstsq(matrix, right)[0]
        return estimate

    def _warn_of_weak(self, estimate: Any, near: Any, names: Any, is_equation: Any) -> None:
        force, away = np.abs(estimate), self._stiffness * near
        weak = ~is_equation & (np.minimum(force, away) + self._least >= AMBIGUOUS * np.maximum(force, away))
        if weak.any():
            warnings.warn(
                f"the minimum of {name_of(self._function)} has come to {_named(names[weak])} without being held back: "
                "what moves it to one side is another derivative than what moves it to the other, and one of the two "
                "is taken.\nIf that is SciPy's inaccuracy, minimize with a smaller tolerance.",
                errors.WeaklyActiveWarning,
                stacklevel=depth_of_user(),
            )

    def _check(self, normals: Any, names: Any) -> None:
        if len(normals) and np.linalg.matrix_rank(normals) < len(normals):
            raise errors.SingularEquationError(
                f"the constraints that hold the minimum of {name_of(self._function)} back depend on one another at it "
                f"({_named(names)}): their gradients are linearly dependent. So they do not determine multipliers, and "
                "the minimum is not a differentiable function of what it depends on.\n"
                "Leave out those that follow from the others, such as x <= 1 beside sum(x) = 1 and x >= 0."
            )


def _named(names: Any) -> str:
    return ", ".join(dict.fromkeys(map(str, names)))


def parted(multipliers: Any, parts: Sequence[tuple[Any, Any, Any]]) -> list[Any]:
    """Return the multipliers of each constraint, whose values and limits are given."""
    ends = np.cumsum([0, *(values.shape[0] for values, _, _ in parts)])
    return [multipliers[start:stop] for start, stop in itertools.pairwise(ends)]


def as_slsqp_counts(multipliers: Sequence[Any], parts: Sequence[tuple[Any, Any, Any]]) -> Any:
    """Return multipliers as SLSQP does: of equations first, then of lower and upper limits; where active, positive."""
    equations, limits = [], []
    for each, (_, lower, upper) in zip(multipliers, parts, strict=True):
        low, high = first_example(lower), first_example(upper)
        equations.append(-each[low == high])
        limits.append(np.maximum(-each, 0)[(low != high) & (low > -np.inf)])
        limits.append(np.maximum(each, 0)[(low != high) & (high < np.inf)])
    return np.concatenate([*equations, *limits])
