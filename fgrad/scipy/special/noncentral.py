"""The noncentral chi-square, F and t distributions, and their inverses with a derivative in closed form.

    scipy.special.chndtr, chndtrix, chndtrinc
    scipy.special.ncfdtr, ncfdtri, ncfdtrinc
    scipy.special.nctdtr, nctdtrit, nctdtrinc

The density and the derivative with respect to the noncentrality are one function: for chi-square and F a sum over the
Poisson distribution, for t a moment of the chi distribution (a Hermite function of negative order). Its own
derivatives are the same function with other parameters, so derivatives of every order exist. There is no closed form
with respect to the degrees of freedom.
"""

from __future__ import annotations

from math import floor, inf, log, pi, sqrt
from typing import Any

import numpy as np

from fgrad.core.primitive import Rule
from fgrad.ops.families import without_closed_form
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import NOT_SAMPLED, Helper, declare, helper, refuse, whole_number
from fgrad.scipy.special.densities import gamma_density, log_beta_kernel, stirling_error
from fgrad.typing import Array


def _freedom(function: str, argument: str) -> Rule:
    return without_closed_form(f"scipy.special.{function}", argument)


def _around(mode: float) -> Array:
    """Return the significant terms of a sum over the Poisson distribution, the largest of which is at `mode`."""
    reach = 12 * sqrt(max(mode, 0.0)) + 60
    return np.arange(floor(max(0.0, mode - reach)), max(0.0, mode) + reach)


def _poisson(j: Array, mean: float) -> Any:
    return gamma_density(j + 1, np.full_like(j, mean))


def _chi_square_density(df: float, x: float, nc: float) -> Any:
    """Return the sum over j of the Poisson probability with the mean nc / 2, times the density with df + 2 j."""
    if not (0 <= x < inf and df > 0 and 0 <= nc < inf):
        return 0.0 if x == inf else np.nan
    half = df / 2
    j = _around((sqrt((1 - half) ** 2 + nc * x) - 1 - half) / 2)
    return np.sum(_poisson(j, nc / 2) * gamma_density(half + j, np.full_like(j, x / 2))) / 2


def _f_kernel(power: float, a: float, b: float, nc: float, odds: float) -> Any:
    """Return the sum over j of Poisson's probability, times y**(a + j) (1 - y)**b / beta(a + j, b) / (a + j)**power."""
    if not (0 <= odds < inf and a > 0 and b > 0 and 0 <= nc < inf):
        return 0.0 if odds == inf else np.nan
    if odds == 0:
        return 0.0
    y, mean = odds / (1 + odds), nc / 2 * odds / (1 + odds)
    middle = 1 + a - mean
    j = _around((sqrt(max(0.0, middle**2 - 4 * (a - mean * (a + b)))) - middle) / 2)
    kernel = log_beta_kernel(a + j, b, y, 1 / (1 + odds), (b * odds - a - j) / (1 + odds))
    return np.sum(_poisson(j, nc / 2) * np.exp(kernel) / (a + j) ** power)


def _t_moment(p: float, df: float, nc: float, t: float) -> Any:
    """Return the mean of s**p normal_density(t s - nc), where s**2 df has the chi-square distribution.

    Computed by the trapezoidal rule in log(s), which converges exponentially: the integrand is analytic, decays
    on both sides, and has one maximum.
    """
    if not (df > 0 and abs(nc) < inf and abs(t) < inf):
        return 0.0 if abs(t) == inf and p > 0 else np.nan
    order, stretch = df + p, df + t * t
    root = sqrt((t * nc) ** 2 + 4 * stretch * order)
    peak = (t * nc + root) / (2 * stretch) if t * nc > 0 else 2 * order / (root - t * nc)
    bend = stretch * peak**2 + order
    left = 20 / order + sqrt(400 / order**2 + 80 / order)
    right = min(sqrt(80 / bend), 2 + log(1 + 40 / bend))
    step = min(0.12, 0.5 / sqrt(bend))
    w = log(peak) + step * np.arange(floor(-left / step), right / step)
    density = -df / 2 * (np.expm1(2 * w) - 2 * w) - stirling_error(np.float64(df / 2))
    return step * np.sum(np.exp(density + p * w - (t * np.exp(w) - nc) ** 2 / 2)) * sqrt(df) / (2 * pi) * sqrt(2)


