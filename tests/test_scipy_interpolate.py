"""`fgrad.scipy.interpolate`: curves and grids through traced values, at traced points, between traced knots."""

import collections
import copy
import pickle
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
from rows import check_calls, with_calls
from scipy_interpolate_table import GRID, INSIDE, KNOTS, ON_PLANE, ROWS, WEIGHTS, X, Y

import fgrad as fg
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.scipy import interpolate

DIFFERENTIABLE = [row for row in ROWS if row.error is None]
REFUSED = [row for row in ROWS if row.error is not None]


@pytest.mark.parametrize("row", with_calls(DIFFERENTIABLE))
def test_functions_are_differentiated(row):
    check_calls(row)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.names[0])
def test_what_is_not_supported_says_so(row):
    for call in row.calls:
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)


def curves(extrapolate: Any = True) -> list[Any]:
    """Return every way of drawing a curve through values, as a function of points and values."""
    made = {
        "spline": lambda x, y: interpolate.CubicSpline(x, y, extrapolate=extrapolate),
        "natural spline": lambda x, y: interpolate.CubicSpline(x, y, bc_type="natural", extrapolate=extrapolate),
        "pchip": lambda x, y: interpolate.PchipInterpolator(x, y, extrapolate=extrapolate),
        "akima": lambda x, y: interpolate.Akima1DInterpolator(x, y, extrapolate=extrapolate),
        "bspline": lambda x, y: _with_extrapolation(
            interpolate.make_interp_spline(x, y, bc_type="natural"), extrapolate
        ),
        "line": lambda x, y: interpolate.interp1d(
            x, y, bounds_error=False, fill_value="extrapolate" if extrapolate else np.nan
        ),
        "grid": lambda x, y: interpolate.RegularGridInterpolator(
            (x,), y, bounds_error=False, fill_value=None if extrapolate else np.nan
        ),
    }
    return [pytest.param(make, id=name) for name, make in made.items()]


def _with_extrapolation(spline: Any, extrapolate: Any) -> Any:
    spline.extrapolate = extrapolate
    return spline


# Closed forms


@pytest.mark.parametrize("make", curves())
def test_weights_of_the_values_sum_to_one(make):
    """A constant is reproduced (partition of unity); at a knot the value there has all the weight."""
    points = np.concatenate([INSIDE, X])
    weights = fg.jacobian(lambda y: make(X, y)(points))(Y)
    np.testing.assert_allclose(weights.sum(axis=1), np.ones(len(points)), rtol=1e-12)
    np.testing.assert_allclose(weights[len(INSIDE) :], np.eye(len(X)), atol=1e-12)


@pytest.mark.parametrize("make", curves())
def test_moving_everything_along_changes_nothing(make):
    """The derivatives in the points and in all knots together cancel."""
    found = fg.grad(lambda shift: np.sum(make(X + shift, Y)(INSIDE + shift)))(0.0)
    assert float(found) == pytest.approx(0, abs=1e-12)


CUBIC = np.array([0.3, -1.1, 0.7, 0.2])


@pytest.mark.parametrize(
    "make",
    [
        interpolate.CubicSpline,
        interpolate.make_interp_spline,
        lambda x, y: interpolate.CubicHermiteSpline(x, y, np.polyval(np.polyder(CUBIC), x)),
        lambda x, y: interpolate.CubicSpline(x, y, bc_type=((1, slope(x[0])), (2, bend(x[-1])))),
    ],
)
def test_a_cubic_polynomial_is_reproduced(make):
    """Also beyond the ends; wherever the knots are; and its derivatives to the second are those in the points."""
    points = np.array([-0.9, 0.11, 1.23, 2.74, 3.4])

    def value(x: Any, points: Any) -> Any:
        return make(x, np.polyval(CUBIC, x))(points)

    first, second = slope(points), bend(points)
    np.testing.assert_allclose(value(X, points), np.polyval(CUBIC, points), rtol=1e-12)
    by_knots, by_points = fg.jacobian(value, argnums=(0, 1))(X, points)
    np.testing.assert_allclose(by_knots, np.zeros((5, 6)), atol=1e-11)
    np.testing.assert_allclose(by_points, np.diag(first), atol=1e-11)
    np.testing.assert_allclose(fg.grad(lambda p: np.sum(value(X, p)))(points), first, rtol=1e-11)
    hessian = fg.hessian(lambda p: np.sum(value(X, p)))(points)
    np.testing.assert_allclose(hessian, np.diag(second), atol=1e-10)


