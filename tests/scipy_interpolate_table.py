"""What fgrad does with the functions of `scipy.interpolate`: rows for the coverage page, and for the tests."""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse.linalg
from coverage_table import Row, complex_too, in_pieces, real, refused

from fgrad import errors
from fgrad.scipy import interpolate

_RNG = np.random.default_rng(11)


def _draw(*shape: int) -> Any:
    return _RNG.uniform(0.3, 1.5, shape) * _RNG.choice([-1, 1], shape)


X = np.array([-0.4, 0.3, 0.8, 1.7, 2.1, 2.9])
Y, SLOPES = _draw(6), _draw(6)
COLUMNS, ROWS_OF_IT = _draw(6, 2), _draw(2, 6)
RISING = np.cumsum(_RNG.uniform(0.2, 1.0, 6))
CLOSED = _draw(5)
INSIDE = np.array([0.11, 1.23, 2.74])
EVERYWHERE = np.array([-0.93, 0.11, 1.23, 2.74, 3.37])
LIMITS = np.array([0.17, 2.43])
DERIVATIVE = np.array([0.6, -0.8])
COEFFICIENTS = _draw(3, 5)
KNOTS = np.array([-1.2, -0.7, -0.4, 0.3, 0.8, 1.7, 2.1, 2.9, 3.3, 4.1])
WEIGHTS = _draw(6)
FILL = np.array([0.4, -1.2])

GRID, OTHER_GRID, THIRD_GRID = X, X[::-1] * 0.9, np.array([-0.3, 1.1, 2.0])
ON_LINE, ON_PLANE, IN_SPACE = Y, _draw(6, 6), _draw(6, 6, 3)
AT_PLANE = np.array([[0.11, 1.23], [2.74, 0.42], [1.52, -0.21]])
AT_SPACE = np.array([[0.11, 1.23, 0.5], [2.74, 0.42, 1.7]])
BEYOND_PLANE = np.array([[0.11, 1.23], [4.74, 0.42], [1.52, -2.21]])


def finite(values: Any) -> Any:
    """Return values with numbers in place of NaN, which no finite difference could be taken of."""
    return np.where(np.isnan(values), 0.25, values)


def at(make: Any, nu: int = 0, **options: Any) -> Any:
    return lambda x, y, points: make(x, y, **options)(points, nu)


def closed(nu: int = 0, make: Any = interpolate.CubicSpline, **options: Any) -> Any:
    def curve(x: Any, y: Any, points: Any) -> Any:
        return make(x, np.concatenate([y, y[:1]]), bc_type="periodic", **options)(points, nu)

    return curve


def _of_cubic_splines() -> list[Any]:
    spline = interpolate.CubicSpline
    conditions = ("not-a-knot", "natural", "clamped", ("natural", "not-a-knot"), ((1, 0.3), (2, -0.4)))
    sizes = [(at(spline, bc_type=bc), X[:n], Y[:n], INSIDE) for bc in conditions[:2] for n in (2, 3, 4)]

    def bound(x: Any, y: Any, ends: Any, points: Any) -> Any:
        return spline(x, y, bc_type=((1, ends[0]), (2, ends[1])))(points)

    def integral(x: Any, y: Any, limits: Any, **options: Any) -> Any:
        return spline(x, y, **options).integrate(limits[0], limits[1])

    return [
        *((at(spline, bc_type=bc), X, Y, EVERYWHERE) for bc in conditions),
        *sizes,
        *((closed(), X[:n], Y[: n - 1], EVERYWHERE) for n in (2, 3, 4, 6)),
        (closed(2), X, COLUMNS[:5], EVERYWHERE),
        *((at(spline, nu), X, Y, EVERYWHERE) for nu in (1, 2, 3, 4)),
        (at(spline), X, COLUMNS, INSIDE),
        (at(spline, axis=1), X, ROWS_OF_IT, INSIDE[:2].reshape(2, 1)),
        (at(spline, axis=-1), X, ROWS_OF_IT, INSIDE[1]),
        (bound, X, COLUMNS, _draw(2, 2), INSIDE),
        (lambda *args: finite(at(spline, extrapolate=False)(*args)), X, Y, EVERYWHERE),
        (at(spline, extrapolate="periodic"), X, Y, EVERYWHERE),
        *((lambda x, y, p, nu=nu: spline(x, y).derivative(nu)(p), X, Y, EVERYWHERE) for nu in (-1, 0, 1, 2, 3, 4)),
        *((lambda x, y, p, nu=nu: spline(x, y).antiderivative(nu)(p), X, Y, EVERYWHERE) for nu in (1, 2)),
        (integral, X, Y, LIMITS),
        (integral, X, Y, LIMITS[::-1] * 2),
        (partial(integral, axis=1), X, ROWS_OF_IT, LIMITS),
        (partial(integral, extrapolate="periodic"), X, Y, np.array([-5.1, 7.3])),
        (lambda x, y: spline(x, y).c, X, Y),
    ]


