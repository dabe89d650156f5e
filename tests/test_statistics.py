"""Order statistics, nan-functions, averages, covariances, histograms and reductions with all their options.

Rows are calls on NumPy's own module; `check_call` of `test_sorting.py` compares value, derivatives to
second order in both modes, single precision and batches with NumPy, finite differences and a loop.
"""

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from test_sorting import C, M, V, Z, check_batch, check_call, check_single, check_value, compare, named

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.ops.lengths import product_into
from fgrad.testing import check_grads

RNG = np.random.default_rng(2)
W = RNG.uniform(0.2, 1.0, C.shape)
MASK = np.array([[True, True, False], [False, True, True]])
MANY = RNG.uniform(0.5, 1.5, (3, 4, 2))
KEPT = np.ones((3, 4, 2), np.bool_)
KEPT[0, 1] = KEPT[1, 2, 0] = False
ZM = M + 1j * M[::-1] ** 2

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip
INTERPOLATING = [
    "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased",
]  # fmt: skip

REDUCTIONS = [
    ("sum dtype", lambda x: np.sum(x, axis=0, dtype=np.complex128).imag + np.sum(x, axis=0), M),
    ("ptp", lambda x: np.ptp(x), M),
    ("ptp axis", lambda x: np.ptp(x, axis=(0, -1), keepdims=True), C),
    ("mean where", lambda x: np.mean(x, axis=1, where=MASK, keepdims=True), M),
    ("var correction", lambda x: np.var(x, axis=(0, 2), correction=1), C),
    ("var mean", lambda x: np.var(x, axis=1, mean=x.mean(axis=1, keepdims=True)), M),
    ("var other mean", lambda x: np.var(x, mean=np.full((1, 1), 0.3, x.dtype)), M),
    ("var where ddof", lambda x: np.var(x, axis=0, where=KEPT, ddof=1), MANY),
    ("std mean where", lambda x: np.std(x, axis=1, where=KEPT, mean=np.full((3, 1, 2), 0.3, x.dtype)), MANY),
    ("std ddof", lambda x: np.std(x, ddof=0.5, keepdims=True), M),
    ("var complex", lambda x: np.var(x, axis=0), ZM),
    ("median", lambda x: np.median(x), V),
    ("median of an even number", lambda x: np.median(x), M),
    ("median axis", lambda x: np.median(x, axis=1, keepdims=True), C),
    ("median axes", lambda x: np.median(x, axis=(0, -1)), C),
    ("nanmedian", lambda x: np.nanmedian(x, axis=-1), C),
    ("nanmedian of all", lambda x: np.nanmedian(x, keepdims=True), C),
    ("percentile", lambda x: np.percentile(x, 30.0, axis=1), C),
    ("percentiles", lambda x: np.percentile(x, [20, 55], axis=(0, 1), keepdims=True), C),
    ("quantile", lambda x: np.quantile(x, 0.62), C),
    ("quantiles", lambda x: np.quantile(x, np.array([[0.2, 0.9], [0.0, 1.0]], x.dtype), axis=-1), C),
    ("many quantiles", lambda x: np.quantile(x, np.linspace(0.01, 0.99, 12).astype(x.dtype), axis=0), C),
    ("nanquantile", lambda x: np.nanquantile(x, 0.62, axis=1), C),
    ("nanpercentiles", lambda x: np.nanpercentile(x, [20.5, 77], axis=0), C),
    ("quantile with weights", lambda x: np.quantile(x, 0.4, axis=1, weights=W, method="inverted_cdf"), C),
    ("quantile weighing an axis",
        lambda x: np.quantile(x, [0.4, 0.9], axis=2, weights=[1, 0, 2, 3], method="inverted_cdf"), C),
    ("nanpercentile with weights", lambda x: np.nanpercentile(x, 40, weights=W, method="inverted_cdf"), C),
    ("nansum", lambda x: np.nansum(x, axis=1), M),
    ("nansum options", lambda x: np.nansum(x, axis=0, where=MASK, initial=2.0, keepdims=True), M),
    ("nanprod", lambda x: np.nanprod(x, axis=(0, 2)), C),
    ("nanprod options", lambda x: np.nanprod(x, where=MASK, initial=2.0), M),
    ("nanmean", lambda x: np.nanmean(x, axis=0, keepdims=True), M),
    ("nanmean where", lambda x: np.nanmean(x, axis=1, where=MASK), M),
    ("nanvar", lambda x: np.nanvar(x, axis=1, ddof=1), M),
    ("nanvar options", lambda x: np.nanvar(x, axis=0, where=KEPT, correction=1, keepdims=True), MANY),
    ("nanvar mean", lambda x: np.nanvar(x, axis=1, mean=np.mean(x * 0.9, axis=1, keepdims=True)), M),
    ("nanvar complex", lambda x: np.nanvar(x), ZM),
    ("nanstd", lambda x: np.nanstd(x, axis=(0, 1)), C),
    ("nanmax", lambda x: np.nanmax(x, axis=1), M),
    ("nanmin options", lambda x: np.nanmin(x, axis=0, where=MASK, initial=9.0, keepdims=True), M),
    ("nanmax initial", lambda x: np.nanmax(x, initial=-9.0), M),
    ("nan_to_num", lambda x: np.nan_to_num(x), M),
    ("nan_to_num complex", lambda x: np.nan_to_num(x, nan=1.0), Z),
    ("average", lambda x: np.average(x), M),
    ("average axis", lambda x: np.average(x, axis=(0, 2), keepdims=True), C),
    ("average returned", lambda x: np.average(x, axis=1, returned=True), M),
    ("cov", lambda x: np.cov(x), M),
    ("cov of one variable", lambda x: np.cov(x), V),
    ("cov columns", lambda x: np.cov(x, rowvar=False), M),
    ("cov y", lambda x: np.cov(x, M[::-1] ** 2), M),
    ("cov y columns", lambda x: np.cov(x, x * x, rowvar=False, bias=True), M),
    ("cov ddof", lambda x: np.cov(x, ddof=0), M),
    ("cov complex", lambda x: np.cov(x), ZM),
    ("cov fweights", lambda x: np.cov(x, fweights=[1, 3, 2]), M),
    ("cov all weights", lambda x: np.cov(x, fweights=[1, 3, 2], aweights=[0.5, 1.5, 0.7]), M),
    ("corrcoef", lambda x: np.corrcoef(x), M),
    ("corrcoef y columns", lambda x: np.corrcoef(x.T, M.T**2, rowvar=False), M),
    ("corrcoef complex", lambda x: np.corrcoef(x), ZM),
    ("corrcoef of one variable", lambda x: np.corrcoef(x), V),
    ("histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 3), M),
    ("histogram density", lambda x: np.histogram(x, 3, density=True), V),
    ("histogram range", lambda x: np.histogram(x, 3, (0.4, 1.2)), V),
    ("histogram2d density", lambda x: np.histogram2d(x, V[::-1], 2, density=True), V),
    ("histogramdd", lambda x: np.histogramdd(x, 2, density=True), M.T),
]  # fmt: skip

SEVERAL = [
    ("average with weights", lambda x, w: np.average(x, weights=w, returned=True), C, W),
    ("average over an axis", lambda x, w: np.average(x, axis=1, weights=w, keepdims=True), C, W),
    ("average weighing axes", lambda x, w: np.average(x, axis=(2, 0), weights=w, returned=True), C, W[:, 0].T),
    ("cov aweights", lambda x, w: np.cov(x, aweights=w), M, W[0, 0, :3]),
    ("cov aweights bias", lambda x, w: np.cov(x, aweights=w, fweights=[1, 3, 2], bias=True), M, W[0, 0, :3]),
    ("cov of two", lambda x, y: np.cov(x, y), V, V[::-1] ** 2),
    ("var about a mean", lambda x, m: np.var(x, axis=0, mean=m), M, M[:1] * 0.8),
    ("quantile by q", lambda x, q: np.quantile(x, q, axis=1), C, np.array([0.13, 0.62])),
    ("percentile by q", lambda x, q: np.percentile(x, q, axis=0), M, np.array(37.0)),
    ("nanquantile by q", lambda x, q: np.nanquantile(x, q), C, np.array(0.41)),
    ("histogram of weights", lambda x, w: np.histogram(x, 3, weights=w), M, W[0, 0, :3] * np.ones((2, 1))),
    ("histogram density of weights", lambda x, w: np.histogram(x, 3, weights=w, density=True), V, V[::-1]),
    ("histogram between edges", lambda e, w: np.histogram(V, e, weights=w, density=True), np.array([0.2, 0.8, 1.3]), V),
    ("histogram2d", lambda x, w: np.histogram2d(x, V**2, [3, [0, 0.5, 2]], weights=w, density=True)[0], V, V[::-1]),
    ("histogramdd of weights", lambda x, w: np.histogramdd((x, V), (2, 3), weights=w)[0], V[::-1], V),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), named(REDUCTIONS))
