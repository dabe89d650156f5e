"""The logistic function, its inverse and its logarithm; logsumexp and softmax.

scipy.special.expit, logit, log_expit
logsumexp(a, axis=1, b=weights), softmax(x, axis=1), log_softmax(x, axis=1)
                   redefined here, because SciPy's do not accept tensors
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.views import as_number
from fgrad.ops import softmaxes
from fgrad.ops.elementwise import astype, stop_gradient_of
from fgrad.ops.reductions import logsumexp as log_of_sum
from fgrad.ops.shaping import promoted
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import declare
from fgrad.typing import Array, ArrayLike, Axes

# fmt: off
declare(special.expit,     lambda ans, x: lambda ct: ct * (ans * special.expit(-x)))
declare(special.logit,     lambda ans, x: lambda ct: ct / (x * (1 - x)), domain=(0.1, 0.9))
declare(special.log_expit, lambda ans, x: lambda ct: ct * special.expit(-x))
# fmt: on


@differentiates(special.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Return the logarithm of a sum of exponentials, without overflow.

    Where every element is minus infinity the derivative is 0.

    Args:
        a: real or complex numbers.
        axis: an axis or several; by default all.
        b: weights, which broadcast against `a`; they are differentiated, too.
        keepdims: whether the reduced axes are kept with size 1.
        return_sign: whether to return the logarithm of the absolute value of the sum, and its sign.

    Returns:
        An array of the reduced shape; with `return_sign` a pair of arrays.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(logsumexp)(np.array([1000.0, 1000.0]))
        Tensor([0.5, 0.5])
    """
    a, b = _as_scipy_takes_them(as_array(a), b)
    if not a.size:
        result = a.sum(axis, keepdims=keepdims) - np.inf
        return (result, np.sign(result)) if return_sign else result
    if b is None and not return_sign and a.dtype.kind == "f":
        return log_of_sum(a, axis, keepdims)
    with np.errstate(all="ignore"):  # log(0) is minus infinity, as intended
        total, shift, empty = _shifted_sum(a, axis, b)
        size = np.abs(total) if return_sign else total
        result = np.where(empty, -np.inf, np.log(np.where(empty, 1, size)) + shift)
    if not keepdims:
        result, total = (as_number(np.squeeze(x, axis)) for x in (result, total))
    return (result, np.sign(total)) if return_sign else result


def _as_scipy_takes_them(a: Array, b: ArrayLike | None) -> tuple[Any, Any]:
    """Return elements in the dtype of both, and weights, of which a number of Python's takes that of the elements."""
    weight = a.dtype if b is None else promoted(b)
    dtype = np.result_type(a.dtype, weight)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    if not isinstance(weight, np.dtype):
        b = astype(as_array(b), dtype)
    return (a if a.dtype == dtype else astype(a, dtype)), b


def _shifted_sum(a: Array, axis: Any, b: Array | None) -> tuple[Any, Any, Any]:
    """Return the sum of exponentials divided by the largest, its logarithm, and where there is no positive one."""
    b = np.ones((), np.real(a).dtype) if b is None else as_array(b)
    used = np.not_equal(b, 0)
    a = np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape))
    shift = stop_gradient_of(np.max(np.where(used, np.real(a), -np.inf), axis=axis, keepdims=True))
    shift = np.where(np.isfinite(shift), shift, 0).astype(np.real(a).dtype)
    powers = np.exp(a - shift)
    # A weight of 0 means unused, also for an infinite exponential.
    terms = np.where(np.logical_or(used, np.isfinite(powers)), powers * b, 0)
    return np.sum(terms, axis=axis, keepdims=True), shift, np.all(np.equal(powers, 0), axis=axis, keepdims=True)


@differentiates(special.softmax)
def softmax(x: ArrayLike, axis: Axes = None) -> Any:
    """Return exp(x) / sum(exp(x)) along axes.

    Args:
        x: numbers.
        axis: the axis or axes of the sum; by default all.

    Returns:
        An array of the shape of `x`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: softmax(x)[0])(np.array([0.0, 0.0]))
        Tensor([ 0.25, -0.25])
    """
    return softmaxes.softmax(as_array(x), axis)


@differentiates(special.log_softmax)
def log_softmax(x: ArrayLike, axis: Axes = None) -> Any:
    """Return the logarithm of `softmax(x, axis)`, accurate where the latter is 0 or 1.

    Args:
        x: numbers.
        axis: the axis or axes of the sum; by default all.

    Returns:
        An array of the shape of `x`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: log_softmax(x)[0])(np.array([0.0, 1000.0]))
        Tensor([ 1., -1.])
    """
    return softmaxes.log_softmax(as_array(x), axis)
