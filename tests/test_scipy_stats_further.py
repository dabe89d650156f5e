"""The further distributions of `fgrad.scipy.stats`: tails against 50 digits, second derivatives, edges."""

import functools
import pickle

import numpy as np
import pytest
import scipy.stats
import scipy_stats_table as table
from helpers import in_every_order
from mpmath import mp

import fgrad as fg
from fgrad.scipy import stats

PI = mp.pi


@pytest.fixture(autouse=True)
def quiet_and_exact():
    with np.errstate(all="ignore"), mp.workdps(50):
        yield


def shapes_of(name):
    return tuple(float(shape[1]) for shape in table.FURTHER[name][1:])


# Tails, of which both ends have all of their digits, in the value and in the slopes


def extreme(x, c):
    return mp.exp(-mp.exp(mp.log1p(-c * x) / c))


def skewed(x, a):
    points = [x - 4, *(x - mp.mpf(k * k) / 100 for k in range(14, -1, -1))]
    return 2 * mp.quad(lambda t: mp.npdf(t) * mp.ncdf(a * t), points)


def passage(x, mu, sign):
    root = mp.sqrt(x)
    first = mp.ncdf(sign * (x / mu - 1) / root)
    return first + sign * mp.exp(2 / mu) * mp.ncdf(-(x / mu + 1) / root)


def ricean(x, b, upper):
    end = x + 12 if upper else 0
    density = lambda t: t * mp.exp(-(t * t + b * b) / 2) * mp.besseli(0, t * b)  # noqa: E731
    points = [x, x + 1, x + 3, end] if upper else [end, x]
    return mp.quad(density, points)


def gammas(x, a, upper):
    return mp.gammainc(a, x, regularized=True) if upper else mp.gammainc(a, 0, x, regularized=True)


def betas(x, a, b):
    return x**a * (1 - x) ** b / a / mp.beta(a, b) * mp.hyp2f1(a + b, 1, a + 1, x)


LOW = {
    "gumbel_l": (-900.0, (), lambda x: -mp.expm1(-mp.exp(x))),
    "genextreme": (-2.9, (-0.3,), extreme),
    "genpareto": (1e-11, (-0.4,), lambda x, c: -mp.expm1(-mp.log1p(c * x) / c)),
    "lomax": (1e-11, (2.5,), lambda x, c: -mp.expm1(-c * mp.log1p(x))),
    "invweibull": (0.02, (2.5,), lambda x, c: mp.exp(-(x**-c))),
    "gompertz": (1e-11, (1.5,), lambda x, c: -mp.expm1(-c * mp.expm1(x))),
    "moyal": (-9.0, (), lambda x: mp.erfc(mp.exp(-x / 2) / mp.sqrt(2))),
    "fisk": (1e-90, (3.5,), lambda x, c: 1 / (1 + x**-c)),
    "burr12": (1e-12, (2.5, 1.5), lambda x, c, d: 1 - (1 + x**c) ** -d),
    "halfcauchy": (1e-12, (), lambda x: 2 / PI * mp.atan(x)),
    "halflogistic": (1e-12, (), lambda x: mp.tanh(x / 2)),
    "maxwell": (1e-150, (), lambda x: gammas(x * x / 2, mp.mpf(3) / 2, upper=False)),
    "nakagami": (1e-9, (2.5,), lambda x, nu: gammas(nu * x * x, nu, upper=False)),
    "rice": (1e-7, (1.5,), lambda x, b: ricean(x, b, upper=False)),
    "hypsecant": (-900.0, (), lambda x: 2 / PI * mp.atan(mp.exp(x))),
    "genlogistic": (-300.0, (2.5,), lambda x, c: (1 + mp.exp(-x)) ** -c),
    "skewnorm": (-11.0, (3.0,), skewed),
    "levy": (1e-3, (), lambda x: mp.erfc(1 / mp.sqrt(2 * x))),
    "invgauss": (0.002, (1.5,), functools.partial(passage, sign=1)),
    "loggamma": (-900.0, (2.5,), lambda x, c: gammas(mp.exp(x), c, upper=False)),
    "laplace_asymmetric": (-900.0, (1.5,), lambda x, k: mp.exp(x / k) * k / (k + 1 / k)),
    "betaprime": (1e-90, (2.5, 1.5), lambda x, a, b: betas(x / (1 + x), a, b)),
    "powernorm": (-50.0, (2.5,), lambda x, c: -mp.expm1(c * mp.log1p(-mp.ncdf(x)))),
    "arcsine": (1e-12, (), lambda x: 2 / PI * mp.asin(mp.sqrt(x))),
}
"""For each distribution a point in the lower tail, shape parameters, and the distribution function."""

