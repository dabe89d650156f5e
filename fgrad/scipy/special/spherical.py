"""Spherical Bessel functions; their derivatives combine neighbouring orders without a pole.

SciPy's are Python functions of plain arrays; those of this module also accept tensors. Sections
are those of https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, apply
from fgrad.ops.elementwise import astype
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import dtype_of
from fgrad.scipy.special._several import along_last
from fgrad.typing import Array, ArrayLike


def _family(name: str, before: int, after: int, what: str, example: str) -> Callable[..., Any]:
    """Declare one kind by the signs of its neighbours in the derivative (10.51.2, 10.51.5).

    (2 n + 1) f_n' = before * n f_(n - 1) + after * (n + 1) f_(n + 1)
    """
    scipys = getattr(special, name)

    def slope(n: Array | float, z: Array) -> Any:
        lower = n * apply(primitive, (np.maximum(n - 1, 0), z))
        upper = (n + 1) * apply(primitive, (n + 1, z))
        found = (before * lower + after * upper) / (2 * n + 1.0)
        # Near the pole of the second kind the larger order is infinite, and dominates.
        return np.where(np.isinf(upper), after * upper, found) if name in ("spherical_yn", "spherical_kn") else found

    primitive = along_last(scipys, slope, "n", leading=(2,), domain=(0.3, 6.0))

    def answer(n: ArrayLike, z: Any, derivative: bool = False) -> Any:
        n = n if type(n) is Tensor else np.asarray(n, np.int_)
        return astype(slope(n, z), dtype_of(scipys, n, z, True)) if derivative else apply(primitive, (n, z))

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""Return {what} of order `n`, or its derivative, as `scipy.special.{name}` does.

    Args:
        n: nonnegative integers, which are constants.
        z: real or complex numbers.
        derivative: return the derivative with respect to `z`, which is itself differentiable.

    Returns:
        An array of the shape to which `n` and `z` broadcast.

    Raises:
        NoClosedFormError: a NotImplementedError; `n` is traced.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> slope = fg.grad(lambda z: fgrad.scipy.special.{name}(1, z))(1.5)
        >>> print(f"{{slope:.6f}}")
        {example}
    """
    found: Callable[..., Any] = differentiates(scipys)(answer)
    return found


spherical_jn = _family("spherical_jn", 1, -1, "the spherical Bessel function of the first kind", "0.136766")
spherical_yn = _family("spherical_yn", 1, -1, "the spherical Bessel function of the second kind", "0.881422")
spherical_in = _family("spherical_in", 1, 1, "the modified spherical Bessel function of the first kind", "0.590284")
spherical_kn = _family("spherical_kn", -1, -1, "the modified spherical Bessel function of the second kind", "-0.752909")
