"""The error functions and their inverses, the Faddeeva function, the Voigt profile, and the normal distribution.

    scipy.special.erf, erfc, erfcx, erfi, erfinv, erfcinv, dawsn, wofz, voigt_profile
    scipy.special.ndtr, ndtri, log_ndtr, ndtri_exp, owens_t, nrdtrimn, nrdtrisd
    faddeeva(n, z)     the n-th derivative of `wofz`, used in the derivatives of the scaled functions

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
Far from 0 the scaled functions decay algebraically, and `2 * z * f(z)` in their derivatives is nearly
constant: there the difference is computed by its asymptotic series.
Formulas refer to https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from fgrad.ops.lengths import unless_zero
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, declare, density, helper, whole_number
from fgrad.typing import Array

FAR = 8.0
"""The series is accurate from this modulus on."""


def _faddeeva(n: Array, z: Array) -> Any:
    order, z = int(n), np.asarray(z, np.complex128)
    far = np.abs(z) > FAR
    result = _by_recurrence(order, z)
    return np.where(far, _by_series(order, np.where(far, z, 2 * FAR)), result) if np.any(far) else result


def _by_recurrence(order: int, z: Array) -> Any:
    """Return the derivative from those of lower order: w' = -2 z w + 2i / sqrt(pi) (7.10.E2)."""
    before, current = 0.0, special.wofz(z)
    for k in range(order):
        before, current = current, -2 * z * current - 2 * k * before + (2j / sqrt(pi) if k == 0 else 0)
    return current


def _by_series(order: int, z: Array) -> Array:
    """Return the derivative far from 0 (7.12.E1): on and below the real line with a Gaussian added."""
    below = z.imag < 0
    above = np.where(below, -z, z)
    factor = np.prod(np.arange(1.0, order + 1)) * (1j * (-1) ** order / sqrt(pi)) / above ** (order + 1)
    total = np.zeros_like(above)
    for k in range(30):
        total = total + factor
        factor = factor * ((2 * k + 1 + order) * (2 * k + 2 + order) / (2 * k + 2) / 2) / (above * above)
    gaussian = (-1) ** order * _hermite(order, z) * np.exp(-z * z)
    total = total + np.where(above.imag < 1, (-1) ** order * _hermite(order, above) * np.exp(-above * above), 0)
    return np.where(below, 2 * gaussian - (-1) ** order * total, total)


def _hermite(order: int, z: Array) -> Any:
    before, current = np.zeros_like(z), np.ones_like(z)
    for k in range(order):
        before, current = current, 2 * z * current - 2 * k * before
    return current


# fmt: off
faddeeva: Helper = helper(_faddeeva,
    whole_number("scipy.special.wofz", "n"),
    lambda ans, n, z: lambda ct: ct * faddeeva(n + 1, z),
    name="faddeeva", leading=(1,), complex=True)

error_density: Helper = density("error_density", -1.0, 2 / sqrt(pi))
complement_density: Helper = density("complement_density", -1.0, -2 / sqrt(pi))
declare(special.erf,      lambda ans, z: lambda ct: ct * error_density(z), complex=True)
declare(special.erfc,     lambda ans, z: lambda ct: ct * complement_density(z), complex=True)
declare(special.erfcx,    lambda ans, z: lambda ct: ct * erfcx_slope(z), complex=True)
declare(special.erfi,     lambda ans, z: lambda ct: ct * (np.exp(z * z) * (2 / sqrt(pi))), domain=(-1, 1), complex=True)
declare(special.erfinv,   lambda ans, y: lambda ct: ct * (np.exp(ans * ans) * (sqrt(pi) / 2)), domain=(-0.9, 0.9))
declare(special.erfcinv,  lambda ans, y: lambda ct: ct * (np.exp(ans * ans) * (-sqrt(pi) / 2)), domain=(0.1, 1.9))
declare(special.dawsn,    lambda ans, z: lambda ct: ct * _dawson_slope(z), complex=True)
declare(special.wofz,     lambda ans, z: lambda ct: ct * faddeeva(1, z), complex=True)
declare(special.voigt_profile,
                          lambda ans, x, sigma, gamma: lambda ct: ct * _voigt_slope_of_x(x, sigma, gamma),
                          lambda ans, x, sigma, gamma: lambda ct: ct * _voigt_slope_of_sigma(x, sigma, gamma),
                          lambda ans, x, sigma, gamma: lambda ct: ct * _voigt_slope_of_gamma(x, sigma, gamma),
                          domain=((-2, 2), (0.5, 2), (0.5, 2)))
# fmt: on


def erfcx_slope(z: Any) -> Any:
    """Return the derivative of erfcx(z) = w(i z); for negative real numbers nothing cancels."""
    if z.dtype.kind == "c":
        return faddeeva(1, z * 1j) * 1j
    left, infinite = z < 0, np.isinf(z)
    on_right = -np.imag(faddeeva(1, np.where(np.logical_or(left, infinite), 0, z) * 1j))
    return np.where(left, z * special.erfcx(z) * 2 - 2 / sqrt(pi), np.where(infinite, 0, on_right))


def _dawson_slope(z: Array) -> Any:
    """Return the derivative of Dawson's integral, i sqrt(pi)/2 (exp(-z**2) - w(z)), which is odd (7.5.E1)."""
    if z.dtype.kind != "c":
        infinite = np.isinf(z)
        return np.where(infinite, 0, np.imag(faddeeva(1, np.where(infinite, 0, z))) * (sqrt(pi) / 2))
    above = np.where(np.imag(z) < 0, -z, z)
    return (above * np.exp(-above * above) * -2 - faddeeva(1, above)) * (1j * sqrt(pi) / 2)


# The Voigt profile is the real part of w((x + i gamma) / (sigma sqrt(2))) / (sigma sqrt(2 pi)) (7.19.E1 to E3)


def _voigt_argument(x: Array, sigma: Array, gamma: Array) -> Any:
    return (x + gamma * 1j) / (unless_zero(sigma) * sqrt(2))


def _voigt_slope_of_x(x: Array, sigma: Array, gamma: Array) -> Any:
    slope = np.real(faddeeva(1, _voigt_argument(x, sigma, gamma))) / (unless_zero(sigma) ** 2 * (2 * sqrt(pi)))
    square = x * x + gamma * gamma
    return np.where(np.equal(sigma, 0), x * gamma * -2 / (square * square * pi), slope)


def _voigt_slope_of_gamma(x: Array, sigma: Array, gamma: Array) -> Any:
    slope = -np.imag(faddeeva(1, _voigt_argument(x, sigma, gamma))) / (unless_zero(sigma) ** 2 * (2 * sqrt(pi)))
    square = x * x + gamma * gamma
    return np.where(np.equal(sigma, 0), (x - gamma) * (x + gamma) / (square * square * pi), slope)


def _voigt_slope_of_sigma(x: Array, sigma: Array, gamma: Array) -> Any:
    """Return the derivative with respect to sigma: sigma times the second derivative in x (the heat equation)."""
    curvature = np.real(faddeeva(2, _voigt_argument(x, sigma, gamma))) / (unless_zero(sigma) ** 2 * (2 * sqrt(2 * pi)))
    square = x * x + gamma * gamma
    at_zero = sigma * gamma * 2 * (3 * x * x - gamma * gamma) / (square * square * square * pi)
    return np.where(np.equal(sigma, 0), at_zero, curvature)


# The normal distribution

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
