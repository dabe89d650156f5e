"""Distribution families differentiable in their parameters: gamma, beta, F, Student's t, von Mises.

GAMMA.cdf(x, a)                  the integral of the density up to x; `sf` is that above x
GAMMA.far_lower(x, a)            the logarithm of the integral up to x, also where it underflows; `far_upper` above x
BETA.ppf(q, a, b)                the point up to which the integral is q; `isf` counts from above
STUDENT.log_density(x, df)       the logarithm of the density, without cancellation
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, pi
from typing import Any

import numpy as np
from scipy import stats

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.ops.families import sample
from fgrad.scipy import _special as special
from fgrad.scipy.special._several import power_series
from fgrad.scipy.stats._base import is_moderate
from fgrad.scipy.stats._gammas import (
    HALF_LOG_TWO_PI,
    digamma_step,
    digamma_step_rest,
    half_digamma_step,
    log1p_fall,
    stirling_rest,
)
from fgrad.scipy.stats._integrals import EVEN_NODES, EVEN_WEIGHTS, FALL, NODES, WEIGHTS, Law, reach
from fgrad.typing import Array, Operand

ONE_PARAMETER = tuple(
    sample(*shapes, domain=(0.3, 0.9), complex=False)
    for shapes in (((), ()), ((3,), ()), ((2, 1), (3,)), ((0, 3), (3,)))
)
TWO_PARAMETERS = tuple(
    sample(*shapes, domain=(0.3, 0.9), complex=False)
    for shapes in (((), (), ()), ((2, 1), (3,), ()), ((0, 3), (3,), (1,)))
)


def _less_its_linear_part(w: Array) -> Any:
    """Return w - (1 - exp(-w)), which is about w^2 / 2."""
    small = np.where(w < 0.5, w, 0.0)
    terms = [1 / 2]
    for k in range(3, 17):
        terms.append(-terms[-1] / k)
    return np.where(w < 0.5, small * small * power_series(small, terms), w + np.expm1(-w))


def _deviance(x: Array, center: Operand) -> Any:
    """Return r - 1 - log r for the ratio r = x / center of positive numbers."""
    excess = (x - center) / center
    near = np.abs(excess) < 0.5
    return excess - np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(x) - np.log(center))


def _at_end(power: Operand, log_density: Operand) -> Array:
    """Return the logarithm of a density like t^(power - 1) at t = 0; -inf where it is infinite, as outside."""
    return np.where(np.equal(power, 1), log_density, -np.inf)


def _log_integral(fall: Callable[..., Any], slope: Callable[..., Any], end: Callable[..., Any], *args: Any) -> Any:
    """Return the logarithm of the integral of exp(-fall) from 0 on, for a convex increasing function.

    It is composed of ordinary operations, and of any size: for underflowing tails, with their density as a factor.

    Args:
        fall, slope: the function and its derivative, of the variable and `args`.
        end: a function of `args`: a point where the function has risen by FALL or more.
        args: arrays.
    """
    columns = [as_array(x)[..., None] for x in args]
    plain = [stop_gradient_of(x) for x in columns]  # the range of integration is a constant for derivatives
    length = reach(lambda s: fall(s, *plain), lambda s: slope(s, *plain), 0.0, end(*plain))
    return np.log(np.sum(length * WEIGHTS * np.exp(-fall(length * NODES, *columns)), axis=-1))


def log_tail(fall: Callable[..., Any], steepness: Callable[..., Any], *args: Array) -> Any:
    """Return the logarithm of the integral of exp(-fall) from 0 on, for a function with second derivative at least s^2.

    Args:
        fall: the function, of the variable and `args`: it increases from 0 on.
        steepness: its derivative at 0, a function of `args`.
        args: arrays.
    """
    columns = [as_array(x)[..., None] for x in args]
    slope = steepness(*(stop_gradient_of(x) for x in columns))
    length = 2 * FALL / (slope + np.hypot(slope, np.sqrt(2 * FALL)))
    return np.log(np.sum(length * WEIGHTS * np.exp(-fall(length * NODES, *columns)), axis=-1))


# The gamma distribution: its variable is log t


def _gamma_log_density(x: Array, a: Array) -> Any:
    zero = np.equal(x, 0)
    x = np.where(zero, 1.0, x)
    log_density = np.log(a) / 2 - a * _deviance(x, a) - HALF_LOG_TWO_PI - stirling_rest(a) - np.log(x)
    return np.where(zero, _at_end(a, 0.0), log_density)


def _gamma_fall(s: Array, x: Operand, a: Operand, direction: Any) -> Any:
    """Return the decrease of the logarithm of the density of log t, at the distance `s` from log x in a direction."""
    return x * np.expm1(direction * s) - direction * a * s


def _gamma_slope(s: Array, x: Operand, a: Operand, direction: Any) -> Any:
    return direction * (x * np.exp(direction * s) - a)


def _gamma_stretch(place: int, x: Array, a: Array) -> tuple[Any, Any]:
    direction = np.where(np.log(x) < special.digamma(np.maximum(a, 1.0)), -1.0, 1.0)
    fall, slope = (partial(each, x=x, a=a, direction=direction) for each in (_gamma_fall, _gamma_slope))
    lowest = np.maximum(direction * np.log(a / x), 0.0)
    largest = np.maximum(a, x)
    above = lowest + np.minimum(np.sqrt(2 * FALL / largest), np.log(2 * FALL / largest + 2))
    length = reach(fall, slope, lowest, np.where(direction < 0, (FALL + x) / a, above))
    s = length * NODES
    weights = -direction * length * WEIGHTS * np.exp(_gamma_log_density(x, a) + np.log(x) - fall(s))
    return np.log(x) + direction * s, np.where(np.isfinite(x) & (x > 0), weights, 0.0)


def _far_log_gamma(x: Array, a: Array, direction: float) -> Any:
    """Return the logarithm of the probability below `x`, far below `a`; with direction 1 above `x`, far above `a`."""
    x = np.minimum(x, a) if direction < 0 else np.maximum(x, a)

    def end(x: Operand, a: Operand) -> Any:
        return (FALL + x) / a if direction < 0 else np.minimum(np.sqrt(2 * FALL / x), np.log(2 * FALL / x + 2))

    fall, slope = (partial(each, direction=direction) for each in (_gamma_fall, _gamma_slope))
    return _gamma_log_density(x, a) + np.log(x) + _log_integral(fall, slope, end, x, a)


GAMMA = Law(
    name="gamma_distribution",
    lower=lambda x, a: special.gammainc(a, x),
    upper=lambda x, a: special.gammaincc(a, x),
    lower_inverse=lambda q, a: special.gammaincinv(a, q),
    upper_inverse=lambda q, a: special.gammainccinv(a, q),
    far_lower=lambda x, a: _far_log_gamma(x, a, -1.0),
    far_upper=lambda x, a: _far_log_gamma(x, a, 1.0),
    log_density=_gamma_log_density,
    coordinates=np.log,
    scores=(lambda log_t, a: log_t - special.digamma(a),),
    stretch=_gamma_stretch,
    samples=ONE_PARAMETER,
)


# The beta distribution: its variable is log t / (1 - t)


def log_kernel(p: Array, q: Array, a: Array | float, b: Array | float) -> Any:
    """Return the logarithm of the density of log p / q, for parts p + q = 1."""
    total = a + b
    fall = a * _deviance(p, a / total) + b * _deviance(q, b / total)
    rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(total)
    return (np.log(a) + np.log(b) - np.log(total)) / 2 - fall - rest - HALF_LOG_TWO_PI


def _beta_log_density(x: Array, a: Array | float, b: Array | float) -> Any:
    zero, one = np.equal(x, 0), np.equal(x, 1)
    x = np.where(np.logical_or(zero, one), 0.5, x)
    log_density = log_kernel(x, 1 - x, a, b) - np.log(x) - np.log1p(-x)
    return np.where(zero, _at_end(a, np.log(b)), np.where(one, _at_end(b, np.log(a)), log_density))


def _log_shrinkage(s: Array, p: Array, q: Array) -> Any:
    """Return log(q + p exp(-s)), by which the logarithm of 1 / (1 - t) decreases."""
    lost = p * np.expm1(-s)
    return np.where(lost > -0.5, np.log1p(np.maximum(lost, -0.5)), np.log(q + p * np.exp(-s)))


def _logit_fall(s: Array, p: Array, q: Array, a: Operand, b: Operand) -> Any:
    """Return the decrease of the logarithm of the density of the logit, at the distance `s` below log p / q."""
    return a * s + (a + b) * _log_shrinkage(s, p, q)


def _logit_slope(s: Array, p: Array, q: Array, a: Operand, b: Operand) -> Any:
    return a - (a + b) * p * np.exp(-s - _log_shrinkage(s, p, q))


def _logit_stretch(down: Array, p: Array, q: Array, a: Array, b: Array) -> tuple[Any, Any]:
    """Integrate downwards from log p / q; upwards is downwards with the parts and the parameters exchanged.

    Args:
        down: where to integrate downwards.
        p, q: the parts, p + q = 1.
        a, b: the parameters of the beta distribution of p.

    Returns:
        The logarithms of both parts at the nodes, and the weights.
    """
    inside = (p > 0) & (q > 0)
    kernel = log_kernel(p, q, a, b)
    p, q, a, b = (np.where(down, own, other) for own, other in ((p, q), (q, p), (a, b), (b, a)))
    fall, slope = (partial(each, p=p, q=q, a=a, b=b) for each in (_logit_fall, _logit_slope))
    lowest = np.maximum(np.log(p) - np.log(q) + np.log(b) - np.log(a), 0.0)
    length = reach(fall, slope, lowest, (FALL + fall(lowest) - (a + b) * np.log(q)) / a)
    s = length * NODES
    shrinkage = _log_shrinkage(s, p, q)
    log_q = np.log(q) - shrinkage
    log_p = np.where(log_q > -0.5, np.log(p) - s - shrinkage, np.log(-np.expm1(log_q)))
    log_q = np.where(log_p < -0.5, np.log1p(-np.exp(log_p)), log_q)
    weights = np.where(down, 1.0, -1.0) * length * WEIGHTS * np.exp(kernel - fall(s))
    return (np.where(down, log_p, log_q), np.where(down, log_q, log_p)), np.where(inside, weights, 0.0)


def _beta_stretch(place: int, x: Array, a: Array, b: Array) -> tuple[Any, Any]:
    if place:
        down = np.log1p(-x) >= -digamma_step(np.maximum(b, 1.0), np.maximum(a, 0.5))
    else:
        down = np.log(x) < -digamma_step(np.maximum(a, 1.0), np.maximum(b, 0.5))
    return _logit_stretch(down, x, 1 - x, a, b)


def _far_log_beta(p: Array, q: Array, a: Array, b: Array) -> Any:
    """Return the logarithm of the probability below `p`, far below the mean, for parts p + q = 1."""
    p, q = np.minimum(p, a / (a + b)), np.maximum(q, b / (a + b))

    def end(p: Array, q: Array, a: Operand, b: Operand) -> Any:
        return (FALL - (a + b) * np.log(q)) / a

    return log_kernel(p, q, a, b) + _log_integral(_logit_fall, _logit_slope, end, p, q, a, b)


BETA = Law(
    name="beta_distribution",
    lower=lambda x, a, b: special.betainc(a, b, x),
    upper=lambda x, a, b: special.betaincc(a, b, x),
    lower_inverse=lambda q, a, b: special.betaincinv(a, b, q),
    upper_inverse=lambda q, a, b: special.betainccinv(a, b, q),
    far_lower=lambda x, a, b: _far_log_beta(x, 1 - x, a, b),
    far_upper=lambda x, a, b: _far_log_beta(1 - x, x, b, a),
    log_density=_beta_log_density,
    coordinates=lambda x: (np.log(x), np.log1p(-x)),
    scores=(
        lambda logs, a, b: logs[0] + digamma_step(a, b),
        lambda logs, a, b: logs[1] + digamma_step(b, a),
    ),
    stretch=_beta_stretch,
    samples=TWO_PARAMETERS,
)


# The F distribution: its variable is log (n t / m), the logarithm of the ratio of the beta distribution's parts.
# The coordinates of t are the logarithms of both parts, as functions of n and m.


def _f_log_density(x: Array, n: Array | float, m: Array) -> Any:
    zero = np.equal(x, 0)
    x = np.where(zero, 1.0, x)
    whole = n * x + m
    log_density = log_kernel(n * x / whole, m / whole, n / 2, m / 2) - np.log(x)
    return np.where(zero, _at_end(n / 2, 0.0), log_density)


def _f_coordinates(log_t: Array) -> Callable[[Any, Any], tuple[Any, Any]]:
    def logs(n: Array, m: Array) -> tuple[Any, Any]:
        log_ratio = log_t + np.log(n) - np.log(m)
        return -np.logaddexp(0.0, -log_ratio), -np.logaddexp(0.0, log_ratio)

    return logs


def _f_score(log_part: Array, log_other: Array, own: Array, other: Array) -> Any:
    """Return the score of the degrees of freedom `own` of a part of the sum; it is of second order in 1 / own."""
    other_part = np.exp(log_other)
    small = other_part < 0.05
    rest = np.where(small, -log1p_fall(-np.where(small, other_part, 0.0)), log_part + other_part)
    return (rest + digamma_step_rest(own / 2, other / 2) + other * other_part / own) / 2


def _f_stretch(place: int, x: Array, n: Array, m: Array) -> tuple[Any, Any]:
    whole = n * x + m
    p, q = n * x / whole, m / whole
    down = np.log(p) < -digamma_step(np.maximum(n / 2, 1.0), np.maximum(m / 2, 0.5))
    (log_p, log_q), weights = _logit_stretch(down, p, q, n / 2, m / 2)
    return _f_coordinates(log_p - log_q - np.log(n) + np.log(m)), weights


def _parts_of_ratio(ratio: Any) -> tuple[Any, Any]:
    return 1 / (1 + 1 / ratio), 1 / (1 + ratio)


F_RATIO = Law(
    name="f_distribution",
    lower=lambda x, n, m: special.fdtr(n, m, x),
    upper=lambda x, n, m: special.fdtrc(n, m, x),
    lower_inverse=lambda q, n, m: special.fdtri(n, m, q),
    upper_inverse=lambda q, n, m: 1 / special.fdtri(m, n, q),
    far_lower=lambda x, n, m: _far_log_beta(*_parts_of_ratio(n * x / m), n / 2, m / 2),
    far_upper=lambda x, n, m: _far_log_beta(*_parts_of_ratio(n * x / m)[::-1], m / 2, n / 2),
    log_density=_f_log_density,
    coordinates=lambda x: _f_coordinates(np.log(x)),
    scores=(
        lambda logs, n, m: _f_score(logs(n, m)[0], logs(n, m)[1], n, m),
        lambda logs, n, m: _f_score(logs(n, m)[1], logs(n, m)[0], m, n),
    ),
    stretch=_f_stretch,
    samples=TWO_PARAMETERS,
)


# Student's t distribution: its variable is u = arcsinh(t / sqrt(df)), in which the density is a power of cosh(u).
# A coordinate is the function log(1 + t^2 / df) of df.


def log1p_square(x: Array) -> Any:
    """Return log(1 + x^2), also where the square overflows, or the derivatives with respect to the square."""
    square = x * x
    if is_moderate(square):
        return np.log1p(square)
    return 2 * np.log1p(x * (x / (1 + np.hypot(1.0, x))))


def over_square(x: Array, rest: Operand) -> Any:
    """Return x / (x^2 + rest), likewise."""
    square = x * x
    if is_moderate(square):  # a quick check, whereas the square root is slow
        return x / (square + rest)
    length = np.hypot(x, np.sqrt(rest))
    return x / length / length


def _student_log_density(x: Operand, df: Array) -> Any:
    half = df / 2
    rest = stirling_rest(half + 0.5) - stirling_rest(half)
    return half * np.log1p(1 / df) - 0.5 + rest - HALF_LOG_TWO_PI - (half + 0.5) * log1p_square(x / np.sqrt(df))


def _student_score(log_cosh_squared: Callable[[Any], Any], df: Array) -> Any:
    w = log_cosh_squared(df)
    return (half_digamma_step(df) - _less_its_linear_part(w) - np.expm1(-w) / df) / 2


def _student_stretch(place: int, x: Array, df: Array) -> tuple[Any, Any]:
    """Integrate from |x| to infinity; or from 0 to |x|, if the score is positive and this range is short."""
    ratio = np.abs(x) / np.sqrt(df)
    start = np.arcsinh(ratio)
    inner = (start < 2) & (_student_score(lambda df: np.log1p(ratio * ratio), df) > 0)
    less_than_one = 1 / (np.hypot(1, ratio) * (np.hypot(1, ratio) + ratio))  # 1 - tanh(start)

    def fall(s: Operand) -> Any:
        return df * (s + np.log1p(np.expm1(-2 * s) * less_than_one / 2))

    length = reach(fall, lambda s: df * np.tanh(start + s), 0.0, FALL / df + np.log(2 / (2 - less_than_one)))
    u = np.where(inner, start * EVEN_NODES, start + length * NODES)
    log_cosh = u + np.log1p(np.expm1(-2 * u) / 2)
    log_t = np.log(df) / 2 + u + np.log(-np.expm1(-2 * u) / 2)
    at_zero = np.exp(_student_log_density(0.0, df) + np.log(df) / 2)
    weights = np.where(inner, start * EVEN_WEIGHTS, -length * WEIGHTS) * at_zero * np.exp(-df * log_cosh)
    weights = np.where(np.isfinite(x + df), np.sign(x) * weights, 0.0)
    return lambda df: np.logaddexp(0.0, 2 * log_t - np.log(df)), weights


def _far_log_student(x: Array, df: Array) -> Any:
    """Return the logarithm of the survival function of Student's t distribution, far above 0."""
    x = np.maximum(x, 1.0)
    length = np.hypot(1.0, x / np.sqrt(df))  # its square may overflow

    def fall(s: Array, share: object, df: Operand) -> Any:
        return (df + 1) / 2 * np.log1p(share * np.expm1(2 * s)) - s

    def slope(s: Array, share: Any, df: Operand) -> Any:
        return (df + 1) * share / (share + (1 - share) * np.exp(-2 * s)) - 1

    def end(share: Any, df: Operand) -> Any:
        return (FALL - (df + 1) / 2 * np.log(share)) / df

    share = (x / np.sqrt(df) / length) ** 2
    density = _student_log_density(0.0, df) - (df + 1) * np.log(length)
    return density + np.log(x) + _log_integral(fall, slope, end, share, df)


