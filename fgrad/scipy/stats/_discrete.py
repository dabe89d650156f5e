"""Discrete distributions, each by formulas of its standard form.

The name of a formula is SciPy's method; the first argument is an integer in the support. The probabilities are
also valid at the ends of a parameter's range, where a power of 0 is a separate factor (`_power_times`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from fgrad.scipy import _special as special
from fgrad.scipy.stats._integrals import flat_exp
from fgrad.scipy.stats._laws import BETA, GAMMA
from fgrad.scipy.stats._univariate import Discrete
from fgrad.typing import Array


def _is_probability(p: Array) -> Array:
    return np.logical_and(np.greater_equal(p, 0), np.less_equal(p, 1))


def _is_count(n: Array) -> Array:
    return np.logical_and(np.greater_equal(n, 0), np.equal(np.floor(n), n))


# fmt: off
poisson = Discrete(
    stats.poisson,
    allowed=lambda mu: np.greater_equal(mu, 0),
    logpmf=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
    pmf=lambda k, mu: _power_times(-special.gammaln(k + 1) - mu, (mu, k)),
    **GAMMA.tails(lambda k, mu: (mu, k + 1), decreasing=True),
    mean=lambda mu: mu,                         var=lambda mu: mu,
)
"""The Poisson distribution of the number of events, with mean `mu`."""

binom = Discrete(
    stats.binom,
    allowed=lambda n, p: np.logical_and(_is_count(n), _is_probability(p)),
    counts=("n",),
    support=lambda n, p: (0.0, n),
    logpmf=lambda k, n, p: _log_choose(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    pmf=lambda k, n, p: _power_times(_log_choose(n, k), (p, k), (1 - p, n - k)),
    **BETA.tails(lambda k, n, p: (p, k + 1, n - k), decreasing=True),
    mean=lambda n, p: n * p,                    var=lambda n, p: n * p * (1 - p),
)
"""The binomial distribution of successes in `n` trials with success probability `p`."""

bernoulli = Discrete(
    stats.bernoulli,
    allowed=_is_probability,
    logpmf=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    pmf=lambda k, p: np.where(np.equal(k, 1), p, 1 - p) + 0.0 * k,
    cdf=lambda k, p: 1 - p + 0.0 * k,           sf=lambda k, p: p + 0.0 * k,
    mean=lambda p: p,                           var=lambda p: p * (1 - p),
    entropy=lambda p: special.entr(p) + special.entr(1 - p),
)
"""The Bernoulli distribution: 1 with probability `p`, and 0 otherwise."""

geom = Discrete(
    stats.geom,
    allowed=lambda p: np.logical_and(np.greater(p, 0), np.less_equal(p, 1)),
    logpmf=lambda k, p: special.xlog1py(k - 1, -p) + np.log(p),
    pmf=lambda k, p: (1 - p) ** (k - 1) * p,
    cdf=lambda k, p: _geom_cdf(k, p),           sf=lambda k, p: (1 - p) ** k,
    logsf=lambda k, p: special.xlog1py(k, -p),
    mean=lambda p: 1 / p,                       var=lambda p: (1 - p) / p / p,
    entropy=lambda p: -np.log(p) - special.xlog1py(1 - p, -p) / p,
)
"""The geometric distribution of the number of trials up to the first success."""

nbinom = Discrete(
    stats.nbinom,
    allowed=lambda n, p: np.logical_and(np.greater(n, 0), np.logical_and(np.greater(p, 0), np.less_equal(p, 1))),
    logpmf=lambda k, n, p: _log_repeats(k, n) + n * np.log(p) + special.xlog1py(k, -p),
    pmf=lambda k, n, p: _power_times(_log_repeats(k, n) + n * np.log(p), (1 - p, k)),
    **BETA.tails(lambda k, n, p: (p, n, k + 1)),
    mean=lambda n, p: n * (1 - p) / p,          var=lambda n, p: n * (1 - p) / p / p,
)
"""The negative binomial distribution of failures before the `n`-th success, also for non-integer `n`."""
# fmt: on


def _log_choose(n: Array, k: Array) -> Any:
    return special.gammaln(n + 1) - (special.gammaln(k + 1) + special.gammaln(n - k + 1))


def _log_repeats(k: Any, n: Any) -> Any:
    return special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n)


def _geom_cdf(k: Any, p: Array) -> Any:
    small = np.less(p, 0.5)
    return np.where(small, -np.expm1(special.xlog1py(k, -np.where(small, p, 0.5))), 1 - (1 - p) ** k)


def _power_times(log_rest: Any, *powers: tuple[Any, Any]) -> Any:
    """Return exp(log_rest) times powers (base, exponent), with correct derivatives at the base 0.

    The first eight factors are multiplied directly, so that their derivatives are not 0 times infinity;
    the others are part of the exponential, where they neither overflow nor underflow.
    """
    product: Any = 1.0
    for base, exponent in powers:
        few = np.minimum(exponent, 8.0)
        product = product * base**few
        log_rest = log_rest + special.xlogy(exponent - few, base)
    return product * flat_exp(log_rest)
