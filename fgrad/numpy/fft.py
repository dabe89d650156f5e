"""NumPy's own `numpy.fft`, to be imported as `fgrad.numpy.fft`."""

import sys

import numpy.fft
from numpy.fft import *  # noqa: F403
from numpy.fft import __all__ as __all__

sys.modules[__name__] = numpy.fft  # one module by either name, whichever is imported first
