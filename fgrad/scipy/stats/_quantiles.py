"""Quantiles without a closed form: SciPy's values, with derivatives from those of the tail.

    inverse(name, value, tail, log_density, ...)    the inverse of a distribution function, or of a survival function

If F(x; a) = q, the implicit function theorem gives dx/dq = 1 / F' and dx/da = -(dF/da) / F', with the density F'. The
rules are composed of ordinary operations at the quantile, so derivatives of every order follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive, Rule
from fgrad.ops.families import Domain, elementwise
from fgrad.scipy.stats._integrals import with_slope
from fgrad.typing import Array

Formula = Callable[..., Any]


def inverse(
    name: str,
    value: Formula,
    tail: Formula,
    log_density: Formula,
    *domains: Domain,
    above: bool = False,
    of_log: bool = False,
) -> Primitive:
    """Declare the inverse of a tail as an operation on a probability and the shape parameters.

    Args:
        name: the name of the operation.
        value: SciPy's method, of the probability and the shapes.
        tail: the distribution function or survival function of the standard form, of the argument and the shapes.
        log_density: the logarithm of the density, likewise.
        domains: the sample intervals of the shape parameters.
        above: whether the tail is the survival function.
        of_log: whether `log_density` is that of the logarithm of the argument, which does not underflow for quantiles
            of any size.
    """
    sign = -1.0 if above else 1.0

    def slope(place: int, x: Array, shapes: tuple[Any, ...]) -> Any:
        steepness = sign * np.exp(log_density(x, *shapes))
        unit = x if of_log else 1.0
        if place == 0:
            return unit / steepness
        return -with_slope(tail, place, (x, *shapes))[1] / steepness * unit

    def rule(place: int) -> Rule:
        return lambda ans, q, *shapes: lambda ct: ct * slope(place, ans, shapes)

    rules = [rule(place) for place in range(1 + len(domains))]
    numbers = ((),) * len(domains)
    shapes = (((), *numbers), ((2,), *numbers))
    return elementwise(value, *rules, name=name, domain=((0.1, 0.9), *domains), complex=False, shapes=shapes)
