"""Cumulative distributions as functions, with their complements and inverses.

    of Student's t, F, Poisson, binomial, negative binomial, gamma and chi-square distributions:
    scipy.special.stdtr, stdtrit, fdtr, fdtrc, fdtri, gdtr, gdtrc, gdtrix, gdtria, chdtr, chdtrc, chdtri,
    pdtr, pdtrc, pdtri, bdtr, bdtrc, bdtri, nbdtr, nbdtrc, nbdtri, and Tukey's lambda: tklmbda

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
The derivative of a distribution function is its density, that of an inverse the reciprocal. Derivatives with respect
to shapes have no closed form, and integers have no derivative: their rules raise.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from fgrad.core.primitive import Rule
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, by_quadrature, declare, helper, refuse, whole_number
from fgrad.scipy.special.densities import beta_density, f_density, gamma_density, t_density
from fgrad.scipy.special.elementary import any_exprel
from fgrad.typing import Array


def _shape(function: str, argument: str, call: str) -> Rule:
    return by_quadrature(f"scipy.special.{function}", argument, call)


def _whole(function: str, argument: str) -> Rule:
    return whole_number(f"scipy.special.{function}", argument)


# fmt: off
# Student's t and F distributions
declare(special.stdtr,   _shape("stdtr", "df", "t.cdf(t, df)"),
                         lambda ans, df, t: lambda ct: ct * t_density(df, t), leading=(1.5,))
declare(special.stdtrit, _shape("stdtrit", "df", "t.ppf(p, df)"),
                         lambda ans, df, p: lambda ct: ct / t_density(df, ans), leading=(1.5,), domain=(0.1, 0.9))
declare(special.fdtr,    _shape("fdtr", "dfn", "f.cdf(x, dfn, dfd)"), _shape("fdtr", "dfd", "f.cdf(x, dfn, dfd)"),
                         lambda ans, dfn, dfd, x: lambda ct: ct * f_density(dfn, dfd, x),
                         leading=(2.5, 3.5), domain=(0.3, 3))
declare(special.fdtrc,   _shape("fdtrc", "dfn", "f.sf(x, dfn, dfd)"), _shape("fdtrc", "dfd", "f.sf(x, dfn, dfd)"),
                         lambda ans, dfn, dfd, x: lambda ct: ct * -f_density(dfn, dfd, x),
                         leading=(2.5, 3.5), domain=(0.3, 3))
declare(special.fdtri,   _shape("fdtri", "dfn", "f.ppf(p, dfn, dfd)"), _shape("fdtri", "dfd", "f.ppf(p, dfn, dfd)"),
                         lambda ans, dfn, dfd, p: lambda ct: ct / f_density(dfn, dfd, ans),
                         leading=(2.5, 3.5), domain=(0.1, 0.9))

# Gamma and chi-square
declare(special.gdtr,    lambda ans, a, b, x: lambda ct: ct * (x * gamma_density(b, a * x)),
                         _shape("gdtr", "b", "gamma.cdf(a * x, b)"),
                         lambda ans, a, b, x: lambda ct: ct * (a * gamma_density(b, a * x)),
                         leading=(1.3, 2.5), domain=(0.3, 3))
declare(special.gdtrc,   lambda ans, a, b, x: lambda ct: ct * (-x * gamma_density(b, a * x)),
                         _shape("gdtrc", "b", "gamma.sf(a * x, b)"),
                         lambda ans, a, b, x: lambda ct: ct * (-a * gamma_density(b, a * x)),
                         leading=(1.3, 2.5), domain=(0.3, 3))
declare(special.gdtrix,  lambda ans, a, b, p: lambda ct: ct * (-ans / a),
                         _shape("gdtrix", "b", "gamma.ppf(p, b) / a"),
                         lambda ans, a, b, p: lambda ct: ct / (a * gamma_density(b, a * ans)),
                         leading=(1.3, 2.5), domain=(0.1, 0.9))
declare(special.gdtria,  lambda ans, p, b, x: lambda ct: ct / (x * gamma_density(b, ans * x)),
                         _shape("gdtria", "b", "gamma.ppf(p, b) / x"),
                         lambda ans, p, b, x: lambda ct: ct * (-ans / x),
                         leading=(0.4, 2.5), domain=(0.3, 3))
declare(special.chdtr,   _shape("chdtr", "v", "chi2.cdf(x, v)"),
                         lambda ans, v, x: lambda ct: ct * (gamma_density(v / 2, x / 2) / 2),
                         leading=(2.5,), domain=(0.3, 4))
declare(special.chdtrc,  _shape("chdtrc", "v", "chi2.sf(x, v)"),
                         lambda ans, v, x: lambda ct: ct * (gamma_density(v / 2, x / 2) / -2),
                         leading=(2.5,), domain=(0.3, 4))
declare(special.chdtri,  _shape("chdtri", "v", "chi2.isf(p, v)"),
                         lambda ans, v, p: lambda ct: ct / (gamma_density(v / 2, ans / 2) / -2),
                         leading=(2.5,), domain=(0.1, 0.9))

# Of integers: Poisson, binomial, negative binomial
declare(special.pdtr,    _whole("pdtr", "k"),
                         lambda ans, k, m: lambda ct: ct * -gamma_density(np.floor(k) + 1, m),
                         leading=(2,), domain=(0.3, 4))
declare(special.pdtrc,   _whole("pdtrc", "k"),
                         lambda ans, k, m: lambda ct: ct * gamma_density(np.floor(k) + 1, m),
                         leading=(2,), domain=(0.3, 4))
declare(special.pdtri,   _whole("pdtri", "k"),
                         lambda ans, k, y: lambda ct: ct / -gamma_density(np.floor(k) + 1, ans),
                         leading=(2,), domain=(0.1, 0.9))
declare(special.bdtr,    _whole("bdtr", "k"), _whole("bdtr", "n"),
                         lambda ans, k, n, p: lambda ct: ct * -_binomial_density(k, n, p),
                         leading=(2, np.int64(5)), domain=(0.1, 0.9))
declare(special.bdtrc,   _whole("bdtrc", "k"), _whole("bdtrc", "n"),
                         lambda ans, k, n, p: lambda ct: ct * _binomial_density(k, n, p),
                         leading=(2, np.int64(5)), domain=(0.1, 0.9))
declare(special.bdtri,   _whole("bdtri", "k"), _whole("bdtri", "n"),
                         lambda ans, k, n, y: lambda ct: ct / -_binomial_density(k, n, ans),
                         leading=(2, np.int64(5)), domain=(0.1, 0.9))
declare(special.nbdtr,   _whole("nbdtr", "k"), _whole("nbdtr", "n"),
                         lambda ans, k, n, p: lambda ct: ct * beta_density(np.floor(n), np.floor(k) + 1, p),
                         leading=(2, 5), domain=(0.1, 0.9))
declare(special.nbdtrc,  _whole("nbdtrc", "k"), _whole("nbdtrc", "n"),
                         lambda ans, k, n, p: lambda ct: ct * -beta_density(np.floor(n), np.floor(k) + 1, p),
                         leading=(2, 5), domain=(0.1, 0.9))
declare(special.nbdtri,  _whole("nbdtri", "k"), _whole("nbdtri", "n"),
                         lambda ans, k, n, y: lambda ct: ct / beta_density(np.floor(n), np.floor(k) + 1, ans),
                         leading=(2, 5), domain=(0.1, 0.9))

# Inverses with respect to a parameter: the reciprocal of the derivative, which has no closed form
refuse(special.stdtridf, "scipy.special.stdtridf", "p t")
refuse(special.fdtridfd, "scipy.special.fdtridfd", "dfn p x")
refuse(special.gdtrib,   "scipy.special.gdtrib", "a p x")
refuse(special.chdtriv,  "scipy.special.chdtriv", "p x")
refuse(special.btdtria,  "scipy.special.btdtria", "p b x")
refuse(special.btdtrib,  "scipy.special.btdtrib", "a p x")
refuse(special.pdtrik,   "scipy.special.pdtrik", "p m")
refuse(special.bdtrik,   "scipy.special.bdtrik", "y n p")
refuse(special.bdtrin,   "scipy.special.bdtrin", "k y p")
refuse(special.nbdtrik,  "scipy.special.nbdtrik", "y n p")
refuse(special.nbdtrin,  "scipy.special.nbdtrin", "k y p")
# fmt: on


def _binomial_density(k: Array, n: Array, p: Array) -> Array:
    """Return minus the derivative with respect to `p` of the probability of at most `k` successes in `n` trials."""
    k, n = np.floor(k), np.floor(n)
    between = np.logical_and(k >= 0, k < n)
    return np.where(between, beta_density(np.where(between, k, 0) + 1, np.where(between, n - k, 1), p), 0)


# Tukey's distribution is defined by its inverse: with u = log(p) and v = log(1 - p) it is
# x = (exp(lmbda u) - exp(lmbda v)) / lmbda = u exprel(lmbda u) - v exprel(lmbda v).


def _log_tukey(x: Array, lmbda: Array) -> Array:
    """Return the logarithm of the distribution function by Newton's method; SciPy's is inaccurate in the tails."""
    tail = -np.abs(x)
    inside = np.logical_not(tail * lmbda <= -1)
    rest = np.log1p(np.where(inside, lmbda * tail, 0))
    in_tail = np.select([lmbda > 1, lmbda == 0], [rest - np.log(lmbda), tail], rest / lmbda)
    scipys = special.tklmbda(tail, lmbda)
    u = np.minimum(np.where(scipys > 1e-6, np.log(scipys), in_tail), -log(2))
    for _ in range(12):
        v = np.log1p(-np.exp(u))
        excess = u * special.exprel(lmbda * u) - v * special.exprel(lmbda * v) - tail
        u = np.minimum(u - excess / (np.exp(lmbda * u) + np.exp(u + (lmbda - 1) * v)), -log(2))
    u = np.where(inside, u, -np.inf)
    return np.where(x > 0, np.log1p(-np.exp(u)), u)


def _is_inside(x: Array, lmbda: Array) -> Array:
    return np.logical_not(np.abs(x) * lmbda >= 1)


def _tukey_density(x: Array, lmbda: Array) -> Array:
    """Return the density: the reciprocal of the slope of the inverse."""
    inside = _is_inside(x, lmbda)
    x = np.where(inside, x, 0)
    slope = np.exp(log_tukey(x, lmbda) * (lmbda - 1)) + np.exp(log_tukey(-x, lmbda) * (lmbda - 1))
    return np.where(inside, 1 / slope, 0)


def _tukey_slope(x: Array, lmbda: Array) -> Any:
    """Return the derivative with respect to the shape: minus that of the inverse, times the density."""
    at = np.where(_is_inside(x, lmbda), x, 0)
    u, v = log_tukey(at, lmbda), log_tukey(-at, lmbda)
    return (v * v * any_exprel(1, lmbda * v) - u * u * any_exprel(1, lmbda * u)) * _tukey_density(x, lmbda)


# fmt: off
log_tukey: Helper = helper(_log_tukey,
    lambda ans, x, lmbda: lambda ct: ct * (_tukey_density(x, lmbda) * np.exp(-ans)),
    lambda ans, x, lmbda: lambda ct: ct * (_tukey_slope(x, lmbda) * np.exp(-ans)),
    name="log_tukey", domain=((-1, 1), (-0.9, 0.9)))

declare(special.tklmbda, lambda ans, x, lmbda: lambda ct: ct * _tukey_density(x, lmbda),
                         lambda ans, x, lmbda: lambda ct: ct * _tukey_slope(x, lmbda),
                         domain=((-1, 1), (-0.9, 0.9)))
# fmt: on
