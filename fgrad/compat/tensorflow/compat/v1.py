"""`tf.compat.v1`: the same names as the main namespace, which contains those of TensorFlow 1 and 2.

import fgrad.compat.tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
"""

from __future__ import annotations

import sys
from typing import Any

_ROOT = __name__.removesuffix(".compat.v1")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(sys.modules[_ROOT], name)


def __dir__() -> list[str]:
    return dir(sys.modules[_ROOT])
