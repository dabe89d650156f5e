"""Hypergeometric functions and the Wright generalized Bessel function, with respect to their last argument.

The derivative is the function with parameters raised by one, times their quotient. There is no closed form with
respect to the parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.scipy import _special as special
from fgrad.scipy.special._several import along_last
from fgrad.typing import Array, Operand

_WRIGHT: dict[str, Any] = {"leading": (0.7, 1.2), "domain": (0.2, 3.0), "complex": False}


def _kummer(a: Operand, b: Operand, z: Array) -> Array:
    """Return hyp1f1(a, b, z), also for a polynomial of degree 0, where SciPy has infinity if b is 0, -1, -2, ..."""
    return np.where(np.equal(a, 0), 1.0, special.hyp1f1(a, b, z))


along_last(special.hyp0f1, lambda v, z: special.hyp0f1(v + 1, z) / v, "v", leading=(1.3,), domain=(-2.0, 3.0))
along_last(
    special.hyp1f1,
    lambda a, b, z: a * _kummer(a + 1, b + 1, z) / b,
    "a b",
    leading=(0.7, 1.3),
    domain=(-2.0, 3.0),
)
along_last(
    special.hyp2f1,
    lambda a, b, c, z: a * b * special.hyp2f1(a + 1, b + 1, c + 1, z) / c,
    "a b c",
    leading=(0.7, 1.3, 2.1),
    domain=(-0.8, 0.6),
)
along_last(
    special.hyperu,
    lambda a, b, x: -a * special.hyperu(a + 1, b + 1, x),
    "a b",
    leading=(0.7, 1.3),
    domain=(0.3, 3.0),
    complex=False,
)
along_last(special.wright_bessel, lambda a, b, x: special.wright_bessel(a, a + b, x), "a b", **_WRIGHT)
if hasattr(special, "log_wright_bessel"):  # since SciPy 1.14
    along_last(
        special.log_wright_bessel,
        lambda ans, a, b, x: np.exp(special.log_wright_bessel(a, a + b, x) - ans),
        "a b",
        keeps_ans=True,
        **_WRIGHT,
    )
