"""Distributions whose draws are transformed standard noise: a composition of NumPy's operations.

MOVED["normal"]    the parameters, the method for the noise, and the transformation by the parameters

The noise does not depend on the parameters, and is drawn as in NumPy's own method, from the same bits. So the numbers
are those of that method: exactly, or if it uses another power or exponential, up to the last digit or two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad.ops.elementwise import stop_gradient_of


class Moved(NamedTuple):
    """A distribution by its noise.

    Attributes:
        parameters: names, with defaults.
        noise: the method of NumPy's generator for the noise, called with only a size.
        move: the transformation, a function of the noise and the parameters.
    """

    parameters: str
    noise: str
    move: Callable[..., Any]


def _triangular(noise: Any, left: Any, mode: object, right: Any) -> Any:
    """Return the inverse of the distribution function at the noise, from 0 to 1, by the side of the mode."""
    base, rise, fall = right - left, mode - left, right - mode
    before = np.less_equal(noise * stop_gradient_of(base), stop_gradient_of(rise))
    at_left = left + np.sqrt(np.where(before, noise, 0.0) * rise * base)
    at_right = right - np.sqrt(np.where(before, 0.0, 1 - noise) * fall * base)
    return np.where(before, at_left, at_right)


# fmt: off
MOVED = {
    "normal":      Moved("loc=0.0 scale=1.0", "standard_normal",      lambda z, loc, scale: loc + scale * z),
    "laplace":     Moved("loc=0.0 scale=1.0", "laplace",              lambda z, loc, scale: loc + scale * z),
    "logistic":    Moved("loc=0.0 scale=1.0", "logistic",             lambda z, loc, scale: loc + scale * z),
    "gumbel":      Moved("loc=0.0 scale=1.0", "gumbel",               lambda z, loc, scale: loc + scale * z),
    "uniform":     Moved("low=0.0 high=1.0",  "random",               lambda z, low, high: low + (high - low) * z),
    "exponential": Moved("scale=1.0",         "standard_exponential", lambda z, scale: scale * z),
    "rayleigh":    Moved("scale=1.0",         "rayleigh",             lambda z, scale: scale * z),
    "lognormal":   Moved("mean=0.0 sigma=1.0", "standard_normal",     lambda z, mean, sigma: np.exp(mean + sigma * z)),
    "weibull":     Moved("a",                 "standard_exponential", lambda z, a: z ** (1 / a)),
    "pareto":      Moved("a",                 "standard_exponential", lambda z, a: np.expm1(z / a)),
    "power":       Moved("a",                 "standard_exponential", lambda z, a: (-np.expm1(-z)) ** (1 / a)),
    "triangular":  Moved("left mode right",   "random",               _triangular),
}
# fmt: on
