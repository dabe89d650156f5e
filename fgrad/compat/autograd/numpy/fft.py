"""Fourier transforms: NumPy's names, with derivatives."""

import numpy as np

from fgrad.compat.autograd.namespaces import fill

fill(globals(), np.fft)
