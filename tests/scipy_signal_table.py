"""What fgrad does with the functions of `scipy.signal`: rows for the coverage page, and for the tests."""

from functools import partial
from typing import Any

import numpy as np
from coverage_table import Row, complex_too, only_real, real, refused

from fgrad import errors
from fgrad.scipy import signal

_RNG = np.random.default_rng(7)


def _draw(*shape: int) -> Any:
    return _RNG.uniform(0.3, 1.5, shape) * _RNG.choice([-1, 1], shape)


SIGNAL, OTHER, FILTER = _draw(7), _draw(7), _draw(3)
ROWS_OF_IT, COLUMNS_OF_IT = _draw(2, 8), _draw(8, 2)
IMAGE, EDGE, LARGE_EDGE, BLOCK = _draw(4, 5), _draw(2, 3), _draw(5, 6), _draw(2, 3, 2)
LEVEL = np.array(0.7)

NUMERATOR, DENOMINATOR = np.array([0.5, 0.2, -0.3]), np.array([1.6, -0.4, 0.3])
STATE = np.array([[0.4, -0.2], [0.1, 0.3]])
SECTIONS = np.array([[0.5, 0.2, -0.3, 0.4, 0.2], [0.7, -0.1, 0.3, -0.3, 0.1]])
"""Without the fourth of the six coefficients, which must be 1."""


def chain(sections: Any) -> Any:
    return np.concatenate([sections[:, :3], np.ones_like(sections[:, :1]), sections[:, 3:]], axis=1)


def of_sections(function: Any, **options: Any) -> Any:
    return lambda sections, *rest: function(chain(sections), *rest, **options)


def _convolving(function: Any) -> list[Any]:
    """Return calls that both `convolve` and `correlate` take."""
    return [
        *(
            (partial(function, mode=mode, method=method), SIGNAL, FILTER)
            for mode in ("full", "same", "valid")
            for method in ("direct", "fft")
        ),
        (function, SIGNAL, OTHER),
        (partial(function, mode="same"), FILTER, SIGNAL),
        (partial(function, mode="valid"), FILTER, SIGNAL),
        (partial(function, mode="same", method="direct"), IMAGE, EDGE),
        (partial(function, mode="valid", method="direct"), EDGE, IMAGE),
        (partial(function, method="fft"), IMAGE, EDGE),
        (partial(function, method="direct"), BLOCK, BLOCK[:, ::2]),
        (function, LEVEL, np.array(1.3)),
    ]


def _by_transforms(function: Any) -> list[Any]:
    """Return calls that both `fftconvolve` and `oaconvolve` take."""
    return [
        *((partial(function, mode=mode), _draw(40), FILTER) for mode in ("full", "same", "valid")),
        (function, IMAGE, EDGE),
        (partial(function, mode="same", axes=1), IMAGE, _draw(4, 2)),
        (partial(function, mode="same", axes=0), IMAGE, _draw(3, 1)),
        (partial(function, mode="valid", axes=(0, 2)), BLOCK, BLOCK[:, 1:2]),
        (partial(function, mode="same", axes=0), IMAGE[:, :1], _draw(2, 3)),
    ]


def _of_images(function: Any) -> list[Any]:
    """Return calls that both `convolve2d` and `correlate2d` take."""
    around = [("fill", 0), ("fill", 1.5), ("wrap", 0), ("symm", 0)]
    return [
        *(
            (partial(function, mode=mode, boundary=boundary, fillvalue=value), IMAGE, EDGE)
            for mode in ("full", "same")
            for boundary, value in around
        ),
        (partial(function, mode="valid"), IMAGE, EDGE),
        (partial(function, mode="valid"), EDGE, IMAGE),
        (partial(function, mode="same", boundary="symm"), IMAGE, LARGE_EDGE),
        (lambda image, edge, value: function(image, edge, "same", "fill", value), IMAGE, EDGE, LEVEL),
    ]


def _with_state(function: Any, axis: int = -1) -> Any:
    return lambda b, a, x, zi: function(b, a, x, axis, zi)


def smoothed(**options: Any) -> Any:
    return lambda x: signal.savgol_filter(x, **options)


def _smoothing() -> list[Any]:
    modes = ("interp", "mirror", "nearest", "wrap", "constant")
    return [
        *((smoothed(window_length=5, polyorder=2, mode=mode), SIGNAL) for mode in modes),
        *((smoothed(window_length=4, polyorder=3, mode=mode, deriv=1), SIGNAL) for mode in modes),
        (smoothed(window_length=5, polyorder=2, axis=0), COLUMNS_OF_IT),
        (smoothed(window_length=11, polyorder=2, mode="mirror"), SIGNAL),
        (smoothed(window_length=3, polyorder=1, deriv=2), SIGNAL),
        (lambda x, delta: signal.savgol_filter(x, 5, 3, deriv=2, delta=delta), SIGNAL, LEVEL),
        (lambda x, value: signal.savgol_filter(x, 5, 3, mode="constant", cval=value), SIGNAL, LEVEL),
    ]


