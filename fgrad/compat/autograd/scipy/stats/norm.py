"""The normal distribution: the methods of `scipy.stats.norm`, with derivatives."""

import scipy.stats

import fgrad.scipy.stats
from fgrad.compat.autograd.namespaces import members

__getattr__, __dir__ = members(__name__, fgrad.scipy.stats.norm, scipy.stats.norm)