def slope(x: Any) -> Any:
    return np.polyval(np.polyder(CUBIC), x)


def bend(x: Any) -> Any:
    return np.polyval(np.polyder(CUBIC, 2), x)


def test_derivatives_in_points_are_the_curves_own():
    spline = interpolate.CubicSpline(X, Y)
    value = lambda p: np.sum(spline(p))  # noqa: E731
    np.testing.assert_allclose(fg.grad(value)(INSIDE), spline(INSIDE, 1), rtol=1e-12)
    np.testing.assert_allclose(fg.hessian(value)(INSIDE), np.diag(spline(INSIDE, 2)), atol=1e-12)
    third = fg.grad(lambda p: np.sum(fg.grad(lambda p: np.sum(fg.grad(value)(p)))(p)))(INSIDE)
    np.testing.assert_allclose(third, spline(INSIDE, 3), rtol=1e-11)


def test_derivatives_of_integrals():
    """By the limits: the values there. By the values: the integrals of the weights, as quadrature has them."""
    spline = interpolate.CubicSpline(X, Y)
    by_start, by_end = fg.grad(spline.integrate, argnums=(0, 1))(0.2, 2.4)
    assert float(by_start) == pytest.approx(-float(spline(0.2)), rel=1e-12)
    assert float(by_end) == pytest.approx(float(spline(2.4)), rel=1e-12)
    weights = fg.grad(lambda y: interpolate.CubicSpline(X, y).integrate(0.2, 2.4))(Y)
    np.testing.assert_allclose(weights.sum(), 2.2, rtol=1e-12)
    np.testing.assert_allclose(weights @ X**3, (2.4**4 - 0.2**4) / 4, rtol=1e-12)


def test_derivatives_of_a_line():
    """Between (0, u) and (h, v) the value at p is u + (v - u) p / h."""

    def value(h: Any, u: Any, v: Any, p: Any) -> Any:
        return interpolate.interp1d(np.stack([0.0, h, 9.0]), np.stack([u, v, 0.0]))(p)

    found = fg.grad(value, argnums=(0, 1, 2, 3))(2.0, 3.0, 7.0, 0.5)
    np.testing.assert_allclose(np.stack(found), [-4 * 0.5 / 4, 0.75, 0.25, 2.0], rtol=1e-14)
    hessian = fg.hessian(lambda h, p: value(h, 3.0, 7.0, p), argnums=(0, 1))(2.0, 0.5)
    np.testing.assert_allclose(np.stack([np.stack(row) for row in hessian]), [[0.5, -1.0], [-1.0, 0.0]], rtol=1e-14)


def test_a_bilinear_function_is_reproduced():
    def value(xi: Any) -> Any:
        values = 1 + 2 * GRID[:, None] - GRID + 0.5 * GRID[:, None] * GRID
        return interpolate.RegularGridInterpolator((GRID, GRID), values)(xi)[0]

    point = np.array([0.37, 1.9])
    np.testing.assert_allclose(fg.grad(value)(point), [2 + 0.5 * 1.9, -1 + 0.5 * 0.37], rtol=1e-12)
    np.testing.assert_allclose(fg.hessian(value)(point), [[0, 0.5], [0.5, 0]], atol=1e-12)


