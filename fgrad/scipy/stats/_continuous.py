"""Continuous distributions, each by formulas of its standard form.

The name of a formula is SciPy's method. Missing ones follow from the others: `pdf` from `logpdf`, the
logarithms of `cdf` and `sf` from both. If they have no closed form, they come from `_laws`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import e, log, pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from fgrad.scipy import _special as special
from fgrad.scipy.stats._gammas import (
    HALF_LOG_TWO_PI,
    digamma_rest,
    digamma_step,
    half_digamma_step,
    stirling_rest,
)
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.scipy.stats._laws import BETA, F_RATIO, GAMMA, STUDENT, VONMISES, log1p_square, over_square
from fgrad.scipy.stats._univariate import Continuous, log_of_complement
from fgrad.typing import Array, Operand

EULER = 0.5772156649015329


def constant(value: float) -> Callable[..., Any]:
    """Return the formula of a quantity that is independent of the parameters."""
    return lambda *shapes: value


def above(limit: float, parameter: Any, formula: Callable[[Any], Any], otherwise: Any = np.inf) -> Any:
    """Return a formula of a parameter above a limit, and a constant below."""
    exists = np.greater(parameter, limit)
    return np.where(exists, formula(np.where(exists, parameter, limit + 1)), otherwise)


def transformed(
    formulas: dict[str, Callable[..., Any]], forward: Callable[..., Any], back: Callable[..., Any]
) -> dict[str, Any]:
    """Return formulas of tails and quantiles for a number of which an increasing function has the given ones.

    Args:
        formulas: those of the function's value.
        forward, back: the function and its inverse, of a number and the shape parameters.
    """
    tails = ("cdf", "sf", "logcdf", "logsf")
    return {
        **{name: (lambda x, *shapes, f=formulas[name]: f(forward(x, *shapes))) for name in tails},
        **{name: (lambda q, *shapes, f=formulas[name]: back(f(q), *shapes)) for name in ("ppf", "isf")},
    }


# fmt: off
norm = Continuous(
    stats.norm,
    logpdf=lambda x: x * x * -0.5 - HALF_LOG_TWO_PI,
    fall=lambda x: x,
    cdf=special.ndtr,        logcdf=special.log_ndtr,
    sf=lambda x: special.ndtr(-x),
    logsf=lambda x: special.log_ndtr(-x),
    ppf=special.ndtri,       isf=lambda q: -special.ndtri(q),
    mean=constant(0.0),      var=constant(1.0),
    entropy=constant(HALF_LOG_TWO_PI + 0.5),
)
"""The normal distribution: `loc` is its mean, `scale` its standard deviation."""

expon = Continuous(
    stats.expon,
    logpdf=lambda x: -x,
    fall=lambda x: 1.0,
    cdf=lambda x: -np.expm1(-x),
    sf=lambda x: np.exp(-x), logsf=lambda x: -x,
    ppf=lambda q: -np.log1p(-q), isf=lambda q: -np.log(q),
    mean=constant(1.0),      var=constant(1.0),
    entropy=constant(1.0),
)
"""The exponential distribution: `scale` is its mean."""

uniform = Continuous(
    stats.uniform,
    logpdf=lambda x: 0.0 * x,
    fall=lambda x: 0.0,
    cdf=lambda x: x,         sf=lambda x: 1 - x,
    ppf=lambda q: q,         isf=lambda q: 1 - q,
    mean=constant(0.5),      var=constant(1 / 12),
    entropy=constant(0.0),
)
"""The uniform distribution from `loc` to `loc + scale`."""

laplace = Continuous(
    stats.laplace,
    logpdf=lambda x: -np.abs(x) - log(2),
    fall=np.sign,
    cdf=lambda x: _laplace_cdf(x),        logcdf=lambda x: _laplace_logcdf(x),
    sf=lambda x: _laplace_cdf(-x),        logsf=lambda x: _laplace_logcdf(-x),
    ppf=lambda q: _laplace_ppf(q),        isf=lambda q: -_laplace_ppf(q),
    mean=constant(0.0),      var=constant(2.0),
    entropy=constant(log(2) + 1),
)
"""The Laplace distribution, whose density decays exponentially on both sides."""

logistic = Continuous(
    stats.logistic,
    logpdf=lambda x: special.log_expit(x) + special.log_expit(-x),
    fall=lambda x: np.tanh(x / 2),
    cdf=special.expit,       logcdf=special.log_expit,
    sf=lambda x: special.expit(-x),
    logsf=lambda x: special.log_expit(-x),
    ppf=special.logit,       isf=lambda q: -special.logit(q),
    mean=constant(0.0),      var=constant(pi * pi / 3),
    entropy=constant(2.0),
)
"""The logistic distribution."""

cauchy = Continuous(
    stats.cauchy,
    logpdf=lambda x: -log(pi) - log1p_square(x),
    fall=lambda x: 2 * over_square(x, 1.0),
    tail_power=constant(-1.0), tail_fall=lambda x: -2 * over_square(x, 1.0) / x / x,
    cdf=lambda x: np.arctan2(1.0, -x) / pi,
    sf=lambda x: np.arctan2(1.0, x) / pi,
    ppf=lambda q: -_cauchy_isf(q), isf=lambda q: _cauchy_isf(q),
    mean=constant(np.nan),   var=constant(np.nan),
    entropy=constant(log(4 * pi)),
)
"""The Cauchy distribution, which has no mean."""

gumbel_r = Continuous(
    stats.gumbel_r,
    logpdf=lambda x: -x - np.exp(-x),
    fall=lambda x: -np.expm1(-x),
    cdf=lambda x: flat_exp(-np.exp(-x)),
    logcdf=lambda x: -np.exp(-x),
    sf=lambda x: -np.expm1(-np.exp(-x)), far_logsf=lambda x: -x,
    ppf=lambda q: -np.log(-np.log(q)), isf=lambda q: -np.log(-np.log1p(-q)),
    mean=constant(EULER),    var=constant(pi * pi / 6),
    entropy=constant(EULER + 1),
)
"""The Gumbel distribution, of the maximum of many numbers."""

halfnorm = Continuous(
    stats.halfnorm,
    logpdf=lambda x: x * x * -0.5 + log(2 / pi) / 2,
    fall=lambda x: x,
    cdf=lambda x: special.erf(x / sqrt(2)),
    sf=lambda x: 2 * special.ndtr(-x),
    logsf=lambda x: log(2) + special.log_ndtr(-x),
    ppf=lambda q: special.ndtri((1 + q) / 2), isf=lambda q: -special.ndtri(q / 2),
    mean=constant(sqrt(2 / pi)), var=constant(1 - 2 / pi),
    entropy=constant(log(pi / 2) / 2 + 0.5),
)
"""The distribution of the absolute value of a normal number."""

lognorm = Continuous(
    stats.lognorm,
    logpdf=lambda x, s: -(np.log(x) / s) ** 2 / 2 - np.log(s * x) - HALF_LOG_TWO_PI,
    power=constant(0.0),     fall=lambda x, s: np.log(x) / (s * s * x), rest=lambda x, s: np.log(x) / (s * s),
    scores=(lambda x, s: ((np.log(x) / s) ** 2 - 1) / s,),
    open_density=True,       open_tails=True,
    **transformed(norm.formulas, lambda x, s: np.log(x) / s, lambda z, s: np.exp(s * z)),
    mean=lambda s: np.exp(s * s / 2),
    var=lambda s: np.exp(s * s) * np.expm1(s * s),
    entropy=lambda s: 0.5 + HALF_LOG_TWO_PI + np.log(s),
)
"""The log-normal distribution: `s` is the standard deviation of the logarithm, `scale` the median."""

weibull_min = Continuous(
    stats.weibull_min,
    logpdf=lambda x, c: np.log(c) + special.xlogy(c - 1, x) - x**c,
    power=lambda c: c,       fall=lambda x, c: c * x ** (c - 1), rest=lambda x, c: c * x**c,
    scores=(lambda x, c: 1 / c + (1 - x**c) * np.log(x),),
    open_tails=True,
    cdf=lambda x, c: -np.expm1(-(x**c)),
    sf=lambda x, c: np.exp(-(x**c)),
    logsf=lambda x, c: -(x**c), far_logcdf=lambda x, c: c * np.log(x),
    ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c), isf=lambda q, c: (-np.log(q)) ** (1 / c),
    mean=lambda c: special.gamma(1 + 1 / c),
    var=lambda c: special.gamma(1 + 2 / c) - special.gamma(1 + 1 / c) ** 2,
    entropy=lambda c: EULER + 1 - EULER / c - np.log(c),
)
"""The Weibull distribution of the minimum of many numbers."""

pareto = Continuous(
    stats.pareto,
    logpdf=lambda x, b: np.log(b) - (b + 1) * np.log(x),
    power=lambda b: -b,      fall=lambda x, b: 0.0 * x,
    scores=(lambda x, b: 1 / b - np.log(x),),
    inside=1.5,
    cdf=lambda x, b: -np.expm1(-b * np.log(x)),
    sf=lambda x, b: np.exp(-b * np.log(x)),
    logsf=lambda x, b: -b * np.log(x),
    ppf=lambda q, b: np.exp(-np.log1p(-q) / b), isf=lambda q, b: np.exp(-np.log(q) / b),
    mean=lambda b: above(1, b, lambda b: b / (b - 1)),
    var=lambda b: above(2, b, lambda b: b / ((b - 2) * (b - 1) ** 2)),
    entropy=lambda b: 1 + 1 / b - np.log(b),
)
"""The Pareto distribution from `loc + scale` on, whose survival function is a power."""

gamma = Continuous(
    stats.gamma,
    logpdf=lambda x, a: special.xlogy(a - 1, x) - x - special.gammaln(a),
    power=lambda a: a,       fall=lambda x, a: 1.0,  rest=lambda x, a: x,
    scores=(lambda x, a: np.log(x) - special.digamma(a),),
    **GAMMA.tails(),
    ppf=GAMMA.ppf,           isf=GAMMA.isf,
    mean=lambda a: a,        var=lambda a: a,
    entropy=lambda a: _gamma_entropy(a),
)
"""The gamma distribution. The distribution function is `scipy.special.gammainc(a, x)`, differentiable in `a`."""

chi2 = Continuous(
    stats.chi2,
    logpdf=lambda x, df: special.xlogy(df / 2 - 1, x) - x / 2 - special.gammaln(df / 2) - df * (log(2) / 2),
    power=lambda df: df / 2, fall=lambda x, df: 0.5, rest=lambda x, df: x / 2,
    scores=(lambda x, df: (np.log(x / 2) - special.digamma(df / 2)) / 2,),
    **GAMMA.tails(lambda x, df: (x / 2, df / 2)),
    ppf=lambda q, df: 2 * GAMMA.ppf(q, df / 2),      isf=lambda q, df: 2 * GAMMA.isf(q, df / 2),
    mean=lambda df: df,      var=lambda df: 2 * df,
    entropy=lambda df: _gamma_entropy(df / 2) + log(2),
)
"""The chi-squared distribution with `df` degrees of freedom."""

invgamma = Continuous(
    stats.invgamma,
    logpdf=lambda x, a: -(a + 1) * np.log(x) - special.gammaln(a) - 1 / x,
    power=lambda a: -a,      fall=lambda x, a: -1 / (x * x), rest=lambda x, a: -1 / x,
    squared=-1.0,
    scores=(lambda x, a: -np.log(x) - special.digamma(a),),
    open_density=True,       open_tails=True,
    **GAMMA.tails(lambda x, a: (1 / x, a), decreasing=True),
    ppf=lambda q, a: 1 / GAMMA.isf(q, a),            isf=lambda q, a: 1 / GAMMA.ppf(q, a),
    mean=lambda a: above(1, a, lambda a: 1 / (a - 1)),
    var=lambda a: above(2, a, lambda a: 1 / ((a - 1) ** 2 * (a - 2))),
    entropy=lambda a: _invgamma_entropy(a),
)
"""The inverse gamma distribution, of the reciprocal of a gamma distributed number."""

beta = Continuous(
    stats.beta,
    logpdf=lambda x, a, b: special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b),
    power=lambda a, b: a,    fall=lambda x, a, b: (b - 1) / (1 - x),
    scores=BETA.scores_at,
    **BETA.tails(),
    ppf=BETA.ppf,            isf=BETA.isf,
    mean=lambda a, b: a / (a + b),
    var=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    entropy=lambda a, b: special.betaln(a, b) + (a - 1) * digamma_step(a, b) + (b - 1) * digamma_step(b, a),
)
"""The beta distribution. The distribution function is `scipy.special.betainc(a, b, x)`, differentiable in all."""

f = Continuous(
    stats.f,
    logpdf=lambda x, dfn, dfd: (
        dfd / 2 * np.log(dfd) + dfn / 2 * np.log(dfn) + special.xlogy(dfn / 2 - 1, x)
        - (dfn + dfd) / 2 * np.log(dfd + dfn * x) - special.betaln(dfn / 2, dfd / 2)
    ),
    power=lambda dfn, dfd: dfn / 2,
    fall=lambda x, dfn, dfd: (dfn + dfd) / 2 / (x + dfd / dfn),
    rest=lambda x, dfn, dfd: (dfn + dfd) / 2 * (x / (x + dfd / dfn)),
    tail_power=lambda dfn, dfd: -dfd / 2,
    tail_fall=lambda x, dfn, dfd: -(dfn + dfd) / 2 * (dfd / dfn / (x + dfd / dfn)) / x,
    scores=F_RATIO.scores_at,
    **F_RATIO.tails(),
    ppf=F_RATIO.ppf,         isf=F_RATIO.isf,
    mean=lambda dfn, dfd: above(2, dfd, lambda dfd: dfd / (dfd - 2)) + 0.0 * dfn,
    var=lambda dfn, dfd: above(4, dfd, lambda dfd: _f_variance(dfn, dfd)),
    entropy=lambda dfn, dfd: _f_entropy(dfn / 2, dfd / 2),
)
"""The F distribution, of the ratio of two chi-squared numbers divided by their degrees of freedom."""

t = Continuous(
    stats.t,
    logpdf=lambda x, df: _normal_at_infinity(norm.formulas["logpdf"], STUDENT.log_density, x, df),
    fall=lambda x, df: (df + 1) * over_square(x, df),
    tail_power=lambda df: -df,
    tail_fall=lambda x, df: -(df + 1) * (df * over_square(x, df)) / x / x,
    scores=STUDENT.scores_at,
    cdf=lambda x, df: _normal_at_infinity(norm.formulas["cdf"], STUDENT.cdf, x, df),
    sf=lambda x, df: _normal_at_infinity(norm.formulas["sf"], STUDENT.sf, x, df),
    far_logcdf=lambda x, df: _normal_at_infinity(norm.formulas["logcdf"], STUDENT.far_lower, x, df),
    far_logsf=lambda x, df: _normal_at_infinity(norm.formulas["logsf"], STUDENT.far_upper, x, df),
    ppf=lambda q, df: _normal_at_infinity(norm.formulas["ppf"], STUDENT.ppf, q, df),
    isf=lambda q, df: _normal_at_infinity(norm.formulas["isf"], STUDENT.isf, q, df),
    mean=lambda df: above(1, df, lambda df: 0.0 * np.where(np.isinf(df), 0.0, df)),
    var=lambda df: above(2, df, lambda df: 1 / (1 - 2 / df), np.where(np.greater(df, 1), np.inf, np.nan)),
    entropy=lambda df: _student_entropy(df),
)
"""Student's t distribution with `df` degrees of freedom; the normal distribution for infinite `df`."""

