"""`tf.layers`: layers of TensorFlow 1.

Dense                                    a layer that holds its variables
dense, conv2d                            create their variables, in their own scope
batch_normalization                      likewise; in a graph its averages are updated by `tf.GraphKeys.UPDATE_OPS`
max_pooling2d, average_pooling2d         of windows of images; max_pooling3d, average_pooling3d of volumes
flatten, dropout                         without variables

In eager mode nothing is shared: every call creates variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.graph import Convertible, Symbol, operation
from fgrad.compat.tensorflow import nn
from fgrad.compat.tensorflow.arguments import convert
from fgrad.compat.tensorflow.arrays import convert_to_tensor, identity, reshape
from fgrad.compat.tensorflow.graphs import cond
from fgrad.compat.tensorflow.initializers import Ones, Zeros
from fgrad.compat.tensorflow.math import add, tensordot
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.variables import GraphKeys, add_to_collection, get_variable, variable_scope
from fgrad.typing import Array, Operand


def dense(
    inputs: Convertible,
    units: int,
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: object = None,
    bias_initializer: object = Zeros,
    *,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return `activation(inputs @ kernel + bias)`, with variables `kernel` and `bias` in their own scope.

    Args:
        inputs: a tensor whose last axis has a known size.
        units, activation, use_bias, kernel_initializer, bias_initializer, trainable, name, reuse: as for `Dense`.

    Raises:
        ShapeError: a ValueError; the size of the last axis is unknown.
    """
    layer = Dense(
        units, activation, use_bias, kernel_initializer, bias_initializer, trainable=trainable, name=name, reuse=reuse
    )
    return layer(inputs)


