"""Skewed and generalized variants of the normal, the logistic and the Laplace distribution.

As in `_continuous`, each by formulas of its standard form.
"""

from __future__ import annotations

from collections.abc import Callable
from math import e, log, pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.scipy import _special as special
from fgrad.scipy.special.errorfunctions import erfcx_slope
from fgrad.scipy.special.polygammas import polygamma
from fgrad.scipy.stats._continuous import EULER, above, constant, laplace, lognorm, norm, transformed
from fgrad.scipy.stats._extremes import scaled_exp1
from fgrad.scipy.stats._gammas import HALF_LOG_TWO_PI, digamma_rest, digamma_step, stirling_rest
from fgrad.scipy.stats._integrals import flat_exp, gauss_legendre
from fgrad.scipy.stats._laws import BETA, GAMMA, log1p_square, log_kernel, log_tail
from fgrad.scipy.stats._quantiles import inverse
from fgrad.scipy.stats._univariate import Continuous, log_of_complement
from fgrad.typing import Array, Operand

_TINY = float(np.finfo(np.float64).tiny)
_LOG_TINY = log(_TINY)
"""The smallest number with all digits, and its logarithm."""


def _all_fixed(formulas: dict[str, Any], *shapes: float) -> dict[str, Any]:
    """Return formulas of tails and quantiles with fixed shape parameters."""
    return {name: fixed(formulas[name], *shapes) for name in ("cdf", "logcdf", "sf", "logsf", "ppf", "isf")}


def fixed(formula: Callable[..., Any], *shapes: float) -> Callable[..., Any]:
    """Return a formula with fixed shape parameters."""
    return lambda *first: formula(*first, *shapes)


def of_second(shape: Any, other: Array) -> Any:
    """Return where the second of two shape parameters is positive, for any first one."""
    return np.logical_and(np.isfinite(shape), np.greater(other, 0))


# fmt: off
hypsecant = Continuous(
    stats.hypsecant,
    logpdf=lambda x: log(2 / pi) - np.logaddexp(x, -x),
    fall=np.tanh,
    cdf=lambda x: _secant_cdf(x),            sf=lambda x: _secant_cdf(-x),
    far_logcdf=lambda x: log(2 / pi) + x,    far_logsf=lambda x: log(2 / pi) - x,
    ppf=lambda q: np.log(np.tan(pi / 2 * q)), isf=lambda q: -np.log(np.tan(pi / 2 * q)),
    mean=constant(0.0),      var=constant(pi * pi / 4),
    entropy=constant(log(2 * pi)),
)
"""The hyperbolic secant distribution."""

genlogistic = Continuous(
    stats.genlogistic,
    logpdf=lambda x, c: np.log(c) + special.log_expit(-x) + c * special.log_expit(x),
    fall=lambda x, c: special.expit(x) - c * special.expit(-x),
    scores=(lambda x, c: 1 / c + special.log_expit(x),),
    cdf=lambda x, c: np.exp(c * special.log_expit(x)), logcdf=lambda x, c: c * special.log_expit(x),
    sf=lambda x, c: -np.expm1(c * special.log_expit(x)), far_logsf=lambda x, c: np.log(c) - x,
    ppf=lambda q, c: np.log(q) / c - np.log(-np.expm1(np.log(q) / c)),
    isf=lambda q, c: np.log1p(-q) / c - np.log(-np.expm1(np.log1p(-q) / c)),
    mean=lambda c: EULER + special.digamma(c), var=lambda c: pi * pi / 6 + polygamma(1, c),
    entropy=lambda c: special.digamma(c + 1) + EULER + 1 - np.log(c),
)
"""The generalized logistic distribution, whose distribution function is the power `c` of the logistic one."""

