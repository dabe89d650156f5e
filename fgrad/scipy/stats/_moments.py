"""Statistics of samples: scores, several kinds of means, moments and functions of them, entropy.

If nothing is traced, these are SciPy's functions. NaN in a traced sample gives NaN, or an error by
`nan_policy="raise"`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan, pi
from typing import Any

import numpy as np
from scipy import stats

from fgrad import errors
from fgrad.ops.elementwise import astype
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.stats._samples import OF_SAMPLES, check_nan_policy, floating, rows
from fgrad.typing import Array, ArrayLike, Operand

# Scores


@differentiates(stats.zmap, OF_SAMPLES)
def zmap(scores: Any, compare: Any, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Return scores standardized by the mean and standard deviation of another sample.

    Args:
        scores: an array.
        compare: the sample.

    Returns:
        An array like `scores`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: zmap(x, np.array([1.0, 3.0]))[0])(4.0)
        Tensor(1.)
    """
    scores, mean, std = _compared("zmap", scores, compare, axis, ddof, nan_policy)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (scores - mean) / std


def _compared(name: str, scores: Array, compare: Array, axis: Any, ddof: int, nan_policy: str) -> tuple[Any, Any, Any]:
    """Return scores, and the mean and standard deviation of a sample along an axis, which is kept."""
    scores, compare = floating(scores, name), floating(compare, name)
    check_nan_policy(name, scores, nan_policy)
    check_nan_policy(name, compare, nan_policy)
    mean = np.mean(compare, axis=axis, keepdims=True)
    return scores, mean, np.std(compare, axis=axis, ddof=ddof, keepdims=True)


@differentiates(stats.zscore, OF_SAMPLES)
def zscore(a: Any, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Return the standardized elements of a sample.

    Returns:
        An array like `a`; NaN where all elements are equal.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: zscore(x)[0])(np.array([1.0, 2.0, 6.0])).round(4)
        Tensor([ 0.1763, -0.2204,  0.0441])
    """
    a, mean, std = _compared("zscore", a, a, axis, ddof, nan_policy)
    same = std <= np.abs(np.finfo(a.dtype).eps * mean)
    return np.where(same, nan, (a - mean) / np.where(same, 1.0, std))


@differentiates(stats.gzscore, OF_SAMPLES)
def gzscore(a: Any, *, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Return the elements of a sample standardized by its geometric mean and geometric standard deviation.

    Args:
        a: the sample, of positive numbers.

    Returns:
        An array like `a`.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: gzscore(x)[0])(np.array([1.0, 2.0, 4.0])).round(4)
        Tensor([ 0.2945, -0.2945,  0.0736])
    """
    return zscore(np.log(floating(a, "gzscore")), axis, ddof, nan_policy)


# Means
_OF_MEANS = """
Args:
    dtype: the dtype of the computation.
    weights: the weights of the elements, which are differentiated, too.

Returns:
    The mean of each sample.
"""


@differentiates(stats.gmean, _OF_MEANS, OF_SAMPLES)
def gmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the geometric mean.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(gmean)(np.array([1.0, 4.0]))
        Tensor([1.  , 0.25])
    """
    (a, *weighted), shaped = _weighted("gmean", a, weights, axis, dtype, nan_policy, keepdims)
    with np.errstate(divide="ignore"):
        return shaped(np.exp(_mean(np.log(a), *weighted)))


def _weighted(
    name: str, a: Array, weights: Any, axis: int, dtype: object, nan_policy: str, keepdims: bool
) -> tuple[list[Any], Any]:
    """Return a sample and its weights, if any, with the reduced axis last, and a function that shapes the results."""
    samples = [floating(x, name) for x in ((a,) if weights is None else (a, weights))]
    samples = samples if dtype is None else [astype(x, dtype) for x in samples]
    return rows(name, samples, axis, nan_policy, keepdims)


def _mean(x: Array, weights: Array | None = None) -> Any:
    """Return the mean along the last axis."""
    if weights is None:
        return np.mean(x, axis=-1)
    x, weights = np.broadcast_arrays(x, weights)
    return np.sum(x * weights, axis=-1) / np.sum(weights, axis=-1)


@differentiates(stats.hmean, _OF_MEANS, OF_SAMPLES)
def hmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the harmonic mean; NaN if there is a negative number.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(hmean)(np.array([1.0, 3.0]))
        Tensor([1.125, 0.125])
    """
    (a, *weighted), shaped = _weighted("hmean", a, weights, axis, dtype, nan_policy, keepdims)
    with np.errstate(divide="ignore"):
        return shaped(1.0 / _mean(1.0 / np.where(a < 0, nan, a), *weighted))


