"""Hypothesis tests for samples, with differentiable statistics and p-values.

ttest_1samp, ttest_ind, ttest_rel, f_oneway, jarque_bera    tests of means, and of normality
pearsonr, linregress                                        correlation and regression

If nothing is traced, these are SciPy's functions. Results unpack like SciPy's, and have their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype, stop_gradient_of
from fgrad.scipy._plain import differentiates
from fgrad.scipy.stats import _continuous as laws
from fgrad.scipy.stats._moments import kurtosis, skew
from fgrad.scipy.stats._samples import OF_SAMPLES, Result, floating, rows
from fgrad.typing import Array, ArrayLike, Operand


class SignificanceResult(NamedTuple):
    """The result of a test: the statistic and the p-value."""

    statistic: Any
    pvalue: Any


class ConfidenceInterval(NamedTuple):
    """The bounds of a confidence interval."""

    low: Any
    high: Any


class TtestResult(Result):
    """The result of a t-test: it unpacks into the statistic and the p-value.

    Attributes:
        statistic, pvalue, df: the statistic, the p-value and the degrees of freedom.
    """

    fields = ("statistic", "pvalue", "df", "_alternative", "_standard_error", "_estimate")
    length = 2
    df: Any
    _alternative: int
    _standard_error: Any
    _estimate: Any

    def confidence_interval(self, confidence_level: Operand = 0.95) -> ConfidenceInterval:
        """Return a confidence interval of the mean, or of the difference of means.

        Args:
            confidence_level: the probability of the interval.

        Returns:
            `low` and `high`, one of which is infinite for a one-sided test.
        """
        tail = (1 - confidence_level) / (1 if self._alternative else 2)
        width = astype(as_array(laws.t.isf(tail, self.df)), self._standard_error.dtype) * self._standard_error
        low, high = self._estimate - width, self._estimate + width
        endless = np.full_like(low, np.inf)
        return ConfidenceInterval(
            -endless if self._alternative < 0 else low, endless if self._alternative > 0 else high
        )


class LinregressResult(Result):
    """The result of `linregress`: it unpacks into all but the last of its attributes.

    Attributes:
        slope, intercept: the parameters of the line.
        rvalue: the correlation coefficient.
        pvalue: the p-value of the hypothesis that the slope is 0.
        stderr, intercept_stderr: standard errors of slope and intercept.
    """

    fields = ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr")
    length = 5


_ALTERNATIVES = {"less": -1, "two-sided": 0, "greater": 1}


def _p_value(statistic: Array, law: Any, parameters: tuple[Any, ...], alternative: str) -> Any:
    """Return the p-value of a statistic whose distribution is symmetric about 0, in the dtype of the statistic."""
    if alternative not in _ALTERNATIVES:
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    if alternative == "two-sided":
        found = 2 * law.sf(np.abs(statistic), *parameters)
    else:
        found = (law.cdf if alternative == "less" else law.sf)(statistic, *parameters)
    return astype(found, statistic.dtype)


def _t_result(difference: Array, error: Array, df: Operand, estimate: Array, alternative: str) -> TtestResult:
    """Return the result of a t-test for a difference with a standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = difference / error
    pvalue = _p_value(t, laws.t, (df,), alternative)
    return TtestResult(t, pvalue, np.broadcast_to(df, t.shape)[()], _ALTERNATIVES[alternative], error, estimate)


def _shaped(result: TtestResult, shaped: Callable[..., Any]) -> TtestResult:
    values = dict(result.__dict__)
    return TtestResult(*(x if name == "_alternative" else shaped(x) for name, x in values.items()))


_OF_TESTS = """
Args:
    a: the first sample.
    b: the second sample.
    x: the first sample.
    y: the second sample.
    axis: the axis of the samples; None for all elements.
    equal_var: whether equal variances are assumed; otherwise Welch's test is used.
    alternative: "two-sided", "less" or "greater".

Returns:
    `statistic` and `pvalue`.

Raises:
    UnsupportedError: a NotImplementedError; `nan_policy` is "omit".
    ValueError: SciPy's; `alternative` is invalid.
"""


