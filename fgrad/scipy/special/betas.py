"""The beta function and related functions: logarithm, binomial coefficients, incomplete integrals.

    scipy.special.beta, betaln, binom, betainc, betaincc, betaincinv, betainccinv

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
Differences of digamma functions are computed by `digamma_difference`, which does not cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.primitive import Rule
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import by_quadrature, declare
from fgrad.scipy.special.densities import beta_density
from fgrad.scipy.special.gammas import is_pole, rgamma_slope
from fgrad.scipy.special.polygammas import digamma_difference
from fgrad.typing import Array


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
