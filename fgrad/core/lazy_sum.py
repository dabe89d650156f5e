"""A lazy sum: a cotangent accumulated from parts, such as those of slices, in an array that it owns.

Without it, each slice would allocate an array of zeros of the full size, to be added to the others.
"""

from __future__ import annotations

from typing import Any, Protocol

from fgrad.core.primitive import Primitive
from fgrad.typing import Array

GATHERING: set[Primitive] = set()
"""Operations whose pullbacks accept a lazy sum."""


class Part(Protocol):
    """The cotangent of part of an array."""

    def alone(self) -> Any:
        """Return the part surrounded by zeros, in a new array."""

    def add_to(self, array: Any) -> Any:
        """Return a full cotangent with the part added, in place where possible."""


class Gathered:
    """The sum of the cotangents so far.

    Args:
        array: an array to which nothing else refers; None while there is only one part.
        part: a part that is expanded when needed.
    """

    __slots__ = ("array", "part")
    __array_ufunc__ = None  # so that `array + x` calls __radd__

    def __init__(self, array: Array | None = None, part: Part | None = None) -> None:
        self.array, self.part = array, part

    def finished(self) -> Any:
        """Return the sum, as an array that this object still refers to."""
        if self.part is not None:
            self.array, self.part = self.part.alone(), None
        return self.array

    def __add__(self, other: Any) -> Gathered:
        array = self.finished()
        if type(other) is Gathered and other.part is not None:
            self.array = other.part.add_to(array)
            return self
        other = finished(other)
        if type(other) is not type(array) or other.dtype != array.dtype:
            return Gathered(array + other)
        array += other
        self.array = array  # of a tensor of shape `()`, a new one
        return self

    __radd__ = __add__


def finished(cotangent: object) -> Any:
    """Return a cotangent as an array or tensor."""
    return cotangent.finished() if type(cotangent) is Gathered else cotangent
