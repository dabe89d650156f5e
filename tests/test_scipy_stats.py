"""The distributions of `fgrad.scipy.stats`: their table, and what a table does not show."""

import functools
import inspect
import itertools
import pickle
import re

import numpy as np
import pytest
import rows
import scipy.integrate
import scipy.optimize
import scipy.stats
import scipy_stats_table as table
from helpers import defined_as, naming
from mpmath import mp

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Observer, observed_by
from fgrad.scipy import stats
from fgrad.scipy.stats._boxes import Boxes
from fgrad.scipy.stats._integrals import NOTHING
from fgrad.scipy.stats._laws import BETA, F_RATIO, GAMMA, STUDENT, VONMISES
from fgrad.testing import check_grads

FURTHER = [row for row in table.ROWS if row.names[0].split(".")[3] in table.FURTHER]
DIFFERENTIATED = [row for row in table.ROWS if not row.error]
EACH = [row for row in DIFFERENTIATED if row not in FURTHER]
REFUSED = [row for row in table.ROWS if row.error]
CONTINUOUS = [name for name in table.CONTINUOUS if name != "vonmises"]


@pytest.fixture(autouse=True)
def scipys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def scipys(name):
    return getattr(scipy.stats, name)


# The table


@pytest.mark.parametrize("row", rows.with_calls(EACH))
def test_every_row(row):
    """Value, both modes to second order, single precision, and a batch against a loop."""
    rows.check_calls(row)


@pytest.mark.parametrize("row", rows.with_calls(FURTHER))
def test_every_row_of_the_further_distributions(row):
    """Value, both modes, and a batch of values; `test_scipy_stats_further.py` has their second derivatives.

    Location, scale, masks and precision are those of all the others.
    """
    (call,) = row.calls
    rows.check_values(call.function, call.points)
    check_grads(call.function, call.points, order=1)
    several = [np.stack([x, x * 1.02]) for x in call.points]
    loop = [fg.tree_leaves(call.function(*each)) for each in zip(*several, strict=True)]
    for found, each in zip(fg.tree_leaves(fg.vmap(call.function)(*several)), zip(*loop, strict=True), strict=True):
        np.testing.assert_allclose(found.numpy(), np.stack(each), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in REFUSED])
def test_what_is_not_differentiated_says_so(row):
    (call,) = row.calls
    with pytest.raises(row.error, match=re.escape(row.match)):
        fg.vjp(call.function, *call.points)
    with pytest.raises(row.error, match=re.escape(row.match)):
        fg.jvp(call.function, call.points, call.points)


def test_every_public_name_has_rows():
    public = {name for name in vars(stats) if not name.startswith("_")}
    assert {row.names[0].split(".")[3] for row in DIFFERENTIATED} == public - {"spearmanr"}  # which is refused


@pytest.mark.parametrize("name", [*table.CONTINUOUS, *table.DISCRETE])
def test_parameters_are_scipys(name):
    assert getattr(stats, name).shape_names == (scipys(name).shapes or "").replace(",", "").split()


# Distribution functions in their parameters, against 50 digits

PARAMETERS = (0.05, 0.3, 1.0, 4.0, 60.0, 1e3, 1e4)
LEVELS = (1e-100, 1e-12, 1e-3, 0.3)
mp.dps = 50


def derivative(function, *args):
    """Return the partial derivatives in all arguments but the first, with 50 digits."""
    x, *parameters = map(mp.mpf, args)
    found = []
    for place in range(len(parameters)):
        orders = tuple(int(i == place) for i in range(len(parameters)))
        found.append(float(mp.diff(lambda *p: function(x, *p), tuple(parameters), orders)))
    return found


def beta_below(x, a, b):
    return x**a * (1 - x) ** b / a / mp.beta(a, b) * mp.hyp2f1(a + b, 1, a + 1, x)


REFERENCES = {
    "gamma": (lambda x, a: mp.gammainc(a, 0, x, regularized=True), lambda x, a: mp.gammainc(a, x, regularized=True)),
    "beta": (beta_below, lambda x, a, b: beta_below(1 - x, b, a)),
    "f": (
        lambda x, n, m: beta_below(n * x / (n * x + m), n / 2, m / 2),
        lambda x, n, m: beta_below(m / (n * x + m), m / 2, n / 2),
    ),
    "t": (
        lambda x, df: beta_below(df / (df + x * x), df / 2, mp.mpf(1) / 2) / 2,
        lambda x, df: beta_below(df / (df + x * x), df / 2, mp.mpf(1) / 2) / 2,
    ),
}
"""The probability below, and that above, for the smaller one of both."""


def assert_accurate(name, x, parameters, tolerance, above):
    distribution = getattr(stats, name)
    places = tuple(range(1, 1 + len(parameters)))
    expected = derivative(REFERENCES[name][above], x, *parameters)
    with np.errstate(all="ignore"):
        ours = fg.grad(distribution.sf if above else distribution.cdf, argnums=places)(x, *parameters)
        other = fg.grad(distribution.cdf if above else distribution.sf, argnums=places)(x, *parameters)
    np.testing.assert_allclose(list(map(float, ours)), expected, rtol=tolerance, atol=1e-300)
    np.testing.assert_array_equal(list(map(float, other)), [-float(each) for each in ours])


@pytest.mark.parametrize("a", [*PARAMETERS, 1e6])
def test_gamma_cdf_in_its_shape(a):
    for q in LEVELS:
        for above, x in enumerate((scipys("gamma").ppf(q, a), scipys("gamma").isf(q, a))):
            if x > 0 and (a < 1e6 or abs(x - a) < 7 * a**0.5):  # mpmath's series do not converge further out
                assert_accurate("gamma", float(x), (a,), 2e-12, above)


@pytest.mark.parametrize(
    ("a", "b"),
    [(0.05, 0.05), (0.05, 1e4), (1e4, 0.05), (0.3, 4.0), (4.0, 0.3), (1.0, 1.0), (60.0, 60.0), (1e4, 7.0), (1e4, 1e4)],
)
def test_beta_cdf_in_its_shapes(a, b):
    for q in LEVELS:
        for above, x in enumerate((scipys("beta").ppf(q, a, b), scipys("beta").isf(q, a, b))):
            if 0 < x < 1:
                assert_accurate("beta", float(x), (a, b), 2e-12, above)


@pytest.mark.parametrize(("n", "m"), [(0.3, 5.0), (3.0, 7.0), (3.0, 1e4), (1e4, 3.0), (40.0, 1e4), (1e4, 1e4)])
def test_f_cdf_in_its_degrees_of_freedom(n, m):
    """Also where the denominator has so many that the distribution hardly depends on them."""
    for q in (1e-30, 1e-3, 0.3):
        for above, x in enumerate((scipys("f").ppf(q, n, m), scipys("f").isf(q, n, m))):
            assert_accurate("f", float(x), (n, m), 5e-11, above)


@pytest.mark.parametrize("df", [1e-3, 0.05, 0.7, 1.0, 5.0, 30.0, 1e3, 1e4, 1e6])
def test_t_cdf_in_its_degrees_of_freedom(df):
    for x in (1e-3, 0.5, 1.5, 1.6, 3.0, 8.0, 15.0, 1e4):
        if mp.mpf(df) * mp.log1p(x * x / mp.mpf(df)) < 1000:  # above e^-500
            assert_accurate("t", x, (df,), 2e-12, above=True)
            assert_accurate("t", -x, (df,), 2e-12, above=False)


@pytest.mark.parametrize("kappa", [0.05, 1.0, 7.0, 300.0, 1e4])
def test_vonmises_cdf_in_its_concentration(kappa):
    width = min(1.0, 1 / np.sqrt(kappa))
    for x in (-3.0 * width, -0.1 * width, 1.3 * width):

        def density(t, kappa):
            return mp.exp(kappa * mp.cos(t)) / (2 * mp.pi * mp.besseli(0, kappa))

        def slope(t):
            return mp.diff(lambda kappa: density(t, kappa), mp.mpf(kappa))

        with mp.workdps(30):
            end = min(mp.pi, abs(x) + 12 * width)
            expected = -float(mp.quad(slope, mp.linspace(abs(x), end, 4))) * np.sign(x)
        ours = float(fg.grad(stats.vonmises.cdf, argnums=1)(x, kappa))
        np.testing.assert_allclose(ours, expected, rtol=1e-10)
        assert float(fg.grad(stats.vonmises.cdf, argnums=1)(x + 4 * np.pi, kappa)) == pytest.approx(ours, rel=1e-9)


@pytest.mark.parametrize(
    ("method", "args", "place", "expected"),
    [
        ("gamma.cdf", (3.0, 2.5), 1, lambda a: mp.gammainc(a, 0, 3, regularized=True)),
        ("gamma.logsf", (200.0, 2.0), 1, lambda a: mp.log(mp.gammainc(a, 200, regularized=True))),
        ("gamma.logcdf", (1e-5, 3.0), 1, lambda a: mp.log(mp.gammainc(a, 0, mp.mpf(1e-5), regularized=True))),
        ("chi2.sf", (40.0, 3.0), 1, lambda df: mp.gammainc(df / 2, 20, regularized=True)),
        ("invgamma.cdf", (0.03, 2.0), 1, lambda a: mp.gammainc(a, 1 / mp.mpf(0.03), regularized=True)),
        ("t.logpdf", (1.5, 1e4), 1, lambda v: mp.log(student_density(mp.mpf(1.5), v))),
        ("nbinom.cdf", (3, 2.5, 0.3), 1, lambda n: beta_below(mp.mpf(0.3), n, mp.mpf(4))),
        ("nbinom.cdf", (3, 2.5, 0.3), 2, lambda p: beta_below(p, mp.mpf(2.5), mp.mpf(4))),
        ("binom.sf", (3, 9, 0.01), 2, lambda p: beta_below(p, mp.mpf(4), mp.mpf(6))),
        ("poisson.sf", (30, 2.0), 1, lambda mu: mp.gammainc(31, 0, mu, regularized=True)),
        ("norm.logcdf", (-40.0,), 0, lambda x: mp.log(mp.ncdf(x))),
    ],
)
def test_first_and_second_derivatives_against_50_digits(method, args, place, expected):
    f = functools.reduce(getattr, method.split("."), stats)

    def of_one(parameter):
        return f(*args[:place], parameter, *args[place + 1 :])

    x = args[place]
    first, second = fg.grad(of_one)(x), fg.grad(fg.grad(of_one))(x)
    np.testing.assert_allclose(float(first), float(mp.diff(expected, mp.mpf(x))), rtol=1e-10)
    np.testing.assert_allclose(float(second), float(mp.diff(expected, mp.mpf(x), 2)), rtol=1e-9)


def student_density(x, df):
    constant = mp.gamma((df + 1) / 2) / mp.gamma(df / 2) / mp.sqrt(df * mp.pi)
    return constant * (1 + x * x / df) ** (-(df + 1) / 2)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (stats.gamma.cdf, (1.3, 0.7)),
        (stats.beta.sf, (0.4, 1.7, 0.6)),
        (stats.t.cdf, (-1.2, 2.3)),
        pytest.param(stats.f.cdf, (1.1, 3.3, 4.2), marks=pytest.mark.slow),
        (stats.vonmises.cdf, (0.8, 1.4)),
        (stats.gamma.ppf, (0.3, 1.7)),
        (stats.t.isf, (0.2, 3.1)),
    ],
)
def test_third_derivatives(f, args):
    check_grads(f, args, order=3)


