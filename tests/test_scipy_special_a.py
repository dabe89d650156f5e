"""Special functions of statistics and information theory: the table, 50 digits, edges, refusals.

scipy_special_table_a.py    the calls that are checked against SciPy's values and finite differences
VALUES, SLOPES              derivatives against mpmath: tails, poles, large arguments, removable points
EDGES                       derivatives where calculus leaves a choice, or none
"""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
import scipy.special as special
import scipy_special_table_a as table
from coverage_table import DIFFERENTIABLE, IN_PIECES, NOT_SUPPORTED, look_up
from helpers import grouped, in_every_order, naming
from rows import arrays, check_calls, with_calls

import fgrad as fg
import fgrad.scipy.special as ours
from fgrad.core.primitive import PRIMITIVES, UFUNCS
from fgrad.errors import InPlaceError, NoClosedFormError
from fgrad.scipy import stats
from fgrad.scipy.special._declaring import NOT_SAMPLED

INF, NAN = np.inf, np.nan
SMALLEST = mp.mpf(2) ** -1074
"""The distance between numbers next to 0."""


@pytest.fixture(autouse=True)
def scipys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def rows_of(*kinds):
    return [row for row in table.ROWS if row.kind in kinds]


# The table


COMPARABLE = [row for row in rows_of(DIFFERENTIABLE, IN_PIECES) if row.names[0] != "scipy.special.ncfdtrinc"]
"""Those whose values are accurate enough for finite differences; the other one has a test of its own."""


@pytest.mark.parametrize("row", with_calls(COMPARABLE))
def test_values_derivatives_precision_and_batches(row):
    check_calls(row)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in rows_of(NOT_SUPPORTED)])
def test_what_has_no_closed_form_says_so_in_every_argument(row):
    for call in row.calls:
        for place, x in enumerate(call.points):

            def f(x, place=place, call=call):
                return call.function(*call.points[:place], x, *call.points[place + 1 :])

            with pytest.raises(row.error, match=re.escape(f"{row.names[0]} has no closed-form derivative")):
                fg.vjp(f, x)
            with pytest.raises(row.error, match=re.escape(f"{row.names[0]} has no closed-form derivative")):
                fg.jvp(f, (x,), (x,))
        with pytest.raises(row.error, match=re.escape(row.match)):
            fg.vjp(call.function, *call.points)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.names[0]) for row in rows_of(NOT_SUPPORTED)])
def test_what_has_no_closed_form_has_values(row):
    """For tensors that nothing follows, and for batches of them."""
    (call,) = row.calls
    expected = call.function(*call.points)
    np.testing.assert_array_equal(call.function(*map(fg.constant, call.points)), expected)
    np.testing.assert_array_equal(fg.vmap(call.function)(*call.points), expected)


def test_the_names_in_the_table_exist_and_have_one_row():
    names = [name for row in table.ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert [name for name in names if look_up(name) is None] == []


# Arguments without a closed form


ARGUMENTS = [
    ("gammainc", "a", lambda a: special.gammainc(a, 0.2), "gamma.cdf(x, a)", lambda a: stats.gamma.cdf(0.2, a)),
    ("gammaincc", "a", lambda a: special.gammaincc(a, 0.2), "gamma.sf(x, a)", lambda a: stats.gamma.sf(0.2, a)),
    ("gammaincinv", "a", lambda a: special.gammaincinv(a, 0.2), "gamma.ppf(y, a)", lambda a: stats.gamma.ppf(0.2, a)),
    ("gammainccinv", "a", lambda a: special.gammainccinv(a, 0.2), "gamma.isf(y, a)", lambda a: stats.gamma.isf(0.2, a)),
    (
        "betainc",
        "a",
        lambda a: special.betainc(a, 1.2, 0.3),
        "beta.cdf(x, a, b)",
        lambda a: stats.beta.cdf(0.3, a, 1.2),
    ),
    (
        "betainc",
        "b",
        lambda b: special.betainc(1.2, b, 0.3),
        "beta.cdf(x, a, b)",
        lambda b: stats.beta.cdf(0.3, 1.2, b),
    ),
    (
        "betaincc",
        "a",
        lambda a: special.betaincc(a, 1.2, 0.3),
        "beta.sf(x, a, b)",
        lambda a: stats.beta.sf(0.3, a, 1.2),
    ),
    (
        "betaincinv",
        "a",
        lambda a: special.betaincinv(a, 1.2, 0.3),
        "beta.ppf(y, a, b)",
        lambda a: stats.beta.ppf(0.3, a, 1.2),
    ),
    (
        "betainccinv",
        "b",
        lambda b: special.betainccinv(1.2, b, 0.3),
        "beta.isf(y, a, b)",
        lambda b: stats.beta.isf(0.3, 1.2, b),
    ),
    ("stdtr", "df", lambda df: special.stdtr(df, 0.3), "t.cdf(t, df)", lambda df: stats.t.cdf(0.3, df)),
    ("stdtrit", "df", lambda df: special.stdtrit(df, 0.3), "t.ppf(p, df)", lambda df: stats.t.ppf(0.3, df)),
    ("fdtr", "dfn", lambda n: special.fdtr(n, 2.5, 0.3), "f.cdf(x, dfn, dfd)", lambda n: stats.f.cdf(0.3, n, 2.5)),
    ("fdtrc", "dfd", lambda n: special.fdtrc(2.5, n, 0.3), "f.sf(x, dfn, dfd)", lambda n: stats.f.sf(0.3, 2.5, n)),
    ("fdtri", "dfd", lambda n: special.fdtri(2.5, n, 0.3), "f.ppf(p, dfn, dfd)", lambda n: stats.f.ppf(0.3, 2.5, n)),
    ("gdtr", "b", lambda b: special.gdtr(2.5, b, 0.3), "gamma.cdf(a * x, b)", lambda b: stats.gamma.cdf(2.5 * 0.3, b)),
    ("gdtrc", "b", lambda b: special.gdtrc(2.5, b, 0.3), "gamma.sf(a * x, b)", lambda b: stats.gamma.sf(2.5 * 0.3, b)),
    (
        "gdtrix",
        "b",
        lambda b: special.gdtrix(2.5, b, 0.3),
        "gamma.ppf(p, b) / a",
        lambda b: stats.gamma.ppf(0.3, b) / 2.5,
    ),
    (
        "gdtria",
        "b",
        lambda b: special.gdtria(0.3, b, 2.5),
        "gamma.ppf(p, b) / x",
        lambda b: stats.gamma.ppf(0.3, b) / 2.5,
    ),
    ("chdtr", "v", lambda v: special.chdtr(v, 0.3), "chi2.cdf(x, v)", lambda v: stats.chi2.cdf(0.3, v)),
    ("chdtrc", "v", lambda v: special.chdtrc(v, 0.3), "chi2.sf(x, v)", lambda v: stats.chi2.sf(0.3, v)),
    ("chdtri", "v", lambda v: special.chdtri(v, 0.3), "chi2.isf(p, v)", lambda v: stats.chi2.isf(0.3, v)),
    ("chndtr", "df", lambda v: special.chndtr(2.0, v, 0.3), "Let 'df' be a constant", None),
    ("chndtrix", "df", lambda v: special.chndtrix(0.3, v, 0.3), "Let 'df' be a constant", None),
    ("ncfdtr", "dfn", lambda v: special.ncfdtr(v, 2.0, 0.3, 1.2), "Let 'dfn' be a constant", None),
    ("nctdtr", "df", lambda v: special.nctdtr(v, 0.3, 1.2), "Let 'df' be a constant", None),
    ("zeta", "x", lambda x: ours.zeta(x, 1.5), "Let 'x' be a constant", None),
    ("zeta", "x", lambda x: ours.zeta(x), "Let 'x' be a constant", None),
    ("polygamma", "n", lambda n: ours.polygamma(n, 1.5), "It must be an integer", None),
    ("pdtr", "k", lambda k: special.pdtr(k, 1.5), "It must be an integer", None),
    ("bdtr", "n", lambda n: special.bdtr(2.0, n, 0.3), "It must be an integer", None),
    ("bdtri", "k", lambda k: special.bdtri(k, 5.0, 0.3), "It must be an integer", None),
    ("nbdtrc", "k", lambda k: special.nbdtrc(k, 5.0, 0.3), "It must be an integer", None),
    ("smirnov", "n", lambda n: special.smirnov(n, 0.3), "It must be an integer", None),
    ("smirnovi", "n", lambda n: special.smirnovi(n, 0.3), "It must be an integer", None),
]


@pytest.mark.filterwarnings("ignore:non-integer arg n is deprecated")
@pytest.mark.parametrize(
    ("function", "argument", "f", "instead", "written_so"),
    [pytest.param(*row, id=f"{row[0]} by {row[1]} {number}") for number, row in enumerate(ARGUMENTS)],
)
def test_an_argument_without_a_closed_form_says_what_to_do(function, argument, f, instead, written_so):
    expected = rf"scipy\.special\.{function} has no closed-form derivative .* argument '{argument}'(.|\n)*"
    with pytest.raises(NoClosedFormError, match=expected + re.escape(instead)):
        fg.grad(f)(2.0)
    with pytest.raises(NoClosedFormError, match=expected + re.escape(instead)):
        fg.jvp(f, (2.0,), (1.0,))
    if written_so is not None:  # what the error says to write
        difference = (f(2.0001) - f(1.9999)) / 0.0002
        np.testing.assert_allclose(written_so(2.0), f(2.0), rtol=1e-10)
        np.testing.assert_allclose(fg.grad(written_so)(2.0), difference, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: special.pdtr(np.floor(x).astype(int), x),
        lambda x: special.bdtr(np.floor(x).astype(int), 5, x / 4),
        lambda x: special.smirnov(np.floor(x).astype(int), x / 4),
        lambda x: special.gammainc(np.floor(x).astype(int), x),
        lambda x: ours.polygamma(np.floor(x).astype(int), x),
    ],
)
def test_integers_that_are_traced_are_constants(f):
    step = 1e-6
    difference = (f(np.float64(2.3 + step)) - f(np.float64(2.3 - step))) / (2 * step)
    np.testing.assert_allclose(fg.grad(f)(2.3), difference, rtol=1e-8)
    np.testing.assert_allclose(fg.jvp(f, (2.3,), (1.0,))[1], difference, rtol=1e-8)


