"""Interchange with other libraries: DLPack for memory, and the array API standard for functions.

    np.from_dlpack(t), torch.from_dlpack(t)     the value, read-only without a copy where supported
    jax.numpy.asarray(t), jax.numpy.ones(2) * t    a JAX array, from the value
    t.__array_namespace__()                     `fgrad.numpy`, whose functions are differentiable

DLPack exports memory, so it is refused for traced tensors. A function written for
the array API (https://data-apis.org/array-api/) takes the namespace from its argument and works with traced
tensors as with arrays.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

import fgrad.numpy
from fgrad import errors
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.ops.creation import EXTENSIONS
from fgrad.ops.families import answers_member

_EXAMPLE = np.empty(0)
"""An array for checks of NumPy's behaviour."""


@answers_member("__array_namespace__")
def array_namespace(x: Any, /, *, api_version: str | None = None) -> Any:
    """Return the module of functions for tensors."""
    _EXAMPLE.__array_namespace__(api_version=api_version)  # type: ignore[arg-type]  # of any version
    return fgrad.numpy


def special() -> Any:
    """Return the namespace of special functions, which SciPy expects in the namespace of an array."""
    if importlib.util.find_spec("scipy") is None:
        raise AttributeError("fgrad.numpy.special needs the library SciPy, which is not installed: pip install scipy")
    return importlib.import_module("fgrad.scipy.special")


EXTENSIONS["special"] = special


@answers_member("__dlpack__")
def dlpack(x: Any, /, *, max_version: tuple[int, int] | None, copy: bool | None, **keywords: Any) -> Any:
    """Return a capsule of the value, for `from_dlpack` of another library.

    Raises:
        ExportError: a BufferError; the tensor is traced.
        BufferError: DLPack has no such dtype, or a copy is needed and `copy` is False.
    """
    value = strip_ended(x)
    if type(value) is Tensor:
        raise errors.ExportError("DLPack", errors.users_line())
    array = np.asarray(value)
    # Tensors are immutable, so their memory must be read-only; before version 1.0 DLPack could not express this.
    if copy or (copy is None and (max_version is None or max_version[0] < 1)):
        array = array.copy()
    else:
        array = array.view()
        array.flags.writeable = False
    if max_version is not None:
        keywords["max_version"] = max_version
    return array.__dlpack__(**keywords)


@answers_member("__jax_array__")
def jax_array(x: Any, /) -> Any:
    """Return the value as a JAX array, for JAX's conversion protocol; with 64 bits if JAX is configured for them.

    Raises:
        ExportError: a TypeError; the value is traced.
    """
    value = strip_ended(x)
    if type(value) is Tensor:
        raise errors.ExportError("JAX", errors.users_line())
    return importlib.import_module("jax").numpy.asarray(np.asarray(value))


@answers_member("__dlpack_device__")
def dlpack_device(x: Any, /) -> tuple[int, int]:
    """Return the device of the value in DLPack's numbering."""
    return _EXAMPLE.__dlpack_device__()
