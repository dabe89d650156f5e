"""Entropies, losses and the Box-Cox transforms: products with a logarithm, and their limits at 0.

    scipy.special.xlogy, xlog1py, entr, rel_entr, kl_div, huber, pseudo_huber
    scipy.special.boxcox, boxcox1p, inv_boxcox, inv_boxcox1p

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
Infinite slopes stay infinite: `entr` at 0, `xlogy(x, 0)` at x = 0. A zero divided by zero
contributes 0, and so do arguments outside of the domain, where SciPy returns an infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import apply
from fgrad.ops.elementwise import power_derivative
from fgrad.ops.families import elementwise, scale
from fgrad.ops.lengths import unless_zero
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import NOT_SAMPLED, Helper, declare, helper, whole_number
from fgrad.scipy.special.elementary import any_exprel
from fgrad.typing import Array, Operand


def _quotient(x: Array, y: Array) -> Any:
    """Return x / y, and 0 for 0 / 0, a product with 0: its slope in x is infinite."""
    neither = np.logical_and(np.equal(x, 0), np.equal(y, 0))
    return np.where(neither, scale(x, 1 / np.where(neither, y, 1)), x / np.where(neither, 1, y))


def _excess(x: Array, y: Array) -> Any:
    """Return 1 - x / y without cancellation, and 1 for 0 / 0."""
    neither = np.logical_and(np.equal(x, 0), np.equal(y, 0))
    return np.where(neither, 1 - _quotient(x, y), (y - x) / np.where(neither, 1, y))


def _log_of_quotient_value(x: Operand, y: Any) -> Array:
    near = np.abs(x - y) < y / 2
    difference = np.where(np.equal(y, 0), np.inf, np.log(x) - np.log(unless_zero(y)))
    return np.where(near, np.log1p(np.where(near, (x - y) / unless_zero(y), 0)), difference)


def _log_of_quotient(x: Array, y: Array) -> Any:
    """Return log(x / y) for nonnegative numbers, without overflow and accurate where they are close.

    It is one operation, so that the slopes at 0 are 1 / x and -1 / y, too.
    """
    return apply(_quotient_logarithm, (x, y))


_quotient_logarithm = elementwise(
    _log_of_quotient_value,
    lambda ct, x: ct / x,
    lambda ct, y: -(ct / y),
    name="log_of_quotient",
    domain=(0.3, 3),
    complex=False,
)


def _inside(slope: Array, *args: Array) -> Array:
    """Return a slope where all arguments are nonnegative, and 0 elsewhere."""
    negative = np.less(args[0], 0)
    for x in args[1:]:
        negative = np.logical_or(negative, np.less(x, 0))
    return np.where(negative, 0, slope)


# fmt: off
declare(special.xlogy,        lambda ans, x, y: lambda ct: ct * np.log(y),
                              lambda ans, x, y: lambda ct: ct * _quotient(x, y), domain=(0.3, 3), complex=True)
declare(special.xlog1py,      lambda ans, x, y: lambda ct: ct * special.log1p(y),
                              lambda ans, x, y: lambda ct: ct * _quotient(x, 1 + y), domain=(0.3, 3), complex=True)
declare(special.entr,         lambda ans, x: lambda ct: ct * _inside(-np.log(x) - 1, x), domain=(0.3, 3))
declare(special.rel_entr,     lambda ans, x, y: lambda ct: ct * _inside(_log_of_quotient(x, y) + 1, x, y),
                              lambda ans, x, y: lambda ct: ct * _inside(-_quotient(x, y), x, y), domain=(0.3, 3))
declare(special.kl_div,       lambda ans, x, y: lambda ct: ct * _inside(_log_of_quotient(x, y), x, y),
                              lambda ans, x, y: lambda ct: ct * _inside(_excess(x, y), x, y), domain=(0.3, 3))

declare(special.huber,        lambda ans, delta, r: lambda ct: ct * _inside(_beyond(delta, r), delta),
                              lambda ans, delta, r: lambda ct: ct * _inside(_limited(delta, r), delta),
                              domain=((0.3, 1), (-2, 2)))
declare(special.pseudo_huber, lambda ans, delta, r: lambda ct: ct * _inside(_pseudo_beyond(delta, r), delta),
                              lambda ans, delta, r: lambda ct: ct * _inside(_pseudo_limited(delta, r), delta),
                              domain=((0.3, 1), (-2, 2)))

declare(special.boxcox,       lambda ans, x, lmbda: lambda ct: ct * x ** (lmbda - 1),
                              lambda ans, x, lmbda: lambda ct: ct * _power_slope(x, np.log(x), lmbda),
                              domain=((0.3, 3), (-2, 2)))
declare(special.boxcox1p,     lambda ans, x, lmbda: lambda ct: ct * (1 + x) ** (lmbda - 1),
                              lambda ans, x, lmbda: lambda ct: ct * _power_slope(1 + x, np.log1p(x), lmbda),
                              domain=((-0.7, 2), (-2, 2)))
declare(special.inv_boxcox,   lambda ans, y, lmbda: lambda ct: ct * _complement_power(_logarithm(y, lmbda), lmbda),
                              lambda ans, y, lmbda: lambda ct: ct * _inverse_slope(_logarithm(y, lmbda), lmbda),
                              domain=(-0.6, 1))
declare(special.inv_boxcox1p, lambda ans, y, lmbda: lambda ct: ct * _complement_power(_logarithm(y, lmbda), lmbda),
                              lambda ans, y, lmbda: lambda ct: ct * _inverse_slope(_logarithm(y, lmbda), lmbda),
                              domain=(-0.6, 1))
# fmt: on


def _limited(delta: Array, r: Array) -> Array:
    """Return `r` limited to absolute values up to delta."""
    return np.where(np.abs(r) <= delta, r, delta * np.sign(r))


def _beyond(delta: Array, r: Array) -> Array:
    """Return the excess of the absolute value of `r` over delta."""
    return np.where(np.abs(r) <= delta, 0, np.abs(r) - delta)


def _pseudo_limited(delta: Array, r: Array) -> Any:
    return delta * (r / unless_zero(np.hypot(delta, r)))


def _pseudo_beyond(delta: Array, r: Array) -> Any:
    """Return (hypot(delta, r) - delta)**2 / hypot(delta, r), without cancellation."""
    length = unless_zero(np.hypot(delta, r))
    difference = r * (r / (length + delta))
    return difference * (difference / length)


# With u = log(x) the transform of x is (exp(lmbda u) - 1) / lmbda = u exprel(lmbda u).


def _power_slope(x: Array, u: Array, lmbda: Array) -> Any:
    """Return the derivative with respect to lmbda, also where x is 0."""
    at_zero = np.equal(x, 0)
    u = np.where(at_zero, 0, u)
    return np.where(at_zero, _slope_at_zero(1, x, lmbda), u * u * any_exprel(1, lmbda * u))


def _slope_at_zero_value(n: Array, x: Array, lmbda: Array) -> Any:
    positive = lmbda > 0
    limit = np.where(positive, special.gamma(n + 1) / np.where(positive, lmbda, 1) ** (n + 1), np.inf)
    return (-1) ** (n + 1) * limit + 0 * x


_slope_at_zero: Helper = helper(
    _slope_at_zero_value,
    whole_number("scipy.special.boxcox", "n"),
    lambda ans, n, x, lmbda: lambda ct: ct * power_derivative(0, int(n), x, lmbda - 1),
    lambda ans, n, x, lmbda: lambda ct: ct * _slope_at_zero(n + 1, x, lmbda),
    name="boxcox_slope_at_zero",
    shapes=(),
)
NOT_SAMPLED["boxcox_slope_at_zero"] = "a limit, whose derivatives are those of the function with this limit"
"""The derivative of order n with respect to lmbda: the limit at x = 0, whose slope in x is x**(lmbda - 1) log(x)**n."""


def _complement_power(u: Array, lmbda: Array) -> Array:
    """Return exp(u)**(1 - lmbda), with 0**0 = 1."""
    nothing = np.logical_and(np.equal(u, -np.inf), np.equal(lmbda, 1))
    return np.where(nothing, 1, np.exp(np.where(nothing, 0, u) * (1 - lmbda)))


def _inverse_less_one_value(y: Array, lmbda: Array) -> Any:
    # SciPy takes `y` itself for a small product, which is right for a small `y` only.
    return np.where(np.abs(lmbda * y) < 1e-150, special.expm1(y), special.inv_boxcox1p(y, lmbda))


_inverse_less_one: Helper = helper(
    _inverse_less_one_value,
    lambda ans, y, lmbda: lambda ct: ct * _complement_power(_logarithm(y, lmbda), lmbda),
    lambda ans, y, lmbda: lambda ct: ct * _inverse_slope(_logarithm(y, lmbda), lmbda),
    name="inverse_boxcox_less_one",
    domain=(-0.6, 1),
)


def _logarithm(y: Array, lmbda: Array) -> Array:
    """Return the logarithm of the inverse transform of `y`, by the function that is accurate there."""
    less_one = _inverse_less_one(y, lmbda)
    small = less_one < -0.5
    return np.where(small, np.log(special.inv_boxcox(y, lmbda)), np.log1p(np.where(small, 0, less_one)))


def _inverse_slope(u: Array, lmbda: Array) -> Any:
    """Return the derivative of the inverse with respect to lmbda: minus that of the transform over its slope."""
    return -_power_slope(np.exp(u), u, lmbda) * _complement_power(u, lmbda)