@pytest.mark.parametrize("law", [GAMMA, BETA, F_RATIO, STUDENT, VONMISES])
@pytest.mark.parametrize("values", [(0.0, 0.7, 1.3), (1.0, 0.7, 1.3), (np.inf, 0.7, 1.3), (np.nan, 0.7, 1.3)])
def test_derivatives_at_the_ends(law, values):
    """The derivative in a parameter is 0 where the probability is 0 or 1, and NaN for NaN."""
    args = values[: 1 + len(law.scores)]
    slope = float(fg.jvp(lambda a: law.cdf(args[0], a, *args[2:]), (args[1],), (1.0,))[1])
    inside = {GAMMA: 1.0, F_RATIO: 1.0, STUDENT: 1.0, VONMISES: 1.0}.get(law) == args[0]
    assert np.isnan(slope) if np.isnan(args[0]) else (slope != 0) == inside


def test_many_integrals_are_computed_in_blocks():
    x = np.linspace(0.1, 9, 3000)
    whole = fg.jvp(lambda a: stats.gamma.cdf(x, a), (2.0,), (1.0,))[1].numpy()
    parts = [fg.jvp(lambda a: stats.gamma.cdf(part, a), (2.0,), (1.0,))[1].numpy() for part in np.split(x, 30)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_no_integral_is_computed_for_a_constant_parameter():
    def forbidden(*args, **metadata):
        raise AssertionError("computed an integral")

    with defined_as(PRIMITIVES["gamma_distribution_slope"], implementation=forbidden, compute=forbidden):
        gradients = fg.grad(lambda x, loc, scale: stats.gamma.cdf(x, 2.0, loc, scale), argnums=(0, 1, 2))(1.0, 0.0, 1.0)
        np.testing.assert_allclose(list(map(float, gradients)), np.array([1, -1, -1]) / np.e)
        with pytest.raises(AssertionError, match="computed an integral"):
            fg.grad(stats.gamma.cdf, argnums=1)(1.0, 2.0)


# Edges: outside of the support, at its ends, parameters that are not allowed


def one_of(name):
    """Return single shape parameters of a distribution."""
    return tuple(float(shape[1]) for shape in table.CONTINUOUS[name][0][1:])


def gradients_in_both_modes(f, args):
    places = tuple(range(len(args)))
    value, reverse = fg.value_and_grad(f, argnums=places)(*args)
    directions = np.eye(len(args))
    forward = [float(fg.jvp(f, args, tuple(map(float, direction)))[1]) for direction in directions]
    np.testing.assert_allclose([float(each) for each in reverse], forward, rtol=1e-12)
    return float(value), np.array(forward)


OUTSIDE = {"logpdf": (-np.inf, -np.inf), "pdf": (0, 0), "cdf": (0, 1), "sf": (1, 0), "logcdf": (-np.inf, 0)}
OUTSIDE["logsf"] = OUTSIDE["logcdf"][::-1]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_of_the_support_derivatives_are_exactly_zero(name):
    shapes = one_of(name)
    start, end = scipys(name).support(*shapes)
    beyond = (start - 1 if np.isfinite(start) else start, end + 1 if np.isfinite(end) else end)
    for method, values in OUTSIDE.items():
        f = getattr(getattr(stats, name), method)
        for x, expected in zip(beyond, values, strict=True):
            with naming(method, x):
                value, gradient = gradients_in_both_modes(f, (float(x), *shapes, 0.0, 1.0))
                assert value == expected
                np.testing.assert_array_equal(gradient, 0 * gradient)
                second = fg.grad(lambda *args, f=f: fg.grad(f)(*args), argnums=(0, 1))(float(x), *shapes, 0.0, 1.0)
                assert [float(each) for each in second] == [0, 0]


WITH_ENDS = [name for name in CONTINUOUS if np.isfinite(getattr(scipy.stats, name).support(*one_of(name))).any()]


@pytest.mark.parametrize("name", WITH_ENDS)
def test_at_the_ends_of_the_support_nothing_is_nan(name):
    shapes = one_of(name)
    for method in OUTSIDE:
        for x in scipys(name).support(*shapes):
            if np.isfinite(x):
                with naming(method, x):
                    f = getattr(getattr(stats, name), method)
                    value, gradient = gradients_in_both_modes(f, (float(x), *shapes, 0.0, 1.0))
                    assert value == pytest.approx(getattr(scipys(name), method)(x, *shapes), rel=1e-13)
                    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("name", "shapes", "x", "density"),
    [
        ("expon", (), 0.0, 1.0),
        ("uniform", (), 0.0, 1.0),
        ("uniform", (), 1.0, 1.0),
        ("halfnorm", (), 0.0, np.sqrt(2 / np.pi)),
        ("pareto", (2.5,), 1.0, 2.5),
        ("gamma", (1.0,), 0.0, 1.0),
        ("chi2", (2.0,), 0.0, 0.5),
        ("f", (2.0, 5.0), 0.0, 1.0),
        ("beta", (1.0, 3.0), 0.0, 3.0),
        ("beta", (3.0, 1.0), 1.0, 3.0),
        ("gamma", (0.5,), 0.0, 0.0),
        ("beta", (2.0, 0.5), 1.0, 0.0),
        ("lognorm", (1.0,), 0.0, 0.0),
        ("weibull_min", (0.5,), 0.0, 0.0),
    ],
)
def test_at_an_end_the_derivative_of_the_cdf_is_the_density_or_zero(name, shapes, x, density):
    assert float(fg.grad(getattr(stats, name).cdf)(x, *shapes)) == pytest.approx(density, rel=1e-12)
    assert float(fg.grad(getattr(stats, name).sf)(x, *shapes)) == pytest.approx(-density, rel=1e-12)


@pytest.mark.parametrize("name", ["gamma", "beta", "chi2", "f", "weibull_min"])
def test_an_infinite_density_at_an_end_has_the_derivative_zero(name):
    shapes = (0.5,) * len(one_of(name))
    value, gradient = gradients_in_both_modes(getattr(stats, name).logpdf, (0.0, *shapes, 0.0, 1.0))
    assert value == np.inf
    np.testing.assert_array_equal(gradient, 0 * gradient)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_parameters_that_are_not_allowed_give_nan(name):
    shapes, distribution = one_of(name), getattr(stats, name)
    x = 1.2 if name != "truncnorm" else 0.1
    for scale in (0.0, -1.0, np.nan):
        for method in (*OUTSIDE, "mean", "var", "std", "entropy", "median"):
            args = (x, *shapes) if method in OUTSIDE else shapes
            f = getattr(distribution, method)
            value, slope = fg.jvp(lambda scale: f(*args, scale=scale), (scale,), (1.0,))
            assert np.isnan(float(value))
            assert np.isnan(getattr(scipys(name), method)(*args, scale=scale))
            if method in ("logpdf", "logcdf", "entropy"):
                assert np.isnan(float(slope))
    for place in range(len(shapes)):
        wrong = tuple(-1.0 if i == place else shape for i, shape in enumerate(shapes))
        wrong = (3.0, 2.0) if name == "truncnorm" else wrong
        assert np.isnan(float(fg.jvp(distribution.logpdf, (x, *wrong), (1.0,) * (1 + len(wrong)))[0]))
        assert np.isnan(float(fg.vjp(distribution.cdf, x, *wrong)[0]))


def test_a_wrong_parameter_does_not_spoil_the_gradients_of_others():
    scales = np.array([1.0, -1.0, 2.0])
    f = fg.gradients_function(lambda scale: stats.norm.logpdf(0.3, scale=scale))
    found = f(scales)[0].numpy()
    assert np.isnan(found[1])
    np.testing.assert_allclose(found[[0, 2]], f(scales[[0, 2]])[0].numpy())


@pytest.mark.parametrize("name", [*CONTINUOUS, *table.DISCRETE])
def test_nan_gives_nan(name):
    shapes = one_of(name) if name in table.CONTINUOUS else tuple(2.0 if n == "n" else 0.4 for n in shape_names(name))
    distribution = getattr(stats, name)
    for method in OUTSIDE if name in table.CONTINUOUS else ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"):
        place = len(shapes)
        f = getattr(distribution, method)
        value = fg.jvp(lambda last: f(np.nan, *shapes[:-1], last), (shapes[place - 1] if shapes else 0.0,), (1.0,))[0]
        assert np.isnan(float(value))


def shape_names(name):
    return getattr(stats, name).shape_names


def test_probabilities_that_are_none_have_no_quantile():
    q = np.array([-0.1, 0.0, 0.5, 1.0, 1.1, np.nan])
    for name, shapes in (("norm", ()), ("gamma", (2.0,)), ("beta", (2.0, 3.0)), ("truncnorm", (-1.0, 2.0))):
        for method in ("ppf", "isf"):
            f = getattr(getattr(stats, name), method)
            value, pullback = fg.vjp(f, q, *shapes, 0.3, 2.0)
            np.testing.assert_allclose(value.numpy(), getattr(scipys(name), method)(q, *shapes, 0.3, 2.0), rtol=1e-13)
            gradient = pullback(np.where(np.isnan(value.numpy()), 0.0, 1.0))[0].numpy()
            np.testing.assert_array_equal(gradient[[0, 1, 3, 4, 5]], 0)
            assert gradient[2] != 0


def test_infinitely_many_degrees_of_freedom_are_the_normal_distribution():
    x, df = np.array([-1.3, 0.4]), np.array([np.inf, 3.0])
    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"):
        value, slopes = fg.jvp(getattr(stats.t, method), (x, df), (np.ones(2), np.zeros(2)))
        np.testing.assert_allclose(value.numpy()[0], getattr(scipys("norm"), method)(-1.3), rtol=1e-13)
        expected = fg.grad(getattr(stats.norm, method))(-1.3)
        np.testing.assert_allclose(slopes.numpy()[0], float(expected), rtol=1e-13)
        assert fg.gradients_function(getattr(stats.t, method), params=[1])(x, df)[0].numpy()[0] == 0
    np.testing.assert_allclose(fg.vjp(stats.t.entropy, df)[0].numpy(), scipys("t").entropy(df), rtol=1e-13)
    np.testing.assert_allclose(fg.vjp(stats.t.var, df)[0].numpy(), scipys("t").var(df), rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "shapes"), [("t", (0.7,)), ("t", (1.5,)), ("f", (3.0, 1.5)), ("invgamma", (0.8,)), ("pareto", (0.9,))]
)
def test_moments_that_do_not_exist(name, shapes):
    for method in ("mean", "var", "std"):
        f, args = getattr(getattr(stats, name), method), (*shapes, 0.5, 2.0)
        expected = getattr(scipys(name), method)(*args)
        np.testing.assert_equal(float(fg.jvp(f, args, args)[0]), expected)
        if np.isinf(expected):
            gradient = gradients_in_both_modes(f, args)[1]
            np.testing.assert_array_equal(gradient, 0 * gradient)


