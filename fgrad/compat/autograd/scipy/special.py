"""`scipy.special`, with the derivatives of `fgrad.scipy.special`."""

import scipy.special

import fgrad.scipy.special
from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, fgrad.scipy.special, scipy.special, takes_lists=True)