skewnorm = Continuous(
    stats.skewnorm,
    logpdf=lambda x, a: log(2) - x * x / 2 - HALF_LOG_TWO_PI + special.log_ndtr(a * x),
    allowed=np.isfinite,
    cdf=lambda x, a: _skewnorm_cdf(x, a),    sf=lambda x, a: _skewnorm_cdf(-x, -a),
    logcdf=lambda x, a: _skewnorm_logcdf(x, a), logsf=lambda x, a: _skewnorm_logcdf(-x, -a),
    ppf=lambda q, a: apply(_skewnorm_ppf, (q, a)), isf=lambda q, a: -apply(_skewnorm_ppf, (q, -a)),
    mean=lambda a: sqrt(2 / pi) * a / np.hypot(1.0, a),
    var=lambda a: (1 + (1 - 2 / pi) * a * a) / (1 + a * a),
)
"""The skew normal distribution: `a` is its skewness, and 0 gives the normal one."""

levy = Continuous(
    stats.levy,
    logpdf=lambda x: -HALF_LOG_TWO_PI - 1.5 * np.log(x) - 0.5 / x,
    power=constant(-0.5),    fall=lambda x: -0.5 / (x * x), rest=lambda x: -0.5 / x,
    squared=-0.5,
    open_density=True,       open_tails=True,
    cdf=lambda x: 2 * special.ndtr(-1 / np.sqrt(x)),
    far_logcdf=lambda x: log(2) + special.log_ndtr(-1 / np.sqrt(x)),
    sf=lambda x: special.erf(1 / np.sqrt(2 * x)),
    ppf=lambda q: special.ndtri(q / 2) ** -2.0, isf=lambda q: 0.5 * special.erfinv(q) ** -2.0,
    mean=constant(np.inf),   var=constant(np.inf),
    entropy=constant((1 + 3 * EULER + log(16 * pi)) / 2),
)
"""The Lévy distribution, of the first passage time of a Brownian motion."""

invgauss = Continuous(
    stats.invgauss,
    logpdf=lambda x, mu: -HALF_LOG_TWO_PI - 1.5 * np.log(x) - (x / mu - 1) ** 2 / (2 * x),
    power=constant(-0.5),    fall=lambda x, mu: (1 / (mu * mu) - 1 / (x * x)) / 2,
    rest=lambda x, mu: (x / (mu * mu) - 1 / x) / 2,
    scores=(lambda x, mu: (x / mu - 1) / (mu * mu),),
    open_density=True,       open_tails=True,
    cdf=lambda x, mu: flat_exp(_passage_logcdf(x, mu)), logcdf=lambda x, mu: _passage_logcdf(x, mu),
    sf=lambda x, mu: flat_exp(_passage_logsf(x, mu)),   logsf=lambda x, mu: _passage_logsf(x, mu),
    ppf=lambda q, mu: apply(_passage_ppf, (q, mu)),     isf=lambda q, mu: apply(_passage_isf, (q, mu)),
    mean=lambda mu: mu,      var=lambda mu: mu**3,
    entropy=lambda mu: 0.5 + HALF_LOG_TWO_PI + 1.5 * (np.log(mu) - scaled_exp1(2 / mu)),
)
"""The inverse Gaussian distribution, of the first passage time of a Brownian motion with drift."""

wald = Continuous(
    stats.wald,
    logpdf=fixed(invgauss.formulas["logpdf"], 1.0),
    power=constant(-0.5),    fall=lambda x: (1 - 1 / (x * x)) / 2, rest=lambda x: (x - 1 / x) / 2,
    open_density=True,       open_tails=True,
    **_all_fixed(invgauss.formulas, 1.0),
    mean=constant(1.0),      var=constant(1.0),
    entropy=constant(0.5 + HALF_LOG_TWO_PI - 1.5 * float(scaled_exp1(2.0))),
)
"""The Wald distribution: the inverse Gaussian one with the mean 1."""