def test_entropy_of_many_degrees_of_freedom_does_not_cancel():
    for f, expected in (
        (stats.gamma.entropy, lambda a: mp.loggamma(a) + a + (1 - a) * mp.digamma(a)),
        (stats.invgamma.entropy, lambda a: mp.loggamma(a) + a - (1 + a) * mp.digamma(a)),
    ):
        value, slope = fg.jvp(f, (1e6,), (1.0,))
        np.testing.assert_allclose(float(value), float(expected(mp.mpf(10) ** 6)), rtol=1e-13)
        np.testing.assert_allclose(float(slope), float(mp.diff(expected, mp.mpf(10) ** 6)), rtol=1e-9)


def below_gamma(x, a):
    return mp.log(mp.gammainc(a, 0, x, regularized=True))


def above_gamma(x, a):
    return mp.log(mp.gammainc(a, x, regularized=True))


def below_beta(x, a, b):
    return mp.log(beta_below(x, a, b))


def above_student(x, df):
    return mp.log(beta_below(df / (df + x * x), df / 2, mp.mpf(1) / 2) / 2)


@pytest.mark.parametrize(
    ("method", "args", "expected"),
    [
        ("gamma.logcdf", (1e-200, 2.5), below_gamma),
        ("gamma.logcdf", (1e-126, 2.5), below_gamma),  # where the tail has not all of its digits
        ("gamma.logcdf", (1.0, 300.0), below_gamma),
        ("gamma.logcdf", (9e5, 1e6), below_gamma),
        ("gamma.logsf", (800.0, 2.5), above_gamma),
        ("gamma.logsf", (1e5, 0.3), above_gamma),
        pytest.param("gamma.logsf", (1.5e4, 1e4), above_gamma, marks=pytest.mark.slow),
        ("chi2.logcdf", (1e-250, 3.0), lambda x, df: below_gamma(x / 2, df / 2)),
        ("chi2.logsf", (2000.0, 3.0), lambda x, df: above_gamma(x / 2, df / 2)),
        ("invgamma.logcdf", (1e-3, 2.5), lambda x, a: above_gamma(1 / x, a)),
        ("invgamma.logsf", (1e200, 2.5), lambda x, a: below_gamma(1 / x, a)),
        ("beta.logcdf", (1e-200, 2.5, 3.0), below_beta),
        ("beta.logcdf", (0.3, 2000.0, 700.0), below_beta),
        ("beta.logsf", (1 - 2.0**-50, 3.0, 30.0), lambda x, a, b: below_beta(1 - x, b, a)),
        ("f.logcdf", (1e-250, 3.0, 4.0), lambda x, n, m: below_beta(n * x / (n * x + m), n / 2, m / 2)),
        ("f.logsf", (1e200, 3.0, 4.0), lambda x, n, m: below_beta(m / (n * x + m), m / 2, n / 2)),
        ("t.logcdf", (-1e100, 4.0), above_student),
        ("t.logsf", (1e200, 4.0), above_student),
        ("t.logsf", (100.0, 500.0), above_student),
        ("weibull_min.logcdf", (1e-200, 2.5), lambda x, c: mp.log(-mp.expm1(-(x**c)))),
        ("gumbel_r.logsf", (800.0,), lambda x: mp.log(-mp.expm1(-mp.exp(-x)))),
    ],
)
def test_slopes_of_tails_without_digits(method, args, expected):
    """The values are SciPy's, -inf; the slopes are those of the logarithm, which is finite."""
    f = functools.reduce(getattr, method.split("."), stats)
    x, shapes = args[0], args[1:]

    def of_units(u, *shapes):
        return f(u * x, *shapes)

    def exactly(u, *shapes):
        return expected(u * mp.mpf(x), *shapes)

    point = (1.0, *shapes)
    with mp.workdps(200 if method == "gumbel_r.logsf" else 30), np.errstate(all="ignore"):
        value, gradient = gradients_in_both_modes(of_units, point)
        orders = [tuple(map(int, row)) for row in np.eye(len(point))]
        slopes = [float(mp.diff(exactly, tuple(map(mp.mpf, point)), order)) for order in orders]
        bends = fg.hessian(of_units, argnums=tuple(range(len(point))))(*point)
        second = [float(mp.diff(exactly, tuple(map(mp.mpf, point)), tuple(2 * n for n in order))) for order in orders]
    assert value == functools.reduce(getattr, method.split("."), scipy.stats)(*args)
    large = max(shapes, default=0) > 1e3  # then the exponents of a density are, of which as much is rounded
    np.testing.assert_allclose(gradient, slopes, rtol=1e-11 if large else 1e-12)
    size = max(map(abs, slopes))
    np.testing.assert_allclose([float(bends[i][i]) for i in range(len(point))], second, rtol=1e-9, atol=1e-12 * size)


@pytest.mark.parametrize(
    ("method", "counts", "parameter", "expected"),
    [
        ("poisson.logcdf", (2,), 900.0, lambda mu: above_gamma(mu, 3)),
        ("poisson.logsf", (300,), 1.5, lambda mu: below_gamma(mu, 301)),
        ("binom.logcdf", (3, 5000), 0.4, lambda p: below_beta(1 - p, mp.mpf(4997), mp.mpf(4))),
        ("binom.logsf", (400, 500), 0.01, lambda p: below_beta(p, mp.mpf(401), mp.mpf(100))),
        ("nbinom.logcdf", (3, 200.0), 0.02, lambda p: below_beta(p, mp.mpf(200), mp.mpf(4))),
        ("nbinom.logsf", (1200, 2.0), 0.8, lambda p: below_beta(1 - p, mp.mpf(1201), mp.mpf(2))),
    ],
)
def test_slopes_of_tails_of_counts_without_digits(method, counts, parameter, expected):
    f = functools.partial(functools.reduce(getattr, method.split("."), stats), *counts)
    value, slope = fg.value_and_grad(f)(parameter)
    assert value == functools.reduce(getattr, method.split("."), scipy.stats)(*counts, parameter)
    assert value < -700
    np.testing.assert_allclose(float(slope), float(mp.diff(expected, mp.mpf(parameter))), rtol=1e-12)
    bend = float(mp.diff(expected, mp.mpf(parameter), 2))
    np.testing.assert_allclose(float(fg.hessian(f)(parameter)), bend, rtol=1e-9)


def test_slopes_far_out_beside_others_and_outside():
    x, a = np.array([-1.0, 1e-200, 0.7, 5.0, 900.0, np.inf]), np.array([2.5, 2.5, 1.3, 2.5, 2.5, 2.5])
    for f, far in ((stats.gamma.logcdf, 1), (stats.gamma.logsf, 4)):
        with np.errstate(all="ignore"):
            gradients = fg.grad(lambda x, a, f=f: np.sum(f(x, a)), argnums=(0, 1))(x, a)
            each = [fg.grad(f, argnums=(0, 1))(*args) for args in zip(x, a, strict=True)]
        np.testing.assert_allclose(np.transpose(gradients), np.array(each, float), rtol=1e-13)
        assert all(np.isfinite(float(g)) for pair in each for g in pair)
        assert np.all(np.array(each[far], float) != 0)
        batched = fg.vmap(fg.grad(f, argnums=(0, 1)))(x, a)
        np.testing.assert_allclose(np.transpose([g.numpy() for g in batched]), np.array(each, float), rtol=1e-13)


# Where no mask is needed


class Operations(Observer):
    """Collects the names of all operations on tensors."""

    def __init__(self):
        self.names = []

    def operation(self, primitive, metadata, args, go_on):
        if any(type(x) is Tensor for x in args):
            self.names.append(primitive.name)
        return go_on(args)


def operations(f, *args):
    """Return the names of the operations of a function whose arguments are followed by a trace."""
    seen = []

    def watched(*args):
        watch = Operations()
        with observed_by(watch):
            result = f(*args)
        seen.extend(watch.names)
        return result

    fg.vjp(watched, *args)
    return seen


COMPARISONS = {"greater", "less", "greater_equal", "stop_gradient"}
FAST = [name for name in CONTINUOUS if getattr(stats, name).density] + ["vonmises"]


def test_the_commonest_densities_have_derivatives_in_closed_form():
    common = {"norm", "expon", "gamma", "beta", "t", "laplace", "logistic", "lognorm", "uniform"}
    assert common <= set(FAST)
    assert {stats.norm.density.name, stats.t.density.name} == {"norm_log_density", "t_log_density"}


@pytest.mark.parametrize("name", FAST)
def test_a_log_density_is_one_operation(name):
    """Besides the distance from the location, and comparisons with the ends of the support."""
    x, *shapes = table.CONTINUOUS[name][0]
    names = operations(getattr(stats, name).logpdf, x, *shapes, np.zeros(4), np.ones(4))
    counted = [each for each in names if each not in COMPARISONS]
    assert counted[-1] == f"{name}_log_density"
    assert set(counted[:-1]) <= {"subtract", "multiply"}
    is_near = scipys(name).logpdf(x, *shapes) > NOTHING
    names = operations(getattr(stats, name).pdf, x[is_near], *(shape[is_near] for shape in shapes))
    assert [each for each in names if each not in COMPARISONS][-2:] == [f"{name}_log_density", "exp"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [("cdf", ["ndtr"]), ("sf", ["negative", "ndtr"]), ("logcdf", ["log_ndtr"]), ("logsf", ["negative", "log_ndtr"])],
)
def test_tails_inside_of_the_support_have_no_masks(method, expected):
    x = np.array([-1.0, 0.3])
    assert operations(getattr(stats.norm, method), x, 0.5, 2.0) == ["subtract", "divide", *expected]
    assert "where" in operations(getattr(stats.norm, method), np.array([np.inf, 0.3]), 0.5, 2.0)
    assert "where" in operations(getattr(stats.norm, method), x, 0.5, np.array([2.0, -1.0]))


def test_probabilities_of_counts_have_no_masks():
    assert "where" not in operations(lambda mu: stats.poisson.logpmf([0, 3, 2], mu), 1.3)
    assert "where" not in operations(lambda p: stats.binom.logpmf([0, 3, 2], 4, p), 0.3)
    assert "where" in operations(lambda mu: stats.poisson.logpmf([0, 1.5, 2], mu), 1.3)
    assert "where" in operations(lambda p: stats.binom.logpmf([0, 3, 2], 4, p), 1.3)


@pytest.mark.parametrize("method", OUTSIDE)
@pytest.mark.parametrize("name", [*CONTINUOUS, "vonmises"])
def test_what_needs_no_mask_is_the_same_beside_what_does(name, method):
    """To second order; an infinite number among the others lets all go the other way."""
    f = getattr(getattr(stats, name), method)
    arguments = [np.append(x, x[:1]) for x in (*table.CONTINUOUS[name][0], table.LOC * 1e-3, table.SCALE)]
    if name in ("beta", "uniform"):
        arguments[-1] = np.ones(5)
        arguments[-2] = np.zeros(5)
    mixed = [arguments[0].copy(), *arguments[1:]]
    mixed[0][-1] = np.nan

    def derivatives(*args):
        def slopes(*args):
            return fg.jvp(f, args, [np.ones(x.shape) for x in args])[1]

        value, pullback = fg.vjp(f, *args)
        return [value, *pullback(np.ones(5)), *fg.gradients_function(slopes)(*args)]

    for ours, other in zip(derivatives(*arguments), derivatives(*mixed), strict=True):
        np.testing.assert_allclose(ours.numpy()[:4], other.numpy()[:4], rtol=2e-9, atol=1e-11)


