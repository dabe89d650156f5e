"""Polynomials as NumPy's older functions have them, and what `numpy.polynomial` says to traced tensors."""

import sys

import numpy as np
import pytest
from rows import check_row, check_values, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(5)
P = np.array([1.3, -0.7, 2.1, 0.4])
Q = np.array([0.8, -1.2, 0.5])
X = RNG.normal(size=5)
M = RNG.normal(size=(2, 3))
Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)
COLUMNS = RNG.normal(size=(3, 2))
SQUARE = RNG.normal(size=(4, 4))
NUMBER = np.array(0.6)
TIMES = np.linspace(-1, 1, 7) + 0.1 * RNG.normal(size=7)
DATA = RNG.normal(size=7)
TABLE = RNG.normal(size=(7, 2))
WEIGHTS = RNG.uniform(0.5, 1.5, 7)

ROWS = [
    ("polyval", np.polyval, P, X),
    ("polyval of a number", np.polyval, P, NUMBER),
    ("polyval of a matrix", np.polyval, P, M),
    ("polyval of a constant", np.polyval, P[:1], X),
    ("polyval of nothing", lambda x: np.polyval([], x) + x, X),
    ("polyval of several polynomials", np.polyval, COLUMNS, RNG.normal(size=(4, 2))),
    ("polyval of several at a number", np.polyval, COLUMNS, NUMBER),
    ("polyval of complex numbers", np.polyval, P, Z),
    ("polyval of complex coefficients", np.polyval, Z, X),
    ("polyval of lists", lambda x: np.polyval([x[0], 2, x[1]], x), X),
    ("vander", np.vander, X),
    ("vander N", lambda x: np.vander(x, 3, increasing=True), X),
    ("vander of one column", lambda x: np.vander(x, 1) * x[:, None], X),
    ("vander of two columns", lambda x: np.vander(x, 2), X),
    ("vander of no columns", lambda x: np.vander(x, 0), X),
    ("vander of complex numbers", np.vander, Z),
    ("polyadd", np.polyadd, P, Q),
    ("polyadd the other way round", np.polyadd, Q, P),
    ("polyadd of one length", np.polyadd, P, Z),
    ("polyadd of a number", lambda p: np.polyadd(p, 2.0), P),
    ("polysub", np.polysub, P, Q),
    ("polysub the other way round", np.polysub, Q, P),
    ("polymul", np.polymul, P, Q),
    ("polymul of complex coefficients", np.polymul, Z, Q),
    ("polymul by a number", np.polymul, P, NUMBER),
    ("polydiv", np.polydiv, P, Q),
    ("polydiv by a line", np.polydiv, P, Q[1:]),
    ("polydiv by a number", np.polydiv, P, Q[:1]),
    ("polydiv of the smaller", np.polydiv, Q, P),
    ("polydiv of complex coefficients", np.polydiv, Z, Q),
    ("polyder", np.polyder, P),
    ("polyder twice", lambda p: np.polyder(p, 2), P),
    ("polyder of a constant", lambda p: np.polyder(p, 4) + 0 * p[:0], P),
    ("polyder not at all", lambda p: np.polyder(p, 0) * p, P),
    ("polyint", np.polyint, P),
    ("polyint with constants", lambda p: np.polyint(p, 2, [p[0], 3.0]), P),
    ("polyint with one constant", lambda p: np.polyint(p, 3, k=p[1]), P),
    ("polyint not at all", lambda p: np.polyint(p, 0) * p, P),
    ("poly", np.poly, P),
    ("poly of complex roots", np.poly, Z),
    ("poly of conjugate roots", lambda x: np.poly(np.stack([x[0] + 1j * x[1], x[0] - 1j * x[1]])), X),
    ("poly of a list", lambda x: np.poly([x[0], 1.0, x[1] * x[2]]), X),
    ("poly of a matrix", np.poly, SQUARE),
    ("poly of a complex matrix", np.poly, SQUARE[:3, :3] + 1j * SQUARE[1:, 1:]),
    ("roots", lambda p: np.roots(p), P),
    ("roots of a list", lambda p: np.roots([p[0], p[1] * p[2], 1.0]), P),
    ("real roots", lambda p: np.roots(p), np.array([1.0, 0.3, -2.0, -0.1])),
    ("roots of complex coefficients", np.roots, Z),
    ("roots of a line", np.roots, P[:2]),
    ("polyfit", lambda x, y: np.polyfit(x, y, 2), TIMES, DATA),
    ("polyfit of a line", lambda x, y: np.polyfit(x, y, 1), TIMES, DATA),
    ("polyfit exactly", lambda x, y: np.polyfit(x, y, 2), TIMES[:3], DATA[:3]),
    ("polyfit of several columns", lambda x, y: np.polyfit(x, y, 3), TIMES, TABLE),
    ("polyfit with weights", lambda x, y, w: np.polyfit(x, y, 2, w=w), TIMES, DATA, WEIGHTS),
    ("polyfit of columns with weights", lambda y, w: np.polyfit(TIMES, y, 2, w=w), TABLE, WEIGHTS),
    ("polyfit with covariance", lambda x, y: np.polyfit(x, y, 2, cov=True), TIMES, DATA),
    ("polyfit of columns with covariance", lambda x, y: np.polyfit(x, y, 2, cov=True), TIMES, TABLE),
    ("polyfit with unscaled covariance", lambda x, y: np.polyfit(x, y, 2, cov="unscaled"), TIMES, DATA),
    ("polyfit of columns, unscaled", lambda x, y: np.polyfit(x, y, 1, cov="unscaled")[1], TIMES, TABLE),
    ("polyfit in full", lambda x, y: np.polyfit(x, y, 2, full=True)[:2], TIMES, DATA),
]  # fmt: skip


