"""`tf.dtypes`: TensorFlow's names for NumPy dtypes.

>>> float32, as_dtype("int32"), np.zeros(2, float32).dtype
(tf.float32, tf.int32, dtype('float32'))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compat.deferred import convert
from fgrad.compat.deferred.dtypes import DType as DType
from fgrad.compat.deferred.dtypes import named
from fgrad.compat.tensorflow.missing import missing

float16 = half = named(np.dtype(np.float16))
float32 = named(np.dtype(np.float32))
float64 = double = named(np.dtype(np.float64))
int8 = named(np.dtype(np.int8))
int16 = named(np.dtype(np.int16))
int32 = named(np.dtype(np.int32))
int64 = named(np.dtype(np.int64))
uint8 = named(np.dtype(np.uint8))
uint16 = named(np.dtype(np.uint16))
uint32 = named(np.dtype(np.uint32))
uint64 = named(np.dtype(np.uint64))
bool = named(np.dtype(np.bool_))
complex64 = named(np.dtype(np.complex64))
complex128 = named(np.dtype(np.complex128))


def as_dtype(type_value: object) -> Any:
    """Return the dtype for a dtype of this module, a NumPy type or a string such as `"float32"`."""
    return named(convert.as_dtype(type_value))


__getattr__ = missing(__name__)
