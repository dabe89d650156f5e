"""Statistics of samples in `fgrad.scipy.stats`: what their table does not show."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.stats
import scipy_stats_table as table

import fgrad as fg
from fgrad import errors
from fgrad.scipy import stats
from fgrad.testing import check_grads

X, Y = table.SAMPLE, table.OTHER
OF_ONE = sorted([*table.OPTIONS, "zscore", "gzscore"])
LEAST = {"pmean": (2,), "moment": (2,)}


def called(name, x, **options):
    return getattr(stats, name)(x, *LEAST.get(name, ()), **options)


@pytest.mark.parametrize("name", OF_ONE)
def test_samples_that_are_not_traced_are_scipys(name):
    expected = getattr(scipy.stats, name)(X, *LEAST.get(name, ()))
    assert np.all(called(name, X) == expected)
    assert isinstance(called(name, fg.constant(X)), fg.Tensor)
    left_out = np.atleast_1d(called(name, np.append(X, np.nan), nan_policy="omit"))
    assert not np.isnan(left_out[: len(X)]).any()


@pytest.mark.parametrize("name", OF_ONE)
def test_nan_in_a_traced_sample(name):
    with_nan = np.append(X, np.nan)
    value, _ = fg.vjp(lambda x: called(name, x), with_nan)
    np.testing.assert_array_equal(value, getattr(scipy.stats, name)(with_nan, *LEAST.get(name, ())))
    with pytest.raises(
        errors.UnsupportedError, match=r"does not support nan_policy='omit' for a traced sample.\nRemove NaN before"
    ):
        fg.grad(lambda x: np.sum(called(name, x, nan_policy="omit")))(X)
    with pytest.raises(ValueError, match="The input contains nan values"):
        fg.grad(lambda x: np.sum(called(name, x, nan_policy="raise")))(with_nan)
    with pytest.raises(ValueError, match="nan_policy must be one of"):
        fg.grad(lambda x: np.sum(called(name, x, nan_policy="ignore")))(X)
    fg.grad(lambda x: np.sum(called(name, x, nan_policy="raise")))(X)


@pytest.mark.parametrize("order", [0, 1, 2, [0, 1, 3]])
def test_moments_of_a_sample_with_nan_are_nan(order):
    samples = np.stack([X, np.append(X[1:], np.nan)])
    value, _ = fg.vjp(lambda x: stats.moment(x, order, axis=1), samples)
    np.testing.assert_allclose(value, scipy.stats.moment(samples, order, axis=1), atol=1e-15)


MIXED = {
    "ttest_ind": {}, "ttest_rel": {}, "pearsonr": {}, "linregress": {}, "f_oneway": {"equal_var": False}, "entropy": {},
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_samples_of_several_dtypes_are_computed_in_the_larger_one(name):
    first, second = np.exp(X).astype(np.float32), np.exp(Y)[: len(X)]
    expected = getattr(scipy.stats, name)(first, second, **MIXED[name])
    value, _ = fg.vjp(lambda x, y: tuple(np.atleast_1d(getattr(stats, name)(x, y, **MIXED[name]))), first, second)
    np.testing.assert_allclose(value, np.atleast_1d(expected), rtol=1e-12)


@pytest.mark.parametrize("name", OF_ONE)
def test_axes_that_there_are_not_and_complex_samples(name):
    with pytest.raises(np.exceptions.AxisError):
        fg.grad(lambda x: np.sum(called(name, x, axis=1)))(X)
    with pytest.raises(errors.DtypeError, match="takes real numbers"):
        fg.vjp(lambda x: called(name, x), X + 1j)


@pytest.mark.parametrize("name", ["skew", "kurtosis", "zscore"])
def test_samples_of_equal_elements_have_no_value(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(scipy.stats, name)(np.ones(4))
    value, _ = fg.vjp(getattr(stats, name), np.ones(4))
    np.testing.assert_array_equal(value, expected)


def test_equal_angles_have_no_deviation_and_no_slope():
    assert fg.grad(stats.circstd)(np.array([0.4, 0.4])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("count", [5, 6, 7])
def test_variation_with_few_degrees_of_freedom(count):
    with np.errstate(all="ignore"):
        expected = scipy.stats.variation(X, ddof=count)
    np.testing.assert_allclose(fg.vjp(lambda x: stats.variation(x, ddof=count), X)[0], expected)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_small_samples(count):
    few = X[:count]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in ("skew", "kurtosis"):
            expected = getattr(scipy.stats, name)(few, bias=False)
            found, _ = fg.vjp(lambda x, name=name: getattr(stats, name)(x, bias=False), few)
            np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(fg.vjp(stats.sem, few)[0], scipy.stats.sem(few))


# Tests


@pytest.mark.parametrize("equal_var", [True, False])
def test_a_sample_of_one_element_has_a_variance_only_with_another_one(equal_var):
    for x, y in ((X[:1], Y), (X, Y[:1]), (X[:1], Y[:1])):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = scipy.stats.ttest_ind(x, y, equal_var=equal_var)
        value, _ = fg.vjp(lambda x, y: tuple(stats.ttest_ind(x, y, equal_var=equal_var)), x, y)
        np.testing.assert_allclose(value, tuple(expected), rtol=1e-12)


def test_results_unpack_and_have_scipys_attributes():
    def f(x):
        result = stats.ttest_ind(x, Y)
        statistic, pvalue = result
        assert (statistic, pvalue) == (result.statistic, result.pvalue)
        assert float(result.df) == 10
        line = stats.linregress(x, Y)
        assert tuple(line) == (line.slope, line.intercept, line.rvalue, line.pvalue, line.stderr)
        return line.intercept_stderr + statistic + stats.pearsonr(x, Y).pvalue

    check_grads(f, (X,))
    result = fg.vjp(lambda x: stats.ttest_1samp(x, 0.5), X)[0]
    assert type(result).__name__ == "TtestResult"
    assert repr(result).startswith("TtestResult(statistic=Tensor(")
    assert [float(x) for x in result] == pytest.approx(list(scipy.stats.ttest_1samp(X, 0.5)), rel=1e-12)
    again = pickle.loads(pickle.dumps(result))
    assert float(again.df) == 5
    low, high = again.confidence_interval()
    expected = scipy.stats.ttest_1samp(X, 0.5).confidence_interval()
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), rel=1e-12)


@pytest.mark.parametrize("alternative", ["less", "greater"])
def test_intervals_of_one_sided_tests_have_one_end(alternative):
    expected = scipy.stats.ttest_rel(X, Y, alternative=alternative).confidence_interval(0.9)
    found = fg.vjp(lambda x: stats.ttest_rel(x, Y, alternative=alternative).confidence_interval(0.9), X)[0]
    assert [float(x) for x in found] == pytest.approx([expected.low, expected.high], rel=1e-12)


def test_welchs_analysis_of_variance():
    def f(x, y, function=stats.f_oneway):
        return tuple(function(x, y, Y + 0.4, equal_var=False))

    expected = f(X, Y[:4], scipy.stats.f_oneway)
    assert [float(x) for x in fg.vjp(f, X, Y[:4])[0]] == pytest.approx(list(expected), rel=1e-12)
    check_grads(f, (X, Y[:4]), order=1)


def test_two_points_have_a_correlation_of_one():
    statistic, pvalue = fg.vjp(stats.pearsonr, X[:2], Y[:2])[0]
    assert (float(statistic), float(pvalue)) == (-1.0, 1.0)
    line = fg.vjp(stats.linregress, X[:2], Y[:2])[0]
    with np.errstate(all="ignore"):
        expected = list(scipy.stats.linregress(X[:2], Y[:2]))
    np.testing.assert_allclose([float(x) for x in line], expected, rtol=1e-6)


def test_perfect_correlation_is_where_the_coefficient_is_largest():
    """The first derivative is 0 there, and the second is that of the smooth function, not of a clipped one."""
    points = np.array([1.0, 2.0, 4.0, 8.0])
    assert np.abs(fg.grad(lambda x: stats.pearsonr(x, points).statistic)(points)).max() < 1e-15
    np.testing.assert_allclose(
        fg.hessian(lambda x: stats.pearsonr(x, points).statistic)(points),
        fg.hessian(lambda x: x @ (points - 3.75) / np.linalg.norm(x - x.mean()) / np.linalg.norm(points - 3.75))(
            points
        ),
        atol=1e-14,
    )


def test_large_numbers_do_not_overflow():
    value = fg.vjp(stats.pearsonr, X * 1e200, Y * 1e180)[0].statistic
    assert float(value) == pytest.approx(scipy.stats.pearsonr(X, Y).statistic, rel=1e-12)


def test_constant_samples_have_no_correlation():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(fg.vjp(stats.pearsonr, np.ones(4), X[:4])[0].statistic)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: stats.ttest_ind(x, Y, trim=0.1).statistic, errors.UnsupportedError, "ttest_ind with `trim`"),
        (lambda x: stats.pearsonr(x, Y, method=1).statistic, errors.UnsupportedError, "pearsonr with `method`"),
        (lambda x: stats.moment(x, 2, center=Y), errors.UnsupportedError, "with one number as `center`"),
        (lambda x: stats.moment(x, 1.5), ValueError, "must be integral"),
        (lambda x: stats.moment(x, []), ValueError, "non-empty"),
        (lambda x: stats.ttest_rel(x, Y, alternative="both").pvalue, ValueError, "must be 'less'"),
        (lambda x: stats.pearsonr(x, Y[:3]).pvalue, ValueError, "the same length"),
        (lambda x: stats.pearsonr(x[:1], Y[:1]).pvalue, ValueError, "at least 2"),
        (lambda x: stats.f_oneway(x).pvalue, TypeError, "at least two inputs"),
        (lambda x: stats.entropy(x, base=-1), ValueError, "positive"),
        (lambda x: stats.pmean(x, "a"), ValueError, "type int or float"),
        (lambda x: stats.pmean(x, np.inf), NotImplementedError, "finite"),
        (lambda x: stats.ttest_1samp(x, Y).pvalue, ValueError, "must equal 1"),
    ],
)
def test_what_is_refused(call, kind, match):
    with pytest.raises(kind, match=match):
        fg.grad(call)(X)


def test_negative_numbers_have_no_harmonic_mean():
    assert np.isnan(fg.vjp(stats.hmean, -X)[0])
    assert np.isnan(fg.vjp(lambda x: stats.pmean(x, 2), -X)[0])


def test_programs_and_batches_take_them():
    compiled = fg.compile(fg.grad(lambda x: stats.skew(x) + stats.ttest_1samp(x, 0.5).statistic))
    np.testing.assert_allclose(compiled(X), fg.grad(lambda x: stats.skew(x) + stats.ttest_1samp(x, 0.5).statistic)(X))


def test_scipys_own_names_the_function_here():
    with pytest.raises(errors.ScipyCallError, match=r"Write fgrad\.scipy\.stats\.zscore"):
        fg.grad(lambda x: np.sum(scipy.stats.zscore(x)))(X)