gibrat = Continuous(
    stats.gibrat,
    logpdf=fixed(lognorm.formulas["logpdf"], 1.0),
    power=constant(0.0),     fall=lambda x: np.log(x) / x, rest=np.log,
    open_density=True,       open_tails=True,
    **_all_fixed(lognorm.formulas, 1.0),
    mean=constant(sqrt(e)),  var=constant(e * (e - 1)),
    entropy=constant(0.5 + HALF_LOG_TWO_PI),
)
"""The Gibrat distribution: the log-normal one with `s` = 1."""

gennorm = Continuous(
    stats.gennorm,
    logpdf=lambda x, beta: np.log(beta / 2) - special.gammaln(1 / beta) - _size_power(x, beta),
    cdf=lambda x, beta: _gennorm_cdf(x, beta), sf=lambda x, beta: _gennorm_cdf(-x, beta),
    far_logcdf=lambda x, beta: GAMMA.far_upper(np.abs(x) ** beta, 1 / beta) - log(2),
    far_logsf=lambda x, beta: GAMMA.far_upper(np.abs(x) ** beta, 1 / beta) - log(2),
    ppf=lambda q, beta: -_gennorm_isf(q, beta), isf=lambda q, beta: _gennorm_isf(q, beta),
    mean=lambda beta: 0.0 * beta,
    var=lambda beta: np.exp(special.gammaln(3 / beta) - special.gammaln(1 / beta)),
    entropy=lambda beta: 1 / beta - np.log(beta / 2) + special.gammaln(1 / beta),
)
"""The generalized normal distribution: `beta` is 2 for the normal one, 1 for the Laplace one."""

loggamma = Continuous(
    stats.loggamma,
    logpdf=lambda x, c: c * x - np.exp(x) - special.gammaln(c),
    fall=lambda x, c: np.exp(x) - c,
    scores=(lambda x, c: x - special.digamma(c),),
    cdf=lambda x, c: _loggamma_tail(x, c, np.exp, GAMMA.cdf),
    sf=lambda x, c: _loggamma_tail(x, c, lambda low: -np.expm1(low), GAMMA.sf),
    far_logcdf=lambda x, c: np.where(x < -300, c * x - special.gammaln(c + 1), GAMMA.far_lower(np.exp(x), c)),
    far_logsf=lambda x, c: GAMMA.far_upper(np.exp(x), c),
    ppf=lambda q, c: _loggamma_quantile(GAMMA.ppf(q, c), np.log(q), c),
    isf=lambda q, c: _loggamma_quantile(GAMMA.isf(q, c), np.log1p(-q), c),
    mean=special.digamma,    var=lambda c: polygamma(1, c),
    entropy=lambda c: HALF_LOG_TWO_PI + 0.5 - np.log(c) / 2 + stirling_rest(c) + c * digamma_rest(c),
)
"""The distribution of the logarithm of a gamma distributed number."""

laplace_asymmetric = Continuous(
    stats.laplace_asymmetric,
    logpdf=lambda x, kappa: x * np.where(x >= 0, -kappa, 1 / kappa) - np.log(kappa + 1 / kappa),
    cdf=lambda x, kappa: np.exp(_lopsided(x, kappa)), logcdf=lambda x, kappa: _lopsided(x, kappa),
    sf=lambda x, kappa: np.exp(_lopsided(-x, 1 / kappa)), logsf=lambda x, kappa: _lopsided(-x, 1 / kappa),
    ppf=lambda q, kappa: _lopsided_ppf(q, 1 - q, kappa), isf=lambda q, kappa: -_lopsided_ppf(q, 1 - q, 1 / kappa),
    mean=lambda kappa: 1 / kappa - kappa, var=lambda kappa: kappa**2 + kappa**-2,
    entropy=lambda kappa: 1 + np.log(kappa + 1 / kappa),
)
"""The Laplace distribution with another rate on each side: `kappa` above 0, and 1 / `kappa` below."""

