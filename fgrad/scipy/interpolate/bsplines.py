"""B-splines: evaluation, and interpolating splines.

    BSpline(t, c, k)            values, derivatives and integrals, as in SciPy
    make_interp_spline(x, y)    the interpolating spline of a degree
    basis(t, k, points)         the B-splines that are nonzero at points

The basis follows from the Cox-de Boor recurrence, which at a point uses only the knots around it and never divides
by zero. It is composed of operations with rules, so there are derivatives with respect to points, knots and
coefficients.

Source: C. de Boor, A Practical Guide to Splines, chapters IX, X and XIII.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import scipy.interpolate

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import getitem, scatter_add
from fgrad.ops.tracing import run
from fgrad.scipy.interpolate.pieces import (
    Extrapolate,
    at_axis,
    by_example,
    choice,
    column,
    examples,
    integral,
    interval,
    periodic,
    plain,
    real_points,
    wide,
)
from fgrad.scipy.linalg.banded import solve_banded
from fgrad.typing import Array, ArrayLike


def basis(t: Any, k: int, points: Any, nu: int = 0) -> tuple[Any, Any]:
    """Return the B-splines of degree `k` that are nonzero at points, or their derivatives of order `nu`.

    Args:
        t: the knots, with at least `k + 1` on either side of each point that is between them.
        k: the degree.
        points: an array of any shape.
        nu: the order of the derivative.

    Returns:
        The index of the knot interval that contains each point, and the values, of shape
        (k + 1, *points.shape), of the B-splines number `interval - k` to `interval`.
    """
    place = interval(t, points, k, t.shape[0] - k - 2)
    if nu > k:
        return place, np.zeros((k + 1, *points.shape))
    around = np.reshape(np.arange(1 - k, k + 1), (-1, *(1,) * points.ndim))
    knots = getitem(t, place + around)
    values = np.ones_like(points)[None]
    for degree in range(1, k + 1):
        after, before = knots[k : k + degree], knots[k - degree : k]
        share = values / (after - before)
        nothing = np.zeros_like(share[:1])
        if degree <= k - nu:
            falling, rising = (after - points) * share, (points - before) * share
            values = np.concatenate([falling, nothing]) + np.concatenate([nothing, rising])
        else:
            slope = degree * share
            values = np.concatenate([nothing, slope]) - np.concatenate([slope, nothing])
    return place, values


def _sums(t: Array, c: Array, k: int, points: Array, nu: int, extrapolate: Extrapolate) -> Any:
    """Return derivatives of a spline, with the axes of the points first."""
    if nu > k + 1:  # for which SciPy computes nothing, not even NaN
        return np.zeros_like(c, shape=(*points.shape, *c.shape[1:]))
    start, end = t[k], t[t.shape[0] - k - 1]
    if extrapolate == "periodic":
        points, extrapolate = periodic(points, start, end), False
    place, values = basis(t, k, points, nu)
    ndim = points.ndim + c.ndim - 1
    around = np.reshape(np.arange(-k, 1), (-1, *(1,) * points.ndim))
    found = np.sum(getitem(c, place + around) * column(values, ndim + 1), axis=0)
    if nu >= k:  # a constant, except for NaN, which is in no interval
        found = found + column(np.where(np.isnan(points), points, 0.0), ndim)
    if extrapolate:
        return found
    inside = np.logical_and(points >= start, points <= end)
    return np.where(column(inside, ndim), found, np.nan)


def _padded(t: Array, c: Array) -> Array:
    """Return coefficients zero-padded to one for each knot, as in FITPACK."""
    missing = t.shape[0] - c.shape[0]
    return np.concatenate([c, np.zeros_like(c, shape=(missing, *c.shape[1:]))]) if missing > 0 else c


class BSpline:
    """A sum of B-splines, as `scipy.interpolate.BSpline`.

    Args:
        t: the knots, in order; traced ones are differentiated.
        c: the coefficients, along `axis`; traced ones are differentiated.
        k: the degree.
        extrapolate: beyond the knots: True for the outermost polynomials, False for NaN, "periodic".
        axis: the axis of the coefficients.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Attributes:
        t, c, k: as given, the axis of the coefficients first.
        tck: the three of them.
        axis, extrapolate: as given.

    Example:
        >>> import fgrad as fg
        >>> t = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        >>> fg.grad(lambda c: BSpline(t, c, 2)(2.5))(np.ones(3))
        Tensor([0.125, 0.75 , 0.125])
    """

    t: Any
    c: Any
    k: int
    axis: int
    extrapolate: Extrapolate

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Extrapolate = True, axis: int = 0) -> None:
        def by_scipy(t: Array, c: Array) -> tuple[Any, Any]:
            return _arrays_of(scipy.interpolate.BSpline(t, c, k, extrapolate, axis))

        def traced(t: Array, c: ArrayLike) -> tuple[Any, Any]:
            t, c = as_array(t), as_array(c)

            def make(t: Array) -> Any:
                return scipy.interpolate.BSpline(t, np.zeros(c.shape), k, extrapolate, axis)

            by_example(make, t)  # for its checks, at negligible cost
            return wide(t), np.moveaxis(wide(c), axis, 0)

        t, c = run(by_scipy, traced, (t, c), {})
        self._become(t, c, int(k), extrapolate, axis % c.ndim)

    def _become(self, t: Array, c: Array, k: int, extrapolate: Extrapolate, axis: int) -> None:
        self.t, self.c, self.k, self.axis = t, c, k, axis
        self.extrapolate = choice(extrapolate, True)

    @property
    def tck(self) -> tuple[Any, Any, int]:
        """The knots, the coefficients and the degree."""
        return self.t, self.c, self.k

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate | None = None) -> Any:
        """Return values or derivatives.

        Args:
            x: the points; traced ones are differentiated.
            nu: the order of the derivative.
            extrapolate: as for the class, whose value is the default.

        Returns:
            Values with the axes of the coefficients, and those of the points in place of `axis`. At
            a knot the piece on its right is used; NaN beyond the ends has the derivative 0.
        """
        return self._run(operator.call, self._values, x, nu, extrapolate)

    def _scipys(self, t: Array, c: Array) -> Any:
        made = scipy.interpolate.BSpline.construct_fast
        return made(np.asarray(t), np.asarray(c), self.k, self.extrapolate, self.axis)

    def _run(self, scipys: Callable[..., Any], traced: Callable[..., Any], *args: object) -> Any:
        """Call a function of SciPy's object if nothing is traced, and otherwise one of the arrays."""

        def by_scipy(t: Array, c: Array, *args: object) -> Any:
            return scipys(self._scipys(t, c), *args)

        return run(by_scipy, traced, (self.t, self.c, *args), {})

    def _values(self, t: Array, c: Array, points: Any, nu: int, extrapolate: Extrapolate | None) -> Any:
        if nu < 0:
            scipy.interpolate.BSpline(np.arange(2.0), np.zeros(1), 0)(0.0, nu)  # raises SciPy's error
        points = real_points(points)
        found = _sums(t, c, self.k, points, nu, choice(extrapolate, self.extrapolate))
        return at_axis(found, points.ndim, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the derivative, a spline of lower degree.

        Args:
            nu: the order; a negative one means the antiderivative.

        Raises:
            ValueError: SciPy's; coincident knots prevent a derivative, or the degree is less than `nu`.
        """
        if nu < 0:
            return self.antiderivative(-nu)
        t, c = self._run(lambda made, nu: _arrays_of(made.derivative(nu)), self._derivative, nu)
        return self._like(t, c, self.k - nu, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the integral from the first knot on, a spline of higher degree.

        Args:
            nu: the order; a negative one means the derivative.
        """
        if nu < 0:
            return self.derivative(-nu)
        t, c = self._run(lambda made, nu: _arrays_of(made.antiderivative(nu)), self._antiderivative, nu)
        return self._like(t, c, self.k + nu, False if self.extrapolate == "periodic" else self.extrapolate)

    def _like(self, t: Array, c: Array, k: int, extrapolate: Extrapolate) -> BSpline:
        made = BSpline.__new__(BSpline)
        made._become(t, c, k, extrapolate, self.axis)
        return made

    def _derivative(self, t: Array, c: Array, nu: int) -> tuple[Any, Any]:
        def make(t: Any) -> Any:
            return scipy.interpolate.BSpline.construct_fast(t, np.zeros(c.shape), self.k).derivative(nu)

        by_example(make, t)  # raises SciPy's error for coincident knots
        c = _padded(t, c)
        for k in range(self.k, self.k - nu, -1):
            c = (c[1 : -1 - k] - c[: -2 - k]) * k / column(t[k + 1 : -1] - t[1 : -k - 1], c.ndim)
            c = np.concatenate([c, np.zeros_like(c, shape=(k, *c.shape[1:]))])
            t = t[1:-1]
        return t, c

    def _antiderivative(self, t: Array, c: Array, nu: int) -> tuple[Any, Any]:
        c = _padded(t, c)
        for k in range(self.k, self.k + nu):
            sums = np.cumsum(c[: -k - 1] * column(t[k + 1 :] - t[: -k - 1], c.ndim), axis=0) / (k + 1)
            c = np.concatenate([np.zeros_like(sums[:1]), sums, *[sums[-1:]] * (k + 2)])
            t = np.concatenate([t[:1], t, t[-1:]])
        return t, c

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate | None = None) -> Any:
        """Return the integral between two points.

        Args:
            a, b: numbers; traced ones are differentiated.
            extrapolate: as for the class, whose value is the default; if False, the spline is 0 beyond its knots.

        Returns:
            A number, or an array with the other axes of the coefficients.
        """
        return self._run(lambda made, *args: made.integrate(*args), self._integral, a, b, extrapolate)

    def _integral(self, t: Array, c: Array, a: Array, b: Array, extrapolate: Extrapolate | None) -> Any:
        extrapolate = choice(extrapolate, self.extrapolate)
        start, end = t[self.k], t[t.shape[0] - self.k - 1]
        a, b = real_points(a), real_points(b)
        if not extrapolate:
            a, b = np.clip(a, start, end), np.clip(b, start, end)
        raised_t, raised_c = self._antiderivative(t, c, 1)

        def antiderivative(point: Array) -> Any:
            return _sums(raised_t, raised_c, self.k + 1, point, 0, True)

        return integral(antiderivative, a, b, start, end, extrapolate)