# Means


@differentiates(stats.ttest_1samp, _OF_TESTS, OF_SAMPLES)
def ttest_1samp(
    a: Any,
    popmean: Any,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Test whether the mean of a sample is a given number.

    Args:
        a: the sample.
        popmean: the given mean; it is differentiated, too.
        axis: the axis of the sample; None for all elements.

    Returns:
        `statistic` and `pvalue`, with the attribute `df` and the method `confidence_interval(confidence_level)`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: ttest_1samp(x, 0.0).statistic)(np.array([1.0, 2.0, 6.0])).round(4)
        Tensor([ 0.4988,  0.3585, -0.2026])
    """
    samples = (a,) if np.ndim(popmean) == 0 else (a, popmean)
    (a, *means), shaped = rows("ttest_1samp", samples, axis, nan_policy, keepdims)
    if means and means[0].shape[-1] != 1:
        raise ValueError("`popmean.shape[axis]` must equal 1.")
    popmean = means[0][..., 0] if means else popmean
    return _shaped(_one_sample(a, popmean, alternative), shaped)


def _one_sample(a: Array, popmean: float, alternative: str) -> TtestResult:
    count, mean = a.shape[-1], np.mean(a, axis=-1)
    error = np.std(a, axis=-1, ddof=1) / count**0.5
    return _t_result(mean - popmean, error, count - 1, mean, alternative)


@differentiates(stats.ttest_rel, _OF_TESTS, OF_SAMPLES)
def ttest_rel(
    a: ArrayLike,
    b: Any,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Test whether two paired samples have the same mean.

    Returns:
        `statistic` and `pvalue`, with the attribute `df` and the method `confidence_interval(confidence_level)`.

    Example:
        >>> import fgrad as fg
        >>> x, y = np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0, 3.0])
        >>> fg.grad(lambda x: ttest_rel(x, y).statistic)(x).round(4)
        Tensor([ 0.486 ,  0.8099, -0.162 ])
    """
    (a, b), shaped = rows("ttest_rel", (a, b), axis, nan_policy, keepdims)
    return _shaped(_one_sample(a - b, 0.0, alternative), shaped)


@differentiates(stats.ttest_ind, _OF_TESTS, OF_SAMPLES)
def ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: int | None = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: float = 0,
    method: Any = None,
    keepdims: bool = False,
) -> Any:
    """Test whether two independent samples have the same mean.

    Args:
        trim: must be 0, for means that are not trimmed.
        method: must be None, for the t distribution.

    Returns:
        `statistic` and `pvalue`, with the attribute `df` and the method `confidence_interval(confidence_level)`.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit", or `trim` or `method` is given.
        ValueError: SciPy's; `alternative` is invalid.

    Example:
        >>> import fgrad as fg
        >>> x, y = np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0, 3.0])
        >>> fg.grad(lambda x: ttest_ind(x, y, equal_var=False).pvalue)(x).round(4)
        Tensor([-0.1453, -0.1221, -0.0292])
    """
    if trim or method is not None:
        what = "trim" if trim else "method"
        raise errors.UnsupportedError(
            f"ttest_ind with `{what}` is not differentiable: omit it, to use the means of all elements and the "
            "t distribution."
        )
    (a, b), shaped = rows("ttest_ind", (a, b), axis, nan_policy, keepdims)
    sizes = a.shape[-1], b.shape[-1]
    means, variances = [np.mean(x, axis=-1) for x in (a, b)], [_variance(x, equal_var) for x in (a, b)]
    error, df = _error_of_difference(variances, sizes, equal_var)
    difference = means[0] - means[1]
    return _shaped(_t_result(difference, error, df, difference, alternative), shaped)


def _variance(x: Array, is_pooled: bool) -> Any:
    """Return the variance along the last axis; that of a single element is 0 in a pooled variance, and else NaN."""
    return np.var(x, axis=-1, ddof=1) if x.shape[-1] != 1 else x[..., 0] * (0.0 if is_pooled else np.nan)


