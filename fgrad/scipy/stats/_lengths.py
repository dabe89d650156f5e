"""Distributions of norms of normal vectors, and of absolute values.

As in `_continuous`, each by formulas of its standard form.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.scipy import _special as special
from fgrad.scipy.stats._continuous import EULER, constant
from fgrad.scipy.stats._gammas import HALF_LOG_TWO_PI, digamma_rest, log1p_fall, stirling_rest
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.scipy.stats._laws import GAMMA, log1p_square, log_tail, over_square
from fgrad.scipy.stats._quantiles import inverse
from fgrad.scipy.stats._univariate import Continuous, log_of_complement
from fgrad.typing import Array, Operand

# fmt: off
halfcauchy = Continuous(
    stats.halfcauchy,
    logpdf=lambda x: log(2 / pi) - log1p_square(x),
    fall=lambda x: 2 * over_square(x, 1.0),
    tail_power=constant(-1.0), tail_fall=lambda x: -2 * over_square(x, 1.0) / x / x,
    cdf=lambda x: 2 / pi * np.arctan(x),     sf=lambda x: 2 / pi * np.arctan2(1.0, x),
    ppf=lambda q: np.tan(pi / 2 * q),        isf=lambda q: 1 / np.tan(pi / 2 * q),
    mean=constant(np.inf),   var=constant(np.inf),
    entropy=constant(log(2 * pi)),
)
"""The half-Cauchy distribution, of the absolute value of a Cauchy distributed number."""

halflogistic = Continuous(
    stats.halflogistic,
    logpdf=lambda x: log(2) + special.log_expit(x) + special.log_expit(-x),
    fall=lambda x: np.tanh(x / 2),
    cdf=lambda x: np.tanh(x / 2),            sf=lambda x: 2 * special.expit(-x),
    far_logsf=lambda x: log(2) - x,
    ppf=lambda q: 2 * np.arctanh(q),         isf=lambda q: np.log1p(2 * (1 - q) / q),
    mean=constant(log(4)),   var=constant(pi * pi / 3 - log(4) ** 2),
    entropy=constant(2 - log(2)),
)
"""The half-logistic distribution, of the absolute value of a logistic number."""

rayleigh = Continuous(
    stats.rayleigh,
    logpdf=lambda x: np.log(x) - x * x / 2,
    power=constant(2.0),     fall=lambda x: x,
    open_density=True,
    cdf=lambda x: -np.expm1(-x * x / 2),     far_logcdf=lambda x: 2 * np.log(x) - log(2),
    sf=lambda x: flat_exp(-x * x / 2),       logsf=lambda x: -x * x / 2,
    ppf=lambda q: np.sqrt(-2 * np.log1p(-q)), isf=lambda q: np.sqrt(-2 * np.log(q)),
    mean=constant(sqrt(pi / 2)), var=constant(2 - pi / 2),
    entropy=constant(EULER / 2 + 1 - log(2) / 2),
)
"""The Rayleigh distribution, of the norm of two normal numbers."""

maxwell = Continuous(
    stats.maxwell,
    logpdf=lambda x: log(2 / pi) / 2 + 2 * np.log(x) - x * x / 2,
    power=constant(3.0),     fall=lambda x: x,
    open_density=True,       open_tails=True,
    **GAMMA.tails(lambda x: (x * x / 2, 1.5)),
    ppf=lambda q: np.sqrt(2 * GAMMA.ppf(q, 1.5)), isf=lambda q: np.sqrt(2 * GAMMA.isf(q, 1.5)),
    mean=constant(2 * sqrt(2 / pi)), var=constant(3 - 8 / pi),
    entropy=constant(EULER + log(2 * pi) / 2 - 0.5),
)
"""The Maxwell distribution, of the norm of three normal numbers."""

chi = Continuous(
    stats.chi,
    logpdf=lambda x, df: log(2) * (1 - df / 2) - special.gammaln(df / 2) + special.xlogy(df - 1, x) - x * x / 2,
    power=lambda df: df,     fall=lambda x, df: x,
    scores=(lambda x, df: np.log(x) - (log(2) + special.digamma(df / 2)) / 2,),
    open_tails=True,
    **GAMMA.tails(lambda x, df: (x * x / 2, df / 2)),
    ppf=lambda q, df: np.sqrt(2 * GAMMA.ppf(q, df / 2)), isf=lambda q, df: np.sqrt(2 * GAMMA.isf(q, df / 2)),
    mean=lambda df: np.sqrt(df) * np.exp(_log_shortening(df / 2)),
    var=lambda df: -df * np.expm1(2 * _log_shortening(df / 2)),
    entropy=lambda df: _chi_entropy(df / 2),
)
"""The chi distribution, of the norm of `df` normal numbers."""

nakagami = Continuous(
    stats.nakagami,
    logpdf=lambda x, nu: (
        log(2) + special.xlogy(nu, nu) - special.gammaln(nu) + special.xlogy(2 * nu - 1, x) - nu * x * x
    ),
    power=lambda nu: 2 * nu, fall=lambda x, nu: 2 * nu * x,
    scores=(lambda x, nu: np.log(nu) + 1 - special.digamma(nu) + 2 * np.log(x) - x * x,),
    open_tails=True,
    **GAMMA.tails(lambda x, nu: (nu * x * x, nu)),
    ppf=lambda q, nu: np.sqrt(GAMMA.ppf(q, nu) / nu), isf=lambda q, nu: np.sqrt(GAMMA.isf(q, nu) / nu),
    mean=lambda nu: np.exp(_log_shortening(nu)), var=lambda nu: -np.expm1(2 * _log_shortening(nu)),
    entropy=lambda nu: _chi_entropy(nu) - np.log(2 * nu) / 2,
)
"""The Nakagami distribution, of the strength of a signal with multipath propagation."""

rice = Continuous(
    stats.rice,
    logpdf=lambda x, b: _rice_log_density(x, b),
    power=constant(2.0),     fall=lambda x, b: x - b * _bessel_ratio(x * b),
    scores=(lambda x, b: x * _bessel_ratio(x * b) - b,),
    allowed=lambda b: np.greater_equal(b, 0),
    open_density=True,       open_tails=True,
    cdf=lambda x, b: _rice_cdf(x, b),        sf=lambda x, b: _rice_sf(x, b),
    logcdf=lambda x, b: log_of_complement(_rice_cdf(x, b), _rice_sf(x, b)),
    logsf=lambda x, b: _rice_logsf(x, b),
    ppf=lambda q, b: apply(_rice_ppf, (q, b)), isf=lambda q, b: apply(_rice_isf, (q, b)),
    mean=lambda b: _rice_mean(b), var=lambda b: 2 + b * b - _rice_mean(b) ** 2,
)
"""The Rice distribution, of the norm of two normal numbers with a mean at the distance `b` from 0."""
# fmt: on


def _log_shortening(a: Array) -> Any:
    """Return log gamma(a + 1/2) - log gamma(a) - log(a) / 2, which is about -1 / 8a."""
    return stirling_rest(a + 0.5) - stirling_rest(a) - a * log1p_fall(0.5 / a)


def _chi_entropy(a: Array) -> Any:
    """Return the entropy of the chi distribution without cancellation, given half the degrees of freedom."""
    return HALF_LOG_TWO_PI - log(2) / 2 + stirling_rest(a) + (a - 0.5) * (0.5 / a + digamma_rest(a))


def _rice_log_density(x: Array, b: Array) -> Any:
    return np.log(x) - (x - b) * (x - b) / 2 + np.log(special.i0e(x * b))


def _bessel_ratio(x: Array) -> Any:
    """Return the derivative of the logarithm of I0."""
    return special.i1e(x) / special.i0e(x)


def _rice_mean(b: Operand) -> Any:
    """Return the mean, by the Laguerre function of degree 1/2: DLMF 13.6.10."""
    square = b * b / 2
    return sqrt(pi / 2) * ((1 + square) * special.i0e(square / 2) + square * special.i1e(square / 2))


def _rice_log_tail(x: Array, b: Array) -> Any:
    """Return the logarithm of the integral above `x`, beyond the mode: the density is log-concave."""

    def fall(s: Array, x: Array, b: Array) -> Any:
        bessels = np.log(special.i0e(b * (x + s)) / special.i0e(b * x))
        return s * (s + 2 * (x - b)) / 2 - np.log1p(s / x) - bessels

    def steepness(x: Array, b: Array) -> Any:
        return x - b - 1 / x - b * (special.i1e(b * x) / special.i0e(b * x) - 1)

    return _rice_log_density(x, b) + log_tail(fall, steepness, x, b)


def _rice_logsf(x: Array, b: Array) -> Any:
    above = np.greater(x, b + 1)
    far = _rice_log_tail(np.where(above, x, b + 2), b)
    near = np.where(above, b + 1, x)
    return np.where(above, far, np.log1p(-special.chndtr(near * near, 2, b * b)))


def _rice_sf(x: Array, b: Array) -> Any:
    return flat_exp(_rice_logsf(x, b))


def _rice_cdf(x: Array, b: Array) -> Any:
    above = np.greater(x, b + 1)
    near = np.where(above, b + 1, x)
    return np.where(above, -np.expm1(_rice_logsf(x, b)), special.chndtr(near * near, 2, b * b))


_rice_ppf: Primitive = inverse("rice_ppf", stats.rice.ppf, _rice_cdf, _rice_log_density, (0.5, 1.5))
_rice_isf: Primitive = inverse("rice_isf", stats.rice.isf, _rice_sf, _rice_log_density, (0.5, 1.5), above=True)