@pytest.mark.parametrize("row", identified([(name, (f, *points)) for name, f, *points in ROWS]))
def test_value_and_derivatives(row):
    check_row(*row)


# A poly1d leaves out leading zeros, hence cannot be made of coefficients that have no values.

OBJECTS = [
    ("poly1d", lambda p, x: np.poly1d(p)(x), P, X),
    ("poly1d arithmetic", lambda p, x: (np.poly1d(p) * np.poly1d(p[1:]) - np.poly1d(p) ** 2 + 1)(x), P, X),
    ("poly1d in a poly1d", lambda p: np.poly1d(p)(np.poly1d(p[1:])).coeffs, P),
    ("poly1d of a poly1d", lambda p: np.polyval(p, np.poly1d([1.0, 2.0])).coeffs, P),
    ("poly1d derivative and integral", lambda p, x: np.poly1d(p).deriv()(x) * np.poly1d(p).integ(2, k=1.0)(x), P, X),
    ("poly1d roots", lambda p: np.poly1d(p).roots, P),
    ("poly1d with a number", lambda p: ((2 * np.poly1d(p) - np.poly1d(p) / 4) * p[0] + p[1]).coeffs, P),
    ("poly1d with a function", lambda p: np.polymul(np.poly1d([1.0, 2.0]), p).coeffs, P),
]  # fmt: skip


@pytest.mark.parametrize("row", identified([(name, (f, *points)) for name, f, *points in OBJECTS]))
def test_poly1d_holds_traced_coefficients(row):
    f, *points = row
    check_values(f, points)
    check_grads(f, points)
    for place, x in enumerate(points):
        check_grads(lambda x: f(*points[:place], x, *points[place + 1 :]), (x,), order=1)


def test_poly1d_without_values():
    with pytest.raises(errors.ConcretizationError, match="np.trim_zeros needs a value"):
        fg.vmap(lambda p: np.poly1d(p)(2.0))(SQUARE)


def test_what_turns_coefficients_into_arrays():
    """Functions of NumPy that ask for an array before anyone can answer for a tensor: it is one of traced numbers."""
    for f in (
        lambda p: np.polynomial.polynomial.polyval(0.5, p),
        lambda p: np.polynomial.chebyshev.chebval(0.5, p),
        lambda p: np.polynomial.Polynomial(p)(0.5),
        lambda p: np.polynomial.Polynomial(p).integ()(p[0]),
        lambda p: np.polynomial.polynomial.polymul(p, p),
        lambda p: np.polynomial.polynomial.polyder(p, 2),
        lambda p: np.polynomial.hermite.hermval(0.5, p),
        lambda p: np.polynomial.Polynomial([1.0, 2.0])(p),
    ):
        np.testing.assert_allclose(fg.vjp(f, P)[0], f(P), rtol=1e-12)
        check_grads(f, (P,))
    with pytest.raises(errors.ArrayConversionError, match="NumPy requested a plain array from a traced tensor"):
        fg.vjp(lambda p: (np.poly1d(p) / np.poly1d([1.0, 2.0]))[0](0.5), P)
    np.testing.assert_allclose(fg.vjp(lambda p: np.polyval(p[::-1], 0.5), P)[0], np.polynomial.Polynomial(P)(0.5))


