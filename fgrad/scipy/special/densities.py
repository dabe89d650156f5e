"""The densities of the gamma, beta, F and t distributions, which occur in many derivatives.

    gamma_density(a, x)        x**(a - 1) exp(-x) / gamma(a)
    beta_density(a, b, x)      x**(a - 1) (1 - x)**(b - 1) / beta(a, b)
    f_density(dfn, dfd, x)     of the F distribution
    t_density(df, t)           of the t distribution

They are derivatives of `gammainc`, `betainc`, `fdtr` and `stdtr`, and have derivatives in closed form
with respect to each argument. Powers and gamma functions are combined before evaluation, so that
large parameters neither overflow nor leave differences of large logarithms: C. Loader, "Fast and Accurate
Computation of Binomial Probabilities", 2000.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, helper
from fgrad.scipy.special.polygammas import digamma_difference
from fgrad.typing import Array, ArrayLike

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""The coefficients of 1/x, 1/x**3, ... in Stirling's series (https://dlmf.nist.gov/5.11.E1)."""


def stirling_error(x: Any) -> Any:
    """Return log(gamma(x + 1)) - log(sqrt(2 pi x) (x / e)**x) for plain arrays, without cancellation."""
    large = np.where(x < 16, 16.0, x)
    series = sum((c / large ** (2 * k + 1) for k, c in enumerate(STIRLING)), np.zeros_like(large))
    small = np.where(x < 16, x, 1.0)
    direct = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * log(2 * pi)
    return np.where(x < 16, direct, series)


def deviance(k: ArrayLike, mean: Any, excess: Any) -> Any:
    """Return k log(k / mean) + mean - k for plain arrays, where `excess` is mean - k without cancellation."""
    ratio = excess / k
    return np.where(np.abs(ratio) < 0.5, k * (ratio - np.log1p(ratio)), k * np.log(k / mean) + excess)


def _gamma_density(a: Array, x: Array) -> Any:
    middle = np.exp(0.5 * np.log(a / (2 * pi)) - np.log(x) - stirling_error(a) - deviance(a, x, x - a))
    at_zero = np.where(a < 1, np.inf, np.where(a > 1, 0.0, 1.0))
    return np.select([x == 0, x == np.inf, x > 0], [at_zero, 0.0, middle], np.nan)


def log_beta_kernel(a: ArrayLike, b: Any, x: Any, q: Any, excess: Any) -> Any:
    """Return the logarithm of x**a q**b / beta(a, b), where q = 1 - x and `excess` is b x - a q."""
    n = a + b
    errors = stirling_error(n) - stirling_error(a) - stirling_error(b)
    return errors - deviance(a, n * x, excess) - deviance(b, n * q, -excess) + 0.5 * np.log(a / n * b / (2 * pi))


def _beta_density(a: Array, b: Array, x: Array) -> Any:
    q = 1 - x
    middle = np.exp(log_beta_kernel(a, b, x, q, b * x - a * q) - np.log(x) - np.log1p(-x))
    at_zero = np.where(a < 1, np.inf, np.where(a > 1, 0.0, b))
    at_one = np.where(b < 1, np.inf, np.where(b > 1, 0.0, a))
    return np.select([x == 0, x == 1, (x > 0) & (x < 1)], [at_zero, at_one, middle], np.nan)


def _f_density(dfn: Array, dfd: Array, x: Array) -> Any:
    a, b, total = dfn / 2, dfd / 2, dfn * x + dfd
    excess = dfn * ((x - 1) / total) * b
    middle = np.exp(log_beta_kernel(a, b, dfn * x / total, dfd / total, excess) - np.log(x))
    at_zero = np.where(dfn < 2, np.inf, np.where(dfn > 2, 0.0, 1.0))
    return np.select([x == 0, x == np.inf, x > 0], [at_zero, 0.0, middle], np.nan)


def _t_density(df: Array, t: Array) -> Any:
    half = np.where(df == np.inf, 1e300, df) / 2  # large enough to equal the normal density
    # gamma(half + 1/2) / (gamma(half) sqrt(half)), by the errors of Stirling's formula for gamma(x)
    ratio = half * np.log1p(0.5 / half) - 0.5 + stirling_error(half + 0.5) - stirling_error(half)
    return np.exp(ratio - (half + 0.5) * _log1p_of_square(t / np.sqrt(2 * half))) / np.sqrt(2 * pi)


def _log1p_of_square(s: Array) -> Array:
    """Return log(1 + s * s) without overflow."""
    large = np.abs(s) > 1e10
    return np.where(large, 2 * np.log(np.abs(np.where(large, s, 1))), np.log1p(np.square(np.where(large, 0, s))))


# fmt: off
gamma_density: Helper = helper(_gamma_density,
    lambda ans, a, x: lambda ct: ct * (ans * (np.log(x) - special.psi(a))),
    lambda ans, a, x: lambda ct: ct * (ans * ((a - 1 - x) / x)),
    name="gamma_density", domain=((0.5, 3), (0.3, 4)))
beta_density: Helper = helper(_beta_density,
    lambda ans, a, b, x: lambda ct: ct * (ans * (np.log(x) + digamma_difference(a, b))),
    lambda ans, a, b, x: lambda ct: ct * (ans * (np.log1p(-x) + digamma_difference(b, a))),
    lambda ans, a, b, x: lambda ct: ct * (ans * ((a - 1) / x - (b - 1) / (1 - x))),
    name="beta_density", domain=((0.5, 3), (0.5, 3), (0.2, 0.8)))
f_density: Helper = helper(_f_density,
    lambda ans, dfn, dfd, x: lambda ct: ct * (ans * _f_slope(dfn, dfd, np.log(dfn * x / (dfn * x + dfd)),
                                                             dfd * (1 - x) / (dfn * x + dfd))),
    lambda ans, dfn, dfd, x: lambda ct: ct * (ans * _f_slope(dfd, dfn, np.log(dfd / (dfn * x + dfd)),
                                                             dfn * (x - 1) / (dfn * x + dfd))),
    lambda ans, dfn, dfd, x: lambda ct: ct * (ans * ((dfn / 2 - 1) / x - dfn * (dfn + dfd) / 2 / (dfn * x + dfd))),
    name="f_density", domain=((1, 5), (1, 5), (0.3, 3)))
t_density: Helper = helper(_t_density,
    lambda ans, df, t: lambda ct: ct * (ans * (_t_slope(df, t))),
    lambda ans, df, t: lambda ct: ct * (ans * (-(1 + 1 / df) * t / (1 + t * t / df))),
    name="t_density", domain=((1, 5), (-3, 3)))
# fmt: on


def _f_slope(df: Array, other: Array, log_of_share: Array, excess: Array) -> Any:
    """Return the derivative of log(f_density) with respect to one of the degrees of freedom."""
    return (log_of_share + digamma_difference(df / 2, other / 2) + excess) / 2


def _t_slope(df: Array, t: Array) -> Any:
    """Return the derivative of log(t_density) with respect to the degrees of freedom."""
    square = t * t / df
    constant = digamma_difference(df / 2, 0.5) - 1 / df
    return (constant - np.log1p(square) + square * (df + 1) / (df + t * t)) / 2
