"""Exponential, trigonometric and Fresnel integrals, the dilogarithm, and integrals of Bessel and Struve functions.

The derivative of an integral is its integrand. Integrands that are quotients are written without
their removable poles, and without overflow before the integral overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi
from typing import Any

import numpy as np

from fgrad.core.tensor import apply
from fgrad.ops.families import SHAPES, elementwise, sample
from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last, far, near, order, power_series, rule_of, several
from fgrad.typing import Array, Operand

# Quotients with a removable pole at 0: power series in x**2, up to 1


def _quotient(x: Array, coefficients: list[float], beyond: Callable[..., Any]) -> Any:
    """Return an even function: by its series up to 1, and beyond by a formula, which receives `x` where it is valid."""
    is_near = np.abs(x) < 1
    small = near(x, is_near)
    return np.where(is_near, power_series(small * small, coefficients), beyond(far(x, is_near)))


def _exponential_half(x: Array) -> Any:
    """Return exp(x) / (2 x), which is finite where exp(x) may overflow."""
    half = np.exp(0.5 * x)
    return half / (2 * x) * half


def _sinc(x: Array) -> Any:
    series = [(-1) ** k / factorial(2 * k + 1) for k in range(10)]
    return _quotient(x, series, lambda x: np.sin(x) / x)


def _sinhc(x: Array) -> Any:
    series = [1 / factorial(2 * k + 1) for k in range(10)]
    return _quotient(x, series, lambda x: _exponential_half(x) + _exponential_half(-x))


def _lowered_bessel(x: Array, function: Callable[..., Any], sign: int) -> Any:
    """Return sign * (f(x) - 1) / x of the Bessel function J0 or I0."""
    series = [sign**k / (4 ** (k + 1) * factorial(k + 1) ** 2) for k in range(10)]
    return x * _quotient(x, series, lambda x: sign * (function(x) - 1) / (x * x))


def _lowered_struve(x: Array) -> Any:
    """Return H0(x) / x."""
    odd = [float(np.prod(np.arange(1.0, 2 * k + 2, 2))) for k in range(10)]
    series = [(2 / pi) * (-1) ** k / odd[k] ** 2 for k in range(10)]
    return _quotient(x, series, lambda x: special.struve(0, x) / x)


# Exponential and trigonometric integrals


def _expn_slope(n: Operand, x: Array) -> Any:
    """Return the derivative of E_n, minus E_(n - 1); for n = 0 it is elementary."""
    before = np.exp(-x) * (1 + 1 / x) / x
    return -np.where(np.less(n, 1), before, special.expn(np.maximum(np.subtract(n, 1), 0), x))


def _dilogarithm_slope(z: Array) -> Any:
    """Return log(z) / (1 - z)."""
    is_near = np.abs(z - 1) < 0.1
    series = power_series(near(1 - z, is_near), [-1 / (k + 1) for k in range(18)])
    beyond = np.where(is_near, 2, z)
    return np.where(is_near, series, np.log(beyond) / (1 - beyond))


_POSITIVE = (0.3, 3.0)
_REAL: dict[str, Any] = {"complex": False, "domain": _POSITIVE}
along_last(special.expi, lambda z: 2 * _exponential_half(z), domain=_POSITIVE)
along_last(special.exp1, lambda z: 2 * _exponential_half(-z), domain=_POSITIVE)
along_last(special.expn, _expn_slope, "n", leading=(2,), **_REAL)
along_last(special.spence, _dilogarithm_slope, domain=_POSITIVE)
several(special.sici, lambda ans, z: (_sinc(z), np.cos(z) / z), domain=_POSITIVE)
several(special.shichi, lambda ans, z: (_sinhc(z), _exponential_half(z) - _exponential_half(-z)), domain=_POSITIVE)

# Fresnel integrals


def _quarters_value(x: Operand) -> Any:
    """Return x**2 modulo 4, without the rounding of x**2: with x = n + f, by exact products."""
    whole = np.rint(x)
    fraction = x - whole
    odd = np.remainder(whole, 2)
    return odd * odd + 2 * np.remainder(whole * fraction, 2) + fraction * fraction


_quarters = elementwise(
    _quarters_value, lambda ans, x: lambda ct: ct * (2 * x), name="quarters_of_square", complex=False
)


def _fresnel_slopes(ans: tuple[Any, ...], z: Array) -> tuple[Any, Any]:
    angle = 0.5 * pi * (apply(_quarters, (z,)) if z.dtype.kind == "f" else z * z)
    return np.sin(angle), np.cos(angle)


def _modified_fresnel_slopes(sign: int, ans: tuple[Any, ...], x: Array) -> tuple[Any, Any]:
    """Return the derivatives of F and K; for large arguments from the expansion of K, which is half erfcx(w).

    With w = exp(-i pi / 4) x, or its conjugate, the two terms of erfcx'(w) = 2 w erfcx(w) - 2 / sqrt(pi) cancel
    (https://dlmf.nist.gov/7.12).
    """
    turn, unit = 1j * sign, (1 - 1j * sign) * 0.5**0.5
    is_near = x < 8
    inverse = 1 / np.where(is_near, 8, x)
    # With w**2 = -turn * x**2 the k-th term of the derivative is (2 k + 1)!! / (2 turn * x**2)**k.
    terms = [float(np.prod(np.arange(1.0, 2 * k + 2, 2))) * (0.5 / turn) ** k for k in range(24)]
    square = inverse * inverse
    beyond = power_series(square, terms) * square * (-0.5 * turn * unit / pi**0.5)
    return -np.exp(turn * x * x), np.where(is_near, -2 * turn * x * ans[1] - unit / pi**0.5, beyond)


several(special.fresnel, _fresnel_slopes, domain=(-2.0, 2.0))
several(special.modfresnelp, lambda ans, x: _modified_fresnel_slopes(1, ans, x), **_REAL)
several(special.modfresnelm, lambda ans, x: _modified_fresnel_slopes(-1, ans, x), **_REAL)

# Integrals of Bessel and Struve functions


def _besselpoly_slope(a: Array, lmb: Operand, nu: Operand) -> Any:
    """Return the derivative with respect to `a` of the integral of x**lmb * J_nu(2 a x) over 0 to 1."""
    return special.besselpoly(a, lmb + 1, nu - 1) - special.besselpoly(a, lmb + 1, nu + 1)


elementwise(
    special.besselpoly,
    rule_of(_besselpoly_slope),
    order("besselpoly", "lmb", 1),
    order("besselpoly", "nu", 2),
    shapes=(),
).samples = tuple(sample(*each, domain=_POSITIVE, complex=False, constants=(1.0, 0.5)) for each in SHAPES[1])
several(special.itj0y0, lambda ans, x: (special.j0(x), special.y0(x)), **_REAL)
several(special.iti0k0, lambda ans, x: (special.i0(x), special.k0(x)), **_REAL)
several(special.it2j0y0, lambda ans, x: (_lowered_bessel(x, special.j0, -1), -special.y0(x) / x), **_REAL)
several(special.it2i0k0, lambda ans, x: (_lowered_bessel(x, special.i0, 1), -special.k0(x) / x), **_REAL)
along_last(special.itstruve0, lambda x: special.struve(0, x), **_REAL)
along_last(special.it2struve0, lambda x: -_lowered_struve(x), **_REAL)
along_last(special.itmodstruve0, lambda x: special.modstruve(0, x), **_REAL)
