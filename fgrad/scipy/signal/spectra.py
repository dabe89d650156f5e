"""Spectra of signals, by Fourier transforms of overlapping segments, and the inverse transform.

The frequencies and times of the results are SciPy's plain arrays, and so are the errors for invalid
options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.signal

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import scatter_add
from fgrad.scipy._plain import differentiates
from fgrad.scipy.signal.filters import widened
from fgrad.scipy.signal.transforms import detrend as detrended
from fgrad.typing import Array, ArrayLike

_scipys: Any = scipy.signal

HANN: Any = inspect.signature(scipy.signal.welch).parameters["window"].default
TUKEY: Any = inspect.signature(scipy.signal.spectrogram).parameters["window"].default
"""SciPy's default windows, whose names depend on its version."""


class Segments(NamedTuple):
    """The segmentation of a signal, and the transform of segments.

    Attributes:
        window: the factors of the elements of a segment.
        step: the distance between segments.
        points: the length of the transform of a segment.
        is_half: whether negative frequencies are omitted, for real signals.
        detrend: as in SciPy.
    """

    window: Any
    step: int
    points: int
    is_half: bool
    detrend: Any


def _zeros(x: Array) -> Array:
    return np.zeros(x.shape, x.dtype)


def _segments(
    size: int,
    window: Any,
    nperseg: int,
    noverlap: int | None,
    nfft: int | None,
    detrend: object,
    onesided: bool,
    is_real: bool,
) -> Segments:
    """Return the segmentation of signals of a given length, from options checked by SciPy."""
    if isinstance(window, (str, tuple)):
        length = min(256 if nperseg is None else int(nperseg), size)
        values = _scipys.get_window(window, length)
    else:
        values = as_array(window)
        length = values.shape[0]
    overlap = length // 2 if noverlap is None else int(noverlap)
    return Segments(values, length - overlap, nfft or length, onesided and is_real, detrend)


def _cut(x: Array, cut: Segments) -> Any:
    """Return the segments of signals along the last axis, stacked along an axis before it."""
    length = cut.window.shape[0]
    places = np.arange(0, x.shape[-1] - length + 1, cut.step)[:, None] + np.arange(length)
    return x[..., places]


def _transformed(x: Array, cut: Segments) -> Any:
    """Return the transforms of the segments of signals along the last axis."""
    pieces = _cut(x, cut)
    if callable(cut.detrend):
        pieces = cut.detrend(pieces)
    elif cut.detrend:
        pieces = detrended(pieces, type=cut.detrend)
    pieces = pieces * astype(as_array(cut.window), pieces.dtype)
    return (np.fft.rfft if cut.is_half else np.fft.fft)(pieces, cut.points)


def _scale(cut: Segments, fs: float, scaling: str) -> Any:
    if scaling == "density":
        return 1 / (fs * np.sum(cut.window * cut.window))
    return 1 / np.sum(cut.window) ** 2


def _powers(x: Any, y: Any, cut: Segments, fs: float, scaling: str) -> Any:
    """Return the spectral densities of the segments: frequencies along the last axis, times along the one before."""
    size = max(x.shape[-1], y.shape[-1])
    first = _transformed(widened(x, size), cut)
    second = first if y is x else _transformed(widened(y, size), cut)
    found = np.conj(first) * second * astype(as_array(_scale(cut, fs, scaling)), first.real.dtype)
    if cut.is_half:
        folded = np.full(found.shape[-1], 2, first.real.dtype)
        folded[0] = 1
        if cut.points % 2 == 0:
            folded[-1] = 1
        found = found * folded
    return found.real if y is x else found