loglaplace = Continuous(
    stats.loglaplace,
    logpdf=lambda x, c: np.log(c / 2) - np.log(x) - c * np.abs(np.log(x)),
    power=lambda c: c,
    fall=lambda x, c: np.where(x > 1, 2 * c, np.where(x < 1, 0.0 * c, c)) / x,
    tail_power=lambda c: -c, tail_fall=lambda x, c: 0.0 * x,
    scores=(lambda x, c: 1 / c - np.abs(np.log(x)),),
    open_density=True,       open_tails=True,
    **transformed(laplace.formulas, lambda x, c: c * np.log(x), lambda z, c: np.exp(z / c)),
    mean=lambda c: above(1, c, lambda c: c * c / (c * c - 1)),
    var=lambda c: above(2, c, lambda c: c * c / (c * c - 4) - (c * c / (c * c - 1)) ** 2),
    entropy=lambda c: 1 + np.log(2 / c),
)
"""The distribution of numbers whose logarithm is Laplace distributed."""

betaprime = Continuous(
    stats.betaprime,
    logpdf=lambda x, a, b: special.xlogy(a - 1, x) - (a + b) * np.log1p(x) - special.betaln(a, b),
    power=lambda a, b: a,    fall=lambda x, a, b: (a + b) / (1 + x), rest=lambda x, a, b: (a + b) * (x / (1 + x)),
    tail_power=lambda a, b: -b, tail_fall=lambda x, a, b: -(a + b) / (1 + x) / x,
    scores=(
        lambda x, a, b: np.log(x) - np.log1p(x) + digamma_step(a, b),
        lambda x, a, b: -np.log1p(x) + digamma_step(b, a),
    ),
    open_density=True,       open_tails=True,
    cdf=lambda x, a, b: np.where(x > 1, BETA.sf(1 / (1 + x), b, a), BETA.cdf(x / (1 + x), a, b)),
    sf=lambda x, a, b: np.where(x > 1, BETA.cdf(1 / (1 + x), b, a), BETA.sf(x / (1 + x), a, b)),
    far_logcdf=lambda x, a, b: BETA.far_lower(x / (1 + x), a, b),
    far_logsf=lambda x, a, b: BETA.far_lower(1 / (1 + x), b, a),
    ppf=lambda q, a, b: apply(_odds_ppf, (q, a, b)), isf=lambda q, a, b: apply(_odds_isf, (q, a, b)),
    mean=lambda a, b: above(1, b, lambda b: a / (b - 1)),
    var=lambda a, b: above(2, b, lambda b: a * (a + b - 1) / ((b - 2) * (b - 1) ** 2)),
)
"""The distribution of the odds of a beta distributed probability."""

johnsonsu = Continuous(
    stats.johnsonsu,
    logpdf=lambda x, a, b: (
        np.log(b) - HALF_LOG_TWO_PI - log1p_square(x) / 2 - (a + b * np.arcsinh(x)) ** 2 / 2
    ),
    allowed=of_second,
    **transformed(norm.formulas, lambda x, a, b: a + b * np.arcsinh(x), lambda z, a, b: np.sinh((z - a) / b)),
    mean=lambda a, b: -np.exp(b**-2 / 2) * np.sinh(a / b),
    var=lambda a, b: np.expm1(b**-2) * (np.exp(b**-2) * np.cosh(2 * a / b) + 1) / 2,
)
"""Johnson's unbounded distribution: `a + b arcsinh(x)` is normal."""

johnsonsb = Continuous(
    stats.johnsonsb,
    logpdf=lambda x, a, b: (
        np.log(b) - HALF_LOG_TWO_PI - np.log(x) - np.log1p(-x) - (a + b * special.logit(x)) ** 2 / 2
    ),
    allowed=of_second,
    open_density=True,       open_tails=True,
    **transformed(norm.formulas, lambda x, a, b: a + b * special.logit(x), lambda z, a, b: special.expit((z - a) / b)),
)
"""Johnson's bounded distribution: `a + b log(x / (1 - x))` is normal."""