def test_a_recorded_program_holds_outside_of_the_support_and_for_wrong_parameters():
    for f, inside, outside in (
        (stats.expon.logpdf, 1.0, -1.0),
        (stats.uniform.pdf, 0.5, 2.0),
        (stats.beta.cdf, 0.5, 2.0),
        (stats.norm.logpdf, 0.5, np.inf),
    ):
        shapes = (1.5, 2.5) if f.__self__ is stats.beta else ()
        graph = fg.trace(lambda x, f=f, shapes=shapes: f(x, *shapes))(inside)
        np.testing.assert_equal(float(graph(outside)), f(outside, *shapes))
    graph = fg.trace(lambda scale: stats.norm.logpdf(0.3, scale=scale))(1.0)
    assert np.isnan(float(graph(-1.0)))


def test_single_examples_of_a_batch_may_need_masks():
    x, scale = np.array([0.5, -0.5, 2.0]), np.array([1.0, 1.0, -1.0])
    for f in (stats.expon.logpdf, stats.expon.pdf, stats.uniform.sf, stats.norm.logcdf):
        gradient = fg.value_and_grad(lambda x, scale, f=f: f(x, 0.0, scale), argnums=(0, 1))
        found = fg.tree_leaves(fg.vmap(gradient)(x, scale))
        each = [fg.tree_leaves(gradient(*args)) for args in zip(x, scale, strict=True)]
        np.testing.assert_array_equal([leaf.numpy() for leaf in found], np.transpose(each))


def test_an_overflowing_log_density_has_the_derivative_zero():
    for x, scale in ((1e200, 1.0), (1.0, 1e-200), (-1e170, 1e-100)):
        value, gradient = gradients_in_both_modes(stats.norm.logpdf, (x, 0.0, scale))
        assert value == -np.inf
        np.testing.assert_array_equal(gradient, 0)


SHAPES_OF_TAILS = {
    "norm": (), "expon": (), "halfnorm": (), "laplace": (), "logistic": (), "gumbel_r": (), "gamma": (2.5,),
    "chi2": (3.0,), "t": (3.0,), "t of infinity": (np.inf,), "truncnorm": (-1.0, np.inf), "lognorm": (0.7,),
    "weibull_min": (1.5,), "invgamma": (2.5,), "pareto": (2.5,), "f": (3.0, 4.0), "beta": (2.5, 1.5),
}  # fmt: skip

SECOND_DERIVATIVES = {
    "forward over reverse": fg.hessian,
    "reverse over reverse": lambda f, argnums: fg.jacrev(fg.grad(f, argnums=argnums), argnums=argnums),
    "forward over forward": lambda f, argnums: fg.jacfwd(fg.jacfwd(f, argnums=argnums), argnums=argnums),
    "reverse over forward": lambda f, argnums: fg.jacrev(fg.jacfwd(f, argnums=argnums), argnums=argnums),
}


@pytest.mark.parametrize("name", SHAPES_OF_TAILS)
def test_densities_that_are_zero_far_out_have_derivatives_that_are_zero(name):
    """There the slope of the logarithm, or its square, may overflow, and 0 times infinity is NaN."""
    pdf, shapes = getattr(stats, name.split()[0]).pdf, SHAPES_OF_TAILS[name]
    points = list(itertools.product([1e150, 1e154, 1.2e154, 1.3e154, 1e155, 1e160, 1e200], [1.0, 1e-3]))
    axes = (0, *(None for _ in shapes), None, 0)
    many = [np.array([x for x, _ in points]), *shapes, 0.0, np.array([scale for _, scale in points])]
    one = (1.3e154, *shapes, 0.0, 1.0)
    argnums = tuple(place for place, each in enumerate(one) if np.isfinite(each))
    for derivative in (fg.grad, fg.jacfwd, *SECOND_DERIVATIVES.values()):
        of_one = derivative(pdf, argnums=argnums)
        with naming(derivative):
            for found in (of_one(*one), fg.vmap(of_one, in_axes=axes)(*many)):
                np.testing.assert_array_equal(np.array(fg.tree_leaves(found), float), 0)


@pytest.mark.parametrize("x", [1e-160, 1e-300])
@pytest.mark.parametrize(("name", "shape"), [("lognorm", 0.7), ("invgamma", 2.5)])
def test_densities_that_are_zero_next_to_zero_have_derivatives_that_are_zero(name, shape, x):
    pdf = getattr(stats, name).pdf
    np.testing.assert_array_equal(fg.grad(pdf, argnums=(0, 1, 2, 3))(x, shape, 0.0, 1.0), 0)
    second = fg.hessian(pdf, argnums=(0, 1, 2, 3))(x, shape, 0.0, 1.0)
    np.testing.assert_array_equal(np.array(second, float), 0)


@functools.cache
def factor(function, *args):
    """Return a factor of a density: of hundreds of digits, which differences are computed with, it needs none."""
    with mp.workdps(60):
        return function(*args)


POWERS = {
    "gamma": ((2.5,), lambda y, a: y ** (a - 1) * mp.exp(-y) / factor(mp.gamma, a)),
    "chi2": ((3.5,), lambda y, k: (y / 2) ** (k / 2 - 1) * mp.exp(-y / 2) / factor(mp.gamma, k / 2) / 2),
    "beta": ((2.2, 3.3), lambda y, a, b: y ** (a - 1) * (1 - y) ** (b - 1) / factor(mp.beta, a, b)),
    "f": (
        (4.5, 6.5),
        lambda y, n, m: (n / m * y) ** (n / 2) / (1 + n / m * y) ** ((n + m) / 2) / y / factor(mp.beta, n / 2, m / 2),
    ),
    "weibull_min": ((2.4,), lambda y, c: c * y ** (c - 1) * mp.exp(-(y**c))),
    "rayleigh": ((), lambda y: y * mp.exp(-y * y / 2)),
    "betaprime": ((2.2, 3.3), lambda y, a, b: y ** (a - 1) * (1 + y) ** (-a - b) / factor(mp.beta, a, b)),
}
"""Densities that are powers next to 0, by their names: shape parameters, and the density of the standard form."""


@pytest.mark.parametrize("x", [1e-250, 1e-300])
@pytest.mark.parametrize("name", POWERS)
def test_derivatives_of_densities_that_are_too_small_for_a_number(name, x):
    """The density at 1e-300 is 1e-450, and its slope 1e-150."""
    shapes, density = POWERS[name]
    pdf = getattr(stats, name).pdf
    with mp.workdps(60):
        slope = mp.diff(lambda u: density(mp.mpf(x) * (1 + u), *map(mp.mpf, shapes)), 0)
        expected = float(slope / x), float(-slope - density(mp.mpf(x), *map(mp.mpf, shapes)))
    args, places = (x, *shapes, 0.0, 1.0), (0, len(shapes) + 2)
    for derivative in (fg.grad, fg.jacfwd):
        found = np.array(derivative(pdf, argnums=places)(*args), float)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-318)
    beside = fg.vmap(fg.grad(lambda x: np.where(x < 1, pdf(x, *shapes), 0.0)))(np.array([0.3, x, 0.6]))
    near = [fg.grad(pdf)(each, *shapes) for each in (0.3, 0.6)]
    np.testing.assert_allclose(beside, [near[0], expected[0], near[1]], rtol=1e-11)


WHOLE_POWERS = [
    ("gamma", (1.0,)), ("gamma", (2.0,)), ("gamma", (3.0,)), ("chi2", (4.0,)), ("beta", (1.0, 3.3)), ("f", (6.0, 2.5)),
    ("weibull_min", (2.0,)), ("weibull_min", (3.0,)), ("rayleigh", ()), ("betaprime", (2.0, 1.0)),
]  # fmt: skip
"""Densities that are whole powers next to 0, of which derivatives take away everything but the rest."""


def curvature(density, x, shapes):
    """Return the second derivative of a density of the standard form in `x`, where it is much smaller than 1 / x**2."""
    with mp.workdps(900):
        return float(mp.diff(lambda u: density(mp.mpf(x) * (1 + u), *map(mp.mpf, shapes)), 0, 2) / mp.mpf(x) ** 2)


@pytest.mark.parametrize(("name", "shapes"), [*WHOLE_POWERS, *((name, POWERS[name][0]) for name in POWERS)])
def test_second_derivatives_of_densities_next_to_zero(name, shapes):
    """Half of x**2 exp(-x) at 1e-165 is 0, its second derivative 1; that of x exp(-x) is -2, and no rest of 1 / x."""
    pdf, slope = getattr(stats, name).pdf, fg.grad(getattr(stats, name).pdf)
    second = fg.grad(fg.grad(lambda x: pdf(x, *shapes)))
    compiled = fg.compile(second)
    for x in (1e-5, 1e-20, 1e-100, 1e-165, 1e-170):
        found = [fg.grad(slope)(x, *shapes), fg.jvp(lambda x: slope(x, *shapes), (x,), (1.0,))[1]]
        found += [derivative(pdf, argnums=0)(x, *shapes) for derivative in SECOND_DERIVATIVES.values()]
        found += [fg.vmap(second)(np.array([0.5, x]))[1], compiled(x)]
        found += [fg.elementwise_grad(fg.elementwise_grad(lambda x: pdf(x, *shapes)))(np.array([-1.0, x, np.inf]))[1]]
        with naming(x):
            np.testing.assert_allclose(np.array(found, float), curvature(POWERS[name][1], x, shapes), rtol=1e-10)


def test_compiled_derivatives_of_densities_that_are_too_small_for_a_number():
    slope = fg.compile(fg.grad(lambda x, scale: stats.gamma.pdf(x, 3.0, scale=scale), argnums=(0, 1)))
    for x in (0.3, 1e-165, 1e-170):
        eager = fg.grad(lambda x, scale: stats.gamma.pdf(x, 3.0, scale=scale), argnums=(0, 1))(x, 2.0)
        assert float(slope(x, 2.0)[0]) > 0
        np.testing.assert_allclose(slope(x, 2.0), eager, rtol=1e-11)


TAILS_OF_POWERS = {
    "cauchy": ((), lambda y: 1 / (1 + y * y) / mp.pi),
    "halfcauchy": ((), lambda y: 2 / (1 + y * y) / mp.pi),
    "t": ((1.0,), lambda y, n: 1 / (1 + y * y) / mp.pi),
    "f": (
        (3.0, 2.0),
        lambda y, n, m: (n * y / m) ** (n / 2) / (1 + n * y / m) ** ((n + m) / 2) / y / factor(mp.beta, n / 2, m / 2),
    ),
    "lomax": ((1.0,), lambda y, c: c / (1 + y) ** (c + 1)),
    "betaprime": ((2.0, 1.0), lambda y, a, b: y ** (a - 1) * (1 + y) ** (-a - b) / factor(mp.beta, a, b)),
    "fisk": ((1.0,), lambda y, c: c * y ** (c - 1) / (1 + y**c) ** 2),
    "burr12": ((0.5, 2.0), lambda y, c, d: c * d * y ** (c - 1) / (1 + y**c) ** (d + 1)),
    "invgamma": ((1.0,), lambda y, a: y ** (-a - 1) * mp.exp(-1 / y) / factor(mp.gamma, a)),
}
"""Densities that are proportional to the scale far out, by their names."""