HIGH = {
    "genextreme": (60.0, (-0.02,), lambda x, c: -mp.expm1(-mp.exp(mp.log1p(-c * x) / c))),
    "genpareto": (1e3, (0.02,), lambda x, c: mp.exp(-mp.log1p(c * x) / c)),
    "invweibull": (1e60, (2.5,), lambda x, c: -mp.expm1(-(x**-c))),
    "weibull_max": (-1e-12, (2.5,), lambda x, c: -mp.expm1(-((-x) ** c))),
    "powerlaw": (1 - 2.0**-50, (2.5,), lambda x, a: 1 - x**a),
    "moyal": (80.0, (), lambda x: mp.erf(mp.exp(-x / 2) / mp.sqrt(2))),
    "halfcauchy": (1e12, (), lambda x: 2 / PI * mp.acot(x)),
    "rice": (9.0, (1.5,), lambda x, b: ricean(x, b, upper=True)),
    "genlogistic": (900.0, (2.5,), lambda x, c: -mp.expm1(-c * mp.log1p(mp.exp(-x)))),
    "skewnorm": (12.0, (-2.0,), lambda x, a: skewed(-x, -a)),
    "invgauss": (300.0, (0.5,), functools.partial(passage, sign=-1)),
    "wald": (50.0, (), lambda x: passage(x, mp.mpf(1), -1)),
    "gennorm": (30.0, (2.3,), lambda x, beta: gammas(x**beta, 1 / beta, upper=True) / 2),
    "betaprime": (1e60, (2.5, 1.5), lambda x, a, b: betas(1 / (1 + x), b, a)),
    "loguniform": (2.0 - 2.0**-45, (0.5, 2.0), lambda x, a, b: mp.log(b / x) / mp.log(b / a)),
}
"""The same of the upper tail."""


def assert_accurate(name, method, x, shapes, reference):
    """Compare values, unless they are 0 in double precision, and slopes in multiples of `x` and in the shapes."""
    f = getattr(getattr(stats, name), method)
    places = tuple(range(1 + len(shapes)))
    value, slopes = fg.value_and_grad(lambda u, *shapes: f(u * x, *shapes), argnums=places)(1.0, *shapes)

    def exactly(u, *shapes):
        return mp.log(reference(u * mp.mpf(x), *shapes))

    args = tuple(map(mp.mpf, (1.0, *shapes)))
    with mp.workdps(20 if name == "rice" else 200 if name in DIFFERENCES else 40):
        expected = [float(mp.diff(exactly, args, tuple(row))) for row in np.eye(len(args), dtype=int).tolist()]
        exact = float(exactly(*args))
    if np.isfinite(float(value)):
        np.testing.assert_allclose(float(value), exact, rtol=1e-12)
    else:
        assert value == getattr(getattr(scipy.stats, name), method)(x, *shapes)
    np.testing.assert_allclose(list(map(float, slopes)), expected, rtol=2e-11)


DIFFERENCES = ("burr12", "fisk", "invgauss", "wald", "betaprime")
"""Distributions whose formulas lose digits."""


@pytest.mark.parametrize("name", LOW)
def test_lower_tails(name):
    x, shapes, reference = LOW[name]
    assert_accurate(name, "logcdf", x, shapes, reference)


@pytest.mark.parametrize("name", HIGH)
def test_upper_tails(name):
    x, shapes, reference = HIGH[name]
    assert_accurate(name, "logsf", x, shapes, reference)


# Quantiles, second derivatives


@pytest.mark.parametrize("name", ["skewnorm", "rice", "invgauss"])
def test_a_quantile_without_a_closed_form_undoes_its_tail(name):
    """To second order: F(ppf(q, a), a) is `q`, whatever the shape."""
    distribution, (a,) = getattr(stats, name), shapes_of(name)
    for tail, quantile in ((distribution.cdf, distribution.ppf), (distribution.sf, distribution.isf)):

        def round_trip(q, a, tail=tail, quantile=quantile):
            return tail(quantile(q, a), a)

        np.testing.assert_allclose(np.array(fg.grad(round_trip, argnums=(0, 1))(0.3, a), float), [1, 0], atol=1e-10)
        bends = np.array(fg.hessian(round_trip, argnums=(0, 1))(0.3, a), float)
        np.testing.assert_allclose(bends, 0, atol=1e-8)


