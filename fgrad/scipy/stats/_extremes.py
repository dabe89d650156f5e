"""Distributions of maxima and minima, and distributions whose tails are powers.

As in `_continuous`, each by formulas of its standard form. The generalized ones have a shape `c` of either sign,
and a limit at 0. Their common function is `stretched(x, c)`, log(1 + c x) / c, whose derivatives do not cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np
from scipy import stats

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import power_series
from fgrad.scipy.stats._continuous import EULER, above, constant, weibull_min
from fgrad.scipy.stats._gammas import HALF_LOG_TWO_PI
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.scipy.stats._univariate import Continuous
from fgrad.typing import Array, Operand


def stretched(x: Array, c: Array) -> Array:
    """Return log(1 + c x) / c; at c = 0 it is x."""
    z = c * x
    near = np.abs(z) < 0.3
    small, large = np.where(near, z, 0.0), np.where(near, 1.0, z)
    return np.where(near, x * power_series(small, _LOGARITHM), np.log1p(large) / np.where(near, 1.0, c))


_LOGARITHM = tuple((-1) ** k / (k + 1) for k in range(32))
"""The coefficients of log(1 + z) / z."""


def from_zero(x: Operand, power: Operand, rest: Callable[..., Any], formula: Callable[..., Any]) -> Any:
    """Return the logarithm of a density by a formula, and at 0 as the sum of log(x^(power - 1)) and the rest."""
    zero = np.equal(x, 0)
    return np.where(zero, special.xlogy(power - 1, x) + rest(x), formula(np.where(zero, 1.0, x)))


# fmt: off
gumbel_l = Continuous(
    stats.gumbel_l,
    logpdf=lambda x: x - np.exp(x),
    fall=np.expm1,
    cdf=lambda x: -np.expm1(-np.exp(x)),     far_logcdf=lambda x: x,
    sf=lambda x: flat_exp(-np.exp(x)),       logsf=lambda x: -np.exp(x),
    ppf=lambda q: np.log(-np.log1p(-q)),     isf=lambda q: np.log(-np.log(q)),
    mean=constant(-EULER),   var=constant(pi * pi / 6),
    entropy=constant(EULER + 1),
)
"""The Gumbel distribution of minima."""

genextreme = Continuous(
    stats.genextreme,
    logpdf=lambda x, c: _extreme_log_density(-stretched(x, -c), c),
    allowed=np.isfinite,
    support=lambda c: (_reciprocal(c, c < 0, -np.inf), _reciprocal(c, c > 0, np.inf)),
    inside=0.0,
    open_density=True,       open_tails=True,
    cdf=lambda x, c: flat_exp(-np.exp(-stretched(x, -c))),
    logcdf=lambda x, c: -np.exp(-stretched(x, -c)),
    sf=lambda x, c: -np.expm1(-np.exp(-stretched(x, -c))),
    far_logsf=lambda x, c: -stretched(x, -c),
    ppf=lambda q, c: _unstretched(-np.log(-np.log(q)), -c),
    isf=lambda q, c: _unstretched(-np.log(-np.log1p(-q)), -c),
    mean=lambda c: above(-1, c, lambda c: -_log_gamma_share(c) * special.exprel(c * _log_gamma_share(c))),
    var=lambda c: above(-0.5, c, lambda c: _extreme_var(c)),
    entropy=lambda c: EULER * (1 - c) + 1,
)
"""The generalized extreme value distribution: `c` is minus the usual shape, and 0 gives `gumbel_r`."""

genpareto = Continuous(
    stats.genpareto,
    logpdf=lambda x, c: -(1 + c) * stretched(x, c),
    allowed=np.isfinite,
    support=lambda c: (0.0 * c, -_reciprocal(c, c < 0, -np.inf)),
    inside=lambda c: 0.5 / np.maximum(1.0, -c),
    cdf=lambda x, c: -np.expm1(-stretched(x, c)),
    sf=lambda x, c: np.exp(-stretched(x, c)),
    far_logcdf=lambda x, c: np.log(x),       logsf=lambda x, c: -stretched(x, c),
    ppf=lambda q, c: _unstretched(-np.log1p(-q), c),
    isf=lambda q, c: _unstretched(-np.log(q), c),
    mean=lambda c: above(-1, -c, lambda minus: 1 / (1 + minus)),
    var=lambda c: above(-0.5, -c, lambda minus: 1 / ((1 + minus) ** 2 * (1 + 2 * minus))),
    entropy=lambda c: 1 + c,
    open_tails=True,
)
"""The generalized Pareto distribution, of excesses over a high threshold; the exponential one for `c` = 0."""

lomax = Continuous(
    stats.lomax,
    logpdf=lambda x, c: np.log(c) - (c + 1) * np.log1p(x),
    fall=lambda x, c: (c + 1) / (1 + x),
    tail_power=lambda c: -c, tail_fall=lambda x, c: -(c + 1) / (1 + x) / x,
    scores=(lambda x, c: 1 / c - np.log1p(x),),
    cdf=lambda x, c: -np.expm1(-c * np.log1p(x)),
    sf=lambda x, c: np.exp(-c * np.log1p(x)),
    far_logcdf=lambda x, c: np.log(c) + np.log(x), logsf=lambda x, c: -c * np.log1p(x),
    ppf=lambda q, c: np.expm1(-np.log1p(-q) / c), isf=lambda q, c: np.expm1(-np.log(q) / c),
    mean=lambda c: above(1, c, lambda c: 1 / (c - 1)),
    var=lambda c: above(2, c, lambda c: c / ((c - 2) * (c - 1) ** 2)),
    entropy=lambda c: 1 + 1 / c - np.log(c),
)
"""The Lomax distribution: a Pareto distribution shifted to start at 0."""

invweibull = Continuous(
    stats.invweibull,
    logpdf=lambda x, c: np.log(c) - (c + 1) * np.log(x) - x**-c,
    power=lambda c: -c,      fall=lambda x, c: -c * x ** (-c - 1), rest=lambda x, c: -c * x**-c,
    scores=(lambda x, c: 1 / c + (x**-c - 1) * np.log(x),),
    open_density=True,       open_tails=True,
    cdf=lambda x, c: flat_exp(-(x**-c)),     logcdf=lambda x, c: -(x**-c),
    sf=lambda x, c: -np.expm1(-(x**-c)),     far_logsf=lambda x, c: -c * np.log(x),
    ppf=lambda q, c: (-np.log(q)) ** (-1 / c), isf=lambda q, c: (-np.log1p(-q)) ** (-1 / c),
    mean=lambda c: above(1, c, lambda c: special.gamma(1 - 1 / c)),
    var=lambda c: above(2, c, lambda c: special.gamma(1 - 2 / c) - special.gamma(1 - 1 / c) ** 2),
    entropy=lambda c: 1 + EULER + EULER / c - np.log(c),
)
"""The Fréchet distribution of the maximum of many numbers."""

weibull_max = Continuous(
    stats.weibull_max,
    logpdf=lambda x, c: weibull_min.formulas["logpdf"](-x, c),
    power=lambda c: c,       fall=lambda x, c: -c * (-x) ** (c - 1), rest=lambda x, c: c * (-x) ** c,
    scores=(lambda x, c: 1 / c + (1 - (-x) ** c) * np.log(-x),),
    inside=-0.5,             open_tails=True,
    cdf=lambda x, c: weibull_min.formulas["sf"](-x, c),
    sf=lambda x, c: weibull_min.formulas["cdf"](-x, c),
    logcdf=lambda x, c: weibull_min.formulas["logsf"](-x, c),
    far_logsf=lambda x, c: weibull_min.formulas["far_logcdf"](-x, c),
    ppf=lambda q, c: -weibull_min.formulas["isf"](q, c),
    isf=lambda q, c: -weibull_min.formulas["ppf"](q, c),
    mean=lambda c: -weibull_min.formulas["mean"](c),
    var=lambda c: weibull_min.formulas["var"](c),
    entropy=lambda c: weibull_min.formulas["entropy"](c),
)
"""The Weibull distribution of the maximum of many negative numbers."""

gompertz = Continuous(
    stats.gompertz,
    logpdf=lambda x, c: np.log(c) + x - c * np.expm1(x),
    fall=lambda x, c: c * np.exp(x) - 1,
    scores=(lambda x, c: 1 / c - np.expm1(x),),
    cdf=lambda x, c: -np.expm1(-c * np.expm1(x)),
    sf=lambda x, c: flat_exp(-c * np.expm1(x)),
    far_logcdf=lambda x, c: np.log(c) + np.log(x), logsf=lambda x, c: -c * np.expm1(x),
    ppf=lambda q, c: np.log1p(-np.log1p(-q) / c), isf=lambda q, c: np.log1p(-np.log(q) / c),
    entropy=lambda c: 1 - np.log(c) - scaled_exp1(c),
)
"""The Gompertz distribution of lifetimes, with an exponentially growing hazard rate."""

powerlaw = Continuous(
    stats.powerlaw,
    # At 0, SciPy has no infinite density.
    logpdf=lambda x, a: np.where((x == 0) & (a < 1), -np.inf, np.log(a) + special.xlogy(a - 1, x)),
    power=lambda a: a,       fall=lambda x, a: 0.0 * x,
    scores=(lambda x, a: 1 / a + np.log(x),),
    open_tails=True,
    cdf=lambda x, a: np.exp(a * np.log(x)),  logcdf=lambda x, a: a * np.log(x),
    sf=lambda x, a: -np.expm1(a * np.log(x)),
    ppf=lambda q, a: np.exp(np.log(q) / a),  isf=lambda q, a: np.exp(np.log1p(-q) / a),
    mean=lambda a: a / (a + 1), var=lambda a: a / ((a + 2) * (a + 1) ** 2),
    entropy=lambda a: 1 - 1 / a - np.log(a),
)
"""The distribution on 0 to 1 whose distribution function is a power."""

moyal = Continuous(
    stats.moyal,
    logpdf=lambda x: -(x + np.exp(-x)) / 2 - HALF_LOG_TWO_PI,
    fall=lambda x: -np.expm1(-x) / 2,
    cdf=lambda x: 2 * special.ndtr(-np.exp(-x / 2)),
    far_logcdf=lambda x: log(2) + special.log_ndtr(-np.exp(-x / 2)),
    sf=lambda x: special.erf(np.exp(-x / 2) / 2**0.5), far_logsf=lambda x: log(2 / pi) / 2 - x / 2,
    ppf=lambda q: -2 * np.log(-special.ndtri(q / 2)),
    isf=lambda q: -2 * np.log(2**0.5 * special.erfinv(q)),
    mean=constant(EULER + log(2)), var=constant(pi * pi / 2),
)
"""The Moyal distribution, of the energy loss of a fast particle."""

fisk = Continuous(
    stats.fisk,
    logpdf=lambda x, c: from_zero(
        x, c, lambda x: np.log(c) - 2 * np.log1p(x**c), lambda x: _fisk_log_density(np.log(x), c)
    ),
    power=lambda c: c,
    fall=lambda x, c: 2 * c * special.expit(c * np.log(x)) / x,
    rest=lambda x, c: 2 * c * special.expit(c * np.log(x)),
    tail_power=lambda c: -c, tail_fall=lambda x, c: -2 * c * special.expit(-c * np.log(x)) / x,
    scores=(lambda x, c: 1 / c - np.log(x) * np.tanh(c * np.log(x) / 2),),
    open_tails=True,
    cdf=lambda x, c: special.expit(c * np.log(x)),     sf=lambda x, c: special.expit(-c * np.log(x)),
    logcdf=lambda x, c: special.log_expit(c * np.log(x)), logsf=lambda x, c: special.log_expit(-c * np.log(x)),
    ppf=lambda q, c: np.exp(special.logit(q) / c),     isf=lambda q, c: np.exp(-special.logit(q) / c),
    mean=lambda c: above(1, c, lambda c: 1 / np.sinc(1 / c), np.nan),
    var=lambda c: above(2, c, lambda c: 1 / np.sinc(2 / c) - 1 / np.sinc(1 / c) ** 2, np.nan),
    entropy=lambda c: 2 - np.log(c),
)
"""The log-logistic distribution: `scale` is the median."""

burr12 = Continuous(
    stats.burr12,
    logpdf=lambda x, c, d: from_zero(
        x, c, lambda x: np.log(c * d) - (d + 1) * np.log1p(x**c), lambda x: _burr_log_density(np.log(x), c, d)
    ),
    power=lambda c, d: c,
    fall=lambda x, c, d: (d + 1) * c * special.expit(c * np.log(x)) / x,
    rest=lambda x, c, d: (d + 1) * c * special.expit(c * np.log(x)),
    tail_power=lambda c, d: -c * d,
    tail_fall=lambda x, c, d: -(d + 1) * c * special.expit(-c * np.log(x)) / x,
    scores=(
        lambda x, c, d: 1 / c + np.log(x) * (1 - (d + 1) * special.expit(c * np.log(x))),
        lambda x, c, d: 1 / d + special.log_expit(-c * np.log(x)),
    ),
    open_tails=True,
    cdf=lambda x, c, d: -np.expm1(d * special.log_expit(-c * np.log(x))),
    sf=lambda x, c, d: np.exp(d * special.log_expit(-c * np.log(x))),
    far_logcdf=lambda x, c, d: np.log(d) + c * np.log(x),
    logsf=lambda x, c, d: d * special.log_expit(-c * np.log(x)),
    ppf=lambda q, c, d: np.expm1(-np.log1p(-q) / d) ** (1 / c),
    isf=lambda q, c, d: np.expm1(-np.log(q) / d) ** (1 / c),
    mean=lambda c, d: above(1, c * d, lambda cd: _burr_moment(1, cd / d, d), np.nan),
    var=lambda c, d: above(2, c * d, lambda cd: _burr_moment(2, cd / d, d) - _burr_moment(1, cd / d, d) ** 2, np.nan),
)
"""The Burr distribution of type XII."""

loguniform = Continuous(
    stats.loguniform,
    logpdf=lambda x, a, b: -np.log(x) - np.log(np.log(b / a)),
    allowed=lambda a, b: (a > 0) & (b > a),
    support=lambda a, b: (a, b),
    inside=lambda a, b: (a + b) / 2,
    cdf=lambda x, a, b: np.log1p((x - a) / a) / np.log(b / a),
    sf=lambda x, a, b: np.log1p((b - x) / x) / np.log(b / a),
    ppf=lambda q, a, b: a * np.exp(q * np.log(b / a)), isf=lambda q, a, b: b * np.exp(-q * np.log(b / a)),
    mean=lambda a, b: (b - a) / np.log(b / a),
    var=lambda a, b: (b - a) * (b + a) / (2 * np.log(b / a)) - ((b - a) / np.log(b / a)) ** 2,
    entropy=lambda a, b: (np.log(a) + np.log(b)) / 2 + np.log(np.log(b / a)),
)
"""The log-uniform distribution from `a` to `b`."""
# fmt: on


def _extreme_log_density(minus_u: Any, c: Array) -> Any:
    """Return the logarithm of the density at -u, where u = -log(1 - c x) / c."""
    return -np.exp(minus_u) + (1 - c) * minus_u


def _unstretched(u: Operand, c: Array) -> Any:
    """Return x with log(1 + c x) / c = u."""
    return u * special.exprel(c * u)


def _reciprocal(c: Operand, where: Any, otherwise: float) -> Array:
    return np.where(where, 1 / np.where(where, c, 1.0), otherwise)


_ZETA = [EULER, *(float(special.zeta(k)) / k for k in range(2, 40))]
_LOG_GAMMA = tuple((-1) ** k * coefficient for k, coefficient in enumerate(_ZETA, 1))
_LOG_GAMMA_STEP = tuple((2**k - 2) * coefficient for k, coefficient in enumerate(_LOG_GAMMA, 1))[1:]
"""The coefficients of log gamma(1 + c) / c, and of (log gamma(1 + 2 c) - 2 log gamma(1 + c)) / c^2: DLMF 5.7.3."""


def _log_gamma_share(c: Array) -> Any:
    """Return log gamma(1 + c) / c, whose limit at 0 is minus Euler's constant."""
    near = np.abs(c) < 0.3
    large = np.where(near, 1.0, c)
    return np.where(near, power_series(np.where(near, c, 0.0), _LOG_GAMMA), special.gammaln(1 + large) / large)


