"""`tf.layers`: layers that make their variables, as programs for TensorFlow 1 have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.tensorflow.arrays import convert_to_tensor
from fgrad.compat.tensorflow.initializers import Zeros
from fgrad.compat.tensorflow.math import add, tensordot
from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.variables import get_variable, variable_scope


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

    Eagerly nothing is shared: every call makes variables.

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
    size = x.shape[-1] if len(x.shape) else None
    if size is None:
        raise errors.ShapeError(
            f"the last dimension of the inputs of `dense` must be defined, and the shape is {x.shape}: "
            "it is the number of rows of the kernel."
        )
    dtype = np.dtype(np.float32) if x.dtype is None else x.dtype
    with variable_scope(name, default_name="dense", reuse=reuse):
        kernel = get_variable("kernel", [size, units], dtype, kernel_initializer, trainable=trainable)
        y = tensordot(x, kernel, [[len(x.shape) - 1], [0]])
        if use_bias:
            y = add(y, get_variable("bias", [units], dtype, bias_initializer, trainable=trainable))
        return y if activation is None else activation(y)


__getattr__ = missing(__name__)
