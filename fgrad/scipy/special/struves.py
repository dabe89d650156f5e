"""Struve functions and Kelvin functions."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last, far, near, power_series, several
from fgrad.typing import Array, Operand

# Struve functions


def _struve_slope(function: Callable[..., Any], sign: int, ans: Array, v: Operand, x: Array) -> Any:
    """Return the derivative of H, or of L: up to 1 by the power series, beyond 1 by the recurrence.

    They are https://dlmf.nist.gov/11.2.E1 and https://dlmf.nist.gov/11.4.E27; the latter has a pole at 0.
    """
    is_near = np.abs(x) < 1
    half = 0.5 * near(x, is_near)
    coefficients = [
        sign**k * 0.5 * (2 * k + 1 + v) * (special.rgamma(k + 1.5) * special.rgamma(k + 1.5 + v)) for k in range(10)
    ]
    beyond = function(v - 1, x) - v * ans / far(x, is_near)
    return np.where(is_near, np.power(half, v) * power_series(half * half, coefficients), beyond)


_FACTS: dict[str, Any] = {
    "constants": "v",
    "keeps_ans": True,
    "leading": (1.5,),
    "domain": (0.3, 4.0),
    "complex": False,
}
along_last(special.struve, lambda ans, v, x: _struve_slope(special.struve, -1, ans, v, x), **_FACTS)
along_last(special.modstruve, lambda ans, v, x: _struve_slope(special.modstruve, 1, ans, v, x), **_FACTS)

# Kelvin functions: ber + i bei and ker + i kei solve f'' + f' / x = i f


def _over_x(x: Array, slope: Array, start: int) -> Any:
    """Return the first derivative of ber or bei, divided by x: up to 1 by its power series.

    Args:
        x: real numbers.
        slope: the derivative.
        start: 0 for ber, 1 for bei: the first power of x**2 / 4 in the series, in steps of two (10.65).
    """
    is_near = np.abs(x) < 1
    quarter = 0.25 * near(x, is_near) ** 2
    # The derivative of the m-th power of x**2 / 4, divided by x, is m / 2 times the power m - 1.
    powers = range(start or 2, 14, 2)
    terms = [(-1) ** (m // 2) * m / (2 * factorial(m) ** 2) for m in powers]
    series = quarter ** (powers[0] - 1) * power_series(quarter * quarter, terms)
    return np.where(is_near, series, slope / far(x, is_near))


def _ber_second(x: Array, bei: Array, slope: Array) -> Any:
    return -bei - _over_x(x, slope, 0)


def _bei_second(x: Array, ber: Array, slope: Array) -> Any:
    return ber - _over_x(x, slope, 1)


def _ker_second(x: Array, kei: Array, slope: Array) -> Any:
    return -kei - slope / x


def _kei_second(x: Array, ker: Array, slope: Array) -> Any:
    """Return the second derivative of kei, which diverges at 0 like ker."""
    is_zero = np.equal(x, 0)
    return ker - np.where(is_zero, 0, slope / np.where(is_zero, 1, x))


def _kelvin_slopes(ans: tuple[Any, ...], x: Array) -> Any:
    first, second, first_slope, second_slope = ans
    ber = _ber_second(x, np.imag(first), np.real(first_slope))
    bei = _bei_second(x, np.real(first), np.imag(first_slope))
    ker = _ker_second(x, np.imag(second), np.real(second_slope))
    kei = _kei_second(x, np.real(second), np.imag(second_slope))
    return first_slope, second_slope, ber + 1j * bei, ker + 1j * kei


_REAL: dict[str, Any] = {"domain": (0.3, 4.0), "complex": False}
along_last(special.ber, lambda x: special.berp(x), **_REAL)
along_last(special.bei, lambda x: special.beip(x), **_REAL)
along_last(special.ker, lambda x: special.kerp(x), **_REAL)
along_last(special.kei, lambda x: special.keip(x), **_REAL)
along_last(special.berp, lambda ans, x: _ber_second(x, special.bei(x), ans), keeps_ans=True, **_REAL)
along_last(special.beip, lambda ans, x: _bei_second(x, special.ber(x), ans), keeps_ans=True, **_REAL)
along_last(special.kerp, lambda ans, x: _ker_second(x, special.kei(x), ans), keeps_ans=True, **_REAL)
along_last(special.keip, lambda ans, x: _kei_second(x, special.ker(x), ans), keeps_ans=True, **_REAL)
several(special.kelvin, _kelvin_slopes, **_REAL)
