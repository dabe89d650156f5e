"""What fgrad does with `scipy.stats`: rows as in `coverage_table.py`.

ROWS    a row for each method of each distribution that is offered, and each statistic of samples, with calls
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from coverage_table import Row, real, refused

from fgrad import errors
from fgrad.scipy import stats

A = np.array
LOC, SCALE = A([0.3, -0.4, 0.1, 0.7]), A([1.3, 0.6, 2.1, 0.9])
Q = A([0.01, 0.3, 0.62, 0.97])
ON_THE_LINE = A([-2.1, -0.3, 0.4, 3.2])
POSITIVE = A([0.05, 0.6, 1.7, 5.2])
IN_UNIT = A([0.03, 0.35, 0.71, 0.94])
SHAPE, SHAPE2 = A([0.4, 1.3, 2.6, 7.5]), A([1.7, 0.7, 3.4, 12.5])
LARGE = A([9.0, 40.0, 300.0, 120.0])
P = A([0.08, 0.3, 0.55, 0.9])

CONTINUOUS: dict[str, list[tuple[Any, ...]]] = {
    "norm": [(ON_THE_LINE,), (A([-9.0, -5.0, 4.5, 8.0]),)],
    "t": [(ON_THE_LINE, SHAPE + 2), (ON_THE_LINE, LARGE)],
    "gamma": [(POSITIVE, SHAPE), (A([5.0, 42.0, 280.0, 150.0]), LARGE)],
    "beta": [(IN_UNIT, SHAPE, SHAPE2), (A([0.2, 0.45, 0.55, 0.9]), LARGE, A([31.0, 35.0, 250.0, 20.0]))],
    "chi2": [(POSITIVE, SHAPE)],
    "f": [(POSITIVE, SHAPE, SHAPE2 + 4)],
    "expon": [(POSITIVE,)],
    "laplace": [(ON_THE_LINE,)],
    "logistic": [(ON_THE_LINE,), (A([-30.0, -9.0, 8.0, 25.0]),)],
    "lognorm": [(POSITIVE, A([0.3, 0.6, 0.9, 1.7]))],
    "uniform": [(IN_UNIT,)],
    "cauchy": [(ON_THE_LINE,), (A([-300.0, -0.9, 1.2, 1e4]),)],
    "halfnorm": [(POSITIVE,)],
    "truncnorm": [
        (A([-1.2, 0.3, 1.1, 2.3]), A([-1.5, -3.0, 0.6, 2.0]), A([0.7, 2.5, 1.9, 3.0])),
        (A([-1.2, -0.3, -1.1, -2.3]), A([-1.5, -0.9, -1.6, -3.0]), A([-0.7, 0.1, -0.9, -2.1])),
    ],
    "weibull_min": [(POSITIVE, SHAPE)],
    "gumbel_r": [(ON_THE_LINE,)],
    "invgamma": [(POSITIVE, SHAPE + 2)],
    "pareto": [(1 + POSITIVE, SHAPE2 + 2)],
    "vonmises": [(A([-2.1, -0.3, 0.4, 1.9]), SHAPE)],
}
"""For each distribution the arguments of the standard form: `x`, and shape parameters for which there are moments."""

FURTHER: dict[str, tuple[Any, ...]] = {
    "gumbel_l": (ON_THE_LINE,),
    "genextreme": (A([-0.9, -0.3, 0.4, 1.7]), A([0.3, -0.3, 0.02, -0.1])),
    "genpareto": (POSITIVE / 3, A([0.3, -0.4, 0.02, 0.2])),
    "lomax": (POSITIVE, SHAPE2 + 2),
    "invweibull": (POSITIVE + 0.3, SHAPE2 + 2),
    "weibull_max": (-POSITIVE, SHAPE + 0.4),
    "gompertz": (POSITIVE / 2, SHAPE),
    "powerlaw": (IN_UNIT, SHAPE),
    "moyal": (ON_THE_LINE,),
    "fisk": (POSITIVE, SHAPE2 + 2),
    "burr12": (POSITIVE, SHAPE2 + 2, SHAPE + 1),
    "loguniform": (A([0.7, 1.1, 1.6, 2.2]), A([0.3, 0.6, 0.4, 0.5]), A([2.6, 2.4, 3.1, 2.9])),
    "halfcauchy": (POSITIVE,),
    "halflogistic": (POSITIVE,),
    "rayleigh": (POSITIVE,),
    "maxwell": (POSITIVE,),
    "chi": (POSITIVE, SHAPE),
    "nakagami": (POSITIVE / 3, SHAPE),
    "rice": (POSITIVE, A([0.7, 1.2, 2.3, 1.6])),
    "hypsecant": (ON_THE_LINE,),
    "genlogistic": (ON_THE_LINE, SHAPE),
    "skewnorm": (A([-2.1, -0.3, 0.4, 2.2]), A([0.7, -1.3, 2.1, -0.4])),
    "levy": (POSITIVE,),
    "invgauss": (POSITIVE, SHAPE),
    "wald": (POSITIVE,),
    "gibrat": (POSITIVE,),
    "gennorm": (ON_THE_LINE, A([1.4, 2.0, 2.3, 0.8])),
    "loggamma": (A([-2.1, -0.3, 0.4, 2.2]), SHAPE),
    "laplace_asymmetric": (ON_THE_LINE, SHAPE),
    "loglaplace": (POSITIVE, SHAPE2 + 2),
    "betaprime": (POSITIVE, SHAPE, SHAPE2 + 3),
    "johnsonsu": (ON_THE_LINE, A([0.7, -1.3, 2.1, -0.4]), SHAPE + 1),
    "johnsonsb": (IN_UNIT, A([0.7, -1.3, 2.1, -0.4]), SHAPE + 1),
    "fatiguelife": (POSITIVE, SHAPE),
    "powernorm": (A([-2.1, -0.3, 0.4, 2.2]), SHAPE),
    "arcsine": (IN_UNIT,),
}
"""The same for distributions of which one call makes all methods, at some of the points."""

WITHOUT_MOMENTS = ("halfcauchy", "levy")
"""Distributions whose moments are infinite; SciPy integrates the entropy of one of them, to ten digits."""

HEAVY: dict[str, tuple[Any, ...]] = {"t": (SHAPE,), "f": (SHAPE, SHAPE2), "invgamma": (SHAPE,), "pareto": (SHAPE2,)}
"""Shape parameters of distributions without moments."""

DISCRETE: dict[str, list[tuple[Any, ...]]] = {
    "poisson": [(A([0, 2, 5, 1]), (), A([0.3, 2.4, 3.1, 6.0])), (A([31, 8]), (), A([25.0, 11.0]))],
    "binom": [(A([0, 2, 3, 6]), (A([3, 5, 4, 7]),), P)],
    "bernoulli": [(A([0, 0, 0, 0]), (), P)],
    "geom": [(A([1, 2, 5, 3]), (), P)],
    "nbinom": [(A([0, 2, 5, 1]), (), SHAPE, P)],
}
"""For each distribution: counts, parameters that are counts, and the other parameters."""

NO_MOMENTS = ("vonmises", "cauchy")
NO_ENTROPY = ("poisson", "binom", "nbinom")
OF_X = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf")
OF_COUNT = ("logpmf", "pmf", "cdf", "logcdf", "sf", "logsf")
MOMENTS = ("mean", "var", "std")


def _method(distribution: str, method: str) -> tuple[str, Callable[..., Any]]:
    return f"fgrad.scipy.stats.{distribution}.{method}", getattr(getattr(stats, distribution), method)


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers in double precision, where SciPy itself takes no others."""
    return lambda *arrays: function(*(x * np.float64(1) for x in arrays))


