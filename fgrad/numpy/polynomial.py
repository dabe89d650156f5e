"""NumPy's own `numpy.polynomial`, to be imported as `fgrad.numpy.polynomial`."""

from numpy.polynomial import *  # noqa: F403
from numpy.polynomial import __all__ as __all__
