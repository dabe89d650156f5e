"""Distributions, as in `scipy.stats`, differentiable in the argument and all parameters; statistics of samples.

`stats.norm.logpdf(x, loc, scale)` is SciPy's method if nothing is traced, and differentiable otherwise.
Frozen distributions `stats.norm(loc, scale)` may have traced parameters, too. Methods without derivatives,
such as `fit` and `rvs`, are SciPy's own, and reject traced tensors.

    Continuous    norm, t, gamma, beta, chi2, f, expon, laplace, logistic, lognorm, uniform, cauchy, halfnorm,
                  truncnorm, weibull_min, gumbel_r, invgamma, pareto, vonmises:
                  logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, mean, var, std, median, entropy
    Extremes      gumbel_l, genextreme, genpareto, lomax, invweibull, weibull_max, gompertz, powerlaw, moyal, fisk,
                  burr12, loguniform
    Lengths       halfcauchy, halflogistic, rayleigh, maxwell, chi, nakagami, rice
    Relatives     skewnorm, gennorm, powernorm, johnsonsu, johnsonsb, invgauss, wald, levy, gibrat, fatiguelife,
                  hypsecant, genlogistic, loggamma, laplace_asymmetric, loglaplace, betaprime, arcsine:
                  the same methods as above, and moments and entropy if they have a closed form
    Discrete      poisson, binom, bernoulli, nbinom, geom:
                  logpmf, pmf, logcdf, cdf, logsf, sf, mean, var, std, and entropy if it has a closed form
    Multivariate  multivariate_normal, multivariate_t, dirichlet, multinomial, wishart, invwishart:
                  logpdf or logpmf, pdf or pmf, moments, entropy

Distribution functions are also differentiable with respect to shape parameters, such as `stats.gamma.cdf(x, a)` with
respect to `a`, where `scipy.special.gammainc(a, x)` has no closed form: by integrals exact to rounding
(`_integrals.py`).

Statistics of samples have SciPy's parameters, and are differentiable with respect to the samples:

    Scores        zscore, zmap, gzscore
    Means         gmean, hmean, pmean; circmean of angles
    Moments       moment, skew, kurtosis, variation, sem, gstd, entropy; circvar, circstd
    Tests         ttest_1samp, ttest_ind, ttest_ind_from_stats, ttest_rel, f_oneway, jarque_bera
    Two samples   pearsonr, linregress; spearmanr is rejected, since ranks have no derivative
"""

import sys as _sys
import typing as _typing