truncnorm = Continuous(
    stats.truncnorm,
    logpdf=lambda x, a, b: -x * x / 2 - HALF_LOG_TWO_PI - _log_mass(a, b),
    allowed=np.less,
    support=lambda a, b: (a, b),
    inside=lambda a, b: _between(a, b),
    open_tails=True,
    cdf=lambda x, a, b: np.exp(_truncnorm_logcdf(x, a, b)),
    sf=lambda x, a, b: np.exp(_truncnorm_logcdf(-x, -b, -a)),
    logcdf=lambda x, a, b: _truncnorm_logcdf(x, a, b),
    logsf=lambda x, a, b: _truncnorm_logcdf(-x, -b, -a),
    ppf=lambda q, a, b: _truncnorm_ppf(np.log(q), np.log1p(-q), a, b),
    isf=lambda q, a, b: _truncnorm_ppf(np.log1p(-q), np.log(q), a, b),
    mean=lambda a, b: _truncnorm_mean(a, b),
    var=lambda a, b: _truncnorm_var(a, b),
    entropy=lambda a, b: _truncnorm_entropy(a, b),
)
"""The truncated normal distribution: `a` and `b` count from `loc` in units of `scale`."""

vonmises = Continuous(
    stats.vonmises,
    logpdf=VONMISES.log_density,
    fall=lambda x, kappa: kappa * np.sin(x),
    scores=VONMISES.scores_at,
    allowed=lambda kappa: np.greater_equal(kappa, 0),
    cdf=VONMISES.cdf,        sf=VONMISES.sf,
    logcdf=lambda x, kappa: _log_of_turns(VONMISES.cdf(x, kappa), VONMISES.sf(x, kappa)),
    logsf=lambda x, kappa: _log_of_turns(VONMISES.sf(x, kappa), VONMISES.cdf(x, kappa)),
    ppf=VONMISES.ppf,        isf=VONMISES.isf,
    entropy=lambda kappa: (
        kappa - kappa * special.i1e(kappa) / special.i0e(kappa) + np.log(2 * pi * special.i0e(kappa))
    ),
)
"""The von Mises distribution of angles."""
# fmt: on


