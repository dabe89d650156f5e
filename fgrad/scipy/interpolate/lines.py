"""One-dimensional interpolation: `interp1d`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.interpolate

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import getitem
from fgrad.ops.tracing import raw_array, run
from fgrad.scipy._reals import real_array
from fgrad.scipy.interpolate.bsplines import make_interp_spline
from fgrad.scipy.interpolate.pieces import at_axis, by_example, column, examples, interval, plain
from fgrad.typing import Array, ArrayLike

_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}


class interp1d:  # noqa: N801  # SciPy's name
    """Interpolation of values along one axis, as `scipy.interpolate.interp1d`.

    At a data point the piece on its right is used, and at the last one the piece on its left.

    Args:
        x: the points; traced ones are differentiated.
        y: the values, along `axis`; traced ones are differentiated.
        kind: "linear", "nearest", "nearest-up", "previous", "next", or for splines "zero", "slinear", "quadratic",
            "cubic" or a degree. For piecewise constant kinds the derivative with respect to the points is 0.
        axis: the axis of the points in `y`.
        copy: ignored if something is traced.
        bounds_error: whether a point beyond the data is an error; by default True, unless values are extrapolated.
        fill_value: the value beyond the data: a number, or a pair for both ends, or "extrapolate"; traced numbers
            are differentiated.
        assume_sorted: whether the points are in order.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.
        NotImplementedError: SciPy's; the kind is unknown.

    Attributes:
        x, y: points and values, in order.
        axis, bounds_error, fill_value: as given, with their defaults.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda y: interp1d([0.0, 1.0, 2.0], y)(1.25))(np.zeros(3))
        Tensor([0.  , 0.75, 0.25])
    """

    x: Any
    y: Any

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: object = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        def check(x: ArrayLike, y: Array, fill_value: object) -> None:
            x, y = as_array(x), as_array(y)
            self._made(examples(x)[0], examples(y)[0], plain(fill_value))  # raises SciPy's errors

        self._kind, self._options, self.fill_value = kind, (copy, bounds_error, assume_sorted), fill_value
        self.axis = axis
        self._scipys = run(self._made, check, (x, y, fill_value), {})
        self.bounds_error = not _is_extrapolate(fill_value) if bounds_error is None else bounds_error
        self.x, self.y = run(_sorted, _sorted, (x, y, axis, assume_sorted), {})
        self.axis = axis % self.y.ndim
        degree = kind if isinstance(kind, int) else _DEGREES.get(kind)
        self._spline, self._is_missing = None, None
        if degree is not None:
            self._spline, self._is_missing = _spline(self.x, np.moveaxis(self.y, self.axis, 0), degree)

    def _made(self, x: Array, y: Array, fill_value: Any) -> Any:
        """Return SciPy's interpolator of plain arrays."""
        copy, bounds_error, assume_sorted = self._options
        return scipy.interpolate.interp1d(x, y, self._kind, self.axis, copy, bounds_error, fill_value, assume_sorted)

    def __call__(self, x: ArrayLike) -> Any:
        """Return values at points.

        Args:
            x: the points; traced ones are differentiated.

        Returns:
            Values with the axes of `y`, and those of the points in place of `axis`. Fill values
            beyond the data have derivatives only with respect to themselves.

        Raises:
            ValueError: SciPy's; a point is beyond the data, and `bounds_error` is set.
        """
        return run(self._scipys_values, self._values, (self.x, self.y, self.fill_value, x), {})

    def _scipys_values(self, x: Array, y: Array, fill_value: object, points: Array) -> Any:
        made = self._made(x, y, fill_value) if self._scipys is None else self._scipys
        return made(points)

    def _values(self, x: Array, y: Any, fill_value: object, points: Any) -> Any:
        points, y = real_array(points, "scipy.interpolate.interp1d"), np.moveaxis(y, self.axis, 0)
        points = points if points.dtype.kind == "f" else astype(points, np.float64)
        if self._spline is None:
            found = _along_first(x, y, points, self._kind)
        else:
            found = self._spline(points)
            if self._is_missing is not None:
                found = np.where(self._is_missing, np.nan, found)
        extra = y.shape[1:]
        below, above = points < x[0], points > x[-1]
        fills = self._fills(y, fill_value)
        if fills is not None:
            self._check_bounds(x, points, below, above)
            for beyond, fill in zip((below, above), fills, strict=True):
                wanted = astype(np.reshape(fill, ()) if not extra and fill.ndim else fill, found.dtype)
                found = np.where(column(beyond, points.ndim + len(extra)), wanted, found)
        return at_axis(found, points.ndim, self.axis)

    def _fills(self, y: Array, fill_value: Any) -> Any:
        """Return the fill values below and above the data, or None for extrapolation."""
        if _is_extrapolate(fill_value):
            missing = np.asarray(np.nan)
            return {"previous": (missing, y[-1]), "next": (y[0], missing)}.get(self._kind)
        pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else (fill_value, fill_value)
        return tuple(map(as_array, pair))

    def _check_bounds(self, x: Array, points: Array, below: Array, above: Array) -> None:
        """Raise SciPy's error for points beyond the data."""
        if self.bounds_error and np.any(raw_array(np.logical_or(below, above))):

            def make(points: Array, below: Array, above: Array, first: Any, last: Any) -> None:
                wrong = points[np.logical_or(below, above)]
                scipy.interpolate.interp1d([first, last], [0.0, 0.0], bounds_error=True)(wrong)

            by_example(make, points, below, above, x[0], x[-1])


