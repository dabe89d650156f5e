"""NumPy's own `numpy.random`, to be imported as `fgrad.numpy.random`."""

import sys

import numpy.random
from numpy.random import *  # noqa: F403
from numpy.random import __all__ as __all__

sys.modules[__name__] = numpy.random  # one module by either name, whichever is imported first