SERIES = {
    "poly": np.polynomial.Polynomial,
    "cheb": np.polynomial.Chebyshev,
    "leg": np.polynomial.Legendre,
    "herm": np.polynomial.Hermite,
    "herme": np.polynomial.HermiteE,
    "lag": np.polynomial.Laguerre,
}


@pytest.mark.parametrize("prefix", SERIES)
def test_classes_of_series_with_traced_coefficients_and_points(prefix):
    series = SERIES[prefix]
    places = np.array([-0.3, 0.2, 0.8])
    for f in (
        lambda p: series(p)(places),
        lambda p: series(p, domain=[0.0, 2.0])(places),
        lambda p: (series(p) * series([1.0, 2.0]) - p[0]).coef,
        lambda p: (p[1] * series([1.0, 2.0]) ** 2).coef,
        lambda p: series(p).deriv()(p[0]),
        lambda p: series(p).integ(lbnd=0.5)(p[1]),
        lambda p: (series(p) // series([1.0, 2.0])).coef,
        lambda p: series(p).convert(kind=np.polynomial.Polynomial).coef,
        lambda p: series.fromroots(p, domain=[-1.0, 1.0]).coef,
        lambda p: series(p).linspace(3)[1],
    ):
        np.testing.assert_allclose(np.array(fg.vjp(f, P)[0], float), f(P), rtol=1e-12, atol=1e-12)
        check_grads(f, (P,), order=1)


@pytest.mark.parametrize("prefix", SERIES)
def test_fits_and_roots_of_series_say_what_to_write(prefix):
    """And what they say is right."""
    series = SERIES[prefix]
    functions = vars(sys.modules[series.__module__])
    fit, roots, vander, companion = (functions[prefix + name] for name in ("fit", "roots", "vander", "companion"))
    x, y, p = np.array([-0.3, 0.2, 0.8, 0.9]), np.array([0.3, -0.1, 0.4, 0.2]), np.array([-0.3, 0.2, 1.0])
    for f in (fit, series.fit):
        for traced in (lambda y, f=f: f(x, y, 2), lambda x, f=f: f(x, y, 2)):
            with pytest.raises(errors.ObjectArrayError, match=rf"\n{prefix}fit\(x, y, n\): .*{prefix}vander\(x, n"):
                fg.vjp(traced, x)
    for traced in (roots, lambda p: series(p).roots()):
        with pytest.raises(errors.ObjectArrayError, match=rf"\n{prefix}roots\(c\): .*array\({prefix}companion\(c\)"):
            fg.vjp(traced, p)

    def fitted(x, y):
        return np.linalg.lstsq(fnp.array(vander(x, 2)), y)[0]

    def roots_of(p):
        return np.sort(np.real(np.linalg.eigvals(fnp.array(companion(p)))))

    np.testing.assert_allclose(fitted(x, y), fit(x, y, 2), rtol=1e-12)
    check_grads(fitted, (x, y), order=1)
    if np.isreal(roots(p)).all():
        np.testing.assert_allclose(roots_of(p), roots(p), rtol=1e-10)
        check_grads(roots_of, (p,), order=1)

    def fitted_in_window(x):
        return fitted(np.polynomial.polyutils.mapdomain(x, (x.min(), x.max()), series.window), y)

    np.testing.assert_allclose(fitted_in_window(x), series.fit(x, y, 2).coef, rtol=1e-10)
    check_grads(fitted_in_window, (x,), order=1)


@pytest.mark.parametrize("function", [np.polynomial.polynomial.polyval2d, np.polynomial.polynomial.polygrid2d])
def test_polynomials_of_two_variables(function):
    c = RNG.normal(size=(2, 3))
    check_row(function, X, 2 * X, c)
    check_row(lambda x, y: function(x, y, COLUMNS[..., None]), X, 2 * X)
    check_row(lambda c: function(0.3, 0.4, c), c)
    with pytest.raises(ValueError, match="incompatible|broadcast"):
        fg.vjp(lambda x: np.polynomial.polynomial.polyval2d(x, X[:1], c), X)


@pytest.mark.parametrize("name", ["polynomial.polyval", "chebyshev.chebval", "legendre.legval", "hermite.hermval"])
def test_series_at_traced_points(name):
    """With plain coefficients NumPy's recurrences run on tensors as they are."""
    module, function = name.split(".")
    f = getattr(getattr(np.polynomial, module), function)
    np.testing.assert_allclose(fg.vjp(lambda x: f(x, P), NUMBER)[0], f(NUMBER, P), rtol=1e-14)
    check_grads(lambda x: f(x, P), (NUMBER,))
    check_grads(lambda x: f(x, P), (X,))


# Values that decide about shapes


def test_leading_zeros_are_left_out_but_keep_their_derivatives():
    """Under a small change of the zero the product's other coefficients change, too."""
    p, q = np.array([0.0, 2.0, 3.0]), np.array([1.0, 5.0])
    assert np.polymul(p, q).tolist() == [2.0, 13.0, 15.0]
    value, pullback = fg.vjp(np.polymul, p, q)
    assert value.tolist() == [2.0, 13.0, 15.0]
    by_p = np.stack([pullback(np.eye(3)[i])[0] for i in range(3)])
    assert by_p.tolist() == [[5.0, 1.0, 0.0], [0.0, 5.0, 1.0], [0.0, 0.0, 5.0]]
    found = fg.vmap(np.polymul)(np.stack([p, p]), np.stack([q, q]))
    assert found.tolist() == [[0.0, 2.0, 13.0, 15.0]] * 2


def test_products_of_zeros():
    p = np.zeros(3)
    assert fg.vjp(np.polymul, p, np.ones(2))[0].tolist() == np.polymul(p, np.ones(2)).tolist()


def test_remainders_lose_vanishing_coefficients():
    p = np.polymul([1.0, 2.0, 3.0], [1.0, -1.0])
    for divisor in ([1.0, -1.0], [1.0, 2.0, 3.0], [2.0]):
        for found, expected in zip(fg.vjp(np.polydiv, p, np.array(divisor))[0], np.polydiv(p, divisor), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    check_grads(lambda u: np.polydiv(u, np.array([1.0, -1.0]))[0], (p,))


# Roots


def test_roots_at_zero_and_at_infinity():
    """A trailing zero makes a root at 0, which moves by -dp / p'(0); a leading one loses a root to infinity."""
    p = np.array([0.0, 1.0, -3.0, 2.0, 0.0])
    value = np.roots(p)
    np.testing.assert_allclose(value, [2.0, 1.0, 0.0])
    found = fg.jacobian(np.roots)(p)
    slopes = np.polyval(np.polyder(p), value)
    np.testing.assert_allclose(found, -np.vander(value, 5) / slopes[:, None], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fg.jacfwd(np.roots)(p), found, rtol=1e-12, atol=1e-12)


def test_a_double_root_moves_infinitely_fast():
    p = np.array([1.0, -2.0, 1.0])
    with np.errstate(all="ignore"):
        gradient = fg.gradients_function(lambda p: np.real(np.roots(p)[0]))(p)[0]
        _, tangent = fg.jvp(lambda p: np.roots(p)[0], (p,), (np.array([0.0, 0.0, 1.0]),))
    assert not np.isfinite(gradient.numpy()).any() or np.abs(gradient.numpy()).min() > 1e6
    assert not np.isfinite(tangent.numpy()) or abs(tangent.item()) > 1e6


def test_what_does_not_depend_on_a_double_root_is_finite():
    """A loss of the simple root alone: exact zeros win over the infinite speed of the others."""
    p = np.array([1.0, 0.0, 0.0])
    with np.errstate(all="ignore"):
        gradient = fg.grad(lambda p: np.sum(np.where(np.arange(2) > 5, np.roots(p), 1.0)))(p)
    assert gradient.tolist() == [0.0, 0.0, 0.0]


def test_batches_of_polynomials_have_one_degree():
    with pytest.raises(errors.ShapeError, match=r"different numbers of roots, .* coefficients that are 0: \[1, 2\]"):
        fg.vmap(np.roots)(np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 3.0]]))