# fmt: off
chi_square_density: Helper = helper(np.vectorize(_chi_square_density, otypes=[float]),
    _freedom("chndtr", "df"),
    lambda ans, df, x, nc: lambda ct: ct * _chi_square_slope(ans, df, x, nc),
    lambda ans, df, x, nc: lambda ct: ct * ((chi_square_density(df + 2, x, nc) - ans) / 2),
    name="noncentral_chi_square_density", leading=(2.5,), domain=(0.5, 4))
f_kernel: Helper = helper(np.vectorize(_f_kernel, otypes=[float]),
    whole_number("scipy.special.ncfdtr", "power"), _freedom("ncfdtr", "dfn"), _freedom("ncfdtr", "dfd"),
    lambda ans, power, a, b, nc, odds: lambda ct: ct * ((f_kernel(power, a + 1, b, nc, odds) - ans) / 2),
    lambda ans, power, a, b, nc, odds: lambda ct: ct * _f_kernel_slope(ans, power, a, b, nc, odds),
    name="noncentral_f_kernel", leading=(0, 1.5, 2.5), domain=(0.5, 3))
t_moment: Helper = helper(np.vectorize(_t_moment, otypes=[float]),
    whole_number("scipy.special.nctdtr", "p"), _freedom("nctdtr", "df"),
    lambda ans, p, df, nc, t: lambda ct: ct * (t * t_moment(p + 1, df, nc, t) - nc * ans),
    lambda ans, p, df, nc, t: lambda ct: ct * (nc * t_moment(p + 1, df, nc, t) - t * t_moment(p + 2, df, nc, t)),
    name="noncentral_t_moment", leading=(1, 3.5))

declare(special.chndtr,
    lambda ans, x, df, nc: lambda ct: ct * chi_square_density(df, x, nc),
    _freedom("chndtr", "df"),
    lambda ans, x, df, nc: lambda ct: ct * -chi_square_density(df + 2, x, nc),
    leading=(1.5, 2.5), domain=(0.5, 4))
declare(special.chndtrix,
    lambda ans, p, df, nc: lambda ct: ct / chi_square_density(df, ans, nc),
    _freedom("chndtrix", "df"),
    lambda ans, p, df, nc: lambda ct: ct / _chi_square_ratio(df, ans, nc),
    leading=(0.4, 2.5), domain=(0.5, 4))
declare(special.chndtrinc,
    lambda ans, x, df, p: lambda ct: ct * _chi_square_ratio(df, x, ans),
    _freedom("chndtrinc", "df"),
    lambda ans, x, df, p: lambda ct: ct / -chi_square_density(df + 2, x, ans),
    leading=(4.5, 2.5), domain=(0.2, 0.6))
declare(special.ncfdtr,
    _freedom("ncfdtr", "dfn"), _freedom("ncfdtr", "dfd"),
    lambda ans, dfn, dfd, nc, f: lambda ct: ct * _f_by_noncentrality(dfn, dfd, nc, f),
    lambda ans, dfn, dfd, nc, f: lambda ct: ct * _f_density(dfn, dfd, nc, f),
    leading=(3.5, 4.5), domain=(0.5, 3))
declare(special.ncfdtri,
    _freedom("ncfdtri", "dfn"), _freedom("ncfdtri", "dfd"),
    lambda ans, dfn, dfd, nc, p: lambda ct: ct / _f_ratio(dfn, dfd, nc, ans),
    lambda ans, dfn, dfd, nc, p: lambda ct: ct / _f_density(dfn, dfd, nc, ans),
    leading=(3.5, 4.5), domain=((0.5, 3), (0.2, 0.8)))
