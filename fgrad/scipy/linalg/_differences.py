"""Divided differences of a function of one real number, of any order, also for equal or nearly equal points.

    divided_differences(derivative, points)    of the points along the last axis

For two points it is (f(b) - f(a)) / (b - a), which is inaccurate for close points, and undefined for equal ones;
there it is the mean of the derivative between them. For more points it is the quotient of two differences of one point
fewer, or the mean of a higher derivative over a simplex (the Hermite-Genocchi formula; N. Higham, "Functions of
Matrices" (2008), appendix B.16). The function is arbitrary, and the accuracy of both formulas depends on it; so both
are computed where the quotient has lost digits, with error estimates, and the better one is used.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.typing import Array

_LOSS = 30
"""If the error of a quotient may exceed this many roundings, the other formula is computed, too."""

_MORE, _FEWER = 5, 3
"""Number of nodes per axis for the mean of a derivative, and for the estimate of its error."""


def divided_differences(derivative: Callable[[int, Any], Any], points: Array) -> Array:
    """Return the divided differences of a function.

    Args:
        derivative: `derivative(n, x)` is the derivative of order `n` at each number of a vector.
        points: real; each difference is that of the points along the last axis.

    Returns:
        An array without the last axis.
    """
    *shape, count = points.shape
    rows = np.sort(np.reshape(points, (-1, count)), axis=-1)
    return np.reshape(_with_errors(derivative, rows)[0], shape)


def _with_errors(derivative: Callable[[int, Any], Any], rows: Array) -> tuple[Any, Any]:
    """Return the divided differences of rows of ascending points, and error estimates."""
    if rows.shape[-1] == 1:
        values = derivative(0, rows[:, 0])
        return values, np.finfo(rows.dtype).eps * np.abs(values)
    (upper, upper_errors), (lower, lower_errors) = (_with_errors(derivative, x) for x in (rows[:, 1:], rows[:, :-1]))
    spread = rows[:, -1] - rows[:, 0]
    apart = np.where(spread > 0, spread, 1)
    values, errors = (upper - lower) / apart, np.where(spread > 0, (upper_errors + lower_errors) / apart, np.inf)
    close = ~(errors <= _LOSS * np.finfo(rows.dtype).eps * np.abs(values))
    means, mean_errors = _means(derivative, rows[close])
    better = np.logical_or(spread[close] == 0, mean_errors <= errors[close])
    values[close] = np.where(better, means, values[close])
    errors[close] = np.where(better, mean_errors, errors[close])
    return values, errors


def _means(derivative: Callable[[int, Any], Any], rows: Array) -> tuple[Any, Any]:
    """Return the means of a derivative over the simplices of points, and error estimates."""
    order = rows.shape[-1] - 1
    best, other = (_mean(derivative, rows, *_simplex_rule(count, order)) for count in (_MORE, _FEWER))
    return best, np.abs(best - other) + np.finfo(rows.dtype).eps * np.abs(best)


def _mean(derivative: Callable[[int, Any], Any], rows: Array, places: Array, weights: Array) -> Any:
    steps = np.diff(rows, axis=-1)
    points = rows[:, :1] + steps @ places.astype(rows.dtype)
    values = np.reshape(derivative(rows.shape[-1] - 1, np.ravel(points)), points.shape)
    return values @ weights.astype(rows.dtype)


@functools.cache
def _simplex_rule(count: int, order: int) -> tuple[Any, Any]:
    """Return the nodes of a quadrature rule for 1 >= t1 >= t2 >= ... >= 0, as columns, and its weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = (nodes + 1) / 2, weights / 2
    grid = np.array(list(itertools.product(nodes, repeat=order)))
    powers = np.arange(order - 1, -1, -1)
    factors = np.array(list(itertools.product(weights, repeat=order))) * grid**powers
    return np.cumprod(grid, axis=-1).T, np.prod(factors, axis=-1)