def test_b_splines_of_equal_knots_have_their_known_values():
    """At the middle of five knots 1 / 6, 4 / 6 and 1 / 6; their slopes there are -1 / 2, 0 and 1 / 2."""
    knots = np.arange(9.0)

    def value(c: Any, p: Any) -> Any:
        return interpolate.BSpline(knots, c, 3)(p)

    c = np.ones(5)
    np.testing.assert_allclose(fg.grad(value)(c, 4.0), np.array([0, 1, 4, 1, 0]) / 6, atol=1e-15)
    mixed = fg.jacobian(fg.grad(value), argnums=1)(c, 4.0)
    np.testing.assert_allclose(mixed, np.array([0, -1, 0, 1, 0]) / 2, atol=1e-15)


def test_a_closed_curve_in_the_plane():
    """Traced complex values are two curves in one, of which SciPy's closed B-splines keep only the first."""
    values = np.array([1.0, 1j, -1.0, -1j])

    def curve(z: Any) -> Any:
        return interpolate.make_interp_spline(X[:5], np.concatenate([z, z[:1]]), bc_type="periodic")(INSIDE)

    value = fg.vjp(curve, values)[0]
    parts = [curve(part) for part in (values.real, values.imag)]
    np.testing.assert_allclose(value, parts[0] + 1j * parts[1], rtol=1e-12)
    _, tangent = fg.jvp(curve, (values,), (1j * values,))
    np.testing.assert_allclose(tangent, 1j * value.numpy(), rtol=1e-12)


# Knots, ends and what lies beyond


@pytest.mark.parametrize("make", curves())
def test_at_a_knot_the_piece_on_its_right_counts(make):
    """And at the last one the piece on its left. That is seen in a derivative that has a jump there."""
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    curve = make(X, y)
    value = lambda p: np.sum(curve(np.reshape(p, 1)))  # noqa: E731
    for _ in range(3 if isinstance(curve, (interpolate.PPoly, interpolate.BSpline)) else 1):
        value = fg.grad(value)
    np.testing.assert_allclose(value(X[3]), value(X[3] + 1e-9), rtol=1e-5)
    assert abs(value(X[3]) - value(X[3] - 1e-9)) > 0.1 * abs(value(X[3]))
    np.testing.assert_allclose(value(X[5]), value(X[5] - 1e-9), rtol=1e-5)


def test_second_derivatives_across_pieces():
    """Those of a spline in points and values, at points in different pieces, against the derivative's derivative."""

    def slopes(y: Any, p: Any) -> Any:
        return fg.grad(lambda p: np.sum(interpolate.CubicSpline(X, y)(p)))(p)

    ours = fg.jacobian(slopes)(Y, INSIDE)
    expected = fg.jacobian(lambda y: interpolate.CubicSpline(X, y)(INSIDE, 1))(Y)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("make", curves(extrapolate=False))
def test_beyond_the_ends_is_nan_with_the_derivative_zero(make):
    """Of first and second order, in values, knots and points."""
    points = np.array([-0.9, 1.1, 3.4, np.nan])

    def value(y: Any, x: Any, points: Any) -> Any:
        return np.nansum(make(x, y)(points))

    found = fg.vjp(lambda y, x, p: make(x, y)(p), Y, X, points)[0]
    np.testing.assert_array_equal(np.isnan(found), [True, False, True, True])
    inside = fg.grad(value, argnums=(0, 1, 2))(Y, X, points[1:2])
    gradients = fg.grad(value, argnums=(0, 1, 2))(Y, X, points)
    for ours, expected in zip(gradients[:2], inside[:2], strict=True):
        np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(gradients[2], [0, float(inside[2][0]), 0, 0])
    outside = fg.vjp(lambda y, x, p: make(x, y)(p), Y, X, points[[0, 2]])[1](np.ones(2))
    for each in outside:
        np.testing.assert_array_equal(each, np.zeros_like(each))
    hessian = fg.hessian(value, argnums=2)(Y, X, points)
    assert np.isfinite(hessian.numpy()).all()
    np.testing.assert_array_equal(hessian[[0, 2, 3]], np.zeros((3, 4)))


