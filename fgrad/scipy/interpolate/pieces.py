"""Piecewise polynomials: values, derivatives and integrals, and common code of interpolation.

    PPoly(c, x)                     polynomials between breakpoints, as in SciPy
    interval(x, points)             the piece that contains a point: at a breakpoint the one on its right
    points_fit, by_example          whether arguments are valid; and SciPy's error if not

The value at a point is that of the polynomial of its piece, so the derivatives are those of
the polynomial: with respect to the point, the coefficients, and the breakpoints, since polynomials are local.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import scipy.interpolate

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import getitem
from fgrad.ops.tracing import raw_array, run
from fgrad.typing import Array, ArrayLike, Operand

D = TypeVar("D")

Extrapolate: TypeAlias = Literal["periodic"] | bool


def interval(x: ArrayLike, points: ArrayLike, first: int, last: int) -> Any:
    """Return the index of the piece that contains each point: `x[i] <= point < x[i + 1]`.

    Points beyond the ends belong to the outermost pieces.

    Args:
        x: the breakpoints, in increasing order.
        points: an array of any shape.
        first, last: the indices of the outermost pieces.
    """
    return np.clip(np.searchsorted(x, points, "right") - 1, first, last)


def wide(x: Any) -> Any:
    """Return numbers in double precision, as SciPy computes with polynomials."""
    return astype(x, np.complex128 if x.dtype.kind == "c" else np.float64)


def real_points(x: ArrayLike) -> Any:
    """Return points in double precision; they are real."""
    return astype(as_array(x), np.float64)


def column(x: Any, ndim: int) -> Any:
    """Return an array with trailing axes of size 1, to be broadcast with one of `ndim` axes."""
    return x if x.ndim >= ndim else np.reshape(x, (*x.shape, *(1,) * (ndim - x.ndim)))


def at_axis(found: Any, ndim: int, axis: int) -> Any:
    """Return values with the axes of the points moved from the front to `axis`."""
    if axis == 0:
        return found
    order = list(range(found.ndim))
    return np.transpose(found, [*order[ndim : ndim + axis], *order[:ndim], *order[ndim + axis :]])


def examples(x: Any) -> Any:
    """Return the plain arrays of all examples, stacked."""
    shown = np.asarray(raw_array(x))
    return np.reshape(shown, (prod(shown.shape[: shown.ndim - x.ndim]), *x.shape))


def plain(option: Any) -> Any:
    """Return an option with plain arrays in it, those of one example."""
    if isinstance(option, (tuple, list)):
        parts = list(map(plain, option))
        return parts if isinstance(option, list) else tuple(parts)
    return option if option is None or isinstance(option, (str, int)) else examples(as_array(option))[0]


def by_example(make: Callable[..., Any], *arrays: ArrayLike) -> None:
    """Call a SciPy function with plain arrays, to raise its error for invalid ones."""
    shown = [examples(x) for x in arrays]
    for number in range(max(map(len, shown))):
        make(*(each[number % len(each)] for each in shown))


def points_fit(x: Any, y: Any, axis: int) -> bool:
    """Return whether there are at least two finite points, in increasing order, and a value for each."""
    if x.ndim != 1 or x.dtype.kind == "c" or y.ndim == 0 or x.shape[0] < 2 or x.shape[0] != y.shape[axis % y.ndim]:
        return False
    places, values = examples(x), raw_array(y)
    return bool(np.all(places[:, 1:] > places[:, :-1]) and np.isfinite(places).all() and np.isfinite(values).all())


def periodic(points: ArrayLike, start: Any, end: Any) -> Any:
    """Return points shifted by whole periods into the first one."""
    return start + np.remainder(points - start, end - start)


def rising(power: int, nu: int) -> float:
    """Return the factor of a power after `nu` derivatives."""
    return float(prod(range(power - nu + 1, power + 1)))


def _value(coefficients: Array, step: Array, nu: int = 0) -> Any:
    """Return the derivative of polynomials with coefficients along the first axis (Horner)."""
    degree = coefficients.shape[0] - 1
    total = coefficients[0] * rising(degree, nu)
    if nu >= degree:  # a constant, except for NaN, which is in no piece
        return total + np.where(np.isnan(step), step, 0.0)
    for place in range(1, degree - nu + 1):
        total = total * step + coefficients[place] * rising(degree - place, nu)
    return total


def _pieces_at(c: Array, x: Array, points: Array, nu: int, extrapolate: Extrapolate | None, increasing: bool) -> Any:
    """Return derivatives of a piecewise polynomial, with the axes of the points first.

    Args:
        c, x: the coefficients and the breakpoints.
        points: an array of any shape.
        nu: the order of the derivative.
        extrapolate: as for the class, but not None.
        increasing: whether the breakpoints are known to increase; otherwise they may decrease.
    """
    if extrapolate == "periodic":
        points, extrapolate = periodic(points, x[0], x[-1]), False
    sign = 1.0 if increasing else np.where(x[-1] < x[0], -1.0, 1.0)
    ordered, searched = (x, points) if increasing else (sign * x, sign * points)
    place = interval(ordered, searched, 0, c.shape[1] - 1)
    ndim = points.ndim + c.ndim - 2
    found = _value(getitem(c, (slice(None), place)), column(points - getitem(x, place), ndim), nu)
    if extrapolate:
        return found
    inside = np.logical_and(searched >= ordered[0], searched <= ordered[-1])
    return np.where(column(inside, ndim), found, np.nan)


def _antiderivative_of(c: Array, x: Array) -> Array:
    """Return the coefficients of the integral from the first breakpoint on."""
    raised = c / column(np.arange(c.shape[0], 0.0, -1), c.ndim)
    nothing = np.zeros_like(raised[:1])
    steps = column(x[1:] - x[:-1], c.ndim - 1)
    gains = _value(np.concatenate([raised, nothing]), steps)
    start = np.concatenate([nothing[0, :1], np.cumsum(gains[:-1], axis=0)])
    return np.concatenate([raised, start[None]])


def integral(antiderivative: Callable[[Any], Any], a: Any, b: Any, start: Any, end: Any, extrapolate: object) -> Any:
    """Return the difference of an antiderivative, optionally continued periodically."""
    if extrapolate != "periodic":
        return antiderivative(b) - antiderivative(a)
    whole = antiderivative(end) - antiderivative(start)

    def continued(point: Array) -> Any:
        return np.floor_divide(point - start, end - start) * whole + antiderivative(periodic(point, start, end))

    return continued(b) - continued(a)


class PPoly:
    """Polynomials between breakpoints, as `scipy.interpolate.PPoly`.

    Args:
        c: the coefficients, of shape (degree + 1, pieces, ...), in order of decreasing powers of the
            distance from the start of a piece. Traced ones are differentiated.
        x: the breakpoints, in order; traced ones are differentiated.
        extrapolate: beyond the breakpoints: True for the outermost polynomials, False for NaN, "periodic".
        axis: the interpolated axis of the values.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Attributes:
        c: the coefficients, with the axis of the pieces second.
        x: the breakpoints.
        axis, extrapolate: as given.

    Example:
        >>> import fgrad as fg
        >>> def at_one(c):
        ...     return PPoly(c, np.array([0.0, 2.0]))(1.0)
        >>> fg.grad(at_one)(np.array([[3.0], [1.0]]))
        Tensor([[1.],
                [1.]])
    """

    c: Any
    x: Any
    axis: int
    extrapolate: Extrapolate | None

    def __init__(self, c: Any, x: Any, extrapolate: Extrapolate | None = None, axis: int = 0) -> None:
        c, x = run(_scipys_pieces, _traced_pieces, (c, x, axis), {})
        self._become(c, x, extrapolate, axis, isinstance(x, np.ndarray) and bool(x[-1] >= x[0]))

    def _become(self, c: Array, x: Array, extrapolate: Extrapolate | None, axis: int, increasing: bool) -> None:
        self.c, self.x, self.axis, self._increasing = c, x, axis, increasing
        self.extrapolate = choice(extrapolate, True)

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate | None = None) -> Any:
        """Return values or derivatives.

        Args:
            x: the points; traced ones are differentiated.
            nu: the order of the derivative.
            extrapolate: as for the class, whose value is the default.

        Returns:
            Values with the axes of the coefficients, and those of the points in place of `axis`. At
            a breakpoint the piece on its right is used; NaN beyond the ends has the derivative 0.
        """
        return self._run(operator.call, self._values, x, nu, extrapolate)

    def _scipys(self, c: Array, x: Array) -> Any:
        return scipy.interpolate.PPoly.construct_fast(np.asarray(c), np.asarray(x), self.extrapolate, self.axis)

    def _run(self, scipys: Callable[..., Any], traced: Callable[..., Any], *args: object) -> Any:
        """Call a function of SciPy's object if nothing is traced, and otherwise one of the arrays."""

        def by_scipy(c: Array, x: Array, *args: object) -> Any:
            return scipys(self._scipys(c, x), *args)

        return run(by_scipy, traced, (self.c, self.x, *args), {})

    def _values(self, c: Array, x: Array, points: Any, nu: int, extrapolate: Extrapolate | None) -> Any:
        if nu < 0:
            self._scipys(np.zeros((1, 1)), np.arange(2.0))(0.0, nu)  # raises SciPy's error
        points = real_points(points)
        found = _pieces_at(c, x, points, nu, choice(extrapolate, self.extrapolate), self._increasing)
        return at_axis(found, points.ndim, self.axis)

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the derivative, a polynomial of lower degree.

        Args:
            nu: the order; a negative one means the antiderivative.
        """
        if nu < 0:
            return self.antiderivative(-nu)
        count = self.c.shape[0] - nu
        if count <= 0:
            return self._like(np.zeros_like(self.c[:1]), self.extrapolate)
        factors = np.array([rising(nu + power, nu) for power in range(count - 1, -1, -1)])
        return self._like(self.c[:count] * column(factors, self.c.ndim), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the integral from the first breakpoint on, a polynomial of higher degree.

        Args:
            nu: the order; a negative one means the derivative.
        """
        if nu <= 0:
            return self.derivative(-nu)
        c = self._run(lambda made, nu: made.antiderivative(nu).c, self._antiderivative, nu)
        return self._like(c, False if self.extrapolate == "periodic" else self.extrapolate)

    def _like(self, c: Array, extrapolate: Extrapolate | None) -> PPoly:
        made = PPoly.__new__(PPoly)
        made._become(c, self.x, extrapolate, self.axis, self._increasing)
        return made

    def _antiderivative(self, c: Array, x: Array, nu: int) -> Array:
        for _ in range(nu):
            c = _antiderivative_of(c, x)
        return c

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate | None = None) -> Any:
        """Return the integral between two points.

        Args:
            a, b: numbers; traced ones are differentiated.
            extrapolate: as for the class, whose value is the default.

        Returns:
            A number, or an array with the other axes of the coefficients.
        """
        return self._run(lambda made, *args: made.integrate(*args), self._integral, a, b, extrapolate)

    def _integral(self, c: Array, x: Array, a: Operand, b: Operand, extrapolate: Extrapolate | None) -> Any:
        extrapolate = choice(extrapolate, self.extrapolate)
        raised = _antiderivative_of(c, x)
        a, b = real_points(a), real_points(b)

        def antiderivative(point: Array) -> Any:
            return _pieces_at(raised, x, point, 0, bool(extrapolate), self._increasing)

        return integral(antiderivative, a, b, x[0], x[-1], extrapolate)

    def solve(self, y: ArrayLike = 0.0, discontinuity: bool = True, extrapolate: Extrapolate | None = None) -> Any:
        """Return the points at which the value equals `y`, for arrays that are not traced.

        Args:
            y: a number.
            discontinuity: whether a jump across `y` counts.
            extrapolate: as for the class, whose value is the default.

        Raises:
            MissingRuleError: a TypeError; something is traced.
        """

        def refuse(*arguments: Operand) -> Any:
            raise errors.MissingRuleError(f"scipy.interpolate.{type(self).__name__}.solve", errors.users_line())

        return self._run(lambda made, y: made.solve(y, discontinuity, extrapolate), refuse, y)

    def roots(self, discontinuity: bool = True, extrapolate: Extrapolate | None = None) -> Any:
        """Return the points at which the value is 0, for arrays that are not traced.

        Raises:
            MissingRuleError: a TypeError; something is traced.
        """
        return self.solve(0.0, discontinuity, extrapolate)