def _of_bsplines() -> list[Any]:
    def value(t: Any, c: Any, points: Any, k: int = 3, nu: int = 0, **options: Any) -> Any:
        return interpolate.BSpline(t, c, k, **options)(points, nu)

    def integral(t: Any, c: Any, limits: Any, k: int = 3, extrapolate: Any = True) -> Any:
        return interpolate.BSpline(t, c, k).integrate(limits[0], limits[1], extrapolate)

    points = np.array([0.11, 0.42, 1.23, 2.02])
    further = np.array([-1.4, 0.11, 1.23, 2.4, 4.6])
    return [
        *((partial(value, k=k), KNOTS, _draw(9 - k), points) for k in (0, 1, 2, 3, 4)),
        *((partial(value, nu=nu), KNOTS, WEIGHTS, points) for nu in (1, 2, 3, 4)),
        (value, KNOTS, WEIGHTS, further),
        (partial(value, extrapolate="periodic"), KNOTS, WEIGHTS, further),
        (lambda *args: finite(value(*args, extrapolate=False)), KNOTS, WEIGHTS, further),
        (value, KNOTS, COLUMNS, points.reshape(2, 2)),
        (partial(value, axis=1), KNOTS, ROWS_OF_IT, points[:1]),
        *((lambda t, c, p, n=n: interpolate.BSpline(t, c, 3).derivative(n)(p), KNOTS, WEIGHTS, points) for n in (1, 3)),
        (lambda t, c, p: interpolate.BSpline(t, c, 2).antiderivative(2)(p), KNOTS, _draw(7), points),
        (integral, KNOTS, WEIGHTS, LIMITS),
        (integral, KNOTS, COLUMNS, LIMITS[::-1]),
        (partial(integral, extrapolate=False), KNOTS, WEIGHTS, LIMITS * 3),
        (partial(integral, extrapolate="periodic"), KNOTS, WEIGHTS, LIMITS * 3),
    ]


def _of_interpolating_splines() -> list[Any]:
    make = interpolate.make_interp_spline

    def bound(x: Any, y: Any, ends: Any, points: Any) -> Any:
        return make(x, y, bc_type=([(1, ends[0])], [(2, ends[1])]))(points)

    def with_knots(x: Any, y: Any, t: Any, points: Any) -> Any:
        return make(x, y, 3, t)(points)

    return [
        *((at(make, k=k), X, Y, INSIDE) for k in (0, 1, 2, 3, 4, 5)),
        *((at(make, bc_type=bc), X, Y, INSIDE) for bc in ("natural", "clamped", ([(2, 0.3)], "clamped"))),
        (at(make, k=5, bc_type=([(1, 0.1), (2, 0.2)], [(1, 0.3), (3, -0.1)])), X, Y, INSIDE),
        *((closed(make=make, k=k), X, CLOSED, EVERYWHERE) for k in (2, 3, 4)),
        (closed(make=make), np.cumsum(_RNG.uniform(0.4, 0.9, 9)), _draw(8, 2), INSIDE),
        (at(make, axis=1), X, ROWS_OF_IT, INSIDE),
        (bound, X, COLUMNS, _draw(2, 2), INSIDE),
        (with_knots, X, Y, np.array([-1.2, -1.0, -0.7, -0.5, 0.9, 1.6, 3.0, 3.2, 3.3, 4.1]), INSIDE),
        (lambda x, y: make(x, y).c, X, Y),
    ]


def _of_lines(kind: Any) -> list[Any]:
    line = partial(interpolate.interp1d, kind=kind)
    order = np.array([3, 0, 5, 1, 4, 2])
    return [
        (lambda x, y, p: line(x, y)(p), X, Y, INSIDE),
        (lambda x, y, p: line(x, y)(p), X[order], Y[order], INSIDE),
        (lambda x, y, p: line(x, y)(p), X, ROWS_OF_IT, INSIDE.reshape(3, 1)),
        (lambda x, y, p: line(x, y, axis=0)(p), X, COLUMNS, INSIDE[1]),
        (lambda x, y, p: finite(line(x, y, bounds_error=False)(p)), X, Y, EVERYWHERE),
        (lambda x, y, p: finite(line(x, y, fill_value="extrapolate")(p)), X, Y, EVERYWHERE),
        (lambda x, y, p, f: line(x, y, bounds_error=False, fill_value=(f[0], f[1]))(p), X, Y, EVERYWHERE, FILL),
        (lambda x, y, p, f: line(x, y, bounds_error=False, fill_value=f)(p), X, ROWS_OF_IT, EVERYWHERE, FILL),
    ]