@pytest.mark.parametrize("y", [1.5, 1e2, 1e7, 1e50])
@pytest.mark.parametrize("name", TAILS_OF_POWERS)
def test_second_derivatives_in_the_scale_of_densities_with_tails_that_are_powers(name, y):
    """What is proportional to the scale has none, so that it is that of the rest."""
    shapes, density = TAILS_OF_POWERS[name]
    with mp.workdps(400):
        f = lambda u: density(mp.mpf(y) / (1 + u), *map(mp.mpf, shapes)) / (1 + u)  # noqa: E731
        expected = float(mp.diff(f, 0, 2))
    of_scale = lambda scale: getattr(stats, name).pdf(y, *shapes, scale=scale)  # noqa: E731
    found = [fg.hessian(of_scale)(1.0), fg.grad(fg.grad(of_scale))(1.0), fg.compile(fg.hessian(of_scale))(1.0)]
    np.testing.assert_allclose(np.array(found, float), expected, rtol=1e-9)


@pytest.mark.parametrize("x", [1e-6, 1e-100])
@pytest.mark.parametrize("name", POWERS)
def test_what_falls_as_the_reciprocal_does_not_depend_on_the_scale(name, x):
    """The slope 1.5 / x - 1 / scale of the gamma distribution has the derivative 1 / scale**2, and no rest of 1 / x."""
    shapes, density = POWERS[name]
    logpdf, last = getattr(stats, name).logpdf, len(shapes) + 2
    with mp.workdps(700):
        fall = mp.diff(lambda u: mp.log(density(x * mp.exp(u), *map(mp.mpf, shapes))), 0, 2)
        expected = float(-fall / x)
    mixed = fg.hessian(logpdf, argnums=(0, last))(x, *shapes, 0.0, 1.0)
    np.testing.assert_allclose([mixed[0][1], mixed[1][0]], expected, rtol=1e-9)


@pytest.mark.parametrize("x", [1e-300, 1e-12, 0.3, -2.0])
def test_the_logistic_density_next_to_its_top(x):
    for derivative in (fg.grad, fg.jacfwd):
        assert float(derivative(stats.logistic.logpdf)(x)) == pytest.approx(-np.tanh(x / 2), rel=1e-14)


def test_the_slope_of_invgammas_logarithm_in_the_scale_next_to_zero():
    for x in (1e-200, 1e-300):
        assert float(fg.grad(stats.invgamma.logpdf, argnums=3)(x, 2.5, 0.0, 1.0)) == pytest.approx(-1 / x, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [("invgamma", (2.0,), -2.0), ("levy", (), -0.5)],
)
def test_second_derivatives_in_the_scale_of_logarithms_that_fall_as_the_reciprocal(name, shape, expected):
    """That of a log(scale) - scale / x is -a: what is proportional to the scale has none, however large it is."""
    for x, scale in ((1e-9, 1.0), (1e-100, 1.0), (1e-60, 1e30)):
        of_scale = lambda scale, x=x: getattr(stats, name).logpdf(x, *shape, scale=scale)  # noqa: E731
        found = [second(of_scale, argnums=0)(scale) for second in SECOND_DERIVATIVES.values()]
        np.testing.assert_allclose(np.array(found, float) * scale**2, expected, rtol=1e-7)


@pytest.mark.parametrize("far", [1e90, -1e90])
def test_densities_far_out_beside_others(far):
    """The masks of one element leave the others alone; a density that falls as a power is not 0."""
    x = np.array([0.5, far, 1e200])
    for name, args in (("norm", ()), ("gamma", (2.5,))):
        pdf = getattr(stats, name).pdf
        np.testing.assert_allclose(fg.elementwise_grad(pdf)(x, *args)[0], fg.grad(pdf)(0.5, *args), rtol=1e-14)
    by_x, by_scale = fg.grad(lambda x, s: np.sum(stats.cauchy.pdf(x, scale=s)), argnums=(0, 1))(x, 2.0)
    half = np.pi * (x[:2] ** 2 + 4.0)
    np.testing.assert_allclose(by_x[:2], -4 * x[:2] / half / (x[:2] ** 2 + 4.0), rtol=1e-13)
    np.testing.assert_allclose(by_scale, ((0.25 - 4.0) / half[0] / (0.25 + 4.0)), rtol=1e-13)
    np.testing.assert_allclose(fg.grad(lambda s: stats.cauchy.pdf(far, scale=s))(2.0), 1 / (np.pi * far**2), rtol=1e-13)


@pytest.mark.parametrize("x", [1e3, 1e100, 1e154, 1.3e154, 1e160, 1e300])
def test_cauchys_logarithm_has_its_derivatives_everywhere(x):
    first = fg.grad(stats.cauchy.logpdf, argnums=(0, 1, 2))(x, 0.0, 0.5)
    with mp.workdps(700):
        y = mp.mpf(x)
        expected = [-2 * y / (y * y + 0.25), 2 * y / (y * y + 0.25), (y * y - 0.25) / (y * y + 0.25) / 0.5]
    np.testing.assert_allclose(first, np.array(expected, float), rtol=1e-13)
    second = fg.hessian(stats.cauchy.logpdf, argnums=2)(x, 0.0, 0.5)
    np.testing.assert_allclose(second, -4.0, rtol=1e-5)


def test_plain_numbers_beside_a_traced_shape_divide_as_numpys():
    """Python's numbers raise where they are divided by zero."""
    for distribution in (stats.gamma, stats.lognorm, stats.invgamma):
        for method in OUTSIDE:
            f = getattr(distribution, method)
            value, _ = fg.jvp(lambda a, f=f: f(1.3, a, scale=0.0), (1.5,), (1.0,))
            assert np.isnan(float(value))
            value, slope = fg.jvp(lambda a, f=f: f(1e-320, a, scale=1e10), (1.5,), (1.0,))
            np.testing.assert_array_equal([float(value), float(slope)], [f(0.0, 1.5), 0.0])


@pytest.mark.parametrize(("method", "x"), [("logcdf", -3.2), ("logcdf", -10.0), ("logsf", 3.2), ("logsf", 100.0)])
def test_the_logarithm_of_a_tail_below_zero_has_no_derivative(method, x):
    """The tails of von Mises' distribution go on from turn to turn; of one below 0 the logarithm is NaN."""
    tail = getattr(stats.vonmises, method)
    value, gradient = gradients_in_both_modes(tail, (x, 2.0, 0.0, 1.0))
    assert np.isnan(value)
    assert np.isnan(np.array(gradient, float)).all()
    beside = fg.grad(lambda kappa: tail(np.array([x, 0.3]), kappa)[1])(2.0)
    np.testing.assert_allclose(beside, fg.grad(lambda kappa: tail(0.3, kappa))(2.0), rtol=1e-12)


def test_no_derivative_is_lost_where_vonmises_is_uniform():
    """Its score in `kappa` is the cosine there."""
    x = np.array([0.4, 0.6, -2.0])
    slopes = fg.jvp(lambda kappa: stats.vonmises.logpdf(x, kappa), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slopes.numpy(), np.cos(x), rtol=1e-14)
    second = fg.grad(fg.grad(lambda kappa: np.sum(stats.vonmises.logpdf(x, kappa))))(0.5)
    assert np.isfinite(float(second))


def test_parameters_are_not_bound_at_each_call(monkeypatch):
    frozen = [stats.norm(0.3, scale=2.0), stats.gamma(2.0, scale=1.5)]

    def forbidden(*args, **keywords):
        raise AssertionError("bound a signature")

    monkeypatch.setattr(inspect.Signature, "bind", forbidden)
    assert fg.grad(frozen[0].logpdf)(0.3) == 0
    assert fg.grad(frozen[1].logpdf)(1.5) == 0
    assert fg.grad(lambda x: stats.gamma.logpdf(x, a=2.0, scale=1.5))(1.5) == 0
    assert fg.grad(lambda x: stats.gamma.logpdf(x, 2.0, 0.0, 1.5))(1.5) == 0


def test_infinite_numbers_give_no_warning():
    with np.errstate(all="raise"):
        for f in (stats.norm.logpdf, stats.logistic.pdf, stats.gumbel_r.logpdf):
            assert float(fg.jvp(f, (np.inf,), (1.0,))[1]) == 0


# Counts


@pytest.mark.parametrize(
    ("f", "args", "name"),
    [
        (stats.poisson.pmf, (2.0, 1.5), "'k'"),
        (stats.poisson.cdf, (2.0, 1.5), "'k'"),
        (lambda loc: stats.poisson.logpmf(2, 1.5, loc), (1.0,), "'loc'"),
        (lambda n: stats.binom.logpmf(2, n, 0.3), (4.0,), "'n'"),
        (lambda x: stats.multinomial.logpmf(x, 3, [0.5, 0.5]), (np.array([1.0, 2.0]),), "'x'"),
        (lambda n: stats.multinomial.mean(n, [0.5, 0.5]), (3.0,), "'n'"),
    ],
)
def test_counts_have_no_derivative(f, args, name):
    message = f"scipy.stats.[a-z]+ has no derivative in {name}, which is differentiated: it is an integer"
    with pytest.raises(fg.errors.NoDerivativeError, match=message):
        fg.vjp(f, *args)
    with pytest.raises(fg.errors.NoDerivativeError, match=message):
        fg.jvp(f, args, args)