def test_no_roots():
    assert fg.vjp(np.roots, np.array([2.0]))[0].shape == (0,)
    assert fg.grad(lambda p: np.sum(np.roots(p)) + p[0])(np.array([2.0])).tolist() == [1.0]


def test_vieta():
    """Sum and product of the roots are -b / a and -d / a, whatever the roots: their Hessians show it."""
    a, b, _, d = P
    total = fg.grad(lambda p: np.real(np.sum(np.roots(p))))(P)
    np.testing.assert_allclose(total, [b / a**2, -1 / a, 0, 0], atol=1e-12)
    product = fg.hessian(lambda p: np.real(np.prod(np.roots(p))))(P)
    expected = np.zeros((4, 4))
    expected[0, 0], expected[0, 3], expected[3, 0] = -2 * d / a**3, 1 / a**2, 1 / a**2
    np.testing.assert_allclose(product, expected, atol=1e-10)


@pytest.mark.parametrize("matrix", [np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0]), np.ones((3, 3))])
def test_characteristic_polynomials_of_matrices_with_repeated_eigenvalues(matrix):
    """The coefficients are polynomials in the elements: trace, sum of minors, determinant."""
    trace = fg.grad(lambda a: np.poly(a)[1])(matrix)
    np.testing.assert_allclose(trace, -np.eye(3), atol=1e-12)
    second = fg.grad(lambda a: np.poly(a)[2])(matrix)
    np.testing.assert_allclose(second, np.trace(matrix) * np.eye(3) - matrix.T, atol=1e-12)
    square = matrix @ matrix
    adjugate = square - np.trace(matrix) * matrix + 0.5 * (np.trace(matrix) ** 2 - np.trace(square)) * np.eye(3)
    determinant = fg.grad(lambda a: np.poly(a)[3])(matrix)
    np.testing.assert_allclose(determinant, -adjugate.T, atol=1e-12)


