"""Interpolation of values on a grid of any number of dimensions: `RegularGridInterpolator` and `interpn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.interpolate

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import getitem
from fgrad.ops.tracing import raw_array, run
from fgrad.scipy.interpolate.bsplines import basis, make_interp_spline
from fgrad.scipy.interpolate.cubic import PchipInterpolator, hermite_value, monotone_slopes
from fgrad.scipy.interpolate.pieces import by_example, column, examples, interval
from fgrad.typing import Array, ArrayLike

_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
_METHODS = ("linear", "nearest", "pchip", *_DEGREES, *(f"{name}_legacy" for name in _DEGREES))


def _degree(method: str) -> int:
    """Return the degree of the splines of a method, and 0 for methods without splines."""
    return _DEGREES.get(method.removesuffix("_legacy"), 0)


class RegularGridInterpolator:
    """Interpolation of values on a grid, as `scipy.interpolate.RegularGridInterpolator`.

    On a grid line the cell on its right is used. Spline equations for traced values are solved exactly along one axis
    after the other; SciPy, which is used if nothing is traced, iterates to about six digits.

    Args:
        points: the coordinates along each axis, increasing or decreasing; traced ones are differentiated.
        values: on the grid, perhaps with further axes; traced ones are differentiated.
        method: "linear", "nearest", "slinear", "cubic", "quintic" or "pchip".
        bounds_error: whether a point beyond the grid is an error.
        fill_value: the value beyond the grid, or None to extrapolate the outermost cells.
        solver, solver_args: for SciPy's splines, if nothing is traced.

    Raises:
        ValueError: SciPy's; the arguments are incompatible.

    Attributes:
        grid: the coordinates, increasing.
        values: with the axes of decreasing coordinates reversed.
        method, bounds_error, fill_value: as given.

    Example:
        >>> import fgrad as fg
        >>> axes = np.array([0.0, 1.0]), np.array([0.0, 1.0])
        >>> fg.grad(lambda values: RegularGridInterpolator(axes, values)([0.25, 0.5])[0])(np.zeros((2, 2)))
        Tensor([[0.375, 0.375],
                [0.125, 0.125]])
    """

    grid: tuple[Any, ...]
    values: Any

    def __init__(
        self,
        points: Sequence[Any],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: ArrayLike | None = np.nan,
        *,
        solver: object = None,
        solver_args: object = None,
    ) -> None:
        def check(points: tuple[Any, ...], values: ArrayLike, fill_value: float | None) -> None:
            takes_options = method in _DEGREES or not (solver or solver_args)
            grid = [as_array(each) for each in points]
            _check(grid, as_array(values), method if takes_options else None, fill_value, self._made)

        points = tuple(points)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self._options: Any = {"solver": solver, "solver_args": solver_args}
        self._scipys = run(self._made, check, (points, values, fill_value), {})
        self.grid, self.values = run(_ascending, _ascending, (points, values), {})
        self._coefficients: dict[int, Any] = {}

    def _made(self, points: Any, values: Array, fill_value: Any) -> Any:
        """Return SciPy's interpolator of plain arrays."""
        method: Any = self.method
        return scipy.interpolate.RegularGridInterpolator(
            points, values, method, self.bounds_error, fill_value, **self._options
        )

    def __call__(self, xi: ArrayLike, method: str | None = None, *, nu: Any = None) -> Any:
        """Return values at points.

        Args:
            xi: the points, with their coordinates along the last axis; or a tuple of the arrays of each coordinate.
                Traced ones are differentiated.
            method: by default that of the class.
            nu: for splines, the order of the derivative along each axis.

        Returns:
            Values with the axes of the points, followed by the further axes of the values. NaN beyond the grid
            has the derivative 0.

        Raises:
            ValueError: SciPy's; a point is beyond the grid, or has another number of coordinates.
        """
        how = {"method": method, "nu": nu}
        return run(self._scipys_values, self._values, (self.grid, self.values, self.fill_value, xi), how)

    def _scipys_values(
        self,
        grid: object,
        values: Array,
        fill_value: float | None,
        xi: ArrayLike,
        method: object,
        nu: tuple[int, ...] | None,
    ) -> Any:
        made = self._made(grid, values, fill_value) if self._scipys is None else self._scipys
        return made(xi, method, nu=nu)

    def _values(
        self, grid: tuple[Any, ...], values: Array, fill_value: float | None, xi: Any, method: Any, nu: Any
    ) -> Array:
        method = self.method if method is None else method
        xi = _coordinates(xi, len(grid))
        if method not in _METHODS or xi.shape[-1] != len(grid) or (nu is not None and method not in _DEGREES):
            self._refuse(grid, values, xi, method, nu)
        _check_sizes(grid, values, method)
        flat = astype(np.reshape(xi, (-1, len(grid))), np.float64)
        points = [flat[:, axis] for axis in range(len(grid))]
        beyond: Any = np.zeros((), np.bool_)
        for each, place in zip(grid, points, strict=True):
            beyond = np.logical_or(beyond, np.logical_or(place < each[0], place > each[-1]))
        missing = np.any(np.isnan(flat), axis=-1)
        if self.bounds_error and np.any(raw_array(np.logical_or(beyond, missing))):
            self._refuse(grid, values, xi, "linear", None)
        found = self._inside(grid, values, points, method, nu)
        if not self.bounds_error and fill_value is not None:
            found = np.where(column(beyond, found.ndim), astype(as_array(fill_value), found.dtype), found)
        if np.any(raw_array(missing)):
            found = np.where(column(missing, found.ndim), np.nan, found)
        return np.reshape(found, (*xi.shape[:-1], *values.shape[len(grid) :]))

    def _inside(self, grid: tuple[Any, ...], values: Array, points: list[Any], method: str, nu: Any) -> Any:
        """Return values at points, one row each, extrapolated beyond the grid."""
        if method in ("linear", "nearest"):
            return _in_cells(grid, values, points, method == "nearest")
        if method == "pchip":
            return astype(_monotone(grid, values, points), values.dtype)
        degree = _degree(method)
        if degree not in self._coefficients:
            self._coefficients[degree] = _solved(grid, values, degree)
        knots, coefficients = self._coefficients[degree]
        found = _of_splines(knots, coefficients, degree, points, (0,) * len(grid) if nu is None else nu)
        return astype(found, values.dtype) if method.endswith("_legacy") else found

    def _refuse(self, grid: tuple[Any, ...], values: Array, xi: Array, method: Any, nu: tuple[int, ...] | None) -> None:
        """Raise SciPy's error for invalid points."""

        def make(xi: Array, *grid: Array) -> None:
            shown, bounds_error = np.zeros(values.shape), self.bounds_error
            scipy.interpolate.RegularGridInterpolator(grid, shown, bounds_error=bounds_error)(xi, method, nu=nu)

        by_example(make, xi, *grid)


