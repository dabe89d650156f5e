"""Signal processing, as in `scipy.signal`."""

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
from fgrad.scipy.signal.transforms import detrend as detrend
from fgrad.scipy.signal.transforms import hilbert as hilbert
from fgrad.scipy.signal.transforms import hilbert2 as hilbert2
from fgrad.scipy.signal.transforms import resample as resample