def _resampling() -> list[Any]:
    wave = partial(signal.resample, window="hamming")
    return [
        *((partial(signal.resample, num=num), x) for num in (3, 4, 7, 8, 11) for x in (SIGNAL, SIGNAL[:6])),
        (partial(wave, num=4), SIGNAL),
        (partial(wave, num=9, axis=1), ROWS_OF_IT),
        (lambda x, window: signal.resample(x, 5, window=window), SIGNAL, np.abs(OTHER)),
        (lambda x, t: signal.resample(x, 5, t), SIGNAL, np.array([0.2, 0.5])),
    ]


def _second(function: Any, **options: Any) -> Any:
    """Return a function with the last of its results alone: those before are frequencies and times."""
    return lambda *arrays: function(*arrays, **options)[-1]


def _spectra() -> list[Row]:
    short = {"nperseg": 4, "noverlap": 1}
    return [
        real("fgrad.scipy.signal.welch", (_second(signal.welch, nperseg=4, average="median"), ROWS_OF_IT)),
        complex_too(
            "fgrad.scipy.signal.csd",
            (_second(signal.csd, **short, return_onesided=False), SIGNAL, OTHER),
            only_real(_second(signal.csd, **short, axis=0, detrend="linear"), COLUMNS_OF_IT, COLUMNS_OF_IT[::-1]),
        ),
        real("fgrad.scipy.signal.periodogram", (_second(signal.periodogram, scaling="spectrum", nfft=5), SIGNAL)),
        real("fgrad.scipy.signal.coherence", (_second(signal.coherence, **short), SIGNAL, OTHER)),
        real(
            "fgrad.scipy.signal.spectrogram",
            *((_second(signal.spectrogram, **short, mode=mode), SIGNAL) for mode in ("psd", "complex", "magnitude")),
            remark='not with `mode="phase"`',
        ),
        complex_too(
            "fgrad.scipy.signal.stft",
            (_second(signal.stft, **short, return_onesided=False, boundary="odd"), SIGNAL),
            only_real(_second(signal.stft, nperseg=4, scaling="psd"), ROWS_OF_IT),
        ),
        complex_too(
            "fgrad.scipy.signal.istft",
            (_second(signal.istft, nperseg=4, input_onesided=False), IMAGE[:4]),
            (_second(signal.istft, input_onesided=False, time_axis=0, freq_axis=-1), np.stack([IMAGE, IMAGE[::-1]], 1)),
        ),
    ]


def _rates() -> list[Row]:
    return [
        complex_too(
            "fgrad.scipy.signal.upfirdn",
            (partial(signal.upfirdn, up=3, down=2), FILTER, SIGNAL),
            (partial(signal.upfirdn, down=3, axis=0), FILTER, COLUMNS_OF_IT),
            remark='not with another `mode` than "constant"',
        ),
        real(
            "fgrad.scipy.signal.resample_poly",
            (partial(signal.resample_poly, up=3, down=2), SIGNAL),
            (partial(signal.resample_poly, up=2, down=3, axis=1, padtype="mean"), ROWS_OF_IT),
            (lambda x, value: signal.resample_poly(x, 2, 1, cval=value), SIGNAL, LEVEL),
            (lambda x, h: signal.resample_poly(x, 3, 2, window=h), SIGNAL, FILTER),
            remark="not with `padtype` that extends the signal",
        ),
    ]