STUDENT = Law(
    name="student_distribution",
    lower=lambda x, df: special.stdtr(df, x),
    upper=lambda x, df: special.stdtr(df, -x),
    lower_inverse=lambda q, df: special.stdtrit(df, q),
    upper_inverse=lambda q, df: -special.stdtrit(df, q),
    far_lower=lambda x, df: _far_log_student(-x, df),
    far_upper=_far_log_student,
    log_density=_student_log_density,
    coordinates=lambda x: lambda df: log1p_square(x / np.sqrt(df)),
    scores=(_student_score,),
    stretch=_student_stretch,
    samples=ONE_PARAMETER,
)


# The von Mises distribution of angles: its variable is the angle


def _vonmises_log_density(x: Array, kappa: Array) -> Any:
    return kappa * special.cosm1(x) - log(2 * pi) - np.log(special.i0e(kappa))


def _vonmises_score(cosine_less_one: Array, kappa: Array) -> Any:
    return cosine_less_one + (1 - special.i1e(kappa) / special.i0e(kappa))


def _vonmises_stretch(place: int, x: Array, kappa: Array) -> tuple[Any, Any]:
    """Integrate from the angle outwards; or from 0 to the angle, if the score is positive."""
    x = x - 2 * pi * np.rint(x / (2 * pi))
    start = np.abs(x)
    inner = _vonmises_score(special.cosm1(start), kappa) > 0
    end = np.arccos(np.maximum(np.cos(start) - FALL / kappa, -1))
    low, high = np.where(inner, 0.0, start), np.where(inner, start, end)
    angles = low + (high - low) * EVEN_NODES
    weights = np.where(inner, high - low, low - high) * EVEN_WEIGHTS * np.exp(_vonmises_log_density(angles, kappa))
    return special.cosm1(angles), np.where(np.isfinite(x), np.sign(x) * weights, 0.0)


VONMISES = Law(
    name="vonmises_distribution",
    lower=stats.vonmises.cdf,
    upper=stats.vonmises.sf,
    lower_inverse=stats.vonmises.ppf,
    upper_inverse=stats.vonmises.isf,
    log_density=_vonmises_log_density,
    coordinates=special.cosm1,
    scores=(_vonmises_score,),
    stretch=_vonmises_stretch,
    samples=ONE_PARAMETER,
)