fatiguelife = Continuous(
    stats.fatiguelife,
    logpdf=lambda x, c: (
        np.log1p(x) - np.log(2 * c) - HALF_LOG_TWO_PI - 1.5 * np.log(x) - ((x - 1) / c) ** 2 / (2 * x)
    ),
    power=constant(-0.5),
    fall=lambda x, c: (1 - 1 / (x * x)) / (2 * c * c) - 1 / (1 + x),
    rest=lambda x, c: (x - 1 / x) / (2 * c * c) - x / (1 + x),
    scores=(lambda x, c: (((x - 1) / c) ** 2 / x - 1) / c,),
    open_density=True,       open_tails=True,
    **transformed(
        norm.formulas,
        lambda x, c: (np.sqrt(x) - 1 / np.sqrt(x)) / c,
        lambda z, c: np.exp(2 * np.arcsinh(c * z / 2)),
    ),
    mean=lambda c: 1 + c * c / 2, var=lambda c: c * c * (1 + 1.25 * c * c),
)
"""The Birnbaum-Saunders distribution of the fatigue life of a material."""

powernorm = Continuous(
    stats.powernorm,
    logpdf=lambda x, c: np.log(c) - x * x / 2 - HALF_LOG_TWO_PI + (c - 1) * special.log_ndtr(-x),
    cdf=lambda x, c: -np.expm1(c * special.log_ndtr(-x)), far_logcdf=lambda x, c: np.log(c) + special.log_ndtr(x),
    sf=lambda x, c: flat_exp(c * special.log_ndtr(-x)),   logsf=lambda x, c: c * special.log_ndtr(-x),
    ppf=lambda q, c: -special.ndtri_exp(np.log1p(-q) / c), isf=lambda q, c: -special.ndtri_exp(np.log(q) / c),
)
"""The distribution whose survival function is the power `c` of the normal one."""

arcsine = Continuous(
    stats.arcsine,
    logpdf=lambda x: -log(pi) - (np.log(x) + np.log1p(-x)) / 2,
    power=constant(0.5),     fall=lambda x: 0.5 / (x - 1),
    open_tails=True,
    cdf=lambda x: 2 / pi * np.arctan2(np.sqrt(x), np.sqrt(1 - x)),
    sf=lambda x: 2 / pi * np.arctan2(np.sqrt(1 - x), np.sqrt(x)),
    ppf=lambda q: np.sin(pi / 2 * q) ** 2,        isf=lambda q: np.cos(pi / 2 * q) ** 2,
    mean=constant(0.5),      var=constant(1 / 8),
    entropy=constant(log(pi / 4)),
)
"""The arcsine distribution, of the fraction of time during which a random walk is positive."""
# fmt: on


def _secant_cdf(x: Operand) -> Any:
    positive = np.greater(x, 0)
    tail = 2 / pi * np.arctan(np.exp(np.where(positive, -x, x)))
    return np.where(positive, 1 - tail, tail)


def _skewnorm_log_tail(x: Array, a: Array) -> Any:
    """Return the logarithm of the integral up to `x`, below the mode: the density is log-concave."""
    falling = np.greater(a, 0)  # with the factor ndtr(a x) of the density

    def log_factor(s: Array, x: Array, a: Array) -> Any:
        """Return the logarithm of ndtr(a (x - s)) / ndtr(a x), which is that of erfcx where both are small."""
        small, other = np.where(falling[..., None], a, 1.0), np.where(falling[..., None], 0.0, a)
        low = -np.where(falling[..., None], x, -1.0) / sqrt(2)
        scaled = np.log(special.erfcx(small * (low + s / sqrt(2))) / special.erfcx(small * low))
        direct = special.log_ndtr(other * (x - s)) - special.log_ndtr(other * x)
        return np.where(falling[..., None], scaled - small * small * s * (s - 2 * x) / 2, direct)

    def fall(s: Array, x: Array, a: Array) -> Any:
        return s * (s - 2 * x) / 2 - log_factor(s, x, a)

    def steepness(x: Array, a: Array) -> Any:
        return a * sqrt(2 / pi) / special.erfcx(-a * x / sqrt(2)) - x

    return skewnorm.formulas["logpdf"](x, a) + log_tail(fall, steepness, x, a)


