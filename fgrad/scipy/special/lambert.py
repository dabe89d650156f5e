"""The Lambert W and Wright omega functions: the solutions of w exp(w) = z and of w + log(w) = z."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, apply
from fgrad.ops.families import SHAPES, elementwise, sample
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._several import along_last, far, near, order, rule_of
from fgrad.typing import Array, ArrayLike


def _lambertw_slope(w: Array, z: Array) -> Any:
    """Return dw/dz with the numerator w / z, or the equal exp(-w), which has no pole at 0."""
    is_near = np.abs(z) < 1
    return np.where(is_near, np.exp(-near(w, is_near)), w / far(z, is_near)) / (1 + w)


def _omega_slope(w: Array) -> Any:
    """Return w / (1 + w) in a form that is 1 for infinite w."""
    is_small = np.abs(w) < 1
    small = near(w, is_small)
    return np.where(is_small, small / (1 + small), 1 / (1 + 1 / far(w, is_small)))


_lambertw = elementwise(
    lambda z, k, tol: special.lambertw(z, k, tol),
    rule_of(lambda ans, z, k, tol: _lambertw_slope(ans, z), keeps_ans=True),
    order("lambertw", "k", 1),
    order("lambertw", "tol", 2),
    name="lambertw",
    shapes=(),
)
_lambertw.samples = tuple(
    sample(*each, domain=(0.2, 3.0), constants=(k, 1e-8)) for each, k in zip(SHAPES[1], (0, 1, -1, 0), strict=True)
)

along_last(special.wrightomega, lambda ans, z: _omega_slope(ans), keeps_ans=True)


@differentiates(special.lambertw)
def lambertw(z: ArrayLike, k: ArrayLike = 0, tol: ArrayLike = 1e-8) -> Any:
    """Return the Lambert W function, the solution w of `w * exp(w) = z`, as `scipy.special.lambertw` does.

    Args:
        z: real or complex numbers.
        k: the branch, an integer, which is a constant.
        tol: the tolerance of SciPy's solution.

    Returns:
        A complex array, also for real numbers; its `real` part is the real solution, if there is one.

    Raises:
        NoClosedFormError: a NotImplementedError; `k` is traced.

    Example:
        >>> import numpy as np, fgrad as fg, fgrad.scipy.special
        >>> print(f"{fg.grad(lambda z: fgrad.scipy.special.lambertw(z).real)(np.e):.6f}")
        0.183940
    """
    return apply(_lambertw, (z, k if type(k) is Tensor else np.asarray(k, np.int_), tol))
