"""`tf.dtypes`: TensorFlow's names for dtypes, which are NumPy's here.

>>> float32, as_dtype("int32")
(dtype('float32'), dtype('int32'))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compat.deferred import convert
from fgrad.compat.tensorflow.missing import missing

DType = np.dtype

float16 = half = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = double = np.dtype(np.float64)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
bool = np.dtype(np.bool_)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)


def as_dtype(type_value: Any) -> Any:
    """Return the dtype for a dtype of this module, a NumPy type or a string such as `"float32"`."""
    return convert.as_dtype(type_value)


__getattr__ = missing(__name__)
