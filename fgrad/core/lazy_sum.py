"""A cotangent while it is put together from parts, such as those of the slices of an array, in memory of its own.

Without it each slice would make an array of zeros of the size of the whole, to be added to the others.
"""

from __future__ import annotations

from typing import Any, Protocol

from fgrad.core.primitive import Primitive

GATHERING: set[Primitive] = set()
"""Operations whose pullbacks take a cotangent while it is put together."""


class Part(Protocol):
    """The cotangent of a part of an array."""

    def alone(self) -> Any:
        """Return the part with zeros around it, in memory of its own."""

    def add_to(self, array: Any) -> Any:
        """Return a cotangent of the whole to which the part is added, in place where that can be."""


class Gathered:
    """The sum of what has come in so far.

    Args:
        array: that nobody else refers to; None while there is only one part.
        part: which is brought to its place when it is needed.
    """

    __slots__ = ("array", "part")
    __array_ufunc__ = None  # so that it is asked when an array is added to it

    def __init__(self, array: Any = None, part: Part | None = None) -> None:
        self.array, self.part = array, part

    def finished(self) -> Any:
        """Return the sum, as an array that this object refers to."""
        if self.part is not None:
            self.array, self.part = self.part.alone(), None
        return self.array

    def __add__(self, other: Any) -> Any:
        array = self.finished()
        if type(other) is Gathered and other.part is not None:
            self.array = other.part.add_to(array)
            return self
        other = finished(other)
        if type(other) is not type(array) or other.dtype != array.dtype:
            return Gathered(array + other)
        array += other
        return self

    __radd__ = __add__


def finished(cotangent: Any) -> Any:
    """Return a cotangent as an array or tensor."""
    return cotangent.finished() if type(cotangent) is Gathered else cotangent