def test_of_one_array(f, x):
    check_call(f, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.cov(x, dtype=np.float32),
        lambda x: np.cov(x, dtype=np.float32, aweights=[0.5, 1.5, 0.7]),
        lambda x: np.corrcoef(x, dtype=np.float32),
        lambda x: np.var(x, axis=0, dtype=np.complex128),
        lambda x: np.std(x, axis=0, dtype=np.complex128),
        lambda x: np.std(x, axis=0, dtype=np.complex128, where=MASK),
        lambda x: np.isclose(x, x[::-1], rtol=np.nan),
        lambda x: np.histogram(x - 0.9, [-2, 0, 2])[0],
        lambda x: np.histogramdd(x - 0.9, [[-2, 0, 2]] * 3, density=True)[0],
    ],
)
def test_dtypes_and_values_are_numpys(f):
    x = M[:, :3]
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of the tolerance
        expected, found = f(x), fg.vjp(f, x)[0]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("f", "x", "y"), named(SEVERAL))
def test_of_two_arrays(f, x, y):
    check_value(f, x, y)
    check_grads(f, (x, y), order=2)
    check_single(f, x, y)
    check_batch(f, x, y)


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_every_method_of_quantiles(method):
    holes = C.copy()
    holes[0, 0, 0] = holes[1, 2, 1] = np.nan
    levels = (0.3, 0.0, 1.0, 0.5, np.array([0.1, 0.77]), np.float32(0.4), np.array([0, 1]))
    kinds, first = (C, C.astype(np.float32), holes), list(METHODS).index(method)
    for place, (q, axis) in enumerate(itertools.product(levels, (None, 0, -1, (0, 2))), first):
        for name in ("quantile", "nanquantile"):  # of one kind of array each; the next method has the next one
            check_value(
                lambda x: getattr(np, name)(x, q, axis=axis, method=method, keepdims=axis == 0), kinds[place % 3]
            )
    check_grads(lambda x: np.quantile(x, 0.37, axis=1, method=method), (C,))
    check_grads(lambda q: fnp.quantile(C, q, axis=1, method=method), (np.array([0.37, 0.71]),))
    slopes = fg.grad(lambda q: np.sum(np.quantile(C, q, method=method)))(0.37)
    assert (slopes > 0) == (method in INTERPOLATING)