def _check(points: Sequence[Any], values: Array, method: Any, fill_value: Any, make: Callable[..., Any]) -> None:
    """Raise SciPy's error for an invalid grid."""
    fits = method in _METHODS and 0 < len(points) <= values.ndim and all(each.ndim == 1 for each in points)
    fits = fits and tuple(each.shape[0] for each in points) == tuple(values.shape[: len(points)])
    fits = fits and not (method == "pchip" and values.dtype.kind == "c")
    for each in points if fits else []:
        steps = np.diff(examples(each))
        fits = fits and bool(np.all(np.all(steps > 0, axis=1) | np.all(steps < 0, axis=1)))
    if fits and fill_value is not None:
        fits = np.can_cast(as_array(fill_value).dtype, np.result_type(values.dtype, np.float16), "same_kind")
    if not fits or not _is_large_enough(points, method):
        by_example(lambda values, *points: make(points, values, raw_array(fill_value)), values, *points)


def _is_large_enough(points: Sequence[Any], method: str) -> bool:
    degree = 3 if method == "pchip" else _degree(method)
    return all(each.shape[0] > degree for each in points)


def _check_sizes(grid: Sequence[Any], values: Array, method: Any) -> None:
    """Raise SciPy's error for a method that needs more points."""
    if not _is_large_enough(grid, method):
        shown = tuple(np.arange(float(each.shape[0])) for each in grid)
        scipy.interpolate.RegularGridInterpolator(shown, np.zeros(values.shape), method)


def _ascending(points: tuple[Any, ...], values: Array) -> tuple[Any, Any]:
    """Return coordinates in increasing order, and values to match."""
    values = as_array(values)
    values = values if values.dtype.kind in "fc" else astype(values, np.float64)
    grid = []
    for axis, each in enumerate(points):
        each = astype(as_array(each), np.float64)
        if type(strip_ended(each)) is Tensor:  # the direction may differ between the examples of a batch
            order = np.argsort(each)
            each, values = getitem(each, order), getitem(values, (slice(None),) * axis + (order,))
        elif each.shape[0] > 1 and each[0] > each[-1]:
            each, values = each[::-1], np.flip(values, axis)
        grid.append(each)
    return tuple(grid), values


def _coordinates(xi: ArrayLike, ndim: int) -> Any:
    """Return points with their coordinates along the last axis."""
    if isinstance(xi, tuple):
        return np.stack(np.broadcast_arrays(*map(as_array, xi)), axis=-1)
    xi = as_array(xi)
    return np.reshape(xi, (-1, ndim)) if xi.ndim == 1 else xi


# Cells


