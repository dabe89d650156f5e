"""Linear algebra: NumPy's names, with derivatives."""

from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.namespaces import fill, gathered
from fgrad.typing import Array, ArrayLike

fill(globals(), np.linalg)


def T(x: ArrayLike) -> Any:  # noqa: N802  # Autograd's name
    """Return matrices with their last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


_dot = np.matmul
"""Under the name that rules written for newer versions of NumPy use."""


def cholesky(a: Any) -> Any:
    """Return the Cholesky factor of matrices, as in NumPy; the gradient is symmetric, as in Autograd.

    NumPy reads one triangle of a matrix, and fgrad's gradient is that of this triangle.
    """
    a = gathered(a)
    return np.linalg.cholesky(_with_symmetric_gradient(a) if fg.is_traced(a) else a)


def _with_symmetric_gradient(a: Array) -> Any:
    skew = (np.conjugate(np.swapaxes(a, -1, -2)) - a) / 2
    return a + (skew - fg.stop_gradient(skew))
