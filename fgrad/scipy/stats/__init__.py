"""Distributions, as in `scipy.stats`, with derivatives in the argument and in all parameters.

`stats.norm.logpdf(x, loc, scale)` is SciPy's where nothing is traced, and is differentiated where something is.
Frozen distributions `stats.norm(loc, scale)` hold traced parameters, too. What a distribution does not
differentiate, such as `fit` and `rvs`, is SciPy's own, and refuses traced tensors.

    Continuous    norm, t, gamma, beta, chi2, f, expon, laplace, logistic, lognorm, uniform, cauchy, halfnorm,
                  truncnorm, weibull_min, gumbel_r, invgamma, pareto, vonmises:
                  logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, mean, var, std, median, entropy
    Discrete      poisson, binom, bernoulli, nbinom, geom:
                  logpmf, pmf, logcdf, cdf, logsf, sf, mean, var, std, and entropy where it has a closed form
    Multivariate  multivariate_normal, multivariate_t, dirichlet, multinomial, wishart, invwishart:
                  logpdf or logpmf, pdf or pmf, moments, entropy

Distribution functions have derivatives in shape parameters, too, such as `stats.gamma.cdf(x, a)` in `a`, where
`scipy.special.gammainc(a, x)` has none in closed form: they are integrals, exact to rounding (`_integrals.py`).
"""

from fgrad.scipy.stats._continuous import beta as beta
from fgrad.scipy.stats._continuous import cauchy as cauchy
from fgrad.scipy.stats._continuous import chi2 as chi2
from fgrad.scipy.stats._continuous import expon as expon
from fgrad.scipy.stats._continuous import f as f
from fgrad.scipy.stats._continuous import gamma as gamma
from fgrad.scipy.stats._continuous import gumbel_r as gumbel_r
from fgrad.scipy.stats._continuous import halfnorm as halfnorm
from fgrad.scipy.stats._continuous import invgamma as invgamma
from fgrad.scipy.stats._continuous import laplace as laplace
from fgrad.scipy.stats._continuous import logistic as logistic
from fgrad.scipy.stats._continuous import lognorm as lognorm
from fgrad.scipy.stats._continuous import norm as norm
from fgrad.scipy.stats._continuous import pareto as pareto
from fgrad.scipy.stats._continuous import t as t
from fgrad.scipy.stats._continuous import truncnorm as truncnorm
from fgrad.scipy.stats._continuous import uniform as uniform
from fgrad.scipy.stats._continuous import vonmises as vonmises
from fgrad.scipy.stats._continuous import weibull_min as weibull_min
from fgrad.scipy.stats._discrete import bernoulli as bernoulli
from fgrad.scipy.stats._discrete import binom as binom
from fgrad.scipy.stats._discrete import geom as geom
from fgrad.scipy.stats._discrete import nbinom as nbinom
from fgrad.scipy.stats._discrete import poisson as poisson
from fgrad.scipy.stats._multivariate import dirichlet as dirichlet
from fgrad.scipy.stats._multivariate import invwishart as invwishart
from fgrad.scipy.stats._multivariate import multinomial as multinomial
from fgrad.scipy.stats._multivariate import multivariate_normal as multivariate_normal
from fgrad.scipy.stats._multivariate import multivariate_t as multivariate_t
from fgrad.scipy.stats._multivariate import wishart as wishart