def test_a_histogram_of_no_points_counts_in_double_precision():
    x = np.zeros((0, 2))
    assert fg.vjp(lambda x: np.histogramdd(x, 2)[0], x)[0].dtype == np.histogramdd(x, 2)[0].dtype


def test_quantiles_of_integers_by_q():
    x = np.array([1, 5, 2, 9])
    check_grads(lambda q: np.quantile(x, q), (np.array(0.4),))
    compare(fg.vjp(lambda q: np.quantile(x, q, method="lower"), 0.4)[0], np.quantile(x, 0.4, method="lower"))
    compare(np.median(Tensor(x)), np.median(x))


def test_a_batch_of_levels():
    levels = np.array([0.1, 0.5, 0.83])
    compare(fg.vmap(lambda q: np.quantile(C, q, axis=1))(levels), np.quantile(C, levels, axis=1))
    with pytest.raises(ValueError, match=r"Quantiles must be in the range \[0, 1\]"):
        fg.vmap(lambda q: np.quantile(C, q))(levels * 2)


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanquantile"])
def test_medians_with_nan_and_infinity(name):
    def f(x):
        return getattr(np, name)(x, *([0.5] if "quantile" in name else []), axis=-1)

    x = np.array([[1.0, np.nan, 4.0, 2.0], [np.inf, 1.0, 7.0, -np.inf]])
    check_value(f, x)
    gradient = fg.grad(lambda x: np.sum(f(x)))(x).numpy()
    row = [0.0, 0.0, 0.0, 1.0] if "nan" in name else [0.0] * 4
    np.testing.assert_array_equal(gradient, [row, [0.0, 0.5, 0.5, 0.0]])