declare(special.ncfdtrinc,
    _freedom("ncfdtrinc", "dfn"), _freedom("ncfdtrinc", "dfd"),
    lambda ans, dfn, dfd, p, f: lambda ct: ct / _f_by_noncentrality(dfn, dfd, ans, f),
    lambda ans, dfn, dfd, p, f: lambda ct: ct * _f_ratio(dfn, dfd, ans, f),
    shapes=())
NOT_SAMPLED["ncfdtrinc"] = "SciPy's accuracy is 1e-5, too little for finite differences"
declare(special.nctdtr,
    _freedom("nctdtr", "df"),
    lambda ans, df, nc, t: lambda ct: ct * -t_moment(0, df, nc, t),
    lambda ans, df, nc, t: lambda ct: ct * t_moment(1, df, nc, t), leading=(3.5,))
declare(special.nctdtrit,
    _freedom("nctdtrit", "df"),
    lambda ans, df, nc, p: lambda ct: ct / _t_ratio(df, nc, ans),
    lambda ans, df, nc, p: lambda ct: ct / t_moment(1, df, nc, ans),
    leading=(3.5,), domain=((-2, 2), (0.2, 0.8)))
declare(special.nctdtrinc,
    _freedom("nctdtrinc", "df"),
    lambda ans, df, p, t: lambda ct: ct / -t_moment(0, df, ans, t),
    lambda ans, df, p, t: lambda ct: ct * _t_ratio(df, ans, t),
    leading=(3.5,), domain=((0.2, 0.8), (-2, 2)))

refuse(special.chndtridf,  "scipy.special.chndtridf", "x p nc")
refuse(special.ncfdtridfd, "scipy.special.ncfdtridfd", "dfn p nc f")
refuse(special.ncfdtridfn, "scipy.special.ncfdtridfn", "p dfd nc f")
refuse(special.nctdtridf,  "scipy.special.nctdtridf", "p nc t")
# fmt: on


def _chi_square_slope(ans: Array, df: Array, x: Array, nc: Array) -> Any:
    """Return the derivative of the density with respect to `x`."""
    return ans * ((df / 2 - 1 - x / 2) / x) + chi_square_density(df + 2, x, nc) * (nc / x / 2)


def _f_kernel_slope(ans: Array, power: Array, a: Array, b: Array, nc: Array, odds: Array) -> Any:
    """Return the derivative of the kernel with respect to the odds."""
    if power == 0:
        rise = f_kernel(power, a + 1, b, nc, odds) * nc / 2 + ans * a
    else:
        rise = f_kernel(power - 1, a, b, nc, odds)
    return (rise / odds - ans * b) / (1 + odds)


def _f_density(dfn: Array, dfd: Array, nc: Array, f: Array) -> Array:
    """Return the density of the noncentral F distribution."""
    at_zero = np.equal(f, 0)
    density = f_kernel(0, dfn / 2, dfd / 2, nc, f * (dfn / dfd)) / np.where(at_zero, 1, f)
    limit = np.where(dfn < 2, np.inf, np.where(dfn > 2, 0, np.exp(nc / -2)))
    return np.where(at_zero, limit, density)


def _f_by_noncentrality(dfn: Array, dfd: Array, nc: Array, f: Array) -> Any:
    """Return the derivative of the noncentral F distribution function with respect to its noncentrality."""
    return f_kernel(1, dfn / 2, dfd / 2, nc, f * (dfn / dfd)) / -2


# Change of the noncentrality with the argument at a fixed probability


def _chi_square_ratio(df: Array, x: Array, nc: Array) -> Any:
    return chi_square_density(df, x, nc) / chi_square_density(df + 2, x, nc)


def _f_ratio(dfn: Array, dfd: Array, nc: Array, f: Array) -> Any:
    return -_f_density(dfn, dfd, nc, f) / _f_by_noncentrality(dfn, dfd, nc, f)


def _t_ratio(df: Array, nc: Array, t: Array) -> Any:
    return t_moment(1, df, nc, t) / t_moment(0, df, nc, t)
