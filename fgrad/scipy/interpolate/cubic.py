"""Interpolation by piecewise cubic polynomials, with different choices of the slopes at the points.

    CubicHermiteSpline          given slopes
    CubicSpline                 continuous second derivatives: the slopes solve a tridiagonal system
    PchipInterpolator           monotone where the values are: slopes are harmonic means
    Akima1DInterpolator         slopes are means that are robust to outliers

Sources: C. de Boor, A Practical Guide to Splines, chapter IV; F. N. Fritsch and J. Butland, "A method for
constructing local monotone piecewise cubic interpolants" (1984), https://doi.org/10.1137/0905021; C. Moler, Numerical
Computing with MATLAB, section 3.4, for the slopes at the ends; H. Akima, "A new method of interpolation and
smooth curve fitting based on local procedures" (1970), https://doi.org/10.1145/321607.321609.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import scipy.interpolate

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import getitem
from fgrad.ops.tracing import raw_array, run
from fgrad.scipy.interpolate.pieces import Extrapolate, PPoly, by_example, column, interval, plain, points_fit, wide
from fgrad.scipy.linalg.banded import solve_banded
from fgrad.typing import Array, ArrayLike


def _hermite(x: Array, y: Array, slopes: Array) -> Any:
    """Return the coefficients of the cubic polynomials with given values and slopes at the points."""
    steps = column(x[1:] - x[:-1], y.ndim)
    mean = (y[1:] - y[:-1]) / steps
    bend = (slopes[:-1] + slopes[1:] - 2 * mean) / steps
    return np.stack([bend / steps, (mean - slopes[:-1]) / steps - bend, slopes[:-1], y[:-1]])


def hermite_value(x: Any, y: Any, slopes: Any, points: Any) -> Any:
    """Return one value of each of several curves.

    Args:
        x: the common points of the curves.
        y, slopes: values and slopes, of shape (points, curves, ...).
        points: where to evaluate each curve, of shape (curves,).
    """
    place, curve = interval(x, points, 0, x.shape[0] - 2), np.arange(points.shape[0])
    ends = [getitem(each, (place + step, curve)) for each in (y, slopes) for step in (0, 1)]
    start = getitem(x, place)
    width, step = (column(each, y.ndim - 1) for each in (getitem(x, place + 1) - start, points - start))
    value, next_value, slope, next_slope = ends
    mean = (next_value - value) / width
    bend = (slope + next_slope - 2 * mean) / width
    return ((bend / width * step + ((mean - slope) / width - bend)) * step + slope) * step + value


def _prepared(make: Callable[..., Any], x: Array, y: Array, axis: int, *others: Array) -> tuple[Any, Any]:
    """Return points and values in double precision, with the axis of the points first, or raise SciPy's error.

    Args:
        make: SciPy's class, a function of points, values and others.
        x, y: points and values.
        axis: the axis of the points.
        others: further arrays of the shape of the values.
    """
    others_fit = all(each.shape == y.shape and np.isfinite(raw_array(each)).all() for each in others)
    if not points_fit(x, y, axis) or not others_fit:
        by_example(make, x, y, *others)
    return wide(x), np.moveaxis(wide(y), axis % y.ndim, 0)


class CubicHermiteSpline(PPoly):
    """Cubic polynomials between points with given values and slopes, as `scipy.interpolate.CubicHermiteSpline`.

    Args:
        x: the points, in increasing order; traced ones are differentiated.
        y: the values, along `axis`; traced ones are differentiated.
        dydx: the slopes, of the shape of `y`; traced ones are differentiated.
        axis: the axis of the points in `y`.
        extrapolate: beyond the points: True for the outermost polynomials, False for NaN, "periodic".

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> def halfway(slopes):
        ...     return CubicHermiteSpline([0.0, 1.0], [0.0, 0.0], slopes)(0.5)
        >>> fg.grad(halfway)(np.array([1.0, 1.0]))
        Tensor([ 0.125, -0.125])
    """

    def __init__(
        self, x: Any, y: ArrayLike, dydx: ArrayLike, axis: int = 0, extrapolate: Extrapolate | None = None
    ) -> None:
        def make(x: Array, y: Array, dydx: Array) -> Any:
            return scipy.interpolate.CubicHermiteSpline(x, y, dydx, axis)

        def traced(x: Any, y: ArrayLike, dydx: ArrayLike) -> Any:
            x, y, dydx = as_array(x), as_array(y), as_array(dydx)
            x, values = _prepared(make, x, y, axis, dydx)
            slopes = np.moveaxis(wide(dydx), axis % y.ndim, 0)
            return _hermite(x, values, slopes), x

        self._interpolate(make, traced, (x, y, dydx), axis, extrapolate)

    def _interpolate(
        self, make: Callable[..., Any], traced: Callable[..., Any], args: tuple[Any, ...], axis: int, extrapolate: Any
    ) -> None:
        """Take the pieces from SciPy's object, or if something is traced from a function of the same arguments."""

        def by_scipy(*args: object) -> Any:
            made = make(*args)
            return made.c, made.x

        c, x = run(by_scipy, traced, args, {})
        self._become(c, x, extrapolate, axis % np.ndim(args[1]), True)


