"""The logarithm of a density with a location and a scale as one operation, with closed-form partial derivatives.

    log_density(name, formula, fall, scores)     a primitive of the distance from the location, the scale, the shapes

With `f` the logarithm of the density of the standard form and y = distance / scale it is f(y) - log scale. The fall of
the logarithm is -f'(y), which for the commonest distributions is simpler than the derivative. The derivatives are

    by the distance    -fall / scale
    by the scale       (y fall - 1) / scale
    by a shape         the score, df / dshape at y

The rules are written so that NumPy computes most of their operations in place: with binary operators, whose operands
are results that nobody else refers to.

It holds inside of the support, for parameters that are allowed and where the result is finite: what calls it makes
sure of that (`_univariate.py`), so that nothing is masked here, neither forward nor backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive, Rule
from fgrad.ops.families import elementwise, scaled_sum

Formula = Callable[..., Any]

SHAPES = (
    (((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((0, 3), (3,))),
    (((), (), ()), ((3,), (), (2, 1)), ((), (3,), ()), ((0, 3), (3,), (1,))),
    (((), (), (), ()), ((3,), (), (2, 1), ()), ((), (), (3,), (2, 1)), ((0, 3), (3,), (1,), ())),
)
"""The shapes of samples, by the number of shape parameters."""


def log_density(
    name: str, formula: Formula, fall: Formula, scores: Sequence[Formula], place: tuple[float, float]
) -> Primitive:
    """Declare the logarithm of a density as an operation on the distance from the location, the scale and the shapes.

    Args:
        name: of the distribution.
        formula: the logarithm of the density of the standard form, of the standardized argument and the shapes.
        fall: minus its derivative in the argument.
        scores: its derivatives in the shapes.
        place: where samples of the distance may lie, for a scale above 2.
    """

    def value(distance: Any, scale: Any, *shapes: Any) -> Any:
        return formula(distance / scale, *shapes) - np.log(scale)

    def by_distance(distance: Any, scale: Any, *shapes: Any) -> Any:
        return fall(distance / scale, *shapes) / -scale

    def by_scale(distance: Any, scale: Any, *shapes: Any) -> Any:
        y = distance / scale
        return (y * fall(y, *shapes) - 1) / scale

    partials = [by_distance, by_scale, *map(_by_shape, scores)]
    primitive = elementwise(
        value,
        *map(_rule, partials),
        name=f"{name}_log_density",
        domain=(place, (2.0, 3.0), *((1.2, 2.5) for _ in scores)),
        complex=False,
        shapes=SHAPES[len(scores)],
    )
    primitive.contracted = [_contracted(place, partial) for place, partial in enumerate(partials)]
    return primitive


def _by_shape(score: Formula) -> Formula:
    return lambda distance, scale, *shapes: score(distance / scale, *shapes)


def _rule(partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: ct * partial(*args)


def _contracted(argnum: int, partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: scaled_sum(ct, partial(*args), args[argnum].shape)