# Derivatives against many digits


def derivative(f, place, point, order=1):
    def of_one(x):
        return f(*point[:place], x, *point[place + 1 :])

    for _ in range(order):
        of_one = fg.grad(of_one)
    return float(of_one(point[place]))


def difference(f, place, point, order):
    """Return the central difference of a function of mpmath, with steps that are small beside the argument."""
    x = point[place]
    step = (abs(x) if x else 1) * mp.mpf(10) ** (-mp.mp.dps // 4)

    def at(shift):
        return f(*point[:place], x + shift * step, *point[place + 1 :])

    return (at(1) - at(-1)) / (2 * step) if order == 1 else (at(1) - 2 * at(0) + at(-1)) / step**2


def values(name, f, reference, *points, places=(0,), digits=50, order=1, rtol=1e-10):
    """Return cases: a function, and the same function of mpmath, which is differentiated there."""
    points = [point if isinstance(point, tuple) else (point,) for point in points]
    return [
        pytest.param(f, reference, place, point, digits, order, rtol, id=f"{name} by {place} at {point}, order {order}")
        for place in places
        for point in points
    ]


def log_gamma(x):
    return mp.loggamma(x)


def log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def scaled_erfc(x):
    return mp.exp(x * x) * mp.erfc(x)


def dawson(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def transform(x, lmbda):
    return (x**lmbda - 1) / lmbda


def inverse_transform(y, lmbda):
    return (1 + lmbda * y) ** (1 / lmbda)


def degrees(f):
    return lambda x: f(x * mp.pi / 180)


def log_normal(x):
    """Return the logarithm of the normal distribution, far out by its asymptotic series."""
    if x > -1e3:
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)
    series = mp.fsum((-1) ** k * mp.fac2(2 * k - 1) / x ** (2 * k) for k in range(8))
    return -x * x / 2 - mp.log(-x * mp.sqrt(2 * mp.pi)) + mp.log(series)


def owen(h, a):
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def smirnov(n, d):
    terms = range(int(mp.floor(n * (1 - d))) + 1)
    return d * mp.fsum(
        mp.binomial(n, j) * (d + mp.mpf(j) / n) ** (j - 1) * (1 - d - mp.mpf(j) / n) ** (n - j) for j in terms
    )


def kolmogorov(y):
    return 2 * mp.fsum((-1) ** (k - 1) * mp.exp(-2 * k * k * y * y) for k in range(1, int(40 / y) + 5))


LEFT = (-0.5, -1.5, -3.0001, -20.5, -100.3)
POSITIVE = (1e-10, 0.3, 1.0, 1.46, 2.5, 30.3)
EXPONENTS = (-700.0, -50.0, -3.0, -1e-5, 0.0, 1e-8, 0.3, 2.0, 40.0, 700.0)
QUOTIENTS = ((0.5, 0.3), (1.0, 1.0 + 1e-10), (1e-300, 1e300), (1e150, 1e-150), (2.0, 5.0), (1e-5, 3.0), (1.0, 1.6))
TRANSFORMS = (
    (0.5, 0.5), (2.0, 1e-10), (2.0, -1e-5), (1 + 1e-8, 2.0), (1e-5, 0.5), (1e5, -3.0), (1e5, 3.0), (1e-300, 0.3),
)  # fmt: skip
INVERSES = (
    (0.5, 0.5), (2.0, 1e-10), (2.0, -1e-5), (1e-8, 2.0), (0.3, -3.0), (1e5, 3.0), (-1.99, 0.5), (-30.0, 1e-3),
    (700.0, 1e-4), (1e-20, 1.5),
)  # fmt: skip
LOSSES = ((1.0, 0.5), (1.0, -0.5), (1.0, 2.0), (0.3, -5.0), (1e-3, 1e3))

VALUES = [
    *values("gamma", special.gamma, mp.gamma, *POSITIVE, *LEFT, 170.5, -170.2),
    *values("gammaln", special.gammaln, lambda x: mp.log(abs(mp.gamma(x))), *POSITIVE, *LEFT),
    *values("gammaln", special.gammaln, log_gamma, 1e5, 1e10, 1e100, digits=250),
    *values("loggamma", special.loggamma, log_gamma, *POSITIVE, 1e5),
    *values("rgamma", special.rgamma, mp.rgamma, *POSITIVE, *LEFT, 0.0, -1.0, -2.0, -20.0, 0.499, 0.5, -3.00000001),
    *values("rgamma", special.rgamma, mp.rgamma, 0.0, -1.0, -2.0, -5.0, 0.3, 0.6, -3.0001, order=2),
    *values("psi", special.psi, mp.digamma, *POSITIVE, *LEFT, 1e5, -1e6 - 0.3),
    *values("psi", special.psi, mp.digamma, *POSITIVE, -3.0001, 1e5, order=2),
    *values("polygamma 1", lambda x: ours.polygamma(1, x), lambda x: mp.polygamma(1, x), *POSITIVE, *LEFT, 1e5),
    *values("polygamma 5", lambda x: ours.polygamma(5, x), lambda x: mp.polygamma(5, x), *POSITIVE, -3.0001, 1e5),
    *values("zeta", ours.zeta, mp.zeta, (2.0, 0.5), (1.001, 2.0), (10.0, 0.01), (3.0, 1e4), (20.0, 20.0), places=(1,)),
    *values(
        "poch",
        special.poch,
        lambda z, m: mp.gammaprod([z + m], [z]),
        (0.5, 0.5),
        (1e-5, 3.0),
        (1e6, 0.5),
        (1e10, 2.0),
        (-2.5, 1.0),
        (10.0, -3.5),
        (-2.0, 5.5),
        places=(0, 1),
    ),
    *values("poch at a pole", special.poch, lambda z, m: mp.gammaprod([z + m], [z]), (-2.0, 5.0), (-3.0, 2.5)),
    *values(
        "beta",
        special.beta,
        mp.beta,
        (0.5, 0.5),
        (1e-5, 3.0),
        (1e10, 1.0),
        (100.0, 120.0),
        (-0.5, 2.2),
        (1e-3, 1e8),
        places=(0, 1),
    ),
    # SciPy's own value, by which the slope is multiplied, is off by 1e-9.
    *values("beta", special.beta, mp.beta, (1e6, 0.5), (0.5, 1e6), places=(0, 1), rtol=3e-9),
    *values("beta at a zero", special.beta, mp.beta, (-1.5, 1.5), (0.5, -0.5), (-2.25, 0.25), places=(0, 1)),
    *values("beta at a zero", special.beta, mp.beta, (-1.5, 1.5), (0.5, -2.5), places=(0, 1), order=2),
    *values(
        "betaln",
        special.betaln,
        log_beta,
        (0.5, 0.5),
        (1e-5, 3.0),
        (1e6, 0.5),
        (1e10, 1.0),
        (1e3, 1e15),
        (1e15, 1e3),
        places=(0, 1),
    ),
    *values(
        "binom",
        special.binom,
        mp.binomial,
        (5.0, 2.0),
        (5.5, 2.3),
        (1e3, 3.0),
        (2.5, 7.3),
        (1e10, 2.0),
        (30.0, 29.5),
        (-2.5, 1.0),
        places=(0, 1),
    ),
    *values("binom at a pole", special.binom, mp.binomial, (2.0, 3.0), (2.0, 5.0), (10.0, 12.0), places=(0, 1)),
    *values("binom at a pole", special.binom, mp.binomial, (2.0, 3.0), (3.0, 5.0), order=2),
    *values("erf", special.erf, mp.erf, 0.0, 0.3, 2.5, 8.1, -20.0, 26.0, digits=700),
    *values("erfc", special.erfc, mp.erfc, 0.0, 0.3, 2.5, 8.1, -20.0, 26.0, digits=700),
    *values("erfcx", special.erfcx, scaled_erfc, 0.0, 0.3, 8.0, 8.01, 20.0, 100.0, 1e3, -2.5, -20.0, digits=100),
    *values("erfcx", special.erfcx, scaled_erfc, 0.3, 8.0, 8.01, 20.0, 100.0, -2.5, -20.0, digits=100, order=2),
    *values("erfi", special.erfi, mp.erfi, 0.0, 0.3, 2.5, 8.1, -20.0),
    *values("erfinv", special.erfinv, mp.erfinv, 0.0, 1e-5, 0.3, -0.9, 0.999999, 1 - 1e-15, digits=80),
    *values("dawsn", special.dawsn, dawson, 0.0, 0.3, 8.0, 8.01, 20.0, 100.0, 1e3, -2.5, digits=100),
    *values("dawsn", special.dawsn, dawson, 0.3, 8.0, 8.01, 20.0, 100.0, -2.5, digits=100, order=2),
    *values("expit", special.expit, lambda x: 1 / (1 + mp.exp(-x)), *EXPONENTS, digits=700),
    *values("expit", special.expit, lambda x: 1 / (1 + mp.exp(-x)), -700.0, -1.0, 1.0, 50.0, digits=700, order=2),
    *values("log_expit", special.log_expit, lambda x: -mp.log1p(mp.exp(-x)), *EXPONENTS, digits=700),
    *values("logit", special.logit, lambda p: mp.log(p / (1 - p)), 1e-300, 1e-10, 0.3, 0.5, 0.9, 1 - 1e-10, digits=700),
    *values("exprel", special.exprel, lambda x: mp.hyp1f1(1, 2, x), *EXPONENTS, digits=100),
    *values("exprel", special.exprel, lambda x: mp.hyp1f1(1, 2, x), *EXPONENTS, digits=100, order=2),
    *values("expm1", special.expm1, mp.expm1, *EXPONENTS, digits=700),
    *values("exp2", special.exp2, lambda x: mp.mpf(2) ** x, -300.0, 0.0, 0.5, 300.0),
    *values("exp10", special.exp10, lambda x: mp.mpf(10) ** x, -300.0, 0.0, 0.5, 300.0),
    *values("log1p", special.log1p, mp.log1p, -1 + 1e-10, -0.5, 0.0, 1e-20, 1.0, 1e100, digits=250),
    *values("cbrt", special.cbrt, mp.cbrt, 1e-300, 1e-5, 8.0, 1e300, digits=700),
    *values(
        "powm1",
        special.powm1,
        lambda x, y: x**y - 1,
        (0.5, 0.5),
        (1 + 1e-10, 1e5),
        (1e-5, 0.1),
        (2.0, -300.0),
        (3.0, 0.0),
        places=(0, 1),
        digits=200,
    ),
    *values("cosm1", special.cosm1, lambda x: mp.cos(x) - 1, 1e-10, 0.3, 3.0, 1e5),
    *values("sindg", special.sindg, degrees(mp.sin), 1e-10, 45.0, 89.99999, 3600.5),
    *values("cosdg", special.cosdg, degrees(mp.cos), 1e-10, 45.0, 89.99999, 3600.5),
    *values("tandg", special.tandg, degrees(mp.tan), 1e-10, 45.0, 89.99999, -89.99999),
    *values("cotdg", special.cotdg, degrees(mp.cot), 1e-10, 45.0, 89.99999, 179.99999),
    *values(
        "agm",
        special.agm,
        mp.agm,
        (1.0, 1.0),
        (1.0, 2.0),
        (1.0, 1e-5),
        (1e-100, 1.0),
        (1e-300, 2.0),
        (1e200, 1e203),
        (3.0, 3.0 + 1e-7),
        places=(0, 1),
        digits=700,
    ),
    *values("agm", special.agm, mp.agm, (1.0, 1.0), (1.0, 2.0), (1.0, 1e-5), places=(0, 1), order=2),
    *values("xlogy", special.xlogy, lambda x, y: x * mp.log(y), *QUOTIENTS, places=(0, 1), digits=1300),
    *values("xlog1py", special.xlog1py, lambda x, y: x * mp.log1p(y), (0.5, 1e-20), (2.0, -0.999999), places=(0, 1)),
    *values("entr", special.entr, lambda x: -x * mp.log(x), 1e-300, 0.1, 2.0, 1e300, digits=700),
    *values("rel_entr", special.rel_entr, lambda x, y: x * mp.log(x / y), *QUOTIENTS, places=(0, 1), digits=1300),
    *values("kl_div", special.kl_div, lambda x, y: x * mp.log(x / y) - x + y, *QUOTIENTS, places=(0, 1), digits=1300),
    *values(
        "huber", special.huber, lambda d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2), *LOSSES, places=(0, 1)
    ),
    *values(
        "pseudo_huber",
        special.pseudo_huber,
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
        *LOSSES,
        (1.0, 1e-8),
        (1e8, 1.0),
        (1e-8, 1.0),
        (1e200, 1e200),
        (1e-200, 1e-200),
        places=(0, 1),
        digits=700,
    ),
    *values("boxcox", special.boxcox, transform, *TRANSFORMS, places=(0, 1), digits=700),
    *values("boxcox", special.boxcox, transform, *TRANSFORMS[:-1], places=(0, 1), digits=200, order=2),
    *values(
        "boxcox1p",
        special.boxcox1p,
        lambda x, lmbda: transform(1 + x, lmbda),
        (0.5, 0.5),
        (2.0, 1e-10),
        (1e-8, 2.0),
        (1e5, -3.0),
        (-0.9999, 0.3),
        (-0.9999, -1.0),
        (1e-20, 1.5),
        places=(0, 1),
        digits=150,
    ),
    *values("inv_boxcox", special.inv_boxcox, inverse_transform, *INVERSES, places=(0, 1), digits=150),
    *values("inv_boxcox", special.inv_boxcox, inverse_transform, *INVERSES[:-1], places=(0, 1), digits=150, order=2),
    *values(
        "inv_boxcox1p",
        special.inv_boxcox1p,
        lambda y, lmbda: inverse_transform(y, lmbda) - 1,
        *INVERSES,
        (-0.9999, 0.3),
        places=(0, 1),
        digits=150,
    ),
    *values(
        "ndtr", special.ndtr, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, -38.0, -20.0, 0.0, 1.0, 8.0, 37.0, digits=800
    ),
    *values(
        "log_ndtr", special.log_ndtr, log_normal, -1e10, -1e5, -300.0, -8.0, -0.1, 0.0, 3.0, 20.0, 37.0, digits=800
    ),
    *values(
        "log_ndtr", special.log_ndtr, log_normal, -1e5, -300.0, -8.0, -0.1, 0.0, 3.0, 20.0, 37.0, digits=800, order=2
    ),
    *values(
        "owens_t", special.owens_t, owen, (0.5, 0.5), (3.0, 0.1), (-1.0, 2.0), (1.0, -5.0), places=(0, 1), digits=30
    ),
    *values("kolmogorov", special.kolmogorov, kolmogorov, 0.2, 0.5, 0.99, 1.0, 1.01, 3.0, 18.0, digits=120),
    *values("kolmogorov", special.kolmogorov, kolmogorov, 0.3, 0.99, 1.01, 3.0, 18.0, digits=120, order=2),
]


