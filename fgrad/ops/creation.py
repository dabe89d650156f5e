"""New tensors. NumPy cannot dispatch `zeros` and its kin; `fgrad.numpy` has them from here.

What they return are Tensors, so that traced values can be assigned to their elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import BOXES, Tensor, boxed
from fgrad.ops.elementwise import copy
from fgrad.ops.families import answers
from fgrad.ops.shaping import broadcast_to, holds_tensors, stack


def _like(function: Any) -> Callable[..., Any]:
    """Make `zeros_like` and its kin, which need the shape and kind of array, not the values."""

    @functools.wraps(function)
    def like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
        if type(prototype) not in BOXES:
            return boxed(function(prototype, dtype, order, subok, shape))
        shape = prototype.shape if shape is None else shape
        return boxed(function(prototype._shown(), dtype, order, subok, shape))

    return answers(function)(like)


zeros_like = _like(np.zeros_like)
ones_like = _like(np.ones_like)
empty_like = _like(np.empty_like)


@answers(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Any:
    """Return a tensor of the shape and dtype of `a`, filled with one value, which may be traced."""
    filled = broadcast_to(_tensor(fill_value), np.shape(a) if shape is None else shape)
    return FUNCTIONS[np.ndarray.astype](filled, a.dtype if dtype is None else dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return a tensor filled with one value, which may be traced."""
    filled = broadcast_to(_tensor(fill_value), shape)
    return filled if dtype is None else filled.astype(dtype)


def array(object: Any, dtype: Any = None) -> Any:
    """Return a tensor from numbers, arrays, tensors or nested lists of them, with their derivatives."""
    if not holds_tensors(object):
        return boxed(np.array(object, dtype))
    result = copy(object) if type(object) in BOXES else stack(object)
    return result if dtype is None else result.astype(dtype)


def asarray(a: Any, dtype: Any = None) -> Any:
    """Return a tensor; a tensor of the right dtype as it is."""
    if type(a) in BOXES and (dtype is None or a.dtype == dtype):
        return a
    return array(a, dtype)


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Return a tensor with given values.

    Args:
        value: a number, array, tensor, or nested lists of them.
        dtype: by default NumPy's choice (a Python float gives float64).
        shape: the shape to give it; one number fills it.

    Returns:
        A Tensor of its own: the values are copied.

    Raises:
        ValueError: NumPy cannot make an array of `value`, or `shape` does not fit.

    Example:
        >>> constant([1.0, 2.0])
        Tensor([1., 2.])
        >>> constant(0.5, shape=(2,))
        Tensor([0.5, 0.5])
    """
    result = array(value, dtype)
    if shape is None:
        return result
    return broadcast_to(result, shape) if result.size == 1 else result.reshape(shape)


def convert_to_tensor(value: Any, dtype: Any = None) -> Any:
    """Return a value as a Tensor; a Tensor of the right dtype as it is.

    Args:
        value: a number, array, tensor, variable, or nested lists of them.
        dtype: by default that of the value.

    Returns:
        A Tensor; a variable gives the tensor that reading it gives.

    Raises:
        ValueError: NumPy cannot make an array of `value`.

    Example:
        >>> convert_to_tensor([1, 2], dtype="float32")
        Tensor([1., 2.], dtype=float32)
    """
    if type(value) is Tensor and (dtype is None or value.dtype == dtype):
        return value
    return array(value, dtype)


def _tensor(x: Any) -> Any:
    return x if type(x) in BOXES else boxed(np.asarray(x))


def _creating(function: Any) -> Callable[..., Any]:
    """Make a constructor of NumPy return a Tensor."""

    @functools.wraps(function)
    def create(*args: Any, **keywords: Any) -> Any:
        return boxed(function(*args, **keywords))

    return create


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "array": array,
    "asarray": asarray,
    "full": full,
    **{
        name: _creating(getattr(np, name))
        for name in ("zeros", "ones", "empty", "arange", "linspace", "logspace", "geomspace", "eye", "identity", "tri")
    },
}
"""The functions of `fgrad.numpy` that make tensors from plain values, by NumPy's names."""
