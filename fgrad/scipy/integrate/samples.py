"""Integrals of sampled functions, as in `scipy.integrate`: sums, differentiated as such."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.integrate._forms import SCIPYS, array_of
from fgrad.typing import Array, ArrayLike

WIDENS = SCIPYS.simpson(np.ones(3, np.float32), x=np.arange(3, dtype=np.float32)).dtype == np.float64
"""Whether `simpson` computes in double precision for single-precision `x`, as up to SciPy 1.17."""

KEEPS = SCIPYS.trapezoid(np.ones(3, np.float32), dx=np.float64(1)).dtype == np.float32
"""Whether the result of `trapezoid` has the dtype of the samples, as since SciPy 1.16."""

_OF_SAMPLES = """
Args:
    y: samples.
    x: the sample points, with one axis or as many as `y` has; by default they are spaced by `dx`.
    dx: the distance between samples.
    axis: the axis of the integral.
"""


@differentiates(SCIPYS.trapezoid, _OF_SAMPLES)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples by the trapezoidal rule, as `scipy.integrate.trapezoid`.

    Returns:
        The integral, with one axis less than `y`.

    Raises:
        ValueError: the shapes of `x` and `y` are incompatible.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: trapezoid([1.0, 2.0, 4.0], x))(np.array([0.0, 1.0, 3.0]))
        Tensor([-1.5, -1.5,  3. ])
    """
    y = _floating(y)
    samples = np.moveaxis(y, axis, -1)
    whole = np.sum(_distances(y, x, dx, axis) * (samples[..., 1:] + samples[..., :-1]) / 2, axis=-1)
    return astype(whole, y.dtype) if KEEPS else whole


@differentiates(SCIPYS.cumulative_trapezoid, _OF_SAMPLES)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Compute cumulative integrals by the trapezoidal rule, as `scipy.integrate.cumulative_trapezoid`.

    Args:
        initial: 0 to include the integral up to the first sample.

    Returns:
        The integrals; along the axis one fewer than the samples, or as many with `initial`.

    Raises:
        ValueError: the shapes of `x` and `y` are incompatible, there is no sample, or `initial` is invalid.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda y: cumulative_trapezoid(y))(np.array([1.0, 2.0, 4.0]))
        Tensor([[0.5, 0.5, 0. ],
                [0.5, 1. , 0.5]])
    """
    y = _floating(y)
    if y.shape[axis] == 0:
        raise ValueError("At least one point is required along `axis`.")
    samples = np.moveaxis(y, axis, -1)
    parts = _distances(y, x, dx, axis) * (samples[..., 1:] + samples[..., :-1]) / 2
    found = np.cumsum(parts, axis=-1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        found = np.concatenate([np.zeros_like(samples[..., :1]), found], axis=-1)
    return np.moveaxis(found, -1, axis)


@differentiates(SCIPYS.simpson, _OF_SAMPLES)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples by Simpson's rule, as `scipy.integrate.simpson`.

    For an even number of samples, the last interval is integrated by the parabola through the last three.

    Returns:
        The integral, with one axis less than `y`.

    Raises:
        ValueError: the shapes of `x` and `y` are incompatible.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda y: simpson(y, dx=0.5))(np.array([1.0, 2.0, 4.0]))
        Tensor([0.16666667, 0.66666667, 0.16666667])
    """
    y = _floating(y)
    samples, h = np.moveaxis(y, axis, -1), _distances(y, x, dx, axis)
    h = h.astype(float) if WIDENS and x is not None else h
    count = samples.shape[-1]
    if count == 2:
        return np.sum(h * (samples[..., 1:] + samples[..., :-1]) / 2, axis=-1)
    pairs = (count - 1) // 2
    first, second = h[..., 0 : 2 * pairs : 2], h[..., 1 : 2 * pairs : 2]
    left, middle, right = (samples[..., place : place + 2 * pairs : 2] for place in range(3))
    both = first + second
    found = np.sum(
        both
        / 6
        * (
            left * (2 - _quotient(second, first))
            + middle * both * _quotient(both, first * second)
            + right * (2 - _quotient(first, second))
        ),
        axis=-1,
    )
    if count % 2:
        return found
    # Cartwright 2017, equation 8, for the last interval.
    first, second = h[..., -2], h[..., -1]
    return (
        found
        + _quotient(2 * second**2 + 3 * first * second, 6 * (first + second)) * samples[..., -1]
        + _quotient(second**2 + 3 * first * second, 6 * first) * samples[..., -2]
        - _quotient(second**3, 6 * first * (first + second)) * samples[..., -3]
    )