@pytest.mark.parametrize(
    ("method", "q", "a", "b"),
    [("ppf", 0.99, 1.0, 0.1), ("ppf", 0.99, 2.0, 0.1), ("isf", 1e-12, 25.0, 0.05), ("isf", 0.9999999, 0.05, 0.3)],
)
def test_odds_of_a_probability_that_rounds_to_one(method, q, a, b):
    near_zero = q > 0.99
    exact = list(map(mp.mpf, (q, a, b)))

    def log_size(q, a, b):
        """Return abs(log(x)) for large or small odds x: the tail is share^c / (c beta(a, b)) for a share near 0."""
        near, far = (a, b) if near_zero else (b, a)
        tail = 1 - q if near_zero or method == "ppf" else q
        first = mp.log(tail * near * mp.beta(a, b)) / near
        share = mp.findroot(lambda log_share: mp.log(betas(mp.exp(log_share), near, far) / tail), first)
        return mp.log1p(-mp.exp(share)) - share

    sign = -1 if near_zero else 1
    value, slopes = fg.value_and_grad(getattr(stats.betaprime, method), argnums=(0, 1, 2))(q, a, b)
    np.testing.assert_allclose(float(value), float(mp.exp(sign * log_size(*exact))), rtol=1e-11)
    for place, slope in enumerate(slopes):
        orders = [int(place == each) for each in range(3)]
        relative = sign * mp.diff(log_size, exact, orders, h=mp.mpf(10) ** -25)
        np.testing.assert_allclose(float(slope), float(relative * mp.exp(sign * log_size(*exact))), rtol=1e-11)


@pytest.mark.parametrize("name", table.FURTHER)
def test_second_derivatives(name):
    """A Hessian, forward over reverse, is the difference of gradients, of the density and of its tail."""
    distribution, x = getattr(stats, name), float(table.FURTHER[name][0][2])
    args = np.array([x, *(float(shape[2]) for shape in table.FURTHER[name][1:])])

    def value(args):
        return distribution.logpdf(*args) + distribution.cdf(*args)

    gradient, step = fg.grad(value), 1e-5 * np.eye(len(args))
    differences = [(gradient(args + each).numpy() - gradient(args - each).numpy()) / 2e-5 for each in step]
    found = np.stack([fg.jvp(gradient, (args,), (each,))[1].numpy() for each in np.eye(len(args))])
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-8)


# Limits of the generalized families


@pytest.mark.parametrize("c", [0.0, 1e-12, -1e-7, 1e-3, 0.31, -0.29])
def test_generalized_extremes_are_smooth_at_zero(c):
    """Where `c` is 0, too: the references have a difference there, and 50 digits."""

    def power(x, c):
        return mp.log1p(-c * x) / c if c else -x

    shift = mp.mpf(10) ** -12 if c == 0 else 0

    def log_density(x, c):
        u = power(x, c)
        return -mp.exp(u) + (1 - c) * u

    x = 1.7
    for place in range(2):
        order = [(1, 0), (0, 1)][place]
        expected = float(mp.diff(log_density, (mp.mpf(x), mp.mpf(c) + shift), order))
        found = float(fg.grad(stats.genextreme.logpdf, argnums=place)(x, c))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("c", [0.0, 1e-9, -1e-3, 0.14, 0.29, 0.31, -0.4])
def test_moments_of_generalized_extremes_do_not_cancel(c):
    exact = mp.mpf(c) + (mp.mpf(10) ** -16 if c == 0 else 0)
    mean = lambda c: (1 - mp.gamma(1 + c)) / c  # noqa: E731
    var = lambda c: (mp.gamma(1 + 2 * c) - mp.gamma(1 + c) ** 2) / c**2  # noqa: E731
    for method, reference in (("mean", mean), ("var", var)):
        value, slope = fg.value_and_grad(getattr(stats.genextreme, method))(c)
        with mp.workdps(100):
            expected = float(reference(exact)), float(mp.diff(reference, exact, h=mp.mpf(10) ** -24))
        np.testing.assert_allclose([float(value), float(slope)], expected, rtol=2e-13 if abs(c) < 0.3 else 1e-11)