def test_rows_that_are_all_nan():
    x = np.array([[np.nan, np.nan], [1.0, np.nan]])
    for name in ("nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian"):
        f = getattr(np, name)
        with np.errstate(all="ignore"):
            if name != "nanmedian":
                with pytest.warns(RuntimeWarning, match="All-NaN slice|Mean of empty slice|Degrees of freedom <= 0"):
                    found = fg.grad(lambda x: np.sum(f(x, axis=1)))(x)
            else:
                found = fg.grad(lambda x: np.sum(f(x, axis=1)))(x)
        assert found.numpy()[0].tolist() == [0.0, 0.0]
        assert found.numpy()[1, 1] == 0
        assert np.isfinite(found.numpy()).all()


NAN_FUNCTIONS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]


@pytest.mark.parametrize("name", NAN_FUNCTIONS)
@pytest.mark.parametrize("keywords", [{}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}])
def test_what_is_skipped_gets_exactly_0_to_second_order(name, keywords):
    holes = C.copy()
    holes[0, 0, 0] = holes[1, 2, :2] = np.nan

    def f(x):
        return getattr(np, name)(x, **keywords)

    check_value(f, holes)
    check_value(f, holes.astype(np.float32))
    missing = np.isnan(holes)
    at = np.where(missing, 0.7, holes)
    check_grads(lambda x: f(np.where(missing, np.nan, x)), (at,), order=2)
    gradient = fg.grad(lambda x: np.sum(f(x) ** 2))
    second = fg.grad(lambda x: np.sum(gradient(x) ** 2))
    direction = RNG.standard_normal(holes.shape)
    for found in (gradient(holes), second(holes), fg.jvp(gradient, (holes,), (direction,))[1]):
        assert np.all(found.numpy()[missing] == 0)
        assert np.all(np.isfinite(found.numpy()))
        assert np.any(found.numpy() != 0)


def test_nan_does_not_share_with_infinity():
    x = np.array([-np.inf, np.nan])
    assert fg.grad(np.nanmax)(x).tolist() == [1.0, 0.0]
    assert fg.grad(np.nansum)(np.array([np.nan, 2.0])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("keywords", [{}, {"nan": 7.0, "posinf": np.inf, "neginf": -3.0}])
def test_nan_to_num(dtype, keywords):
    parts = np.array([1.5, np.nan, np.inf, -np.inf])
    if np.dtype(dtype).kind == "c":
        pairs = np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2)
        x = pairs.view(np.complex128)[:, 0].astype(dtype)
        expected = np.isfinite(x.real) + 0j - 1j * np.isfinite(x.imag)
        cotangent = 1 - 1j
    else:
        x, cotangent = parts.astype(dtype), 1
        expected = np.isfinite(x) * 1.0
    check_value(lambda x: np.nan_to_num(x, **keywords), x)
    found = fg.vjp(lambda x: np.nan_to_num(x, **keywords), x)[1](np.full(x.shape, cotangent, dtype))[0]
    compare(found, expected.astype(dtype))