@pytest.mark.parametrize("cases", grouped(VALUES, lambda name: name.partition(" by ")[0]))
def test_derivatives_against_mpmath(cases):
    for name, f, reference, place, point, digits, order, rtol in cases:
        with naming(name), mp.workdps(digits):
            found = derivative(f, place, point, order)
            expected = difference(reference, place, [mp.mpf(x) for x in point], order)
            assert abs(found - mp.re(expected)) <= rtol * abs(expected) + SMALLEST, (found, mp.nstr(expected, 17))


# Distribution functions: their densities at many digits, of inverses one over the density where they answer


def gamma_density(a, x):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def beta_density(a, b, x):
    return mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - log_beta(a, b))


def t_density(df, t):
    constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return mp.exp(constant - (df + 1) / 2 * mp.log1p(t * t / df))


def f_density(dfn, dfd, x):
    total = dfn * x + dfd
    return mp.exp(dfn / 2 * mp.log(dfn * x / total) + dfd / 2 * mp.log(dfd / total) - log_beta(dfn / 2, dfd / 2)) / x


def rate_density(a, b, x):
    return a * gamma_density(b, a * x)


def chi_square_density(v, x):
    return gamma_density(v / 2, x / 2) / 2


def poisson(k, m):
    return gamma_density(mp.floor(k) + 1, m)


def binomial(k, n, p):
    return beta_density(mp.floor(k) + 1, n - mp.floor(k), p)


def negative_binomial(k, n, p):
    return beta_density(n, mp.floor(k) + 1, p)


def normal_over_integral(x):
    """Return the inverse of the slope of `ndtri_exp`."""
    return mp.exp(-x * x / 2 - log_normal(x)) / mp.sqrt(2 * mp.pi)


