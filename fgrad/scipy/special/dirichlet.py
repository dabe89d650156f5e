"""The Dirichlet kernel, or periodic sinc function.

fgrad.scipy.special.diric(x, n)     sin(n x / 2) / (n sin(x / 2)), whose poles are removable
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tensor import Tensor
from fgrad.ops.elementwise import astype
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import dtype_of
from fgrad.typing import ArrayLike


@differentiates(special.diric)
def diric(x: ArrayLike, n: ArrayLike) -> Any:
    """Return the periodic sinc function, also called Dirichlet's kernel, as `scipy.special.diric` does.

    It is computed as a Chebyshev polynomial of cos(x / 2), which has derivatives of every order also at the removable
    poles.

    Args:
        x: real numbers.
        n: the number of terms, an integer, which is a constant.

    Returns:
        An array of the shape to which `x` and `n` broadcast; NaN where `n` is not a positive integer.

    Raises:
        NoClosedFormError: a NotImplementedError; `n` is traced.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> fg.grad(fg.grad(lambda x: fgrad.scipy.special.diric(x, 3)))(0.0)
        Tensor(-0.66666667)
    """
    if type(n) is Tensor:
        raise errors.NoClosedFormError("scipy.special.diric", "n", "", errors.users_line())
    x, n = as_array(x), np.asarray(n)
    is_valid = (n > 0) & (n == np.floor(n))
    count = np.where(is_valid, n, 1).astype(np.int_)
    found = np.where(is_valid, special.eval_chebyu(count - 1, np.cos(x / 2)) / count, np.nan)
    return astype(found, dtype_of(special.diric, x, n))
