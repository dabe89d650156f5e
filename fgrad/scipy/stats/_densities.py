"""The logarithm of a density with a location and a scale as one operation, with closed-form partial derivatives.

    log_density(name, formula, falls, scores)    a primitive of the distance from the location, the scale, the shapes
    small_density(of, *args)                     its exponential, also where that leaves the range of numbers

With `f` the logarithm of the density of the standard form and y = distance / scale it is f(y) - log scale. The fall of
the logarithm is -f'(y), which for the commonest distributions is simpler than the derivative. The derivatives are

    by the distance    -fall / scale
                       -(y fall) / distance
    by the scale       (y fall - 1) / scale
    by a shape         the score, df / dshape at y

Of densities that are a power next to 0 the relative fall, y fall, is known instead: it leaves the range of numbers
later, and what falls as 1 / y does not depend on the scale, which derivatives by both would find as a difference.

The rules are written so that NumPy computes most of their operations in place: with binary operators, whose operands
are results that nobody else refers to.

It holds inside of the support, for parameters that are allowed and where the result is finite: what calls it makes
sure of that (`_univariate.py`), so that nothing is masked here, neither forward nor backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import PRIMITIVES, ZERO, Primitive, Rule
from fgrad.core.tensor import apply
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import ForEach, elementwise, register, sample, scale, scaled_sum
from fgrad.scipy.stats._integrals import flat_exp

Formula = Callable[..., Any]

SHAPES = (
    (((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((0, 3), (3,))),
    (((), (), ()), ((3,), (), (2, 1)), ((), (3,), ()), ((0, 3), (3,), (1,))),
    (((), (), (), ()), ((3,), (), (2, 1), ()), ((), (), (3,), (2, 1)), ((0, 3), (3,), (1,), ())),
)
"""The shapes of samples, by the number of shape parameters."""


def log_density(
    name: str, formula: Formula, falls: Sequence[Formula], scores: Sequence[Formula], place: tuple[float, float]
) -> Primitive:
    """Declare the logarithm of a density as an operation on the distance from the location, the scale and the shapes.

    Args:
        name: of the distribution.
        formula: the logarithm of the density of the standard form, of the standardized argument and the shapes.
        falls: its derivatives by the distance and the scale, of `partials_of`.
        scores: its derivatives in the shapes.
        place: where samples of the distance may lie, for a scale above 2.
    """

    def value(distance: Any, scale: Any, *shapes: Any) -> Any:
        return formula(distance / scale, *shapes) - np.log(scale)

    partials = [*falls, *map(_by_shape, scores)]
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


def partials_of(fall: Formula | None, relative_fall: Formula | None) -> Sequence[Formula]:
    """Return the derivatives by the distance and the scale, from the one of both formulas that there is, or none."""
    if fall is not None:
        return (
            lambda distance, scale, *shapes: fall(distance / scale, *shapes) / -scale,
            lambda distance, scale, *shapes: _by_scale(distance / scale, fall, scale, *shapes),
        )
    if relative_fall is not None:
        return (
            lambda distance, scale, *shapes: relative_fall(distance / scale, *shapes) / -distance,
            lambda distance, scale, *shapes: (relative_fall(distance / scale, *shapes) - 1) / scale,
        )
    return ()


def _by_scale(y: Any, fall: Formula, scale: Any, *shapes: Any) -> Any:
    return (y * fall(y, *shapes) - 1) / scale


def _by_shape(score: Formula) -> Formula:
    return lambda distance, scale, *shapes: score(distance / scale, *shapes)


def _rule(partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: ct * partial(*args)


def _contracted(argnum: int, partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: scaled_sum(ct, partial(*args), args[argnum].shape)


def _by_halves(argnum: int, *args: Any, of: str) -> Callable[[Any], Any]:
    """Return the pullback of a density that is 0 in double precision, which its derivative need not be.

    The derivative is the density times that of its logarithm. With a root of the density on either side, such as
    1e-225 * 1e300 * 1e-225, the product does not leave the range of numbers before it is done.
    """
    primitive = PRIMITIVES[of]
    rules: Any = primitive.vjps

    def pullback(ct: Any) -> Any:
        root = flat_exp(apply(primitive, args) / 2)
        return ct * scale(root, rules[argnum](None, *args)(root))

    return pullback


def _small_tangent(tangents: Sequence[Any], ans: Any, *args: Any, of: str) -> Any:
    parts = [_by_halves(place, *args, of=of)(t) for place, t in enumerate(tangents) if t is not ZERO]
    return sum(parts[1:], parts[0])


_small = Primitive(
    "small_density",
    lambda *args, of: np.exp(PRIMITIVES[of].implementation(*args)),
    ForEach(lambda argnum, ans, *args, of: _by_halves(argnum, *args, of=of)),
    _small_tangent,
    broadcasts=True,
    scales=True,
    guards_tangents=True,
    is_elementwise=True,
    samples=(
        sample((), (), (), domain=((0.5, 1.5), (2.0, 3.0), (1.2, 2.5)), complex=False, of="gamma_log_density"),
        sample((3,), (), (2, 1), domain=((0.5, 1.5), (2.0, 3.0), (1.2, 2.5)), complex=False, of="gamma_log_density"),
    ),
)
_small.batch = elementwise_batch(_small)
register(_small)


def small_density(of: Primitive, *args: Any) -> Any:
    """Return the density of which a primitive is the logarithm."""
    return apply(_small, args, {"of": of.name})