# Values and fits


def test_derivatives_at_zero_and_for_masked_points():
    """No power of 0 with a pole, and infinite values that are masked contribute nothing."""
    found = fg.jacobian(lambda p: np.polyval(p, np.zeros(2)))(P)
    assert found.tolist() == [[0, 0, 0, 1]] * 2
    assert fg.grad(lambda x: np.polyval(P, x))(0.0).item() == P[-2]
    x = np.array([np.inf, 0.5])
    with np.errstate(all="ignore"):
        gradient = fg.grad(lambda p, x: np.sum(np.where(np.isfinite(x), np.polyval(p, x), 0.0)), argnums=(0, 1))(P, x)
    np.testing.assert_allclose(gradient[0], 0.5 ** np.array([3, 2, 1, 0]))
    np.testing.assert_allclose(gradient[1], [0.0, np.polyval(np.polyder(P), 0.5)])


def test_long_polynomials_keep_no_intermediate_values():
    """The record of a polynomial of degree 999 is one operation."""
    coefficients = 0.5 ** np.arange(1000.0)
    gradient = fg.grad(lambda x: np.polyval(coefficients[::-1], x))(0.9)
    assert gradient.item() == pytest.approx(0.5 / (1 - 0.45) ** 2)


def test_a_badly_conditioned_fit_warns():
    with pytest.warns(np.exceptions.RankWarning, match="Polyfit may be poorly conditioned"):
        value = fg.vjp(lambda y: np.polyfit([1.0, 1.0, 1.0], y, 2), DATA[:3])[0]
    assert np.all(np.isfinite(value.numpy()))


def test_a_fit_in_full_does_not_warn():
    found = fg.vjp(lambda y: np.polyfit(TIMES, y, 2, full=True)[:2], DATA)[0]
    for ours, numpys in zip(found, np.polyfit(TIMES, DATA, 2, full=True), strict=False):
        np.testing.assert_allclose(ours, numpys, rtol=1e-12)
    assert fg.grad(lambda y: np.polyfit(TIMES, y, 2, full=True)[0][0] * np.polyfit(TIMES, y, 2, full=True)[2])(
        DATA
    ).shape == (7,)


def test_fits_are_accurate():
    """The derivative by the data is the pseudo-inverse, to nearly full precision at degree 8."""
    x = np.linspace(0, 1, 30)
    found = fg.jacobian(lambda y: np.polyfit(x, y, 8))(np.sin(x))
    expected = np.linalg.pinv(np.vander(x, 9), rcond=1e-15)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_what_numpy_refuses():
    for name, args, kind, message in (
        ("vander", (M,), ValueError, "one-dimensional"),
        ("roots", (M,), ValueError, "rank-1"),
        ("poly", (M,), ValueError, "1d or non-empty square 2d"),
        ("polyder", (P, -1), ValueError, "Order of derivative must be positive"),
        ("polyint", (P, -1), ValueError, "Order of integral must be positive"),
        ("polyint", (P, 3, [1.0, 2.0]), ValueError, "k must be a scalar or a rank-1 array"),
        ("polyfit", (TIMES, DATA, -1), ValueError, "expected deg >= 0"),
        ("polyfit", (M, DATA, 1), TypeError, "expected 1D vector for x"),
        ("polyfit", (TIMES[:0], DATA, 1), TypeError, "expected non-empty vector for x"),
        ("polyfit", (TIMES, NUMBER, 1), TypeError, "expected 1D or 2D array for y"),
        ("polyfit", (TIMES, DATA[1:], 1), TypeError, "expected x and y to have same length"),
        ("polyfit", (TIMES, DATA, 1, None, False, WEIGHTS[1:]), TypeError, "expected w and y to have the same length"),
        ("polyfit", (TIMES, DATA, 1, None, False, TABLE), TypeError, "expected a 1-d array for weights"),
    ):
        f = getattr(np, name)
        with pytest.raises(kind, match=message):
            f(*args)
        with pytest.raises(kind, match=message):
            fg.vjp(lambda first, f=f, args=args: f(first, *args[1:]), args[0])


