"""Transforms of whole signals: detrending, analytic signals, resampling by Fourier transforms."""

from __future__ import annotations

from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.typing import Array, ArrayLike


def _without_line(x: Array) -> Any:
    """Return the residuals of values along the last axis with respect to the line that fits them best."""
    size = x.shape[-1]
    line = np.stack([np.arange(1, size + 1) / size, np.ones(size)], axis=1)
    basis = np.linalg.qr(line)[0].astype(x.dtype)
    return x - (x @ basis) @ basis.T


@differentiates(scipy.signal.detrend)
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Any:
    """Return signals without their mean or linear trend.

    Args:
        data: the signal, or several; traced ones are differentiated.
        axis: the axis of time.
        type: "linear" to subtract the best line, "constant" for the mean.
        bp: integers, the break points between the lines.
        overwrite_data: ignored for a traced signal, which is never overwritten.

    Returns:
        The residuals, as from `scipy.signal.detrend`.

    Raises:
        ValueError: SciPy's; an option is invalid, or there are infinities or NaN and the trend is linear.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: detrend(x, type="constant"))(np.zeros(2))
        Tensor([[ 0.5, -0.5],
                [-0.5,  0.5]])
    """
    data = as_array(data)
    wanted: Any = type
    if type in ("constant", "c"):
        return data - np.mean(data, axis, keepdims=True)
    size = data.shape[axis]
    breaks = np.unique(np.concatenate([[0, size], np.atleast_1d(bp)]))
    if type not in ("linear", "l") or breaks[-1] > size:
        return scipy.signal.detrend(np.zeros(data.shape), axis, wanted, bp)  # raises SciPy's error
    data = data if data.dtype.char in "dfDF" else astype(data, np.float64)
    np.asarray_chkfinite(raw_array(data))
    signal = np.moveaxis(data, axis, -1)
    pieces = [_without_line(signal[..., begin:end]) for begin, end in pairwise(breaks)]
    return np.moveaxis(np.concatenate(pieces, axis=-1), -1, axis)


