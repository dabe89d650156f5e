"""Signal processing, as in `scipy.signal`."""

import typing as _typing

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.signal.convolutions import convolve as convolve
from fgrad.scipy.signal.convolutions import convolve2d as convolve2d
from fgrad.scipy.signal.convolutions import correlate as correlate
from fgrad.scipy.signal.convolutions import correlate2d as correlate2d
from fgrad.scipy.signal.convolutions import fftconvolve as fftconvolve
from fgrad.scipy.signal.convolutions import oaconvolve as oaconvolve
from fgrad.scipy.signal.filters import deconvolve as deconvolve
from fgrad.scipy.signal.filters import filtfilt as filtfilt
from fgrad.scipy.signal.filters import lfilter as lfilter
from fgrad.scipy.signal.filters import lfilter_zi as lfilter_zi
from fgrad.scipy.signal.filters import savgol_filter as savgol_filter
from fgrad.scipy.signal.filters import sosfilt as sosfilt
from fgrad.scipy.signal.filters import sosfilt_zi as sosfilt_zi
from fgrad.scipy.signal.filters import sosfiltfilt as sosfiltfilt
from fgrad.scipy.signal.rates import resample_poly as resample_poly
from fgrad.scipy.signal.rates import upfirdn as upfirdn
from fgrad.scipy.signal.spectra import coherence as coherence
from fgrad.scipy.signal.spectra import csd as csd
from fgrad.scipy.signal.spectra import istft as istft
from fgrad.scipy.signal.spectra import periodogram as periodogram
from fgrad.scipy.signal.spectra import spectrogram as spectrogram
from fgrad.scipy.signal.spectra import stft as stft
from fgrad.scipy.signal.spectra import welch as welch
from fgrad.scipy.signal.transforms import detrend as detrend
from fgrad.scipy.signal.transforms import hilbert as hilbert
from fgrad.scipy.signal.transforms import hilbert2 as hilbert2
from fgrad.scipy.signal.transforms import resample as resample

__all__ = [
    "coherence", "convolve", "convolve2d", "correlate", "correlate2d", "csd", "deconvolve", "detrend",
    "fftconvolve", "filtfilt", "hilbert", "hilbert2", "istft", "lfilter", "lfilter_zi", "oaconvolve", "periodogram",
    "resample", "resample_poly", "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt", "spectrogram", "stft",
    "upfirdn", "welch",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