def test_covariance_needs_points_left_over():
    with pytest.raises(errors.ParameterError, match="needs more points than coefficients: 3 points, 3 coefficients"):
        fg.vjp(lambda y: np.polyfit(TIMES[:3], y, 2, cov=True), DATA[:3])


def test_poly_of_no_roots():
    assert fg.grad(lambda x: np.poly(x[:0]) * x[0])(X).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_tensors_that_nothing_follows():
    assert type(np.polyval(Tensor(P), X)) is Tensor
    np.testing.assert_array_equal(np.roots(Tensor(P)), np.roots(P))


def test_third_order():
    check_grads(lambda p, x: np.sum(np.polyval(p, x) ** 2), (P, X), order=3)
    check_grads(lambda p: np.abs(np.roots(p)[0]) ** 2, (P,), order=3)


OF_SERIES = {
    "product": (lambda p, c: p(c) * p(c), TypeError),
    "sum with a number": (lambda p, c: p(c) + 1.0, TypeError),
    "quotient": (lambda p, c: p(c) // p([1.0, 2.0]), TypeError),
    "scaled": (lambda p, c: p(c) * c[0], errors.StructureError),
    "scaled from the left": (lambda p, c: c[0] * p(c), errors.StructureError),
    "power": (lambda p, c: p(c) ** 2, errors.ConcretizationError),
    "composed": (lambda p, c: p(c)(p([1.0, 2.0])), errors.StructureError),
}


@pytest.mark.parametrize("kind", [np.polynomial.Polynomial, np.polynomial.Chebyshev])
@pytest.mark.parametrize("name", OF_SERIES)
def test_arithmetic_of_series_says_that_it_needs_values(name, kind):
    compute, refused = OF_SERIES[name]
    c = np.array([1.0, 2.0, 3.0])

    def f(c):
        return compute(kind, c)(0.5)

    check_grads(f, (c,), order=1)
    for run in (lambda: fg.vmap(f)(np.stack([c, c])), lambda: fg.compile(f)(c)):
        with pytest.raises(refused, match=r"Arithmetic of np\.polynomial (.|\n)*np\.polymul\(a, b\)") as raised:
            run()
        assert type(raised.value) is refused
        assert "could have another meaning" not in str(raised.value)
    with pytest.raises(TypeError) as raised:
        fg.grad(lambda c: (kind(c) * "text")(0.5))(c)
    assert not hasattr(raised.value, "__notes__")


def test_what_arrays_of_coefficients_do_in_a_batch():
    c = np.array([1.0, 2.0, 3.0])

    def f(c):
        product = np.polymul(np.polyadd(c, 1.0), c)
        return np.polyval(np.polydiv(product, np.array([1.0, 2.0]))[0], 0.5) + np.polynomial.Polynomial(c).deriv()(0.5)

    np.testing.assert_allclose(fg.vmap(f)(np.stack([c, 2 * c])), [f(c), f(2 * c)])
    np.testing.assert_allclose(fg.compile(f)(c), f(c))


def test_a_series_is_divided_by_a_number_as_a_product():
    c = np.array([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"Write p \* \(1 / x\) for p / x"):
        fg.grad(lambda c: (np.polynomial.Polynomial(c) / c[0])(0.5))(c)
    check_grads(lambda c: (np.polynomial.Polynomial(c) * (1 / c[0]))(0.5), (c,), order=1)


def test_a_polynomial_without_coefficients_is_zero():
    result, pullback = fg.vjp(np.polymul, np.zeros(0), np.ones(2))
    assert result.tolist() == np.polymul(np.zeros(0), np.ones(2)).tolist() == [0.0, 0.0]
    assert [x.shape for x in pullback(np.ones(2))] == [(0,), (2,)]