def _laplace_cdf(x: Operand) -> Any:
    positive = np.greater(x, 0)
    half = np.exp(np.where(positive, -x, x)) / 2
    return np.where(positive, 1 - half, half)


def _laplace_logcdf(x: Operand) -> Array:
    positive = np.greater(x, 0)
    return np.where(positive, np.log1p(-np.exp(np.where(positive, -x, 0.0)) / 2), x - log(2))


def _laplace_ppf(q: Array) -> Any:
    above_half = np.greater(q, 0.5)
    return np.where(above_half, -1.0, 1.0) * np.log(2 * np.where(above_half, 1 - q, q))


def _cauchy_isf(q: Array) -> Array:
    """Return cot(pi q), computed from the distance of q from the nearest of 0, 1/2 and 1."""
    central = np.abs(q - 0.5) < 0.25
    from_end = np.where(central, 0.25, np.where(np.greater(q, 0.5), q - 1, q))
    return np.where(central, np.tan(pi * (0.5 - np.where(central, q, 0.5))), 1 / np.tan(pi * from_end))


def _log_of_turns(probability: Any, complement: Any) -> Any:
    """Return the logarithm of a tail; NaN, with the slope NaN, where the periodic continuation is negative."""
    return log_of_complement(probability, complement) * np.where(np.less(probability, 0), np.nan, 1.0)