AT = {
    "gamma": [
        (2.5, 1.0), (0.5, 1e-10), (0.01, 1e-300), (1e-10, 1e-5), (2.5, 1e-200), (2.5, 700.0), (1e3, 1e3),
        (1e6, 1.001e6), (1e6, 0.995e6), (1e10, 1.00001e10), (1e12, 1e12 + 3e6), (1.0, 0.5), (50.0, 0.1),
        (15.99, 14.0), (16.0, 15.0),
    ],
    "beta": [
        (2.5, 3.0, 0.3), (0.5, 0.5, 1e-10), (0.01, 0.02, 1e-300), (0.5, 0.5, 1 - 1e-15), (2.5, 3.0, 1e-100),
        (1e3, 2e3, 0.34), (1e6, 1e6, 0.501), (1e6, 3.0, 0.999999), (3.0, 1e6, 1e-6), (1e10, 1e10, 0.50001),
        (1.0, 5.0, 1e-300), (100.0, 0.01, 0.99),
    ],
    "t": [(2.5, 1.0), (1.0, 1e10), (0.1, 1e200), (1e5, 3.0), (1e10, -30.0), (1e-3, 0.5), (30.0, 0.0), (5.0, -1e5)],
    "f": [
        (2.5, 3.5, 1.0), (1.0, 1.0, 1e-300), (2.0, 5.0, 1e-10), (1e5, 1e5, 1.01), (1e8, 1e8, 1.0001), (3.0, 1e10, 2.0),
        (1e10, 3.0, 0.5), (5.0, 5.0, 1e10), (0.1, 0.1, 1e100),
    ],
    "rate": [(1.3, 2.5, 1.0), (1e-3, 2.5, 1e3), (1e5, 1e6, 10.0), (2.0, 0.5, 1e-10)],
    "chi": [(2.5, 1.0), (1.0, 1e-200), (1e5, 1e5 + 100), (3.0, 500.0)],
    "poisson": [(2.0, 1.0), (0.0, 1e-5), (2.7, 3.0), (1e6, 1.001e6), (5.0, 300.0)],
    "binomial": [(2, 5, 0.3), (0, 5, 0.3), (500, 1000, 0.49), (2, 1000000, 1e-6), (4, 5, 0.999999), (0, 1, 0.5)],
}  # fmt: skip


def slopes(function, place, density, points, factor=1):
    """Return cases: a function, and its derivative by mpmath at points."""
    return [
        pytest.param(function, place, lambda *point: factor * density(*point), point, id=f"{function.__name__} {point}")
        for point in points
    ]


SLOPES = [
    *slopes(special.gammainc, 1, gamma_density, AT["gamma"]),
    *slopes(special.gammaincc, 1, gamma_density, AT["gamma"], -1),
    *slopes(special.betainc, 2, beta_density, AT["beta"]),
    *slopes(special.betaincc, 2, beta_density, AT["beta"], -1),
    *slopes(special.stdtr, 1, t_density, AT["t"]),
    *slopes(special.fdtr, 2, f_density, AT["f"]),
    *slopes(special.fdtrc, 2, f_density, AT["f"], -1),
    *slopes(special.gdtr, 2, rate_density, AT["rate"]),
    *slopes(special.gdtr, 0, lambda a, b, x: rate_density(a, b, x) * x / a, AT["rate"]),
    *slopes(special.gdtrc, 2, rate_density, AT["rate"], -1),
    *slopes(special.gdtrc, 0, lambda a, b, x: rate_density(a, b, x) * x / a, AT["rate"], -1),
    *slopes(special.chdtr, 1, chi_square_density, AT["chi"]),
    *slopes(special.chdtrc, 1, chi_square_density, AT["chi"], -1),
    *slopes(special.pdtr, 1, poisson, AT["poisson"], -1),
    *slopes(special.pdtrc, 1, poisson, AT["poisson"]),
    *slopes(special.bdtr, 2, binomial, AT["binomial"], -1),
    *slopes(special.bdtrc, 2, binomial, AT["binomial"]),
    *slopes(special.nbdtr, 2, negative_binomial, AT["binomial"]),
    *slopes(special.nbdtrc, 2, negative_binomial, AT["binomial"], -1),
]


@pytest.mark.parametrize("cases", grouped(SLOPES, lambda name: name.partition(" ")[0]))
def test_densities_against_mpmath(cases):
    for name, f, place, reference, point in cases:
        with naming(name), mp.workdps(50):
            expected = reference(*map(mp.mpf, point))
            found = derivative(f, place, [float(x) if i == place else x for i, x in enumerate(point)])
            assert abs(found - expected) <= 1e-10 * abs(expected) + SMALLEST, (found, mp.nstr(expected, 17))


INVERSES_OF = [
    *slopes(special.gammaincinv, 1, gamma_density,
            [(2.5, 0.5), (2.5, 1e-100), (0.01, 0.5), (1e6, 0.3), (50.0, 1 - 1e-10)]),
    *slopes(special.gammainccinv, 1, gamma_density, [(2.5, 0.5), (2.5, 1e-300), (0.01, 0.5), (1e6, 1e-10)], -1),
    *slopes(special.betaincinv, 2, beta_density,
            [(2.5, 3.0, 0.5), (0.01, 0.02, 0.5), (1e5, 1e5, 0.3), (0.5, 0.5, 1e-100)]),
    *slopes(special.betainccinv, 2, beta_density, [(2.5, 3.0, 0.5), (0.01, 0.02, 0.5), (50.0, 1e4, 1e-10)], -1),
    *slopes(special.stdtrit, 1, t_density, [(2.5, 0.3), (2.5, 1e-100), (1.0, 1e-10), (1e5, 0.9), (30.0, 1 - 1e-12)]),
    *slopes(special.fdtri, 2, f_density, [(2.5, 3.5, 0.3), (2.5, 3.5, 1e-50), (50.0, 1e4, 0.9), (1e5, 1e5, 0.5)]),
    *slopes(special.gdtrix, 2, rate_density, [(1.3, 2.5, 0.4), (1e-3, 2.5, 1e-20), (5.0, 1e4, 0.9)]),
    *slopes(special.chdtri, 1, chi_square_density, [(2.5, 0.3), (3.0, 1e-50), (1e4, 0.9)], -1),
    *slopes(special.pdtri, 1, poisson, [(2, 0.3), (50, 1e-10), (1000, 0.9)], -1),
    *slopes(special.bdtri, 2, binomial, [(2, 5, 0.3), (0, 5, 0.3), (0, 5, 0.9), (500, 1000, 0.5), (4, 5, 1e-10)], -1),
    *slopes(special.nbdtri, 2, negative_binomial, [(2, 5, 0.3), (0, 5, 0.3), (500, 1000, 0.5), (4, 5, 1e-10)]),
    *slopes(special.ndtri, 0, mp.npdf, [(1e-300,), (0.3,), (0.999999,)]),
    *slopes(special.ndtri_exp, 0, normal_over_integral, [(-1e10,), (-700.0,), (-5.0,), (-1e-3,), (-1e-20,)]),
    *slopes(special.erfcinv, 0, lambda x: mp.exp(-x * x) * 2 / mp.sqrt(mp.pi),
            [(1e-300,), (1e-5,), (0.3,), (1.9999,)], -1),
    *slopes(special.kolmogi, 0, lambda y: -mp.diff(kolmogorov, y), [(1e-100,), (0.3,), (0.999,)], -1),
    *slopes(special.smirnovi, 1, lambda n, d: -mp.diff(lambda d: smirnov(n, d), d), [(5, 0.3), (100, 1e-20)], -1),
]  # fmt: skip


@pytest.mark.parametrize("cases", grouped(INVERSES_OF, lambda name: name.partition(" ")[0]))
def test_inverses_against_mpmath(cases):
    """At the number that SciPy answers, to whose rounding the density is not sensitive at these points."""
    for name, f, place, reference, point in cases:
        with naming(name), mp.workdps(50):
            expected = 1 / reference(*map(mp.mpf, point[:place]), mp.mpf(float(f(*point))))
            found = derivative(f, place, point)
            assert abs(found - expected) <= 1e-10 * abs(expected), (found, mp.nstr(expected, 17))


@pytest.mark.parametrize(("n", "d"), [(1, 0.5), (5, 0.3), (5, 0.05), (100, 0.1), (1000, 0.03), (1000, 0.3), (3, 0.99)])
@pytest.mark.parametrize("order", [1, 2])
def test_smirnovs_distribution_against_mpmath(n, d, order):
    with mp.workdps(50):
        expected = mp.diff(lambda d: smirnov(n, d), mp.mpf(d), order)
        np.testing.assert_allclose(derivative(special.smirnov, 1, (n, d), order), float(expected), rtol=1e-10)


TUKEY = [
    (0.3, 0.5), (-1.5, 0.5), (-1.99, 0.5), (3.0, 0.1), (-9.0, 0.1), (2.0, -0.5), (-50.0, -0.5), (0.2, 1e-9),
    (30.0, -1e-3),    (0.4, 1.5), (-0.2, 3.0), (-0.049, 20.0),
]  # fmt: skip