def test_weights_of_quantiles():
    weights = np.array([1.0, 0.0, 2.0, 3.0, 0.5])
    x = np.array([3.0, 1.0, np.nan, 2.0, 5.0])
    for q in (0.0, 0.3, 1.0, [0.2, 0.6]):
        check_value(lambda x: np.nanquantile(x, q, weights=weights, method="inverted_cdf"), x)
        check_value(lambda x: np.quantile(x, q, weights=weights, method="inverted_cdf"), V)
        check_value(lambda x: np.quantile(x, q, weights=weights, method="inverted_cdf"), x)
    gradients = fg.vjp(lambda x, w: np.quantile(x, 0.5, weights=w, method="inverted_cdf"), V, weights)[1](1.0)
    assert [g.tolist() for g in gradients] == [[0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 5]
    rows = fg.vmap(lambda x, w: np.quantile(x, [0.2, 0.6], weights=w, method="inverted_cdf"))(C[0], W[0])
    loop = [np.quantile(x, [0.2, 0.6], weights=w, method="inverted_cdf") for x, w in zip(C[0], W[0], strict=True)]
    compare(rows, np.stack(loop))


def test_bincount():
    places = np.array([2, 0, 2, 1, 5])
    check_call(lambda w: np.bincount(places, w, minlength=8), V.astype(np.float64))
    check_value(lambda w: np.bincount(places, w), V.astype(np.float32))
    chosen = fg.vjp(lambda x: np.bincount(np.argsort(x)) * x, V)[0]
    compare(chosen, V)
    with pytest.raises(errors.ConcretizationError, match=r"np\.bincount needs a value"):
        fg.vmap(lambda x: np.bincount(np.argsort(x)))(M)


def test_histograms_of_other_dtypes():
    check_value(lambda x, w: np.histogram(x, 4, weights=w), V.astype(np.float32), V.astype(np.float32))
    check_value(lambda x: np.histogram(x, 4, range=(0, 1)), V.astype(np.float32))
    check_call(lambda w: np.histogram(V, 2, weights=w), V + 1j * V[::-1])
    check_value(lambda x: np.histogram(x), np.ones(3))
    check_value(lambda x: np.histogram(x, 3), np.zeros(0))
    check_value(lambda x: np.histogram(x, 3, range=(0, 1)), np.array([np.nan, 0.5, 1.0, 2.0, 0.0]))
    for bins in ("auto", "fd", "sqrt", "scott"):
        check_value(lambda x: np.histogram(x, bins), RNG.standard_normal(50))
        check_value(lambda x: np.histogram_bin_edges(x, bins, (-1, 1)), RNG.standard_normal(50))
    with pytest.raises(errors.ConcretizationError, match="np.histogram with bins='auto' needs a value"):
        fg.vmap(lambda x: np.histogram(x, "auto"))(M)


def test_histogram_with_a_traced_range():
    def density(first, last):
        return fnp.histogram(V, 3, range=(first, last), density=True)

    check_grads(density, (np.array(0.25), np.array(1.5)))


def test_numpys_own_errors():
    ones = np.ones(5)
    for f, error, message in (
        (lambda x: np.quantile(x, 1.5), ValueError, r"Quantiles must be in the range \[0, 1\]"),
        (lambda x: np.percentile(x, 101), ValueError, r"Percentiles must be in the range \[0, 100\]"),
        (lambda x: np.quantile(x, 0.5, method="median"), ValueError, "'median' is not a valid method"),
        (lambda x: np.quantile(x * 1j, 0.5), TypeError, "a must be an array of real numbers"),
        (lambda x: np.quantile(x, 0.5, weights=ones), ValueError, "Only method 'inverted_cdf' supports weights"),
        (lambda x: np.quantile(x, 0.5, weights=-ones, method="inverted_cdf"), ValueError, "must be non-negative"),
        (lambda x: np.quantile(x, 0.5, weights=0 * ones, method="inverted_cdf"), ValueError, "Weights included NaN"),
        (lambda x: np.quantile(x, [[[0.5]]]), ValueError, "q must be a scalar or 1d"),
        (lambda x: np.average(x, weights=ones[:3]), TypeError, "Axis must be specified when shapes of a and weights"),
        (lambda x: np.average(x, axis=0, weights=ones[:3]), ValueError, "Shape of weights must be consistent"),
        (lambda x: np.average(x, weights=0 * ones), ZeroDivisionError, "Weights sum to zero"),
        (lambda x: np.cov(x, ddof=0.5), ValueError, "ddof must be integer"),
        (lambda x: np.cov(x[None, None]), ValueError, "m has more than 2 dimensions"),
        (lambda x: np.cov(x, fweights=ones * 0.5), TypeError, "fweights must be integer"),
        (lambda x: np.cov(x, fweights=ones[:2]), RuntimeError, "incompatible numbers of samples and fweights"),
        (lambda x: np.cov(x, aweights=-ones), ValueError, "aweights cannot be negative"),
        (lambda x: np.cov(x, aweights=ones[None]), RuntimeError, "cannot handle multidimensional aweights"),
        (lambda x: np.var(x, ddof=1, correction=1), ValueError, "ddof and correction can't be provided simultaneously"),
        (lambda x: np.nanvar(x, ddof=1, correction=1), ValueError, "ddof and correction can't be provided"),
        (lambda x: np.nanmean(x, dtype=int), TypeError, "If a is inexact, then dtype must be inexact"),
        (lambda x: np.nanmax(x, where=x > 1), ValueError, "'fmax' does not have an identity"),
        (lambda x: np.histogram(x, 0), ValueError, "`bins` must be positive, when an integer"),
        (lambda x: np.histogram(x, [2, 1]), ValueError, "`bins` must increase monotonically, when an array"),
        (lambda x: np.histogram(x * np.nan), ValueError, r"autodetected range of \[nan, nan\] is not finite"),
        (lambda x: np.histogram(x, weights=ones[:2]), ValueError, "weights should have the same shape as a"),
        (lambda x: np.histogram(x, 3, (2, 1)), ValueError, "max must be larger than min in range parameter"),
        (lambda x: np.histogramdd((x, x), [2]), ValueError, "The dimension of bins must be equal to the dimension"),
        (lambda x: np.histogram2d(x, x[:2]), ValueError, "x and y must have the same length"),
        (lambda x: np.bincount(np.array([-1]), x[:1]), ValueError, "must have no negative elements"),
    ):
        with np.errstate(all="ignore"), pytest.raises(error, match=message):
            f(V)
        with pytest.raises(error, match=message):
            fg.vjp(f, V)


def test_numpys_own_warnings():
    for f, message in (
        (lambda x: np.var(x, ddof=5), "Degrees of freedom <= 0 for slice"),
        (lambda x: np.cov(x, ddof=5), "Degrees of freedom <= 0 for slice"),
        (lambda x: np.nanvar(x, ddof=5), "Degrees of freedom <= 0 for slice"),
        (lambda x: np.nanmax(x * np.nan), "All-NaN slice encountered"),
    ):
        with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match=message):
            expected = f(V)
        with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match=message):
            compare(fg.vjp(f, V)[0], expected)