def _gamma_entropy(a: Array) -> Any:
    """Return log gamma(a) + a + (1 - a) digamma(a), in which the large terms cancel."""
    return np.log(a) / 2 + HALF_LOG_TWO_PI + stirling_rest(a) + (a - 1) * (0.5 / a + digamma_rest(a))


def _invgamma_entropy(a: Array) -> Any:
    """Return log gamma(a) + a - (1 + a) digamma(a), in which the large terms cancel."""
    return -1.5 * np.log(a) + HALF_LOG_TWO_PI + stirling_rest(a) + (a + 1) * (0.5 / a + digamma_rest(a))


def _f_variance(dfn: Any, dfd: Any) -> Any:
    return 2 * dfd**2 * (dfn + dfd - 2) / (dfn * (dfd - 2) ** 2 * (dfd - 4))


def _f_entropy(n: Any, m: Any) -> Any:
    """Return the entropy, of half the degrees of freedom."""
    steps = n * digamma_step(n, m) + m * digamma_step(m, n)
    return np.log(m) - np.log(n) + special.betaln(n, m) + steps + special.digamma(n) - special.digamma(m)


def _normal_at_infinity(normal: Callable[..., Any], student: Callable[..., Any], x: Operand, df: Operand) -> Any:
    infinite = np.isinf(df)
    return np.where(infinite, normal(x), student(x, np.where(infinite, 1.0, df)))


