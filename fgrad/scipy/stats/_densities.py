"""Logarithms of densities with location and scale as one operation, and densities far out in the tails.

    Form(name, formula, fall, power, rest, scores)    the density of a standard form
    log_density(form, place)                          its logarithm: an operation on distance, scale and shapes
    far_density(form, distance, scale, *shapes)       the density where it or its derivatives may underflow or overflow

With f the logarithm of the density of the standard form and y = distance / scale, it is f(y) - log scale. The fall
is -f'(y), which for the most common distributions is simpler than the derivative. The derivatives are

    in distance        -fall / scale
                       -(y fall) / distance
    in scale           (y fall - 1) / scale
    in a shape         the score, df / dshape at y

For densities that behave like a power near 0, the fall is given without that power, whose contribution is added
separately: it overflows later, and terms 1 / y do not depend on the scale, so that derivatives with respect to both
do not cancel.

A density far out, or near 0, may underflow where its derivatives do not: half of x**2 exp(-x) at
1e-165 is 0, and its second derivative 1. For powers, the derivatives of the logarithm do not suffice: those of
x exp(-x) near 0 are 1 and -2, and not differences of 1 / x. There they are sums of terms

    coefficient  density(y)  y**i  share_j(y)  /  scale**(n + m)

with n and m the orders in distance and scale. The share is the derivative of order j of the factor of the power,
divided by this factor. The coefficients are those of derivatives of powers, which are exactly 0 once a power has been
differentiated away. No intermediate product overflows or underflows.

The rules are written so that NumPy computes most of their operations in place: with binary operators, whose operands
are temporary arrays.

The formulas hold inside of the support, for valid parameters and finite results. The callers ensure this
(`_univariate.py`), so that nothing is masked here, neither forward nor backward.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive, Rule
from fgrad.core.tensor import apply, strip_ended
from fgrad.core.unbroadcast import SUMMED
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import ForEach, elementwise, register, sample, scaled_sum
from fgrad.scipy.stats._integrals import NOTHING, raised, with_slope
from fgrad.typing import Array, ArrayLike, Operand

Formula = Callable[..., Any]
Orders = tuple[int, ...]

SHAPES = (
    (((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((0, 3), (3,))),
    (((), (), ()), ((3,), (), (2, 1)), ((), (3,), ()), ((0, 3), (3,), (1,))),
    (((), (), (), ()), ((3,), (), (2, 1), ()), ((), (), (3,), (2, 1)), ((0, 3), (3,), (1,), ())),
)
"""Shapes of samples, by the number of shape parameters."""

NEAR = 1e-3
"""Below this, and above its reciprocal, second derivatives would cancel beside the power."""

FORMS: dict[str, Form] = {}
"""The forms by name, by which operations in recorded programs refer to them."""


@dataclass(eq=False)
class Form:
    """The density of a distribution in its standard form.

    Attributes:
        name: the name of the distribution.
        formula: the logarithm of the density, as a function of the standardized argument and the shape parameters.
        fall: minus its derivative with respect to the argument.
        power: a function of the shape parameters: the argument times the density is this power of the argument, times
            something else. The fall is that of the logarithm of the latter.
        rest: the argument times the fall, if that is a shorter formula.
        squared: the square of the argument times the fall, if that is a constant: divided by the distance, it does not
            contribute to derivatives with respect to the scale, the second of which would otherwise cancel.
        tail_power, tail_fall: the same two for a density that is another power beyond 1.
        scores: its derivatives with respect to the shape parameters.
    """

    name: str
    formula: Formula
    fall: Formula | None
    power: Formula | None
    rest: Formula | None
    squared: float | None
    tail_power: Formula | None
    tail_fall: Formula | None
    scores: tuple[Formula, ...]

    def __post_init__(self) -> None:
        FORMS[self.name] = self

    def partials(self) -> Sequence[Formula]:
        """Return the derivatives of the logarithm with respect to distance, scale and shapes."""
        fall = self._fall_of_rest
        power, rest, scores = self.power, self.rest or _rest_of(fall), map(_by_shape, self.scores)
        if power is None:
            return (
                lambda distance, scale, *shapes: fall(distance / scale, *shapes) / -scale,
                lambda distance, scale, *shapes: (rest(distance / scale, *shapes) - 1) / scale,
                *scores,
            )
        return (
            lambda distance, scale, *shapes: (rest(distance / scale, *shapes) - (power(*shapes) - 1)) / -distance,
            self._power_by_scale(power, rest),
            *scores,
        )

    def _power_by_scale(self, power: Formula, rest: Formula) -> Formula:
        squared = self.squared
        if squared is None:
            return lambda distance, scale, *shapes: (rest(distance / scale, *shapes) - power(*shapes)) / scale
        return lambda distance, scale, *shapes: squared / distance - power(*shapes) / scale

    def has_power(self, y: Any) -> Any:
        """Return where standardized numbers are so near to 0, or so large, that a power dominates the density."""
        size, found = np.abs(y), np.False_
        if self.power is not None:
            found = np.logical_and(np.greater(size, 0), np.less(size, NEAR))
        if self.power is not None or self.tail_power is not None:
            found = np.logical_or(found, np.greater(size, 1 / NEAR))
        return found

    def degree(self, y: ArrayLike, *shapes: object) -> Any:
        """Return the power, a constant if it need not be separated from the rest."""
        power = 1.0 if self.power is None else self.power(*shapes)
        return power if self.tail_power is None else np.where(np.abs(y) > 1, self.tail_power(*shapes), power)

    def factor(self, orders: Orders, i: int, y: Any, *shapes: Array) -> Any:
        """Return the factor of the density in a term of a derivative, except for powers of the scale and `y**i`."""
        by_shapes = [place for place, order in enumerate(orders) if order and place > 1]
        if not by_shapes:
            of_power = coefficients(self.degree(y, *shapes), *orders)[i]
            return sum(each * self._share(j, y, *shapes) for j, each in of_power.items())
        lower, place = raised(orders, by_shapes[-1], by=-1), by_shapes[-1] - 2
        value, change = with_slope(lambda *shapes: self.factor(lower, i, y, *shapes), place, shapes)
        return self._score(place, y, *shapes) * value + change

    def _share(self, order: int, y: Array, *shapes: Array) -> Any:
        """Return a derivative of the density without its power, divided by the latter density."""
        if not order:
            return 1.0
        fall = self._fall(y, *shapes)
        if order == 1:
            return -fall
        value, change = with_slope(lambda y: self._share(order - 1, y, *shapes), 0, (y,))
        return change - fall * value

    def _fall(self, y: Array, *shapes: Array) -> Any:
        if self.tail_fall is not None and self.fall is not None:
            beyond = np.abs(y) > 1  # the unselected formula must not divide by 0
            far = self.tail_fall(np.where(beyond, y, 2.0), *shapes)
            return np.where(beyond, far, self.fall(np.where(beyond, 1.0, y), *shapes))
        return self._fall_of_rest(y, *shapes)

    def _fall_of_rest(self, y: Array, *shapes: Operand) -> Any:
        if self.fall is not None:
            return self.fall(y, *shapes)
        return -with_slope(self.formula, 0, (y, *shapes))[1]

    def _score(self, place: int, y: Array, *shapes: Array) -> Any:
        if self.scores:
            return self.scores[place](y, *shapes)
        return with_slope(self.formula, 1 + place, (y, *shapes))[1]


def coefficients(degree: Array, by_distance: int, by_scale: int, *others: int) -> dict[int, dict[int, Any]]:
    """Return the coefficients of a derivative's terms, by `i` and `j`, without those that are 0 for all shapes.

    Args:
        degree: the power of the argument, plus 1.
        by_distance, by_scale: the orders.
        others: the orders in the shape parameters, which do not affect the power.
    """
    terms = {(0, 0): 1.0}
    for _ in range(by_distance):
        moved = [{(i - 1, j): each * (degree - (1 - i)), (i, j + 1): each} for (i, j), each in terms.items()]
        terms = _added(moved)
    for order in range(by_distance, by_distance + by_scale):
        moved = [{(i, j): -each * (degree + (i + order)), (i + 1, j + 1): -each} for (i, j), each in terms.items()]
        terms = _added(moved)
    found: dict[int, dict[int, Any]] = {}
    for (i, j), each in terms.items():
        found.setdefault(i, {})[j] = each
    return found


def _added(many: Sequence[dict[tuple[int, int], Any]]) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], Any] = {}
    for place, coefficient in itertools.chain.from_iterable(each.items() for each in many):
        if not (type(coefficient) is float and coefficient == 0):
            found[place] = found.get(place, 0.0) + coefficient
    return found


def _rest_of(fall: Formula) -> Formula:
    return lambda y, *shapes: y * fall(y, *shapes)


def _by_shape(score: Formula) -> Formula:
    return lambda distance, scale, *shapes: score(distance / scale, *shapes)


def log_density(form: Form, place: tuple[float, float]) -> Primitive:
    """Declare the logarithm of a density as an operation on the distance from the location, the scale and the shapes.

    Args:
        form: the density, whose derivatives are given.
        place: the domain of samples of the distance, for a scale above 2.
    """

    def value(distance: Array, scale: Operand, *shapes: Operand) -> Any:
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
    SUMMED[primitive] = [_contracted(place, partial) for place, partial in enumerate(partials)]
    return primitive


def _rule(partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: ct * partial(*args)


def _contracted(argnum: int, partial: Formula) -> Rule:
    return lambda ans, *args: lambda ct: scaled_sum(ct, partial(*args), args[argnum].shape)


def _far_value(distance: Array | float, scale: Array | float, *shapes: Any, of: str, orders: Orders) -> Any:
    """Return a density, or a derivative of it."""
    form, y = FORMS[of], distance / scale
    logarithm = form.formula(y, *shapes) - (1 + orders[0] + orders[1]) * np.log(scale)
    if not any(orders):
        return np.exp(logarithm)
    root = np.exp(logarithm / 2)
    factors = {
        i: strip_ended(form.factor(orders, i, y, *shapes)) for i in coefficients(form.degree(y, *shapes), *orders)
    }
    # With the square root as a factor on both sides, no intermediate product overflows.
    found = root * sum(_times(factor, y, i) for i, factor in factors.items() if i >= 0) * root
    for i, factor in factors.items():
        if i < 0:
            half = _times(root, 1 / np.sqrt(np.abs(y)), -i)
            found = found + np.where(np.equal(factor, 0), 0.0, half * _times(factor, np.sign(y), -i % 2) * half)
    # An overflowed factor would turn 0 into NaN; an infinite density is treated as a constant.
    constant = np.logical_or(np.less(logarithm, NOTHING), np.equal(logarithm, np.inf))
    return np.where(constant, 0.0, found).astype(logarithm.dtype)


def _times(product: Operand, x: Any, count: int) -> Any:
    """Return a product times a power, by repeated multiplication, which is faster."""
    for _ in range(count):
        product = product * x
    return product


def _derivative(argnum: int, args: Sequence[Any], of: str, orders: Orders) -> Any:
    return apply(_far, args, {"of": of, "orders": raised(orders, argnum)})


def _far_tangent(tangents: Sequence[Any], ans: Array, *args: Array, of: str, orders: Orders) -> Any:
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
    scales="both",
    is_elementwise=True,
    samples=tuple(_far_samples()),
)
_far.batch = elementwise_batch(_far)
register(_far)


def far_density(form: Form, distance: object, scale: Operand, *shapes: object) -> Any:
    """Return the density, with correct derivatives also where it underflows to 0."""
    # A coefficient that is a Python number does not depend on the shape parameters.
    args = [np.float64(x) if type(x) is float else x for x in (distance, scale, *shapes)]
    return apply(_far, args, {"of": form.name, "orders": (0,) * len(args)})
