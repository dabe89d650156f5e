"""The multivariate normal distribution: the methods of `scipy.stats.multivariate_normal`, with derivatives."""

from typing import Any

import numpy as np
import scipy.stats

import fgrad as fg
import fgrad.scipy.stats
from fgrad.compat.autograd.namespaces import members
from fgrad.typing import Array, ArrayLike

_law = fgrad.scipy.stats.multivariate_normal
__getattr__, __dir__ = members(__name__, _law, scipy.stats.multivariate_normal)


def logpdf(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    """Return the log-density; for a singular covariance, which must not be traced, the density on its support."""
    if not allow_singular or fg.is_traced(cov) or not (fg.is_traced(x) or fg.is_traced(mean)):
        return _law.logpdf(x, mean, cov, allow_singular)
    return _logpdf_on_support(x - (0.0 if mean is None else mean), np.atleast_2d(cov))


def _logpdf_on_support(deviation: Array, cov: Array) -> Array:
    """Return the log-density where variances are nonzero, and minus infinity elsewhere."""
    values, vectors = np.linalg.eigh(cov)
    spans = values > 1e6 * np.finfo(float).eps * np.max(values)
    normalized = deviation @ (vectors[:, spans] / np.sqrt(values[spans]))
    density = -0.5 * (np.sum(normalized**2, axis=-1) + np.sum(np.log(2 * np.pi * values[spans])))
    outside = np.sum((deviation @ vectors[:, ~spans]) ** 2, axis=-1)
    return np.where(outside <= 1e-12 * np.max(values), density, -np.inf)


def pdf(x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, allow_singular: bool = False) -> Any:
    """Return the density; see `logpdf`."""
    return np.exp(logpdf(x, mean, cov, allow_singular))
