"""The Kolmogorov and Smirnov distributions, for many and for a finite number of observations, and their inverses.

    scipy.special.kolmogorov, kolmogi, smirnov, smirnovi

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
"""

from __future__ import annotations

from math import comb, factorial, floor, pi, sqrt
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, declare, helper, whole_number
from fgrad.scipy.special.densities import deviance, stirling_error
from fgrad.typing import Array


def _kolmogorov_slope(y: Array) -> Array:
    """Return the derivative, from the series that converges faster: one for large arguments, one for small."""
    large = np.logical_and(y > 1, y < 30)
    above, below = np.where(large, y, 1), np.where(np.logical_or(y <= 0.04, y > 1), 1, y)
    for_large = sum((-1) ** k * k * k * np.exp(above * above * (-2 * k * k)) for k in range(1, 8)) * above * 8
    rates = [(2 * k - 1) ** 2 * pi**2 / 8 for k in range(1, 8)]
    square = below * below
    for_small = sum(np.exp(-rate / square) * (1 - 2 * rate / square) for rate in rates) * sqrt(2 * pi) / square
    # Further out on both sides it underflows.
    nearly_flat = np.logical_or(y <= 0.04, y >= 30)
    return np.where(nearly_flat, -0.0, np.where(large, for_large, for_small))


def _smirnov(order: float, n: float, d: float) -> Any:
    """Return a derivative of the sum over j of C(n, j) (u**j - j/n u**(j - 1)) v**(n - j), u = d + j/n, v = 1 - u."""
    n, order = floor(n), int(order)
    if not (0 <= d <= 1 and n >= 1):
        return np.nan
    if d == 1:  # the endpoint of (1 - d)**n
        return float((-1) ** n * factorial(n)) if order == n else 0.0
    j = np.arange(floor(n * (1 - d)) + 1.0)
    u, v = d + j / n, 1 - d - j / n
    j, u, v = j[v > 0], u[v > 0], v[v > 0]
    factor = np.zeros_like(j)
    for k in range(order + 1):  # k derivatives of the power of u, the others of v
        powers, others = _falling(j, k) * u**-k, j / n * _falling(j - 1, k) * u ** -(k + 1)
        by_u = np.where(j < k, 0, powers) - np.where(j == 0, 0, others)
        by_v = _falling(n - j, order - k) * v ** (k - order)
        factor = factor + (-1) ** (order - k) * comb(order, k) * by_u * by_v
    return np.sum(factor * _binomial_probability(j, n, u, v, n * d))


def _binomial_probability(j: Array, n: int, u: Array, v: Array, excess: float) -> Any:
    """Return C(n, j) u**j v**(n - j), where excess = n u - j, by Loader's formula (see `densities.py`)."""
    inside = (j > 0) & (j < n)
    k = np.where(inside, j, 0.5)
    errors = stirling_error(np.float64(n)) - stirling_error(k) - stirling_error(n - k)
    exponent = errors - deviance(k, n * u, excess) - deviance(n - k, n * v, -excess)
    return np.where(inside, np.exp(exponent) * np.sqrt(n / (2 * pi * k * (n - k))), np.where(j == 0, v**n, u**n))


def _falling(x: Array, count: int) -> Array:
    """Return the falling factorial x (x - 1) (x - 2) ... with `count` factors."""
    product = np.ones_like(x)
    for k in range(count):
        product = product * (x - k)
    return product


# fmt: off
smirnov_derivative: Helper = helper(np.vectorize(_smirnov, otypes=[float]),
    whole_number("scipy.special.smirnov", "order"), whole_number("scipy.special.smirnov", "n"),
    lambda ans, order, n, d: lambda ct: ct * smirnov_derivative(order + 1, n, d),
    name="smirnov_derivative", leading=(1, 5), domain=(0.21, 0.39))

declare(special.kolmogorov, lambda ans, y: lambda ct: ct * _kolmogorov_slope(y), domain=(0.5, 2))
declare(special.kolmogi,    lambda ans, p: lambda ct: ct / _kolmogorov_slope(ans), domain=(0.1, 0.9))
declare(special.smirnov,    whole_number("scipy.special.smirnov", "n"),
                            lambda ans, n, d: lambda ct: ct * smirnov_derivative(1, n, d),
                            leading=(5,), domain=(0.21, 0.39))
declare(special.smirnovi,   whole_number("scipy.special.smirnovi", "n"),
                            lambda ans, n, p: lambda ct: ct / smirnov_derivative(1, n, ans),
                            leading=(5,), domain=(0.21, 0.39))
# fmt: on
