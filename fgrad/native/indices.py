"""Indices as sums: a constant, and multiples of the loops' variables and of what is computed on the way."""

from __future__ import annotations

from typing import NamedTuple

from fgrad.native.nodes import Place
from fgrad.native.scalars import Code


class Affine(NamedTuple):
    """`constant` and a sum of coefficients times names of integers."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()


ZERO = Affine(0)
Index = tuple[Affine, ...]


def variable(name: str) -> Affine:
    """Return an integer that has a name in the code."""
    return Affine(0, ((name, 1),))


def plus(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """Return `a + factor * b`."""
    if not b.terms:
        return Affine(a.constant + factor * b.constant, a.terms)
    terms = dict(a.terms)
    for name, coefficient in b.terms:
        terms[name] = terms.get(name, 0) + factor * coefficient
    return Affine(a.constant + factor * b.constant, tuple(sorted((n, c) for n, c in terms.items() if c)))


def placed(place: Place, index: Index) -> Affine:
    """Return where an element lies along an axis, for an index of the array that is made of it."""
    found = Affine(place.offset)
    for axis, coefficient in place.terms:
        found = plus(found, index[axis], coefficient)
    return found


def in_code(code: Code, affine: Affine, known: dict[Affine, str]) -> str:
    """Return the name of an index, which is computed where it is not known yet, and so is each part of it.

    The variables of outer loops come first, so that what is added up of them is the same in all iterations of inner
    ones.
    """
    if not affine.terms:
        return str(affine.constant)
    if affine not in known:
        known[affine] = _sum_in_code(code, affine, known)
    return known[affine]


def _sum_in_code(code: Code, affine: Affine, known: dict[Affine, str]) -> str:
    if affine.constant:
        return code.do(f"add nsw i64 {in_code(code, Affine(0, affine.terms), known)}, {affine.constant}")
    *rest, (name, coefficient) = affine.terms
    if rest:
        last = in_code(code, Affine(0, ((name, coefficient),)), known)
        return code.do(f"add nsw i64 {in_code(code, Affine(0, tuple(rest)), known)}, {last}")
    return name if coefficient == 1 else code.do(f"mul nsw i64 {name}, {coefficient}")


def interval(affine: Affine, ranges: dict[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the least and the largest value of an index, if the ranges of all its variables are known."""
    low = high = affine.constant
    for name, coefficient in affine.terms:
        if name not in ranges:
            return None
        ends = [coefficient * end for end in ranges[name]]
        low, high = low + min(ends), high + max(ends)
    return low, high