def test_values_that_are_not_numbers_make_all_of_a_spline_nan():
    """As in SciPy for `interp1d`, and of a batch only the example that has one."""
    several = np.stack([Y, np.where(np.arange(6) == 2, np.nan, Y)])
    found = fg.vmap(lambda y: interpolate.interp1d(X, y, "cubic")(INSIDE))(several)
    np.testing.assert_allclose(found[0], scipy.interpolate.interp1d(X, Y, "cubic")(INSIDE), rtol=1e-12)
    assert np.isnan(found[1].numpy()).all()


def test_turning_points_of_monotone_curves():
    """Where values turn the slope is 0 whatever they are, so that values beyond the neighbours have no weight."""
    y = np.array([0.0, 1.0, 3.0, 2.0, 1.5, 1.0])
    weights = fg.jacobian(lambda y: interpolate.PchipInterpolator(X, y)(X, 1))(y)
    np.testing.assert_array_equal(weights[2], np.zeros(6))
    np.testing.assert_array_equal(weights[1, 3:], np.zeros(3))


def test_akima_of_straight_values():
    """Where both weights are 0 the slope is the mean of the neighbours'; every gradient is finite."""
    weights = fg.jacobian(lambda y: interpolate.Akima1DInterpolator(X, y)(INSIDE))(2 * X).numpy()
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=1), np.ones(3), rtol=1e-12)


# Under the transforms


