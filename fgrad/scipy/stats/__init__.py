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

# fmt: off
# isort: off
from fgrad.scipy.stats._continuous import (
    beta, cauchy, chi2, expon, f, gamma, gumbel_r, halfnorm, invgamma, laplace, logistic, lognorm, norm, pareto, t,
    truncnorm, uniform, vonmises, weibull_min,
)
from fgrad.scipy.stats._discrete import bernoulli, binom, geom, nbinom, poisson
from fgrad.scipy.stats._extremes import (
    burr12, fisk, genextreme, genpareto, gompertz, gumbel_l, invweibull, loguniform, lomax, moyal, powerlaw,
    weibull_max,
)
from fgrad.scipy.stats._lengths import chi, halfcauchy, halflogistic, maxwell, nakagami, rayleigh, rice
from fgrad.scipy.stats._moments import (
    circmean, circstd, circvar, entropy, gmean, gstd, gzscore, hmean, kurtosis, moment, pmean, sem, skew, variation,
    zmap, zscore,
)
from fgrad.scipy.stats._multivariate import (
    dirichlet, invwishart, multinomial, multivariate_normal, multivariate_t, wishart,
)
from fgrad.scipy.stats._shaped import (
    arcsine, betaprime, fatiguelife, genlogistic, gennorm, gibrat, hypsecant, invgauss, johnsonsb, johnsonsu,
    laplace_asymmetric, levy, loggamma, loglaplace, powernorm, skewnorm, wald,
)
from fgrad.scipy.stats._significance import (
    f_oneway, jarque_bera, linregress, pearsonr, spearmanr, ttest_1samp, ttest_ind, ttest_ind_from_stats, ttest_rel,
)
# isort: on

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
]
# fmt: on

# `import fgrad.scipy.stats.norm as norm` asks for a module, which norm is in other libraries: here it finds the object.
_sys.modules.update({f"{__name__}.{_name}": globals()[_name] for _name in __all__})

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
