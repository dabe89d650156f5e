"""`scipy.stats`, with the derivatives of `fgrad.scipy.stats`; each of Autograd's distributions is a module, too."""

import scipy.stats

import fgrad.scipy.stats
from fgrad.compat.autograd.namespaces import members
from fgrad.compat.autograd.scipy.stats import beta, chi2, dirichlet, gamma, multivariate_normal, norm, poisson, t

__getattr__, __dir__ = members(__name__, fgrad.scipy.stats, scipy.stats)

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]