def _error_of_difference(variances: Sequence[Any], sizes: tuple[int, ...], equal_var: bool) -> tuple[Any, Any]:
    """Return the standard error of a difference of means, and the degrees of freedom."""
    (v, w), (m, n) = variances, sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        if equal_var:
            df = np.asarray(m + n - 2.0, v.dtype)
            return np.sqrt(((m - 1) * v + (n - 1) * w) / df * (1.0 / m + 1.0 / n)), df
        v, w = v / m, w / n
        parts = v**2 / (m - 1) + w**2 / (n - 1)
        unknown = np.isnan((v + w) ** 2 / parts)
        return np.sqrt(v + w), np.where(unknown, 1.0, (v + w) ** 2 / np.where(unknown, 1.0, parts))


@differentiates(stats.ttest_ind_from_stats, _OF_TESTS, OF_SAMPLES)
def ttest_ind_from_stats(
    mean1: Any,
    std1: ArrayLike,
    nobs1: int,
    mean2: float,
    std2: ArrayLike,
    nobs2: int,
    equal_var: bool = True,
    alternative: str = "two-sided",
) -> Any:
    """Test whether two independent samples, given by their statistics, have the same mean.

    Args:
        mean1: the mean of the first sample.
        std1: its standard deviation.
        nobs1: its number of elements.
        mean2: the mean of the second sample.
        std2: its standard deviation.
        nobs2: its number of elements.

    Raises:
        ValueError: SciPy's; `alternative` is invalid.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda m: ttest_ind_from_stats(m, 1.0, 5, 0.0, 1.0, 5).statistic)(1.0).round(4)
        Tensor(1.5811)
    """
    means = [floating(x, "ttest_ind_from_stats") for x in (mean1, mean2)]
    variances = [floating(x, "ttest_ind_from_stats") ** 2 for x in (std1, std2)]
    error, df = _error_of_difference(variances, (nobs1, nobs2), equal_var)
    difference = means[0] - means[1]
    return SignificanceResult(*_t_result(difference, error, df, difference, alternative))


@differentiates(stats.f_oneway, _OF_TESTS, OF_SAMPLES)
def f_oneway(
    *samples: ArrayLike,
    axis: int | None = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Test whether samples have the same mean: one-way analysis of variance.

    Args:
        samples: two or more samples.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit".
        TypeError: SciPy's; there are fewer than two samples.

    Example:
        >>> import fgrad as fg
        >>> x, y = np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0, 3.0])
        >>> fg.grad(lambda x: f_oneway(x, y).statistic)(x).round(4)
        Tensor([0.4082, 0.3469, 0.102 ])
    """
    if len(samples) < 2:
        raise TypeError(f"at least two inputs are required; got {len(samples)}.")
    groups, shaped = rows("f_oneway", samples, axis, nan_policy, keepdims)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic, *df = (_ratio_of_variances if equal_var else _ratio_of_weighted)(groups)
    pvalue = astype(laws.f.sf(statistic, *df), statistic.dtype)
    return SignificanceResult(shaped(statistic), shaped(pvalue))


def _ratio_of_variances(groups: list[Any]) -> tuple[Any, Any, Any]:
    """Return the ratio of the variances between and within groups, and both degrees of freedom."""
    count, means = sum(x.shape[-1] for x in groups), [np.mean(x, axis=-1, keepdims=True) for x in groups]
    mean = sum(x.shape[-1] * each for x, each in zip(groups, means, strict=True)) / count
    between = sum(x.shape[-1] * (each - mean)[..., 0] ** 2 for x, each in zip(groups, means, strict=True))
    within = sum(np.sum((x - each) ** 2, axis=-1) for x, each in zip(groups, means, strict=True))
    free = len(groups) - 1, count - len(groups)
    return (between / free[0]) / (within / free[1]), *free


def _ratio_of_weighted(groups: list[Any]) -> tuple[Any, Any, Any]:
    """Return the same for unequal variances: groups are weighted by the precision of their means (Welch)."""
    sizes, k = [x.shape[-1] for x in groups], len(groups)
    weights = [x.shape[-1] / np.var(x, axis=-1, ddof=1) for x in groups]
    means, total = [np.mean(x, axis=-1) for x in groups], sum(weights)
    mean = sum(w * each for w, each in zip(weights, means, strict=True)) / total
    between = sum(w * (each - mean) ** 2 for w, each in zip(weights, means, strict=True)) / (k - 1)
    rest = sum((1 - w / total) ** 2 / (n - 1) for w, n in zip(weights, sizes, strict=True))
    return between / (1 + 2 * (k - 2) / (k**2 - 1) * rest), k - 1, (k**2 - 1) / (3 * rest)


@differentiates(stats.jarque_bera, _OF_TESTS, OF_SAMPLES)
def jarque_bera(x: Any, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Test whether a sample has the skewness and kurtosis of a normal distribution.

    Args:
        x: the sample.
        axis: the axis of the sample; by default all elements.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit".

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: jarque_bera(x).statistic)(np.array([1.0, 2.0, 4.0, 9.0])).round(4)
        Tensor([ 0.1456, -0.0477, -0.1662,  0.0683])
    """
    (x,), shaped = rows("jarque_bera", (x,), axis, nan_policy, keepdims)
    statistic = x.shape[-1] / 6 * (skew(x, axis=-1) ** 2 + kurtosis(x, axis=-1) ** 2 / 4)
    return SignificanceResult(shaped(statistic), shaped(np.exp(-statistic / 2)))


