"""The digamma function, its derivatives, the Hurwitz zeta function, and differences without cancellation.

    scipy.special.psi
    polygamma(n, x), zeta(x, q)    redefined here, because SciPy's do not accept tensors
    digamma_difference(x, d)       psi(x + d) - psi(x), accurate also for `d` much smaller than `x`
    any_polygamma(n, x)            also for complex numbers, in the precision of its arguments

Formulas refer to https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
from numpy.polynomial import polynomial

from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.ops.elementwise import astype
from fgrad.ops.families import without_closed_form
from fgrad.ops.indexing import written
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import Helper, declare, dtype_of, helper, refuse, whole_number
from fgrad.typing import Array, ArrayLike

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""The Bernoulli numbers of order 2, 4, ..., 20."""


def sine_of_pi(x: ArrayLike) -> Any:
    """Return sin(pi x), exactly 0 at integers; also for complex numbers."""
    whole = np.rint(np.real(x))
    return sign_of_whole(whole) * np.sin((x - whole) * pi)


def sign_of_whole(whole: ArrayLike) -> Any:
    """Return 1 for even numbers and -1 for odd ones."""
    return 1 - 2 * np.remainder(whole, 2)


def _digamma_difference(x: Array, d: Array) -> Any:
    end = x + d
    right, left = (x > 0) & (end > 0), (x <= 0) & (end <= 0)
    start, step = np.where(left, 1 - x, np.where(right, x, 1.0)), np.where(left, -d, np.where(right, d, 0.0))
    difference, turns = _difference_on_the_right(start, step), sine_of_pi(d)
    mirror = np.where(turns == 0, 0.0, pi * turns / (sine_of_pi(x) * sine_of_pi(end)))
    return np.select([right, left], [difference, difference + mirror], special.psi(end) - special.psi(x))


def _difference_on_the_right(x: Array, d: Array) -> Any:
    """Return psi(x + d) - psi(x) for positive x and x + d: ten steps up (5.5.E2), then Stirling (5.11.E2)."""
    steps = sum((1 / (x + k) * (d / (x + d + k)) for k in range(10)), np.zeros_like(x + d))
    y, z = x + 10, x + d + 10
    ratio = np.where(np.abs(d) < y / 2, np.log1p(d / y), np.log(z / y))
    total = steps + ratio + d / y / (2 * z)
    for k, number in enumerate(BERNOULLI, 1):
        total = total - number / (2 * k) * y ** (-2.0 * k) * np.expm1(-2 * k * ratio)
    return total


def _polygamma(n: Array, x: Array) -> Any:
    left = np.real(x) < (0.5 if x.dtype.kind == "c" else 0)
    result = np.where(left, (1 - 2 * (n % 2)), 1) * _polygamma_on_the_right(n, np.where(left, 1 - x, x))
    if np.any(left):
        for order in np.unique(n):
            result = np.where(left & (n == order) & (order > 0), result - _cotangent_of_pi(int(order), x), result)
    return np.where(n == 0, special.psi(x), result)


def _polygamma_on_the_right(n: Array, x: Array) -> Any:
    """Return the derivative of order n > 0 of psi, by the Hurwitz zeta function (25.11.E12)."""
    zeta = special.zeta if x.dtype.kind == "f" else _complex_zeta
    return np.where(n % 2, 1, -1) * special.gamma(n + 1) * zeta(n + 1, x)


def _complex_zeta(s: Array, z: Array) -> Any:
    """Return Hurwitz's zeta function for s > 1 and a positive real part, by Euler and Maclaurin (25.11.E5).

    Powers are those of reciprocals, which do not overflow.
    """
    total = sum(((1 / (z + k)) ** s for k in range(16)), np.zeros_like(z))
    small = 1 / (z + 16)
    total = total + small ** (s - 1) / (s - 1) + small**s / 2
    factor = s * small ** (s + 1) / 2
    for k, number in enumerate(BERNOULLI, 1):
        total = total + number * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2)) * (small * small)
    return total