@pytest.mark.parametrize(("x", "lmbda"), TUKEY)
def test_tukeys_distribution_against_mpmath(x, lmbda):
    """The probability is found at 60 digits; SciPy's own, in the tails, has an absolute accuracy only."""
    with mp.workdps(60):
        x_, lmbda_ = mp.mpf(x), mp.mpf(lmbda)

        def inverse(p, lmbda=lmbda_):
            return (p**lmbda - (1 - p) ** lmbda) / lmbda

        low, high = mp.mpf(0), mp.mpf(1)
        for _ in range(400):
            p = (low + high) / 2
            low, high = (p, high) if inverse(p) < x_ else (low, p)
        density = 1 / (p ** (lmbda_ - 1) + (1 - p) ** (lmbda_ - 1))
        by_shape = -mp.diff(lambda lmbda: inverse(p, lmbda), lmbda_) * density
    np.testing.assert_allclose(derivative(special.tklmbda, 0, (x, lmbda)), float(density), rtol=1e-10)
    np.testing.assert_allclose(derivative(special.tklmbda, 1, (x, lmbda)), float(by_shape), rtol=1e-10)


# Noncentral distributions: their definitions at many digits


def chi_square_sum(df, x, nc):
    """Return the density by Bessel's function (Johnson, Kotz and Balakrishnan, vol. 2, 29.4)."""
    order = df / 2 - 1
    return mp.exp(-(x + nc) / 2) * (x / nc) ** (order / 2) * mp.besseli(order, mp.sqrt(nc * x)) / 2


def f_sum(dfn, dfd, nc, f):
    """Return the density by Kummer's function (vol. 2, 30.10)."""
    a, b, y = dfn / 2, dfd / 2, dfn * f / (dfn * f + dfd)
    return mp.exp(-nc / 2) * f_density(dfn, dfd, f) * mp.hyp1f1(a + b, a, nc * y / 2)


def f_by_noncentrality(dfn, dfd, nc, f):
    a, b, y = dfn / 2, dfd / 2, dfn * f / (dfn * f + dfd)
    kernel = y**a * (1 - y) ** b / mp.beta(a, b) / a
    return -mp.exp(-nc / 2) / 2 * kernel * mp.hyp1f1(a + b, a + 1, nc * y / 2)


def t_integral(power, df, nc, t):
    """Return the mean of s**power times the normal density at t s - nc, by Hermite functions (DLMF 12.5.1)."""
    order, stretch = df + power, df + t * t
    c = t * nc / mp.sqrt(stretch)
    moment = mp.gamma(order) * mp.exp(c * c / 4) * mp.pcfd(-order, -c)
    constant = 2 * (df / 2) ** (df / 2) / mp.gamma(df / 2) / mp.sqrt(2 * mp.pi)
    return constant * mp.exp(-nc * nc / 2) * stretch ** (-order / 2) * moment


CHI_SQUARE = [
    (2.5, 3.0, 4.0),
    (1.0, 0.01, 50.0),
    (100.0, 300.0, 150.0),
    (1.5, 700.0, 500.0),
    (4.0, 1e-10, 2.0),
    (3.0, 2.0, 1e-8),
]
F = [
    (3.0, 5.0, 3.0, 1.0),
    (20.0, 40.0, 100.0, 6.0),
    (1.0, 1.0, 30.0, 0.1),
    (1.0, 6.0, 1.0, 50.0),
    (3.0, 5.0, 1e-8, 1.0),
]
T = [
    (3.5, 1.0, 2.0),
    (0.3, 1.0, -2.0),
    (1.0, -3.0, 4.0),
    (200.0, 5.0, -6.0),
    (1e4, 2.0, 3.0),
    (5.0, 10.0, 30.0),
    (4.0, 1.5, 0.0),
]


@pytest.mark.parametrize(("df", "x", "nc"), CHI_SQUARE)
def test_the_noncentral_chi_square_distribution_against_mpmath(df, x, nc):
    with mp.workdps(50):
        point = mp.mpf(df), mp.mpf(x), mp.mpf(nc)
        by_x, by_nc = chi_square_sum(*point), -chi_square_sum(point[0] + 2, *point[1:])
        curved = mp.diff(lambda x: chi_square_sum(point[0], x, point[2]), point[1], relative=True)
    np.testing.assert_allclose(derivative(special.chndtr, 0, (x, df, nc)), float(by_x), rtol=1e-10)
    np.testing.assert_allclose(derivative(special.chndtr, 2, (x, df, nc)), float(by_nc), rtol=1e-10)
    np.testing.assert_allclose(derivative(special.chndtr, 0, (x, df, nc), 2), float(curved), rtol=1e-9)


@pytest.mark.parametrize(("dfn", "dfd", "nc", "f"), F)
def test_the_noncentral_f_distribution_against_mpmath(dfn, dfd, nc, f):
    with mp.workdps(50):
        point = [mp.mpf(x) for x in (dfn, dfd, nc, f)]
        by_f, by_nc = f_sum(*point), f_by_noncentrality(*point)
    np.testing.assert_allclose(derivative(special.ncfdtr, 3, (dfn, dfd, nc, f)), float(by_f), rtol=1e-10)
    np.testing.assert_allclose(derivative(special.ncfdtr, 2, (dfn, dfd, nc, f)), float(by_nc), rtol=1e-10)


@pytest.mark.parametrize(("df", "nc", "t"), T)
def test_the_noncentral_t_distribution_against_mpmath(df, nc, t):
    with mp.workdps(50):
        point = [mp.mpf(x) for x in (df, nc, t)]
        by_t, by_nc = t_integral(1, *point), -t_integral(0, *point)
    np.testing.assert_allclose(derivative(special.nctdtr, 2, (df, nc, t)), float(by_t), rtol=1e-10)
    np.testing.assert_allclose(derivative(special.nctdtr, 1, (df, nc, t)), float(by_nc), rtol=1e-10)


def test_the_noncentrality_of_the_f_distribution():
    """SciPy solves for it with an accuracy of 1e-5 only, so it has no samples and no row of finite differences."""
    dfn, dfd, p, f = 3.5, 4.5, 0.3, 2.5
    nc = special.ncfdtrinc(dfn, dfd, p, f)
    by_nc, by_f = (derivative(special.ncfdtr, place, (dfn, dfd, nc, f)) for place in (2, 3))
    np.testing.assert_allclose(derivative(special.ncfdtrinc, 2, (dfn, dfd, p, f)), 1 / by_nc, rtol=1e-12)
    np.testing.assert_allclose(derivative(special.ncfdtrinc, 3, (dfn, dfd, p, f)), -by_f / by_nc, rtol=1e-12)
    step = special.ncfdtrinc(dfn, dfd, p + 0.01, f) - special.ncfdtrinc(dfn, dfd, p - 0.01, f)
    np.testing.assert_allclose(step / 0.02, 1 / by_nc, rtol=3e-3)
    with pytest.raises(NoClosedFormError, match=r"ncfdtrinc has no .* with respect to its argument 'dfd'"):
        fg.grad(lambda dfd: special.ncfdtrinc(dfn, dfd, p, f))(dfd)


# Complex numbers, and Voigt's profile


def faddeeva(z):
    return mp.exp(-z * z) * mp.erfc(-1j * z)


PLANE = [
    0.3 + 0.2j, 3 - 1j, -2 + 3j, 8 + 0.1j, 9 + 0j, 9 - 0.001j, 20 + 20j, -20 + 1j, 30 - 3j, 5 - 5j, 7.9j, -6j, 1e3 + 5j,
    0.5 - 9j, 12 - 11.9j,
]  # fmt: skip
NEAR = [0.3 + 0.2j, 3 - 1j, -2 + 3j, -3.5 + 0.1j, -0.2 - 10j, 10 + 20j, -20.3 + 5j]
NORMALS = [0.3 + 0.2j, 3 - 1j, -2 + 1j, -8 + 0.1j, 2 + 2j]
COMPLEX = [
    (special.wofz, faddeeva, PLANE),
    (special.erfcx, scaled_erfc, [-1j * z for z in PLANE]),
    (special.dawsn, dawson, PLANE),
    (special.erf, mp.erf, PLANE[:5]),
    (special.erfc, mp.erfc, PLANE[:5]),
    (special.erfi, mp.erfi, PLANE[:5]),
    (special.gamma, mp.gamma, NEAR),
    (special.rgamma, mp.rgamma, [*NEAR, -2 + 0j]),
    (special.loggamma, mp.loggamma, [*NEAR, 1e5 - 1e6j]),
    (special.psi, mp.digamma, [*NEAR, 1e3 - 1e4j]),
    (special.ndtr, lambda z: mp.erfc(-z / mp.sqrt(2)) / 2, NORMALS),
    (special.log_ndtr, lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2), NORMALS),
]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("f", "reference", "points"), [pytest.param(*row, id=row[0].__name__) for row in COMPLEX])
def test_complex_derivatives_against_mpmath(f, reference, points, order):
    def along(f):
        return lambda z: fg.jvp(f, (z,), (np.ones_like(z),))[1]

    for _ in range(order):
        f = along(f)
    for z in points:
        with mp.workdps(80):
            expected = complex(mp.diff(reference, mp.mpc(z), order))
        np.testing.assert_allclose(f(np.complex128(z)), expected, rtol=1e-10)


