"""Differences of gamma functions without cancellation.

    stirling_rest(a), digamma_rest(a)    the remainders of Stirling's formulas for log gamma and digamma
    log_gamma_step(a, b)                 log gamma(a + b) - log gamma(a)
    digamma_step(a, b)                   digamma(a + b) - digamma(a); digamma_step_rest(a, b) less b / a
    half_digamma_step(df)                digamma((df + 1) / 2) - digamma(df / 2) - 1 / df
    log1p_fall(x)                        x - log(1 + x)

From 10 on they are the asymptotic series (https://dlmf.nist.gov/5.11), below 10 they come from SciPy's functions
or, by recurrence, from larger arguments. All are composed of ordinary operations, so their derivatives do not cancel.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import power_series
from fgrad.typing import Array, Operand

HALF_LOG_TWO_PI = log(2 * pi) / 2


STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
DOUBLED = (1 / 2, -1 / 4, 1 / 2, -17 / 8, 31 / 2, -691 / 4, 5461 / 2, -929569 / 16)
"""B(2k) / (2k (2k - 1)), B(2k) / 2k and (4^k - 1) B(2k) / k, for k = 1, 2, ...: DLMF 5.11.1, 5.11.2 and their sum
over both halves of the doubled argument."""


def stirling_rest(a: Array | float) -> Any:
    """Return log gamma(a) - (a - 1/2) log a + a - 1/2 log 2 pi, which is about 1 / 12a."""
    small, large = np.where(a < 10, a, 10.0), np.where(a < 10, 10.0, a)
    direct = special.gammaln(small) - (small - 0.5) * np.log(small) + small - HALF_LOG_TWO_PI
    return np.where(a < 10, direct, power_series(1 / (large * large), STIRLING) / large)


def digamma_rest(a: Array) -> Any:
    """Return log a - 1 / 2a - digamma(a), which is about 1 / 12a^2."""
    small, large = np.where(a < 10, a, 10.0), np.where(a < 10, 10.0, a)
    direct = np.log(small) - 0.5 / small - special.digamma(small)
    inverse = 1 / (large * large)
    return np.where(a < 10, direct, power_series(inverse, DIGAMMA) * inverse)


def log_gamma_step(a: Array, b: object) -> Any:
    """Return log gamma(a + b) - log gamma(a)."""
    end = a + b
    return (a - 0.5) * np.log1p(b / a) + b * np.log(end) - b + stirling_rest(end) - stirling_rest(a)


def digamma_step(a: Array, b: Operand) -> Any:
    """Return digamma(a + b) - digamma(a), accurate also for `b` much smaller than `a`."""
    total = sum(b / ((a + k) * (a + b + k)) for k in range(10))
    return total + np.log1p(b / (a + 10)) + _step_rest(a + 10, b)


def digamma_step_rest(a: Array, b: Array) -> Any:
    """Return digamma(a + b) - digamma(a) - b / a, which is about b (1 - b) / 2a^2 for large `a`."""
    total = sum(b * (1 - b) / ((a + k) * (a + k + 1) * (a + b + k)) for k in range(10))
    return total - log1p_fall(b / (a + 10)) + _step_rest(a + 10, b)


def _step_rest(a: Array, b: Operand) -> Any:
    """Return digamma(a + b) - digamma(a) - (log(a + b) - log(a)), by the series of digamma."""
    end = a + b
    rest = power_series(1 / a**2, DIGAMMA) / a**2 - power_series(1 / end**2, DIGAMMA) / end**2
    return b / (2 * a * end) + rest


def log1p_fall(x: Array) -> Any:
    """Return x - log(1 + x), which is about x^2 / 2."""
    near = np.abs(x) < 0.05
    small = np.where(near, x, 0.0)
    terms = [(-1) ** k / k for k in range(2, 15)]
    return np.where(near, small * small * power_series(small, terms), x - np.log1p(x))


def half_digamma_step(df: Array) -> Any:
    """Return digamma((df + 1) / 2) - digamma(df / 2) - 1 / df, which is about 1 / 2 df^2."""
    total = sum(2 / ((df + 2 * k) * (df + 2 * k + 1) * (df + 2 * k + 2)) for k in range(10))
    inverse = 1 / (df + 20) ** 2
    return total + power_series(inverse, DOUBLED) * inverse