WITH_OUT = [
    "median", "nanmedian", "nansum", "nanmean", "nanvar", "nanstd", "nanmax", "ptp", "sum", "mean", "std", "all",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_OUT)
def test_results_are_written_into_tensors_alone(name):
    f = getattr(np, name)
    result = fg.constant(np.zeros(2, np.bool_ if name == "all" else np.float64))
    assert f(Tensor(M), axis=1, out=result) is result
    np.testing.assert_allclose(result, f(M, axis=1))
    if name != "all":  # truth values have no derivative to lose
        with pytest.raises(errors.InPlaceError, match=f"np.{name} would write a tensor into a plain NumPy array"):
            fg.grad(lambda x: np.sum(f(x, axis=1, out=np.zeros(2)) * 1.0))(M)
    positional = fg.constant(np.zeros(()))
    if "median" in name:
        assert f(Tensor(V), None, positional) is positional
        assert positional == f(V)


def test_other_dtypes_of_reductions():
    for name in ("mean", "var", "sum"):
        check_value(lambda x: getattr(np, name)(x, axis=0, where=MASK), M.astype(np.float32))
    check_value(np.mean, M.astype(np.float16))
    large = np.full(3, 2**62)
    compare(np.mean(Tensor(large)), np.mean(large))
    compare(np.sum(Tensor(large), dtype=np.int32), np.sum(large, dtype=np.int32))
    compare(np.mean(Tensor(M > 0.5)), np.mean(M > 0.5))
    check_single(lambda x: np.cov(x), M)


def test_truth_with_a_mask():
    for f in (np.all, np.any):
        for keywords in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
            check_value(lambda x: f(x > 0.8, where=MASK, **keywords), M)


def test_the_original_is_not_changed_by_overwrite_input():
    x = Tensor(V)
    with pytest.raises(ValueError, match="read-only"):
        np.median(x, overwrite_input=True)
    assert fg.vjp(lambda x: np.median(x, overwrite_input=True), V)[0] == np.median(V)
    assert x.tolist() == V.tolist()


def test_perfect_correlation():
    x = np.stack([V, 2 * V])
    assert np.all(np.isfinite(fg.grad(lambda x: np.sum(np.corrcoef(x)))(x).numpy()))
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(np.corrcoef(x)))(x), np.zeros_like(x), atol=1e-14)


def test_weights_of_a_wrong_shape_are_refused_for_empty_arrays_too():
    def f(x):
        return np.quantile(x, 0.5, axis=0, method="inverted_cdf", weights=np.ones((2, 2)))

    for call in (f, lambda x: fg.vjp(f, x)):
        with pytest.raises(ValueError, match="Shape of weights must be consistent"):
            call(np.zeros((0, 3)))


# What is recorded


SPREADS = [
    ("var", np.var, {}),
    ("var of columns", np.var, {"axis": 0, "ddof": 1}),
    ("var of rows, kept", np.var, {"axis": -1, "keepdims": True, "correction": 1.5}),
    ("std", np.std, {}),
    ("std of columns", np.std, {"axis": 0, "ddof": 1}),
    ("std over two axes, kept", np.std, {"axis": (0, 1), "keepdims": True}),
]


