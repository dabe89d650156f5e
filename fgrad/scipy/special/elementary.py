"""Powers, exponentials, angles in degrees, and the arithmetic-geometric mean.

    scipy.special.cbrt, exp2, exp10, expm1, exprel, log1p, powm1, cosm1, round
    scipy.special.sindg, cosdg, tandg, cotdg, radian, agm

One line is one function: one reverse rule per argument; applied to a tangent it is the forward rule.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from fgrad.ops.elementwise import exponent_slope, power_slope
from fgrad.scipy import _special as special
from fgrad.scipy.special._declaring import Helper, declare, helper, whole_number
from fgrad.typing import Array


def _any_exprel(n: Array, x: Array) -> Any:
    """Return the derivative of order n of (exp(x) - 1) / x, by Kummer's function (https://dlmf.nist.gov/13.4.E1)."""
    inside = (x > -1e4) & (x < 1e3)  # at infinity SciPy's loop does not terminate
    near = special.hyp1f1(n + 1, n + 2, np.where(inside, x, 0)) / (n + 1)
    return np.select([inside, x > 0, x < 0], [near, np.inf, special.gamma(n + 1) * np.abs(x) ** (-n - 1)], np.nan)


# fmt: off
any_exprel: Helper = helper(_any_exprel,
    whole_number("scipy.special.exprel", "n"),
    lambda ans, n, x: lambda ct: ct * any_exprel(n + 1, x), name="any_exprel", leading=(1,))

declare(special.cbrt,   lambda ans, x: lambda ct: ct / (3 * ans * ans), name="special_cbrt", domain=(0.2, 2))
declare(special.exp2,   lambda ans, x: lambda ct: ct * (ans * log(2)), name="special_exp2")
declare(special.exp10,  lambda ans, x: lambda ct: ct * (ans * log(10)))
declare(special.expm1,  lambda ans, x: lambda ct: ct * np.exp(x), name="special_expm1", complex=True)
declare(special.exprel, lambda ans, x: lambda ct: ct * any_exprel(1, x))
declare(special.log1p,  lambda ans, x: lambda ct: ct / (1 + x), name="special_log1p", domain=(-0.8, 2), complex=True)
declare(special.powm1,  lambda ans, x, y: lambda ct: ct * power_slope(x, y),
                        lambda ans, x, y: lambda ct: ct * exponent_slope(x**y, x, y),
                        domain=(0.3, 2))
declare(special.cosm1,  lambda ans, x: lambda ct: ct * -np.sin(x))
declare(special.round,  None, name="special_round", scales="")

declare(special.sindg,  lambda ans, x: lambda ct: ct * (special.cosdg(x) * (pi / 180)))
declare(special.cosdg,  lambda ans, x: lambda ct: ct * (special.sindg(x) * (-pi / 180)))
declare(special.tandg,  lambda ans, x: lambda ct: ct * (pi / 180 / special.cosdg(x) ** 2), domain=(-70, 70))
declare(special.cotdg,  lambda ans, x: lambda ct: ct * (-pi / 180 / special.sindg(x) ** 2), domain=(20, 70))
declare(special.radian, lambda ans, d, m, s: lambda ct: ct * (pi / 180),
                        lambda ans, d, m, s: lambda ct: ct * (pi / 10800),
                        lambda ans, d, m, s: lambda ct: ct * (pi / 648000), scales="")

declare(special.agm,    lambda ans, a, b: lambda ct: ct * _mean_slope(a, b),
                        lambda ans, a, b: lambda ct: ct * _mean_slope(b, a), domain=(0.3, 3))
# fmt: on


def _mean_slope(a: Array, b: Array) -> Array:
    """Return the derivative of agm(a, b) with respect to a, by differentiating the iteration.

    Fifteen steps suffice for a ratio of 1e300. At the edges the formula is replaced by one with the same limit and the
    same limits of derivatives: those of b / log(b / a) near a = 0.
    """
    at_edge = np.logical_or(np.equal(a, 0), np.equal(b, 0))
    first, second = np.ones_like(a), np.where(at_edge, 1, b / np.where(at_edge, 1, a))
    moved, also_moved = 1.0, 0.0
    for _ in range(15):
        ratio = np.sqrt(second / first)
        moved, also_moved = (moved + also_moved) / 2, (moved * ratio + also_moved / ratio) / 2
        first, second = (first + second) / 2, first * ratio
    both = np.logical_and(np.equal(a, 0), np.equal(b, 0))
    steep, flat = np.sqrt(b) / np.where(both, np.inf, a), np.sqrt(b) / np.sqrt(np.where(both, 1, a))
    return np.where(np.equal(b, 0), flat, np.where(at_edge, steep, moved))