# Two samples


def _within_bounds(r: Array) -> Any:
    """Return a correlation clipped to -1 to 1 against rounding; the derivative is that of the unclipped value."""
    return r + stop_gradient_of(np.clip(r, -1.0, 1.0) - r)


def _centered(x: Array) -> tuple[Any, Any]:
    """Return a centered sample divided by its norm, and where all its elements are equal."""
    same = np.all(np.equal(x, x[..., :1]), axis=-1, keepdims=True)
    apart = x - np.mean(x, axis=-1, keepdims=True)
    largest = np.where(same, 1.0, stop_gradient_of(np.max(np.abs(apart), axis=-1, keepdims=True)))
    apart = apart / largest  # so that no square overflows
    length = np.where(same, 1.0, np.sqrt(np.sum(np.where(same, 1.0, apart) ** 2, axis=-1, keepdims=True)))
    return apart / length, same[..., 0]


@differentiates(stats.pearsonr, _OF_TESTS, OF_SAMPLES)
def pearsonr(x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: int | None = 0) -> Any:
    """Return the Pearson correlation coefficient, and the p-value of the hypothesis that it is 0.

    Args:
        method: must be None, for the distribution of normal samples.

    Returns:
        `statistic` and `pvalue`; NaN where all elements of a sample are equal.

    Raises:
        UnsupportedError: a NotImplementedError; `method` is given.
        ValueError: SciPy's; the samples differ in length, or have fewer than two elements, or `alternative` is unknown.

    Example:
        >>> import fgrad as fg
        >>> x, y = np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0, 3.0])
        >>> fg.grad(lambda x: pearsonr(x, y).statistic)(x).round(4)
        Tensor([-0.0825,  0.1031, -0.0206])
    """
    if method is not None:
        raise errors.UnsupportedError("pearsonr with `method` is not differentiable: omit it.")
    (x, y), _ = rows("pearsonr", (x, y), axis)
    count = x.shape[-1]
    if count != y.shape[-1]:
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    if count < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    (x, x_same), (y, y_same) = _centered(x), _centered(y)
    same = np.logical_or(x_same, y_same)
    r = _within_bounds(np.sum(x * y, axis=-1))
    if count == 2:
        return SignificanceResult(np.where(same, np.nan, np.round(r)), np.where(same, np.nan, np.ones_like(r)))
    half = count / 2 - 1
    pvalue = _p_value(r, laws.beta, (half, half, -1.0, 2.0), alternative)
    return SignificanceResult(np.where(same, np.nan, r), np.where(same, np.nan, pvalue))