@pytest.mark.parametrize("b", [np.array([1.0, -1.0]), np.array([1.0 + 0j, -0.5])])
def test_weights_of_logsumexp_in_double_precision_make_it_exact(b):
    x = np.array([2.0, 1.0], np.float32)
    value = fg.vjp(lambda x: ours.logsumexp(x, b=b), x)[0]
    assert value.dtype == b.dtype
    np.testing.assert_allclose(value, special.logsumexp(x, b=b), rtol=1e-15)


@pytest.mark.parametrize("z", [1e160 + 0j, 3e155 - 2e155j, -2e155 + 3e200j, 1e300 - 1e300j])
def test_the_derivative_of_psi_far_from_0(z):
    """It is 1 / z + 1 / (2 z**2) + ... (DLMF 5.15.8)."""
    np.testing.assert_allclose(fg.jvp(special.psi, (np.complex128(z),), (1 + 0j,))[1], 1 / z, rtol=1e-14)


VOIGT = [
    (0.3, 1.0, 0.5), (5.0, 1.0, 0.01), (5.0, 1.0, 1e-10), (7.0, 1.0, 0.0), (12.0, 1.0, 1e-30), (20.0, 1.0, 1e-3),
    (-3.0, 0.1, 2.0), (1.0, 1e-3, 1.0), (100.0, 1.0, 1.0), (14.0, 1.0, 1e-28), (0.5, 10.0, 1e-5), (11.3, 1.0, 0.1),
]  # fmt: skip


@pytest.mark.parametrize("point", VOIGT)
def test_voigts_profile_against_mpmath(point):
    with mp.workdps(200):
        x, sigma, gamma = map(mp.mpf, point)
        z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
        slope = -2 * z * faddeeva(z) + 2j / mp.sqrt(mp.pi)
        area, width = sigma * mp.sqrt(2 * mp.pi), sigma * mp.sqrt(2)
        expected = (
            mp.re(slope / width) / area, -mp.re(faddeeva(z) + z * slope) / area / sigma,
            mp.re(1j * slope / width) / area,
        )  # fmt: skip
    for place in range(3):
        np.testing.assert_allclose(derivative(special.voigt_profile, place, point), float(expected[place]), rtol=1e-10)


def test_voigts_profile_without_a_gaussian_part_is_lorentzs():
    def lorentz(x, gamma):
        return gamma / np.pi / (x * x + gamma * gamma)

    for x, gamma in ((1.0, 0.5), (-0.2, 2.0)):
        for place, of_lorentz in ((0, 0), (2, 1)):
            for order in (1, 2):
                found = derivative(special.voigt_profile, place, (x, 0.0, gamma), order)
                np.testing.assert_allclose(found, derivative(lorentz, of_lorentz, (x, gamma), order), rtol=1e-12)
        assert derivative(special.voigt_profile, 1, (x, 0.0, gamma)) == 0
        # The heat equation: the second derivative by sigma at 0 is the second derivative by x.
        found = derivative(special.voigt_profile, 1, (x, 0.0, gamma), 2)
        np.testing.assert_allclose(found, derivative(lorentz, 0, (x, gamma), 2), rtol=1e-12)


# Edges: function, place of the argument, point, derivative


EDGES = [
    (special.erfinv, 0, (1,), INF), (special.erfinv, 0, (-1,), INF),
    (special.erfcinv, 0, (0,), -INF), (special.erfcinv, 0, (2,), -INF),
    (special.ndtri, 0, (0,), INF), (special.ndtri, 0, (1,), INF),
    (special.ndtri_exp, 0, (0,), INF), (special.ndtri_exp, 0, (-INF,), 0),
    (special.logit, 0, (0,), INF), (special.logit, 0, (1,), INF),
    (special.expit, 0, (INF,), 0), (special.expit, 0, (-INF,), 0),
    (special.log_expit, 0, (INF,), 0), (special.log_expit, 0, (-INF,), 1),
    (special.log_ndtr, 0, (INF,), 0), (special.log_ndtr, 0, (-INF,), INF), (special.ndtr, 0, (INF,), 0),
    (special.erf, 0, (INF,), 0), (special.erfcx, 0, (INF,), 0), (special.erfcx, 0, (-30,), -INF),
    (special.dawsn, 0, (INF,), 0), (special.dawsn, 0, (0,), 1), (special.exprel, 0, (0,), 0.5),
    (special.exprel, 0, (INF,), INF), (special.exprel, 0, (-INF,), 0), (special.cbrt, 0, (0,), INF),
    # 0 log 0: the product is 0, and its slope by the factor that is 0 is the logarithm
    (special.entr, 0, (0,), INF), (special.entr, 0, (-1,), 0),
    (special.xlogy, 0, (0, 0), -INF), (special.xlogy, 1, (0, 0), 0), (special.xlogy, 1, (2, 0), INF),
    (special.xlogy, 0, (0, 2), np.log(2)), (special.xlogy, 1, (0, 3), 0),
    (special.xlog1py, 0, (0, -1), -INF), (special.xlog1py, 1, (0, -1), 0), (special.xlog1py, 1, (2, -1), INF),
    (special.rel_entr, 0, (0, 1), -INF), (special.rel_entr, 0, (0, 0), INF), (special.rel_entr, 0, (1, 0), INF),
    (special.rel_entr, 1, (0, 0), 0), (special.rel_entr, 1, (1, 0), -INF), (special.rel_entr, 1, (0, 2), 0),
    (special.rel_entr, 0, (-1, 1), 0), (special.rel_entr, 1, (1, -1), 0),
    (special.kl_div, 0, (0, 1), -INF), (special.kl_div, 1, (0, 0), 1), (special.kl_div, 1, (0, 2), 1),
    (special.kl_div, 1, (1, 0), -INF), (special.kl_div, 0, (-1, 1), 0),
    # Losses
    (special.huber, 1, (1, 1), 1), (special.huber, 0, (1, 1), 0), (special.huber, 1, (0, 0), 0),
    (special.huber, 0, (0, 0), 0), (special.huber, 0, (0, 2), 2), (special.huber, 1, (-1, 2), 0),
    (special.pseudo_huber, 0, (0, 0), 0), (special.pseudo_huber, 1, (0, 0), 0),
    (special.pseudo_huber, 0, (0, 2), 2), (special.pseudo_huber, 1, (0, 2), 0),
    # Powers
    (special.boxcox, 0, (0, 0.5), INF), (special.boxcox, 0, (0, 1), 1), (special.boxcox, 0, (0, 2), 0),
    (special.boxcox, 1, (0, 2), 0.25), (special.boxcox, 1, (2, 0), np.log(2) ** 2 / 2),
    (special.boxcox1p, 1, (-1, 0.5), 4),
    (special.inv_boxcox, 0, (-2, 0.5), 0), (special.inv_boxcox, 0, (-1, 1), 1), (special.inv_boxcox, 0, (-0.5, 2), INF),
    (special.inv_boxcox, 1, (-2, 0.5), 0), (special.inv_boxcox, 1, (2, 0), -2 * np.exp(2)),
    (special.inv_boxcox, 0, (3, 1e-200), np.exp(3)), (special.inv_boxcox, 1, (3, 1e-200), -4.5 * np.exp(3)),
    (special.inv_boxcox, 0, (-3, 1e-300), np.exp(-3)), (special.inv_boxcox1p, 0, (3, 1e-200), np.exp(3)),
    (special.inv_boxcox1p, 0, (-1, 1), 1),
    (special.powm1, 0, (0, 2), 0), (special.powm1, 0, (0, 1), 1), (special.powm1, 0, (0, 0), 0),
    (special.powm1, 1, (0, 2), 0), (special.powm1, 1, (0, 0), -INF),
    (special.agm, 0, (0, 1), INF), (special.agm, 1, (0, 1), 0), (special.agm, 0, (1, -1), NAN),
    # Poles, and zeros of the reciprocal
    (special.gamma, 0, (0,), -INF), (special.psi, 0, (0,), INF), (special.beta, 0, (0, 1), -INF),
    (special.rgamma, 0, (0,), 1), (special.rgamma, 0, (-3,), -6), (special.poch, 0, (0, 1), 1),
    (special.poch, 0, (-3, 2), -5),
    (special.binom, 0, (2, 3), 1 / 3), (special.binom, 1, (2, -1), 1 / 3), (special.binom, 0, (0, 1), 1),
    # Ends of distributions
    (special.gammainc, 1, (0.5, 0), INF), (special.gammainc, 1, (1, 0), 1), (special.gammainc, 1, (2, 0), 0),
    (special.gammainc, 1, (2, INF), 0), (special.gammaincinv, 1, (2, 0), INF), (special.gammaincinv, 1, (1, 0), 1),
    (special.gammaincinv, 1, (0.5, 0), 0), (special.gammaincinv, 1, (2, 1), INF),
    (special.gammainccinv, 1, (2, 0), -INF),
    (special.betainc, 2, (0.5, 2, 0), INF), (special.betainc, 2, (1, 2, 0), 2), (special.betainc, 2, (3, 2, 0), 0),
    (special.betainc, 2, (3, 1, 1), 3), (special.betainc, 2, (3, 0.4, 1), INF), (special.betaincinv, 2, (2, 3, 0), INF),
    (special.stdtr, 1, (2, INF), 0), (special.stdtr, 1, (INF, 1), np.exp(-0.5) / np.sqrt(2 * np.pi)),
    (special.fdtr, 2, (1, 2, 0), INF), (special.fdtr, 2, (2, 2, 0), 1), (special.fdtr, 2, (3, 2, 0), 0),
    (special.pdtr, 1, (0, 0), -1), (special.pdtr, 1, (1, 0), 0), (special.bdtr, 2, (0, 5, 0), -5),
    (special.bdtr, 2, (4, 5, 1), -5), (special.bdtr, 2, (5, 5, 0.3), 0), (special.bdtrc, 2, (-1, 5, 0.3), 0),
    (special.nbdtr, 2, (0, 1, 0), 1), (special.gdtr, 2, (2, 1, 0), 2),
    (special.chndtr, 0, (0, 2, 3), np.exp(-1.5) / 2), (special.chndtr, 0, (0, 1, 3), INF),
    (special.chndtr, 2, (0, 2, 3), 0),
    (special.ncfdtr, 3, (2, 3, 1, 0), np.exp(-0.5)), (special.ncfdtr, 3, (1, 3, 1, 0), INF),
    (special.ncfdtr, 3, (3, 3, 1, 0), 0),
    (special.nctdtr, 1, (3, 0, 0), -1 / np.sqrt(2 * np.pi)),
    (special.kolmogorov, 0, (0,), 0), (special.kolmogorov, 0, (-1,), 0), (special.kolmogi, 0, (1,), -INF),
    (special.kolmogi, 0, (0,), -INF), (special.smirnov, 1, (1, 1), -1), (special.smirnov, 1, (5, 0), -1),
    (special.smirnov, 1, (5, 1), 0), (special.tklmbda, 0, (3, 0.5), 0), (special.tklmbda, 1, (3, 0.5), 0),
    (special.tklmbda, 0, (0, 0), 0.25),
    (special.voigt_profile, 0, (1, 1, 0), -np.exp(-0.5) / np.sqrt(2 * np.pi)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("f", "place", "point", "expected"),
    [pytest.param(*row, id=f"{row[0].__name__} by {row[1]} at {row[2]}") for row in EDGES],
)
def test_edges_in_both_modes(f, place, point, expected):
    point = [x if i != place and f not in FLOATS_ONLY else float(x) for i, x in enumerate(point)]

    def of_one(x):
        return f(*point[:place], x, *point[place + 1 :])

    np.testing.assert_allclose(fg.grad(of_one)(point[place]), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.jvp(of_one, (point[place],), (1.0,))[1], expected, rtol=1e-12)


IN_EVERY_ORDER = [
    (special.xlogy, lambda x, y: x * mp.log(y), [(0, 2), (1, 1)]),
    (special.xlog1py, lambda x, y: x * mp.log1p(y), [(0, 2), (0, 0), (1, 0)]),
    (special.rel_entr, lambda x, y: x * mp.log(x / y), [(1, 1), (2, 2), (1, 1.7)]),
    (special.kl_div, lambda x, y: x * mp.log(x / y) - x + y, [(1, 1), (2, 2), (1, 1.7)]),
    (special.betaln, lambda a, b: mp.log(mp.beta(a, b)), [(1, 1), (2, 1), (3, 0.5)]),
    (special.powm1, lambda x, y: x**y - 1, [(4, 0), (1, 0), (2, 2)]),
    (special.boxcox, lambda x, y: (x**y - 1) / y, [(1, 1), (2, 0.5)]),
    (special.boxcox1p, lambda x, y: ((1 + x) ** y - 1) / y, [(0, 1), (2, 0.5)]),
    (special.inv_boxcox, lambda y, z: (1 + z * y) ** (1 / z), [(0, 1), (0, 0.5)]),
    (special.agm, mp.agm, [(1, 1), (2, 1)]),
    (special.pseudo_huber, lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), [(1, 0), (2, -1)]),
    (np.hypot, mp.hypot, [(0, 2), (2, 0), (3, 4)]),
    (np.arctan2, mp.atan2, [(0, 2), (2, 0)]),
    (np.sinc, mp.sincpi, [(0,), (1,)]),
    (np.logaddexp, lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), [(0, 0), (2, 0)]),
]