def continuous_rows() -> Iterator[Row]:
    """Yield the rows of continuous distributions; the points are arrays, the parameters all different."""
    for name, points in CONTINUOUS.items():
        for method in OF_X:
            row, function = _method(name, method)
            heavy = [(points[0][0], *HEAVY[name])] if name in HEAVY else []
            yield real(row, *((function, x * SCALE + LOC, *shapes, LOC, SCALE) for x, *shapes in points + heavy))
        for method in ("ppf", "isf"):
            row, function = _method(name, method)
            yield real(row, *((function, Q, *shapes, LOC, SCALE) for _, *shapes in points))
        for method in (*MOMENTS, "median", "entropy"):
            row, function = _method(name, method)
            if name == "t" and method in MOMENTS:
                function = in_double(function)
            if method not in MOMENTS or name not in NO_MOMENTS:
                yield real(row, *((function, *shapes, LOC, SCALE) for _, *shapes in points))


def methods_of(name: str) -> list[str]:
    """Return the methods of a distribution for which there are formulas."""
    formulas = getattr(stats, name).formulas
    moments = [method for method in MOMENTS if method.replace("std", "var") in formulas]
    return [*OF_X, "ppf", "isf", *moments, "median", *(["entropy"] if "entropy" in formulas else [])]


def at_once(name: str) -> Callable[..., Any]:
    """Return a function of `x`, a probability and the parameters: what a distribution has formulas for."""

    derived = {"pdf", "std", "median"} | ({"mean", "var", "entropy"} if name in WITHOUT_MOMENTS else set())
    methods = [method for method in methods_of(name) if method not in derived]

    def values(x: Any, q: Any, *parameters: Any) -> dict[str, Any]:
        firsts = dict.fromkeys(OF_X, (x,)) | {"ppf": (q,), "isf": (q,)}
        distribution = getattr(stats, name)
        return {method: getattr(distribution, method)(*firsts.get(method, ()), *parameters) for method in methods}

    return values