from fgrad.scipy._absent import absent as _absent
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
from fgrad.scipy.stats._extremes import burr12 as burr12
from fgrad.scipy.stats._extremes import fisk as fisk
from fgrad.scipy.stats._extremes import genextreme as genextreme
from fgrad.scipy.stats._extremes import genpareto as genpareto
from fgrad.scipy.stats._extremes import gompertz as gompertz
from fgrad.scipy.stats._extremes import gumbel_l as gumbel_l
from fgrad.scipy.stats._extremes import invweibull as invweibull
from fgrad.scipy.stats._extremes import loguniform as loguniform
from fgrad.scipy.stats._extremes import lomax as lomax
from fgrad.scipy.stats._extremes import moyal as moyal
from fgrad.scipy.stats._extremes import powerlaw as powerlaw
from fgrad.scipy.stats._extremes import weibull_max as weibull_max
from fgrad.scipy.stats._lengths import chi as chi
from fgrad.scipy.stats._lengths import halfcauchy as halfcauchy
from fgrad.scipy.stats._lengths import halflogistic as halflogistic
from fgrad.scipy.stats._lengths import maxwell as maxwell
from fgrad.scipy.stats._lengths import nakagami as nakagami
from fgrad.scipy.stats._lengths import rayleigh as rayleigh
from fgrad.scipy.stats._lengths import rice as rice
from fgrad.scipy.stats._moments import circmean as circmean
from fgrad.scipy.stats._moments import circstd as circstd
from fgrad.scipy.stats._moments import circvar as circvar
from fgrad.scipy.stats._moments import entropy as entropy
from fgrad.scipy.stats._moments import gmean as gmean
from fgrad.scipy.stats._moments import gstd as gstd
from fgrad.scipy.stats._moments import gzscore as gzscore
from fgrad.scipy.stats._moments import hmean as hmean
from fgrad.scipy.stats._moments import kurtosis as kurtosis
from fgrad.scipy.stats._moments import moment as moment
from fgrad.scipy.stats._moments import pmean as pmean
from fgrad.scipy.stats._moments import sem as sem
from fgrad.scipy.stats._moments import skew as skew
from fgrad.scipy.stats._moments import variation as variation
from fgrad.scipy.stats._moments import zmap as zmap
from fgrad.scipy.stats._moments import zscore as zscore
from fgrad.scipy.stats._multivariate import dirichlet as dirichlet
from fgrad.scipy.stats._multivariate import invwishart as invwishart
from fgrad.scipy.stats._multivariate import multinomial as multinomial
from fgrad.scipy.stats._multivariate import multivariate_normal as multivariate_normal
from fgrad.scipy.stats._multivariate import multivariate_t as multivariate_t
from fgrad.scipy.stats._multivariate import wishart as wishart
from fgrad.scipy.stats._shaped import arcsine as arcsine
from fgrad.scipy.stats._shaped import betaprime as betaprime
from fgrad.scipy.stats._shaped import fatiguelife as fatiguelife
from fgrad.scipy.stats._shaped import genlogistic as genlogistic
from fgrad.scipy.stats._shaped import gennorm as gennorm
from fgrad.scipy.stats._shaped import gibrat as gibrat
from fgrad.scipy.stats._shaped import hypsecant as hypsecant
from fgrad.scipy.stats._shaped import invgauss as invgauss
from fgrad.scipy.stats._shaped import johnsonsb as johnsonsb
from fgrad.scipy.stats._shaped import johnsonsu as johnsonsu
from fgrad.scipy.stats._shaped import laplace_asymmetric as laplace_asymmetric
from fgrad.scipy.stats._shaped import levy as levy
from fgrad.scipy.stats._shaped import loggamma as loggamma
from fgrad.scipy.stats._shaped import loglaplace as loglaplace
from fgrad.scipy.stats._shaped import powernorm as powernorm
from fgrad.scipy.stats._shaped import skewnorm as skewnorm
from fgrad.scipy.stats._shaped import wald as wald
from fgrad.scipy.stats._significance import f_oneway as f_oneway
from fgrad.scipy.stats._significance import jarque_bera as jarque_bera
from fgrad.scipy.stats._significance import linregress as linregress
from fgrad.scipy.stats._significance import pearsonr as pearsonr
from fgrad.scipy.stats._significance import spearmanr as spearmanr
from fgrad.scipy.stats._significance import ttest_1samp as ttest_1samp
from fgrad.scipy.stats._significance import ttest_ind as ttest_ind
from fgrad.scipy.stats._significance import ttest_ind_from_stats as ttest_ind_from_stats
from fgrad.scipy.stats._significance import ttest_rel as ttest_rel

__all__ = [
    "arcsine", "bernoulli", "beta", "betaprime", "binom", "burr12", "cauchy", "chi", "chi2", "circmean", "circstd",
    "circvar", "dirichlet", "entropy", "expon", "f", "f_oneway", "fatiguelife", "fisk", "gamma", "genextreme",
    "genlogistic", "gennorm", "genpareto", "geom", "gibrat", "gmean", "gompertz", "gstd", "gumbel_l", "gumbel_r",
    "gzscore", "halfcauchy", "halflogistic", "halfnorm", "hmean", "hypsecant", "invgamma", "invgauss", "invweibull",
    "invwishart", "jarque_bera", "johnsonsb", "johnsonsu", "kurtosis", "laplace", "laplace_asymmetric", "levy",
    "linregress", "loggamma", "logistic", "loglaplace", "lognorm", "loguniform", "lomax", "maxwell", "moment",
    "moyal", "multinomial", "multivariate_normal", "multivariate_t", "nakagami", "nbinom", "norm", "pareto",
    "pearsonr", "pmean", "poisson", "powerlaw", "powernorm", "rayleigh", "rice", "sem", "skew", "skewnorm",
    "spearmanr", "t", "truncnorm", "ttest_1samp", "ttest_ind", "ttest_ind_from_stats", "ttest_rel", "uniform",
    "variation", "vonmises", "wald", "weibull_max", "weibull_min", "wishart", "zmap", "zscore",
]  # fmt: skip

# `import fgrad.scipy.stats.norm as norm` asks for a module, which norm is in other libraries: here it finds the object.
_sys.modules.update({f"{__name__}.{_name}": globals()[_name] for _name in __all__})


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
