"""`tf.layers`: layers as programs for TensorFlow 1 have them.

dense, conv2d                            make their variables, in a scope of their own
batch_normalization                      likewise; in a graph its averages follow by `tf.GraphKeys.UPDATE_OPS`
max_pooling2d, average_pooling2d         of windows of images
flatten, dropout                         without variables

Eagerly nothing is shared: every call makes variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.graph import Symbol, operation
from fgrad.compat.tensorflow import nn
from fgrad.compat.tensorflow.arguments import convert
from fgrad.compat.tensorflow.arrays import convert_to_tensor, identity, reshape
from fgrad.compat.tensorflow.graphs import cond
from fgrad.compat.tensorflow.initializers import Ones, Zeros
from fgrad.compat.tensorflow.math import add, tensordot
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.variables import GraphKeys, add_to_collection, get_variable, variable_scope


def dense(
    inputs: Any,
    units: int,
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    *,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return `activation(inputs @ kernel + bias)`, with variables `kernel` and `bias` in a scope of their own.

    Args:
        inputs: a tensor whose last axis has a known size.
        units: the size of that axis in the result.
        activation: a function of the sum, such as `tf.nn.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel; by default that of the open scope, or Glorot's uniform one.
        bias_initializer: of the bias.
        trainable: whether optimizers find the variables by themselves.
        name: of the scope; by default "dense", made unique.
        reuse: True to take the variables of the layer of that name.

    Raises:
        ShapeError: a ValueError; the size of the last axis is not known.
    """
    x = convert_to_tensor(inputs)
    size, dtype = _known(x, -1, "dense"), _dtype_of(x)
    with variable_scope(name, default_name="dense", reuse=reuse):
        kernel = get_variable("kernel", [size, units], dtype, kernel_initializer, trainable=trainable)
        y = tensordot(x, kernel, [[len(x.shape) - 1], [0]])
        if use_bias:
            y = add(y, get_variable("bias", [units], dtype, bias_initializer, trainable=trainable))
        return y if activation is None else activation(y)


def _known(x: Any, axis: int, layer: str) -> int:
    """Return a size on which the shapes of a layer's variables depend."""
    rank = getattr(x.shape, "ndims", len(x.shape))
    size = x.shape[axis] if rank and -rank <= axis < rank else None
    if size is None:
        which = "last dimension" if axis == -1 else f"size of axis {axis}"
        raise errors.ShapeError(
            f"the {which} of the inputs of `{layer}` must be defined, and the shape is {x.shape}: "
            "the shapes of its variables depend on it."
        )
    return int(size)


def _dtype_of(x: Any) -> Any:
    return np.dtype(np.float32) if x.dtype is None else x.dtype


_FORMATS = {"channels_last": "NHWC", "channels_first": "NCHW"}