def test_special_cases_are_the_simpler_distributions():
    x = np.array([0.3, 1.2, 2.5])
    for ours, simple in (
        (lambda x: stats.genextreme.logpdf(x, 0.0), scipy.stats.gumbel_r.logpdf),
        (lambda x: stats.genpareto.logsf(x, 0.0), scipy.stats.expon.logsf),
        (lambda x: stats.skewnorm.logcdf(x, 0.0), scipy.stats.norm.logcdf),
        (lambda x: stats.gennorm.cdf(x, 1.0), scipy.stats.laplace.cdf),
        (lambda x: stats.rice.logpdf(x, 0.0), scipy.stats.rayleigh.logpdf),
        (lambda x: stats.laplace_asymmetric.logcdf(x, 1.0), scipy.stats.laplace.logcdf),
    ):
        np.testing.assert_allclose(fg.vjp(ours, x)[0].numpy(), simple(x), rtol=1e-12)


# Outside of the support, and at its ends


@pytest.mark.parametrize("name", table.FURTHER)
def test_outside_of_the_support_derivatives_are_exactly_zero(name):
    shapes = shapes_of(name)
    start, end = getattr(scipy.stats, name).support(*shapes)
    places = tuple(range(1 + len(shapes)))
    for x, below in ((start - 1, True), (end + 1, False)):
        for method, expected in (("logpdf", -np.inf), ("cdf", 1.0 - below), ("logsf", 0.0 if below else -np.inf)):
            value, slopes = fg.value_and_grad(getattr(getattr(stats, name), method), argnums=places)(float(x), *shapes)
            assert float(value) == expected, (method, x)
            np.testing.assert_array_equal(list(map(float, slopes)), 0)


@pytest.mark.parametrize("name", table.FURTHER)
def test_at_the_ends_of_the_support_nothing_is_nan(name):
    shapes = shapes_of(name)
    for x in getattr(scipy.stats, name).support(*shapes):
        if np.isfinite(x):
            for method in ("logpdf", "cdf", "logcdf", "sf"):
                f = getattr(getattr(stats, name), method)
                value, slopes = fg.value_and_grad(f, argnums=tuple(range(1 + len(shapes))))(float(x), *shapes)
                np.testing.assert_allclose(float(value), getattr(getattr(scipy.stats, name), method)(x, *shapes))
                assert np.isfinite(list(map(float, slopes))).all(), method


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        *(("fisk", (1.0,)), ("fisk", (0.5,)), ("burr12", (1.0, 2.0)), ("powerlaw", (1.0,)), ("powerlaw", (0.6,))),
        *(("betaprime", (1.0, 2.0)), ("betaprime", (0.5, 2.0)), ("betaprime", (3.0, 2.0))),
    ],
)
def test_densities_at_zero_are_scipys(name, shapes):
    for method in ("pdf", "logpdf"):
        value = fg.vjp(getattr(getattr(stats, name), method), 0.0, *shapes)[0]
        assert float(value) == getattr(getattr(scipy.stats, name), method)(0.0, *shapes)