def _student_entropy(df: Operand) -> Array:
    infinite = np.isinf(df)
    df = np.where(infinite, 1.0, df)
    regular = (df + 1) / 2 * (half_digamma_step(df) + 1 / df) - STUDENT.log_density(0.0, df)
    return np.where(infinite, HALF_LOG_TWO_PI + 0.5, regular)


# The truncated normal distribution: everything is computed in the left tail, where small probabilities are accurate


def _log_mass(a: Operand, b: Operand) -> Any:
    """Return the logarithm of the probability of a normal number between `a` and `b`."""
    right = np.greater(a, 0)
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    central = np.greater(high, 0)
    log_high = special.log_ndtr(np.where(central, 0.0, high))
    fall = special.log_ndtr(np.where(central, -1.0, low)) - log_high
    outside = special.ndtr(np.where(central, low, -1.0)) + special.ndtr(-np.where(central, high, 1.0))
    return np.where(central, np.log1p(-outside), log_high + np.log(-np.expm1(fall)))


def _truncnorm_logcdf(x: Operand, a: Operand, b: Operand) -> Array:
    whole = _log_mass(a, b)
    below, above = _log_mass(a, x) - whole, _log_mass(x, b) - whole
    most = np.greater(below, -0.1)
    return np.where(most, np.log1p(-np.exp(np.where(most, above, -1.0))), below)