@pytest.mark.parametrize(
    ("f", "exact", "point"),
    [pytest.param(f, exact, at, id=f"{f.__name__} at {at}") for f, exact, points in IN_EVERY_ORDER for at in points],
)
def test_derivatives_in_every_order_of_arguments_where_a_factor_is_0(f, exact, point):
    for places, values in in_every_order(f, point).items():
        orders = tuple(map(places.count, range(len(point))))
        np.testing.assert_allclose(values, float(mp.diff(exact, point, orders)), rtol=1e-8, atol=1e-10)


INFINITE_SLOPES = [
    (special.xlogy, (0, 0), {(0, 1): INF, (1, 1): 0, (0, 1, 1): -INF}),
    (special.xlog1py, (0, -1), {(0, 1): INF, (1, 1): 0, (0, 1, 1): -INF}),
    (special.entr, (0,), {(0,): INF, (0, 0): -INF, (0, 0, 0): INF}),
    (special.rel_entr, (0, 1), {(0,): -INF, (0, 0): INF, (0, 1): -1, (0, 1, 1): 1}),
    (special.rel_entr, (1, 0), {(0, 0): 1, (0, 1): -INF, (1, 1): INF, (0, 0, 0): -1}),
    (special.rel_entr, (0, 0), {(0, 0): INF, (0, 1): -INF}),
    (special.kl_div, (1, 0), {(0, 0): 1, (0, 1): -INF, (1, 1): INF, (0, 0, 0): -1}),
    (special.boxcox, (0, 1), {(0, 1): -INF, (1, 1): -2, (0, 0, 1): INF, (0, 1, 1): INF, (1, 1, 1): 6}),
    (special.boxcox, (0, 2), {(0, 1): 0, (1, 1): -0.25, (0, 0, 1): -INF, (0, 1, 1): 0}),
    (special.boxcox1p, (-1, 1), {(0, 1): -INF, (0, 0, 1): INF}),
    (special.powm1, (0, 1), {(0, 0): 0, (0, 1): -INF, (1, 1): 0}),
    (special.agm, (0, 2), {(0, 0): -INF, (0, 1): INF, (1, 1): 0, (0, 0, 1): -INF, (0, 1, 1): -INF}),
    (np.logaddexp, (INF, INF), {(0, 0): 0, (0, 1): 0, (1, 1): 0, (0, 1, 1): 0}),
    (np.logaddexp, (-INF, 2), {(0, 0): 0, (0, 1): 0, (1, 1): 0, (0, 1, 1): 0}),
]


@pytest.mark.parametrize(
    ("f", "point", "expected"), [pytest.param(*row, id=f"{row[0].__name__} at {row[1]}") for row in INFINITE_SLOPES]
)
def test_infinite_slopes_are_the_same_in_every_order_of_arguments(f, point, expected):
    found = in_every_order(f, point)
    for places, value in expected.items():
        assert set(found[places]) == {value}, places


FLOATS_ONLY = (special.huber, special.pseudo_huber)
"""To the others constants are given as Python's integers where they are."""

SINGLE = [special.xlogy, special.rel_entr, special.beta, special.poch, special.boxcox, special.agm, special.powm1,
          special.gammainc, special.stdtr, special.chdtrc, special.owens_t, special.huber, special.nctdtr, special.gdtr,
          special.betainc, special.voigt_profile, special.fdtrc, special.tklmbda, special.chndtr]  # fmt: skip


@pytest.mark.parametrize("f", SINGLE)
def test_pythons_numbers_do_not_widen_single_precision(f):
    """An integer of NumPy does, in SciPy's value; the gradient then is that of a single number again."""
    x = np.float32(0.4)
    for number in (2, 2.5, np.int64(2), np.array(2)):
        numbers = [number] * (f.nin - 1)

        def of_one(x, numbers=numbers):
            return f(*numbers, x)

        with naming(repr(number)):
            value, pullback = fg.vjp(of_one, x)
            (gradient,) = pullback(np.ones_like(value))
            assert value.dtype == of_one(x).dtype
            assert gradient.dtype == np.float32
            assert fg.jvp(of_one, (x,), (x,))[1].dtype == value.dtype
            expected = fg.grad(lambda x, numbers=numbers: f(*map(float, numbers), x))(0.4)
            np.testing.assert_allclose(gradient, expected, rtol=1e-4)


