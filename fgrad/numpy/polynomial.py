"""NumPy's own `numpy.polynomial`, to be imported as `fgrad.numpy.polynomial`."""

import sys

import numpy.polynomial
from numpy.polynomial import *  # noqa: F403
from numpy.polynomial import __all__ as __all__

sys.modules[__name__] = numpy.polynomial  # one module by either name, whichever is imported first