def further_rows() -> Iterator[Row]:
    """Yield a row for each of the further distributions."""
    for name, (x, *shapes) in FURTHER.items():
        names = tuple(f"fgrad.scipy.stats.{name}.{method}" for method in methods_of(name))
        points = [each[::2] for each in (x * SCALE + LOC, Q, *shapes, LOC, SCALE)]
        yield real(names, (at_once(name), *points))


def _counting(function: Callable[..., Any], *counts: Any) -> Callable[..., Any]:
    return lambda *parameters: function(*counts, *parameters)


def discrete_rows() -> Iterator[Row]:
    """Yield the rows of discrete distributions, whose counts are constants."""
    for name, points in DISCRETE.items():
        for method in OF_COUNT:
            row, function = _method(name, method)
            yield real(row, *((_counting(function, k, *counts), *others) for k, counts, *others in points))
        for method in (*MOMENTS, "entropy"):
            row, function = _method(name, method)
            if method != "entropy" or name not in NO_ENTROPY:
                yield real(row, *((_counting(function, *counts), *others) for _, counts, *others in points))


CENTER, POINT = A([0.4, -1.1, 0.3]), A([1.2, 0.3, -0.7])
POINTS = A([[1.2, 0.3, -0.7], [0.1, -2.3, 0.4], [2.2, 1.6, 0.9], [-0.3, 0.2, -1.4]])
SPREAD = A([[2.1, 0.3, -0.4], [0.3, 1.4, 0.2], [-0.4, 0.2, 0.9]])
SPREAD2 = A([[1.3, -0.2, 0.1], [-0.2, 1.1, 0.4], [0.1, 0.4, 1.9]])
ALPHA, WEIGHTS = A([0.7, 2.3, 1.4]), A([0.3, -0.8, 0.5])
DF = A(6.4)


def whole(x: Any) -> Any:
    """Return a symmetric matrix: the derivative in a matrix is that along symmetric changes."""
    return (x + np.swapaxes(x, 0, 1)) / 2