@differentiates(SCIPYS.cumulative_simpson, _OF_SAMPLES)
def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: ArrayLike | None = None
) -> Any:
    """Compute cumulative integrals by Simpson's rule, as `scipy.integrate.cumulative_simpson`.

    Args:
        x: the sample points, in increasing order.
        dx: the distance between samples, or an array like `y` with one entry along the axis.
        initial: the integral up to the first sample, which is added to all; a number, or an array like `dx`.

    Returns:
        The integrals; along the axis one fewer than the samples, or as many with `initial`.

    Raises:
        ValueError: the shape of `x`, `dx` or `initial` is incompatible with `y`, or `x` is not increasing.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda y: 24 * cumulative_simpson(y))(np.array([1.0, 2.0, 4.0]))
        Tensor([[10., 16., -2.],
                [ 8., 32.,  8.]])
    """
    y = _floating(y)
    samples = np.moveaxis(y, axis, -1)
    if samples.shape[-1] < 3:
        found = np.moveaxis(cumulative_trapezoid(y, x, dx=dx, axis=axis), axis, -1)
    else:
        h = np.broadcast_to(_distances(y, x, dx, axis, increasing=True), (*samples.shape[:-1], samples.shape[-1] - 1))
        found = np.cumsum(_simpson_parts(samples, h), axis=-1)
    if initial is not None:
        before = array_of(initial)
        shape = (*samples.shape[:-1], 1)
        before = np.broadcast_to(before, shape) if before.ndim == 0 else np.moveaxis(before, axis, -1)
        if before.shape != shape:
            raise ValueError(
                "If provided, `initial` must either be a scalar or have the same shape as `y` but with only 1 point "
                "along `axis`."
            )
        found = np.concatenate([before, found + before], axis=-1)
    return np.moveaxis(found, -1, axis)


def _simpson_parts(y: Array, h: Array) -> Array:
    """Return the integrals over all intervals, each by the parabola through its ends and a neighbour."""
    forwards = _first_halves(y, h)
    backwards = np.flip(_first_halves(np.flip(y, -1), np.flip(h, -1)), -1)
    # Interval 1, 3, ... is the first of its parabola; the others and the last one are the second.
    count = h.shape[-1]
    is_first = (np.arange(count) % 2 == 0) & (np.arange(count) < count - 1)
    ahead = np.concatenate([forwards, forwards[..., -1:]], axis=-1)
    behind = np.concatenate([backwards[..., :1], backwards], axis=-1)
    return np.where(is_first, ahead, behind)


def _first_halves(y: Array, h: Array) -> Any:
    """Return the integral over the first interval of each parabola through three neighbours."""
    first, second = h[..., :-1], h[..., 1:]
    part, ratio = first / (first + second), first / second
    bent = part * ratio
    return first / 6 * ((3 - part) * y[..., :-2] + (3 + bent + part) * y[..., 1:-1] - bent * y[..., 2:])


def _floating(y: Any) -> Any:
    y = array_of(y)
    return y if y.dtype.kind in "fc" else y.astype(float)


def _distances(y: Array, x: Any, dx: Array | float, axis: int, increasing: bool = False) -> Any:
    """Return the lengths of the intervals between samples, which lie along the last axis."""
    count, ndim = y.shape[axis], len(y.shape)
    if x is None:
        # As in SciPy, a Python number does not widen the samples, except in the cumulative rule.
        weak = type(dx) in (int, float) and not increasing
        dx = np.asarray(dx, y.real.dtype) if weak else array_of(dx)
        if dx.ndim == 0:
            return np.broadcast_to(dx, (count - 1,))
        if dx.ndim != ndim or dx.shape[axis] not in (1, count - 1):
            raise ValueError(
                "If provided, `dx` must either be a scalar or have the same shape as `y` but with only 1 point along "
                "`axis`."
            )
        moved = np.moveaxis(dx, axis, -1)
        return np.broadcast_to(moved, (*moved.shape[:-1], count - 1))
    x = array_of(x)
    if len(x.shape) not in (1, ndim):
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    x = x if len(x.shape) == 1 else np.moveaxis(x, axis, -1)
    if x.shape[-1] != count:
        raise ValueError("If given, length of x along axis must be the same as y.")
    lengths = x[..., 1:] - x[..., :-1]
    if increasing and np.any(raw_array(lengths) <= 0):
        raise ValueError("Input x must be strictly increasing.")
    return lengths


def _quotient(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0, as SciPy does for coincident samples."""
    is_zero = b == 0
    return np.where(is_zero, 0.0, a / np.where(is_zero, 1.0, b))