@pytest.mark.parametrize("name", [*table.CONTINUOUS, *table.FURTHER])
def test_slopes_at_zero_at_the_median_and_between_are_differences(name):
    """These are places at which formulas change."""
    ours, scipys = getattr(stats, name), getattr(scipy.stats, name)
    args = table.FURTHER[name] if name in table.FURTHER else table.CONTINUOUS[name][0]
    shapes = [float(shape[1]) for shape in args[1:]]
    x, h = np.array([0.0, 1.0, float(scipys.median(*shapes)), *scipys.ppf([0.1, 0.8], *shapes)]), 1e-6
    for method in table.OF_X:
        f = functools.partial(lambda x, method: getattr(scipys, method)(x, *shapes), method=method)
        value, slope = fg.jvp(lambda x, method=method: getattr(ours, method)(x, *shapes), (x,), (np.ones(5),))
        np.testing.assert_allclose(value, f(x), rtol=1e-9, atol=1e-13)
        right, left = (f(x + h) - f(x)) / h, (f(x) - f(x - h)) / h
        smooth = np.abs(right - left) < 1e-4 * np.abs(right) + 1e-6
        assert smooth[2:].any()
        np.testing.assert_allclose(slope.numpy()[smooth], ((right + left) / 2)[smooth], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("beta", [0.3, 0.5, 1.0, 1.5, 2.0])
def test_the_scale_of_the_generalized_normal_density_at_its_cusp(beta):
    """The logarithm is log(beta / 2 scale) - log gamma(1 / beta) there."""
    of_shape, of_scale = fg.grad(stats.gennorm.logpdf, argnums=(1, 3))(0.7, beta, 0.7, 0.5)
    np.testing.assert_allclose(
        [float(of_shape), float(of_scale)], [float((1 + mp.digamma(1 / beta) / beta) / beta), -2.0]
    )
    value, slope = fg.jvp(lambda scale: stats.gennorm.pdf(0.7, beta, 0.7, scale), (0.5,), (1.0,))
    np.testing.assert_allclose(float(slope), -2 * float(value))


def test_moments_that_are_infinite():
    for distribution, c in ((stats.genpareto, 1.2), (stats.lomax, 0.8), (stats.invweibull, 0.9)):
        assert float(fg.vjp(distribution.mean, c)[0]) == np.inf
    assert float(fg.vjp(stats.invweibull.var, 1.7)[0]) == np.inf  # SciPy's formula does not hold there


@pytest.mark.parametrize("name", ["gompertz", "rice", "skewnorm", "johnsonsb"])
def test_what_has_no_closed_form_says_so(name):
    method = "entropy" if name in ("rice", "skewnorm") else "var"
    message = f"scipy.stats.{name}.{method} has no derivative rule"
    with pytest.raises(fg.errors.MissingRuleError, match=message):
        fg.grad(getattr(getattr(stats, name), method))(*shapes_of(name))


def test_they_can_be_pickled_and_frozen():
    for name in table.FURTHER:
        distribution = getattr(stats, name)
        assert pickle.loads(pickle.dumps(distribution)) is distribution
        assert distribution.shape_names == (getattr(scipy.stats, name).shapes or "").replace(",", "").split()
    slope = fg.grad(lambda c: stats.genextreme(c, 1.0, scale=2.0).logpdf(2.3))(0.2)
    assert float(slope) == pytest.approx(float(fg.grad(stats.genextreme.logpdf, argnums=1)(2.3, 0.2, 1.0, 2.0)))


def test_extremes_are_fitted_by_their_likelihood():
    data = scipy.stats.genextreme.rvs(-0.1, 3.0, 2.0, size=200, random_state=np.random.default_rng(0))

    def loss(parameters):
        return -np.mean(stats.genextreme.logpdf(data, *parameters))

    found = np.array([0.0, *scipy.stats.gumbel_r.fit(data)])
    for _ in range(8):
        found = found - np.linalg.solve(fg.hessian(loss)(found).numpy(), fg.grad(loss)(found).numpy())
    np.testing.assert_allclose(fg.grad(loss)(found).numpy(), 0, atol=1e-11)
    np.testing.assert_allclose(found, scipy.stats.genextreme.fit(data), rtol=1e-3)


@pytest.mark.parametrize(
    ("distribution", "point", "expected"),
    [
        ("fisk", (0.0, 1.0), {(0,): -2.0, (0, 0): 2.0, (1,): -np.inf, (0, 1): np.inf, (1, 1): -1.0}),
        ("burr12", (0.0, 1.0, 2.0), {(0,): -3.0, (0, 0): 3.0, (0, 1): np.inf, (0, 2): -1.0, (2, 2): -0.25}),
        ("gamma", (0.0, 1.0), {(0,): -1.0, (0, 0): 0.0, (0, 1): np.inf}),
        ("chi2", (0.0, 2.0), {(0,): -0.5, (0, 0): 0.0, (0, 1): np.inf}),
        ("beta", (0.0, 1.0, 3.0), {(0,): -2.0, (0, 0): -2.0, (0, 1): np.inf, (0, 2): -1.0}),
        ("weibull_min", (0.0, 1.0), {(0,): -1.0, (0, 0): 0.0, (0, 1): np.inf}),
    ],
)
def test_log_densities_that_begin_with_a_step(distribution, point, expected):
    """With the power 0 of x at 0, whose exponent is a shape parameter."""
    found = in_every_order(getattr(stats, distribution).logpdf, point, 2)
    for places, value in expected.items():
        np.testing.assert_allclose(found[places], value, atol=1e-12, err_msg=str(places))