def choice(extrapolate: Extrapolate | None, default: D) -> Extrapolate | D:
    """Return the requested or default mode of extrapolation."""
    if extrapolate is None:
        return default
    return extrapolate if isinstance(extrapolate, str) and extrapolate == "periodic" else bool(extrapolate)


def _scipys_pieces(c: Array, x: Array, axis: int) -> tuple[Any, Any]:
    made = scipy.interpolate.PPoly(c, x, axis=axis)
    return made.c, made.x


def _traced_pieces(c: Any, x: Array, axis: int) -> tuple[Any, Any]:
    c, x = as_array(c), as_array(x)
    if not _coefficients_fit(c, x, axis):
        by_example(lambda x: scipy.interpolate.PPoly(np.zeros(c.shape), x, axis=axis), x)
    if axis:
        c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0)
    return wide(c), wide(x)


def _coefficients_fit(c: Array, x: Array, axis: int) -> bool:
    if c.ndim < 2 or not 0 <= axis < c.ndim - 1 or x.ndim != 1 or x.shape[0] < 2:
        return False
    if not c.shape[axis] or c.shape[axis + 1] != x.shape[0] - 1:
        return False
    steps = np.diff(examples(x))
    return bool(np.all(np.all(steps >= 0, axis=1) | np.all(steps <= 0, axis=1)))
