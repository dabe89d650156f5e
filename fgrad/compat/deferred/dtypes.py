"""TensorFlow dtypes: NumPy dtypes with TensorFlow's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np


class _DTypeType(type):
    """Makes NumPy dtypes, which eager tensors have, instances of `DType`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, np.dtype) or type(instance) is cls


class DType(metaclass=_DTypeType):
    """A dtype: equal to a NumPy dtype, with TensorFlow's attributes in addition.

    NumPy accepts it as a dtype. Graph tensors have it as their `dtype`, and eager ones NumPy's.

    Args:
        dtype: the NumPy dtype.

    Attributes:
        dtype: the NumPy dtype, by which NumPy accepts this object as a dtype.
        as_numpy_dtype: NumPy's scalar type.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.float32.as_numpy_dtype, tf.float32.is_floating, tf.float32 == "float32"
        (<class 'numpy.float32'>, True, True)
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.as_numpy_dtype: type[Any] = self.dtype.type

    is_floating = property(lambda self: self.dtype.kind == "f")
    is_complex = property(lambda self: self.dtype.kind == "c")
    is_integer = property(lambda self: self.dtype.kind in "iu")
    is_unsigned = property(lambda self: self.dtype.kind == "u")
    is_bool = property(lambda self: self.dtype.kind == "b")
    size = property(lambda self: self.dtype.itemsize)
    base_dtype = property(lambda self: self)
    real_dtype = property(lambda self: named(np.empty((), self.dtype).real.dtype))
    min = property(lambda self: self.dtype.type(_limits(self.dtype).min))
    max = property(lambda self: self.dtype.type(_limits(self.dtype).max))

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether another dtype is equal."""
        return bool(self == other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dtype, name)

    def __eq__(self, other: object) -> bool:
        return other is not None and bool(self.dtype == (other.dtype if type(other) is DType else other))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __reduce__(self) -> Any:
        return named, (self.dtype,)

    def __repr__(self) -> str:
        return f"tf.{self.dtype.name}"

    def __str__(self) -> str:
        return self.dtype.name

    def __format__(self, spec: str) -> str:
        return format(self.dtype.name, spec)


def _limits(dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "fiu":
        raise TypeError(f"{dtype} has no smallest and no largest number.")
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


_named: dict[Any, DType] = {}


def named(dtype: object) -> Any:
    """Return a NumPy dtype with TensorFlow's attributes; None stays None."""
    if dtype is None or type(dtype) is DType:
        return dtype
    if dtype not in _named:
        _named[dtype] = DType(dtype)
    return _named[dtype]
