"""Legendre functions with respect to x.

Their derivatives are powers of 1 - x**2 times derivatives of Legendre polynomials, which are Gegenbauer
polynomials. In this form, the ends of the interval are poles only if the function has poles there. Sections are those
of https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last
from fgrad.typing import Array, ArrayLike


def legendre_derivative(n: ArrayLike, k: Any, x: Any) -> Any:
    """Return the k-th derivative of the Legendre function P_n, divided by 1 * 3 * ... * (2 k - 1) (18.9.19)."""
    is_whole = np.equal(n, np.rint(n))
    # For integer degrees SciPy has a recurrence, which needs integers; otherwise a hypergeometric function.
    lower = np.where(is_whole, n, 0) - k
    whole = special.eval_gegenbauer(astype(as_array(np.maximum(lower, 0)), np.int_), k + 0.5, x)
    fraction = special.eval_gegenbauer(np.where(is_whole, 0.5, n - k), k + 0.5, x)
    return np.where(is_whole, np.where(lower < 0, 0.0, whole), fraction)


def _powers(k: Any, x: Any, count: int) -> list[Any]:
    """Return the derivatives of (1 - x**2)**(k / 2), starting with the power itself.

    Where the factor of a power is 0, the power is replaced by 1, which has no pole.
    """
    height, half = (1 - x) * (1 + x), k / 2.0

    def times(factor: Array, less: int) -> Any:
        return factor * height ** np.where(np.equal(factor, 0), 0.0, half - less)

    first = -2 * x * times(half, 1)
    return [height**half, first, 4 * x * x * times(half * (half - 1), 2) - 2 * times(half, 1)][: count + 1]


def _term(power: Array, n: Array, k: Array, x: Array) -> Array:
    """Return a power times the k-th derivative of a polynomial; it is 0 if the degree is smaller."""
    is_zero = np.logical_and(np.equal(n, np.rint(n)), np.less(n, k))
    return np.where(is_zero, 0.0, power * legendre_derivative(n, k, x))


def ferrers_derivatives(m: ArrayLike, n: ArrayLike, x: Any, count: int = 1) -> list[Any]:
    """Return the first and second derivative of the Ferrers function of order `m` and degree `n` (14.6.1, 14.9.3)."""
    n = np.where(np.less(n, -0.5), -np.add(n, 1.0), n)
    k = np.absolute(m)
    with np.errstate(all="ignore"):
        powers = _powers(k, x, count)
        # The factors 2 k + 1 and 2 k + 3 relate consecutive odd factorials.
        after = 2 * k + 1
        found = [_term(powers[1], n, k, x) + after * _term(powers[0], n, k + 1, x)]
        if count > 1:
            third = after * (2 * k + 3) * _term(powers[0], n, k + 2, x)
            found.append(_term(powers[2], n, k, x) + 2 * after * _term(powers[1], n, k + 1, x) + third)
    is_negative = np.less(m, 0)
    sign = np.where(is_negative, 1.0, 1.0 - 2 * np.remainder(k, 2))
    factor = sign * 2.0**k * special.gamma(k + 0.5) / pi**0.5
    # The degree may be smaller than a nonnegative order.
    many = special.poch(np.where(is_negative, n - k + 1.0, 1.0), np.where(is_negative, 2.0 * k, 0.0))
    return [factor / many * each for each in found]


along_last(
    special.lpmv,
    lambda m, v, x: ferrers_derivatives(m, v, x)[0],
    "m v",
    leading=(2, 3.0),
    domain=(-0.9, 0.9),
    complex=False,
)
