"""Implicit reparametrization: the velocity of a draw, computed from the distribution function.

IMPLICIT["gamma"]     the operation of a draw, with its velocities for all parameters
dirichlet(...)        several numbers at once, whose sum is 1

Velocities are computed in the variable in which the distribution function is accurate in both tails, such as log x for
the gamma distribution: with its density q there, v = -x (dF/da) / q, and q neither overflows for x close to 0 nor
underflows before F does. The integrals dF/da are those of `fgrad.scipy.stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from fgrad.core.foreign import LOOKING_AT_VALUES
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.random._drawing import Pathwise
from fgrad.scipy import _special as special
from fgrad.scipy.stats._integrals import Law
from fgrad.scipy.stats._laws import BETA, F_RATIO, GAMMA, STUDENT, VONMISES
from fgrad.typing import Array, Operand


def _speed(law: Law, place: int, log_scale: Operand, x: Array, *parameters: Array) -> Any:
    """Return -(dF/dp) / f for one of the parameters, divided by a scale whose logarithm is given."""
    density = np.exp(law.log_density(x, *parameters) + log_scale)
    return -law.slope(place, x, *parameters) / density


def _of_positive(law: Law, place: int) -> Callable[..., Any]:
    """Return the derivative of a positive draw with respect to a parameter; 0 for a draw that was rounded to 0."""

    def velocity(x: Array, *parameters: Array) -> Array:
        zero = np.equal(x, 0)
        x = np.where(zero, 1.0, x)
        return np.where(zero, 0.0, x * _speed(law, place, np.log(x), x, *parameters))

    return velocity


_gamma_velocity = _of_positive(GAMMA, 0)
_f_velocities = _of_positive(F_RATIO, 0), _of_positive(F_RATIO, 1)


def _log_odds_velocity(place: int, x: Array, a: Array, b: Array) -> Array:
    """Return the derivative of the logarithm of x / (1 - x) for a beta distributed x; 0 where it is infinite."""
    end = np.logical_or(np.equal(x, 0), np.equal(x, 1))
    x = np.where(end, 0.5, x)
    return np.where(end, 0.0, _speed(BETA, place, np.log(x) + np.log1p(-x), x, a, b))


def _beta_velocity(place: int) -> Callable[..., Any]:
    return lambda x, a, b: x * (1 - x) * _log_odds_velocity(place, x, a, b)


def _wald_velocity(x: Array, mean: Array, scale: Array) -> Any:
    """Return the derivative of a draw with respect to the mean.

    The derivative of the distribution function is -(2 scale / mean^2) exp(2 scale / mean) ndtr(-y), with y = sqrt(scale
    / x) (x / mean + 1); divided by the density it is a Mills ratio, which never is 0 / 0.
    """
    y = np.sqrt(scale / x) * (x / mean + 1)
    mills = sqrt(pi / 2) * special.erfcx(y / sqrt(2))
    return 2 * np.sqrt(scale * x) * x / mean**2 * mills


def _vonmises_velocity(x: Array, mu: Array, kappa: Array) -> Any:
    turned = x - mu
    angle = turned - 2 * pi * np.rint(turned / (2 * pi))  # from -pi to pi
    return _speed(VONMISES, 0, 0.0, angle, kappa)


# fmt: off
_LAWS = (
    Pathwise("standard_gamma", lambda a: special.gammaincinv(a, 0.37), (_gamma_velocity,)),
    Pathwise(
        "gamma",
        lambda a, scale: scale * special.gammaincinv(a, 0.37),
        (lambda x, a, scale: scale * _gamma_velocity(x / scale, a), lambda x, a, scale: x / scale),
    ),
    Pathwise(
        "chisquare",
        lambda df: 2 * special.gammaincinv(df / 2, 0.37),
        (lambda x, df: _gamma_velocity(x / 2, df / 2),),
    ),
    Pathwise("beta", lambda a, b: special.betaincinv(a, b, 0.37), (_beta_velocity(0), _beta_velocity(1))),
    Pathwise("f", lambda n, m: special.fdtri(n, m, 0.37), _f_velocities, (2.0, 5.0)),
    Pathwise(
        "standard_t", lambda df: special.stdtrit(df, 0.37), (lambda x, df: _speed(STUDENT, 0, 0.0, x, df),), (2.0, 5.0)
    ),
    Pathwise(
        "vonmises",
        lambda mu, kappa: mu + stats.vonmises.ppf(0.37, kappa),
        (lambda x, mu, kappa: np.ones_like(x), _vonmises_velocity),
    ),
    Pathwise(
        "wald",
        lambda mean, scale: stats.invgauss.ppf(0.37, mean / scale, scale=scale),
        (_wald_velocity, lambda x, mean, scale: (x - mean * _wald_velocity(x, mean, scale)) / scale),
    ),
)
# fmt: on
IMPLICIT = {law.name: law for law in _LAWS}


# The Dirichlet distribution: the part x_j is beta distributed, and the other parts divide the rest in proportions that
# do not depend on alpha_j. So with u_j the velocity of log x_j / (1 - x_j), dx_i / d alpha_j = x_i (delta_ij - x_j)
# u_j.


def _dirichlet(alpha: Array, draw: Callable[[Any], Any], dims: int) -> Any:
    if alpha.ndim == 1:
        return draw(alpha)
    found = np.stack([_dirichlet(each, draw, dims) for each in alpha]) if len(alpha) else None
    return np.zeros((*alpha.shape[:-1], *(0,) * dims, alpha.shape[-1])) if found is None else found


def _log_odds_velocities(x: Array, alpha: Array, dims: int) -> Any:
    """Return the velocity of the logarithm of the odds of each part, with respect to its own parameter."""
    count = alpha.shape[-1]
    if count == 1:
        return np.zeros_like(x)
    others = alpha @ (1 - np.eye(count))
    lead, one = alpha.shape[:-1], (1,) * dims
    return _log_odds_velocity(0, x, np.reshape(alpha, (*lead, *one, count)), np.reshape(others, (*lead, *one, count)))


def _shared(x: Array, changes: Array) -> Any:
    """Return the change of parts of 1 for a change of the logarithms of their sizes."""
    return x * (changes - np.sum(x * changes, axis=-1, keepdims=True))


def _dirichlet_rule(ans: Array, alpha: Array, draw: Callable[..., Any], dims: int) -> Callable[[Any], Any]:
    lead = alpha.ndim - 1
    return lambda ct: np.sum(
        _log_odds_velocities(ans, alpha, dims) * _shared(ans, ct), axis=tuple(range(lead, lead + dims))
    )


def _dirichlet_tangent(tangents: Sequence[Any], ans: Array, alpha: Array, draw: Callable[..., Any], dims: int) -> Any:
    t = np.reshape(tangents[0], (*alpha.shape[:-1], *(1,) * dims, alpha.shape[-1]))
    return _shared(ans, _log_odds_velocities(ans, alpha, dims) * t).astype(ans.dtype)


def _even_draw(size: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return a substitute for a draw in the generic tests."""
    return lambda alpha: np.broadcast_to(alpha / np.sum(alpha), (*size, *alpha.shape)).astype(np.float64)


LOOKING_AT_VALUES.add("draw_dirichlet")
_DIRICHLET: Primitive = Primitive(
    "draw_dirichlet",
    _dirichlet,
    (_dirichlet_rule,),
    _dirichlet_tangent,
    lambda values, mapped, size, metadata: apply(_DIRICHLET, values, metadata),
    samples=tuple(
        sample(shape, domain=(0.5, 2), complex=False, draw=_even_draw(size), dims=len(size))
        for shape, size in (((3,), ()), ((3,), (2,)), ((1,), (2, 2)), ((2, 3), (2,)))
    ),
)
register(_DIRICHLET)


def dirichlet(alpha: object, draw: Callable[[Any], Any], dims: int) -> Any:
    """Return numbers whose sum along the last axis is 1; `draw` adds some axes before it."""
    return apply(_DIRICHLET, (alpha,), {"draw": draw, "dims": dims})
