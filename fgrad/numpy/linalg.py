"""NumPy's own `numpy.linalg`, to be imported as `fgrad.numpy.linalg`."""

import sys

import numpy.linalg
from numpy.linalg import *  # noqa: F403
from numpy.linalg import __all__ as __all__

sys.modules[__name__] = numpy.linalg  # one module by either name, whichever is imported first
