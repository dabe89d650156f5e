"""The gamma and beta functions, their logarithms, ratios such as binomial coefficients, and incomplete integrals.

    scipy.special.gamma, gammaln, loggamma, gammasgn, rgamma, poch, gammainc, gammaincinv, ...
    scipy.special.beta, betaln, binom, betainc, betaincc, betaincinv, betainccinv
    multigammaln(a, d)    redefined here, because SciPy's does not accept tensors

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
Differences of digamma functions are computed by `digamma_difference`, which does not cancel.
Formulas refer to https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.primitive import Rule
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import by_quadrature, declare
from fgrad.scipy.special.densities import beta_density, gamma_density
from fgrad.scipy.special.polygammas import digamma_difference, sign_of_whole
from fgrad.typing import Array


def rgamma_slope(x: Any) -> Any:
    """Return the derivative of 1 / gamma(x), which has no poles: on the left by reflection (5.5.E3)."""
    whole = np.rint(np.real(x))
    angle = (x - whole) * pi
    mirrored = special.gamma(1 - x) * (np.cos(angle) - special.psi(1 - x) * np.sin(angle) / pi)
    return np.where(np.real(x) < 0.5, sign_of_whole(whole) * mirrored, -special.psi(x) * special.rgamma(x))


def is_pole(x: Any) -> Any:
    """Return where the gamma function has a pole: at 0, -1, -2, ..."""
    return np.logical_and(x <= 0, np.equal(x, np.rint(x)))


# fmt: off
# The gamma function
declare(special.gamma,        lambda ans, x: lambda ct: ct * (ans * special.psi(x)), domain=(0.3, 3), complex=True)
declare(special.gammaln,      lambda ans, x: lambda ct: ct * special.psi(x), domain=(0.3, 3))
declare(special.loggamma,     lambda ans, x: lambda ct: ct * special.psi(x), domain=(0.3, 3), complex=True)
declare(special.gammasgn,     None, scales="")
declare(special.rgamma,       lambda ans, x: lambda ct: ct * rgamma_slope(x), complex=True)
declare(special.poch,         lambda ans, z, m: lambda ct: ct * _pochhammer_slope(ans, z, m),
                              lambda ans, z, m: lambda ct: ct * (ans * special.psi(z + m)), domain=(0.3, 3))

# Incomplete integrals
declare(special.gammainc,     by_quadrature("scipy.special.gammainc", "a", "gamma.cdf(x, a)"),
                              lambda ans, a, x: lambda ct: ct * gamma_density(a, x),
                              leading=(1.5,), domain=(0.3, 4))
declare(special.gammaincc,    by_quadrature("scipy.special.gammaincc", "a", "gamma.sf(x, a)"),
                              lambda ans, a, x: lambda ct: ct * -gamma_density(a, x),
                              leading=(1.5,), domain=(0.3, 4))
declare(special.gammaincinv,  by_quadrature("scipy.special.gammaincinv", "a", "gamma.ppf(y, a)"),
                              lambda ans, a, y: lambda ct: ct / gamma_density(a, ans),
                              leading=(1.5,), domain=(0.1, 0.9))
declare(special.gammainccinv, by_quadrature("scipy.special.gammainccinv", "a", "gamma.isf(y, a)"),
                              lambda ans, a, y: lambda ct: ct / -gamma_density(a, ans),
                              leading=(1.5,), domain=(0.1, 0.9))
# fmt: on


def _pochhammer_slope(ans: Array, z: Array, m: Array) -> Any:
    """Return the derivative of gamma(z + m) / gamma(z) with respect to z, also where only the divisor has a pole."""
    end = z + m
    at_pole = special.gamma(end) * (special.psi(end) * special.rgamma(z) + rgamma_slope(z))
    alone = np.logical_and(is_pole(z), np.logical_not(is_pole(end)))
    return np.where(alone, at_pole, ans * digamma_difference(z, m))


@differentiates(special.multigammaln)
def multigammaln(a: Any, d: Any) -> Any:
    """Return the logarithm of the multivariate gamma function.

    Args:
        a: numbers above (d - 1) / 2.
        d: the dimension, an integer.

    Returns:
        An array of the shape of `a`.

    Raises:
        ValueError: `d` is not an integer, or an element of `a` is too small; the message is SciPy's.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda a: multigammaln(a, 1))(2.0)
        Tensor(0.42278434)
    """
    a, d = as_array(a), raw_array(d)
    scipys = special.multigammaln(raw_array(a), d)  # also for its checks and messages
    steps = np.reshape(np.arange(d, dtype=a.dtype) / 2, (-1, *(1,) * a.ndim))
    total = np.sum(special.gammaln(a - steps), axis=0) + float(d * (d - 1) / 4 * log(pi))
    return astype(total, scipys.dtype)


# The beta function


def _shapes(name: str, call: str) -> list[Rule]:
    return [by_quadrature(f"scipy.special.{name}", argument, f"beta.{call}") for argument in "ab"]


# fmt: off
declare(special.beta,        lambda ans, a, b: lambda ct: ct * _beta_slope(ans, a, b),
                             lambda ans, a, b: lambda ct: ct * _beta_slope(ans, b, a), domain=(0.3, 3))
declare(special.betaln,      lambda ans, a, b: lambda ct: ct * -digamma_difference(a, b),
                             lambda ans, a, b: lambda ct: ct * -digamma_difference(b, a), domain=(0.3, 3))
declare(special.binom,       lambda ans, n, k: lambda ct: ct * _binomial_slope(ans, n, k),
                             lambda ans, n, k: lambda ct: ct * _binomial_slope_of_choice(ans, n, k),
                             domain=((3.2, 5), (0.3, 3)))

declare(special.betainc,     *_shapes("betainc", "cdf(x, a, b)"),
                             lambda ans, a, b, x: lambda ct: ct * beta_density(a, b, x),
                             leading=(1.5, 2.5), domain=(0.1, 0.9))
declare(special.betaincc,    *_shapes("betaincc", "sf(x, a, b)"),
                             lambda ans, a, b, x: lambda ct: ct * -beta_density(a, b, x),
                             leading=(1.5, 2.5), domain=(0.1, 0.9))
declare(special.betaincinv,  *_shapes("betaincinv", "ppf(y, a, b)"),
                             lambda ans, a, b, y: lambda ct: ct / beta_density(a, b, ans),
                             leading=(1.5, 2.5), domain=(0.1, 0.9))
declare(special.betainccinv, *_shapes("betainccinv", "isf(y, a, b)"),
                             lambda ans, a, b, y: lambda ct: ct / -beta_density(a, b, ans),
                             leading=(1.5, 2.5), domain=(0.1, 0.9))
# fmt: on


def _beta_slope(ans: Array, a: Array, b: Array) -> Any:
    """Return the derivative of gamma(a) gamma(b) / gamma(a + b) with respect to a, also at its zeros."""
    total = a + b
    at_pole = special.gamma(a) * special.gamma(b) * (special.psi(a) * special.rgamma(total) + rgamma_slope(total))
    alone = np.logical_and(is_pole(total), np.logical_not(np.logical_or(is_pole(a), is_pole(b))))
    return np.where(alone, at_pole, -ans * digamma_difference(a, b))


def _binomial_slope(ans: Array, n: Array, k: Array) -> Any:
    """Return the derivative of gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1) with respect to n, also at its zeros."""
    rest = n - k + 1
    at_pole = special.gamma(n + 1) * special.rgamma(k + 1) * (
        special.psi(n + 1) * special.rgamma(rest) + rgamma_slope(rest)
    )  # fmt: skip
    return np.where(is_pole(rest), at_pole, ans * digamma_difference(rest, k))


def _binomial_slope_of_choice(ans: Array, n: Array, k: Array) -> Any:
    """Return the derivative with respect to k, also where the coefficient is 0 because of a pole."""
    rest = n - k + 1
    at_pole = special.gamma(n + 1) * (
        rgamma_slope(k + 1) * special.rgamma(rest) - special.rgamma(k + 1) * rgamma_slope(rest)
    )
    return np.where(np.logical_or(is_pole(rest), is_pole(k + 1)), at_pole, ans * digamma_difference(k + 1, n - 2 * k))
