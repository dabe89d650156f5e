"""The logarithm of a density with a location and a scale as one operation, and densities that are far out.

    Form(name, formula, fall, power, rest, scores)    what is known of a density in its standard form
    log_density(form, place)                          its logarithm: an operation on distance, scale and shapes
    far_density(form, distance, scale, *shapes)       the density, where it or its derivatives may leave the range

With `f` the logarithm of the density of the standard form and y = distance / scale it is f(y) - log scale. The fall of
the logarithm is -f'(y), which for the commonest distributions is simpler than the derivative. The derivatives are

    by the distance    -fall / scale
                       -(y fall) / distance
    by the scale       (y fall - 1) / scale
    by a shape         the score, df / dshape at y

Of densities that are a power next to 0 the relative fall, y fall, is known instead, as the rest of it without the
power: it leaves the range of numbers later, and what falls as 1 / y does not depend on the scale, which derivatives by
both would find as a difference.

The derivatives of the density are exp(f(y)) times powers of 1 / distance and 1 / scale, times a factor that is a
number of ordinary size. Far out each of the three may leave the range of numbers where the product does not: half of
x**2 exp(-x) at 1e-165 is 0, and its second derivative 1. So the logarithms are added up first, and the factor
of an order comes from that of the one before, with the powers taken off in whole numbers, where nothing cancels:
the derivatives of x exp(-x) next to 0 are 1 and -2, and not differences of 1 / x.

The rules are written so that NumPy computes most of their operations in place: with binary operators, whose operands
are results that nobody else refers to.

It holds inside of the support, for parameters that are allowed and where the result is finite: what calls it makes
sure of that (`_univariate.py`), so that nothing is masked here, neither forward nor backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive, Rule
from fgrad.core.tensor import apply, settle
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import ForEach, elementwise, register, sample, scaled_sum
from fgrad.scipy.stats._integrals import NOTHING
from fgrad.transforms.forward import jvp

Formula = Callable[..., Any]
Orders = tuple[int, ...]

SHAPES = (
    (((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((0, 3), (3,))),
    (((), (), ()), ((3,), (), (2, 1)), ((), (3,), ()), ((0, 3), (3,), (1,))),
    (((), (), (), ()), ((3,), (), (2, 1), ()), ((), (), (3,), (2, 1)), ((0, 3), (3,), (1,), ())),
)
"""The shapes of samples, by the number of shape parameters."""

FORMS: dict[str, Form] = {}
"""The forms by their names, by which operations in recorded programs refer to them."""


@dataclass(eq=False)
class Form:
    """The density of a distribution in its standard form.

    Attributes:
        name: of the distribution.
        formula: the logarithm of the density, of the standardized argument and the shape parameters.
        fall: minus its derivative in the argument.
        power, rest: in place of the fall: the power of the argument that is a factor of the density, a function of the
            shapes; and the fall of the logarithm without it, times the argument.
        scores: its derivatives in the shape parameters.
    """

    name: str
    formula: Formula
    fall: Formula | None
    power: Formula | None
    rest: Formula | None
    scores: tuple[Formula, ...]

    def __post_init__(self) -> None:
        FORMS[self.name] = self

    @property
    def is_closed(self) -> bool:
        """Whether the derivatives of the logarithm are given, and need not be found."""
        return self.fall is not None or self.power is not None

    def partials(self) -> Sequence[Formula]:
        """Return the derivatives of the logarithm by distance, scale and shapes."""
        scores = map(_by_shape, self.scores)
        fall, power, rest = self.fall, self.power, self.rest
        if fall is not None:
            return (
                lambda distance, scale, *shapes: fall(distance / scale, *shapes) / -scale,
                lambda distance, scale, *shapes: _by_scale(distance / scale, fall, scale, *shapes),
                *scores,
            )
        return (
            lambda distance, scale, *shapes: (rest(distance / scale, *shapes) - power(*shapes)) / -distance,
            lambda distance, scale, *shapes: (rest(distance / scale, *shapes) - (power(*shapes) + 1)) / scale,
            *scores,
        )

    def powers(self, orders: Orders) -> tuple[int, int]:
        """Return the powers of 1 / distance and 1 / scale in a derivative of the density, besides its factor."""
        by_distance, by_scale = orders[:2]
        return (0, by_distance + by_scale) if self.power is None else (by_distance, by_scale)

    def factor(self, orders: Orders, y: Any, *shapes: Any) -> Any:
        """Return a derivative of the density, divided by the density and by powers of the distance and the scale."""
        place = max(place for place, order in enumerate(orders) if order)
        lower = _changed(orders, place, -1)
        slope = self._slope(place, lower, y, *shapes)
        if not any(lower):
            return slope
        if place < 2:
            along = y if self.power is not None or place else np.ones_like(y)
            value, change = jvp(lambda y: self.factor(lower, y, *shapes), (y,), (-along if place else along,))
        else:
            value, change = _moved(lambda *shapes: self.factor(lower, y, *shapes), place - 2, shapes)
        return slope * value + change

    def _slope(self, place: int, lower: Orders, y: Any, *shapes: Any) -> Any:
        """Return the factor that one more derivative brings, apart from that of the factor there is."""
        if place >= 2:
            return self._score(place - 2, y, *shapes)
        by_distance, by_scale = self.powers(lower)
        if self.power is None:
            fall = self._fall(y, *shapes)
            return y * fall - (1 + by_scale) if place else -fall
        power, rest = self.power(*shapes), self.rest(y, *shapes)
        return rest - (power + (1 + by_scale)) if place else (power - by_distance) - rest

    def _fall(self, y: Any, *shapes: Any) -> Any:
        if self.fall is not None:
            return self.fall(y, *shapes)
        return -jvp(lambda y: self.formula(y, *shapes), (y,), (np.ones_like(y),))[1]

    def _score(self, place: int, y: Any, *shapes: Any) -> Any:
        if self.scores:
            return self.scores[place](y, *shapes)
        return _moved(lambda *shapes: self.formula(y, *shapes), place, shapes)[1]


def _changed(orders: Orders, place: int, by: int) -> Orders:
    return tuple(order + by * (i == place) for i, order in enumerate(orders))


def _moved(function: Formula, place: int, shapes: Sequence[Any]) -> tuple[Any, Any]:
    """Return a function of the shape parameters and its derivative in one of them."""
    before, after = shapes[:place], shapes[place + 1 :]
    return jvp(lambda shape: function(*before, shape, *after), (shapes[place],), (np.ones_like(shapes[place]),))


def _by_scale(y: Any, fall: Formula, scale: Any, *shapes: Any) -> Any:
    return (y * fall(y, *shapes) - 1) / scale


def _by_shape(score: Formula) -> Formula:
    return lambda distance, scale, *shapes: score(distance / scale, *shapes)


def log_density(form: Form, place: tuple[float, float]) -> Primitive:
    """Declare the logarithm of a density as an operation on the distance from the location, the scale and the shapes.

    Args:
        form: the density, whose derivatives are given.
        place: where samples of the distance may lie, for a scale above 2.
    """

    def value(distance: Any, scale: Any, *shapes: Any) -> Any:
        return form.formula(distance / scale, *shapes) - np.log(scale)

    partials = form.partials()
    primitive = elementwise(
        value,
        *map(_rule, partials),
        name=f"{form.name}_log_density",
        domain=(place, (2.0, 3.0), *((1.2, 2.5) for _ in form.scores)),
        complex=False,
        shapes=SHAPES[len(form.scores)],
    )
    primitive.contracted = [_contracted(place, partial) for place, partial in enumerate(partials)]
    return primitive


def _rule(partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: ct * partial(*args)


def _contracted(argnum: int, partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: scaled_sum(ct, partial(*args), args[argnum].shape)


def _far_value(distance: Any, scale: Any, *shapes: Any, of: str, orders: Orders) -> Any:
    """Return a density, or a derivative of it: with its root on either side, no product leaves the range too early."""
    form, y = FORMS[of], distance / scale
    by_distance, by_scale = form.powers(orders)
    logarithm = form.formula(y, *shapes) - (1 + by_scale) * np.log(scale)
    if not any(orders):
        return np.exp(logarithm)
    if by_distance:
        logarithm = logarithm - by_distance * np.log(np.abs(distance))
    root = np.exp(logarithm / 2)
    found = root * settle(form.factor(orders, y, *shapes)) * root
    if by_distance % 2:
        found = found * np.sign(distance)
    # There a factor that has left the range of numbers would make NaN of what is 0.
    return np.where(np.less(logarithm, NOTHING), 0.0, found)


def _derivative(argnum: int, args: Sequence[Any], of: str, orders: Orders) -> Any:
    return apply(_far, args, {"of": of, "orders": _changed(orders, argnum, 1)})


def _far_tangent(tangents: Sequence[Any], ans: Any, *args: Any, of: str, orders: Orders) -> Any:
    parts = [t * _derivative(place, args, of, orders) for place, t in enumerate(tangents) if t is not ZERO]
    return sum(parts[1:], parts[0])


def _far_samples() -> Any:
    domain = ((0.5, 1.5), (2.0, 3.0), (1.2, 2.5))
    for of, orders, shapes in (
        ("gamma", (0, 0, 0), ((), (), ())),
        ("gamma", (0, 0, 0), ((3,), (), (2, 1))),
        ("gamma", (1, 1, 0), ((3,), (), (2, 1))),
        ("lomax", (1, 1, 1), ((3,), (), (2, 1))),
    ):
        yield sample(*shapes, domain=domain, complex=False, of=of, orders=orders)


_far = Primitive(
    "far_density",
    np.errstate(all="ignore")(_far_value),
    ForEach(lambda argnum, ans, *args, of, orders: lambda ct: ct * _derivative(argnum, args, of, orders)),
    np.errstate(all="ignore")(_far_tangent),
    broadcasts=True,
    scales=True,
    guards_tangents=True,
    is_elementwise=True,
    samples=tuple(_far_samples()),
)
_far.batch = elementwise_batch(_far)
register(_far)


def far_density(form: Form, distance: Any, scale: Any, *shapes: Any) -> Any:
    """Return the density, whose derivatives are right where it is 0 in double precision and they are not."""
    return apply(_far, (distance, scale, *shapes), {"of": form.name, "orders": (0,) * (2 + len(shapes))})
