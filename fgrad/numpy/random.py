"""NumPy's own `numpy.random`, to be imported as `fgrad.numpy.random`."""

from numpy.random import *  # noqa: F403
from numpy.random import __all__ as __all__