# Splines with a continuous second derivative


def _conditions(bc_type: Any, shape: tuple[int, ...]) -> Any:
    """Return the condition at each end, a word or a pair of an order and an array, or None if it is invalid."""
    if isinstance(bc_type, str):
        words = ("not-a-knot", "periodic", *_ORDERS)
        return [_condition(bc_type, shape)] * 2 if bc_type in words else None
    if not hasattr(bc_type, "__len__") or len(bc_type) != 2:
        return None
    fits = all(_is_condition(each, shape) for each in bc_type)
    return [_condition(each, shape) for each in bc_type] if fits else None


_ORDERS = {"clamped": 1, "natural": 2}
"""The order of the derivative that is 0."""


def _is_condition(condition: Any, shape: tuple[int, ...]) -> bool:
    if isinstance(condition, str):
        return condition in ("not-a-knot", *_ORDERS)
    is_pair = hasattr(condition, "__len__") and len(condition) == 2
    return is_pair and condition[0] in (1, 2) and np.shape(condition[1]) == shape


def _condition(condition: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(condition, str):
        return (_ORDERS[condition], np.zeros(shape)) if condition in _ORDERS else condition
    return condition[0], as_array(condition[1])


def _closes(y: Array) -> bool:
    """Return whether the first and last values are equal."""
    first, last = raw_array(y[0]), raw_array(y[-1])
    return bool(np.allclose(first, last, rtol=1e-15, atol=1e-15))


def _solved(below: Array, diagonal: Array, above: Array, right: Array) -> Any:
    """Return the solution of tridiagonal equations, in linear time."""
    nothing = np.zeros_like(diagonal[:1])
    bands = np.stack([np.concatenate([nothing, above]), diagonal, np.concatenate([below, nothing])])
    flat = np.reshape(right, (right.shape[0], -1))
    return np.reshape(solve_banded((1, 1), bands, flat, check_finite=False), right.shape)


class _Equations:
    """The equations for the slopes of a cubic spline: two end conditions, and continuity of second derivatives.

    Args:
        x: the points.
        y: the values, along the first axis.
    """

    def __init__(self, x: Array, y: Array) -> None:
        self.steps = x[1:] - x[:-1]
        self.wide_steps = column(self.steps, y.ndim)
        self.y = y
        self.means = (y[1:] - y[:-1]) / self.wide_steps

    def inner(self) -> tuple[Any, Any, Any, Any]:
        """Return the coefficients of the previous slope, the slope itself and the next one, and the right-hand side."""
        h, wide, means = self.steps, self.wide_steps, self.means
        return h[1:], 2 * (h[:-1] + h[1:]), h[:-1], 3 * (wide[1:] * means[:-1] + wide[:-1] * means[1:])

    def outer(self, condition: Any, at_end: bool) -> tuple[Any, Any, Any]:
        """Return the coefficients of the outermost slope and its neighbour, and the right-hand side."""
        order = -1 if at_end else 1
        h, wide, means = self.steps[::order], self.wide_steps[::order], self.means[::order]
        if isinstance(condition, str):  # not-a-knot
            both = h[0] + h[1]
            right = ((wide[0] + 2 * both) * wide[1] * means[0] + wide[0] * wide[0] * means[1]) / both
            return h[1], both, right
        degree, value = condition
        if degree == 1:
            return np.ones_like(h[0]), np.zeros_like(h[0]), value
        return 2 * h[0], h[0], 3 * wide[0] * means[0] - order * 0.5 * value * wide[0] * wide[0]

    def solved(self, start: object, end: object) -> Any:
        """Return the slopes at all points."""
        before, own, after, right = self.inner()
        first, second, start_right = self.outer(start, False)
        last, second_last, end_right = self.outer(end, True)
        start_right, end_right = (astype(as_array(each), self.y.dtype) for each in (start_right, end_right))
        return _solved(
            np.concatenate([before, second_last[None]]),
            np.concatenate([first[None], own, last[None]]),
            np.concatenate([second[None], after]),
            np.concatenate([start_right[None], right, end_right[None]]),
        )

    def periodic(self) -> Any:
        """Return the slopes of a periodic curve, where the last one repeats the first.

        The last slope but one is eliminated from the equations, which are tridiagonal without it,
        and then determined by its own equation.
        """
        h, wide, means = self.steps, self.wide_steps, self.means
        if len(h) == 2:
            slope = np.sum(means / wide, axis=0) / np.sum(1 / wide, axis=0)
            return np.stack([slope, slope, slope])
        before, own, after, right = self.inner()
        start_right = 3 * (wide[0] * means[-1] + wide[-1] * means[0])
        diagonal = np.concatenate([2 * (h[-1:] + h[:1]), own[:-1]])
        influence = np.concatenate([-h[:1], np.zeros_like(h[1:-2]), -h[-3:-2]])
        flat = np.reshape(np.concatenate([start_right[None], right[:-1]]), (len(h) - 1, -1))
        upper = np.concatenate([h[-1:], after[:-2]])
        both = _solved(before[:-1], diagonal, upper, np.concatenate([flat, influence[:, None]], axis=1))
        free = np.reshape(both[:, :-1], (len(h) - 1, *self.y.shape[1:]))
        bound = column(both[:, -1], self.y.ndim)
        last = (right[-1] - wide[-2] * free[0] - wide[-1] * free[-1]) / (
            own[-1] + h[-2] * both[0, -1] + h[-1] * both[-1, -1]
        )
        slopes = free + last * bound
        return np.concatenate([slopes, last[None], slopes[:1]])


def _spline_slopes(x: Array, y: Array, conditions: Sequence[Any]) -> Any:
    """Return the slopes of a cubic spline at its points."""
    equations = _Equations(x, y)
    if len(x) == 2:  # without an inner point, both conditions determine one line
        conditions = [(1, equations.means[0]) if isinstance(each, str) else each for each in conditions]
    if conditions[0] == "periodic":
        return equations.periodic()
    if len(x) == 3 and all(isinstance(each, str) for each in conditions):  # a parabola
        one = np.ones_like(x[:1])
        before, own, after, right = equations.inner()
        means = equations.means
        right = np.concatenate([2 * means[:1], right, 2 * means[1:]])
        return _solved(
            np.concatenate([before, one]), np.concatenate([one, own, one]), np.concatenate([one, after]), right
        )
    return equations.solved(*conditions)


class CubicSpline(CubicHermiteSpline):
    """Cubic polynomials between points with a continuous second derivative, as `scipy.interpolate.CubicSpline`.

    Args:
        x: the points, in increasing order; traced ones are differentiated.
        y: the values, along `axis`; traced ones are differentiated.
        axis: the axis of the points in `y`.
        bc_type: the boundary conditions: "not-a-knot", "clamped", "natural", "periodic", or a pair: for each end
            a word or a pair of 1 or 2 and the derivative of that order; traced derivatives are differentiated.
        extrapolate: beyond the points: True for the outermost polynomials, False for NaN, "periodic". By default
            "periodic" if `bc_type` is, otherwise True.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> x = np.array([0.0, 1.0, 2.0, 3.0])
        >>> weights = fg.grad(lambda y: CubicSpline(x, y)(1.5))(x**2)
        >>> weights
        Tensor([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: object = "not-a-knot",
        extrapolate: Extrapolate | None = None,
    ) -> None:
        def make(x: Array, y: Array, bc_type: Any) -> Any:
            return scipy.interpolate.CubicSpline(x, y, axis, bc_type)

        if extrapolate is None and isinstance(bc_type, str) and bc_type == "periodic":
            extrapolate = "periodic"
        self._interpolate(make, partial(_spline_pieces, axis), (x, y, bc_type), axis, extrapolate)


def _spline_pieces(axis: int, x: Any, y: Any, bc_type: object) -> tuple[Any, Any]:
    x, y = as_array(x), as_array(y)

    def make(x: Array, y: Array) -> Any:
        return scipy.interpolate.CubicSpline(x, y, axis, plain(bc_type))

    x, y = _prepared(make, x, y, axis)
    conditions = _conditions(bc_type, tuple(y.shape[1:]))
    if conditions is None or (conditions[0] == "periodic" and not _closes(y)):
        by_example(make, x, np.moveaxis(y, 0, axis % y.ndim))
    if any(not isinstance(each, str) and each[1].dtype.kind == "c" for each in conditions):
        y = astype(y, np.complex128)
    slopes = _spline_slopes(x, y, conditions) if prod(y.shape) else np.zeros_like(y)
    return _hermite(x, y, slopes), x


# Slopes from neighbours only


def _monotone_end(near: Array, far: Array, mean: Array, next_mean: Array) -> Array:
    """Return the slope at an end: of the parabola through three points, limited to preserve the shape."""
    slope = ((2 * near + far) * mean - near * next_mean) / (near + far)
    turns = np.sign(slope) != np.sign(mean)
    overshoots = np.logical_and(np.sign(mean) != np.sign(next_mean), np.abs(slope) > 3 * np.abs(mean))
    return np.where(turns, 0, np.where(overshoots, 3 * mean, slope))


def monotone_slopes(x: Any, y: Any) -> Any:
    """Return the slopes of Fritsch and Butland: harmonic means, and 0 at local extrema."""
    steps = column(x[1:] - x[:-1], y.ndim)
    means = (y[1:] - y[:-1]) / steps
    if len(x) == 2:
        return np.concatenate([means, means])
    before, after = means[:-1], means[1:]
    turns = np.logical_or(np.sign(before) != np.sign(after), np.logical_or(before == 0, after == 0))
    first, second = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
    harmonic = (first + second) / (first / np.where(turns, 1, before) + second / np.where(turns, 1, after))
    start = _monotone_end(steps[0], steps[1], means[0], means[1])
    end = _monotone_end(steps[-1], steps[-2], means[-1], means[-2])
    return np.concatenate([start[None], np.where(turns, 0, harmonic), end[None]])


def _akima_slopes(x: Array, y: Array, modified: bool) -> Any:
    """Return Akima's slopes: the mean of two pieces, each weighted by the change of slope on the other side."""
    means = (y[1:] - y[:-1]) / column(x[1:] - x[:-1], y.ndim)
    if len(x) == 2:
        return np.concatenate([means, means])
    before = 2 * means[:1] - means[1:2]
    after = 2 * means[-1:] - means[-2:-1]
    m = np.concatenate([2 * before - means[:1], before, means, after, 2 * after - means[-1:]])
    changes = np.abs(m[1:] - m[:-1])
    if modified:
        changes = changes + 0.5 * np.abs(m[1:] + m[:-1])
    left, right = changes[:-2], changes[2:]
    both = left + right
    # Where the curve is straight on both sides the weights are 0, and the unweighted mean is used.
    defined = both > 1e-9 * np.max(both) if prod(both.shape) else np.zeros(both.shape, np.bool_)
    share = left / np.where(defined, both, 1)
    return np.where(defined, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


def _local_pieces(
    make: Callable[..., Any], slopes: Callable[..., Any], axis: int, x: Array, y: Array
) -> tuple[Any, Any]:
    x, y = as_array(x), as_array(y)
    if y.dtype.kind == "c":
        by_example(make, x, y)
    x, y = _prepared(make, x, y, axis)
    return _hermite(x, y, slopes(x, y)), x


class PchipInterpolator(CubicHermiteSpline):
    """Cubic polynomials that are monotone where the values are, as `scipy.interpolate.PchipInterpolator`.

    The slopes change their formula at local extrema; there the derivative is that of the formula in use.

    Args:
        x: the points, in increasing order; traced ones are differentiated.
        y: the values, along `axis`, which are real; traced ones are differentiated.
        axis: the axis of the points in `y`.
        extrapolate: beyond the points: True for the outermost polynomials, False for NaN, "periodic".

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> x = np.array([0.0, 1.0, 2.0])
        >>> fg.grad(lambda y: PchipInterpolator(x, y)(0.5))(np.array([0.0, 1.0, 1.0]))
        Tensor([ 0.3125,  0.75  , -0.0625])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Extrapolate | None = None) -> None:
        def make(x: Any, y: Any) -> Any:
            return scipy.interpolate.PchipInterpolator(x, y, axis)

        self._interpolate(make, partial(_local_pieces, make, monotone_slopes, axis), (x, y), axis, extrapolate)


def pchip_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: Any = 0, axis: int = 0) -> Any:
    """Return values or derivatives of a `PchipInterpolator`.

    Args:
        xi, yi: the points and the values; traced ones are differentiated.
        x: where to evaluate the curve; traced points are differentiated.
        der: the order of the derivative, or a list of orders.
        axis: that of the points in `yi`.

    Returns:
        The values, or a list of the values of each order.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: pchip_interpolate([0.0, 1.0], [0.0, 3.0], x))(0.5)
        Tensor(3.)
    """
    curve = PchipInterpolator(xi, yi, axis)
    if np.ndim(der) == 0:
        return curve(x, der)
    return [curve(x, nu) for nu in der]


class Akima1DInterpolator(CubicHermiteSpline):
    """Cubic polynomials on which an outlier has only local influence, as `scipy.interpolate.Akima1DInterpolator`.

    The slopes depend on absolute values of differences; where such a difference is 0 its derivative is 0.

    Args:
        x: the points, in increasing order; traced ones are differentiated.
        y: the values, along `axis`, which are real; traced ones are differentiated.
        axis: the axis of the points in `y`.
        method: "akima" or "makima".
        extrapolate: beyond the points: True for the outermost polynomials, False for NaN, "periodic"; by default False.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.
        NotImplementedError: SciPy's; the method is unknown.

    Example:
        >>> import fgrad as fg
        >>> x = np.arange(5.0)
        >>> fg.grad(lambda y: Akima1DInterpolator(x, y)(2.0))(x**2)
        Tensor([0., 0., 1., 0., 0.])
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: Any = "akima", extrapolate: Extrapolate | None = None
    ) -> None:
        def make(x: Array, y: Array) -> Any:
            return scipy.interpolate.Akima1DInterpolator(x, y, axis, method=method)

        def traced(x: Array, y: Array) -> Any:
            if method not in ("akima", "makima"):
                by_example(make, as_array(x), as_array(y))
            return _local_pieces(make, lambda x, y: _akima_slopes(x, y, method == "makima"), axis, x, y)

        self._interpolate(make, traced, (x, y), axis, False if extrapolate is None else extrapolate)
