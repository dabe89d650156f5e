"""Score-function gradients: derivatives of expectations over draws that are not differentiable.

score_function(cost, log_probability)    the cost, with the derivative of its expectation
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.ops.tracing import concrete_value
from fgrad.typing import ArrayLike


def score_function(cost: ArrayLike, log_probability: ArrayLike, baseline: ArrayLike = 0.0) -> Any:
    """Return a cost whose derivatives are those of its expectation over a draw, in place of those of the draw.

    For a draw from a distribution with parameters, E[cost] also depends on them through the probability of each draw.
    The value returned is the cost; its derivative is that of the cost, plus

        (cost - baseline) * d log_probability

    whose expectation completes the derivative of E[cost] (Williams 1992, https://doi.org/10.1007/BF00992696). It holds
    to any order, as the factor exp(log_probability - stop_gradient(log_probability)) equals 1 and has the right
    derivatives (Foerster et al. 2018, https://arxiv.org/abs/1802.05098).

    Args:
        cost: one number for each draw. A cost of several draws together needs their joint probability.
        log_probability: the logarithm of the probability, or density, of each draw, as a function of the parameters.
            Its shape is that of `cost`, or broadcasts to it.
        baseline: a number that does not depend on the draw, such as the mean of earlier costs. It leaves expectations
            unchanged; the closer it is to the cost, the smaller the variance of the derivatives.

    Returns:
        An array of the shape of `cost`.

    Raises:
        ShapeError: a ValueError; `log_probability` or `baseline` has another shape than `cost`.
        ParameterError: a ValueError; a draw has probability 0, or its logarithm is NaN.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> from fgrad.scipy import stats
        >>> rng = fg.random.default_rng(0)
        >>> def expected_square(rate):
        ...     draws = rng.poisson(fg.stop_gradient(rate), size=200_000)
        ...     return np.mean(fg.score_function(draws**2.0, stats.poisson.logpmf(draws, rate), baseline=6.0))
        >>> bool(abs(fg.grad(expected_square)(2.0) - 5.0) < 0.1)      # of rate + rate**2
        True
    """
    cost, log_probability, baseline = map(as_array, (cost, log_probability, baseline))
    for name, x in (("log_probability", log_probability), ("baseline", baseline)):
        _check_shape(name, x.shape, cost.shape)
    constant = stop_gradient_of(log_probability)
    _check_finite(constant)
    factor = np.exp(log_probability - constant)
    return cost * factor + stop_gradient_of(baseline) * (1 - factor)


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise errors.ShapeError(
            f"score_function: {name} has shape {shape}, and cost has shape {wanted}.\n"
            "Pass one number for each draw: sum the logarithms over the axes that belong to one draw, and compute one "
            "cost for each."
        )


def _check_finite(log_probability: Any) -> None:
    value = concrete_value(log_probability)
    if value is not None and not np.all(np.isfinite(value)):
        raise errors.ParameterError(
            "score_function: log_probability is not finite, so that the draw has probability 0 or an undefined one.\n"
            f"  at {errors.users_line()}\n"
            "Draw with the same parameters as in the probability, in fg.stop_gradient."
        )
