"""NumPy's own `numpy.linalg`, to be imported as `fgrad.numpy.linalg`."""

from numpy.linalg import *  # noqa: F403
from numpy.linalg import __all__ as __all__