def _skewnorm_parts(x: Array, a: Array) -> tuple[Any, Any, Any]:
    """Return the log tail function that uses an integral in the lower tail, and the distribution function elsewhere."""
    x, a = x + 0.0 * a, a + 0.0 * x
    far = np.less(x, np.where(np.greater(a, 0), 0.0, -1.0))
    log_tail = _skewnorm_log_tail(np.where(far, x, -1.0), np.where(far, a, 1.0))
    x, a = np.where(far, 0.0, x), np.where(far, 0.0, a)
    return far, log_tail, special.ndtr(x) - 2 * special.owens_t(x, a)


def _skewnorm_cdf(x: Array, a: Array) -> Any:
    far, log_tail, rest = _skewnorm_parts(x, a)
    return np.where(far, flat_exp(log_tail), rest)


def _skewnorm_logcdf(x: Array, a: Array) -> Any:
    far, log_tail, rest = _skewnorm_parts(x, a)
    complement = _skewnorm_cdf(-np.where(far, 0.0, x), -np.where(far, 0.0, a))
    return np.where(far, log_tail, log_of_complement(rest, complement))


_skewnorm_ppf: Primitive = inverse(
    "skewnorm_ppf", stats.skewnorm.ppf, _skewnorm_cdf, skewnorm.formulas["logpdf"], (-1.5, 1.5)
)


def _passage_logcdf(x: Array, mu: Array) -> Any:
    root = 1 / np.sqrt(x)
    first, second = special.log_ndtr(root * (x / mu - 1)), special.log_ndtr(-root * (x / mu + 1))
    return first + np.log1p(np.exp(2 / mu + second - first))


def _passage_logsf(x: Array, mu: Array) -> Any:
    """Return the logarithm of the survival function, from a difference of Mills ratios R(u) - R(v).

    It is this difference times the normal density at u, for u and v = (x / mu -+ 1) / sqrt(x). Where both are positive
    and close, it is the integral of -R' between them.
    """
    root = 1 / np.sqrt(x)
    low, high = root * (x / mu - 1), root * (x / mu + 1)
    near = np.logical_and(np.greater(low, 0), 2 * root < np.maximum(2.0, low))
    log_low, log_high = special.log_ndtr(-low), special.log_ndtr(-high)
    shift = np.where(near, -1.0, 2 / mu + log_high - log_low)
    start, length = np.where(near, low, 1.0), np.where(near, 2 * root, 1.0)
    mean_fall = np.sum(_FEW_WEIGHTS * _mills_fall(start[..., None] + length[..., None] * _FEW_NODES), axis=-1)
    integral = np.log(length * mean_fall) - start * start / 2 - HALF_LOG_TWO_PI
    return np.where(near, integral, log_low + np.log1p(-np.exp(shift)))


_FEW_NODES, _FEW_WEIGHTS = gauss_legendre(24)


def _mills_fall(t: Array) -> Any:
    """Return minus the derivative of the Mills ratio, (1 - ndtr(t)) / density(t), for positive numbers."""
    return -erfcx_slope(t / sqrt(2)) * sqrt(pi) / 2


_passage_ppf: Primitive = inverse(
    "invgauss_ppf", stats.invgauss.ppf,
    lambda x, mu: np.exp(_passage_logcdf(x, mu)), invgauss.formulas["logpdf"], (0.5, 1.5),
)  # fmt: skip
_passage_isf: Primitive = inverse(
    "invgauss_isf", stats.invgauss.isf,
    lambda x, mu: np.exp(_passage_logsf(x, mu)), invgauss.formulas["logpdf"], (0.5, 1.5), above=True,
)  # fmt: skip


