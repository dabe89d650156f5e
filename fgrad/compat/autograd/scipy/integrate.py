"""`scipy.integrate`, with the derivatives of `fgrad.scipy.integrate`."""

import scipy.integrate

import fgrad.scipy.integrate
from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, fgrad.scipy.integrate, scipy.integrate)