def test_mapping_over_values_over_points_and_over_knots():
    """One at a time, and all of them at once, for curves and for gradients of curves."""
    rng = np.random.default_rng(3)
    y, p, x = rng.normal(size=(4, 6)), rng.uniform(0, 2.5, (4, 3)), X + rng.uniform(0, 0.1, (4, 6))

    def value(x: Any, y: Any, p: Any) -> Any:
        return interpolate.CubicSpline(x, y)(p)

    def gradient(x: Any, y: Any, p: Any) -> Any:
        return fg.grad(lambda *args: np.sum(value(*args) ** 2), argnums=(0, 1, 2))(x, y, p)

    for axes in ((None, 0, None), (None, None, 0), (0, None, None), (0, 0, 0)):
        pairs = list(zip((x, y, p), axes, strict=True))
        several = [each if axis == 0 else each[0] for each, axis in pairs]
        rows = [[each[i] if axis == 0 else each[0] for each, axis in pairs] for i in range(4)]
        loop = np.stack([value(*row) for row in rows])
        np.testing.assert_allclose(fg.vmap(value, in_axes=axes)(*several), loop, rtol=1e-11)
        for ours, expected in zip(
            fg.vmap(gradient, in_axes=axes)(*several), zip(*(gradient(*row) for row in rows), strict=True), strict=True
        ):
            np.testing.assert_allclose(ours, np.stack(expected), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("make", curves())
def test_a_recorded_curve_runs_on_other_values(make):
    graph = fg.trace(lambda x, y, p: make(x, y)(p))(X, Y, INSIDE)
    other = X * 1.1, Y[::-1].copy(), INSIDE * 0.9
    np.testing.assert_allclose(graph(*other), make(*other[:2])(other[2]), rtol=1e-11)


def test_a_recorded_curve_runs_in_the_other_direction():
    """Breakpoints, or a grid, may decrease where those of the recorded call increased."""
    c = np.arange(10.0).reshape(2, 5)
    graph = fg.trace(lambda x: interpolate.PPoly(c, x)(INSIDE))(X)
    np.testing.assert_allclose(graph(X[::-1]), scipy.interpolate.PPoly(c, X[::-1])(INSIDE), rtol=1e-12)
    graph = fg.trace(lambda x: interpolate.RegularGridInterpolator((x,), Y)(INSIDE))(X)
    expected = scipy.interpolate.RegularGridInterpolator((X[::-1],), Y)(INSIDE)
    np.testing.assert_allclose(graph(X[::-1].copy()), expected, rtol=1e-12)


def test_variables_and_tapes():
    y = fg.Variable(Y)
    with fg.GradientTape() as tape:
        value = interpolate.CubicSpline(X, y)(1.23)
    expected = fg.grad(lambda y: interpolate.CubicSpline(X, y)(1.23))(Y)
    np.testing.assert_allclose(tape.gradient(value, y), expected, rtol=1e-14)


@pytest.mark.parametrize("make", curves())
def test_a_curve_may_outlive_the_trace_in_which_it_was_made(make):
    kept = []

    def value(y: Any) -> Any:
        kept.append(make(X, y))
        return np.sum(kept[0](INSIDE))

    fg.grad(value)(Y)
    np.testing.assert_allclose(kept[0](INSIDE), make(X, Y)(INSIDE), rtol=1e-12)


@pytest.mark.parametrize("make", curves())
def test_curves_are_pickled_and_copied(make):
    curve = make(X, Y)
    for other in (pickle.loads(pickle.dumps(curve)), copy.deepcopy(curve)):
        np.testing.assert_array_equal(other(INSIDE), curve(INSIDE))


def test_many_points_and_knots_take_little_memory():
    """No matrix of knots and knots, or of points and knots, which would take 800 MB each."""
    x = np.linspace(0, 1, 10_001)
    points = np.linspace(0.0, 1.0, 10_000)
    for make in (interpolate.CubicSpline, interpolate.make_interp_spline, interpolate.interp1d):
        tracemalloc.start()
        found = fg.grad(lambda x, y, p, make=make: np.sum(make(x, y)(p)), argnums=(0, 1, 2))(x, np.sin(x), points)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60e6
        np.testing.assert_allclose(found[2], np.cos(points), atol=2e-4)


# As SciPy


def test_without_a_trace_scipy_answers():
    """In its own types for arrays, and as tensors for tensors."""
    for name, arguments in (
        ("CubicSpline", (X, Y)),
        ("PchipInterpolator", (X, Y)),
        ("Akima1DInterpolator", (X, Y)),
        ("make_interp_spline", (X, Y)),
        ("BSpline", (KNOTS, WEIGHTS, 3)),
        ("interp1d", (X, Y)),
        ("interp1d", (X, Y, "cubic")),
        ("RegularGridInterpolator", ((GRID,), Y)),
        ("RegularGridInterpolator", ((GRID,), Y, "cubic")),
    ):
        expected = getattr(scipy.interpolate, name)(*arguments)(INSIDE)
        ours = getattr(interpolate, name)
        assert type(ours(*arguments)(INSIDE)) is np.ndarray
        np.testing.assert_array_equal(ours(*arguments)(INSIDE), expected)
        boxed = ours(*(Tensor(x) if x is Y or x is WEIGHTS else x for x in arguments))(INSIDE)
        assert type(boxed) is type(ours(*arguments)(Tensor(INSIDE))) is Tensor
        np.testing.assert_array_equal(boxed, expected)


def test_attributes_and_methods_without_a_trace():
    for name in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator"):
        ours, scipys = getattr(interpolate, name)(X, Y), getattr(scipy.interpolate, name)(X, Y)
        assert (ours.axis, ours.extrapolate) == (scipys.axis, scipys.extrapolate)
        for found, expected in (
            (ours.c, scipys.c),
            (ours.x, scipys.x),
            (ours.derivative(2).c, scipys.derivative(2).c),
            (ours.antiderivative().c, scipys.antiderivative().c),
            (ours.integrate(0.1, 2.2), scipys.integrate(0.1, 2.2)),
            (ours.roots(), scipys.roots()),
            (ours.solve(0.2), scipys.solve(0.2)),
        ):
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, expected)
    spline, scipys = interpolate.make_interp_spline(X, Y), scipy.interpolate.make_interp_spline(X, Y)
    for found, expected in zip(spline.tck, scipys.tck, strict=True):
        np.testing.assert_array_equal(found, expected)
    grid = interpolate.RegularGridInterpolator((GRID[::-1],), Y)
    np.testing.assert_array_equal(grid.grid[0], GRID)
    np.testing.assert_array_equal(grid.values, Y[::-1])


