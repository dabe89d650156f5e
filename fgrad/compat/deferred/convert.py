"""Conversion of Python values to tensors, by TensorFlow's defaults: floats become float32, integers int32.

convert(3.0)                  a float32 Tensor
another(x)                    the same values, as another tensor
operands(x, 2.0)              both as tensors; values without a dtype get that of `x`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import collected
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed
from fgrad.core.variable import Variable
from fgrad.ops.shaping import stack
from fgrad.typing import Array

CONVERSIONS: dict[type, Callable[[Any], Any]] = {}
"""Functions that return objects of other types as tensors."""

_DEFAULTS = {"f": np.dtype(np.float32), "i": np.dtype(np.int32), "u": np.dtype(np.int32)}


def as_dtype(dtype: Any) -> Any:
    """Return the NumPy dtype for a TensorFlow dtype, a NumPy type or a string; None stays None."""
    if dtype is None:
        return None
    if dtype is float or (isinstance(dtype, str) and dtype == "float"):
        return np.dtype(np.float32)  # NumPy would interpret it as Python's float
    try:
        return np.dtype(dtype)
    except TypeError:
        raise errors.DtypeError(f"{dtype!r} is not a dtype; use tf.float32, 'float32' or np.float32.") from None


def convert(value: Any, dtype: Any = None, hint: np.dtype[Any] | None = None) -> Any:
    """Return a value as a tensor.

    Args:
        value: a number, array, tensor, variable, or nested lists of them.
        dtype: the required dtype; a tensor or variable must already have it.
        hint: the dtype for numbers, lists and arrays that can be represented in it.
    """
    dtype = as_dtype(dtype)
    if type(value) in CONVERSIONS:
        value = CONVERSIONS[type(value)](value)
    value = value.value() if isinstance(value, Variable) else collected(value)
    if type(value) is Tensor:
        if dtype is not None and value.dtype != dtype:
            raise errors.ParameterError(
                f"Tensor conversion requested dtype {dtype} for a tensor of dtype {value.dtype}; use tf.cast."
            )
        return value
    if isinstance(value, (list, tuple)) and _holds_tensors(value):
        parts = operands(*value) if dtype is None else [convert(part, dtype) for part in value]
        return stack(parts)
    array = np.array(value)
    if array.dtype.kind not in "biufc":
        raise errors.DtypeError(f"{value!r} is not a number or an array of numbers, and cannot be made a tensor.")
    return boxed(array.astype(_dtype_of(value, array, dtype, hint), copy=False)[()])


def another(tensor: Array) -> Any:
    """Return a new tensor with the same values, which a tape distinguishes from the first."""
    return np.positive(tensor) if tensor.dtype.kind in "fc" else np.copy(tensor)


def _dtype_of(value: Any, array: Array, dtype: np.dtype[Any] | None, hint: np.dtype[Any] | None) -> Any:
    if dtype is not None:
        if (array.dtype.kind in "fc" and dtype.kind in "biu") or (array.dtype.kind == "c" and dtype.kind == "f"):
            raise errors.DtypeError(f"{value!r} cannot be a tensor of dtype {dtype} without loss; use tf.cast.")
        return dtype
    if hint is not None and np.can_cast(array.dtype, hint, "same_kind"):
        return hint
    default = _DEFAULTS.get(array.dtype.kind, array.dtype)
    if isinstance(value, (np.ndarray, np.generic)) or (default.kind == "i" and np.any(array.astype(default) != array)):
        return array.dtype
    return default


def _holds_tensors(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensors, value))
    return type(value) in BOXES


def operands(*values: Any) -> Any:
    """Return values as tensors; numbers, lists and arrays get the dtype of the first tensor, or by default float."""
    hint = next((value.dtype for value in values if type(value) in BOXES), None)
    tensors = [convert(value, hint=hint) for value in values]
    if hint is not None:
        return tensors
    hint = next((tensor.dtype for tensor in tensors if tensor.dtype.kind == "f"), None)
    return [convert(value, hint=hint) for value in values]