def simplex(z: Any) -> Any:
    """Return proportions, which sum to 1."""
    powers = np.exp(z * np.float64(1))
    return powers / np.sum(powers, axis=0)


def of_matrices(function: Callable[..., Any], *matrices: int) -> Callable[..., Any]:
    """Return a function of any matrices, at some places, where SciPy wants symmetric ones."""
    return lambda *args: function(*(whole(x) if place in matrices else x for place, x in enumerate(args)))


def of_wishart(distribution: Any, method: str) -> Callable[..., Any]:
    """Return a method with `df` as a number, for SciPy's sake, and symmetric matrices."""
    function = getattr(distribution, method)
    return lambda *args: function(*(whole(x) if np.ndim(x) else x[()] for x in args))


def several(x: Any) -> Any:
    """Return three matrices along the last axis."""
    return np.stack([x, 2 * x, x + np.eye(3)], -1)


def multivariate_rows() -> Iterator[Row]:
    """Yield the rows of distributions of vectors and matrices."""
    normal, student, name = stats.multivariate_normal, stats.multivariate_t, "fgrad.scipy.stats.multivariate_"
    for method in ("logpdf", "pdf"):
        f = getattr(normal, method)
        yield real(
            f"{name}normal.{method}",
            (of_matrices(f, 2), POINT, CENTER, SPREAD),
            (of_matrices(f, 2), POINTS, CENTER, SPREAD),
            (f, POINTS, CENTER, A([0.7, 1.2, 0.4])),
            (lambda x, mean, cov, f=f: f(x, cov=cov, mean=mean), POINT, CENTER, A(0.8)),
            (f, A([0.3, -0.2]), A(0.4), A(0.8)),
            (f, A([0.3, -0.2])),
            (lambda cov, f=f: f(POINTS, cov=whole(cov)), SPREAD),
            (lambda x, mean, cov, method=method: getattr(normal(mean, whole(cov)), method)(x), POINT, CENTER, SPREAD),
        )
        f = getattr(student, method)
        yield real(
            f"{name}t.{method}",
            (of_matrices(f, 2), POINT, CENTER, SPREAD, DF),
            (of_matrices(f, 2), POINTS, CENTER, SPREAD, DF),
            (lambda x, df, f=f: f(x, df=df), A([0.3, -0.2]), DF),
        )
    two = slice(None, 2)
    for method in ("cdf", "logcdf"):
        f = getattr(normal, method)
        yield real(
            f"{name}normal.{method}",
            (of_matrices(f, 2), POINT[two], CENTER[two], SPREAD[two, two]),
            (of_matrices(f, 2), POINTS[:, two], CENTER[two], SPREAD[two, two]),
            (lambda x, low, f=f: f(x, low, lower_limit=low - 1), POINTS[2, two], CENTER[two]),
            (lambda x, cov, f=f: f(x, cov=cov), A(0.3), A(0.8)),
        )
    # SciPy's integral is random in the fourth digit, too few for differences; the tests compare with another one.
    yield replace(real(f"{name}t.cdf"), calls=())
    yield real(
        f"{name}normal.marginal",
        (lambda mean, cov: normal.marginal([2, 0], mean, whole(cov)).logpdf(POINT[two]), CENTER, SPREAD),
    )
    yield real(
        f"{name}t.marginal",
        (lambda loc, shape, df: student.marginal(-1, loc, whole(shape), df).logpdf(0.3), CENTER, SPREAD, DF),
    )
    yield real(
        f"{name}normal.entropy", (lambda cov: normal.entropy(cov=whole(cov)), SPREAD), (normal.entropy, CENTER, A(0.7))
    )
    yield real(
        f"{name}t.entropy",
        (lambda shape, df: student.entropy(shape=whole(shape), df=df), SPREAD, DF),
        (lambda df: student.entropy(CENTER[:1], 1.0, df), DF),
    )
    for method in ("logpdf", "pdf"):
        f = getattr(stats.dirichlet, method)
        yield real(
            f"fgrad.scipy.stats.dirichlet.{method}",
            (lambda z, alpha, f=f: f(simplex(z), alpha), WEIGHTS, ALPHA),
            (lambda z, alpha, f=f: f(simplex(z)[:-1], alpha), WEIGHTS, ALPHA),
            (lambda z, alpha, f=f: f(simplex(z), alpha), POINTS[:3, :2], ALPHA),
            (lambda z, alpha, f=f: f(simplex(z)[:-1], alpha), POINTS[:3, :2], ALPHA),
        )
        f = getattr(stats.multinomial, method.replace("pdf", "pmf"))
        yield real(
            f"fgrad.scipy.stats.multinomial.{method.replace('pdf', 'pmf')}",
            (lambda z, f=f: f(A([2, 0, 3]), 5, simplex(z)), WEIGHTS),
            (lambda z, f=f: f(A([[2, 0, 3], [1, 1, 1], [9, 4, 12]]), A([5, 3, 25]), simplex(z)), WEIGHTS),
        )
        for family in ("wishart", "invwishart"):
            f = of_wishart(getattr(stats, family), method)
            yield real(
                f"fgrad.scipy.stats.{family}.{method}",
                (f, SPREAD2, DF, SPREAD),
                (lambda x, df, scale, f=f: f(several(x), df, scale), SPREAD2, DF, SPREAD),
                (f, A(0.7), DF, A(1.3)),
            )
    for method in ("mean", "var", "cov", "entropy"):
        yield real(f"fgrad.scipy.stats.dirichlet.{method}", (getattr(stats.dirichlet, method), ALPHA))
    for method in ("mean", "cov"):
        f = getattr(stats.multinomial, method)
        yield real(
            f"fgrad.scipy.stats.multinomial.{method}",
            (lambda z, f=f: f(5, simplex(z)), WEIGHTS),
            (lambda z, f=f: f(A([5, 3]), simplex(z)), WEIGHTS),
        )
    for family in ("wishart", "invwishart"):
        for method in MOMENTS[:2] if family == "invwishart" else (*MOMENTS[:2], "entropy"):
            f = of_wishart(getattr(stats, family), method)
            yield real(f"fgrad.scipy.stats.{family}.{method}", (f, DF + 2, SPREAD), (f, DF, A(1.3)))