@pytest.mark.parametrize(("name", "f", "options"), SPREADS, ids=[row[0] for row in SPREADS])
@pytest.mark.parametrize("char", "efdFD")
def test_a_variance_is_one_operation_with_numpys_value(name, f, options, char):
    x = np.random.default_rng(0).normal(size=(300, 70)).astype(char)
    assert len(fg.trace(lambda x: f(x, **options))(x).equations) == 1
    value = fg.vjp(lambda x: f(x, **options), x)[0]
    expected = np.asarray(f(x, **options))
    assert value.dtype == expected.dtype
    # NumPy adds up the squares of half precision in single precision, and those of complex numbers in another order.
    np.testing.assert_allclose(value, expected, rtol=0 if char in "fd" else 4 * np.finfo(char).eps)


def spread_by_formula(x, is_root, axis=None, keepdims=False, ddof=0, correction=0):
    deviation = x - np.mean(x, axis=axis, keepdims=True)
    total = np.sum(np.real(deviation * np.conj(deviation)), axis=axis, keepdims=keepdims)
    variance = total / (x.size / total.size - ddof - correction)
    return np.sqrt(variance) if is_root else variance


@pytest.mark.parametrize(("name", "f", "options"), SPREADS, ids=[row[0] for row in SPREADS])
@pytest.mark.parametrize("is_complex", [False, True])
def test_derivatives_of_a_variance_are_those_of_its_formula(name, f, options, is_complex):
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(2, 6, 4)) + (1j * rng.normal(size=(2, 6, 4)) if is_complex else 0)

    def derivatives(h):
        gradient = fg.grad(lambda x: np.sum(h(x) ** 3))
        return [
            *(gradient(x), fg.jvp(h, (x,), (t,))[1], fg.jvp(gradient, (x,), (t,))[1]),
            *(fg.grad(lambda x: np.sum(np.real(gradient(x) * t)))(x), fg.vmap(gradient)(np.stack([x, t]))),
            fg.grad(lambda x: np.sum(h(x[::-1, ::2]) ** 3))(x),
        ]

    expected = derivatives(lambda x: spread_by_formula(x, f is np.std, **options))
    for found, wanted in zip(derivatives(lambda x: f(x, **options)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_equal_elements_have_no_spread_and_its_square_is_smooth():
    x = np.full((3, 4), 2.5, np.float32)
    np.testing.assert_array_equal(fg.grad(np.std)(x), np.zeros((3, 4)))
    product = fg.hvp(lambda x: np.std(x) ** 2)(x, np.eye(3, 4, dtype=np.float32))
    np.testing.assert_allclose(product, fg.hvp(np.var)(x, np.eye(3, 4, dtype=np.float32)), rtol=1e-6)
    assert product.dtype == np.float32


def test_what_a_mask_leaves_out_of_a_variance_gets_zero():
    x = np.array([[1.0, np.inf], [1.0, 3.0], [np.nan, 0.0]])
    for f in (np.var, np.std):
        with np.errstate(invalid="ignore"):
            found = fg.grad(lambda x, f=f: np.sum(np.where([False, True, False], f(x, axis=1), 0.0)))(x)
        np.testing.assert_allclose(found, fg.grad(lambda y, f=f: f(y))(x[1]) * np.array([[0.0], [1.0], [0.0]]))


def test_a_variance_takes_the_memory_of_one_array_besides_its_gradient():
    x = np.random.default_rng(0).normal(size=200_000)
    for f, arrays in ((np.var, 1), (np.linalg.norm, 1), (np.std, 2)):
        gradient = fg.grad(f)
        gradient(x)
        tracemalloc.start()
        gradient(x)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < (arrays + 0.1) * x.nbytes


def test_a_product_is_written_only_where_it_fits():
    for size, own in (
        ((2, 1), (2, 3)),
        ((2, 3), (2, 3)),
        ((2, 3), (2, 1)),
        ((2, 0), (2, 1)),
        ((1, 3), (2, 1)),
        ((3,), (2, 3)),
    ):
        ct, fresh = np.full(size, 2.0), np.full(own, 3.0)
        expected = ct * fresh
        found = product_into(ct, fresh)
        np.testing.assert_array_equal(found, expected)
        assert (found is fresh) == (expected.shape == own and len(size) == len(own))
    single = np.ones((2, 3), np.float32)
    assert product_into(np.ones((2, 3)), single).dtype == np.float64
