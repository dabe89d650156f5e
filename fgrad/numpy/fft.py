"""`numpy.fft`, to be imported as `fgrad.numpy.fft`: NumPy's own functions, and frequencies of a given dtype."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.fft import *  # noqa: F403
from numpy.fft import __all__ as __all__

from fgrad import errors
from fgrad.typing import DTypeLike


def fftfreq(n: int, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:  # type: ignore[no-redef]
    """Return the frequencies of a discrete Fourier transform; see `numpy.fft.fftfreq`.

    Args:
        n: the number of samples.
        d: their spacing, which may be traced.
        dtype: a floating-point dtype, as in the array API; by default that of `numpy.fft.fftfreq`.
        device: None or "cpu".

    Raises:
        DtypeError: a TypeError; `dtype` is not a floating-point dtype.

    Example:
        >>> import fgrad.numpy as np
        >>> np.fft.fftfreq(4, dtype=np.float32)
        array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _in_dtype(numpy.fft.fftfreq(n, d, device=device), dtype)


def rfftfreq(n: int, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:  # type: ignore[no-redef]
    """Return the frequencies of the transform of real samples; see `fftfreq`, and `numpy.fft.rfftfreq`."""
    return _in_dtype(numpy.fft.rfftfreq(n, d, device=device), dtype)


def _in_dtype(frequencies: Any, dtype: DTypeLike) -> Any:
    if dtype is None:
        return frequencies
    if numpy.dtype(dtype).kind != "f":
        raise errors.DtypeError(f"dtype is {dtype!r}; frequencies have a floating-point dtype, such as np.float32.")
    return frequencies.astype(dtype)


def __getattr__(name: str) -> Any:
    return getattr(numpy.fft, name)


def __dir__() -> list[str]:
    return dir(numpy.fft)