ROWS: list[Row] = [
    *_spectra(),
    *_rates(),
    complex_too("fgrad.scipy.signal.convolve", *_convolving(signal.convolve)),
    complex_too("fgrad.scipy.signal.correlate", *_convolving(signal.correlate)),
    complex_too("fgrad.scipy.signal.fftconvolve", *_by_transforms(signal.fftconvolve)),
    complex_too("fgrad.scipy.signal.oaconvolve", *_by_transforms(signal.oaconvolve)),
    complex_too("fgrad.scipy.signal.convolve2d", *_of_images(signal.convolve2d)),
    complex_too("fgrad.scipy.signal.correlate2d", *_of_images(signal.correlate2d)),
    complex_too(
        "fgrad.scipy.signal.lfilter",
        (signal.lfilter, NUMERATOR, DENOMINATOR, SIGNAL),
        (signal.lfilter, NUMERATOR[:1], DENOMINATOR, ROWS_OF_IT),
        (signal.lfilter, NUMERATOR, DENOMINATOR[:1], ROWS_OF_IT),
        (partial(signal.lfilter, axis=0), NUMERATOR, DENOMINATOR[:2], COLUMNS_OF_IT),
        (_with_state(signal.lfilter), NUMERATOR, DENOMINATOR, ROWS_OF_IT, STATE),
        (_with_state(signal.lfilter), NUMERATOR, DENOMINATOR, ROWS_OF_IT[:, :1], STATE),
        (_with_state(signal.lfilter, 0), NUMERATOR, DENOMINATOR[:1], COLUMNS_OF_IT, STATE[:, :1]),
    ),
    complex_too(
        "fgrad.scipy.signal.lfilter_zi",
        (signal.lfilter_zi, NUMERATOR, DENOMINATOR),
        (signal.lfilter_zi, NUMERATOR[:1], DENOMINATOR),
        (signal.lfilter_zi, NUMERATOR, DENOMINATOR[:2]),
    ),
    complex_too(
        "fgrad.scipy.signal.filtfilt",
        *(
            (partial(signal.filtfilt, padtype=padtype), NUMERATOR[:2], DENOMINATOR[:2], SIGNAL)
            for padtype in ("odd", "even", "constant", None)
        ),
        (partial(signal.filtfilt, axis=0, padlen=3), NUMERATOR, DENOMINATOR, COLUMNS_OF_IT),
        (partial(signal.filtfilt, axis=0, padlen=0), NUMERATOR, DENOMINATOR, COLUMNS_OF_IT),
        remark='not with `method="gust"`',
    ),
    refused(
        ("fgrad.scipy.signal.filtfilt with method='gust'",),
        "no rule for this method",
        errors.MissingRuleError,
        "scipy.signal.filtfilt with method='gust' has no derivative rule",
        lambda x: signal.filtfilt([0.5], [1.0, -0.5], x, method="gust"),
        at=SIGNAL,
    ),
    complex_too(
        "fgrad.scipy.signal.sosfilt",
        (of_sections(signal.sosfilt), SECTIONS, SIGNAL),
        (of_sections(signal.sosfilt, axis=0), SECTIONS[:1], COLUMNS_OF_IT),
        (lambda s, x, zi: signal.sosfilt(chain(s), x, zi=zi), SECTIONS, ROWS_OF_IT, np.stack([STATE, STATE.T])),
    ),
    complex_too("fgrad.scipy.signal.sosfilt_zi", (of_sections(signal.sosfilt_zi), SECTIONS)),
    complex_too(
        "fgrad.scipy.signal.sosfiltfilt",
        (of_sections(signal.sosfiltfilt, padlen=5), SECTIONS, SIGNAL),
        (of_sections(signal.sosfiltfilt, axis=0, padtype="even", padlen=2), SECTIONS, COLUMNS_OF_IT),
    ),
    complex_too(
        "fgrad.scipy.signal.deconvolve",
        (signal.deconvolve, SIGNAL, DENOMINATOR),
        (signal.deconvolve, FILTER, DENOMINATOR),
    ),
    real("fgrad.scipy.signal.savgol_filter", *_smoothing()),
    complex_too(
        "fgrad.scipy.signal.detrend",
        *(
            (partial(signal.detrend, **how), x)
            for how in ({}, {"type": "constant"}, {"bp": [3]}, {"bp": 2, "axis": 0})
            for x in (SIGNAL, COLUMNS_OF_IT.T if "axis" not in how else COLUMNS_OF_IT)
        ),
    ),
    real(
        "fgrad.scipy.signal.hilbert",
        *((partial(signal.hilbert, N=size), SIGNAL) for size in (None, 4, 5, 9, 10)),
        (partial(signal.hilbert, axis=0), COLUMNS_OF_IT),
    ),
    real(
        "fgrad.scipy.signal.hilbert2",
        (signal.hilbert2, IMAGE),
        (partial(signal.hilbert2, N=(3, 6)), IMAGE),
        (partial(signal.hilbert2, N=5), IMAGE),
        (partial(signal.hilbert2, axes=(2, 0)), BLOCK),
    ),
    complex_too(
        "fgrad.scipy.signal.resample",
        *_resampling()[:-2],
        *(only_real(*each) for each in _resampling()[-2:]),
        (partial(signal.resample, num=5, domain="freq"), ROWS_OF_IT.T),
        (partial(signal.resample, num=11, domain="freq", window="hann"), COLUMNS_OF_IT),
    ),
]