def _positive(size: int, dtype: np.dtype[Any]) -> Any:
    """Return the factors of the frequencies along one of two axes; those of both signs are omitted."""
    factors = np.zeros(size, dtype)
    factors[0] = 1
    factors[1 : (size + 1) // 2] = 2
    return factors


def _one_sided(size: int, dtype: np.dtype[Any]) -> Any:
    """Return the factors of the frequencies that make a real signal analytic."""
    factors = _positive(size, dtype)
    if size % 2 == 0:
        factors[size // 2] = 1
    return factors


@differentiates(scipy.signal.hilbert)
def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Any:  # noqa: N803  # SciPy's name
    """Return the analytic signal, whose imaginary part is the Hilbert transform of a real one.

    Args:
        x: the real signal, or several; traced ones are differentiated.
        N: the length to which the signal is truncated or padded, by default its own.
        axis: the axis of time.

    Returns:
        Complex numbers, as from `scipy.signal.hilbert`.

    Raises:
        ValueError: SciPy's; the signal is complex, or a size is not positive.

    Example:
        >>> import fgrad as fg
        >>> envelope = lambda size: np.abs(hilbert(size * np.cos(np.arange(8) * np.pi / 2)))
        >>> fg.jacobian(envelope)(3.0).round(3)
        Tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    x = as_array(x)
    size = x.shape[axis] if N is None else N
    if x.dtype.kind == "c" or size <= 0:
        return scipy.signal.hilbert(np.zeros(x.shape, x.dtype), N, axis)  # raises SciPy's error
    spectrum = np.fft.fft(np.moveaxis(x, axis, -1), size)
    return np.moveaxis(np.fft.ifft(spectrum * _one_sided(size, spectrum.real.dtype)), -1, axis)


@differentiates(scipy.signal.hilbert2)
def hilbert2(x: ArrayLike, N: Any = None, axes: Any = (-2, -1)) -> Any:  # noqa: N803  # SciPy's name
    """Return the analytic signal of real images.

    Args:
        x: the image, or several; traced ones are differentiated.
        N: the sizes to which an image is truncated or padded along each axis: one number or two.
        axes: the two axes of an image.

    Returns:
        Complex numbers, as from `scipy.signal.hilbert2`.

    Raises:
        ValueError: SciPy's; an image is complex, the number of axes is wrong, or a size is not positive.

    Example:
        >>> import fgrad as fg
        >>> fg.jvp(hilbert2, (np.zeros((1, 3)),), (np.array([[1.0, 1.0, 1.0]]),))[1].round(3)
        Tensor([[1.+0.j, 1.+0.j, 1.+0.j]])
    """
    x = np.atleast_2d(as_array(x))
    fits = x.dtype.kind != "c" and len(axes) == 2 and axes[0] != axes[1]
    sizes = tuple(x.shape[axis] for axis in axes) if N is None else (N, N) if isinstance(N, int) else tuple(N)
    if not fits or len(sizes) != 2 or min(sizes) <= 0:
        return scipy.signal.hilbert2(np.zeros(x.shape, x.dtype), N, axes)  # raises SciPy's error
    images = np.moveaxis(x, axes, (-2, -1))
    spectrum = np.fft.fft2(images, sizes, axes=(-2, -1))
    rows, columns = (_positive(size, spectrum.real.dtype) for size in sizes)
    return np.moveaxis(np.fft.ifft2(spectrum * rows[:, None] * columns, axes=(-2, -1)), (-2, -1), axes)


# Resampling


def _window_of(window: Any, size: int) -> Any:
    """Return the factor of each frequency, or None for no window."""
    if window is None:
        return None
    if callable(window):
        return window(scipy.fft.fftfreq(size))
    if hasattr(window, "shape"):
        return window
    return np.fft.fftshift(scipy.signal.get_window(window, size))  # as in SciPy, also for odd sizes


def _real_resampled(x: Array, num: int, weights: Array | None) -> Any:
    size, kept = x.shape[-1], min(num, x.shape[-1])
    spectrum = np.fft.rfft(x)
    if weights is not None:  # those of a frequency and its negative count half each
        count = spectrum.shape[-1]
        folded = (weights[1:count] + np.flip(weights[size - count + 1 :])) / 2
        spectrum = spectrum * astype(np.concatenate([weights[:1], folded]), spectrum.real.dtype)
    spectrum = spectrum[..., : kept // 2 + 1]
    factors = np.ones(spectrum.shape[-1], spectrum.real.dtype)
    if kept % 2 == 0 and num != size:  # the last frequency represents two on one side, and one on the other
        factors[-1] = 2 if num < size else 0.5
    return np.fft.irfft(spectrum * factors, num) * (num / size)


def _complex_resampled(spectrum: Array, num: int) -> Any:
    size, kept = spectrum.shape[-1], min(num, spectrum.shape[-1])
    half = kept // 2
    positive, negative = spectrum[..., : half + 1], spectrum[..., size - (kept - half - 1) :]
    if kept % 2 == 0 and num != size:
        last = positive[..., half:]
        last = last + spectrum[..., size - half : size - half + 1] if num < size else last / 2
        positive = np.concatenate([positive[..., :half], last], axis=-1)
        negative = negative if num < size else np.concatenate([last, negative], axis=-1)
    between = np.zeros_like(spectrum, shape=(*spectrum.shape[:-1], num - positive.shape[-1] - negative.shape[-1]))
    return np.fft.ifft(np.concatenate([positive, between, negative], axis=-1)) * (num / size)


@differentiates(scipy.signal.resample)
def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """Return signals with another number of points, by Fourier transforms.

    Args:
        x: the signal, or several, or their spectra; traced ones are differentiated.
        num: the number of points of the result.
        t: the times of the signal; the times of the result are then returned, too.
        axis: the axis of time or frequency.
        window: factors of the frequencies, or their name, or a function of the frequencies.
        domain: "time", or "freq" if `x` holds spectra.

    Returns:
        The signal, or the signal and its times, as from `scipy.signal.resample`.

    Raises:
        ValueError: SciPy's; an option is invalid.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: resample(x, 3))(np.zeros(2)).round(3)
        Tensor([[1.  , 0.  ],
                [0.25, 0.75],
                [0.25, 0.75]])
    """
    x, num = as_array(x), index(num)
    size = x.shape[axis] if x.ndim > 1 else x.shape[-1]
    if domain not in ("time", "freq") or (hasattr(window, "shape") and window.shape != (size,)):
        wrong: Any = domain
        scipy.signal.resample(np.zeros(x.shape, x.dtype), num, None, axis, window, wrong)  # raises SciPy's error
    moved = np.moveaxis(x, axis, -1) if x.ndim > 1 else x
    weights = _window_of(window, size)
    if domain == "time" and x.dtype.kind != "c":
        found = _real_resampled(moved, num, weights)
    else:
        spectrum = np.fft.fft(moved) if domain == "time" else moved
        found = _complex_resampled(spectrum if weights is None else spectrum * weights, num)
    found = np.moveaxis(found, -1, axis) if x.ndim > 1 else found
    if t is None:
        return found
    return found, t[0] + (t[1] - t[0]) * (size / num) * np.arange(num)
