"""Quantiles without a closed form: the value is SciPy's, the derivatives follow from those of the tail.

    inverse(name, value, tail, log_density, ...)    where a distribution function, or a survival function, is `q`

Where F(x; a) = q, the implicit function theorem says dx/dq = 1 / F' and dx/da = -(dF/da) / F', with the density F'. The
rules are ordinary code at the quantile itself, so every order follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive, Rule
from fgrad.ops.families import Domain, elementwise
from fgrad.transforms.forward import jvp

Formula = Callable[..., Any]


def inverse(
    name: str, value: Formula, tail: Formula, log_density: Formula, *domains: Domain, above: bool = False
) -> Primitive:
    """Declare the inverse of a tail as an operation on a probability and the shape parameters.

    Args:
        name: of the operation.
        value: SciPy's method, of the probability and the shapes.
        tail: the distribution function of the standard form, or the survival function, of the argument and the shapes.
        log_density: the logarithm of the density, likewise.
        domains: where samples of each shape parameter may lie.
        above: whether the tail is the survival function.
    """
    sign = -1.0 if above else 1.0

    def slope(place: int, x: Any, shapes: tuple[Any, ...]) -> Any:
        steepness = sign * np.exp(log_density(x, *shapes))
        if place == 0:
            return 1 / steepness

        def of_shape(shape: Any) -> Any:
            return tail(x, *shapes[: place - 1], shape, *shapes[place:])

        shape = shapes[place - 1]
        return -jvp(of_shape, (shape,), (np.ones_like(shape),))[1] / steepness

    def rule(place: int) -> Rule:
        return lambda ans, q, *shapes: lambda ct: ct * slope(place, ans, shapes)

    rules = [rule(place) for place in range(1 + len(domains))]
    numbers = ((),) * len(domains)
    shapes = (((), *numbers), ((2,), *numbers))
    return elementwise(value, *rules, name=name, domain=((0.1, 0.9), *domains), complex=False, shapes=shapes)
