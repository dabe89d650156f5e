"""Softmax and log-softmax.

softmax(x, axis)        exp(x) / sum(exp(x))
log_softmax(x, axis)    x - log(sum(exp(x)))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.foreign import total
from fgrad.core.primitive import Primitive, Rule
from fgrad.core.tensor import apply
from fgrad.ops.batching import reduction_batch
from fgrad.ops.families import reduced_axis, register, sample
from fgrad.ops.rows import reduced
from fgrad.typing import Array, Axes

_SAMPLES = (
    sample((3,), axis=None),
    sample((2, 3), axis=0),
    sample((2, 3), axis=-1),
    sample((2, 3), axis=None),
    sample((2, 3, 2), axis=(0, -1)),
    sample((2, 0), axis=0),
)


def _softmax_value(x: Array, axis: Axes) -> Any:
    powers = np.exp(x - reduced(np.maximum, x, axis, True))
    total = reduced(np.add, powers, axis, True)
    return np.divide(powers, total, out=_memory(powers, total))


def _memory(array: Array, other: Array) -> Any:
    """Return a new array as the memory of the result of a binary operation; None for a scalar, or another dtype."""
    return array if type(array) is np.ndarray and array.dtype is other.dtype else None


def _sum_of_products(x: Array, y: Array, axis: Axes) -> Any:
    """Return the sums of products along axes, which are kept with size 1."""
    if axis == -1 and type(x) is np.ndarray and type(y) is np.ndarray and x.dtype.kind == "f":
        return np.vecdot(x, y)[..., None]
    return total(x * y, axis=axis, keepdims=True)


def _softmax_slope(t: Array, ans: Array, axis: Axes) -> Any:
    """Return the product of the Jacobian, which is its own transpose, with a tangent or cotangent."""
    return ans * (t - _sum_of_products(ans, t, axis))


def _log_softmax_value(x: Array, axis: Axes) -> Any:
    largest = reduced(np.maximum, x, axis, True)
    shifted = x - np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity, as intended
        logarithm = np.log(reduced(np.add, np.exp(shifted), axis, True))
    return np.subtract(shifted, logarithm, out=_memory(shifted, logarithm))


def _along_axes(name: str, value: Callable[..., Any], rule: Rule, jvp: Rule) -> Primitive:
    """Declare a function with one result per element, computed from all elements along the axes."""
    primitive = Primitive(name, value, (rule,), jvp, samples=_SAMPLES)
    primitive.batch = reduction_batch(primitive)
    return register(primitive)


_softmax = _along_axes(
    "softmax",
    _softmax_value,
    lambda ans, x, axis: lambda ct: _softmax_slope(ct, ans, axis),
    lambda tangents, ans, x, axis: _softmax_slope(tangents[0], ans, axis),
)
_log_softmax = _along_axes(
    "log_softmax",
    _log_softmax_value,
    lambda ans, x, axis: lambda ct: ct - np.exp(ans) * total(ct, axis=axis, keepdims=True),
    lambda tangents, ans, x, axis: tangents[0] - _sum_of_products(np.exp(ans), tangents[0], axis),
)


def softmax(x: Array, axis: Axes = None) -> Any:
    """Return exp(x) / sum(exp(x)) along axes."""
    return apply(_softmax, (x,), {"axis": reduced_axis(axis, x)})


def log_softmax(x: Array, axis: Axes = None) -> Any:
    """Return the logarithm of `softmax`, accurate where that is 0 or 1."""
    return apply(_log_softmax, (x,), {"axis": reduced_axis(axis, x)})