LINEAR = {"radian", "nrdtrimn", "nrdtrisd", "xlogy", "xlog1py"}
"""Some of whose derivatives do not depend on the argument."""


def may_be_nan():
    """Return the ufuncs of the table whose derivatives depend on their last argument."""
    names = [row.names[0] for row in rows_of(DIFFERENTIABLE) if row.names[0].startswith("scipy.special.")]
    names = [name for name in names if name.removeprefix("scipy.special.") not in LINEAR]
    found = {name: look_up(name) for name in names}
    return [pytest.param(f, id=name) for name, f in found.items() if f in UFUNCS and UFUNCS[f].name not in NOT_SAMPLED]


@pytest.mark.parametrize("f", may_be_nan())
def test_nan_stays_nan(f):
    """No branch of a rule turns what is not known into a number."""
    (last,) = UFUNCS[f].samples[0].shapes[-1:]
    leading = UFUNCS[f].samples[0].leading
    assert last == ()
    others = [0.4] * (f.nin - len(leading) - 1)
    assert np.isnan(fg.grad(lambda x: np.real(f(*leading, *others, x)))(NAN))


# Functions of the package


def test_the_package_has_scipys_names():
    assert ours.gammaln is special.gammaln
    assert ours.sinc is special.sinc
    assert ours.polygamma is not special.polygamma
    assert {"gammaln", "jv", "softmax", "polygamma"} <= set(dir(ours))
    with pytest.raises(
        AttributeError, match="has no attribute 'bernoulli'; scipy.special has it, but it does not accept traced"
    ):
        _ = ours.bernoulli
    with pytest.raises(AttributeError, match="has no attribute 'gama'; nor has scipy.special"):
        _ = ours.gama


def test_no_file_of_the_package_hides_a_function_of_scipy():
    files = {module.name for module in pkgutil.iter_modules(ours.__path__)}
    assert files & set(special.__all__) == set()
    assert all(getattr(ours, name) is getattr(special, name) for name in ("gamma", "beta", "kolmogorov", "zetac"))


def test_scipys_functions_find_their_rules_without_an_import():
    program = "import fgrad, scipy.special; print(fgrad.grad(scipy.special.gammaln)(1.0))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(float(found.stdout), -np.euler_gamma)


@pytest.mark.filterwarnings("ignore:the gradient of")  # of integers
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.int8, np.bool_])
@pytest.mark.parametrize("b", [2, 2.0, np.float32(2), np.array([1, 2]), np.array([1.0, 2.0], np.float32)])
def test_logsumexp_has_the_dtype_of_scipys(dtype, b):
    """A weight that is a number of Python's takes that of the elements, under every transform."""
    a = np.array([[1, 3], [2, 0]]).astype(dtype)
    wanted = special.logsumexp(a, axis=0, b=b)
    for run in (
        lambda f: f(fg.constant(a)), lambda f: fg.trace(f)(a)(a), lambda f: fg.vmap(f)(a[None])[0],
        lambda f: fg.vjp(f, a)[0],
    ):  # fmt: skip
        found = np.asarray(run(lambda a: ours.logsumexp(a, axis=0, b=b)))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, 1e-2 if dtype == np.float16 else 1e-5)


def test_logsumexp_at_its_edges():
    low = np.array([-INF, -INF])
    for function in (
        ours.logsumexp,
        lambda x: ours.logsumexp(x, b=np.array([1.0, 2.0])),
        lambda x: ours.logsumexp(x, return_sign=True)[0],
    ):
        np.testing.assert_array_equal(fg.grad(function)(low), [0.0, 0.0])
        np.testing.assert_allclose(fg.grad(function)(np.array([-INF, 1.0])), [0.0, 1.0])
    # A weight of 0 means not used, whatever it is the weight of; by the weight itself there is a derivative.
    unused = np.array([0.0, 1.0])
    for number in (NAN, INF, 800.0):
        found = fg.grad(lambda a: ours.logsumexp(a, b=unused))(np.array([number, 1.0]))
        np.testing.assert_array_equal(found, [0.0, 1.0])
    found = fg.grad(lambda b: ours.logsumexp(np.array([1.0, 2.0]), b=b))(unused)
    np.testing.assert_allclose(found, [np.exp(-1), 1.0])
    found = fg.grad(lambda a: ours.logsumexp(a, b=np.array([1.0, -1.0]), return_sign=True)[0])(
        np.array([1000.0, 1001.0])
    )
    np.testing.assert_allclose(found, [1 / (1 - np.e), np.e / (np.e - 1)])
    assert ours.logsumexp(fg.constant([0.0, 0.0]), b=[1.0, -2.0], return_sign=True)[1] == -1


@pytest.mark.parametrize("keywords", [{}, {"b": np.ones(0)}, {"return_sign": True}])
def test_logsumexp_of_nothing(keywords):
    value = fg.vjp(lambda a: ours.logsumexp(a, **keywords), np.zeros(0))[0]
    for found, expected in zip(arrays(value), arrays(special.logsumexp(np.zeros(0), **keywords)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("f", [ours.softmax, ours.log_softmax])
def test_shares_of_numbers_along_their_axis_have_batches(f):
    np.testing.assert_array_equal(fg.vmap(lambda x: f(x, 0))(np.array([0.3, 2.0])), [f(0.3, 0), f(2.0, 0)])


def test_softmax_saturates_without_nan():
    x = np.array([[0.0, 1000.0], [-INF, 3.0]])
    np.testing.assert_array_equal(fg.grad(lambda x: ours.softmax(x, 1)[0, 1])(x), np.zeros((2, 2)))
    np.testing.assert_array_equal(fg.grad(lambda x: ours.log_softmax(x, 1)[0, 0])(x), [[1.0, -1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(fg.grad(lambda x: ours.log_softmax(x, 1)[1, 1])(x), np.zeros((2, 2)))


def test_polygamma_and_zeta_follow_scipys_dtypes_and_out():
    single = np.array([0.5, 2.0], np.float32)
    assert fg.vjp(lambda x: ours.polygamma(1, x), single)[0].dtype == special.polygamma(1, single).dtype
    out = fg.constant(np.zeros(2))
    result = fg.jvp(lambda q: ours.zeta(2.0, q, out), (np.array([1.0, 2.0]),), (np.ones(2),))[0]
    np.testing.assert_allclose(result, special.zeta(2.0, [1.0, 2.0]))
    with pytest.raises(InPlaceError, match=r"scipy\.special\.zeta"):
        fg.vjp(lambda q: ours.zeta(2.0, q, np.zeros(2)), np.array([1.0, 2.0]))


def test_polygamma_far_on_the_left_takes_no_longer():
    """A sum over all steps up to 0 would take minutes. Of the reflection only the cotangent is left there."""
    x = -1e9 - 0.3
    with mp.workdps(40):
        angle = mp.pi * mp.mpf(x)
        expected = float(-2 * mp.pi**3 * mp.cot(angle) / mp.sin(angle) ** 2)
    np.testing.assert_allclose(derivative(lambda x: ours.polygamma(1, x), 0, (x,)), expected, rtol=1e-10)


def test_counting_in_integers_is_scipys():
    """Under a trace whole numbers give whole numbers, and real ones SciPy's errors."""
    counted = []

    def f(x):
        n = (x * 2).astype(int)
        counted.extend([ours.factorial(n, exact=True), ours.factorial2(n), ours.factorialk(n, 3, exact=True)])
        counted.extend(
            [ours.comb(n, 2, exact=True), ours.comb(n, 2, exact=True, repetition=True), ours.perm(n, 2, exact=True)]
        )
        return x * float(sum(counted))

    assert fg.grad(f)(2.5) == 120 + 15 + 10 + 10 + 15 + 20
    for function in (
        lambda x: ours.factorial(x, exact=True),
        ours.factorial2,
        lambda x: ours.factorialk(x, 3),
        lambda x: ours.comb(x, 2, exact=True),
        lambda x: ours.perm(x, 2, exact=True),
        lambda x: ours.multigammaln(x, 9),
        lambda x: ours.multigammaln(x, 2.5),
    ):
        with pytest.raises(ValueError) as scipys:  # noqa: PT011  # its text is what is compared
            function(2.5)
        with pytest.raises(ValueError, match=re.escape(str(scipys.value)[:30])):
            fg.grad(function)(2.5)


def test_choices_out_of_range_count_for_nothing():
    for f in (ours.comb, ours.perm):
        assert fg.grad(lambda n: f(n, 3.0))(2.0) == 0
        assert fg.grad(lambda k: f(2.0, k))(-1.0) == 0
    assert fg.grad(lambda k: ours.comb(0.0, k, repetition=True))(0.0) == 0


def test_every_primitive_without_samples_says_why():
    assert set(NOT_SAMPLED) <= set(PRIMITIVES)
    assert {name for name, reason in NOT_SAMPLED.items() if "closed form" not in reason} == {
        "ncfdtrinc",
        "boxcox_slope_at_zero",
    }
    assert all(not PRIMITIVES[name].samples for name in NOT_SAMPLED)