def _averaged(powers: Array, average: str) -> Any:
    """Return the means of densities over times, or their medians divided by the median bias."""
    if average == "mean" or powers.shape[-2] == 1:
        return np.mean(powers, -2)
    count = powers.shape[-2]
    bias = 1 + sum([1 / (k + 1) - 1 / k for k in range(2, 2 * ((count - 1) // 2) + 1, 2)])
    if powers.dtype.kind == "c":
        return (np.median(powers.real, -2) + 1j * np.median(powers.imag, -2)) / bias
    return np.median(powers, -2) / bias


def _with_axis(function: Callable[..., Any] | Any, axis: int) -> Any:
    """Return a user's detrending function, for segments along the last axis."""
    if not callable(function) or axis == -1:
        return function
    return lambda x: np.moveaxis(function(np.moveaxis(x, -1, axis)), axis, -1)


_OF_SEGMENTS = """
Args:
    x, y: the signals, or several; traced ones are differentiated.
    fs: the sampling rate.
    window: the factors of the elements of a segment, or their name.
    nperseg: the length of a segment, by default 256 or less for a shorter signal, or the length of the window.
    noverlap: the overlap of two segments, by default half of the length.
    nfft: the length of the transform of a segment.
    detrend: the trend to subtract from each segment: "constant", "linear", a function, or False.
    return_onesided: whether negative frequencies are omitted, if the signals are real.
    scaling: "density", or "spectrum".
    axis: the axis of time.
    average: "mean" or "median", over the segments.

Returns:
    The frequencies, and the spectra.

Raises:
    ValueError: SciPy's; an option is invalid.
"""


@differentiates(scipy.signal.csd, _OF_SEGMENTS)
def csd(
    x: Any,
    y: Any,
    fs: float = 1.0,
    window: object = HANN,
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    """Return the cross spectral density of two signals, by Welch's method.

    Returns:
        The frequencies, and the densities.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: csd(x, np.array([1.0, -1.0]), window="boxcar", nperseg=2)[1].real[1])(np.zeros(2))
        Tensor([ 1., -1.])
    """
    x, same = as_array(x), y is x
    y = x if same else as_array(y)
    options: Any = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    empty = _zeros(x)
    frequencies, found = _scipys.csd(empty, empty if same else _zeros(y), *options)  # raises SciPy's errors
    if not found.size:
        return frequencies, astype(np.reshape(np.ravel(x)[:0], found.shape), found.dtype)
    is_real = x.dtype.kind != "c" and y.dtype.kind != "c"
    size = max(x.shape[axis], y.shape[axis])
    cut = _segments(size, window, nperseg, noverlap, nfft, _with_axis(detrend, axis), return_onesided, is_real)
    first = np.moveaxis(x, axis, -1)
    second = first if same else np.moveaxis(y, axis, -1)
    found = _averaged(_powers(first, second, cut, fs, scaling), average)
    return frequencies, np.moveaxis(found, -1, axis)


@differentiates(scipy.signal.welch, _OF_SEGMENTS)
def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: object = HANN,
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: object = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    """Return the spectral density of a signal, by Welch's method.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: welch(x, window="boxcar", nperseg=2)[1][1])(np.array([3.0, 1.0]))
        Tensor([ 2., -2.])
    """
    x = as_array(x)
    frequencies, found = csd(
        x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )
    return frequencies, found.real


@differentiates(scipy.signal.periodogram, _OF_SEGMENTS)
def periodogram(
    x: Any,
    fs: float = 1.0,
    window: object = "boxcar",
    nfft: Any = None,
    detrend: object = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> Any:
    """Return the spectral density of a signal, by the transform of the whole signal.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: periodogram(x)[1][1])(np.array([3.0, 1.0]))
        Tensor([ 2., -2.])
    """
    x = as_array(x)
    _scipys.periodogram(_zeros(x), fs, window, nfft, detrend, return_onesided, scaling, axis)
    size = x.shape[axis]
    if nfft is not None and nfft < size:  # the transform of the beginning of the signal
        x, size = np.moveaxis(np.moveaxis(x, axis, -1)[..., :nfft], -1, axis), nfft
    window = "boxcar" if window is None else window
    return welch(x, fs, window, size, 0, nfft, detrend, return_onesided, scaling, axis)


@differentiates(scipy.signal.coherence, _OF_SEGMENTS)
def coherence(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: object = HANN,
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: object = "constant",
    axis: int = -1,
) -> Any:
    """Return the coherence of two signals, from 0 to 1.

    Example:
        >>> import fgrad as fg
        >>> y = np.array([1.0, 2.0, 0.5, -1.0])
        >>> shared = lambda x: coherence(x, y, window="boxcar", nperseg=2, noverlap=0, detrend=False)[1][1]
        >>> fg.grad(shared)(np.array([1.0, 0.0, 1.0, 1.0])).round(3)
        Tensor([ 0.   ,  0.   , -0.923,  0.923])
    """
    x, y = as_array(x), as_array(y)
    options: Any = {"nfft": nfft, "detrend": detrend, "axis": axis}
    frequencies, own = welch(x, fs, window, nperseg, noverlap, **options)
    other = welch(y, fs, window, nperseg, noverlap, **options)[1]
    common = csd(x, y, fs, window, nperseg, noverlap, **options)[1]
    return frequencies, (common.real**2 + common.imag**2) / own / other


@differentiates(scipy.signal.spectrogram, _OF_SEGMENTS)
def spectrogram(
    x: Any,
    fs: float = 1.0,
    window: Any = TUKEY,
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: object = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> Any:
    """Return the spectra of the segments of a signal.

    Args:
        noverlap: the overlap of two segments, by default an eighth of the length.
        mode: "psd" for densities, "complex" for transforms, "magnitude" for their absolute values, "angle" for their
            phases; "phase", the unwrapped phase, is not differentiable.

    Returns:
        The frequencies, the times of the centers of the segments, and the spectra, with times along the last axis.

    Raises:
        ValueError: SciPy's; an option is invalid.
        UnsupportedError: a NotImplementedError; the mode is "phase".

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: spectrogram(x, window="boxcar", nperseg=2)[2][1, 0])(np.array([3.0, 1.0]))
        Tensor([ 2., -2.])
    """
    x = as_array(x)
    options: Any = (nfft, detrend, return_onesided, scaling, axis, mode)
    frequencies, times, _ = _scipys.spectrogram(_zeros(x), fs, window, nperseg, noverlap, *options)
    if mode == "phase":
        raise errors.UnsupportedError(
            f"scipy.signal.spectrogram is not differentiated with mode='phase'.\n  at {errors.users_line()}\n"
            'Write np.unwrap of the result with mode="angle".'
        )
    size = x.shape[axis]
    is_real = x.dtype.kind != "c"
    if noverlap is None:
        noverlap = (min(nperseg or 256, size) if isinstance(window, (str, tuple)) else len(window)) // 8
    cut = _segments(size, window, nperseg, noverlap, nfft, _with_axis(detrend, axis), return_onesided, is_real)
    moved = np.moveaxis(x, axis, -1)
    if mode == "psd":
        found = _powers(moved, moved, cut, fs, scaling)
    else:
        found = _transformed(moved, cut)
        found = found * astype(as_array(np.sqrt(_scale(cut, fs, scaling))), found.real.dtype)
        part: Any = {"complex": np.positive, "magnitude": np.abs, "angle": np.angle}[mode]
        found = part(found)
    found = np.swapaxes(found, -1, -2)
    return frequencies, times, np.moveaxis(found, -2, axis - 1 if axis < 0 else axis)


_EXTENSIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "zeros": ("constant", {}),
    "even": ("reflect", {}),
    "constant": ("edge", {}),
}
_EXTENSIONS["odd"] = ("reflect", {"reflect_type": "odd"})


@differentiates(scipy.signal.stft, _OF_SEGMENTS)
def stft(
    x: Any,
    fs: float = 1.0,
    window: object = HANN,
    nperseg: Any = 256,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: Any = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> Any:
    """Return the Fourier transforms of the segments of a signal.

    Args:
        boundary: the extension of the signal: "zeros", "even", "odd", "constant", or None.
        padded: whether the signal is zero-padded to fill the last segment.
        scaling: "spectrum", or "psd".

    Returns:
        The frequencies, the times of the centers of the segments, and the transforms, with times along the last axis.

    Example:
        >>> import fgrad as fg
        >>> magnitude = lambda x: np.sum(np.abs(stft(x, nperseg=4)[2]) ** 2)
        >>> fg.grad(magnitude)(np.array([1.0, 0.0, 0.0, 0.0])).round(3)
        Tensor([1.5, 0. , 0. , 0. ])
    """
    x = as_array(x)
    options: Any = (nfft, detrend, return_onesided, boundary, padded, axis, scaling)
    frequencies, times, _ = _scipys.stft(_zeros(x), fs, window, nperseg, noverlap, *options)
    is_real, moved = x.dtype.kind != "c", np.moveaxis(x, axis, -1)
    kind = "density" if scaling == "psd" else "spectrum"
    detrend = _with_axis(detrend, axis)
    cut = _segments(moved.shape[-1], window, nperseg, noverlap, nfft, detrend, return_onesided, is_real)
    length = cut.window.shape[0]
    if boundary is not None:
        mode, keywords = _EXTENSIONS[boundary]
        moved = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(length // 2, length // 2)], mode, **keywords)
    if padded:
        moved = widened(moved, moved.shape[-1] + -(moved.shape[-1] - length) % cut.step % length)
    found = _transformed(moved, cut)
    found = np.swapaxes(found * astype(as_array(np.sqrt(_scale(cut, fs, kind))), found.real.dtype), -1, -2)
    return frequencies, times, np.moveaxis(found, -2, axis - 1 if axis < 0 else axis)


def _overlapped(pieces: Array, step: int) -> Any:
    """Return the overlap-add of segments along the axis before the last, each shifted by a step."""
    count, length = pieces.shape[-2:]
    places = np.arange(count)[:, None] * step + np.arange(length)
    return scatter_add(pieces, (..., places), (*pieces.shape[:-2], (count - 1) * step + length))


@differentiates(scipy.signal.istft, _OF_SEGMENTS)
def istft(
    Zxx: ArrayLike,  # noqa: N803  # SciPy's name
    fs: float = 1.0,
    window: object = HANN,
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: bool = True,
    boundary: Any = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> Any:
    """Return the signal whose segments have these Fourier transforms, in the least-squares sense.

    Args:
        Zxx: the transforms, as of `stft`; traced ones are differentiated.
        nperseg: the length of a segment, by default that for this number of frequencies.
        input_onesided: whether negative frequencies are omitted.
        boundary: whether the signal was extended, so that its ends are removed.
        time_axis, freq_axis: the axes of times and frequencies.
        scaling: "spectrum", or "psd".

    Returns:
        The times, and the signal, whose axis of times is where that of the transforms is.

    Example:
        >>> import fgrad as fg
        >>> there_and_back = lambda x: istft(stft(x, nperseg=4)[2], nperseg=4)[1]
        >>> fg.jacobian(there_and_back)(np.array([1.0, 2.0, 0.0, 0.0])).round(3)[1] + 0.0
        Tensor([0., 1., 0., 0.])
    """
    transforms: Any = as_array(Zxx)
    options: Any = (window, nperseg, noverlap, nfft, input_onesided, boundary, time_axis, freq_axis, scaling)
    times, _ = _scipys.istft(_zeros(transforms), fs, *options)
    moved = np.moveaxis(transforms, (time_axis, freq_axis), (-2, -1))
    count = 2 * (moved.shape[-1] - 1) if input_onesided else moved.shape[-1]
    length = count if nperseg is None else int(nperseg)
    if nfft is not None:
        count = nfft
    elif input_onesided and length == count + 1:
        count = length
    factors = _scipys.get_window(window, length) if isinstance(window, (str, tuple)) else np.asarray(window)
    step = length - (length // 2 if noverlap is None else int(noverlap))
    pieces = (np.fft.irfft if input_onesided else np.fft.ifft)(moved, count)[..., :length]
    size = np.sqrt(fs * np.sum(factors**2)) if scaling == "psd" else np.sum(factors)
    real = pieces.real.dtype
    whole = _overlapped(pieces * (factors * size).astype(real), step)
    weight = np.zeros(whole.shape[-1])
    for start in range(0, whole.shape[-1] - length + 1, step):
        weight[start : start + length] += factors**2
    if boundary:
        ends = slice(length // 2, -(length // 2) or None)
        whole, weight = whole[..., ends], weight[ends]
    found = whole / np.where(weight > 1e-10, weight, 1.0).astype(real)
    time, frequency = time_axis % transforms.ndim, freq_axis % transforms.ndim
    return times, np.moveaxis(found, -1, time - (frequency < time))
