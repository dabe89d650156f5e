"""`tf.nn`: building blocks of neural networks.

relu, elu, softmax, sigmoid, dropout ...        activations
bias_add, xw_plus_b, embedding_lookup           layers
conv2d, depthwise_conv2d, max_pool, avg_pool    layers for images
softmax_cross_entropy_with_logits ...           losses, which stay finite for large logits
moments, l2_loss, top_k, in_top_k ...           statistics
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import clipping, errors
from fgrad.compat.deferred.graph import Convertible, operation
from fgrad.compat.tensorflow import arrays, random
from fgrad.compat.tensorflow import rnn_cell as rnn_cell
from fgrad.compat.tensorflow.arguments import (
    along,
    check_within,
    chosen,
    convert,
    is_known,
    is_version_1,
    operands,
    plain,
    with_facts_at_zeros,
    with_facts_of,
    with_sizes_known_of,
    with_unknown_size,
)
from fgrad.compat.tensorflow.formulas import error_function, logistic, lowest, minus_abs, nonnegative_part
from fgrad.compat.tensorflow.math import l2_normalize as l2_normalize
from fgrad.compat.tensorflow.math import log_sigmoid as log_sigmoid
from fgrad.compat.tensorflow.math import reduce_mean as _reduce_mean
from fgrad.compat.tensorflow.math import reduce_variance as _reduce_variance
from fgrad.compat.tensorflow.math import sigmoid as sigmoid
from fgrad.compat.tensorflow.math import softplus as softplus
from fgrad.compat.tensorflow.math import tanh as tanh
from fgrad.compat.tensorflow.math import top_k as top_k
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.rnn_cell import dynamic_rnn as dynamic_rnn
from fgrad.compat.tensorflow.rnn_cell import static_rnn as static_rnn
from fgrad.core.tensor import boxed
from fgrad.ops import softmaxes
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, ArrayLike, Operand

__all__ = [
    "avg_pool", "avg_pool2d", "avg_pool3d", "batch_normalization", "bias_add", "conv2d", "depthwise_conv2d",
    "dropout", "dynamic_rnn", "elu", "embedding_lookup", "gelu", "in_top_k", "l2_loss", "l2_normalize",
    "leaky_relu", "log_sigmoid", "log_softmax", "max_pool", "max_pool2d", "max_pool3d", "moments", "relu", "relu6",
    "rnn_cell", "selu", "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "softmax",
    "softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits_v2", "softplus", "softsign",
    "sparse_softmax_cross_entropy_with_logits", "static_rnn", "swish", "tanh", "top_k",
    "weighted_cross_entropy_with_logits", "xw_plus_b", "zero_fraction",
]  # fmt: skip

__dir__ = __all__.copy

# Activations


@operation()
def relu(features: Convertible) -> Any:
    """Return the positive elements, and 0 for the others; the derivative at 0 is 0."""
    return nonnegative_part(convert(features))


@operation()
def relu6(features: Convertible) -> Any:
    """Limit every element to the interval from 0 to 6; the derivative at its ends is 0."""
    x = convert(features)
    return np.where(x >= 6, 6, nonnegative_part(x))


@operation()
def leaky_relu(features: Convertible, alpha: Any = 0.2) -> Any:
    """Return the positive elements, and `alpha` times the others."""
    x, alpha = operands(features, alpha)
    return np.where(x > 0, x, alpha * x)


@operation()
def elu(features: Convertible) -> Any:
    """Return the positive elements, and `exp(x) - 1` for the others."""
    return _exponential_below(convert(features))


def _exponential_below(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.where(x > 0, 0, x)))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@operation()
def selu(features: Convertible) -> Any:
    """Return `elu`, scaled to preserve mean 0 and variance 1 (https://arxiv.org/abs/1706.02515)."""
    x = convert(features)
    return _SELU_SCALE * np.where(x >= 0, x, _SELU_ALPHA * _exponential_below(x))


@operation()
def gelu(features: Convertible, approximate: bool = False) -> Any:
    """Return `x` times the normal distribution function of `x`; if `approximate`, by tanh."""
    x = convert(features)
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + error_function(x * math.sqrt(0.5)))


@operation("swish")
def swish(features: Convertible, beta: Any = 1.0) -> Any:
    """Return `x * sigmoid(beta * x)`."""
    x, beta = operands(features, beta)
    return x * logistic(beta * x)


silu = swish


