"""Random numbers: NumPy's names. The results do not depend on traced values."""

import numpy as np

from fgrad.compat.autograd.namespaces import fill

fill(globals(), np.random)
