"""NumPy's own `numpy.fft`, to be imported as `fgrad.numpy.fft`."""

from numpy.fft import *  # noqa: F403
from numpy.fft import __all__ as __all__
