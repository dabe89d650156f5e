"""Derivatives of a plain function of one number, by differences of eighth order at many steps.

The step is the one around which the results agree best, and the error is how well they do. That finds the middle
between the function's own curvature, where steps are too large, and its noise, where they are too small.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.case import UndecidedError, WrongError

EIGHTH = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
SIXTH = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
LARGEST, COUNT = 0.0625, 14
"""The largest step, and how many there are, each half of the one before."""
ROUNDING = 1e-14
"""What may be left of terms of size 1 that cancel, such as those of the slope of a ratio that is 1 everywhere."""


def derivative(f: Callable[[float], Any]) -> tuple[float, float]:
    """Return the derivative of a plain function at 0, and an estimate of its error.

    Args:
        f: takes a number, returns one.

    Raises:
        UndecidedError: no three steps agree to six digits.
    """
    known = functools.cache(lambda h: float(f(h)))

    def central(weights: dict[int, float], h: float) -> float:
        return sum(weight * (known(k * h) - known(-k * h)) for k, weight in weights.items()) / h

    steps = [LARGEST / 2**k for k in range(COUNT)]
    with np.errstate(all="ignore"):
        slopes = np.array([central(EIGHTH, h) for h in steps])
        rough = np.array([central(SIXTH, h) for h in steps])
        apart = np.abs(np.diff(slopes))
        errors = np.maximum(np.maximum(apart[:-1], apart[1:]), np.abs(slopes - rough)[1:-1])
    if not np.any(np.isfinite(errors)):
        raise UndecidedError("differences are not finite")
    best = int(np.nanargmin(errors))
    slope, error = float(slopes[best + 1]), float(errors[best])
    if not error <= 1e-6 * max(abs(slope), abs(known(0.0))):
        raise UndecidedError(f"differences do not converge: {slope} with an error of {error}")
    return slope, error


def compare(what: str, found: Any, f: Callable[[float], Any], precision: float = 1e-8) -> None:
    """Compare a derivative with that of a plain function at 0.

    The error of the differences is estimated from a few numbers, and may be some times as large. `precision` is how
    exact the derivative is to be.

    Raises:
        WrongError: it is another one.
        UndecidedError: it cannot be told.
    """
    slope, error = derivative(f)
    allowed = 50 * error + precision * abs(slope) + 1e-11 * abs(float(f(0.0))) + ROUNDING
    if not abs(float(found) - slope) <= allowed:
        raise WrongError(f"{what} is {float(found)!r}; differences say {slope!r}, with an error of {error:.1e}")
