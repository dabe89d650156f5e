"""Derivatives of special functions at random points of their domains, against mpmath's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special as special

import fgrad as fg
from fgrad import errors
from fuzz.case import REFUSED, RIGHT, UNDECIDED, WRONG, Outcome, UndecidedError

Range = tuple[float, float]
LINE: Range = (-12.0, 12.0)
POSITIVE: Range = (1e-3, 40.0)
UNIT: Range = (1e-3, 0.999)
SHAPE: Range = (0.1, 30.0)
ORDER: Range = (0.0, 6.0)


@dataclass(frozen=True)
class Special:
    """A special function of SciPy and of mpmath, which is differentiated in its last argument.

    Attributes:
        scipys: takes arrays.
        mpmaths: takes numbers of mpmath.
        ranges: where each argument is drawn from.
    """

    scipys: Callable[..., Any]
    mpmaths: Callable[..., Any]
    ranges: tuple[Range, ...]


def _log_ndtr(x: Any) -> Any:
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


FUNCTIONS: dict[str, Special] = {
    "gamma": Special(special.gamma, mp.gamma, ((-4.5, 30.0),)),
    "gammaln": Special(special.gammaln, lambda x: mp.log(abs(mp.gamma(x))), ((1e-3, 500.0),)),
    "psi": Special(special.psi, mp.digamma, ((-4.5, 60.0),)),
    "rgamma": Special(special.rgamma, mp.rgamma, ((-4.5, 30.0),)),
    "erf": Special(special.erf, mp.erf, ((-5.0, 5.0),)),
    "erfc": Special(special.erfc, mp.erfc, ((-5.0, 25.0),)),
    "erfcx": Special(special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), ((-5.0, 60.0),)),
    "erfi": Special(special.erfi, mp.erfi, ((-5.0, 5.0),)),
    "erfinv": Special(special.erfinv, mp.erfinv, ((-0.999, 0.999),)),
    "dawsn": Special(special.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (LINE,)),
    "ndtr": Special(special.ndtr, mp.ncdf, ((-30.0, 8.0),)),
    "log_ndtr": Special(special.log_ndtr, _log_ndtr, ((-30.0, 8.0),)),
    "expit": Special(special.expit, lambda x: 1 / (1 + mp.exp(-x)), ((-40.0, 40.0),)),
    "log_expit": Special(special.log_expit, lambda x: -mp.log1p(mp.exp(-x)), ((-40.0, 40.0),)),
    "logit": Special(special.logit, lambda x: mp.log(x / (1 - x)), (UNIT,)),
    "exprel": Special(special.exprel, lambda x: mp.expm1(x) / x, (LINE,)),
    "expi": Special(special.expi, mp.ei, (POSITIVE,)),
    "exp1": Special(special.exp1, mp.e1, (POSITIVE,)),
    "spence": Special(special.spence, lambda x: mp.re(mp.polylog(2, 1 - x)), (POSITIVE,)),
    "entr": Special(special.entr, lambda x: -x * mp.log(x), (POSITIVE,)),
    "beta": Special(special.beta, mp.beta, (SHAPE, SHAPE)),
    "betaln": Special(special.betaln, lambda a, b: mp.log(mp.beta(a, b)), (SHAPE, SHAPE)),
    "gammainc": Special(special.gammainc, lambda a, x: mp.gammainc(a, 0, x, regularized=True), (SHAPE, POSITIVE)),
    "gammaincc": Special(special.gammaincc, lambda a, x: mp.gammainc(a, x, regularized=True), (SHAPE, POSITIVE)),
    "betainc": Special(special.betainc, lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), (SHAPE, SHAPE, UNIT)),
    "jv": Special(special.jv, mp.besselj, (ORDER, POSITIVE)),
    "yv": Special(special.yv, mp.bessely, (ORDER, POSITIVE)),
    "iv": Special(special.iv, mp.besseli, (ORDER, POSITIVE)),
    "kv": Special(special.kv, mp.besselk, (ORDER, POSITIVE)),
    "j0": Special(special.j0, lambda x: mp.besselj(0, x), (LINE,)),
    "i1": Special(special.i1, lambda x: mp.besseli(1, x), (LINE,)),
    "ellipk": Special(special.ellipk, mp.ellipk, ((-10.0, 0.999),)),
    "ellipe": Special(special.ellipe, mp.ellipe, ((-10.0, 0.999),)),
    "hyp1f1": Special(special.hyp1f1, mp.hyp1f1, ((0.2, 4.0), (0.2, 4.0), (-8.0, 8.0))),
    "hyp2f1": Special(special.hyp2f1, mp.hyp2f1, ((0.2, 3.0), (0.2, 3.0), (0.2, 4.0), (-0.9, 0.9))),
    "hyp0f1": Special(special.hyp0f1, mp.hyp0f1, ((0.2, 4.0), (-8.0, 8.0))),
    "xlogy": Special(special.xlogy, lambda x, y: x * mp.log(y), (POSITIVE, POSITIVE)),
    "cbrt": Special(special.cbrt, mp.cbrt, (POSITIVE,)),
    "boxcox": Special(special.boxcox, lambda x, p: (x**p - 1) / p, (POSITIVE, (0.1, 3.0))),
}

DIGITS = (40, 80, 160, 320)
CLOSE = 1e-7
"""How near a derivative must come, beside what rounding of the argument makes: SciPy's own values have 8 digits."""


