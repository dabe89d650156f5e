"""What a kind of program is: data in three sizes, a derivative in NumPy's names, and the same by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .libraries import Library

SIZES = ("small", "medium", "large")


@dataclass(frozen=True)
class Kind:
    """A kind of program.

    Attributes:
        name: what the table calls it.
        sizes: what `data` is called with, from small to large.
        data: makes the arguments.
        derivative: with a library, returns the function of the arguments that is timed.
        by_hand: the same function in plain NumPy.
        compiled: how many of the sizes are compiled, by libraries that do so: loops in Python take them long.
        tolerance: how far results may be from those by hand, relative to the largest element.
    """

    name: str
    sizes: tuple[Any, Any, Any]
    data: Callable[..., tuple[Any, ...]]
    derivative: Callable[[Library], Callable[..., Any]]
    by_hand: Callable[..., Any]
    compiled: int = len(SIZES)
    tolerance: float = 1e-8

    def arguments(self, size: str) -> tuple[Any, ...]:
        """Return the data in a size."""
        return self.data(np.random.default_rng(0), *self.sizes[SIZES.index(size)])

    def suits(self, library: Library, size: str) -> bool:
        """Return whether a library is asked for this size."""
        if library.compiles:
            return SIZES.index(size) < self.compiled
        has_long_loop = self.compiled < len(SIZES)
        return size == "small" or not (library.is_slow_by_step and has_long_loop)

    def candidate(self, library: Library, args: tuple[Any, ...]) -> Callable[[], Any]:
        """Return what computes the derivative once."""
        return library.candidate(self.derivative(library), args)

    def check(self, library: Library, args: tuple[Any, ...]) -> None:
        """Compare a library's result with the one by hand.

        Single precision is compared in double precision too, where rounding hides nothing.

        Raises:
            AssertionError: they are different.
        """
        doubles = tuple(in_double_precision(arg) for arg in args)
        compare(self.candidate(library, doubles)(), self.by_hand(*doubles), self.tolerance)
        if any(double is not arg for double, arg in zip(doubles, args, strict=True)):
            compare(self.candidate(library, args)(), self.by_hand(*args), 1e-4)


def in_double_precision(arg: Any) -> Any:
    """Return an argument, or what single precision has in it as double precision."""
    return arg.astype(np.float64) if isinstance(arg, np.ndarray) and arg.dtype == np.float32 else arg


def leaves(result: Any) -> Iterator[Any]:
    """Yield the arrays in nested tuples and lists."""
    if isinstance(result, tuple | list):
        for each in result:
            yield from leaves(each)
    else:
        yield result


def compare(result: Any, expected: Any, tolerance: float) -> None:
    """Raise AssertionError unless all arrays are equal up to a tolerance."""
    for one, other in zip(leaves(result), leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape, f"shape {one.shape} instead of {other.shape}"
        assert one.dtype == other.dtype, f"dtype {one.dtype} instead of {other.dtype}"
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())
