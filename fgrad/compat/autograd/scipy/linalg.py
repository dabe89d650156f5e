"""`scipy.linalg`, with the derivatives of `fgrad.scipy.linalg`."""

import scipy.linalg

import fgrad.scipy.linalg
from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, fgrad.scipy.linalg, scipy.linalg)