def _size_power(x: Array, beta: Any) -> Any:
    """Return abs(x)**beta; at its cusp it does not move, so that an infinite slope by `x` leaves others finite."""
    cusp = np.logical_and(np.equal(x, 0), np.less(beta, 1))
    return np.where(cusp, 0.0, np.abs(x) ** beta)


def _gennorm_cdf(x: Operand, beta: Any) -> Any:
    positive, middle = np.greater(x, 0), np.equal(x, 0)
    tail = GAMMA.sf(np.abs(np.where(middle, 1.0, x)) ** beta, 1 / beta) / 2
    at_middle = 0.5 + x * beta / 2 / special.gamma(1 / beta)
    return np.where(middle, at_middle, np.where(positive, 1 - tail, tail))


def _gennorm_isf(q: Array, beta: Any) -> Any:
    upper, middle = np.less(q, 0.5), np.equal(q, 0.5)
    part = np.where(middle, 0.25, np.where(upper, q, 1 - q))
    distance = GAMMA.isf(2 * part, 1 / beta) ** (1 / beta)
    at_middle = (0.5 - q) * 2 / beta * special.gamma(1 / beta)
    return np.where(middle, at_middle, np.where(upper, distance, -distance))


def _log_odds_log_density(x: Array, a: Array, b: Array) -> Any:
    """Return the logarithm of the density of log(x), for betaprime distributed `x`."""
    return log_kernel(x / (1 + x), 1 / (1 + x), a, b)


# Not the quotient of two quantiles of the beta distribution, of which one rounds to 1, where its density is infinite.
_odds_ppf: Primitive = inverse(
    "betaprime_ppf", lambda q, a, b: special.betaincinv(a, b, q) / special.betainccinv(b, a, q),
    betaprime.formulas["cdf"], _log_odds_log_density, (0.5, 1.5), (0.5, 1.5), of_log=True,
)  # fmt: skip
_odds_isf: Primitive = inverse(
    "betaprime_isf", lambda q, a, b: special.betainccinv(a, b, q) / special.betaincinv(b, a, q),
    betaprime.formulas["sf"], _log_odds_log_density, (0.5, 1.5), (0.5, 1.5), above=True, of_log=True,
)  # fmt: skip


def _lopsided(x: Operand, kappa: Any) -> Any:
    """Return the logarithm of the distribution function of the asymmetric Laplace distribution."""
    above_zero = np.greater(x, 0)
    low = np.where(above_zero, 0.0, x) / kappa - np.log1p(kappa**-2)
    high = np.log1p(-np.exp(-kappa * np.where(above_zero, x, 0.0)) / (1 + kappa * kappa))
    return np.where(above_zero, high, low)


def _loggamma_tail(x: Array, c: Array, of_log: Callable[[Any], Any], tail: Callable[..., Any]) -> Any:
    """Return a tail; where exp(x) underflows, from the first term of the series: exp(c x) / gamma(c + 1)."""
    low = np.less(x, _LOG_TINY)
    first = of_log(np.where(low, c * x - special.gammaln(c + 1), -1.0))
    return np.where(low, first, tail(np.exp(np.where(low, 0.0, x)), c))


def _loggamma_quantile(quantile: Array, log_probability: Array, c: Array) -> Any:
    """Return the logarithm of a quantile; where this underflows, from the first term of the series."""
    low = np.less(quantile, _TINY)
    return np.where(low, (log_probability + special.gammaln(c + 1)) / c, np.log(np.where(low, 1.0, quantile)))


def _lopsided_ppf(q: Array, complement: Any, kappa: Any) -> Any:
    above_zero = np.greater(q * (1 + kappa * kappa), kappa * kappa)
    low = kappa * np.log(np.where(above_zero, 0.5, q) * (1 + kappa**-2))
    high = -np.log(np.where(above_zero, complement, 0.5) * (1 + kappa * kappa)) / kappa
    return np.where(above_zero, high, low)