@operation()
def softsign(features: Convertible) -> Any:
    """Return `x / (1 + abs(x))`."""
    x = convert(features)
    return x / (1 - minus_abs(x))


@operation()
def softmax(logits: Convertible, axis: Any = None, dim: Any = None) -> Any:
    """Return exponentials divided by their sum along an axis, by default the last one.

    Args:
        logits: a tensor.
        axis: the axis of the sum.
        dim: the old name of `axis`.
    """
    return softmaxes.softmax(convert(logits), _last(chosen("axis", axis, "dim", dim)))


@operation()
def log_softmax(logits: Convertible, axis: Any = None, dim: Any = None) -> Any:
    """Return the logarithm of `softmax`, without overflow; `dim` is the old name of `axis`."""
    return softmaxes.log_softmax(convert(logits), _last(chosen("axis", axis, "dim", dim)))


def _last(axis: int | None) -> int:
    return -1 if axis is None else int(axis)


def dropout(
    x: Convertible,
    *positional: ArrayLike,
    rate: Any = None,
    keep_prob: Convertible | None = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """Set random elements to 0, and scale the others up to preserve the mean.

    Args:
        x: a tensor of floats.
        positional: `rate, noise_shape, seed`; in TensorFlow 1's namespace `keep_prob, noise_shape, seed`.
        rate: the probability of an element to be set to 0.
        keep_prob: 1 minus the rate.
        noise_shape: the shape of the random choice; it broadcasts to that of `x`, which is the default. A size of None
            is that of `x`.
        seed: see `tf.random.set_seed`.

    Raises:
        ParameterError: a ValueError; the rate is missing, given twice or not in [0, 1).

    Example:
        >>> dropout([1.0, 2.0, 3.0], rate=0.0)
        Tensor([1., 2., 3.], dtype=float32)
    """
    given = {"rate": rate, "keep_prob": keep_prob, "noise_shape": noise_shape, "seed": seed}
    names = ("keep_prob" if is_version_1() else "rate", "noise_shape", "seed")
    for argument, value in zip(names, positional, strict=False):
        if given[argument] is not None or len(positional) > len(names):
            raise TypeError(f"dropout() got too many arguments, or several values for argument {argument!r}")
        given[argument] = value
    if (given["rate"] is None) == (given["keep_prob"] is None):
        raise errors.ParameterError("pass rate, the probability that an element is dropped, or keep_prob, 1 - rate.")
    x = arrays.convert_to_tensor(x)
    shape = arrays.shape(x) if given["noise_shape"] is None else given["noise_shape"]
    if isinstance(shape, (list, tuple)) and None in shape:
        shape = [arrays.shape(x)[axis] if size is None else size for axis, size in enumerate(shape)]
    noise = random.uniform(shape, seed=given["seed"])
    return with_facts_of(x, _dropped(x, noise, given["rate"], given["keep_prob"], name=name))


@operation("dropout")
def _dropped(x: Array, noise: Array, rate: Any, keep_prob: Array | float | None) -> Any:
    if x.dtype.kind != "f":
        raise errors.DtypeError(f"x must be floats, since it is scaled, but its dtype is {x.dtype}.")
    dropped = float(rate) if keep_prob is None else 1 - float(keep_prob)
    if not 0 <= dropped < 1:
        raise errors.ParameterError(f"the rate must be in [0, 1), but it is {dropped}: rate is 1 - keep_prob.")
    return np.where(noise >= dropped, x / (1 - dropped), 0)


# Layers


@operation("BiasAdd")
def bias_add(value: Convertible, bias: Convertible, data_format: Any = None) -> Any:
    """Add a vector along the last axis, or along axis 1 for a data format that begins with "NC"."""
    x, b = operands(value, bias)
    channels = x.shape[1 if data_format is not None and data_format.startswith("NC") else -1]
    if b.shape != (channels,):
        raise errors.ShapeError(f"the bias must be a vector of {channels} elements, and has shape {b.shape}.")
    if data_format is not None and data_format.startswith("NC"):
        b = np.reshape(b, (-1,) + (1,) * (x.ndim - 2))
    return x + b


@operation("xw_plus_b")
def xw_plus_b(x: Convertible, weights: Convertible, biases: Convertible) -> Any:
    """Return `x @ weights + biases`."""
    x, weights, biases = operands(x, weights, biases)
    return np.matmul(x, weights) + biases


@operation("batchnorm")
def batch_normalization(x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any) -> Any:
    """Return `(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`; the last two may be None."""
    x = convert(x)
    factor = 1 / np.sqrt(convert(variance, hint=x.dtype) + convert(variance_epsilon, hint=x.dtype))
    factor = factor if scale is None else factor * convert(scale, hint=x.dtype)
    moved = (x - convert(mean, hint=x.dtype)) * factor
    return moved if offset is None else moved + convert(offset, hint=x.dtype)


def embedding_lookup(
    params: object, ids: Any, partition_strategy: str = "mod", name: str | None = None, max_norm: Any = None
) -> Any:
    """Return the rows of a table at indices.

    Args:
        params: the table, also as a list of one.
        ids: integers of any shape.
        partition_strategy: ignored: the table has one part.
        max_norm: the maximal norm of a row; longer ones are scaled down.

    Raises:
        InvalidArgumentError: a ValueError; an index is negative or too large.
        ParameterError: a ValueError; the table is partitioned.
    """
    if isinstance(params, (list, tuple)):
        if len(params) != 1:
            raise errors.ParameterError("params must be one table; join its parts with tf.concat.")
        (params,) = params
    return _rows(params, ids, max_norm, name=name or "embedding_lookup")


@with_facts_at_zeros
@operation("embedding_lookup")
def _rows(params: Array, ids: Sequence[Any], max_norm: Operand | None) -> Any:
    table, places = convert(params), convert(ids)
    check_within(places, table.shape[0], "ids")
    rows = np.take(table, places, 0)
    return rows if max_norm is None else clipping.clip_by_norm(rows, max_norm, tuple(range(places.ndim, rows.ndim)))


# Layers for images: windows of a batch of images, as shifted views


_WORDS = {2: "two, or four", 3: "three, or five"}


def _each(value: Any, format: str) -> tuple[int, ...]:
    """Return a number for each axis but batch and channels, from one number, as many, or those for all axes."""
    places = _places(format)
    numbers = [int(each) for each in value] if np.iterable(value) else [int(value)]
    if len(numbers) == len(format):
        if numbers[0] != 1 or numbers[format.index("C")] != 1:
            raise errors.ParameterError(f"{numbers} must be 1 for the axes of batch and channels.")
        numbers = [numbers[place] for place in places]
    if len(numbers) not in (1, len(places)):
        raise errors.ParameterError(f"{value} must be one number, {_WORDS[len(places)]}.")
    return tuple(numbers) if len(numbers) > 1 else (numbers[0],) * len(places)


def _padding(padding: str, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> list[Any]:
    """Return how many rows and columns to add before and after."""
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise errors.ParameterError(f"padding is {padding!r}; use 'SAME' or 'VALID'.")
    if padding.upper() == "VALID":
        return [(0, 0)] * len(sizes)
    totals = [
        max((-(-size // stride) - 1) * stride + width - size, 0)
        for size, width, stride in zip(sizes, kernel, strides, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _windows(x: Array, kernel: Sequence[int], strides: Sequence[int], padding: str, fill: float) -> list[Any]:
    """Return, for every position in a window, the elements of all windows at this position."""
    widths = [(0, 0), *_padding(padding, x.shape[1:-1], kernel, strides), (0, 0)]
    x = arrays.pad(x, widths, constant_values=fill) if any(map(any, widths)) else x
    ends = [size - width for size, width in zip(x.shape[1:-1], kernel, strict=True)]
    if min(ends) < 0:
        raise errors.ShapeError(f"windows of {tuple(kernel)} do not fit into images of {x.shape[1:-1]}.")
    starts = itertools.product(*map(range, kernel))
    return [
        x[(slice(None), *(slice(a, a + end + 1, step) for a, end, step in zip(start, ends, strides, strict=True)))]
        for start in starts
    ]


def _channels_last(x: Any, format: str, formats: tuple[str, str] = ("NHWC", "NCHW")) -> Any:
    if format not in formats:
        raise errors.ParameterError(f"data_format is {format!r}; use {formats[0]!r} or {formats[1]!r}.")
    return x if format == formats[0] else np.moveaxis(x, 1, -1)


def _channels_back(x: Any, format: str) -> Any:
    return x if format.endswith("C") else np.moveaxis(x, -1, 1)


def conv2d(
    input: Convertible,
    filter: Convertible | None = None,
    strides: Any = None,
    padding: object = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """Correlate images with filters.

    Args:
        input: images: batch, height, width, channels, or with the channels second for "NCHW".
        filter, filters: height, width, channels, results.
        strides: the step of the filters in pixels: one number, two, or four for all axes.
        padding: "SAME" for zero padding, "VALID" for none.
        use_cudnn_on_gpu: ignored.
        data_format: "NHWC" or "NCHW".
        dilations: must be 1: no dilation.

    Raises:
        ParameterError: a ValueError; an option is missing or has an unknown value.
        ShapeError: a ValueError; the filters do not fit the images.
    """
    filters = chosen("filters", filters, "filter", filter)
    if filters is None or strides is None or padding is None:
        raise errors.ParameterError("conv2d needs filters, strides and padding.")
    _check_dilations(dilations, data_format)
    found = _correlated(input, filters, strides, padding, data_format, name=name)
    return _with_known_sizes(input, found, data_format, filters)


def _check_dilations(dilations: object, format: str) -> None:
    if dilations is not None and _each(dilations, format) != (1, 1):
        raise errors.ParameterError(f"dilations is {dilations}, but fgrad supports only 1.")


def _with_known_sizes(input: Convertible, found: Convertible, format: str, filters: Convertible = ()) -> Any:
    """Return a result for images with the sizes that follow from those of the images and filters."""
    found = with_sizes_known_of(input, found, _places(format))
    return found if is_known(filters) else with_unknown_size(found, None)


@operation("Conv2D")
def _correlated(input: Array, filters: Array, strides: object, padding: object, format: str) -> Any:
    windows, filters = _windows_for(input, filters, strides, padding, format)
    height, width, channels, results = filters.shape
    found = np.matmul(np.concatenate(windows, axis=-1), np.reshape(filters, (height * width * channels, results)))
    return _channels_back(found, format)


def _windows_for(input: Array, filters: Array, strides: Any, padding: Any, format: str) -> tuple[list[Any], Any]:
    """Return the windows of images on which filters act, and the filters."""
    images, filters = operands(input, filters)
    images = _channels_last(images, format)
    height, width, channels, _ = filters.shape
    if images.shape[3] != channels:
        raise errors.ShapeError(f"the images have {images.shape[3]} channels, but the filters have {channels}.")
    return _windows(images, (height, width), _each(strides, format), padding, 0), filters


def depthwise_conv2d(
    input: Convertible,
    filter: Convertible,
    strides: Any,
    padding: object,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Correlate each channel of images with separate filters.

    Args:
        input, strides, padding, data_format: as for `conv2d`.
        filter: height, width, channels, results for each channel.
        rate, dilations: must be 1: no dilation.

    Returns:
        Images with the results of the first channel first.

    Raises:
        ParameterError: a ValueError; an option has an unknown value.
        ShapeError: a ValueError; the filters do not fit the images.
    """
    format = data_format or "NHWC"
    _check_dilations(chosen("dilations", dilations, "rate", rate), format)
    found = _correlated_by_channel(input, filter, strides, padding, format, name=name)
    return _with_known_sizes(input, found, format, filter)


@operation("depthwise")
def _correlated_by_channel(input: Array, filter: Array, strides: object, padding: object, format: str) -> Any:
    windows, filters = _windows_for(input, filter, strides, padding, format)
    height, width, channels, results = filters.shape
    kernel = np.reshape(filters, (height * width, channels, results))
    found = np.einsum("pnhwc,pcm->nhwcm", np.stack(windows), kernel)
    return _channels_back(np.reshape(found, (*found.shape[:3], channels * results)), format)


def _places(format: str) -> tuple[int, ...]:
    """Return the axes of depth, height and width."""
    return tuple(place for place, letter in enumerate(format) if letter in "DHW")


def max_pool(
    input: Convertible, ksize: Any, strides: Any, padding: object, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Return the largest element of each window of images; the first of equal ones has the derivative.

    Args:
        input: images: batch, height, width, channels, or with the channels second for "NCHW".
        ksize: the size of a window: one number, two, or four for all axes.
        strides: the step of the window in pixels, likewise.
        padding: "SAME" for windows that extend beyond the edges, "VALID" for windows inside.
        data_format: "NHWC" or "NCHW".

    Raises:
        ParameterError: a ValueError; an option has an unknown value.
        ShapeError: a ValueError; the windows do not fit into the images.
    """
    found = _largest_in_windows(input, ksize, strides, padding, data_format, name=name)
    return _with_known_sizes(input, found, data_format)


@operation("MaxPool")
def _largest_in_windows(input: Array, ksize: Any, strides: Any, padding: Any, format: str, *formats: Any) -> Any:
    images = _channels_last(convert(input), format, *formats)
    windows = _windows(images, _each(ksize, format), _each(strides, format), padding, lowest(images.dtype))
    stacked = np.stack(windows)
    places = np.argmax(plain(stop_gradient(stacked)), axis=0, keepdims=True)
    return _channels_back(along(stacked, places, 0)[0], format)


def avg_pool(
    input: Convertible, ksize: Any, strides: Any, padding: object, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Return the mean of each window of images, over the elements inside; see `max_pool`."""
    found = _means_of_windows(input, ksize, strides, padding, data_format, name=name)
    return _with_known_sizes(input, found, data_format)


@operation("AvgPool")
def _means_of_windows(input: Array, ksize: object, strides: object, padding: Any, format: str, *formats: Any) -> Any:
    images = _channels_last(convert(input), format, *formats)
    kernel, steps = _each(ksize, format), _each(strides, format)
    inside = convert(np.ones((1, *images.shape[1:-1], 1), images.dtype))
    total = np.sum(np.stack(_windows(images, kernel, steps, padding, 0)), axis=0)
    count = np.sum(np.stack(_windows(inside, kernel, steps, padding, 0)), axis=0)
    return _channels_back(total / count, format)


max_pool2d, avg_pool2d = max_pool, avg_pool

_VOLUMES = ("NDHWC", "NCDHW")


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Any:
    """Return the largest element of each window of volumes; see `max_pool`.

    Args:
        input: volumes: batch, depth, height, width, channels, or with the channels second for "NCDHW".
        ksize, strides: one number, three, or five for all axes.
        padding: as for `max_pool`.
        data_format: "NDHWC" or "NCDHW".

    Raises:
        ParameterError: a ValueError; an option has an unknown value.
        ShapeError: a ValueError; the windows do not fit into the volumes.
    """
    found = _largest_in_windows(input, ksize, strides, padding, data_format, _VOLUMES, name=name)
    return _with_known_sizes(input, found, data_format)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Any:
    """Return the mean of each window of volumes, over the elements inside; see `max_pool3d`."""
    found = _means_of_windows(input, ksize, strides, padding, data_format, _VOLUMES, name=name)
    return _with_known_sizes(input, found, data_format)


# Losses


def _named_only(function: str, sentinel: Any, labels: object, logits: object) -> None:
    if sentinel is not None or labels is None or logits is None:
        raise errors.ParameterError(
            f"Only call `{function}` with named arguments (labels=..., logits=...): their order differs "
            "between the versions of TensorFlow."
        )


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = None,
    axis: Any = None,
    name: str | None = None,
) -> Any:
    """Return `-sum(labels * log_softmax(logits))` along an axis.

    Args:
        _sentinel: receives a positional argument, which is an error.
        labels: probabilities. In TensorFlow 1's namespace no derivative passes to them; see
            `softmax_cross_entropy_with_logits_v2`.
        logits: logarithms of probabilities, up to a constant.
        dim: the old name of `axis`.
        axis: the axis of the classes, by default the last one.

    Raises:
        ParameterError: a ValueError; `labels` and `logits` are not passed by name.
    """
    _named_only("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    labels = arrays.stop_gradient(labels) if is_version_1() else labels
    return softmax_cross_entropy_with_logits_v2(labels, logits, axis, dim, name)


def softmax_cross_entropy_with_logits_v2(
    labels: object, logits: Convertible, axis: Any = None, dim: Any = None, name: str | None = None
) -> Any:
    """Return `-sum(labels * log_softmax(logits))` along an axis; derivatives pass to the labels, too.

    Args:
        labels: probabilities.
        logits: logarithms of probabilities, up to a constant.
        axis: the axis of the classes, by default the last one.
        dim: the old name of `axis`.
    """
    return _cross_entropy(labels, logits, _last(chosen("axis", axis, "dim", dim)), name=name)


@operation("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(labels: Array, logits: Array, axis: int) -> Any:
    logits, labels = operands(logits, labels)
    return -np.sum(labels * softmaxes.log_softmax(logits, axis), axis=axis)


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Return `-log_softmax(logits)[label]`, for labels that are class numbers.

    Args:
        _sentinel: receives a positional argument, which is an error.
        labels: integers, of the shape of `logits` without its last axis.
        logits: logarithms of probabilities, up to a constant.

    Raises:
        ParameterError: a ValueError; `labels` and `logits` are not passed by name.
        InvalidArgumentError: a ValueError; a label is negative or too large.
        ShapeError: a ValueError; the shapes of labels and logits are incompatible.
    """
    _named_only("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return _sparse_cross_entropy(labels, logits, name=name)


@operation("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(labels: Sequence[Any], logits: Array) -> Any:
    logits, numbers = convert(logits), plain(convert(labels))
    if numbers.shape != logits.shape[:-1]:
        raise errors.ShapeError(f"labels of shape {numbers.shape} do not fit logits of shape {logits.shape}.")
    check_within(numbers, logits.shape[-1], "labels")
    is_label = numbers[..., None] == np.arange(logits.shape[-1])
    return -np.sum(np.where(is_label, softmaxes.log_softmax(logits, -1), 0), axis=-1)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Return `-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))`, elementwise.

    Args:
        _sentinel: receives a positional argument, which is an error.
        labels: probabilities.
        logits: a tensor of the same shape.

    Raises:
        ParameterError: a ValueError; `labels` and `logits` are not passed by name.
    """
    _named_only("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    return _logistic_loss(labels, logits, name=name)


@operation("logistic_loss")
def _logistic_loss(labels: Operand, logits: Array) -> Any:
    x, z = operands(logits, labels)
    _check_same_shape(x, z)
    # In this order, the difference is exact where x * z cancels the first term.
    return nonnegative_part(x) - x * z + np.log1p(np.exp(minus_abs(x)))


def _check_same_shape(logits: Array, labels: Array) -> None:
    if logits.shape != labels.shape:
        raise errors.ShapeError(f"logits of shape {logits.shape} and labels of {labels.shape} must have one shape.")


@operation("logistic_loss")
def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, targets: Any = None
) -> Any:
    """Return `sigmoid_cross_entropy_with_logits` with a weight for the positive examples.

    Args:
        labels: probabilities.
        logits: a tensor of the same shape.
        pos_weight: the weight of `-labels * log(sigmoid(logits))`.
        targets: the old name of `labels`.
    """
    x, z, weight = operands(logits, chosen("labels", labels, "targets", targets), pos_weight)
    _check_same_shape(x, z)
    factor = 1 + (weight - 1) * z
    # In this order, the difference is exact, and small losses of large logits keep their digits.
    return (1 - z) * x + factor * (np.log1p(np.exp(minus_abs(x))) + (nonnegative_part(x) - x))


@operation("L2Loss")
def l2_loss(t: Convertible) -> Any:
    """Return half of the sum of squares."""
    return np.sum(np.square(convert(t))) / 2


# Statistics


def moments(
    x: Convertible,
    axes: Any,
    shift: Any = None,
    keepdims: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return mean and variance along axes.

    Args:
        x: a tensor.
        axes: the axes to reduce.
        shift: ignored.
        keepdims: whether to keep these axes with size 1.
        keep_dims: the old name of `keepdims`.
    """
    keepdims = chosen("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce_mean(x, axes, keepdims, name=name), _reduce_variance(x, axes, keepdims, name=name)


@operation("in_top_k", differentiable=False)
def in_top_k(predictions: Convertible, targets: Convertible, k: Any) -> Any:
    """Return whether the predictions for the targets are among the `k` largest of their rows.

    Args:
        predictions: a matrix, one row for each target.
        targets: the columns of the targets. TensorFlow 2 has `targets` before `predictions`: both orders work.
        k: the number of predictions. Ties with the k-th largest count, and values that are not finite do not.
    """
    first, second = plain(convert(predictions)), plain(convert(targets))
    rows, columns = (second, first) if second.ndim == 2 else (first, second)
    check_within(columns, rows.shape[1], "targets")
    own = rows[np.arange(len(rows)), columns]
    return boxed((np.sum(rows > own[:, None], axis=1) < int(k)) & np.isfinite(own))


@operation("zero_fraction", differentiable=False)
def zero_fraction(value: Convertible) -> Any:
    """Return the fraction of elements that are 0, as a float32 number."""
    return np.mean(convert(value) == 0).astype(np.float32)


__getattr__ = missing(__name__)