class Dense:
    """A layer that returns `activation(inputs @ kernel + bias)`, and holds its variables.

    They are created in the first call, in their own scope.

    Args:
        units: the size of the last axis of the result.
        activation: a function of the sum, such as `tf.nn.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: the initializer of the kernel; by default that of the open scope, or Glorot's uniform one.
        bias_initializer: the initializer of the bias.
        trainable: whether the variables are trainable.
        name: the name of the scope; by default "dense", made unique.
        reuse: True to reuse the variables of the layer with that name.

    Attributes:
        kernel, bias: the variables, None before the first call.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> layer = tf.layers.Dense(2, kernel_initializer=tf.ones_initializer(), name="scores")
        >>> layer(tf.constant([[1.0, 2.0, 3.0]]))
        Tensor([[6., 6.]], dtype=float32)
        >>> [variable.name for variable in layer.variables]
        ['scores/kernel:0', 'scores/bias:0']
    """

    def __init__(
        self,
        units: int,
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: object = None,
        bias_initializer: object = Zeros,
        *,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> None:
        self.units, self.activation, self.use_bias = units, activation, use_bias
        self.kernel: Any = None
        self.bias: Any = None
        self._initializers = kernel_initializer, bias_initializer
        self._trainable, self._name, self._reuse = trainable, name, reuse

    def __call__(self, inputs: Convertible) -> Any:
        """Return the result for a tensor whose last axis has a known size."""
        x = convert_to_tensor(inputs)
        if self.kernel is None:
            self._create(_known(x, -1, "dense"), _dtype_of(x))
        y = tensordot(x, self.kernel, [[len(x.shape) - 1], [0]])
        y = y if self.bias is None else add(y, self.bias)
        return y if self.activation is None else self.activation(y)

    def _create(self, size: int, dtype: object) -> None:
        of_kernel, of_bias = self._initializers
        with variable_scope(self._name, default_name="dense", reuse=self._reuse):
            self.kernel = get_variable("kernel", [size, self.units], dtype, of_kernel, trainable=self._trainable)
            if self.use_bias:
                self.bias = get_variable("bias", [self.units], dtype, of_bias, trainable=self._trainable)

    @property
    def variables(self) -> list[Any]:
        """The variables, in the order of creation."""
        return [variable for variable in (self.kernel, self.bias) if variable is not None]

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The trainable ones of them."""
        return [variable for variable in self.variables if variable.trainable]

    trainable_weights = trainable_variables


def _known(x: Any, axis: int, layer: str) -> int:
    """Return a size that determines the shapes of a layer's variables."""
    rank = getattr(x.shape, "ndims", len(x.shape))
    size = x.shape[axis] if rank and -rank <= axis < rank else None
    if size is None:
        which = "last dimension" if axis == -1 else f"size of axis {axis}"
        raise errors.ShapeError(
            f"the {which} of the inputs of `{layer}` must be defined, but the shape is {x.shape}: "
            "the shapes of its variables depend on it."
        )
    return int(size)


def _dtype_of(x: Any) -> Any:
    return np.dtype(np.float32) if x.dtype is None else x.dtype


_IMAGES = {"channels_last": "NHWC", "channels_first": "NCHW"}
_VOLUMES = {"channels_last": "NDHWC", "channels_first": "NCDHW"}


def _format(data_format: str, formats: dict[str, str] = _IMAGES) -> str:
    if data_format not in formats:
        raise errors.ParameterError(f"data_format is {data_format!r}; use 'channels_last' or 'channels_first'.")
    return formats[data_format]


def conv2d(
    inputs: Convertible,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., Any] | None = None,
    bias_initializer: object = Zeros,
    *,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Correlate images with filters, the variable `kernel`, and add the variable `bias`; see `tf.nn.conv2d`.

    Args:
        inputs: images: batch, height, width, channels; the number of channels must be known.
        filters: the number of channels of the result.
        kernel_size: height and width of the filters, or one number for both.
        strides: the step of the filters in pixels, likewise.
        padding: "same" for zero padding, "valid" for none.
        data_format: "channels_last", or "channels_first" for images with the channels second.
        dilation_rate: must be 1: no dilation.
        activation, use_bias, kernel_initializer, bias_initializer, trainable, reuse: as for `Dense`.
        name: the name of the scope; by default "conv2d", made unique.

    Raises:
        ShapeError: a ValueError; the number of channels is unknown, or the filters do not fit the images.
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
    inputs: Convertible,
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
        strides: the step of the window in pixels, likewise.
        padding: "same" for windows that extend beyond the edges, "valid" for windows inside.
        data_format: "channels_last", or "channels_first" for images with the channels second.

    Raises:
        ShapeError: a ValueError; the windows do not fit into the images.
        ParameterError: a ValueError; an option has an unknown value.
    """
    return nn.max_pool(inputs, pool_size, strides, padding.upper(), _format(data_format), name=name)


def average_pooling2d(
    inputs: Convertible,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of images, over the elements inside; see `max_pooling2d`."""
    return nn.avg_pool(inputs, pool_size, strides, padding.upper(), _format(data_format), name=name)


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the largest element of each window of volumes; see `max_pooling2d` and `tf.nn.max_pool3d`."""
    return nn.max_pool3d(inputs, pool_size, strides, padding.upper(), _format(data_format, _VOLUMES), name=name)


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of volumes; see `average_pooling2d` and `tf.nn.avg_pool3d`."""
    return nn.avg_pool3d(inputs, pool_size, strides, padding.upper(), _format(data_format, _VOLUMES), name=name)


def flatten(inputs: Convertible, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Merge all axes except the first one, the batch axis.

    Args:
        inputs: a tensor with at least one axis.
        data_format: "channels_last"; or "channels_first" for channels that are second, and become last.
    """
    return _flattened(inputs, _format(data_format) == "NCHW", name=name)


@operation("flatten")
def _flattened(inputs: Array, is_first: bool) -> Array:
    x = convert(inputs)
    x = np.moveaxis(x, 1, -1) if is_first and x.ndim > 2 else x
    return np.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


def dropout(
    inputs: Convertible,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: Any = None,
    training: object = False,
    name: Any = None,
) -> Any:
    """Set random elements to 0 in training; see `tf.nn.dropout`.

    Args:
        inputs: a tensor of floats.
        rate: the probability of an element to be set to 0; the others are scaled up to preserve the mean.
        noise_shape: the shape of the random choice; it broadcasts to that of `inputs`, which is the default.
        seed: see `tf.random.set_seed`.
        training: whether to apply dropout; in a graph also a tensor.

    Raises:
        ParameterError: a ValueError; the rate is not in [0, 1).
    """
    x = convert_to_tensor(inputs)

    def dropped() -> Any:
        return nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed, name=name)

    return _either(training, dropped, lambda: identity(x))


def _either(training: object, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Return the result of one of two functions, or a graph node that chooses if the condition is a tensor."""
    if isinstance(training, Symbol):
        return cond(training, true_fn, false_fn)
    return true_fn() if training else false_fn()


def batch_normalization(
    inputs: Convertible,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: object = Zeros,
    gamma_initializer: object = Ones,
    moving_mean_initializer: object = Zeros,
    moving_variance_initializer: object = Ones,
    *,
    training: object = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return `(inputs - mean) / sqrt(variance + epsilon) * gamma + beta`, with one mean and variance for each channel.

    In training, these are the moments of the batch, and the variables `moving_mean` and `moving_variance` are updated:
    in eager mode immediately, in a graph when the operations of the collection `tf.GraphKeys.UPDATE_OPS` are run.
    Otherwise these variables are used.

    Args:
        inputs: a tensor with a known number of channels.
        axis: the axis of the channels.
        momentum: the fraction of the averages that is kept in an update.
        epsilon: added to the variance.
        center, scale: whether `beta` and `gamma` are used.
        beta_initializer, gamma_initializer: the initializers of these variables.
        moving_mean_initializer, moving_variance_initializer: the initializers of the averages.
        training: whether to normalize by the batch; in a graph also a tensor.
        trainable: whether `beta` and `gamma` are trainable.
        name: the name of the scope; by default "batch_normalization", made unique.
        reuse: True to reuse the variables of the layer with that name.

    Raises:
        ShapeError: a ValueError; the number of channels is unknown.
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
def _of_all(variance: Array, x: Array) -> Any:
    """Return the unbiased variance of a batch of images, which TensorFlow averages."""
    count = x.size // variance.size
    return variance * convert(count / max(count - 1, 1), hint=variance.dtype)


def _follow(averages: tuple[Any, ...], moments: tuple[Any, ...], momentum: Operand, training: object) -> None:
    """Update averages: immediately, or in a graph when the operations in a collection are run."""

    def update() -> list[Any]:
        pairs = zip(averages, moments, strict=True)
        return [average.assign_sub((average - each) * (1 - momentum)) for average, each in pairs]

    updates = _either(training, update, lambda: list(map(identity, averages)))
    for each in updates if isinstance(updates[0], Symbol) else ():
        add_to_collection(GraphKeys.UPDATE_OPS, each)


__getattr__ = missing(__name__)