def _is_extrapolate(fill_value: object) -> bool:
    return isinstance(fill_value, str) and fill_value == "extrapolate"


def _sorted(x: ArrayLike, y: ArrayLike, axis: int, assume_sorted: bool) -> tuple[Any, Any]:
    """Return sorted points, with their values in floating point."""
    x, y = as_array(x), as_array(y)
    y = y if y.dtype.kind in "fc" else astype(y, np.float64)
    if assume_sorted:
        return x, y
    order = np.argsort(x, kind="stable")
    return getitem(x, order), getitem(y, (slice(None),) * (axis % y.ndim) + (order,))


def _spline(x: Array, y: Array, degree: int) -> tuple[Any, Any]:
    """Return the spline through points, and which data make all values NaN, or None if none do."""
    if degree < 2 or not (np.isnan(raw_array(x)).any() or np.isnan(raw_array(y)).any()):
        return make_interp_spline(x, y, degree, check_finite=False), None
    is_missing = np.logical_or(np.any(np.isnan(x)), np.any(np.isnan(y)))
    x = np.where(is_missing, np.arange(x.shape[0]), x)
    y = np.where(is_missing, np.ones((), y.dtype), y)
    return make_interp_spline(x, y, degree), is_missing


def _along_first(x: Array, y: Array, points: Array, kind: str) -> Any:
    """Return the values at points along the first axis, which is replaced by the axes of the points."""
    last = x.shape[0] - 1
    if kind in ("nearest", "nearest-up"):
        middles = x[1:] / 2.0 + x[:-1] / 2.0
        side: Any = "left" if kind == "nearest" else "right"
        return getitem(y, np.clip(np.searchsorted(middles, points, side), 0, last))
    if kind == "previous":
        return getitem(y, interval(x, points, 0, last))
    if kind == "next":
        return getitem(y, np.clip(np.searchsorted(x, points, "left"), 0, last))
    place = interval(x, points, 0, max(last - 1, 0))
    ndim = points.ndim + y.ndim - 1
    start, value = getitem(x, place), getitem(y, place)
    if not last:
        return value + column(np.where(np.isnan(points), points, np.zeros_like(points)), ndim)
    after = place + 1
    slope = (getitem(y, after) - value) / column(getitem(x, after) - start, ndim)
    return slope * column(points - start, ndim) + value