NOT_DIFFERENTIATED = "SciPy's own, for arguments that are not traced"


def refused_rows() -> Iterator[Row]:
    """Yield the rows of methods that have no derivative, or none yet."""
    x, a = A(0.7), A(1.7)
    for name, function, points in (
        ("norm.rvs", lambda loc: stats.norm.rvs(loc), (x,)),
        ("norm.fit", lambda data: stats.norm.fit(data), (POSITIVE,)),
        ("norm.interval", lambda scale: stats.norm.interval(0.9, scale=scale), (x,)),
        ("gamma.moment", lambda a: stats.gamma.moment(2, a), (a,)),
        ("gamma.stats", lambda a: stats.gamma.stats(a), (a,)),
        ("vonmises.mean", lambda loc: stats.vonmises.mean(2.0, loc), (x,)),
        ("poisson.entropy", lambda mu: stats.poisson.entropy(mu), (a,)),
        ("poisson.ppf", lambda mu: stats.poisson.ppf(0.3, mu), (a,)),
        ("binom.entropy", lambda p: stats.binom.entropy(4, p), (x,)),
        ("nbinom.entropy", lambda p: stats.nbinom.entropy(4, p), (x,)),
        ("multinomial.entropy", lambda p: stats.multinomial.entropy(4, p), (A([0.3, 0.7]),)),
        ("invwishart.entropy", lambda df: stats.invwishart.entropy(df, np.eye(2)), (a,)),
        ("wishart.mode", lambda scale: stats.wishart.mode(7.0, scale), (a,)),
    ):
        match = f"scipy.stats.{name} has no derivative rule"
        yield refused(
            f"fgrad.scipy.stats.{name}", NOT_DIFFERENTIATED, errors.MissingRuleError, match, function, at=points
        )


