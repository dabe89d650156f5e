"""Rosenbrock's function, a test problem for minimizers, and its derivatives in SciPy's form."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.typing import Array, ArrayLike


def rosen(x: ArrayLike) -> Any:
    """Return Rosenbrock's function, as `scipy.optimize.rosen`; it is differentiable like any other function.

    Args:
        x: the unknowns, along the first axis.

    Returns:
        The values, along the other axes; the minimum is 0, where all unknowns are 1.

    Raises:
        IndexError: `x` is a number.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> fg.grad(rosen)(np.array([1.0, 2.0]))
        Tensor([-400.,  200.])
    """
    x = as_array(x)
    first, rest = x[:-1], x[1:]
    return np.sum(100.0 * (rest - first**2) ** 2 + (1 - first) ** 2, axis=0)


def rosen_der(x: ArrayLike) -> Any:
    """Return the gradient of Rosenbrock's function, as `scipy.optimize.rosen_der`.

    Args:
        x: the unknowns, as for `rosen`.

    Returns:
        The gradient, of the same shape.

    Raises:
        IndexError: `x` is a number.

    Example:
        >>> rosen_der([1.0, 2.0])
        array([-400.,  200.])
    """
    x = as_array(x)
    first, rest = x[:-1], x[1:]
    across, none = 200.0 * (rest - first**2), np.zeros_like(x[:1])
    along = -2.0 * (across * first + 1 - first)
    return np.concatenate([along, none]) + np.concatenate([none, across])


def rosen_hess(x: ArrayLike) -> Any:
    """Return the Hessian of Rosenbrock's function, as `scipy.optimize.rosen_hess`.

    Args:
        x: the unknowns, a vector.

    Returns:
        The matrix of second derivatives.

    Raises:
        IndexError: `x` is a number.

    Example:
        >>> rosen_hess([1.0, 2.0])
        array([[ 402., -400.],
               [-400.,  200.]])
    """
    beside, diagonal = _second_derivatives(as_array(x))
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


def rosen_hess_prod(x: ArrayLike, p: ArrayLike) -> Any:
    """Return the product of the Hessian of Rosenbrock's function with a vector, as `scipy.optimize.rosen_hess_prod`.

    Args:
        x: the unknowns, a vector.
        p: the vector.

    Returns:
        The product, a vector.

    Raises:
        ValueError: `x` and `p` have different lengths.

    Example:
        >>> rosen_hess_prod([1.0, 2.0], [1.0, 1.0])
        array([   2., -200.])
    """
    p = as_array(p)
    beside, diagonal = _second_derivatives(as_array(x))
    none = np.zeros_like(p[:1])
    return diagonal * p + np.concatenate([beside * p[1:], none]) + np.concatenate([none, beside * p[:-1]])


def _second_derivatives(x: Array) -> tuple[Any, Any]:
    """Return the off-diagonal and the diagonal second derivatives."""
    first, rest = x[:-1], x[1:]
    none = np.zeros_like(x[:1])
    of_first = 1200.0 * first**2 - 400.0 * rest + 2.0
    return -400.0 * first, np.concatenate([of_first, none]) + np.concatenate([none, np.full_like(first, 200.0)])