def _corners(values: Array, places: Sequence[Any]) -> Any:
    """Return the values around points.

    Args:
        values: with one axis for each coordinate, possibly followed by others.
        places: for each coordinate the indices of the neighbours, of shape (neighbours, points).

    Returns:
        An array of shape (neighbours along each axis..., points, ...).
    """
    count = len(places)
    keys = [
        np.reshape(each, (*(1,) * axis, each.shape[0], *(1,) * (count - 1 - axis), each.shape[1]))
        for axis, each in enumerate(places)
    ]
    return getitem(values, tuple(keys))


def _contracted(corners: Array, weights: Sequence[Any]) -> Array:
    """Return the sums over neighbours, weighted along each axis by an array of shape (neighbours, points)."""
    for axis, each in enumerate(weights):
        left = len(weights) - 1 - axis  # remaining axes of neighbours
        factors = np.reshape(each, (each.shape[0], *(1,) * left, each.shape[1]))
        corners = np.sum(corners * column(factors, corners.ndim), axis=0)
    return corners


def _in_cells(grid: tuple[Any, ...], values: Array, points: Sequence[Any], nearest: bool) -> Any:
    """Return values at points that are linear along each axis within a cell, or those of the nearest corner."""
    places, weights = [], []
    for each, at in zip(grid, points, strict=True):
        last = each.shape[0] - 1
        place = interval(each, at, 0, max(last - 1, 0))
        after = np.minimum(place + 1, last)
        start = getitem(each, place)
        share = (at - start) / (getitem(each, after) - start) if last else np.zeros_like(at)
        places.append(np.where(share <= 0.5, place, after)[None] if nearest else np.stack([place, after]))
        weights.append(np.stack([1 - share, share]))
    if nearest:
        return np.reshape(_corners(values, places), (points[0].shape[0], *values.shape[len(grid) :]))
    return _contracted(_corners(values, places), weights)


# Splines


def _solved(grid: tuple[Any, ...], values: Array, degree: int) -> tuple[Any, Any]:
    """Return the knots along each axis, and the coefficients of the products of B-splines."""
    knots = []
    for axis, each in enumerate(grid):
        spline = make_interp_spline(each, values, degree, axis=axis)
        knots.append(spline.t)
        values = np.moveaxis(spline.c, 0, axis)
    return knots, values


def _of_splines(
    knots: Sequence[Any], coefficients: Array, degree: int, points: list[Any], orders: tuple[int, ...]
) -> Any:
    """Return derivatives of the spline of several variables."""
    places, weights = [], []
    for t, at, order in zip(knots, points, orders, strict=True):
        place, value = basis(t, degree, at, int(order))
        places.append(place + np.arange(-degree, 1)[:, None])
        weights.append(value)
    return _contracted(_corners(coefficients, places), weights)


def _monotone(grid: tuple[Any, ...], values: Array, points: list[Any]) -> Any:
    """Return values of monotone curves: along the last axis, then the one before it, ..."""
    count = len(grid)
    found = np.moveaxis(PchipInterpolator(grid[-1], values, count - 1)(points[-1]), count - 1, 0)
    for axis in range(count - 2, -1, -1):
        columns = np.moveaxis(found, axis + 1, 0)  # one for each point
        found = hermite_value(grid[axis], columns, monotone_slopes(grid[axis], columns), points[axis])
    return found


def interpn(
    points: Sequence[Any],
    values: ArrayLike,
    xi: ArrayLike,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """Return values at points from those on a grid, as `scipy.interpolate.interpn`.

    Args:
        points, values, method, bounds_error, fill_value: as for `RegularGridInterpolator`; and the method
            "splinef2d", for arrays that are not traced.
        xi: the points, with their coordinates along the last axis; traced ones are differentiated.

    Returns:
        Values with the axes of the points, followed by the further axes of the values.

    Raises:
        MissingRuleError: a TypeError; something is traced and the method is "splinef2d".
        ValueError: SciPy's; the arguments are incompatible.

    Example:
        >>> import fgrad as fg
        >>> axes = np.array([0.0, 1.0]), np.array([0.0, 1.0])
        >>> values = np.array([[0.0, 1.0], [2.0, 3.0]])
        >>> fg.grad(lambda xi: interpn(axes, values, xi)[0])(np.array([0.25, 0.5]))
        Tensor([2., 1.])
    """

    def by_scipy(points: tuple[Any, ...], values: Array, xi: Array, fill_value: Any) -> Any:
        wanted: Any = method
        return scipy.interpolate.interpn(points, values, xi, wanted, bounds_error, fill_value)

    def traced(points: tuple[Any, ...], values: Array, xi: Array, fill_value: float) -> Any:
        if method == "splinef2d":
            raise errors.MissingRuleError("scipy.interpolate.interpn with method='splinef2d'", errors.users_line())
        if method not in _METHODS:
            by_scipy((np.arange(2.0),), np.zeros(2), np.zeros(1), fill_value)  # raises SciPy's error
        return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)

    return run(by_scipy, traced, (tuple(points), values, xi, fill_value), {})