# Statistics of samples

SAMPLE, OTHER = A([0.31, 1.24, 0.77, 2.13, 1.62, 0.45]), A([0.82, 0.35, 1.91, 1.17, 0.59, 2.26])
TABLE = A([[0.9, 0.2, 1.4, 0.6], [0.3, 1.7, 0.1, 1.1], [0.5, 1.2, 0.8, 2.3]])
CUBE = np.stack([TABLE, TABLE[::-1] ** 2 + 0.3])


def of(name: str, **options: Any) -> Callable[..., Any]:
    """Return a function of `fgrad.scipy.stats` with some arguments."""
    return partial(getattr(stats, name), **options)


def values(function: Callable[..., Any], *attributes: str) -> Callable[..., Any]:
    """Return a function of the attributes of what a test returns."""
    names = attributes or ("statistic", "pvalue")
    return lambda *args: tuple(getattr(result, name) for result in [function(*args)] for name in names)


def with_interval(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of what a t-test returns, and of the finite ends of an interval."""

    def run(*args: Any) -> Any:
        result = function(*args)
        low, high = result.confidence_interval(0.9)
        ends = {"two-sided": (low, high), "less": (high,), "greater": (low,)}[function.keywords["alternative"]]  # type: ignore[attr-defined]
        return (*result, result.df, *ends)

    return run


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "gmean": [{"dtype": np.float64}],
    "hmean": [{}],
    "pmean": [{"p": 3}, {"p": -0.5, "axis": 1}, {"p": 0}],
    "moment": [{"order": 3}, {"order": [0, 1, 2, 4], "axis": 1}, {"order": 2, "keepdims": True}],
    "skew": [{"bias": False, "axis": 1}],
    "kurtosis": [{"bias": False, "axis": -1}, {"fisher": False}],
    "gstd": [{"ddof": 0}],
    "variation": [{"ddof": 1}],
    "sem": [{"ddof": 0}],
    "entropy": [{"base": 2, "axis": 1}],
    "circmean": [{"high": 3.0, "low": -1.0, "axis": 1}],
    "circvar": [{"axis": 0}],
    "circstd": [{"high": 3.0, "axis": 1}, {"normalize": True}],
}
"""Arguments of statistics of one sample, besides those that all of them have."""

FURTHER_CALLS: dict[str, list[tuple[Any, ...]]] = {
    "gmean": [(lambda a, w: stats.gmean(a, 1, weights=w), TABLE, TABLE[::-1])],
    "hmean": [(lambda a, w: stats.hmean(a, 1, weights=w), TABLE, TABLE[::-1])],
    "pmean": [(lambda a, w: stats.pmean(a, 2, weights=w), SAMPLE, OTHER)],
    "moment": [(lambda a, c: stats.moment(a, 3, center=c[()]), SAMPLE, A(0.7))],
    "entropy": [(stats.entropy, SAMPLE, OTHER), (of("entropy", axis=1, keepdims=True), TABLE, TABLE[::-1])],
}


def sample_rows() -> Iterator[Row]:
    """Yield the rows of statistics of samples, and of tests."""
    common: list[dict[str, Any]] = [{"axis": None}, {"axis": 1, "keepdims": True}, {"axis": (0, 2)}]
    for name, options in OPTIONS.items():
        least = {"p": 2.5} if name == "pmean" else {"order": 2} if name == "moment" else {}
        yield real(
            f"fgrad.scipy.stats.{name}",
            (of(name, **least), SAMPLE),
            *((of(name, **least | each), CUBE) for each in common),
            *((of(name, **least | each), TABLE) for each in options),
            *FURTHER_CALLS.get(name, []),
        )
    for name in ("zscore", "gzscore"):
        choices: list[dict[str, Any]] = [{"axis": None}, {"axis": (0, 1)}, {"axis": 1, "ddof": 1}]
        calls = [(of(name, **each), CUBE) for each in choices]
        yield real(f"fgrad.scipy.stats.{name}", (getattr(stats, name), SAMPLE), *calls)
    yield real("fgrad.scipy.stats.zmap", (stats.zmap, A(0.7), OTHER), (of("zmap", axis=1, ddof=1), TABLE, TABLE[::-1]))
    yield from rows_of_tests()


SIDES = ("two-sided", "less", "greater")
_OF_LINE = ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr")


def from_stats(equal_var: bool) -> Callable[..., Any]:
    """Return the test of two means whose standard deviations are known."""
    return values(lambda m, s, n, t: stats.ttest_ind_from_stats(m, s, 5, n, t, 7, equal_var))


def rows_of_tests() -> Iterator[Row]:
    """Yield the rows of tests of hypotheses."""
    short = SAMPLE[:4] + 0.3
    yield real(
        "fgrad.scipy.stats.ttest_1samp",
        *((with_interval(of("ttest_1samp", alternative=side)), SAMPLE, A(0.7)) for side in SIDES),
        (values(of("ttest_1samp", axis=1, keepdims=True)), TABLE, A([[0.4]])),
        (values(of("ttest_1samp", axis=None)), CUBE, A(0.9)),
    )
    yield real(
        "fgrad.scipy.stats.ttest_ind",
        *((with_interval(of("ttest_ind", alternative=side)), SAMPLE, short) for side in SIDES),
        *((with_interval(of("ttest_ind", alternative=side, equal_var=False)), SAMPLE, short) for side in SIDES),
        (values(of("ttest_ind", axis=1, keepdims=True)), TABLE, TABLE[::-1, :3]),
    )
    yield real(
        "fgrad.scipy.stats.ttest_rel",
        *((with_interval(of("ttest_rel", alternative=side)), SAMPLE, OTHER) for side in SIDES),
        (values(of("ttest_rel", axis=1)), TABLE, TABLE[::-1] ** 2),
    )
    yield real(
        "fgrad.scipy.stats.ttest_ind_from_stats",
        *((from_stats(equal_var), A(0.4), A(1.3), A(0.9), A(0.6)) for equal_var in (True, False)),
    )
    yield real(
        "fgrad.scipy.stats.f_oneway",
        (values(stats.f_oneway), SAMPLE, short, OTHER + 0.4),
        (values(of("f_oneway", axis=1, keepdims=True)), TABLE, TABLE[::-1, :3]),
    )
    jarque_bera = values(of("jarque_bera", axis=1))
    yield real("fgrad.scipy.stats.jarque_bera", (values(stats.jarque_bera), SAMPLE), (jarque_bera, TABLE))
    yield real(
        "fgrad.scipy.stats.pearsonr",
        *((values(of("pearsonr", alternative=side)), SAMPLE, OTHER) for side in SIDES),
        (values(of("pearsonr", axis=1)), TABLE, TABLE[::-1]),
    )
    yield real(
        "fgrad.scipy.stats.linregress",
        *((values(of("linregress", alternative=side), *_OF_LINE), SAMPLE, OTHER) for side in SIDES),
    )
    yield refused(
        "fgrad.scipy.stats.spearmanr",
        "of ranks, which are constant in pieces",
        errors.NoDerivativeError,
        "spearmanr has the derivative 0 wherever it has one",
        lambda x: stats.spearmanr(x, OTHER).statistic,
        at=(SAMPLE,),
    )


ROWS: list[Row] = [
    *continuous_rows(), *further_rows(), *discrete_rows(), *multivariate_rows(), *sample_rows(), *refused_rows(),
]  # fmt: skip
