"""The chi-squared distribution: the methods of `scipy.stats.chi2`, with derivatives."""

import scipy.stats

import fgrad.scipy.stats
from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, fgrad.scipy.stats.chi2, scipy.stats.chi2)