def _arrays_of(made: Any) -> tuple[Any, Any]:
    """Return the knots and the coefficients of a SciPy spline."""
    return made.t, made.c


# Interpolation


def _knots(x: Array, k: int, augmented: bool) -> Array:
    """Return knots for points: all of them, or without those next to the ends for the not-a-knot condition."""
    ends = [np.broadcast_to(each, (k if augmented else k + 1,)) for each in (x[:1], x[-1:])]
    if augmented:
        inner = x
    elif k % 2:
        inner = x[(k + 1) // 2 : -((k + 1) // 2)]
    else:
        inner = ((x[1:] + x[:-1]) / 2)[k // 2 : -(k // 2)]
    return np.concatenate([ends[0], inner, ends[1]])


def _periodic_knots(x: Array, k: int) -> Array:
    """Return knots for points of a period: all of them, or midpoints, extended by `k` knots of the adjacent periods."""
    steps = x[1:] - x[:-1]
    inner = x if k % 2 else np.concatenate([x[:1], x[1:-1] - steps[:-1] / 2, x[-1:]])
    steps = inner[1:] - inner[:-1]
    count = steps.shape[0]
    before = inner[:1] - np.cumsum(getitem(steps, np.arange(count - 1, count - 1 - k, -1) % count))
    after = inner[-1:] + np.cumsum(getitem(steps, np.arange(k) % count))
    return np.concatenate([before[::-1], inner, after])


def _conditions(bc_type: Any, shape: tuple[int, ...]) -> list[list[tuple[int, Any]]]:
    """Return the orders and values of the derivatives at either end."""
    if bc_type is None or (isinstance(bc_type, str) and bc_type == "not-a-knot"):
        return [[], []]
    found = []
    for each in (bc_type, bc_type) if isinstance(bc_type, str) else bc_type:
        if isinstance(each, str):
            each = [({"clamped": 1, "natural": 2}[each], np.zeros(shape))]
        found.append([(int(order), as_array(value)) for order, value in ([] if each is None else each)])
    return found


def _coefficients(x: Array, y: Any, t: Array, k: int, conditions: Sequence[Sequence[tuple[int, Any]]]) -> Array:
    """Return the coefficients of the spline through points with derivatives at the ends, by banded equations."""
    count = t.shape[0] - k - 1
    rows, values, columns = [], [], []

    def add(points: Array, row: Array, nu: int) -> None:
        place, found = basis(t, k, points, nu)
        values.append(found)
        columns.append(place + np.arange(-k, 1)[:, None])
        rows.append(np.broadcast_to(row, (k + 1, len(row))))

    left, right = conditions
    for number, (nu, _) in enumerate(left):
        add(x[:1], np.array([number]), nu)
    add(x, len(left) + np.arange(x.shape[0]), 0)
    for number, (nu, _) in enumerate(right):
        add(x[-1:], np.array([count - len(right) + number]), nu)
    value, row, at = (np.concatenate(each, axis=1) for each in (values, rows, columns))
    bands = scatter_add(value, (k + row - at, at), (2 * k + 1, count))
    sides = [np.reshape(each, (1, *y.shape[1:])) for _, each in left]
    sides = [*sides, y, *(np.reshape(each, (1, *y.shape[1:])) for _, each in right)]
    flat = np.reshape(np.concatenate([astype(each, y.dtype) for each in sides]), (count, -1))
    return np.reshape(solve_banded((k, k), bands, flat, check_finite=False), (count, *y.shape[1:]))


def _periodic_coefficients(x: Array, y: Array, t: Array, k: int) -> Array:
    """Return the coefficients of a periodic spline, where the last `k` repeat the first ones.

    The equations are banded except for two corners. By the Woodbury formula the solution follows from the banded
    equations and a few others, whose right-hand sides are the columns of the corners.
    """
    count = x.shape[0] - 1
    place, value = basis(t, k, x[:-1])
    half = k // 2
    at = place + np.arange(-k, 1)[:, None] - half  # so that the middle of each row is on the diagonal
    rows = np.broadcast_to(np.arange(count), at.shape)
    flat = np.reshape(y[:-1], (count, -1))
    if count <= 2 * k:  # the corners would overlap the bands
        matrix = scatter_add(value, (rows, at % count), (count, count))
        found = np.linalg.solve(matrix, flat)
    else:
        inside = np.logical_and(at >= 0, at < count)
        in_bands = scatter_add(np.where(inside, value, 0), (half + 1 + rows - at, at % count), (2 * half + 3, count))
        # A B-spline beyond an end has its coefficient at the other end.
        wrapped = np.concatenate([np.arange(half + 1), np.arange(count - half - 1, count)])
        number = np.where(at < 0, at + wrapped.size, np.where(inside, 0, at - count))
        corner = scatter_add(np.where(inside, 0, value), (rows, number), (count, wrapped.size))
        both = solve_banded((half + 1, half + 1), in_bands, np.concatenate([flat, corner], axis=1), check_finite=False)
        plain, others = both[:, : flat.shape[1]], both[:, flat.shape[1] :]
        small = np.eye(wrapped.size) + others[wrapped]
        found = plain - others @ np.linalg.solve(small, plain[wrapped])
    around = (np.arange(count + k) - half) % count
    return np.reshape(getitem(found, around), (count + k, *y.shape[1:]))


def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: ArrayLike | None = None,
    bc_type: object = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """Return the interpolating spline of a degree, as `scipy.interpolate.make_interp_spline`.

    Args:
        x: the points, in increasing order; traced ones are differentiated.
        y: the values, along `axis`; traced ones are differentiated.
        k: the degree.
        t: the knots, by default derived from the points; traced ones are differentiated.
        bc_type: the boundary conditions: None or "not-a-knot", "clamped", "natural", "periodic", or a pair: for each
            end a list of pairs of an order and the derivative; traced derivatives are differentiated.
        axis: the axis of the points in `y`.
        check_finite: whether infinities and NaN are rejected.

    Returns:
        The spline.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> x = np.arange(6.0)
        >>> fg.grad(lambda y: make_interp_spline(x, y, k=5)(2.5))(x).round(3)
        Tensor([ 0.012, -0.098,  0.586,  0.586, -0.098,  0.012])
    """

    def by_scipy(x: Array, y: Array, t: Array | None, bc_type: Any) -> Any:
        return _arrays_of(scipy.interpolate.make_interp_spline(x, y, k, t, bc_type, axis, check_finite))

    def traced(x: Array, y: Array, t: Array | None, bc_type: object) -> Any:
        return _interpolating(x, y, k, t, bc_type, axis, check_finite)

    knots, c = run(by_scipy, traced, (x, y, t, bc_type), {})
    is_periodic = isinstance(bc_type, str) and bc_type == "periodic" and k > 1
    made = BSpline.__new__(BSpline)
    made._become(knots, c, int(k), "periodic" if is_periodic else True, axis % np.ndim(y))
    return made


def _interpolating(
    x: Array, y: Any, k: int, t: Array | None, bc_type: object, axis: int, check_finite: bool
) -> tuple[Any, Any]:
    x, y = as_array(x), as_array(y)
    given = [] if t is None else [as_array(t)]

    def make(x: Array, y: Array, *t: Array) -> Any:
        knots: Any = t[0] if t else None
        return scipy.interpolate.make_interp_spline(x, y, k, knots, plain(bc_type), 0, check_finite)

    is_periodic = isinstance(bc_type, str) and bc_type == "periodic"
    _check(make, x, np.moveaxis(y, axis, 0) if y.ndim else y, given, is_periodic)
    x, y = wide(x), np.moveaxis(wide(y), axis, 0)
    if k == 0:
        return np.concatenate([x, x[-1:]]), y
    if k == 1 and not given:
        return np.concatenate([x[:1], x, x[-1:]]), y
    if is_periodic:
        knots = _periodic_knots(x, k)
        return knots, _periodic_coefficients(x, y, knots, k)
    conditions = _conditions(bc_type, tuple(y.shape[1:]))
    knots = wide(given[0]) if given else _knots(x, k, augmented=any(conditions))
    if any(value.dtype.kind == "c" for side in conditions for _, value in side):
        y = astype(y, np.complex128)
    if not prod(y.shape):
        return knots, np.zeros((knots.shape[0] - k - 1, *y.shape[1:]))
    return knots, _coefficients(x, y, knots, k, conditions)


def _check(make: Callable[..., Any], x: Array, y: Array, given: Sequence[Any], is_periodic: bool) -> None:
    """Raise SciPy's error for invalid arguments.

    A single example shows errors in shapes, degree and conditions. Points that are not sorted, and
    curves that are not periodic, may be in any example.
    """
    # Absolute values of complex values, because for complex periodic curves SciPy warns that it keeps only the real
    # part.
    shown = np.abs(examples(y)[0]) if y.dtype.kind == "c" else examples(y)[0]
    make(examples(x)[0], shown, *(examples(each)[0] for each in given))
    ordered = np.all(np.diff(examples(x)) > 0) and all(np.all(np.diff(examples(each)) >= 0) for each in given)
    first, last = (np.moveaxis(examples(y), 0, -1)[place] for place in (0, -1)) if is_periodic else (0, 0)
    if not ordered or not np.allclose(first, last, atol=1e-15):
        by_example(make, x, y, *given)