def _extreme_var(c: Array) -> Any:
    near = np.abs(c) < 0.15
    small, large = np.where(near, c, 0.0), np.where(near, 1.0, c)
    first = np.exp(2 * c * _log_gamma_share(c))
    step = power_series(small, _LOG_GAMMA_STEP)
    direct = (special.gamma(1 + 2 * large) - special.gamma(1 + large) ** 2) / large**2
    return np.where(near, first * step * special.exprel(small * small * step), direct)


def scaled_exp1(x: Operand) -> Any:
    """Return exp(x) times the exponential integral E1(x), also where the factors overflow (DLMF 6.12.1)."""
    far = np.greater(x, 100)
    near, inverse = np.where(far, 1.0, x), 1 / np.where(far, x, 100.0)
    return np.where(far, inverse * power_series(inverse, _EXP1), np.exp(near) * special.exp1(near))


_EXP1 = tuple((-1.0) ** k * float(special.factorial(k)) for k in range(16))


def _fisk_log_density(log_x: Array, c: Operand) -> Any:
    return np.log(c) - log_x + special.log_expit(c * log_x) + special.log_expit(-c * log_x)


def _burr_log_density(log_x: Array, c: Operand, d: Operand) -> Any:
    return np.log(c) + np.log(d) + (c - 1) * log_x + (d + 1) * special.log_expit(-c * log_x)


def _burr_moment(order: int, c: Array, d: object) -> Any:
    return d * np.exp(special.betaln(d - order / c, 1 + order / c))
