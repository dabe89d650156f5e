"""JAX, which is imported on first use.

jnp, lax, linalg, ...    its modules
in_64_bits()             a context in which 64-bit numbers keep their precision
exactly()                a context in which matrix products have full precision
"""

from __future__ import annotations

import functools
import importlib
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.typing import DTypeLike


class Library:
    """A module that is imported on first use.

    Args:
        name: the name of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(_module(self._name), name)


@functools.cache
def _module(name: str) -> Any:
    """Import a module of JAX.

    Raises:
        MissingExtraError: JAX is not installed.
    """
    try:
        importlib.import_module("jax")
    except ImportError:
        raise errors.MissingExtraError(
            "programs that JAX runs need the library jax, which is not installed: pip install 'fgrad[jax]'"
        ) from None
    return importlib.import_module(name)


jax: Any = Library("jax")
jnp: Any = Library("jax.numpy")
lax: Any = Library("jax.lax")
scipys: Any = Library("jax.scipy.special")
scipy_linalg: Any = Library("jax.scipy.linalg")
scipy_signal: Any = Library("jax.scipy.signal")


def named(path: str) -> Any:
    """Return the object at a path below `jax`, such as `numpy.sin`; None if this version of JAX lacks it."""
    module, _, name = f"jax.{path}".rpartition(".")
    return getattr(_module(module), name, None)


def in_64_bits() -> AbstractContextManager[Any]:
    """Return a context with 64 bits enabled in JAX, whatever its configuration."""
    return jax.enable_x64(True)  # type: ignore[no-any-return]


def has_64_bits() -> bool:
    """Return whether 64 bits are enabled in JAX."""
    return bool(jax.config.jax_enable_x64)


def exactly() -> AbstractContextManager[Any]:
    """Return a context with matrix products in the precision of their factors, on GPUs too."""
    return jax.default_matmul_precision("highest")  # type: ignore[no-any-return]


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of a NumPy or JAX array, or of a number."""
    return np.dtype(x.dtype) if hasattr(x, "dtype") else np.result_type(x)


def cast(x: Any, dtype: DTypeLike) -> Any:
    """Return an array or a number in a dtype; NumPy arrays, whose values are known, stay NumPy arrays."""
    dtype = np.dtype(dtype).newbyteorder("=")
    if isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
        return np.asarray(x).astype(dtype, copy=False)
    if x.dtype == bool and dtype.kind in "fc":  # XLA would make 0 of False times infinity or NaN
        x = jnp.where(x, np.int8(1), np.int8(0))
    return x if x.dtype == dtype else lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(dtype))


def in_native_order(x: Any) -> Any:
    """Return an array in native byte order, the only one in JAX; other values are returned unchanged."""
    return x if not is_known(x) or x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def is_known(x: Any) -> bool:
    """Return whether an array is a NumPy array, so that its values are part of the program."""
    return isinstance(x, (np.ndarray, np.generic))


def alike(x: Any, dtype: DTypeLike) -> Any:
    """Return an argument in the precision of a result; real stays real, and complex stays complex."""
    dtype, own = np.dtype(dtype), dtype_of(x)
    if dtype.kind in "fc" and own.kind in "fc":
        precision = np.finfo(dtype).dtype
        return cast(x, np.result_type(precision, np.complex64) if own.kind == "c" else precision)
    if dtype.kind in "fc":
        return cast(x, np.finfo(dtype).dtype)
    return cast(x, dtype) if own.kind in "biu" and dtype.kind in "iu" else x
