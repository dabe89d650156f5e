"""Indices as sums: a constant, and multiples of loop variables and of computed integers."""

from __future__ import annotations

from typing import Any, NamedTuple

from fgrad.native.ir import Builder, Value, integer
from fgrad.native.nodes import AffineIndex


class Affine(NamedTuple):
    """`constant` and a sum of coefficients times integers.

    Attributes:
        constant: the number.
        terms: each integer with its coefficient, in the order of the integers. They are values of the loop language,
            or names where no code is written.
    """

    constant: int
    terms: tuple[tuple[Any, int], ...] = ()


ZERO = Affine(0)
Index = tuple[Affine, ...]


def variable(x: object) -> Affine:
    """Return an integer as an index."""
    return Affine(0, ((x, 1),))


def plus(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """Return `a + factor * b`."""
    if not b.terms:
        return Affine(a.constant + factor * b.constant, a.terms)
    terms = dict(a.terms)
    for x, coefficient in b.terms:
        terms[x] = terms.get(x, 0) + factor * coefficient
    return Affine(a.constant + factor * b.constant, tuple(sorted((x, c) for x, c in terms.items() if c)))


def placed(place: AffineIndex, index: Index) -> Affine:
    """Return where an element lies along an axis, for an index of the array that is made of it."""
    found = Affine(place.offset)
    for axis, coefficient in place.terms:
        found = plus(found, index[axis], coefficient)
    return found


def in_code(code: Builder, affine: Affine, known: dict[Affine, Value]) -> Value:
    """Return an index as a value, which is computed where it is not known yet, and so is each part of it.

    The variables of outer loops come first, so that what is added up of them is the same in all iterations of inner
    ones.
    """
    if not affine.terms:
        return integer(affine.constant)
    if affine not in known:
        known[affine] = _sum_in_code(code, affine, known)
    return known[affine]


def _sum_in_code(code: Builder, affine: Affine, known: dict[Affine, Value]) -> Value:
    if affine.constant:
        return code.add(in_code(code, Affine(0, affine.terms), known), integer(affine.constant))
    *rest, (x, coefficient) = affine.terms
    if rest:
        last = in_code(code, Affine(0, ((x, coefficient),)), known)
        return code.add(in_code(code, Affine(0, tuple(rest)), known), last)
    return x if coefficient == 1 else code.mul(x, integer(coefficient))


def interval(affine: Affine, ranges: dict[Any, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the least and the largest value of an index, if the ranges of all its variables are known."""
    low = high = affine.constant
    for x, coefficient in affine.terms:
        if x not in ranges:
            return None
        ends = [coefficient * end for end in ranges[x]]
        low, high = low + min(ends), high + max(ends)
    return low, high