def on_grid(method: str, dimensions: int, **options: Any) -> Any:
    if method in ("slinear", "cubic", "quintic"):  # to rounding, not by iteration
        options["solver"] = scipy.sparse.linalg.spsolve

    def value(values: Any, points: Any, *grid: Any, **how: Any) -> Any:
        found = interpolate.RegularGridInterpolator(grid[:dimensions], values, method, **options)(points, **how)
        return finite(found)

    return value


def _of_grids(method: str) -> list[Any]:
    line, plane, outside = (
        on_grid(method, 1),
        on_grid(method, 2),
        partial(on_grid, method, 2, bounds_error=False),
    )
    calls = [
        (line, ON_LINE, INSIDE, GRID),
        (plane, ON_PLANE, AT_PLANE, GRID, OTHER_GRID),
        (plane, ON_PLANE, AT_PLANE[0], GRID, OTHER_GRID),
        (lambda v, x, y, *grid: plane(v, (x, y), *grid), ON_PLANE, AT_PLANE[:, 0], AT_PLANE[:, 1], GRID, OTHER_GRID),
        *((outside(fill_value=fill), ON_PLANE, BEYOND_PLANE, GRID, OTHER_GRID) for fill in (np.nan, 0.6, None)),
        (plane, IN_SPACE, AT_PLANE.reshape(3, 1, 2), GRID, OTHER_GRID),
    ]
    if method in ("linear", "nearest"):
        calls.append((on_grid(method, 3), IN_SPACE, AT_SPACE, GRID, OTHER_GRID, THIRD_GRID))
    if method in ("slinear", "cubic", "quintic"):
        calls.append((partial(plane, nu=(1, 0)), ON_PLANE, AT_PLANE, GRID, OTHER_GRID))
    return calls


def named(method: str) -> str:
    return f"fgrad.scipy.interpolate.RegularGridInterpolator with method={method!r}"


_AKIMA = interpolate.Akima1DInterpolator