def test_counts_may_be_batched():
    k, mu = np.array([0, 3, 1]), np.array([0.7, 2.0, 1.1])
    expected = k / mu - 1
    for counts in (k, k.astype(np.float64)):
        found = fg.vmap(lambda k, mu: fg.grad(lambda mu: stats.poisson.logpmf(k, mu))(mu))(counts, mu)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize(
    ("name", "counts", "p"),
    [("poisson", (), 1.7), ("binom", (4,), 0.3), ("bernoulli", (), 0.3), ("geom", (), 0.3), ("nbinom", (2.5,), 0.3)],
)
def test_probabilities_at_any_number(name, counts, p, method):
    k = np.array([-np.inf, -1, 0, 1, 1.5, 4, 5, np.inf])
    f, g = getattr(getattr(stats, name), method), getattr(scipys(name), method)
    value, slope = fg.jvp(lambda p: f(k, *counts, p), (p,), (1.0,))
    with np.errstate(all="ignore"):
        expected = g(k, *counts, p)
        differences = (g(k, *counts, p + 1e-6) - g(k, *counts, p - 1e-6)) / 2e-6
    # SciPy has NaN for the probability of infinity.
    expected = np.where(np.isnan(expected), -np.inf if method == "logpmf" else 0.0, expected)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(slope.numpy(), np.where(np.isfinite(differences), differences, 0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("f", "p", "expected"),
    [
        (lambda p: stats.bernoulli.pmf([0, 1], p), 0.0, [-1, 1]),
        (lambda p: stats.bernoulli.pmf([0, 1], p), 1.0, [-1, 1]),
        (lambda p: stats.binom.pmf([0, 1, 2, 3], 3, p), 0.0, [-3, 3, 0, 0]),
        (lambda p: stats.binom.pmf([0, 1, 2, 3], 3, p), 1.0, [0, 0, -3, 3]),
        (lambda p: stats.binom.cdf([0, 1, 2, 3], 3, p), 0.0, [-3, 0, 0, 0]),
        (lambda p: stats.binom.sf([0, 1, 2, 3], 3, p), 1.0, [0, 0, 3, 0]),
        (lambda mu: stats.poisson.pmf([0, 1, 2], mu), 0.0, [-1, 1, 0]),
        (lambda mu: stats.poisson.cdf([0, 1, 2], mu), 0.0, [-1, 0, 0]),
        (lambda mu: stats.poisson.logpmf([0, 1], mu), 0.0, [-1, np.inf]),
        (lambda p: stats.geom.pmf([1, 2, 3], p), 1.0, [1, -1, 0]),
        (lambda p: stats.geom.cdf([1, 2], p), 1.0, [1, 0]),
        (lambda p: stats.geom.sf([1, 2], p), 1.0, [-1, 0]),
        (lambda p: stats.nbinom.pmf([0, 1, 2], 2.0, p), 1.0, [2, -2, 0]),
        (lambda p: stats.nbinom.cdf([0, 1, 2], 2.0, p), 1.0, [2, 0, 0]),
        (lambda p: stats.multinomial.pmf([[1, 1], [2, 0]], 2, np.stack([p, 1 - p])), 0.0, [2, 0]),
    ],
)
def test_probabilities_at_the_ends_of_a_parameter(f, p, expected):
    """Powers of 0 have derivatives."""
    np.testing.assert_allclose(fg.jvp(f, (p,), (1.0,))[1].numpy(), expected, rtol=1e-13, atol=1e-15)
    found = [float(fg.grad(lambda p: f(p)[i])(p)) for i in range(len(expected))]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_second_derivative_of_a_power_of_zero():
    second = fg.jacfwd(fg.jacfwd(lambda mu: stats.poisson.pmf([0, 1, 2, 3], mu)))(0.0)
    np.testing.assert_allclose(second.numpy(), [1, -2, 1, 0], atol=1e-15)


def test_wrong_parameters_of_counts_give_nan():
    for f, wrong in (
        (lambda mu: stats.poisson.pmf(1, mu), -1.0),
        (lambda p: stats.binom.logpmf(1, 3, p), 1.2),
        (lambda p: stats.binom.logpmf(1, 2.5, p), 0.2),
        (lambda p: stats.geom.cdf(1, p), 0.0),
        (lambda n: stats.nbinom.sf(1, n, 0.5), -1.0),
        (lambda p: stats.bernoulli.mean(p), 1.5),
        (lambda p: stats.multinomial.logpmf([1, 2], 3, p), np.array([0.5, 0.6])),
        (lambda p: stats.multinomial.logpmf([1, 2], 3, p), np.array([1.5, -0.5])),
    ):
        assert np.isnan(float(fg.jvp(f, (wrong,), (wrong,))[0]))


def test_counts_that_are_no_outcome():
    def f(p):
        return stats.multinomial.logpmf([[1, 2], [1, 1], [1.5, 1.5], [-1, 4]], 3, p)

    value, pullback = fg.vjp(f, np.array([0.4, 0.6]))
    assert float(value[0]) == pytest.approx(scipy.stats.multinomial.logpmf([1, 2], 3, [0.4, 0.6]))
    np.testing.assert_array_equal(value[1:].numpy(), -np.inf)
    np.testing.assert_allclose(pullback(np.ones(4))[0].numpy(), [1 / 0.4, 2 / 0.6])


# How they are called


def test_scipy_answers_where_nothing_is_traced():
    def forbidden(*args, **keywords):
        raise AssertionError("used a formula")

    with defined_as(stats.norm.density, implementation=forbidden, compute=forbidden):
        x = np.array([0.3, 1.2], np.float32)
        plain = stats.norm.logpdf(x, loc=1, scale=2)
        assert type(plain) is np.ndarray
        np.testing.assert_array_equal(plain, scipy.stats.norm.logpdf(x, loc=1, scale=2))
        boxed = stats.norm.logpdf(Tensor(x), loc=1, scale=2)
        assert type(boxed) is Tensor
        assert boxed.dtype == plain.dtype
        np.testing.assert_array_equal(boxed.numpy(), plain)
        with pytest.raises(AssertionError, match="used a formula"):
            fg.grad(stats.norm.logpdf)(1.0)


def test_parameters_by_name_and_by_position():
    reference = fg.grad(lambda a: stats.gamma.logpdf(1.3, a, 0.2, 1.5))(2.0)
    for f in (
        lambda a: stats.gamma.logpdf(1.3, a=a, loc=0.2, scale=1.5),
        lambda a: stats.gamma.logpdf(1.3, a, scale=1.5, loc=0.2),
        lambda a: stats.gamma.logpdf(x=1.3, a=a, scale=1.5, loc=0.2),
        lambda a: stats.gamma(a, 0.2, 1.5).logpdf(1.3),
        lambda a: stats.gamma(a=a, scale=1.5, loc=0.2).logpdf(1.3),
        lambda a: stats.gamma(a, 0.2, scale=1.5).logpdf(x=1.3),
    ):
        assert float(fg.grad(f)(2.0)) == float(reference)


def test_parameters_that_do_not_fit_are_a_type_error():
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        fg.grad(stats.gamma.logpdf)(1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        fg.grad(lambda x: stats.gamma.logpdf(x, 2.0, shape=1))(1.0)
    with pytest.raises(errors.KeywordError, match=r"^scipy\.stats\.norm: .*'mean'\. .* are loc, scale\."):
        fg.grad(lambda m: stats.norm.logpdf(1.0, mean=m))(1.0)
    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        stats.beta(2.0)
    with pytest.raises(TypeError, match="too many positional arguments"):
        fg.grad(lambda mu: stats.poisson.pmf(1, mu, 0, 1))(1.0)


def test_complex_numbers_are_refused():
    with pytest.raises(fg.errors.DtypeError, match="scipy.stats.norm takes real numbers"):
        fg.grad(lambda x: np.real(stats.norm.logpdf(x)))(1j)
    with pytest.raises(fg.errors.DtypeError, match="scipy.stats.dirichlet takes real numbers"):
        fg.vjp(stats.dirichlet.mean, np.array([1j, 2.0]))


@pytest.mark.parametrize("method", ["logpdf", "cdf", "sf", "ppf"])
def test_arguments_broadcast(method):
    x, a = np.array([[0.2], [0.7]]), np.array([0.5, 1.4, 3.0])
    value, (gx, ga) = rows_of(getattr(stats.gamma, method), x, a)
    np.testing.assert_allclose(value, getattr(scipy.stats.gamma, method)(x, a), rtol=1e-13)
    assert (gx.shape, ga.shape) == (x.shape, a.shape)
    each = [[rows_of(getattr(stats.gamma, method), xi, ai)[1] for ai in a] for xi in x[:, 0]]
    np.testing.assert_allclose(gx[:, 0], [sum(pair[0] for pair in row) for row in each], rtol=1e-12)
    np.testing.assert_allclose(ga, [sum(row[i][1] for row in each) for i in range(3)], rtol=1e-12)


def rows_of(f, *args):
    value, pullback = fg.vjp(f, *args)
    return value.numpy(), [gradient.numpy() for gradient in pullback(np.ones(value.shape))]


def test_lists_and_empty_arrays():
    assert fg.vjp(lambda a: stats.gamma.cdf([], a), 2.0)[0].shape == (0,)
    value, pullback = fg.vjp(lambda x: stats.norm.logpdf([x, 2 * x]), 0.5)
    np.testing.assert_allclose(value.numpy(), scipy.stats.norm.logpdf([0.5, 1.0]))
    assert float(pullback(np.ones(2))[0]) == pytest.approx(-0.5 - 2.0)


def test_values_and_gradients_of_single_precision():
    x, a = np.float32(1.3), np.float32(2.5)
    value, pullback = fg.vjp(stats.gamma.cdf, x, a)
    assert value.dtype == scipy.stats.gamma.cdf(x, a).dtype == np.float64
    assert [gradient.dtype for gradient in pullback(1.0)] == [np.float32, np.float32]


def test_what_is_not_differentiated_is_scipys_own():
    assert stats.norm.a == -np.inf
    np.testing.assert_array_equal(stats.norm.rvs(size=3, random_state=1), scipy.stats.norm.rvs(size=3, random_state=1))
    assert stats.norm.fit([1.0, 3.0]) == (2.0, 1.0)
    assert stats.norm.interval(0.5, scale=Tensor(2.0))[1] == scipy.stats.norm.interval(0.5, scale=2.0)[1]
    frozen = stats.gamma(Tensor(2.0), scale=3.0)
    assert float(frozen.moment(2)) == scipy.stats.gamma(2.0, scale=3.0).moment(2)
    assert frozen.rvs(4, random_state=1).shape == (4,)
    with pytest.raises(AttributeError, match="no attribute 'logits'"):
        stats.norm.logits(1.0)
    with pytest.raises(AttributeError, match="no attribute '_pdf'"):
        stats.norm._pdf(1.0)


@pytest.mark.parametrize("scale", [1e-160, 1e-155, 1e155, 1e160, 1e300])
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name not in table.NO_MOMENTS])
def test_moments_of_a_scale_whose_square_leaves_the_range_of_numbers(name, scale):
    method, shapes = getattr(stats, name), [float(each[2]) for each in table.CONTINUOUS[name][0][1:]]
    mean, variance = getattr(scipy.stats, name).stats(*shapes, moments="mv")
    for moment, value, slope, bend in (
        (method.mean, mean * scale, mean, 0.0),
        (method.std, np.sqrt(variance) * scale, np.sqrt(variance), 0.0),
        (method.var, variance * scale * scale, 2 * variance * scale, 2 * variance),
    ):
        of_scale = functools.partial(lambda moment, scale: moment(*shapes, scale=scale), moment)
        first = fg.value_and_grad(of_scale)
        np.testing.assert_allclose([float(each) for each in first(scale)], [value, slope], rtol=1e-9, atol=1e-318)
        np.testing.assert_allclose(float(fg.grad(fg.grad(of_scale))(scale)), bend, rtol=1e-9)


