"""Functions of sampled signals: convolution, interpolation, differences, integrals, phases.

`convolve` and `interp` are primitives, and so are the two families of Bessel functions that contain the
derivatives of `sinc` and `i0`; all others are composed of existing operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, prod
from operator import index
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned, along_axis_batch, elementwise_batch
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.elementwise import astype, in_order_of, stop_gradient_of
from fgrad.ops.families import linear, register, sample, scale
from fgrad.ops.indexing import cut, getitem, scatter_add
from fgrad.ops.patterns import Chain, Step, as_einsum, windowed
from fgrad.ops.shaping import reshaped
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array, ArrayLike, Operand

_POINTS = np.array([-1.0, 0.0, 1.5, 2.0])


# A convolution is a window of the full convolution. Its transpose is a window of another convolution, so
# derivatives of all orders are convolutions.


_MODES: tuple[Any, ...] = ("full", "same", "valid")


def _window(n: int, m: int, mode: str) -> tuple[int, int]:
    """Return the start of a mode's result in the full convolution of n and m points, and its length."""
    if mode == "full":
        return 0, n + m - 1
    shorter, longer = sorted((n, m))
    return ((shorter - 1) // 2, longer) if mode == "same" else (shorter - 1, longer - shorter + 1)


def _convolved(a: Array, v: Array, start: int, length: int) -> Any:
    """Return the elements `start` to `start + length` of the full convolution over the last axes."""
    if a.shape[-1] < v.shape[-1]:
        a, v = v, a
    n, m = a.shape[-1], v.shape[-1]
    if a.ndim == v.ndim == 1:
        for mode in _MODES:
            if _window(n, m, mode) == (start, length):
                return np.convolve(a, v, mode)
    # The part of the longer operand that the window needs, zero-padded at the ends.
    before, after = m - 1 - start, start + length - n
    kept = a[..., max(0, -before) : n - max(0, -after)]
    kept = np.pad(kept, [(0, 0)] * (a.ndim - 1) + [(max(0, before), max(0, after))])
    if a.ndim == v.ndim == 1:
        return np.convolve(kept, v, "valid")
    pieces = np.lib.stride_tricks.sliding_window_view(kept, m, axis=-1)
    return np.einsum("...ij,...j->...i", pieces, v[..., ::-1])


def _convolve_rule(other: Array, size: int, start: int) -> Callable[[Any], Any]:
    """Return the pullback to an operand of a given size: the convolution with the reversed other one."""
    window = {"start": other.shape[-1] - 1 - start, "length": size}
    return lambda ct: contract(_convolve, (ct, other[..., ::-1]), window)


def _window_sample(shape: tuple[int, ...], other: tuple[int, ...], mode: str) -> Any:
    start, length = _window(shape[-1], other[-1], mode)
    return sample(shape, other, start=start, length=length)


def _convolve_pattern(step: Step) -> Chain:
    start, other = step.metadata["start"], np.shape(step.args[1 - step.argnum])[-1]
    return windowed(step, {-1: range(start - other + 1, start + 1)})


_convolve = multilinear(
    _convolved,
    (
        lambda ans, a, v, start, length: _convolve_rule(v, a.shape[-1], start),
        lambda ans, a, v, start, length: _convolve_rule(a, v.shape[-1], start),
    ),
    *(
        _window_sample(shape, other, mode)
        for mode in ("full", "same", "valid")
        for shape, other in (((5,), (3,)), ((2,), (5,)), ((4,), (4,)), ((2, 4), (2,)), ((3, 1, 2), (2, 3)))
    ),
    name="convolve",
    broadcasts=True,
    pattern=_convolve_pattern,
)
_convolve.batch = lambda values, mapped, size, metadata: contract(_convolve, aligned(values, mapped, 1), metadata)


def _mode(mode: Any) -> str:
    """Return the full name of a mode; NumPy raises the error for an unknown one."""
    if type(mode) is str and mode in _MODES:
        return mode
    return {4: "full", 3: "same", 2: "valid"}[np.convolve(np.zeros(3), np.zeros(2), mode).size]


@answers_traced(np.convolve)
def convolve(a: ArrayLike, v: ArrayLike, mode: Any = "full") -> Any:
    """Return the discrete convolution of two sequences."""
    a, v = (np.reshape(x, (1,)) if x.ndim == 0 else x for x in (as_array(a), as_array(v)))
    if a.ndim != 1 or v.ndim != 1 or 0 in (a.size, v.size):
        np.convolve(np.zeros(a.shape), np.zeros(v.shape), mode)  # which raises NumPy's error
    start, length = _window(a.size, v.size, _mode(mode))
    return apply(_convolve, (a, v), {"start": start, "length": length})


@answers_traced(np.correlate)
def correlate(a: ArrayLike, v: ArrayLike, mode: Any = "valid") -> Any:
    """Return the cross-correlation of two sequences, the second one conjugated."""
    a, v = as_array(a), as_array(v)
    if a.ndim != 1 or v.ndim != 1 or 0 in (a.size, v.size):
        np.correlate(np.zeros(a.shape), np.zeros(v.shape), mode)  # which raises NumPy's error
    mode = _mode(mode)
    start, length = _window(a.size, v.size, mode)
    if mode == "same" and a.size < v.size:
        start = a.size // 2  # counted from the other end, because NumPy swaps the two and then reverses
    v = np.conjugate(v) if v.dtype.kind == "c" else v
    return apply(_convolve, (a, v[::-1]), {"start": start, "length": length})


# Interpolation. With the slope s at x, and I(f) the interpolation of values f at the sample points,
# the tangent is I(df) + s (dx - I(dxp)): moving a sample point by dxp is moving its value by -s dxp.


def _by_example(function: Callable[..., Any], x: Array, *tables: Array) -> Array:
    """Return the values of a function of queries and tables along the last axes; leading axes are batch axes."""
    if all(table.ndim == 1 for table in tables):
        return np.asarray(function(x, *tables))
    lead = np.broadcast_shapes(*(each.shape[:-1] for each in (x, *tables)))
    arrays = [np.broadcast_to(each, (*lead, each.shape[-1])) for each in (x, *tables)]
    places = list(np.ndindex(lead))
    rows = [function(*(each[place] for each in arrays)) for place in places]
    return np.reshape(rows, (*lead, x.shape[-1])) if rows else np.zeros((*lead, x.shape[-1]))


class _Line:
    """The linear pieces of an interpolation, one for each element of `x`.

    At a sample point the piece on its right is used, and at the last one the piece on its left.
    Beyond the ends, and where the last two sample points coincide, the function is constant.

    Attributes:
        shape: the shape of the tables, with leading batch axes.
        lower, upper: the indices of the neighbouring sample points in the flattened tables.
        share: the weight of the upper one, between 0 and 1.
        width: the width of the interval; infinite where the function is constant, so that its slope is 0.
    """

    def __init__(self, x: Any, fp: Any, xp: Array) -> None:
        size = xp.shape[-1]
        lead = np.broadcast_shapes(x.shape[:-1], fp.shape[:-1], xp.shape[:-1])
        self.shape = (*lead, size)
        tables = size * np.arange(prod(lead)).reshape((*lead, 1)) if lead else 0
        number = np.clip(_searched(x, xp) - 1, 0, max(size - 2, 0))
        self.lower, self.upper = tables + number, tables + np.minimum(number + 1, size - 1)
        start = self._taken(xp, self.lower)
        width = self._taken(xp, self.upper) - start
        first, last = xp[..., :1], xp[..., -1:]
        slopes = np.logical_and(np.logical_and(x >= first, x <= last), width > 0)
        self.width = np.where(slopes, width, np.inf)
        self.share = np.where(slopes, (x - start) / np.where(slopes, width, 1), x >= last)

    def _taken(self, table: Array, places: Array) -> Any:
        if table.shape != self.shape:
            table = np.broadcast_to(table, self.shape)
        return getitem(np.reshape(table, (-1,)), places)

    def slope(self, fp: Array) -> Any:
        """Return the slope of the line through values at the sample points."""
        return (self._taken(fp, self.upper) - self._taken(fp, self.lower)) / self.width

    def transposed(self, ct: Array) -> Any:
        """Return the cotangent of the values at the sample points: the transpose of the interpolation."""
        parts = np.stack([ct * (1 - self.share), ct * self.share])
        return scatter_add(parts, np.stack([self.lower, self.upper]), (prod(self.shape),)).reshape(self.shape)


def _searched(x: Array, xp: Array) -> Array:
    """Return how many sample points are less than or equal to each element of `x`."""
    if xp.ndim == 1:
        return np.searchsorted(xp, x, "right")
    lead = np.broadcast_shapes(x.shape[:-1], xp.shape[:-1])
    x, xp = np.broadcast_to(x, (*lead, x.shape[-1])), np.broadcast_to(xp, (*lead, xp.shape[-1]))
    found = [np.searchsorted(xp[place], x[place], "right") for place in np.ndindex(lead)]
    return np.reshape(np.stack(found), x.shape) if found else np.zeros(x.shape, np.intp)


def _points_pulled(ct: Array, x: Operand, fp: Any, xp: Any) -> Any:
    line = _Line(x, fp, xp)
    return line.transposed(scale(-ct, line.slope(fp)))


def _interp_tangent(tangents: Sequence[Any], ans: Array, x: Array, fp: Array, xp: Array) -> Any:
    t_x, t_fp, t_xp = tangents
    total = ZERO if t_fp is ZERO else apply(_interp, (x, t_fp, xp))
    if t_x is not ZERO or t_xp is not ZERO:
        moved = 0 if t_x is ZERO else t_x
        moved = moved if t_xp is ZERO else moved - apply(_interp, (x, t_xp, xp))
        part = scale(moved, _Line(x, fp, xp).slope(fp))
        total = part if total is ZERO else total + part
    return total


_interp = register(
    Primitive(
        "interp",
        lambda x, fp, xp: _by_example(lambda x, fp, xp: np.interp(x, xp, fp), x, fp, xp),
        (
            lambda ans, x, fp, xp: lambda ct: scale(ct, _Line(x, fp, xp).slope(fp)),
            lambda ans, x, fp, xp: lambda ct: _Line(x, fp, xp).transposed(ct),
            lambda ans, x, fp, xp: lambda ct: _points_pulled(ct, x, fp, xp),
        ),
        _interp_tangent,
        broadcasts=True,
        masks="both",
        samples=tuple(sample((k,), (4,), constants=(_POINTS,), complex=False) for k in (5, 1, 0)),
        pattern=as_einsum("x,p,q->x"),
    )
)
_interp.batch = lambda values, mapped, size, metadata: apply(_interp, aligned(values, mapped, 1), metadata)


@answers_traced(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return the piecewise linear interpolation at `x`; at a sample point, the derivative is the slope on its right."""
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.size == 0 or (type(period) in (int, float) and not period):
        np.interp(0.0, np.zeros(xp.shape), np.zeros(fp.shape), period=period)  # which raises NumPy's error
    if "c" in (x.dtype.kind, xp.dtype.kind):
        np.interp(np.zeros(1, x.dtype), np.zeros(1, xp.dtype), np.zeros(1))  # likewise
    if period is not None:
        x, xp, fp = _unrolled(x, xp, fp, np.abs(period))
        left = right = None
    x, xp = (astype(each, np.float64) for each in (x, xp))
    result = reshaped(apply(_interp, (np.reshape(x, (-1,)), fp, xp)), x.shape)  # of a number a number, and no view
    if left is not None:
        result = np.where(x < xp[0], left, result)
    return result if right is None else np.where(x > xp[-1], right, result)


def _unrolled(x: Operand, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Map all points into one period, in order, with the nearest points of the adjacent periods."""
    x, xp = np.remainder(x, period), np.remainder(xp, period)
    order = np.argsort(xp)
    xp, fp = getitem(xp, order), getitem(fp, order)
    xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, np.concatenate([fp[-1:], fp, fp[:1]])


# Differences and integrals


@answers_traced(np.gradient)
def gradient(f: ArrayLike, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return second-order central differences along axes, with one-sided ones at the ends."""
    f = as_array(f)
    axes = range(f.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, f.ndim)
    if not _fits(f, axes, varargs, edge_order):
        spacings: Any = [np.zeros(np.shape(each)) for each in varargs]
        np.gradient(np.zeros(f.shape), *spacings, axis=axis, edge_order=edge_order)  # type: ignore[call-overload]  # raises
    f = astype(f, np.float64) if f.dtype.kind in "iu" else f
    if len(varargs) != len(axes):
        varargs = (varargs or (1.0,)) * len(axes)
    slopes = [in_order_of(_slope(f, along, _steps(d), edge_order), f) for along, d in zip(axes, varargs, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _fits(f: Any, axes: Sequence[int], spacings: Sequence[Any], edge_order: int) -> bool:
    """Return whether the arguments of `gradient` are compatible."""
    if edge_order > 2 or any(f.shape[axis] <= edge_order for axis in axes):
        return False
    if len(spacings) != len(axes):
        return not spacings or (len(spacings) == 1 and np.ndim(spacings[0]) == 0)
    return all(np.shape(d) in ((), (f.shape[axis],)) for d, axis in zip(spacings, axes, strict=True))


def _steps(spacing: ArrayLike) -> Any:
    """Return the distances between neighbours: a single number if all are known to be equal."""
    if np.ndim(spacing) == 0:
        return spacing
    spacing = as_array(spacing)
    spacing = astype(spacing, np.float64) if spacing.dtype.kind in "iu" else spacing
    steps = spacing[1:] - spacing[:-1]
    # Traced distances are kept separate: a formula with only the first would lose the others' derivatives.
    return steps[0] if isinstance(steps, np.ndarray) and np.all(steps == steps[0]) else steps


def _apart(x: Array, axis: int, edge: int, reverse: bool) -> Any:
    """Return each element's next neighbour minus the previous one; beyond the ends, `edge` times the end element."""
    result = np.empty_like(x)
    before, after = cut(x, axis, None, -2), cut(x, axis, 2, None)
    first, second = cut(x, axis, 0, 1), cut(x, axis, 1, 2)
    last, second_last = cut(x, axis, -1, None), cut(x, axis, -2, -1)
    sign = -1 if reverse else 1
    np.subtract(*((before, after) if reverse else (after, before)), out=cut(result, axis, 1, -1))
    cut(result, axis, 0, 1)[...] = sign * (second - edge * first)
    cut(result, axis, -1, None)[...] = sign * (edge * last - second_last)
    return result


_central: Primitive = linear(
    _apart,
    lambda ans, x, axis, edge, reverse: (
        lambda ct: apply(_central, (ct,), {"axis": axis, "edge": -edge, "reverse": not reverse})
    ),
    sample((2,), axis=0, edge=1, reverse=False),
    sample((4, 3), axis=0, edge=-1, reverse=True),
    sample((2, 5), axis=-1, edge=1, reverse=False),
    sample((3, 0), axis=0, edge=1, reverse=False),
    name="central_difference",
    batch=along_axis_batch,
    pattern=lambda step: windowed(step, {step.metadata["axis"]: range(-1, 2)}),
)
"""Linear; the transpose is the operation with the sign and that of `edge` reversed."""


def _slope(f: Any, axis: int, steps: Any, edge_order: int) -> Any:
    """Return the differences along one axis, divided by the steps."""
    if np.ndim(steps) == 0 and edge_order == 1:
        counts = np.full(f.shape[axis], 2, f.real.dtype)
        counts[[0, -1]] = 1
        counts = counts.reshape((-1,) + (1,) * (f.ndim - 1 - axis))
        return astype(apply(_central, (f,), {"axis": axis, "edge": 1, "reverse": False}) / (counts * steps), f.dtype)
    return _uneven_slope(f, axis, steps, edge_order)


def _uneven_slope(f: Any, axis: int, steps: Any, edge_order: int) -> Any:
    """Return the differences for steps of different sizes, or with the ends of second order."""
    column = (-1,) + (1,) * (f.ndim - 1 - axis)

    def part(start: int | None, stop: int | None) -> Any:
        return cut(f, axis, start, stop)

    def step(start: int | None, stop: int | None) -> Any:
        return steps if np.ndim(steps) == 0 else steps[start:stop].reshape(column)

    if np.ndim(steps) == 0:
        inner = (part(2, None) - part(None, -2)) / (2.0 * steps)
    else:
        before, after = step(None, -1), step(1, None)
        rise, next_rise = part(1, -1) - part(None, -2), part(2, None) - part(1, -1)
        inner = (rise * (after / before) + next_rise * (before / after)) / (before + after)
    first = (part(1, 2) - part(0, 1)) / step(0, 1)
    last = (part(-1, None) - part(-2, -1)) / step(-1, None)
    if edge_order != 1:
        # The derivative of a parabola through three points: the slope of the outer piece, extrapolated to the end.
        inward = (part(2, 3) - part(1, 2)) / step(1, 2)
        first = first + (first - inward) * (step(0, 1) / (step(0, 1) + step(1, 2)))
        inward = (part(-2, -1) - part(-3, -2)) / step(-2, -1)
        last = last + (last - inward) * (step(-1, None) / (step(-1, None) + step(-2, -1)))
    return astype(np.concatenate([first, inner, last], axis=axis), f.dtype)


@answers_traced(np.trapezoid)
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule."""
    y, axis = as_array(y), index(axis)
    pairs = cut(y, axis, 1, None) + cut(y, axis, None, -1)
    if x is None:
        return np.sum(pairs, axis) * (dx / 2.0) if np.ndim(dx) == 0 else np.sum(dx * pairs, axis) / 2.0
    x = as_array(x)
    steps = np.diff(x, axis=0 if x.ndim == 1 else axis)
    steps = steps.reshape((-1,) + (1,) * (y.ndim - 1 - axis % y.ndim)) if x.ndim == 1 else steps
    return np.sum(steps * pairs, axis) / 2.0


@answers_traced(np.unwrap)
def unwrap(p: ArrayLike, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Return phases without jumps of more than half a period; the correction is piecewise constant in `p`."""
    p = as_array(p)
    steps = np.diff(stop_gradient_of(p), axis=axis)
    dtype = np.result_type(steps, period)
    high, odd = divmod(period, 2) if dtype.kind in "iu" else (period / 2, 0)
    wrapped = np.remainder(steps + high, period) - high
    if odd == 0:  # a jump of exactly half a period keeps its direction
        wrapped = np.where(np.logical_and(wrapped == -high, steps > 0), high, wrapped)
    added = np.where(np.abs(steps) < (period / 2 if discont is None else discont), 0, wrapped - steps)
    later = cut(p, axis, 1, None) + np.cumsum(added, axis)
    joined = np.concatenate([astype(cut(p, axis, None, 1), dtype), astype(later, dtype)], axis=axis)
    return in_order_of(joined, p)


# Bessel functions. The derivative of each order is a combination of its neighbours without a pole, so sinc and i0
# have derivatives of every order, also at 0. Sections are those of https://dlmf.nist.gov.


def _series(x: Array, quarter: float, steps: Sequence[float]) -> Array:
    """Return the series with first term 1 and ratios `quarter * x * x / step` of consecutive terms."""
    square = quarter * x * x
    total = np.ones_like(x)
    for step in reversed(steps):
        total = 1 + total * square / step
    return total


def _spherical_value(x: Array, n: int) -> Any:
    """Return the spherical Bessel function j_n: the power series (10.53.1), beyond n + 1 the recurrence (10.51.1)."""
    x = np.asarray(x)
    is_zero = x == 0
    divisor = np.where(is_zero, np.ones((), x.dtype), x)
    current = np.where(is_zero, np.ones((), x.dtype), np.sin(divisor) / divisor)
    if n == 0:
        return current[()]
    is_small = np.absolute(x) < n + 1
    divisor = np.where(is_small, np.ones((), x.dtype), x)
    before, current = current, (current - np.cos(x)) / divisor
    for order in range(1, n):
        before, current = current, (2 * order + 1) * current / divisor - before
    small = np.where(is_small, x, np.zeros((), x.dtype))
    series = _series(small, -0.5, [k * (2 * n + 2 * k + 1) for k in range(1, 2 * n + 20)])
    lead = small**n / float(np.prod(np.arange(1.0, 2 * n + 2, 2)))
    return np.where(is_small, lead * series, current)[()]


def _modified_value(x: Array, n: int) -> Any:
    """Return the modified Bessel function I_n: the power series (10.25.2), beyond 30 the expansion (10.40.1)."""
    if n == 0:
        return np.i0(x)[()]
    x = np.asarray(x)
    size = np.absolute(x)
    is_small = size < 30
    small = np.where(is_small, x, np.zeros((), x.dtype))
    lead = (small / 2) ** n / factorial(n)
    series = lead * _series(small, 0.25, [k * (n + k) for k in range(1, 70)])
    large = np.where(is_small, 30 * np.ones((), x.dtype), size)
    expansion = np.ones_like(large)
    for k in range(20, 0, -1):
        expansion = 1 - expansion * ((4 * n * n - (2 * k - 1) ** 2) / (8 * k)) / large
    # The exponential is split in two factors, because the division by the root avoids some overflows.
    half = np.exp(large / 2)
    far = half * (half / np.sqrt(2 * np.pi * large)) * expansion * np.sign(x) ** n
    return np.where(is_small, series, far)[()]


def _spherical_slope(x: Array, n: int) -> Any:
    """Return the derivative of j_n (10.51.1)."""
    after = apply(_spherical, (x,), {"n": n + 1}) * ((n + 1) / (2 * n + 1))
    return -after if n == 0 else apply(_spherical, (x,), {"n": n - 1}) * (n / (2 * n + 1)) - after


def _modified_slope(x: Array, n: int) -> Any:
    """Return the derivative of I_n (10.29.1)."""
    after = apply(_modified, (x,), {"n": n + 1})
    return after if n == 0 else (apply(_modified, (x,), {"n": n - 1}) + after) * 0.5


def _family(name: str, value: Callable[..., Any], slope: Callable[..., Any], complex: bool) -> Primitive:
    """Declare a family of functions of one variable that contains their derivatives."""
    primitive = Primitive(
        name,
        value,
        (lambda ans, x, n: lambda ct: ct * slope(x, n),),
        lambda tangents, ans, x, n: scale(tangents[0], slope(x, n)),
        scales="pullback",
        samples=(
            *(sample((2, 3), domain=(-6.0, 6.0), complex=complex, n=n) for n in (0, 1, 4)),
            sample((), n=0, complex=complex),
            sample((0,), n=2, complex=complex),
        ),
    )
    primitive.batch = elementwise_batch(primitive)
    return register(primitive)


_spherical = _family("spherical_bessel", _spherical_value, _spherical_slope, complex=True)
_modified = _family("modified_bessel", _modified_value, _modified_slope, complex=False)


@answers_traced(np.sinc)
def sinc(x: Array) -> Any:
    """Return sin(pi x) / (pi x)."""
    return apply(_spherical, (np.pi * x,), {"n": 0})


@answers_traced(np.i0)
def i0(x: Any) -> Any:
    """Return the modified Bessel function of the first kind, of order 0."""
    if x.dtype.kind == "c":
        np.i0(np.zeros((), x.dtype))  # which raises NumPy's error
    return apply(_modified, (x if x.dtype.kind == "f" else astype(x, np.float64),), {"n": 0})
