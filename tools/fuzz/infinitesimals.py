"""Numbers with infinitesimals: derivatives by algebra, as a judge that shares nothing with fgrad.

A number is a sum of parts, one for each set of infinitesimals that are multiplied; each squares to zero. A set is
written as the bits of an integer. `derivative` puts a new infinitesimal into the arguments of a function and reads off
the part of the result that has it, which is itself a number: so derivatives nest, and each infinitesimal is its own.
The parts are numbers of Python, or mpmath's, in which the same program runs with as many digits as are wanted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath as mp

Function = Callable[[Sequence["Number"]], "Number"]


class Number:
    """A number with infinitesimals.

    Attributes:
        parts: for each set of infinitesimals its factor; 0 is the set of none.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    @property
    def real(self) -> Any:
        """The part without infinitesimals."""
        return self.parts.get(0, 0.0)

    def __add__(self, other: Any) -> Number:
        parts = dict(self.parts)
        for key, part in number(other).parts.items():
            parts[key] = parts[key] + part if key in parts else part
        return Number(parts)

    def __mul__(self, other: Any) -> Number:
        parts: dict[int, Any] = {}
        for (a, x), (b, y) in itertools.product(self.parts.items(), number(other).parts.items()):
            if not a & b:
                parts[a | b] = parts[a | b] + x * y if a | b in parts else x * y
        return Number(parts)

    def __neg__(self) -> Number:
        return self * -1.0

    def __sub__(self, other: Any) -> Number:
        return self + number(other) * -1.0

    def __rsub__(self, other: Any) -> Number:
        return number(other) - self

    def __truediv__(self, other: Any) -> Number:
        return self * power(number(other), -1)

    def __rtruediv__(self, other: Any) -> Number:
        return number(other) / self

    def __gt__(self, other: Any) -> bool:
        return bool(self._above(number(other)) > 0)

    def __lt__(self, other: Any) -> bool:
        return bool(self._above(number(other)) < 0)

    def _above(self, other: Number) -> Any:
        """Return how far a number is above another one, by which programs choose."""
        difference = self.real - other.real
        if difference == 0 and any((self - other).parts.values()):
            raise ValueError("a tie, at which derivatives are a matter of choice")
        return difference

    __radd__, __rmul__ = __add__, __mul__


def number(x: Any) -> Number:
    """Return a number with infinitesimals that has none, if it is not one already."""
    return x if isinstance(x, Number) else Number({0: x})


def composed(coefficients: Iterator[Any], x: Number) -> Number:
    """Return a function of a number, by the coefficients of its Taylor series at the real part."""
    small = Number({key: part for key, part in x.parts.items() if key})
    result, powers = number(next(coefficients)), small
    while powers.parts:
        result = result + powers * next(coefficients)
        powers = powers * small
    return result


def library(x: Any) -> Any:
    """Return the functions of a kind of number."""
    return mp if isinstance(x, mp.mpf) else math


def exp(x: Number) -> Number:
    """Return an exponential."""
    at = library(x.real).exp(x.real)
    return composed((at / math.factorial(k) for k in itertools.count()), x)


def log(x: Number) -> Number:
    """Return a logarithm."""
    a, of = x.real, library(x.real)
    return composed((of.log(a) if k == 0 else (-1) ** (k - 1) / (k * a**k) for k in itertools.count()), x)


def sin(x: Number) -> Number:
    """Return a sine."""
    a, of = x.real, library(x.real)
    iterations = (of.sin(a), of.cos(a), -of.sin(a), -of.cos(a))
    return composed((iterations[k % 4] / math.factorial(k) for k in itertools.count()), x)


def cos(x: Number) -> Number:
    """Return a cosine."""
    a, of = x.real, library(x.real)
    iterations = (of.cos(a), -of.sin(a), -of.cos(a), of.sin(a))
    return composed((iterations[k % 4] / math.factorial(k) for k in itertools.count()), x)


def arctan(x: Number) -> Number:
    """Return the angle of 1 + ix, whose logarithm has a series that is known."""
    a, of = x.real, library(x.real)
    z = mp.mpc(1, a) if of is mp else complex(1, a)
    return composed((of.atan(a) if k == 0 else -((-1j / z) ** k).imag / k for k in itertools.count()), x)


def power(x: Number, p: Any) -> Number:
    """Return a power with a constant exponent."""
    a = x.real

    def coefficients() -> Iterator[Any]:
        factor = 1.0
        for k in itertools.count():
            yield factor * a ** (p - k) if factor else 0.0
            factor = factor * (p - k) / (k + 1)

    return composed(coefficients(), x)


def sqrt(x: Number) -> Number:
    """Return a square root."""
    a, of = x.real, library(x.real)
    return number(of.sqrt(a)) * power(x / a, 0.5)


def tanh(x: Number) -> Number:
    """Return a hyperbolic tangent, whose slope 1 - tanh(x)**2 loses digits near 0 here, as everywhere."""
    of = library(x.real)

    def coefficients() -> Iterator[Any]:
        known = [of.tanh(x.real)]
        for k in itertools.count():
            yield known[k]
            product = sum(known[i] * known[k - i] for i in range(k + 1))
            known.append(((1.0 if k == 0 else 0.0) - product) / (k + 1))

    return composed(coefficients(), x)


def total(xs: Sequence[Number]) -> Number:
    """Return a sum."""
    return sum(xs[1:], xs[0])


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> Number:
    """Return a sum of products."""
    return total([number(x) * y for x, y in zip(xs, ys, strict=True)])


def derivative(f: Function, xs: Sequence[Number], direction: Sequence[Any]) -> Number:
    """Return the derivative of a function at a point along a direction."""
    new = 1 << max((key for x in [*xs, *map(number, direction)] for key in x.parts), default=0).bit_length()
    while any(key & new for key in _taken):
        new <<= 1
    _taken.append(new)
    try:
        infinitesimal = Number({new: 1.0})
        value = f([x + infinitesimal * v for x, v in zip(xs, direction, strict=True)])
    finally:
        _taken.remove(new)
    return Number({key ^ new: part for key, part in value.parts.items() if key & new})


_taken: list[int] = []
"""The infinitesimals of the derivatives that are being taken: functions may close over numbers that have them."""