LOGARITHMS = {
    "gamma.logpdf": ((2.5,), lambda y, a: (a - 1) * mp.log(y) - y),
    "beta.logpdf": ((2.2, 3.3), lambda y, a, b: (a - 1) * mp.log(y) + (b - 1) * mp.log(1 - y)),
    "chi2.logpdf": ((3.5,), lambda y, df: (df / 2 - 1) * mp.log(y) - y / 2),
    "f.logpdf": ((4.5, 6.5), lambda y, n, m: (n / 2 - 1) * mp.log(y) - (n + m) / 2 * mp.log(m + n * y)),
    "lognorm.logpdf": ((0.7,), lambda y, s: -((mp.log(y) / s) ** 2) / 2 - mp.log(y)),
    "weibull_min.logpdf": ((1.7,), lambda y, c: (c - 1) * mp.log(y) - y**c),
    "invgamma.logpdf": ((2.5,), lambda y, a: -(a + 1) * mp.log(y) - 1 / y),
    "expon.logcdf": ((), lambda y: mp.log(-mp.expm1(-y))),
    "uniform.logcdf": ((), mp.log),
    "halfnorm.logcdf": ((), lambda y: mp.log(mp.erf(y / mp.sqrt(2)))),
}
"""By method: shape parameters, and the function of the standardized argument, but for what does not depend on it."""


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("method", LOGARITHMS)
def test_second_derivatives_in_a_scale_whose_square_leaves_the_range_of_numbers(method, scale):
    shapes, function = LOGARITHMS[method]
    f = functools.reduce(getattr, method.split("."), stats)
    ends = 1 if method.endswith("pdf") else 0  # the density is that of the standard form, over the scale

    def by_factor(v):
        return f(0.6 * scale, *shapes, scale=v * scale)

    expected = float(mp.diff(lambda v: function(mp.mpf(0.6) / v, *shapes) - ends * mp.log(v), mp.mpf(1.25), 2))
    for second in (fg.hessian(by_factor), fg.grad(fg.grad(by_factor)), fg.jacfwd(fg.jacfwd(by_factor))):
        np.testing.assert_allclose(float(second(1.25)), expected, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
@pytest.mark.parametrize("name", table.CONTINUOUS)
def test_second_derivatives_do_not_depend_on_the_unit(name, scale):
    x, *shapes = (float(each[1]) for each in table.CONTINUOUS[name][0])
    places = tuple(range(2 + len(shapes)))

    def bends(method, unit):
        def of_multiples(u, v, *shapes):
            return getattr(getattr(stats, name), method)(u * unit, *shapes, scale=v * unit)

        return np.array(fg.hessian(of_multiples, argnums=places)(1.2 * x, 1.2, *shapes), float)

    for method in ("logpdf", "cdf", "sf", "logcdf", "logsf"):
        expected = bends(method, 1.0)
        np.testing.assert_allclose(bends(method, scale), expected, rtol=1e-9, atol=1e-12 * np.max(np.abs(expected)))


def test_frozen_distributions():
    frozen = stats.t(3.0, loc=1.0)
    assert repr(frozen) == "fgrad.scipy.stats.t(3.0, loc=1.0)"
    for name in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"):
        assert float(fg.vjp(getattr(frozen, name), 0.3)[0]) == pytest.approx(getattr(scipy.stats.t, name)(0.3, 3, 1))
    assert frozen.ppf(0.7) == scipy.stats.t.ppf(0.7, 3.0, 1.0)
    for name in ("mean", "var", "std", "median", "entropy"):
        assert getattr(frozen, name)() == getattr(scipy.stats.t, name)(3.0, 1.0)
    with pytest.raises(fg.errors.MissingRuleError, match=r"scipy.stats.t.rvs has no derivative rule[^$]*t\.ppf\(rng"):
        fg.grad(lambda df: stats.t(df).rvs())(3.0)
    with pytest.raises(AttributeError, match="no attribute 'logits'"):
        frozen.logits(1.0)


def test_distributions_and_their_methods_can_be_pickled():
    for name in (*table.CONTINUOUS, *table.DISCRETE, "multivariate_normal", "wishart"):
        distribution = getattr(stats, name)
        assert pickle.loads(pickle.dumps(distribution)) is distribution
        assert repr(distribution) == f"fgrad.scipy.stats.{name}"
    gradient = pickle.loads(pickle.dumps(fg.grad(stats.gamma.logpdf, argnums=1)))
    assert float(gradient(1.3, 2.0)) == float(fg.grad(stats.gamma.logpdf, argnums=1)(1.3, 2.0))
    frozen = pickle.loads(pickle.dumps(stats.norm(1.0, scale=2.0)))
    assert frozen.logpdf(0.5) == scipy.stats.norm.logpdf(0.5, 1.0, 2.0)


def test_a_tape_and_variables():
    a = fg.Variable(2.0, name="a")
    with fg.GradientTape() as tape:
        loss = stats.gamma(a, scale=2.0).cdf(3.0)
    expected = fg.grad(stats.gamma.cdf, argnums=1)(1.5, 2.0)
    assert float(tape.gradient(loss, a)) == pytest.approx(float(expected), rel=1e-13)


# Vectors and matrices


def normal_reference(x, mean, cov):
    """Return the logarithm of the density with 50 digits."""
    cov = mp.matrix(cov.tolist())
    away = mp.matrix((x - mean).tolist())
    distance = (away.T * mp.lu_solve(cov, away))[0]
    return float(-(len(away) * mp.log(2 * mp.pi) + mp.log(mp.det(cov)) + distance) / 2)


def along(function, x, direction, step):
    """Return the derivative along a direction by a central difference."""
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def test_boxes_of_the_t_distribution():
    """Against another integral, of two components; SciPy's own is random in the fourth digit."""
    x, low, shape, df = np.array([0.3, -0.4]), np.array([-1.5, -2.0]), table.SPREAD[:2, :2], 3.5
    density = scipy.stats.multivariate_t(np.zeros(2), shape, df).pdf
    turn = np.array([[0.7, -0.3], [-0.3, 0.4]])

    def probability(x, shape):
        density = scipy.stats.multivariate_t(np.zeros(2), shape, df).pdf
        ranges = [(low[0], x[0]), (low[1], x[1])]
        return scipy.integrate.nquad(lambda u, v: density([u, v]), ranges, opts={"epsabs": 1e-10})[0]

    by_x, by_shape = fg.grad(lambda x, shape: stats.multivariate_t.cdf(x, None, shape, df, lower_limit=low), (0, 1))(
        x, shape
    )
    expected = [
        scipy.integrate.quad(lambda v: density([x[0], v]), low[1], x[1])[0],
        scipy.integrate.quad(lambda u: density([u, x[1]]), low[0], x[0])[0],
    ]
    np.testing.assert_allclose(by_x, expected, rtol=1e-9)
    expected = along(lambda shape: probability(x, shape), shape, turn, 1e-3)
    assert float(np.sum(by_shape * turn)) == pytest.approx(expected, rel=1e-5)
    tangent = fg.jvp(lambda shape: stats.multivariate_t.cdf(x, None, shape, df, lower_limit=low), (shape,), (turn,))[1]
    assert float(tangent) == pytest.approx(float(np.sum(by_shape * turn)), rel=1e-12)
    with pytest.raises(errors.NoClosedFormError, match="'df', which is traced"):
        fg.grad(lambda df: stats.multivariate_t.cdf(x, df=df))(df)


def test_boxes_with_three_and_more_sides():
    """The gradient in limits is what is at the sides, of two components exactly; in the covariance, by differences."""
    x, cov = table.POINT, table.SPREAD
    accurate = {"abseps": 1e-8, "releps": 1e-8, "maxpts": 10**6}
    by_x, by_cov = fg.grad(lambda x, cov: stats.multivariate_normal.cdf(x, cov=cov), (0, 1))(x, cov)

    def probability(cov):
        return scipy.stats.multivariate_normal.cdf(x, cov=cov, rng=1, **accurate)

    inside = [scipy.stats.norm.pdf(x[i], scale=np.sqrt(cov[i, i])) for i in range(3)]
    for i, density in enumerate(inside):
        rest = [j for j in range(3) if j != i]
        slope = cov[rest, i] / cov[i, i]
        given = scipy.stats.multivariate_normal.cdf(
            x[rest], slope * x[i], cov[np.ix_(rest, rest)] - np.outer(slope, cov[i, rest])
        )
        assert float(by_x[i]) == pytest.approx(density * given, rel=1e-10)
    turn = np.array([[0.3, -0.2, 0.1], [-0.2, 0.5, 0.2], [0.1, 0.2, -0.4]])
    assert float(np.sum(by_cov * turn)) == pytest.approx(along(probability, cov, turn, 0.05), rel=2e-3)
    four = np.eye(4) + 0.3
    assert fg.hessian(lambda x: stats.multivariate_normal.cdf(x, cov=four))(np.zeros(4)).shape == (4, 4)


def test_pairs_of_sides_are_integrated_for_the_covariance_alone(monkeypatch):
    def refuse(*args):
        raise AssertionError

    cov = np.eye(3) + 0.3
    with monkeypatch.context() as patch:
        patch.setattr(Boxes, "bends", refuse)
        fg.grad(stats.multivariate_normal.cdf)(np.zeros(3), np.zeros(3), cov)
        fg.jvp(lambda x: stats.multivariate_normal.cdf(x, None, cov), (np.zeros(3),), (np.ones(3),))
    covs = np.stack([cov, 2 * cov])  # which say the same at zero
    each = fg.vmap(fg.grad(lambda cov: stats.multivariate_normal.cdf(np.zeros(3), None, cov)))(covs)
    np.testing.assert_allclose(each[0], 2 * each[1], rtol=1e-9)


def test_boxes_of_batches_and_independent_sides():
    """Of independent components it is a product; limits that are exchanged turn the sign."""
    cov, low = np.diag([1.5, 0.7]), np.array([-0.3, -np.inf])
    each = fg.vmap(lambda x: stats.multivariate_normal.cdf(x, cov=cov, lower_limit=low))(table.POINTS[:, :2])
    scales = np.sqrt(np.diag(cov))
    sides = scipy.stats.norm.cdf(table.POINTS[:, :2] / scales) - scipy.stats.norm.cdf(low / scales)
    np.testing.assert_allclose(each, np.prod(sides, 1), rtol=1e-10, atol=1e-12)
    covs = np.stack([cov, 2 * cov])
    by_cov = fg.vmap(fg.grad(lambda cov: stats.multivariate_normal.cdf(np.zeros(2), cov=cov)))(covs)
    np.testing.assert_allclose(
        by_cov[1], fg.grad(lambda cov: stats.multivariate_normal.cdf(np.zeros(2), cov=cov))(covs[1])
    )


def test_multivariate_normal_is_as_accurate_as_scipys():
    rng = np.random.default_rng(0)
    for exponent in (0, 4, 8):
        basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        cov = basis @ np.diag(np.logspace(0, -exponent, 4)) @ basis.T
        cov = (cov + cov.T) / 2
        x, mean = rng.normal(size=4), rng.normal(size=4)
        expected = normal_reference(x, mean, cov)
        ours = float(fg.vjp(stats.multivariate_normal.logpdf, x, mean, cov)[0])
        theirs = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
        assert abs(ours - expected) <= 2 * abs(theirs - expected) + 1e-14 * 10**exponent * abs(expected)


def test_the_gradient_in_a_covariance_is_symmetric():
    x, mean, cov = table.POINT, table.CENTER, table.SPREAD
    inverse = np.linalg.inv(cov)
    away = inverse @ (x - mean)
    gx, gm, gc = fg.grad(stats.multivariate_normal.logpdf, argnums=(0, 1, 2))(x, mean, cov)
    np.testing.assert_allclose(gx.numpy(), -away, rtol=1e-13)
    np.testing.assert_allclose(gm.numpy(), away, rtol=1e-13)
    np.testing.assert_allclose(gc.numpy(), (np.outer(away, away) - inverse) / 2, rtol=1e-13)
    np.testing.assert_array_equal(gc.numpy(), gc.numpy().T)
    for f in (stats.multivariate_t.logpdf, lambda x, m, c: stats.wishart.logpdf(c, 5.0, cov)):
        found = fg.grad(f, argnums=2)(x, mean, cov).numpy()
        np.testing.assert_allclose(found, found.T, rtol=1e-13)


def test_points_of_any_shape():
    points = np.arange(24.0).reshape(2, 4, 3) / 10
    value = fg.vjp(lambda x: stats.multivariate_normal.logpdf(x, table.CENTER, table.SPREAD), points)[0]
    np.testing.assert_allclose(
        value.numpy(), scipy.stats.multivariate_normal.logpdf(points, table.CENTER, table.SPREAD), rtol=1e-13
    )


def test_a_batch_of_means_and_covariances():
    means, covs = table.POINTS, np.stack([table.SPREAD * k for k in (1.0, 2.0, 0.5, 1.5)])
    found = fg.vmap(lambda mean, cov: stats.multivariate_normal.logpdf(table.POINT, mean, cov))(means, covs)
    each = [scipy.stats.multivariate_normal.logpdf(table.POINT, m, c) for m, c in zip(means, covs, strict=True)]
    np.testing.assert_allclose(found.numpy(), each, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "method", "args"),
    [
        ("multivariate_normal", "logpdf", (np.zeros(2), np.zeros(2), -np.eye(2))),
        ("multivariate_normal", "logpdf", (np.zeros(2), np.zeros(2), np.ones((2, 2)))),
        ("multivariate_normal", "logpdf", (np.zeros(2), np.zeros(2), np.eye(3))),
        ("multivariate_normal", "entropy", (np.zeros(2), -np.eye(2))),
        ("multivariate_t", "logpdf", (np.zeros(2), np.zeros(2), np.eye(2), -1.0)),
        ("multivariate_t", "logpdf", (np.zeros(2), np.zeros(3), np.eye(2), 1.0)),
        ("dirichlet", "logpdf", (np.array([0.2, 0.7]), np.array([1.0, 2.0]))),
        ("dirichlet", "pdf", (np.array([0.2, 0.8]), np.array([-1.0, 2.0]))),
        ("dirichlet", "mean", (np.array([0.0, 2.0]),)),
        ("wishart", "logpdf", (np.eye(2), 0.5, np.eye(2))),
        ("wishart", "entropy", (0.5, np.eye(2))),
        ("invwishart", "logpdf", (np.eye(2), 5.0, np.ones((2, 3)))),
    ],
)
def test_what_scipy_refuses_is_refused_with_its_message(name, method, args):
    with pytest.raises(ValueError) as theirs:  # noqa: PT011  # its text is what the next lines compare
        getattr(scipys(name), method)(*args)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value))):
        fg.vjp(getattr(getattr(stats, name), method), *args)