def test_single_precision_is_computed_in_double_where_scipy_does():
    x, y, p = (each.astype(np.float32) for each in (X, Y, INSIDE))
    for name, dtype in (("CubicSpline", np.float64), ("make_interp_spline", np.float64), ("interp1d", np.float32)):
        make = getattr(interpolate, name)
        value, pullback = fg.vjp(lambda x, y, p, make=make: make(x, y)(p), x, y, p)
        assert value.dtype == dtype == getattr(scipy.interpolate, name)(x, y)(p).dtype
        assert [each.dtype for each in pullback(np.ones(3, dtype))] == [np.float32] * 3


def test_splines_on_grids_are_solved_exactly():
    """SciPy iterates to about six digits; the direct solver that it takes on request agrees to rounding."""
    points = np.array([[0.11, 1.23]])
    value = fg.vjp(lambda v: interpolate.RegularGridInterpolator((X, X), v, "cubic")(points), ON_PLANE)[0]
    rows = [float(scipy.interpolate.make_interp_spline(X, row)(1.23)) for row in ON_PLANE]
    np.testing.assert_allclose(value, scipy.interpolate.make_interp_spline(X, rows)(0.11), rtol=1e-12)


MISTAKES = {
    "equal points": lambda m, x, y: m.CubicSpline(x * 0, y),
    "decreasing points": lambda m, x, y: m.CubicSpline(x[::-1], y),
    "another number of values": lambda m, x, y: m.CubicSpline(x[:-1], y),
    "one point": lambda m, x, y: m.CubicSpline(x[:1], y[:1]),
    "no point": lambda m, x, y: m.CubicSpline(x[:0], y[:0]),
    "points in two dimensions": lambda m, x, y: m.CubicSpline(x[None], y[None]),
    "values that are NaN": lambda m, x, y: m.CubicSpline(x, y * np.nan),
    "points that are NaN": lambda m, x, y: m.CubicSpline(x * np.nan, y),
    "complex points": lambda m, x, y: m.CubicSpline(x * 1j, y),
    "unknown condition": lambda m, x, y: m.CubicSpline(x, y, bc_type="none"),
    "one condition": lambda m, x, y: m.CubicSpline(x, y, bc_type=("natural",)),
    "periodic on one side": lambda m, x, y: m.CubicSpline(x, y, bc_type=("natural", "periodic")),
    "third derivative": lambda m, x, y: m.CubicSpline(x, y, bc_type=("natural", (3, y[0]))),
    "shape of a derivative": lambda m, x, y: m.CubicSpline(x, y, bc_type=("natural", (1, y))),
    "no pair": lambda m, x, y: m.CubicSpline(x, y, bc_type=("natural", 1)),
    "open curve": lambda m, x, y: m.CubicSpline(x, y, bc_type="periodic"),
    "negative order": lambda m, x, y: m.CubicSpline(x, y)(x, -1),
    "slopes": lambda m, x, y: m.CubicHermiteSpline(x, y, y[:-1]),
    "complex values of pchip": lambda m, x, y: m.PchipInterpolator(x, y * 1j),
    "complex values of akima": lambda m, x, y: m.Akima1DInterpolator(x, y * 1j),
    "method of akima": lambda m, x, y: m.Akima1DInterpolator(x, y, method="best"),
    "coefficients without pieces": lambda m, x, y: m.PPoly(x, y),
    "number of pieces": lambda m, x, y: m.PPoly(x[None], x),
    "breakpoints without order": lambda m, x, y: m.PPoly(y[None, :4], y),
    "axis of coefficients": lambda m, x, y: m.PPoly(y[None, :4], x, axis=1),
    "no coefficients": lambda m, x, y: m.PPoly(y[:0, None], x[:2]),
    "too few knots": lambda m, x, y: m.BSpline(x, y, 3),
    "decreasing knots": lambda m, x, y: m.BSpline(x[::-1], y[:3], 1),
    "too few coefficients": lambda m, x, y: m.BSpline(x, y[:1], 1),
    "equal knots": lambda m, x, y: m.BSpline(x * 0, y[:3], 1),
    "negative degree": lambda m, x, y: m.BSpline(x, y[:3], -1),
    "derivative at double knots": lambda m, x, y: m.BSpline(
        np.stack([x[0], x[0], x[1], x[2], x[2], x[2], x[3], x[3]]), y, 2
    ).derivative(2),
    "derivative beyond the degree": lambda m, x, y: m.BSpline(x, y[:3], 1).derivative(2),
    "negative order of a b-spline": lambda m, x, y: m.BSpline(x, y[:3], 1)(x, -1),
    "decreasing points of a b-spline": lambda m, x, y: m.make_interp_spline(x[::-1], y),
    "equal points of a b-spline": lambda m, x, y: m.make_interp_spline(x * 0, y),
    "values of a b-spline": lambda m, x, y: m.make_interp_spline(x, y[:-1]),
    "degree of a b-spline": lambda m, x, y: m.make_interp_spline(x, y, k=9),
    "condition of a b-spline": lambda m, x, y: m.make_interp_spline(x, y, bc_type="none"),
    "conditions of a b-spline": lambda m, x, y: m.make_interp_spline(x, y, bc_type=([(1, 0.0)], [])),
    "orders of a b-spline": lambda m, x, y: m.make_interp_spline(x, y, bc_type=([(7, 0.0)], [(1, 0.0)])),
    "open curve of a b-spline": lambda m, x, y: m.make_interp_spline(x, y, bc_type="periodic"),
    "number of knots": lambda m, x, y: m.make_interp_spline(x, y, t=x),
    "condition of a line": lambda m, x, y: m.make_interp_spline(x, y, k=1, bc_type="natural"),
    "NaN of a b-spline": lambda m, x, y: m.make_interp_spline(x, y * np.nan),
    "points beyond": lambda m, x, y: m.interp1d(x, y)(x + 0.5),
    "points before": lambda m, x, y: m.interp1d(x, y)(x - 0.5),
    "kind": lambda m, x, y: m.interp1d(x, y, kind="best"),
    "values of a line": lambda m, x, y: m.interp1d(x, y[:-1]),
    "extrapolation and an error": lambda m, x, y: m.interp1d(x, y, fill_value="extrapolate", bounds_error=True),
    "points of a kind": lambda m, x, y: m.interp1d(x[:1], y[:1], kind="cubic"),
    "fill values": lambda m, x, y: m.interp1d(x, y, fill_value=(y, y)),
    "method": lambda m, x, y: m.RegularGridInterpolator((x,), y, method="best"),
    "equal points of a grid": lambda m, x, y: m.RegularGridInterpolator((x * 0,), y),
    "values of a grid": lambda m, x, y: m.RegularGridInterpolator((x,), y[:-1]),
    "dimensions of a grid": lambda m, x, y: m.RegularGridInterpolator((x, x), y),
    "points of a method": lambda m, x, y: m.RegularGridInterpolator((x[:2],), y[:2], method="cubic"),
    "points beyond a grid": lambda m, x, y: m.RegularGridInterpolator((x,), y)(x + 9),
    "method of a call": lambda m, x, y: m.RegularGridInterpolator((x,), y)(x, "best"),
    "points of another dimension": lambda m, x, y: m.RegularGridInterpolator((x,), y)(np.stack([x, x], -1)),
    "order without splines": lambda m, x, y: m.RegularGridInterpolator((x,), y)(x, nu=(1,)),
    "complex fill value": lambda m, x, y: m.RegularGridInterpolator((x,), y, fill_value=1j),
    "complex values of a grid": lambda m, x, y: m.RegularGridInterpolator((x,), y * 1j, method="pchip"),
    "solver without splines": lambda m, x, y: m.RegularGridInterpolator((x,), y, solver=print),
    "method of interpn": lambda m, x, y: m.interpn((x,), y, x, "best"),
    "points beyond interpn": lambda m, x, y: m.interpn((x,), y, x + 9),
}
MISTAKEN_X, MISTAKEN_Y = np.arange(5.0), np.array([0.0, 0.8, 0.9, 0.1, -0.7])


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_scipys_errors(name):
    """The same class and text, whether something is traced or not, one example or several."""

    def ours(x: Any, y: Any) -> Any:
        MISTAKES[name](interpolate, x, y)
        return np.sum(x)

    with pytest.raises((ValueError, NotImplementedError)) as expected:
        MISTAKES[name](scipy.interpolate, MISTAKEN_X, MISTAKEN_Y)
    message = re.sub("<built-in function print>", "", str(expected.value))
    several = np.stack([MISTAKEN_X] * 2), np.stack([MISTAKEN_Y] * 2)
    one = MISTAKEN_X, MISTAKEN_Y
    for wrong, arguments in ((ours, one), (fg.grad(ours), one), (fg.vmap(ours), several)):
        with pytest.raises(expected.type) as found:
            wrong(*arguments)
        assert re.sub("<built-in function print>", "", str(found.value)) == message


