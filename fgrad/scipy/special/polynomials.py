"""Orthogonal polynomials with respect to `x`.

The derivative of a polynomial belongs to the family with parameters raised by one (https://dlmf.nist.gov/18.9).
Unlike recurrences in the degree, this formula has no pole at the ends of the interval. There is no closed form with
respect to the degree, and none is implemented with respect to the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last
from fgrad.typing import Array, Operand


def _unless_constant(n: Operand, lower: Callable[..., Any], slope: Callable[..., Any]) -> Array:
    """Return the derivative from the polynomial of the next lower degree; it is 0 for the degree 0.

    Args:
        n: the degree.
        lower: takes the next lower degree.
        slope: takes the result of `lower`.
    """
    is_constant = np.equal(n, 0)
    return np.where(is_constant, 0.0, slope(lower(np.where(is_constant, n, n - 1))))


def _gegenbauer_slope(n: Operand, alpha: Operand, x: Array) -> Any:
    # For degree -1 the polynomial is 0 for all x, but SciPy returns NaN for a floating-point degree.
    vanishes = np.equal(n, -1)
    slope = _unless_constant(
        np.where(vanishes, 0, n),
        lambda lower: special.eval_gegenbauer(lower, alpha + 1, x),
        lambda found: 2 * alpha * found,
    )
    return np.where(vanishes, 0.0 * special.eval_gegenbauer(np.where(vanishes, n, 0), alpha, x), slope)


def _legendre_slope(n: Operand, x: Array) -> Any:
    """Return the derivative of P, which is the same for the degrees n and -1 - n."""
    return _gegenbauer_slope(np.where(np.less(n, 0), np.subtract(-1, n), n), 0.5, x)


def _chebyu_slope(n: Operand, x: Array) -> Any:
    """Return the derivative of U, which changes its sign between the degrees n and -2 - n."""
    is_below = np.less(n, -1)
    slope = _gegenbauer_slope(np.where(is_below, np.subtract(-2, n), np.where(np.equal(n, -1), 0, n)), 1.0, x)
    return np.where(is_below, -slope, slope)


def _chebyt_slope(n: Operand, x: Array) -> Any:
    return _unless_constant(n, lambda lower: special.eval_chebyu(lower, x), lambda found: n * found)


def _chebyc_slope(n: Operand, x: Array) -> Any:
    return _unless_constant(n, lambda lower: special.eval_chebys(lower, x), lambda found: n * found)


def _jacobi_slope(n: Operand, alpha: Operand, beta: Operand, x: Array) -> Any:
    return _unless_constant(
        n,
        lambda lower: special.eval_jacobi(lower, alpha + 1, beta + 1, x),
        lambda found: 0.5 * (n + alpha + beta + 1) * found,
    )


def _sh_jacobi_slope(n: Operand, p: Operand, q: Operand, x: Array) -> Any:
    return _unless_constant(n, lambda lower: special.eval_sh_jacobi(lower, p + 2, q + 1, x), lambda found: n * found)


def _genlaguerre_slope(n: Operand, alpha: Operand, x: Array) -> Any:
    return _unless_constant(n, lambda lower: special.eval_genlaguerre(lower, alpha + 1, x), np.negative)


def _hermite_slope(function: Callable[..., Any], n: Operand, x: Array) -> Array:
    return np.where(np.less(n, 0), np.nan, n * function(np.maximum(np.subtract(n, 1), 0), x))


def _polynomial(
    name: str, slope: Callable[..., Any], constants: str = "n", leading: tuple[Any, ...] = (3,), **facts: Any
) -> None:
    """Declare a polynomial from its derivative as a function of the arguments."""
    along_last(getattr(special, name), slope, constants, leading=leading, **facts)


# fmt: off
_UNIT = (-0.9, 0.9)
_SHIFTED = (0.1, 0.9)
_polynomial("eval_legendre",    _legendre_slope, domain=_UNIT)
_polynomial("eval_sh_legendre", lambda n, x: 2 * _legendre_slope(n, 2 * x - 1), domain=_SHIFTED)
_polynomial("eval_chebyt",      _chebyt_slope, domain=_UNIT)
_polynomial("eval_sh_chebyt",   lambda n, x: 2 * _chebyt_slope(n, 2 * x - 1), domain=_SHIFTED)
_polynomial("eval_chebyc",      _chebyc_slope)
_polynomial("eval_chebyu",      _chebyu_slope, domain=_UNIT)
_polynomial("eval_sh_chebyu",   lambda n, x: 2 * _chebyu_slope(n, 2 * x - 1), domain=_SHIFTED)
_polynomial("eval_chebys",      lambda n, x: 0.5 * _chebyu_slope(n, 0.5 * x))
_polynomial("eval_gegenbauer",  _gegenbauer_slope, "n alpha", (3, 0.7), domain=_UNIT)
_polynomial("eval_jacobi",      _jacobi_slope, "n alpha beta", (3, 0.7, 1.2), domain=_UNIT)
_polynomial("eval_sh_jacobi",   _sh_jacobi_slope, "n p q", (3, 2.7, 1.2), domain=_SHIFTED)
_polynomial("eval_laguerre",    lambda n, x: _genlaguerre_slope(n, 0.0, x))
_polynomial("eval_genlaguerre", _genlaguerre_slope, "n alpha", (3, 0.7))
_polynomial("eval_hermite",     lambda n, x: 2 * _hermite_slope(special.eval_hermite, n, x), complex=False)
_polynomial("eval_hermitenorm", lambda n, x: _hermite_slope(special.eval_hermitenorm, n, x), complex=False)
# fmt: on