def test_singular_covariances_are_refused_where_something_is_traced():
    singular = np.diag([1.0, 0.0])
    x = np.array([0.4, 0.0])
    expected = scipy.stats.multivariate_normal.logpdf(x, cov=singular, mean=np.zeros(2), allow_singular=True)
    assert stats.multivariate_normal.logpdf(x, np.zeros(2), singular, allow_singular=True) == expected
    assert stats.multivariate_normal(np.zeros(2), singular, allow_singular=True).logpdf(x) == expected
    with pytest.raises(fg.errors.ParameterError, match="allow_singular=True is not differentiable"):
        fg.grad(lambda x: stats.multivariate_normal.logpdf(x, np.zeros(2), singular, allow_singular=True))(x)
    with pytest.raises(fg.errors.ParameterError, match="allow_singular=True is not differentiable"):
        fg.grad(lambda x: stats.multivariate_normal(np.zeros(2), singular, allow_singular=True).pdf(x))(x)
    with pytest.raises(fg.errors.ParameterError, match="allow_singular=True is not differentiable"):
        fg.grad(lambda x: stats.multivariate_t.pdf(x, np.zeros(2), singular, 1, True))(x)


def test_a_covariance_object_is_a_constant():
    cov = scipy.stats.Covariance.from_diagonal([1.0, 4.0])
    gradient = fg.grad(lambda x: stats.multivariate_normal.logpdf(x, np.zeros(2), cov))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(gradient.numpy(), [-1.0, -0.5])


def test_frozen_distributions_of_vectors():
    def loss(x, mean):
        frozen = stats.multivariate_normal(mean, cov=table.SPREAD)
        return frozen.logpdf(x) + frozen.entropy()

    found = fg.grad(loss, argnums=1)(table.POINT, table.CENTER).numpy()
    np.testing.assert_allclose(found, np.linalg.solve(table.SPREAD, table.POINT - table.CENTER), rtol=1e-12)
    assert stats.wishart(5.0, np.eye(2)).mode().shape == (2, 2)
    assert stats.multinomial(3, [0.5, 0.5]).pmf([1, 2]) == pytest.approx(3 / 8)


def test_moments_of_the_inverse_wishart_distribution_that_do_not_exist():
    values = []
    fg.grad(lambda df: values.append(stats.invwishart.mean(df, np.eye(2))) or df)(2.5)
    fg.grad(lambda df: values.append(stats.invwishart.var(df, np.eye(2))) or df)(4.5)
    assert values == [None, None]


# Maximum likelihood by Newton's method


def newton(loss, start):
    """Minimize by Newton's steps, always downhill, and halved as long as the loss grows or is NaN."""
    x = np.asarray(start)
    for _ in range(50):
        gradient, hessian = fg.grad(loss)(x).numpy(), fg.hessian(loss)(x).numpy()
        curvatures, directions = np.linalg.eigh(hessian)
        step = directions @ (directions.T @ gradient / np.maximum(np.abs(curvatures), 1e-4))
        while not loss(x - step) <= loss(x) + 1e-14:
            step = step / 2
        x = x - step
    return x, fg.grad(loss)(x).numpy()


def exactly(function, start, args, disp):
    options = {"xtol": 1e-10, "ftol": 1e-12, "maxiter": 10_000, "maxfun": 10_000}
    return scipy.optimize.fmin(function, start, args=args, disp=disp, **options)


def test_a_gamma_distribution_is_fitted():
    data = scipy.stats.gamma.rvs(2.3, scale=1.7, size=400, random_state=np.random.default_rng(0))

    def loss(parameters):
        a, scale = parameters
        return -np.mean(stats.gamma.logpdf(data, a, scale=scale))

    found, score = newton(loss, [1.0, data.mean()])
    a, _, scale = scipy.stats.gamma.fit(data, floc=0)
    np.testing.assert_allclose(found, [a, scale], rtol=1e-5)
    np.testing.assert_allclose(score, 0, atol=1e-12)


def test_a_t_distribution_is_fitted():
    data = scipy.stats.t.rvs(4.0, loc=1.0, scale=2.0, size=500, random_state=np.random.default_rng(1))

    def loss(parameters):
        df, loc, scale = parameters
        return -np.mean(stats.t(df, loc, scale).logpdf(data))

    found, score = newton(loss, [6.0, np.median(data), 1.5])
    expected = scipy.stats.t.fit(data, optimizer=exactly)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(score, 0, atol=1e-12)


def test_a_gamma_distribution_is_fitted_to_censored_data():
    """What is known of some data is that they are larger than 4: their likelihood is `sf`, which depends on `a`."""
    data = scipy.stats.gamma.rvs(2.3, scale=1.7, size=300, random_state=np.random.default_rng(2))
    seen, count = data[data < 4], np.sum(data >= 4)

    def loss(parameters):
        frozen = stats.gamma(parameters[0], scale=parameters[1])
        return -(np.sum(frozen.logpdf(seen)) + count * frozen.logsf(4.0)) / data.size

    found, score = newton(loss, [1.5, 2.0])
    censored = scipy.stats.CensoredData.right_censored(np.minimum(data, 4.0), data >= 4)
    a, _, scale = scipy.stats.gamma.fit(censored, floc=0, optimizer=exactly)
    np.testing.assert_allclose(found, [a, scale], rtol=1e-5)
    np.testing.assert_allclose(score, 0, atol=1e-12)


@pytest.mark.parametrize("name", ["rayleigh", "gamma", "t", "lognorm", "pareto"])
def test_densities_of_a_batch_of_scales(name):
    law = getattr(stats, name)
    shapes = [1.5] * law.numargs
    x, scales = np.array([0.5, 1.0, 2.0, 3.0]), np.array([0.4, 0.3])

    def total(scale):
        return np.sum(law.pdf(x, *shapes, 0.0, scale) ** 2)

    for function in (total, fg.grad(total), lambda scale: fg.jvp(total, (scale,), (1.0,))[1]):
        np.testing.assert_allclose(fg.vmap(function)(scales), [function(scale) for scale in scales], rtol=1e-12)


SATURATED = [
    *((name, side * x, ()) for name in ("gumbel_l", "gumbel_r", "moyal") for side in (-1, 1) for x in (800.0, 1e5)),
    *((name, x, shapes) for x in (800.0, 1e5) for name, shapes in (("gompertz", (0.3,)), ("loggamma", (0.3,)))),
    ("maxwell", 1e200, ()), ("chi", 1e200, (0.8,)), ("nakagami", 1e200, (0.8,)), ("gennorm", 1e100, (7.3,)),
    ("weibull_min", 1e100, (7.3,)), ("weibull_max", -1e100, (7.3,)), ("invweibull", 1e-300, (0.8,)),
    ("powernorm", 1e200, (0.3,)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "x", "shapes"), SATURATED)
def test_where_a_tail_is_0_or_1_its_derivatives_are_0(name, x, shapes):
    for method in ("cdf", "sf"):
        function, places = getattr(getattr(stats, name), method), tuple(range(1 + len(shapes)))
        value, slopes = fg.value_and_grad(function, places)(x, *shapes)
        assert value == getattr(getattr(scipy.stats, name), method)(x, *shapes)
        if value in (0.0, 1.0) and not getattr(stats, name).logpdf(x, *shapes) > -700:
            assert all(slope == 0 for slope in slopes)
            assert name != "gumbel_r" or fg.compile(fg.grad(function))(x) == 0
            assert fg.vmap(fg.grad(lambda x, f=function: f(x, *shapes)))(np.array([x]))[0] == 0


@pytest.mark.parametrize("x", [-2000.0, -800.0, -708.5, -708.3, -5.0])
@pytest.mark.parametrize("c", [1e-3, 0.3])
def test_the_logarithm_of_a_gamma_number_is_far_below_0(x, c):
    law, scipys = stats.loggamma, scipy.stats.loggamma
    for method in ("cdf", "sf", "logcdf", "logsf"):
        value, slope = fg.value_and_grad(getattr(law, method))(x, c)
        np.testing.assert_allclose(value, getattr(scipys, method)(x, c), rtol=1e-10)
    slope = fg.grad(law.cdf)(x, c)
    np.testing.assert_allclose(slope, scipys.pdf(x, c), rtol=1e-10)
    q = scipys.cdf(x, c)
    np.testing.assert_allclose(fg.value_and_grad(law.ppf)(q, c), [x, 1 / scipys.pdf(x, c)], rtol=1e-9)


@pytest.mark.parametrize("q", [1e-8, 1e-30, 1e-300])
def test_quantiles_of_a_truncated_normal_number_far_above_its_center(q):
    found, slope = fg.value_and_grad(stats.truncnorm.isf)(q, -1.0, 50.0)
    expected = scipy.special.ndtri_exp(np.log(q * scipy.special.ndtr(1.0)))
    np.testing.assert_allclose(found, -expected, rtol=1e-12)
    np.testing.assert_allclose(slope, -1 / scipy.stats.truncnorm.pdf(-expected, -1.0, 50.0), rtol=1e-9)


@pytest.mark.parametrize(("name", "q", "shapes"), [("gamma", 1e-120, (0.3,)), ("beta", 1 - 1e-12, (0.3, 0.3))])
def test_a_quantile_that_is_rounded_to_an_end_has_no_slope(name, q, shapes):
    places = tuple(range(1 + len(shapes)))
    value, slopes = fg.value_and_grad(getattr(stats, name).ppf, places)(q, *shapes)
    assert value in (0.0, 1.0)
    assert all(slope == 0 for slope in slopes)
