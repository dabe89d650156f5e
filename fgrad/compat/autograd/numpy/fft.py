"""Fourier transforms: NumPy's names, with derivatives."""

import numpy as np

from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, np.fft, takes_lists=True)
