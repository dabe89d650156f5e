"""Airy functions and their integrals.

The second derivative is `z` times the function. Scaled functions change little for large arguments, because
the function and the exponential factor cancel. There they are written with scaled Bessel
functions of order 1/3 and 2/3 (https://dlmf.nist.gov/9.6), whose derivatives do not cancel.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import several
from fgrad.scipy.special.bessel import scaled_derivative
from fgrad.typing import Array


def _airye_slopes(ans: tuple[Any, ...], z: Array) -> Any:
    return _slopes_of_real(ans, z) if z.dtype.kind == "f" else _slopes_of_complex(ans, z)


def _slopes_of_real(ans: tuple[Any, ...], x: Array) -> tuple[Any, Any, Any, Any]:
    ai, ai_slope, bi, bi_slope = ans
    root = np.sqrt(np.maximum(x, 0))
    is_far = x > 10
    large = np.where(is_far, x, np.nan)  # NaN disables the computation elsewhere
    ai_far, ai_slope_far = _beyond_of_ai(ai, ai_slope, large)
    bi_far, bi_slope_far = _beyond_of_bi(bi, bi_slope, large)
    return (
        np.where(is_far, ai_far, ai_slope + root * ai),
        np.where(is_far, ai_slope_far, x * ai + root * ai_slope),
        np.where(is_far, bi_far, bi_slope - root * bi),
        np.where(is_far, bi_slope_far, x * bi - root * bi_slope),
    )


def _slopes_of_complex(ans: tuple[Any, ...], z: Array) -> tuple[Any, Any, tuple[Any, Any], tuple[Any, Any]]:
    ai, ai_slope, bi, bi_slope = ans
    root = np.sqrt(z)
    is_far = np.logical_and(np.abs(z) > 10, np.real(z) > -0.45 * np.abs(z))
    ai_far, ai_slope_far = _beyond_of_ai(ai, ai_slope, np.where(is_far, z, np.nan))
    # The scaling of Bi is the modulus of the exponential, which has no complex derivative.
    decay = 0.5 * np.sign(np.real(z * root))
    return (
        np.where(is_far, ai_far, ai_slope + root * ai),
        np.where(is_far, ai_slope_far, z * ai + root * ai_slope),
        (bi_slope - decay * root * bi, -decay * np.conjugate(root) * bi),
        (z * bi - decay * root * bi_slope, -decay * np.conjugate(root) * bi_slope),
    )


def _beyond_of_ai(ai: Array, ai_slope: Array, z: Array) -> Any:
    """Return the derivatives of the scaled Ai and Ai' (9.6.2, 9.6.3)."""
    root = np.sqrt(z)
    zeta, factor = 2 * z * root / 3, z / (pi * sqrt(3))
    of_ai = ai / (2 * z) + factor * scaled_derivative("kve", 1 / 3, zeta)
    return of_ai, ai_slope / z - factor * root * scaled_derivative("kve", 2 / 3, zeta)


def _beyond_of_bi(bi: Array, bi_slope: Array, x: Array) -> Any:
    """Return the derivatives of the scaled Bi and Bi' (9.6.4, 9.6.5)."""
    root = np.sqrt(x)
    zeta, factor = 2 * x * root / 3, x / sqrt(3)
    of_bi = scaled_derivative("ive", -1 / 3, zeta) + scaled_derivative("ive", 1 / 3, zeta)
    of_slope = scaled_derivative("ive", -2 / 3, zeta) + scaled_derivative("ive", 2 / 3, zeta)
    return bi / (2 * x) + factor * of_bi, bi_slope / x + factor * root * of_slope


def _airy_slopes(ans: tuple[Any, ...], z: Array) -> Any:
    ai, ai_slope, bi, bi_slope = ans
    return ai_slope, z * ai, bi_slope, z * bi


def _integral_slopes(ans: tuple[Any, ...], x: Array) -> Any:
    ahead, behind = special.airy(x), special.airy(-x)
    return ahead[0], ahead[2], behind[0], behind[2]


several(special.airy, _airy_slopes, domain=(-3.0, 3.0))
several(special.airye, _airye_slopes, domain=(0.5, 12.0))
# SciPy sums the series of these integrals to only five digits, except for small arguments.
several(special.itairy, _integral_slopes, domain=(0.05, 0.15), complex=False)