def _format(data_format: str) -> str:
    if data_format not in _FORMATS:
        raise errors.ParameterError(f"data_format is {data_format!r}; use 'channels_last' or 'channels_first'.")
    return _FORMATS[data_format]


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    *,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Correlate images with filters, the variable `kernel`, and add the variable `bias`; see `tf.nn.conv2d`.

    Args:
        inputs: images: batch, height, width, channels, of which the last one is known.
        filters: the number of channels of the result.
        kernel_size: height and width of the filters, or one number for both.
        strides: by how many pixels the filters move, likewise.
        padding: "same" for zeros around the images, "valid" for places where the filters fit.
        data_format: "channels_last", or "channels_first" for images whose channels come second.
        dilation_rate: 1: filters have no gaps.
        activation: a function of the sum, such as `tf.nn.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel; by default that of the open scope, or Glorot's uniform one.
        bias_initializer: of the bias.
        trainable: whether optimizers find the variables by themselves.
        name: of the scope; by default "conv2d", made unique.
        reuse: True to take the variables of the layer of that name.

    Raises:
        ShapeError: a ValueError; the number of channels is not known, or the filters do not fit the images.
        ParameterError: a ValueError; an option has an unknown value.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.layers.conv2d(tf.ones([1, 5, 5, 3]), 8, 3, strides=2, padding="same").shape
        (1, 3, 3, 8)
    """
    x, format = convert_to_tensor(inputs), _format(data_format)
    channels, dtype = _known(x, -1 if format == "NHWC" else 1, "conv2d"), _dtype_of(x)
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    with variable_scope(name, default_name="conv2d", reuse=reuse):
        kernel = get_variable("kernel", [*size, channels, filters], dtype, kernel_initializer, trainable=trainable)
        y = nn.conv2d(x, kernel, strides, padding.upper(), data_format=format, dilations=dilation_rate)
        if use_bias:
            bias = get_variable("bias", [filters], dtype, bias_initializer, trainable=trainable)
            y = nn.bias_add(y, bias, data_format=format)
        return y if activation is None else activation(y)


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the largest element of each window of images; see `tf.nn.max_pool`.

    Args:
        inputs: images: batch, height, width, channels.
        pool_size: height and width of a window, or one number for both.
        strides: by how many pixels the window moves, likewise.
        padding: "same" for windows that reach over the edges, "valid" for places where they fit.
        data_format: "channels_last", or "channels_first" for images whose channels come second.
        name: of the node.

    Raises:
        ShapeError: a ValueError; the windows do not fit into the images.
        ParameterError: a ValueError; an option has an unknown value.
    """
    return nn.max_pool(inputs, pool_size, strides, padding.upper(), _format(data_format), name=name)


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of images, of the elements that are inside; see `max_pooling2d`."""
    return nn.avg_pool(inputs, pool_size, strides, padding.upper(), _format(data_format), name=name)


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Make one axis of all axes but the first one, which counts the batch.

    Args:
        inputs: a tensor with at least one axis.
        name: of the node.
        data_format: "channels_last"; or "channels_first" for channels that come second, and last in the result.
    """
    return _flattened(inputs, _format(data_format) == "NCHW", name=name)


@operation("flatten")
def _flattened(inputs: Any, is_first: bool) -> Any:
    x = convert(inputs)
    x = np.moveaxis(x, 1, -1) if is_first and x.ndim > 2 else x
    return np.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


def dropout(
    inputs: Any, rate: Any = 0.5, noise_shape: Any = None, seed: Any = None, training: Any = False, name: Any = None
) -> Any:
    """Put 0 in place of elements that are chosen at random, where one trains; see `tf.nn.dropout`.

    Args:
        inputs: a tensor of floats.
        rate: the probability of an element to be 0; the others are scaled up to the same mean.
        noise_shape: the shape in which to choose; it broadcasts to that of `inputs`, by default it is that.
        seed: see `tf.random.set_seed`.
        training: whether to do so; in a graph also a tensor that says so in a run.
        name: of the node.

    Raises:
        ParameterError: a ValueError; the rate is not in [0, 1).
    """
    x = convert_to_tensor(inputs)

    def dropped() -> Any:
        return nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed, name=name)

    return _either(training, dropped, lambda: identity(x))


def _either(training: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Return the result of one of two functions, of both only where a run is to choose."""
    if isinstance(training, Symbol):
        return cond(training, true_fn, false_fn)
    return true_fn() if training else false_fn()


def batch_normalization(
    inputs: Any,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = Zeros,
    gamma_initializer: Any = Ones,
    moving_mean_initializer: Any = Zeros,
    moving_variance_initializer: Any = Ones,
    *,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return `(inputs - mean) / sqrt(variance + epsilon) * gamma + beta`, of one mean and variance for each channel.

    Where one trains, they are those of the batch, and the variables `moving_mean` and `moving_variance` follow them:
    eagerly at once, in a graph when the operations of the collection `tf.GraphKeys.UPDATE_OPS` are run. Otherwise
    they are those variables.

    Args:
        inputs: a tensor with channels of a known number.
        axis: of the channels.
        momentum: how much of the averages remains when they follow a batch.
        epsilon: added to the variance.
        center, scale: whether there are `beta` and `gamma`.
        beta_initializer, gamma_initializer: of these variables.
        moving_mean_initializer, moving_variance_initializer: of the averages.
        training: whether one trains; in a graph also a tensor that says so in a run.
        trainable: whether optimizers find `beta` and `gamma` by themselves.
        name: of the scope; by default "batch_normalization", made unique.
        reuse: True to take the variables of the layer of that name.

    Raises:
        ShapeError: a ValueError; the number of channels is not known.
    """
    x = convert_to_tensor(inputs)
    size, rank, dtype = _known(x, axis, "batch_normalization"), len(x.shape), _dtype_of(x)
    with variable_scope(name, default_name="batch_normalization", reuse=reuse):
        gamma = get_variable("gamma", [size], dtype, gamma_initializer, trainable=trainable) if scale else None
        beta = get_variable("beta", [size], dtype, beta_initializer, trainable=trainable) if center else None
        averages = (
            get_variable("moving_mean", [size], dtype, moving_mean_initializer, trainable=False),
            get_variable("moving_variance", [size], dtype, moving_variance_initializer, trainable=False),
        )
        others = [each for each in range(rank) if each != axis % rank]
        moments = _either(training, lambda: nn.moments(x, others), lambda: tuple(map(identity, averages)))
        if training is not False:
            is_image = rank == 4 and axis % rank in (1, 3)
            _follow(averages, (moments[0], _of_all(moments[1], x) if is_image else moments[1]), momentum, training)
        shape = [size if each == axis % rank else 1 for each in range(rank)]
        mean, variance, offset, factor = (
            each if each is None or axis % rank == rank - 1 else reshape(each, shape)
            for each in (*moments, beta, gamma)
        )
        return nn.batch_normalization(x, mean, variance, offset, factor, epsilon)


@operation("Unbiased")
def _of_all(variance: Any, x: Any) -> Any:
    """Return the variance of what a batch of images is a sample of: TensorFlow's averages follow that one."""
    count = x.size // variance.size
    return variance * convert(count / max(count - 1, 1), hint=variance.dtype)


def _follow(averages: Any, moments: Any, momentum: Any, training: Any) -> None:
    """Let averages follow: now, or in a graph when the operations in a collection are run."""

    def update() -> list[Any]:
        pairs = zip(averages, moments, strict=True)
        return [average.assign_sub((average - each) * (1 - momentum)) for average, each in pairs]

    updates = _either(training, update, lambda: list(map(identity, averages)))
    for each in updates if isinstance(updates[0], Symbol) else ():
        add_to_collection(GraphKeys.UPDATE_OPS, each)


__getattr__ = missing(__name__)
