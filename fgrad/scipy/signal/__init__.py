"""Signal processing, as in `scipy.signal`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent

# fmt: off
# isort: off
from fgrad.scipy.signal.convolutions import convolve, convolve2d, correlate, correlate2d, fftconvolve, oaconvolve
from fgrad.scipy.signal.filters import (
    deconvolve, filtfilt, lfilter, lfilter_zi, savgol_filter, sosfilt, sosfilt_zi, sosfiltfilt,
)
from fgrad.scipy.signal.rates import resample_poly, upfirdn
from fgrad.scipy.signal.spectra import coherence, csd, istft, periodogram, spectrogram, stft, welch
from fgrad.scipy.signal.transforms import detrend, hilbert, hilbert2, resample
# isort: on

__all__ = [
    "coherence", "convolve", "convolve2d", "correlate", "correlate2d", "csd", "deconvolve", "detrend",
    "fftconvolve", "filtfilt", "hilbert", "hilbert2", "istft", "lfilter", "lfilter_zi", "oaconvolve", "periodogram",
    "resample", "resample_poly", "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt", "spectrogram", "stft",
    "upfirdn", "welch",
]
# fmt: on

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