def chosen(seed: int) -> tuple[str, np.random.Generator]:
    """Return the name of the function that a seed says, and the generator for all else."""
    rng = np.random.default_rng(seed + 1)
    return list(FUNCTIONS)[rng.integers(len(FUNCTIONS))], rng


def run(seed: int) -> Outcome:
    """Return what comes of the special function and point that a seed says."""
    name, rng = chosen(seed)
    entry, order = FUNCTIONS[name], int(rng.integers(1, 3))
    *fixed, x = (drawn(rng, *limits) for limits in entry.ranges)
    text = f"derivative {order} of scipy.special.{name} in its last argument, at {(*fixed, x)}"
    try:
        expected, sensitive = exact(entry, fixed, x, order)
        found = nested(lambda y: entry.scipys(*fixed, y), x, order, rng)
    except errors.FgradError as error:
        return Outcome(REFUSED, text, str(error))
    except UndecidedError as error:
        return Outcome(UNDECIDED, text, str(error))
    if not np.isfinite(expected) or not np.isfinite(entry.scipys(*fixed, x)):
        return Outcome(UNDECIDED, text, "the derivative or the value is not finite")
    if abs(found - expected) <= CLOSE * abs(expected) + 8 * sensitive:
        return Outcome(RIGHT, text)
    return Outcome(WRONG, text, f"fgrad says {found!r}, mpmath {expected!r}")


def drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a number between two, of any size where the range is above zero."""
    if low > 0 and rng.random() < 0.5:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(rng.uniform(low, high))


def exact(entry: Special, fixed: list[float], x: float, order: int) -> tuple[float, float]:
    """Return mpmath's derivative, and by how much it changes within the rounding of the argument.

    Raises:
        UndecidedError: more digits change it, whatever their number.
    """
    before = with_digits(DIGITS[0], entry, fixed, x, order)
    for digits in DIGITS[1:]:
        found = with_digits(digits, entry, fixed, x, order)
        if abs(found - before) <= 1e-12 * abs(found):
            change = with_digits(digits, entry, fixed, x, order + 1) * x
            return found, abs(change) * 2.0**-52
        before = found
    raise UndecidedError("mpmath's derivative depends on the digits")


def with_digits(digits: int, entry: Special, fixed: list[float], x: float, order: int) -> float:
    """Return mpmath's derivative with some number of digits."""
    with mp.workdps(digits):

        def function(y: Any) -> Any:
            return entry.mpmaths(*map(mp.mpf, fixed), y)

        return float(mp.re(mp.diff(function, mp.mpf(x), order)))


def nested(f: Callable[[Any], Any], x: float, order: int, rng: np.random.Generator) -> float:
    """Return a derivative of some order, each in a random mode."""
    for _ in range(order):
        f = fg.grad(f) if rng.random() < 0.5 else forward(f)
    return float(f(np.float64(x)))


def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the derivative of a function of one number, by forward mode."""
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]