@pytest.mark.parametrize("make", curves()[:5])
def test_of_a_batch_of_curves_one_may_be_out_of_order(make):
    several = np.stack([X, np.where(np.arange(6) == 3, 0.5, X)])
    with pytest.raises(ValueError, match="increasing|sorted"):
        fg.vmap(lambda x: make(x, Y)(INSIDE))(several)


def test_of_a_batch_of_points_one_may_be_beyond():
    with pytest.raises(ValueError, match=r"A value \(3.4\) in x_new is above"):
        fg.vmap(interpolate.interp1d(X, Y))(np.array([[1.0], [3.4]]))
    with pytest.raises(ValueError, match="One of the requested xi is out of bounds in dimension 0"):
        fg.vmap(interpolate.RegularGridInterpolator((X,), Y))(np.array([[1.0], [3.4]]))


def test_values_are_asked_for_where_scipy_must_know_them():
    with pytest.raises(errors.MissingRuleError, match="scipy.interpolate.PchipInterpolator.solve has no derivative"):
        fg.grad(lambda y: interpolate.PchipInterpolator(X, y).solve(y[0])[0])(Y)


def test_complex_points_of_interp1d_are_refused():
    with pytest.raises(errors.DtypeError, match="takes real numbers"):
        fg.vjp(interpolate.interp1d([0.0, 1.0, 2.0], [0.0, 1.0, 4.0]), np.array([1.2 + 0.5j]))


@pytest.mark.parametrize("extrapolate", [False, True, "periodic"])
def test_derivatives_of_a_spline_beyond_its_degree_are_scipys(extrapolate):
    t, c, x = np.r_[0, 0, 0, 1:4, 4, 4], np.arange(5.0) ** 2, np.array([-1.0, 0.0, 2.5, 5.0, np.nan])
    for nu in range(2, 6):
        expected = scipy.interpolate.BSpline(t, c, 2, extrapolate)(x, nu)
        value = fg.vjp(lambda c, nu=nu: interpolate.BSpline(t, c, 2, extrapolate)(x, nu), c)[0]
        np.testing.assert_array_equal(value.numpy(), expected)


def test_options_may_be_named_tuples():
    pair = collections.namedtuple("Pair", ["below", "above"])
    outside, options = np.array([-9.0, 9.0]), {"bounds_error": False, "fill_value": pair(1.0, 2.0)}
    found, tangent = fg.jvp(lambda y: interpolate.interp1d(X, y, **options)(outside), (Y,), (Y,))
    assert (found.tolist(), tangent.tolist()) == ([1.0, 2.0], [0.0, 0.0])
