"""The normal distribution: distribution function, its logarithm and inverses, and Owen's T function.

    scipy.special.ndtr, ndtri, log_ndtr, ndtri_exp, owens_t, nrdtrimn, nrdtrisd

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, declare, density, helper
from fgrad.scipy.special.errorfunctions import erfcx_slope
from fgrad.typing import Array

normal_density: Helper = density("normal_density", -0.5, 1 / sqrt(2 * pi))


def _inverse_density(x: Array) -> Any:
    return np.exp(x * x * 0.5) * sqrt(2 * pi)


def _mills(x: Array) -> Any:
    return sqrt(2 / pi) / special.erfcx(x * -sqrt(0.5))


def _mills_slope(ans: Array, x: Array) -> Any:
    """Return the derivative of the ratio, -ans * (x + ans), with an accurate sum on the left."""
    u = x * -sqrt(0.5)
    left = np.real(x) < 0
    on_left = np.where(left, u, 1)
    remainder = erfcx_slope(on_left) / special.erfcx(on_left) * -sqrt(0.5)
    return -ans * np.where(left, remainder, x + ans)


def _owen_slope(h: Array, a: Array) -> Any:
    """Return the derivative of Owen's T function with respect to `h`."""
    return normal_density(h) * special.erf(a * h * sqrt(0.5)) / -2


def _owen_slope_of_angle(h: Array, a: Array) -> Any:
    """Return the derivative with respect to `a`, the tangent of an angle."""
    square = a * a + 1
    return np.exp(h * h * square / -2) / (square * (2 * pi))


def _relative_slope(x: Array) -> Any:
    """Return the derivative of the logarithm of `ndtri`, given its value `x`."""
    return _inverse_density(x) / x


# fmt: off
mills: Helper = helper(_mills,
    lambda ans, x: lambda ct: ct * _mills_slope(ans, x), name="inverse_mills_ratio", complex=True)

declare(special.ndtr,      lambda ans, x: lambda ct: ct * normal_density(x), complex=True)
declare(special.ndtri,     lambda ans, y: lambda ct: ct * _inverse_density(ans), domain=(0.1, 0.9))
declare(special.log_ndtr,  lambda ans, x: lambda ct: ct * mills(x), complex=True)
declare(special.ndtri_exp, lambda ans, y: lambda ct: ct / mills(ans), domain=(-3, -0.2))
declare(special.owens_t,   lambda ans, h, a: lambda ct: ct * _owen_slope(h, a),
                           lambda ans, h, a: lambda ct: ct * _owen_slope_of_angle(h, a))
declare(special.nrdtrimn,  lambda ans, p, std, x: lambda ct: ct * (std * -_inverse_density(special.ndtri(p))),
                           lambda ans, p, std, x: lambda ct: ct * -special.ndtri(p),
                           lambda ans, p, std, x: lambda ct: ct * 1.0,
                           domain=((0.1, 0.4), (0.5, 2), (-2, 2)))
declare(special.nrdtrisd,  lambda ans, mn, p, x: lambda ct: ct / -special.ndtri(p),
                           lambda ans, mn, p, x: lambda ct: ct * (-ans * _relative_slope(special.ndtri(p))),
                           lambda ans, mn, p, x: lambda ct: ct / special.ndtri(p),
                           domain=((2, 3), (0.1, 0.4), (-2, 1)))
# fmt: on
