"""The gamma function, its logarithm and reciprocal, ratios, and incomplete integrals.

    scipy.special.gamma, gammaln, loggamma, gammasgn, rgamma, poch, gammainc, gammaincinv, ...
    multigammaln(a, d)    redefined here, because SciPy's does not accept tensors

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
Formulas refer to https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import by_quadrature, declare
from fgrad.scipy.special.densities import gamma_density
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