_SINGLE: Any = np.array([0, 1, 3], np.float32)
_LINES_KEEP_DTYPE = stats.linregress(_SINGLE, _SINGLE).slope.dtype == np.float32
"""Whether `linregress` of single precision returns single precision, as since SciPy 1.18."""

with np.errstate(all="ignore"):
    _ERROR_OF_TWO_POINTS = float(stats.linregress([0.0, 1.0], [0.0, 1.0]).stderr)
"""The standard error of a line through two points: 0, and NaN since SciPy 1.18."""


@differentiates(stats.linregress, _OF_TESTS, OF_SAMPLES)
def linregress(
    x: Any,
    y: Any,
    alternative: str = "two-sided",
    *,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the least-squares line through points.

    Args:
        x: the x-coordinates.
        y: the y-coordinates.
        alternative: "two-sided", "less" or "greater": the alternative hypothesis for the slope.

    Returns:
        `slope`, `intercept`, `rvalue`, `pvalue` and `stderr`, with the attribute `intercept_stderr`.

    Example:
        >>> import fgrad as fg
        >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 4.0])
        >>> fg.grad(lambda y: linregress(x, y).slope)(y)
        Tensor([-0.5,  0. ,  0.5])
    """
    x, y = (floating(each, "linregress") for each in (x, y))
    dtype = np.result_type(x.dtype, y.dtype) if _LINES_KEEP_DTYPE else np.float64
    samples = [astype(each, np.float64) for each in (x, y)]
    (x, y), shaped = rows("linregress", samples, axis, nan_policy, keepdims)
    count, mean = x.shape[-1], np.mean(x, axis=-1)
    x_apart, y_apart = (each - np.mean(each, axis=-1, keepdims=True) for each in (x, y))
    xx, xy, yy = (np.mean(p * q, axis=-1) for p, q in ((x_apart, x_apart), (x_apart, y_apart), (y_apart, y_apart)))
    flat = np.equal(yy, 0)
    r = np.where(flat, np.nan, _within_bounds(xy / np.sqrt(xx * np.where(flat, 1.0, yy))))
    slope = xy / xx
    if count == 2:
        error = np.full_like(slope, _ERROR_OF_TWO_POINTS)
        pvalue = np.where(flat, 1.0 + error, error)
    else:
        tiny = 1e-20  # SciPy's constant, for points on a line
        t = r * np.sqrt((count - 2) / ((1.0 - r + tiny) * (1.0 + r + tiny)))
        pvalue = _p_value(t, laws.t, (count - 2,), alternative)
        error = np.sqrt((1 - r**2) * yy / xx / (count - 2))
    values = slope, np.mean(y, axis=-1) - slope * mean, r, pvalue, error, error * np.sqrt(xx + mean**2)
    return LinregressResult(*(astype(shaped(each), dtype) for each in values))


@differentiates(stats.spearmanr, _OF_TESTS, OF_SAMPLES)
def spearmanr(
    a: Any, b: Any = None, axis: object = 0, nan_policy: str = "propagate", alternative: str = "two-sided"
) -> Any:
    """Return SciPy's Spearman correlation coefficient of samples that are not traced.

    Args:
        a: the first sample, or several as columns.
        axis: the axis of the samples.
        nan_policy: as in SciPy.

    Raises:
        NoDerivativeError: a ValueError; a sample is traced, but ranks have no derivative.

    Example:
        >>> float(spearmanr(np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0, 3.0])).statistic).__round__(3)
        1.0
    """
    raise errors.NoDerivativeError(
        "spearmanr has the derivative 0 wherever it has one: it depends only on the order of the "
        "elements.\nCall scipy.stats.spearmanr with x.numpy(), or take pearsonr."
    )