ROWS: list[Row] = [
    complex_too(
        "fgrad.scipy.interpolate.PPoly",
        (lambda c: interpolate.PPoly(c, X)(EVERYWHERE), COEFFICIENTS),
        (lambda c: interpolate.PPoly(c, X).integrate(-0.2, 2.3), COEFFICIENTS),
        remark="points and breakpoints are real; without `roots` and `solve`",
    ),
    real(
        ("fgrad.scipy.interpolate.PPoly in points and breakpoints",),
        *((lambda c, x, p, nu=nu: interpolate.PPoly(c, x)(p, nu), COEFFICIENTS, X, EVERYWHERE) for nu in (0, 1, 2, 3)),
        (lambda c, x, p: interpolate.PPoly(c, x[::-1])(p), COEFFICIENTS, X, EVERYWHERE),
        (lambda c, x, p: interpolate.PPoly(c, x, axis=1)(p), _draw(2, 3, 5), X, INSIDE),
        (lambda c, x, p: interpolate.PPoly(c, x[::-1]).integrate(p[0], p[1]), COEFFICIENTS, X, LIMITS),
        (lambda c, x, p: interpolate.PPoly(c, x).integrate(p[0], p[1]), COEFFICIENTS[:1], X, LIMITS),
    ),
    refused(
        ("fgrad.scipy.interpolate.PPoly.solve", "fgrad.scipy.interpolate.PPoly.roots"),
        "of a polynomial that is traced",
        errors.MissingRuleError,
        "scipy.interpolate.CubicSpline.solve has no derivative rule",
        lambda y: interpolate.CubicSpline(X, y).roots(),
        at=Y,
    ),
    real(
        "fgrad.scipy.interpolate.CubicHermiteSpline",
        (lambda x, y, d, p: interpolate.CubicHermiteSpline(x, y, d)(p), X, Y, SLOPES, EVERYWHERE),
        (lambda x, y, d, p: interpolate.CubicHermiteSpline(x, y, d, 1)(p), X, ROWS_OF_IT, ROWS_OF_IT[::-1], INSIDE),
    ),
    real("fgrad.scipy.interpolate.CubicSpline", *_of_cubic_splines()),
    complex_too(
        ("fgrad.scipy.interpolate.CubicSpline of complex values",),
        (lambda y: interpolate.CubicSpline(X, y)(EVERYWHERE), Y),
        (lambda y, d: interpolate.CubicSpline(X, y, bc_type=((1, d[0]), (2, d[1])))(EVERYWHERE), Y, DERIVATIVE),
        (lambda d: interpolate.CubicSpline(X, Y, bc_type=((1, d[0]), "natural"))(EVERYWHERE), DERIVATIVE),
        (lambda y: closed()(X, y, EVERYWHERE), CLOSED),
    ),
    real(
        "fgrad.scipy.interpolate.PchipInterpolator",
        *((at(interpolate.PchipInterpolator), X[:n], y[:n], EVERYWHERE) for n in (2, 3, 6) for y in (Y, RISING)),
        (at(interpolate.PchipInterpolator, axis=1), X, ROWS_OF_IT, INSIDE),
    ),
    real(
        "fgrad.scipy.interpolate.pchip_interpolate",
        (interpolate.pchip_interpolate, X, Y, INSIDE),
        (partial(interpolate.pchip_interpolate, der=[0, 1]), X, RISING, INSIDE),
    ),
    real(
        "fgrad.scipy.interpolate.Akima1DInterpolator",
        *(
            (at(_AKIMA, method=method, extrapolate=True), X[:n], Y[:n], EVERYWHERE)
            for n in (2, 3, 4, 6)
            for method in ("akima", "makima")
        ),
        (lambda *args: finite(at(_AKIMA, axis=1)(*args)), X, ROWS_OF_IT, EVERYWHERE),
    ),
    real("fgrad.scipy.interpolate.BSpline", *_of_bsplines()),
    complex_too(
        ("fgrad.scipy.interpolate.BSpline of complex coefficients",),
        (lambda c: interpolate.BSpline(KNOTS, c, 3)(EVERYWHERE), WEIGHTS),
        (lambda c: interpolate.BSpline(KNOTS, c, 3).antiderivative()(EVERYWHERE), WEIGHTS),
    ),
    real("fgrad.scipy.interpolate.make_interp_spline", *_of_interpolating_splines()),
    complex_too(
        ("fgrad.scipy.interpolate.make_interp_spline of complex values",),
        (lambda y: interpolate.make_interp_spline(X, y, 5)(EVERYWHERE), Y),
        (lambda y: interpolate.make_interp_spline(X, y, bc_type="clamped")(EVERYWHERE), Y),
    ),
    real("fgrad.scipy.interpolate.interp1d", *_of_lines("linear")),
    *(
        real((f"fgrad.scipy.interpolate.interp1d with kind={kind!r}",), *_of_lines(kind))
        for kind in ("nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic", 5)
    ),
    in_pieces(
        ("fgrad.scipy.interpolate.interp1d with kind='nearest' in points",),
        *(
            (lambda p, kind=kind: interpolate.interp1d(X, Y, kind)(p), INSIDE)
            for kind in ("nearest", "nearest-up", "previous", "next", "zero")
        ),
    ),
    complex_too(
        ("fgrad.scipy.interpolate.interp1d of complex values",),
        (lambda y: interpolate.interp1d(X, y)(INSIDE), Y),
        (lambda y: interpolate.interp1d(X, y, "cubic")(INSIDE), Y),
    ),
    *(
        real((named(method),), *_of_grids(method))
        for method in ("linear", "nearest", "slinear", "cubic", "quintic", "pchip", "cubic_legacy")
    ),
    complex_too(
        (f"{named('linear')} of complex values",),
        (lambda v: on_grid("linear", 2)(v, AT_PLANE, GRID, OTHER_GRID), ON_PLANE),
        (lambda v: on_grid("cubic", 2)(v, AT_PLANE, GRID, OTHER_GRID), ON_PLANE),
    ),
    real(
        "fgrad.scipy.interpolate.interpn",
        *(
            (lambda g, h, v, p, m=m: interpolate.interpn((g, h), v, p, m), GRID, OTHER_GRID, ON_PLANE, AT_PLANE)
            for m in ("linear", "pchip")
        ),
        remark='not with `method="splinef2d"`',
    ),
    refused(
        ("fgrad.scipy.interpolate.interpn with method='splinef2d'",),
        "no rule for this method",
        errors.MissingRuleError,
        "scipy.interpolate.interpn with method='splinef2d' has no derivative rule",
        lambda v: interpolate.interpn((GRID, GRID), v, AT_PLANE, "splinef2d"),
        at=ON_PLANE,
    ),
]
