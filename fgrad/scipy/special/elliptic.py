"""Elliptic integrals and Jacobi's elliptic functions.

Everything is reduced to Carlson's symmetric integrals, whose formulas have poles only where the integral has one:
the textbook derivatives of K and E divide by m and by 1 - m. Derivatives of R_D and R_J are integrals of the same
kind with higher powers, which SciPy lacks; they are computed here. Sections are those of https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import ForEach, elementwise, register, sample, scale
from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last, rule_of, several
from fgrad.typing import Array, Operand

# The integral of a product of powers (t + x)**-a over all t > 0, for integer 2 a. Its derivatives are integrals of the
# same kind. With t = exp(u) the integrand is analytic in a strip and decays exponentially; the trapezoidal rule then
# converges exponentially (L. N. Trefethen and J. A. C. Weideman, https://doi.org/10.1137/130932132).

_DIGITS = 40.0
"""The truncation error is exp(-40) of the integral, a quarter of a rounding error."""

_BLOCK = 256
"""How many integrals are computed together: their data fit into a processor's cache."""


def _integral_value(*args: Operand, powers: tuple[float, ...]) -> Array:
    """Return the integral, in the dtype of the arguments."""
    dtype = np.result_type(*args, np.float32)
    wide = np.result_type(dtype, np.float64)
    arrays = np.broadcast_arrays(*(np.asarray(x, wide) for x in args))
    columns = np.stack([x.ravel() for x in arrays])
    found = np.empty(columns.shape[1], wide)
    with np.errstate(all="ignore"):
        for start in range(0, columns.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            found[block] = _integrals(columns[:, block], powers)
    return found.reshape(arrays[0].shape).astype(dtype)[()]


def _integrals(x: Array, powers: tuple[float, ...]) -> Array:
    """Return the integrals for the columns of `x`, which are scaled to a maximum of 1."""
    sizes = np.abs(x)
    largest = np.max(sizes, axis=0)
    x, sizes = x / largest, sizes / largest
    total = sum(powers)
    at_zero = np.max(np.where(sizes == 0, np.reshape(powers, (-1, 1)), 0).sum(axis=0))
    smallest = np.min(sizes, where=sizes > 0, initial=1.0)
    angle = np.max(np.abs(np.angle(x)), initial=0.0, where=np.isfinite(x))
    step = 2 * pi * max(pi - angle, 0.02) / _DIGITS
    first = np.log(smallest) - _DIGITS / (1 - at_zero if at_zero < 1 else 1)
    t = np.exp(np.arange(first, _DIGITS / (total - 1), step))[:, None]
    product = t
    for row, power in zip(x, powers, strict=True):
        root = 1 / np.sqrt(t + row)
        for _ in range(round(2 * power)):  # the power itself may overflow where the product does not
            product = product * root
    infinite = np.where(sizes == 0, np.reshape(powers, (-1, 1)), 0).sum(axis=0) >= 1
    outside = np.any((x.real < 0) & (x.imag == 0), axis=0)
    found = np.where(infinite, np.inf, step * product.sum(axis=0) * largest ** (1 - total))
    return np.where(outside, np.nan, found)


def _integral(*args: Operand, powers: tuple[float, ...]) -> Any:
    return apply(_integrals_of, args, {"powers": powers})


def _integral_slope(place: int, args: tuple[Any, ...], powers: tuple[float, ...]) -> Any:
    raised = tuple(power + (i == place) for i, power in enumerate(powers))
    return -powers[place] * _integral(*args, powers=raised)


def _integral_tangent(tangents: Sequence[Any], ans: Array, *args: Operand, powers: tuple[float, ...]) -> Any:
    parts = [scale(t, _integral_slope(i, args, powers)) for i, t in enumerate(tangents) if t is not ZERO]
    return sum(parts[1:], parts[0])


_integrals_of = register(
    Primitive(
        "carlson_integral",
        _integral_value,
        ForEach(lambda place, ans, *args, powers: lambda ct: ct * _integral_slope(place, args, powers)),
        _integral_tangent,
        broadcasts=True,
        scales="pullback",
        samples=tuple(
            sample(*shapes, domain=(0.3, 2.0), powers=(0.5, 1.5, 1.5))
            for shapes in (((), (), ()), ((2, 3), (3,), (2, 1)), ((0,), (), (0,)))
        ),
    )
)
_integrals_of.batch = elementwise_batch(_integrals_of)


# Carlson's integrals (19.16, 19.18)


def _is_principal(y: Array) -> Any:
    """Return where an argument is on the negative axis, and the integral is a principal value."""
    return np.logical_and(np.real(y) < 0, np.equal(np.imag(y), 0))


def _rc_slopes(ans: Array, x: Operand, y: Any) -> tuple[Any, Any]:
    """Return the derivatives of R_C(x, y); where it is a principal value, of its elementary form (19.2.17)."""
    is_principal = _is_principal(y)
    positive = np.where(is_principal, 1, y)
    gap, root = np.where(is_principal, 2 * (y - x), 1), np.sqrt(x)
    along_x = np.where(is_principal, (ans - 1 / root) / gap, special.elliprd(positive, positive, x) / -6)
    along_y = np.where(is_principal, (root / y - ans) / gap, special.elliprd(x, positive, positive) / -3)
    return along_x, along_y


def _rg_slope(x: Array, y: Operand, z: Operand) -> Array:
    """Return the derivative of R_G with respect to `x`; where the others are 0, R_G is half the root of `x`."""
    is_zero = np.equal(x, 0)
    is_root = np.logical_and(np.equal(y, 0), np.equal(z, 0)) & ~is_zero
    positive, y = np.where(is_zero, 1, x), np.where(is_root, 1, y)
    weighed = np.where(is_zero, 0, x * special.elliprd(y, z, positive))
    return np.where(is_root, 1 / np.sqrt(positive), special.elliprf(x, y, z) - weighed / 3) / 4


def _rj_slope(ans: Array, x: Array, y: Operand, z: Operand, p: Any) -> Any:
    """Return the derivative of R_J with respect to `x`."""
    is_principal = _is_principal(p)
    integral = _integral(x, y, z, np.where(is_principal, 1, p), powers=(1.5, 0.5, 0.5, 1.0))
    return np.where(
        is_principal, (ans - special.elliprd(y, z, x)) / np.where(is_principal, 2 * (p - x), 1), -0.75 * integral
    )


def _rj_weighed(ans: Array, x: Operand, y: Operand, z: Operand, p: Array) -> Array:
    """Return `x` times the derivative of R_J with respect to it, which diverges at 0, more slowly than 1 / x."""
    is_zero = np.equal(x, 0)
    return np.where(is_zero, 0, x * _rj_slope(ans, np.where(is_zero, 1, x), y, z, p))


def _rj_slope_of_p(ans: Array, x: Operand, y: Operand, z: Operand, p: Array) -> Any:
    """Return the derivative of R_J with respect to `p`; for a principal value by homogeneity, from the others."""
    is_principal = _is_principal(p)
    integral = _integral(x, y, z, np.where(is_principal, 1, p), powers=(0.5, 0.5, 0.5, 2.0))
    others = _rj_weighed(ans, x, y, z, p) + _rj_weighed(ans, y, x, z, p) + _rj_weighed(ans, z, x, y, p)
    return np.where(is_principal, (1.5 * ans + others) / -np.where(is_principal, p, 1), -1.5 * integral)


def _along_each(
    function: np.ufunc,
    *slopes: Any,
    keeps_ans: bool = False,
    domain: tuple[Any, ...] = (0.3, 2.0),
    complex: bool = True,
) -> None:
    """Declare an integral from its derivatives with respect to each argument, in the form of `along_last`."""
    elementwise(function, *(rule_of(slope, keeps_ans) for slope in slopes), domain=domain, complex=complex)


# fmt: off
_along_each(special.elliprc, lambda ans, x, y: _rc_slopes(ans, x, y)[0],
                             lambda ans, x, y: _rc_slopes(ans, x, y)[1], keeps_ans=True)
_along_each(special.elliprf, lambda x, y, z: special.elliprd(y, z, x) / -6,
                             lambda x, y, z: special.elliprd(x, z, y) / -6,
                             lambda x, y, z: special.elliprd(x, y, z) / -6)
_along_each(special.elliprg, lambda x, y, z: _rg_slope(x, y, z),
                             lambda x, y, z: _rg_slope(y, x, z),
                             lambda x, y, z: _rg_slope(z, x, y))
_along_each(special.elliprd, lambda x, y, z: -0.75 * _integral(x, y, z, powers=(1.5, 0.5, 1.5)),
                             lambda x, y, z: -0.75 * _integral(x, y, z, powers=(0.5, 1.5, 1.5)),
                             lambda x, y, z: -2.25 * _integral(x, y, z, powers=(0.5, 0.5, 2.5)))
_along_each(special.elliprj, lambda ans, x, y, z, p: _rj_slope(ans, x, y, z, p),
                             lambda ans, x, y, z, p: _rj_slope(ans, y, x, z, p),
                             lambda ans, x, y, z, p: _rj_slope(ans, z, x, y, p),
                             _rj_slope_of_p, keeps_ans=True)
# fmt: on


# Legendre's integrals (19.25)


def _first_kind(m: Array) -> Any:
    """Return the derivative of K(m)."""
    return special.elliprd(0.0, 1.0, 1 - m) / 6


def _second_kind(m: Array) -> Any:
    """Return the derivative of E(m)."""
    return special.elliprd(0.0, 1 - m, 1.0) / -6


def _incomplete(sine: Array, turns: Array, integral: Array, complete: Array) -> Any:
    """Return the derivative of an incomplete integral with respect to m; beyond a quarter period with complete ones.

    Args:
        sine: the sine of the amplitude.
        turns: the number of half periods nearest to the amplitude.
        integral: Carlson's R_D in the derivative up to a quarter period.
        complete: the derivative of the complete integral.
    """
    odd = 1 - 2 * np.remainder(turns, 2)
    return odd * sine**3 / 6 * integral + np.where(np.equal(turns, 0), 0, 2 * turns * complete)


def _kinc_slope(sine: Array, cosine: Array, height: Array, turns: Array, m: Array) -> Any:
    """Return the derivative of F(phi, m) with respect to m (19.25.5)."""
    return _incomplete(sine, turns, special.elliprd(cosine * cosine, 1.0, height), _first_kind(m))


def _angles(phi: Operand, m: Operand) -> tuple[Any, Any, Any, Any]:
    """Return sine and cosine of the amplitude, 1 - m sin**2, and the number of half periods."""
    sine, cosine = np.sin(phi), np.cos(phi)
    return sine, cosine, cosine * cosine + (1 - m) * sine * sine, np.rint(phi / pi)


def _ellipkinc_by_m(phi: Operand, m: Array) -> Any:
    return _kinc_slope(*_angles(phi, m), m)


def _ellipeinc_by_m(phi: Operand, m: Array) -> Any:
    sine, cosine, height, turns = _angles(phi, m)
    return _incomplete(sine, turns, -special.elliprd(cosine * cosine, height, 1.0), _second_kind(m))


def _jacobi_by_u(ans: tuple[Any, ...], u: Array, m: Array) -> tuple[Any, ...]:
    """Return the derivatives of sn, cn, dn and the amplitude with respect to u (22.13)."""
    sn, cn, dn, _ = ans
    return cn * dn, -sn * dn, -m * sn * cn, dn


def _jacobi_by_m(ans: tuple[Any, ...], u: Operand, m: Array) -> tuple[Any, ...]:
    """Return the derivatives with respect to m, from that of the amplitude, where u = F(amplitude, m) is constant."""
    sn, cn, dn, amplitude = ans
    height = cn * cn + (1 - m) * sn * sn
    turn = -dn * _kinc_slope(sn, cn, height, np.rint(amplitude / pi), m)
    return cn * turn, -sn * turn, -(sn * sn / 2 + m * sn * cn * turn) / dn, turn


_REAL: dict[str, Any] = {"complex": False}
along_last(special.ellipk, _first_kind, domain=(-2.0, 0.8), **_REAL)
along_last(special.ellipkm1, lambda p: special.elliprd(0.0, 1.0, p) / -6, domain=(0.2, 3.0), **_REAL)
along_last(special.ellipe, _second_kind, domain=(-2.0, 0.8), **_REAL)
_INCOMPLETE: dict[str, Any] = {"domain": ((-5.0, 5.0), (-2.0, 0.8)), **_REAL}
_along_each(special.ellipkinc, lambda phi, m: 1 / np.sqrt(_angles(phi, m)[2]), _ellipkinc_by_m, **_INCOMPLETE)
_along_each(special.ellipeinc, lambda phi, m: np.sqrt(_angles(phi, m)[2]), _ellipeinc_by_m, **_INCOMPLETE)
several(special.ellipj, _jacobi_by_u, _jacobi_by_m, domain=((-4.0, 4.0), (0.1, 0.9)), **_REAL)
