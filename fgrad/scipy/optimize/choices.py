"""Discrete choices: optimal assignments, and blocks of equal values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.rules.closures import followers, values_of
from fgrad.rules.implicit import Equation, Inverse, for_each_example, solution
from fgrad.rules.rule import Leaves
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.optimize._search import SCIPYS, result_from, result_of
from fgrad.typing import Array, ArrayLike


def linear_sum_assignment(cost_matrix: ArrayLike, maximize: bool = False) -> tuple[Any, Any]:
    """Assign rows to columns at minimal cost, as `scipy.optimize.linear_sum_assignment`.

    The assignment consists of integers and has no derivative; the cost at its elements has one.

    Args:
        cost_matrix: the costs, of shape (m, n); it may be traced.
        maximize: whether to maximize the sum.

    Returns:
        The rows and the columns, as integer arrays of length min(m, n).

    Raises:
        ValueError: SciPy's; there is no assignment of finite cost.
        ConcretizationError: a TypeError; the costs are recorded, and have no values.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def least(cost):
        ...     return np.sum(cost[linear_sum_assignment(cost)])
        >>> fg.grad(least)(np.array([[4.0, 1.0], [2.0, 3.0]]))
        Tensor([[0., 1.],
                [1., 0.]])
    """
    cost = as_array(cost_matrix)
    if any(trace.is_program for trace in followers([cost])):
        raise errors.ConcretizationError("scipy.optimize.linear_sum_assignment", errors.users_line())

    def solve(leaves: Leaves) -> Any:
        return np.stack(SCIPYS.linear_sum_assignment(np.array(leaves[0]), maximize))

    pairs = for_each_example(solve, values_of([cost]))
    return pairs[0], pairs[1]


def isotonic_regression(y: ArrayLike, *, weights: ArrayLike | None = None, increasing: bool = True) -> OptimizeResult:
    """Fit values that never decrease, as `scipy.optimize.isotonic_regression`, with derivatives.

    They are weighted means over blocks of neighbours, and are differentiated as such.

    Args:
        y: of shape (n,).
        weights: positive, of shape (n,); by default ones.
        increasing: whether the values increase; otherwise they decrease.

    Returns:
        SciPy's result; `x` is differentiable with respect to `y` and `weights`.

    Raises:
        ValueError: SciPy's; the shapes are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.jacobian(lambda y: isotonic_regression(y).x)(np.array([1.0, 4.0, 2.0])).numpy() + 0.0
        array([[1. , 0. , 0. ],
               [0. , 0.5, 0.5],
               [0. , 0.5, 0.5]])
    """
    found: list[Any] = []

    def solve(leaves: Leaves) -> Any:
        plain = [np.array(leaf) for leaf in leaves]
        found.append(SCIPYS.isotonic_regression(plain[0], weights=plain[1], increasing=increasing))
        return found[-1].x

    leaves = [as_array(y) * 1.0]
    leaves.append(np.ones(leaves[0].shape) if weights is None else as_array(weights) * 1.0)
    if not followers(leaves):
        values = SCIPYS.isotonic_regression(
            *map(np.array, leaves[:1]), weights=np.array(leaves[1]), increasing=increasing
        )
        return result_from({**values, "x": leaves[0] * 0.0 + values.x}) if is_boxed((y, weights)) else values
    equation = Equation(isotonic_regression, solve, _off_means, inverse=lambda x, leaves: _Identity())
    return result_of("isotonic_regression", found, x=solution(equation, leaves))


def _off_means(x: Array, leaves: Leaves) -> Any:
    """Return the residuals of values with respect to the means of their blocks, in which they are equal."""
    y, weights = leaves
    places, differs = np.arange(x.shape[0]), x[1:] != x[:-1]
    begin = np.maximum.accumulate(np.where(np.concatenate([[True], differs]), places, 0))
    ends = np.where(np.concatenate([differs, [True]]), places + 1, x.shape[0])
    end = np.flip(np.minimum.accumulate(np.flip(ends)))

    def total(values: Array) -> Any:
        sums = np.concatenate([np.zeros(1), np.cumsum(values)])
        return np.take_along_axis(sums, end, 0) - np.take_along_axis(sums, begin, 0)

    return x - total(weights * y) / total(weights)


class _Identity:
    """The inverse of a Jacobian that is the identity, for constant blocks."""

    def times(self, b: Array) -> Any:
        return b

    def transposed_times(self, b: Array) -> Array:
        return b

    def is_singular(self) -> bool:
        return False

    def of_values(self, x: Array, leaves: Leaves) -> Inverse:
        return self