def _truncnorm_ppf(log_q: Any, log_complement: Any, a: Operand, b: Operand) -> Any:
    whole = _log_mass(a, b)
    below = np.logaddexp(special.log_ndtr(a), log_q + whole)
    above = np.logaddexp(special.log_ndtr(-b), log_complement + whole)
    left = np.less(below, above)  # near 0 a logarithm has no digits left
    return np.where(left, 1.0, -1.0) * special.ndtri_exp(np.where(left, below, above))


def _between(a: Operand, b: Operand) -> Array:
    """Return a number between two bounds, of which one or both may be infinite."""
    low = np.where(np.isinf(a), np.where(np.isinf(b), -1.0, b - 1), a)
    return (low + np.where(np.isinf(b), low + 1, b)) / 2


def _end_densities(a: Operand, b: Operand) -> tuple[Any, Any, Any, Any]:
    """Return the bounds, where finite, and the densities there."""
    whole = _log_mass(a, b)
    finite = [(np.isfinite(end), np.where(np.isfinite(end), end, 0.0)) for end in (a, b)]
    ends = [np.where(known, np.exp(-end * end / 2 - HALF_LOG_TWO_PI - whole), 0.0) for known, end in finite]
    return finite[0][1], finite[1][1], ends[0], ends[1]


def _truncnorm_mean(a: Operand, b: Operand) -> Any:
    _, _, at_a, at_b = _end_densities(a, b)
    return at_a - at_b


def _truncnorm_var(a: Operand, b: Operand) -> Any:
    a, b, at_a, at_b = _end_densities(a, b)
    mean = at_a - at_b
    return 1 + (a - mean) * at_a - (b - mean) * at_b


def _truncnorm_entropy(a: Operand, b: Operand) -> Any:
    whole = _log_mass(a, b)
    a, b, at_a, at_b = _end_densities(a, b)
    return log(2 * pi * e) / 2 + whole + (a * at_a - b * at_b) / 2