def _cotangent_of_pi(order: int, z: Array) -> Any:
    """Return the derivative of order 1 or more of pi cot(pi z): a polynomial in cot(pi z) over the squared sine."""
    cotangent, inverse_square = _cotangent(z - np.rint(np.real(z)))
    coefficients: Any = [-1.0]
    for _ in range(order - 1):
        turned = polynomial.polymul((1, 0, 1), polynomial.polyder(coefficients))
        coefficients = -polynomial.polyadd(polynomial.polymul((0, 2), coefficients), turned)
    return pi ** (order + 1) * inverse_square * polynomial.polyval(cotangent, coefficients)


def _cotangent(z: Array) -> tuple[Any, Any]:
    """Return cot(pi z), and 1 / sin(pi z)**2 without overflow."""
    if z.dtype.kind != "c":
        return np.cos(pi * z) / np.sin(pi * z), np.sin(pi * z) ** -2.0
    below = z.imag < 0
    angle = 2j * pi * np.where(below, np.conj(z), z)
    less_one = special.expm1(angle)
    cotangent, inverse_square = 1j * (less_one + 2) / less_one, -4 * np.exp(angle) / less_one**2
    return np.where(below, np.conj(cotangent), cotangent), np.where(below, np.conj(inverse_square), inverse_square)


# fmt: off
digamma_difference: Helper = helper(_digamma_difference,
    lambda ans, x, d: lambda ct: ct * (trigamma(x + d) - trigamma(x)),
    lambda ans, x, d: lambda ct: ct * trigamma(x + d),
    name="digamma_difference", domain=((0.3, 3), (-0.2, 3)))
any_polygamma: Helper = helper(_polygamma,
    whole_number("scipy.special.polygamma", "n"),
    lambda ans, n, x: lambda ct: ct * any_polygamma(n + 1, x),
    name="polygamma", leading=(1,), domain=(0.3, 3), complex=True)
any_zeta: Helper = helper(special.zeta,
    without_closed_form("scipy.special.zeta", "x"),
    lambda ans, x, q: lambda ct: ct * (-x * any_zeta(x + 1, q)),
    name="hurwitz_zeta", leading=(2.5,), domain=(0.3, 3))
riemann_zeta = refuse(special.zeta, "scipy.special.zeta", "x")

declare(special.psi, lambda ans, x: lambda ct: ct * trigamma(x), domain=(0.3, 3), complex=True)
refuse(special.zetac, "scipy.special.zetac", "x")
# fmt: on


def trigamma(x: ArrayLike) -> Any:
    """Return the derivative of psi."""
    return any_polygamma(1, x)


# Functions that are not ufuncs in SciPy


@differentiates(special.polygamma)
def polygamma(n: ArrayLike, x: ArrayLike) -> Any:
    """Return the derivative of order `n` of the digamma function.

    Args:
        n: nonnegative integers; they are constants.
        x: real numbers.

    Returns:
        An array of the shape to which `n` and `x` broadcast, in double precision as in SciPy.

    Raises:
        NoClosedFormError: a NotImplementedError; `n` is traced.

    Example:
        >>> import fgrad as fg
        >>> print(f"{fg.grad(lambda x: polygamma(1, x))(1.0):.6f}")
        -2.404114
    """
    n = as_array(n)
    return astype(any_polygamma(n, x), dtype_of(special.polygamma, n, x))


@differentiates(special.zeta)
def _zeta(x: Array | float, q: Array | float | None) -> Any:
    return apply(riemann_zeta, (x,)) if q is None else any_zeta(x, q)


def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    """Return the Riemann or Hurwitz zeta function, the sum of (k + q)**-x over k = 0, 1, ...

    Args:
        x: the exponents; they are constants.
        q: the start of the sum; by default 1.
        out: an array or tensor for the result.

    Returns:
        An array of the shape to which `x` and `q` broadcast.

    Raises:
        NoClosedFormError: a NotImplementedError; `x` is traced.
        InPlaceError: a TypeError; `out` is a plain array, and an argument is traced.

    Example:
        >>> import fgrad as fg
        >>> print(f"{fg.grad(lambda q: zeta(2.0, q))(1.0):.6f}")
        -2.404114
    """
    return written("scipy.special.zeta", out, _zeta(x, q))