@differentiates(stats.pmean, _OF_MEANS, OF_SAMPLES)
def pmean(
    a: Any,
    p: float,
    *,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the power mean; NaN if there is a negative number.

    Args:
        p: the power, a Python number that is not traced; 0 gives the geometric mean.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit".
        ValueError: SciPy's; `p` is not a Python number.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: pmean(x, 2))(np.array([1.0, 7.0])).round(4)
        Tensor([0.1, 0.7])
    """
    if not isinstance(p, (int, float)):
        raise ValueError("Power mean only defined for exponent of type int or float.")
    if abs(p) == inf:
        raise NotImplementedError("Power mean only implemented for finite `p`")
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    (a, *weighted), shaped = _weighted("pmean", a, weights, axis, dtype, nan_policy, keepdims)
    with np.errstate(divide="ignore", invalid="ignore"):
        return shaped(_mean(np.where(a < 0, nan, a) ** float(p), *weighted) ** (1 / p))


# Moments


_SEVERAL_ARE_DOUBLE = stats.moment(np.array([1, 4], np.float32), [1, 2]).dtype == np.float64
"""Whether moments of several orders are in double precision, as since SciPy 1.18."""


@differentiates(stats.moment, OF_SAMPLES)
def moment(
    a: Any,
    order: object = 1,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    *,
    center: Any = None,
    keepdims: bool = False,
) -> Any:
    """Return a moment about the mean, or about another number.

    Args:
        order: an integer, or several, each of which gives a row of the result.
        center: a number in place of the mean; it is differentiated, too.

    Returns:
        The moment of each sample.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit", or `center` is not a single number.
        ValueError: SciPy's; an order is not an integer, or there is none.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: moment(x, 3))(np.array([1.0, 2.0, 6.0]))
        Tensor([-0.66666667, -3.66666667,  4.33333333])
    """
    if np.ndim(center):
        raise errors.UnsupportedError(
            f"moment is differentiable for one number as `center`, but not for an array of shape {np.shape(center)}.\n"
            "Write np.mean((x - center) ** order, axis)."
        )
    orders = np.asarray(order)
    if not orders.size:
        raise ValueError("`order` must be a scalar or a non-empty 1D array.")
    if np.any(orders != np.round(orders)):
        raise ValueError("All elements of `order` must be integral.")
    (a,), shaped = rows("moment", (a,), axis, nan_policy, keepdims)
    found = [shaped(_moment(a, each, center)) for each in orders.ravel().tolist()]
    if not orders.ndim:
        return found[0]
    several = np.stack(found)
    return astype(several, np.result_type(several.dtype, np.float64)) if _SEVERAL_ARE_DOUBLE else several


def _moment(a: Array, order: Any, center: object = None) -> Any:
    """Return the moment of an order along the last axis."""
    if order == 0 or (order == 1 and center is None):
        return np.where(np.any(np.isnan(a), axis=-1), nan, np.full_like(a[..., 0], 1.0 - order))
    apart = a - (np.mean(a, axis=-1, keepdims=True) if center is None else center)
    return np.mean(apart ** int(order), axis=-1)


def _spread(a: Array) -> tuple[Any, Any]:
    """Return the variance along the last axis, replaced by 1 where all elements are equal, and where this is."""
    variance = _moment(a, 2)
    same = variance <= (np.finfo(a.dtype).eps * np.mean(a, axis=-1)) ** 2
    return np.where(same, 1.0, variance), same


@differentiates(stats.skew, OF_SAMPLES)
def skew(
    a: Any, axis: int | None = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """Return the skewness: the third moment in standard deviations.

    Args:
        bias: whether to omit the correction for the sample size.

    Returns:
        The skewness of each sample; NaN where all elements are equal.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(skew)(np.array([1.0, 2.0, 6.0])).round(4)
        Tensor([ 0.1889, -0.2362,  0.0472])
    """
    (a,), shaped = rows("skew", (a,), axis, nan_policy, keepdims)
    count = a.shape[-1]
    variance, same = _spread(a)
    found = _moment(a, 3) / variance**1.5
    if not bias and count > 2:
        found = found * ((count - 1.0) * count) ** 0.5 / (count - 2.0)
    return shaped(np.where(same, nan, found))


@differentiates(stats.kurtosis, OF_SAMPLES)
def kurtosis(
    a: Any,
    axis: int | None = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the kurtosis: the fourth moment divided by the squared variance.

    Args:
        fisher: whether 3 is subtracted, the kurtosis of a normal distribution.
        bias: whether to omit the correction for the sample size.

    Returns:
        The kurtosis of each sample; NaN where all elements are equal.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(kurtosis)(np.array([1.0, 2.0, 4.0, 9.0])).round(4)
        Tensor([ 0.0831,  0.0831, -0.2493,  0.0831])
    """
    (a,), shaped = rows("kurtosis", (a,), axis, nan_policy, keepdims)
    count = a.shape[-1]
    variance, same = _spread(a)
    found = _moment(a, 4) / variance**2
    if not bias and count > 3:
        found = ((count**2 - 1.0) * found - 3 * (count - 1) ** 2.0) / (count - 2) / (count - 3) + 3.0
    return shaped(np.where(same, nan, found - 3 if fisher else found))


# Deviations


@differentiates(stats.gstd, OF_SAMPLES)
def gstd(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate"
) -> Any:
    """Return the geometric standard deviation.

    Args:
        a: the sample, of positive numbers.

    Returns:
        The deviation of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(gstd)(np.array([1.0, 2.0, 4.0])).round(4)
        Tensor([-1.  ,  0.  ,  0.25])
    """
    (a,), shaped = rows("gstd", (a,), axis, nan_policy, keepdims)
    return shaped(np.exp(np.std(np.log(a), axis=-1, ddof=ddof)))


@differentiates(stats.variation, OF_SAMPLES)
def variation(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> Any:
    """Return the coefficient of variation: the standard deviation divided by the mean.

    Returns:
        The ratio of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(variation)(np.array([1.0, 3.0]))
        Tensor([-0.375,  0.125])
    """
    (a,), shaped = rows("variation", (a,), axis, nan_policy, keepdims)
    count, mean, std = a.shape[-1], np.mean(a, axis=-1), np.std(a, axis=-1)
    if ddof == count:
        return shaped(np.where(std > 0, np.copysign(np.full_like(mean, inf), mean), nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        return shaped(std * (count / (count - ddof)) ** 0.5 / mean if ddof < count else mean * nan)


@differentiates(stats.sem, OF_SAMPLES)
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """Return the standard error of the mean.

    Returns:
        The error of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(sem)(np.array([1.0, 3.0]))
        Tensor([-0.5,  0.5])
    """
    (a,), shaped = rows("sem", (a,), axis, nan_policy, keepdims)
    return shaped(np.std(a, axis=-1, ddof=ddof) / a.shape[-1] ** 0.5)


@differentiates(stats.entropy, OF_SAMPLES)
def entropy(
    pk: ArrayLike,
    qk: ArrayLike | None = None,
    base: float | None = None,
    axis: int | None = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the entropy of probabilities, or their Kullback-Leibler divergence from others.

    Args:
        pk: the probabilities, up to a factor.
        qk: the probabilities of the other distribution, up to a factor.
        base: the base of the logarithm, a number that is not traced; by default e.
        axis: the axis of the distributions; None for all elements.

    Returns:
        One number for each distribution.

    Raises:
        UnsupportedError: a NotImplementedError; `nan_policy` is "omit".
        ValueError: SciPy's; `base` is not positive.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(entropy)(np.array([1.0, 3.0])).round(4)
        Tensor([ 0.206 , -0.0687])
    """
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    samples, shaped = rows("entropy", (pk,) if qk is None else (pk, qk), axis, nan_policy, keepdims)
    samples = list(np.broadcast_arrays(*samples))
    with np.errstate(invalid="ignore"):
        shares = [x / np.sum(x, axis=-1, keepdims=True) for x in samples]
    parts = special.entr(*shares) if qk is None else special.rel_entr(*shares)
    found = np.sum(parts, axis=-1)
    return shaped(found if base is None else found / log(base))


# Angles


_OF_ANGLES = """
Args:
    samples: the angles.
    high: the end of their range.
    low: the start of their range.
    axis: the axis of the samples; by default all elements.
"""


def _resultant(
    name: str, samples: Any, high: Operand, low: Operand, axis: int | None, nan_policy: str, keepdims: bool
) -> Any:
    """Return the mean of the sine and of the cosine of angles, and a function that shapes the results."""
    (samples,), shaped = rows(name, (samples,), axis, nan_policy, keepdims)
    angles = samples * (2.0 * pi) / (high - low)
    return np.mean(np.sin(angles), axis=-1), np.mean(np.cos(angles), axis=-1), shaped


@family(stats, _OF_ANGLES, OF_SAMPLES)
def _of_angles(
    formula: Callable[..., Any],
    /,
    samples: ArrayLike,
    high: Operand = 2 * pi,
    low: Operand = 0,
    axis: int | None = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Apply a formula to the mean sine and the mean cosine of angles."""
    sine, cosine, shaped = _resultant(formula.__name__, samples, high, low, axis, nan_policy, keepdims)
    return shaped(formula(sine, cosine, high, low))


@_of_angles
def circmean(sine: ArrayLike, cosine: Any, high: Operand, low: int) -> Any:
    """Return the mean of angles.

    Returns:
        The mean angle of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(circmean)(np.array([0.1, 0.3]))
        Tensor([0.5, 0.5])
    """
    period = high - low
    return (np.arctan2(sine, cosine) * (period / (2.0 * pi)) - low) % period + low


@_of_angles
def circvar(sine: ArrayLike, cosine: ArrayLike, high: Operand, low: Operand) -> Array:
    """Return the circular variance: 1 minus the length of the mean vector.

    Returns:
        The variance of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(circvar)(np.array([0.1, 0.3])).round(4)
        Tensor([-0.0499,  0.0499])
    """
    return 1.0 - np.minimum(np.hypot(sine, cosine), 1.0)


@differentiates(stats.circstd, _OF_ANGLES, OF_SAMPLES)
def circstd(
    samples: Any,
    high: Any = 2 * pi,
    low: Any = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the standard deviation of angles.

    Args:
        normalize: whether to return the deviation for the range 0 to 2 pi, whatever the actual range.

    Returns:
        The deviation of each sample.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(circstd)(np.array([0.1, 0.3])).round(4)
        Tensor([-0.5013,  0.5013])
    """
    sine, cosine, shaped = _resultant("circstd", samples, high, low, axis, nan_policy, keepdims)
    length = np.hypot(sine, cosine)
    same = length >= 1.0  # the minimum of the deviation, with slope 0
    found = np.where(same, 0.0, np.sqrt(-2.0 * np.log(np.where(same, 0.5, length))))
    return shaped(found if normalize else found * ((high - low) / (2.0 * pi)))
