"""Solutions of second-order differential equations: parabolic cylinder, Mathieu and spheroidal wave functions.

SciPy returns the solution and its first derivative; the second derivative follows from the equation. In orders,
parameters and characteristic values there is no closed form. Sections are those of https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import refuse
from fgrad.scipy.special._several import several
from fgrad.typing import Array, Operand

# Parabolic cylinder functions (12.2.1): D, V with the order v, W with the parameter a


def _pbdv_slopes(ans: tuple[Any, ...], v: Operand, x: Array) -> tuple[Any, Any]:
    return ans[1], (0.25 * x * x - v - 0.5) * ans[0]


def _pbwa_slopes(ans: tuple[Any, ...], a: Operand, x: Array) -> tuple[Any, Any]:
    return ans[1], (a - 0.25 * x * x) * ans[0]


_REAL: dict[str, Any] = {"domain": (0.3, 2.0), "complex": False}
several(special.pbdv, _pbdv_slopes, constants="v", leading=(1.5,), **_REAL)
several(special.pbvv, _pbdv_slopes, constants="v", leading=(1.5,), **_REAL)
several(special.pbwa, _pbwa_slopes, constants="a", leading=(0.5,), **_REAL)

# Mathieu functions (28.2.1, 28.20.1), of an angle in degrees, and modified ones

_DEGREE = pi / 180


def _mathieu(name: str, characteristic: Callable[..., Any]) -> None:
    def slopes(ans: tuple[Any, ...], m: Operand, q: Operand, x: Array) -> tuple[Any, Any]:
        curvature = 2 * q * np.cos(2 * _DEGREE * x) - characteristic(m, q)
        return _DEGREE * ans[1], _DEGREE * curvature * ans[0]

    several(getattr(special, name), slopes, constants="m q", leading=(2, 1.5), domain=(10.0, 170.0), complex=False)


def _modified_mathieu(name: str, characteristic: Callable[..., Any]) -> None:
    def slopes(ans: tuple[Any, ...], m: Operand, q: Operand, x: Array) -> tuple[Any, Any]:
        return ans[1], (characteristic(m, q) - 2 * q * np.cosh(2 * x)) * ans[0]

    several(getattr(special, name), slopes, constants="m q", leading=(2, 1.5), **_REAL)


_mathieu("mathieu_cem", special.mathieu_a)
_mathieu("mathieu_sem", special.mathieu_b)
for _kind in "12":
    _modified_mathieu(f"mathieu_modcem{_kind}", special.mathieu_a)
    _modified_mathieu(f"mathieu_modsem{_kind}", special.mathieu_b)

# Spheroidal wave functions (30.2.1), one equation with two signs:
# (1 - s x**2) y'' = 2 s x y' - s (value - k c**2 x**2 - m**2 / (1 - s x**2)) y

_C = np.float64(0.7)
"""For samples: in double precision, because SciPy does not terminate with a value in single precision."""


def _spheroidal(kind: str, name: str, s: int, k: int, domain: tuple[float, float]) -> None:
    """Declare a function twice: with the characteristic value computed, and with it as an argument."""
    value_of = getattr(special, f"{kind}_cv")

    def slopes(ans: tuple[Any, ...], m: Operand, n: Operand, c: Array, value: Operand, x: Array) -> tuple[Any, Any]:
        squared = x * x
        gap = 1 - s * squared
        potential = value - k * c * c * squared - m * m / gap
        return ans[1], s * (2 * x * ans[1] - potential * ans[0]) / gap

    def own_slopes(ans: tuple[Any, ...], m: Operand, n: Operand, c: Array, x: Array) -> tuple[Any, Any]:
        return slopes(ans, m, n, c, value_of(m, n, c), x)

    facts: dict[str, Any] = {"domain": domain, "complex": False}
    several(getattr(special, f"{kind}_{name}"), own_slopes, constants="m n c", leading=(1, 2, _C), **facts)
    value = value_of(1, 2, _C)
    handed = getattr(special, f"{kind}_{name}_cv")
    several(handed, slopes, constants="m n c cv", leading=(1, 2, _C, value), **facts)


_spheroidal("pro", "ang1", 1, 1, (0.2, 0.8))
_spheroidal("pro", "rad1", 1, 1, (1.5, 4.0))
_spheroidal("pro", "rad2", 1, 1, (2.5, 4.0))
_spheroidal("obl", "ang1", 1, -1, (0.2, 0.8))
_spheroidal("obl", "rad1", -1, 1, (0.3, 4.0))
_spheroidal("obl", "rad2", -1, 1, (2.5, 4.0))

# Characteristic values

refuse(special.mathieu_a, "scipy.special.mathieu_a", "m q")
refuse(special.mathieu_b, "scipy.special.mathieu_b", "m q")
refuse(special.pro_cv, "scipy.special.pro_cv", "m n c")
refuse(special.obl_cv, "scipy.special.obl_cv", "m n c")
