"""Affine indices: a constant plus multiples of loop variables and of computed integers."""

from __future__ import annotations

from typing import Any, NamedTuple

from fgrad.native.ir import Builder, Value, integer
from fgrad.native.nodes import AffineIndex, Remap, Shape


class Affine(NamedTuple):
    """`constant` plus a sum of coefficients times integers.

    Attributes:
        constant: the constant term.
        terms: pairs of an integer and its coefficient, sorted. The integers are values of the loop IR, or names in
            analyses before there is code.
    """

    constant: int
    terms: tuple[tuple[Any, int], ...] = ()


ZERO = Affine(0)
Index = tuple[Affine, ...]


def variable(x: object) -> Affine:
    """Return an integer as an affine index."""
    return Affine(0, ((x, 1),))


def own_index(shape: Shape) -> Index:
    """Return the index that a nest computes: its loops run along the axes of other sizes than 1."""
    names = iter(range(len(shape)))
    return tuple([ZERO if size == 1 else variable(f"v{next(names)}") for size in shape])


def plus(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """Return `a + factor * b`."""
    if not b.terms:
        return Affine(a.constant + factor * b.constant, a.terms)
    terms = dict(a.terms)
    for x, coefficient in b.terms:
        terms[x] = terms.get(x, 0) + factor * coefficient
    return Affine(a.constant + factor * b.constant, tuple(sorted((x, c) for x, c in terms.items() if c)))


def source_index(node: Remap, index: Index) -> Index:
    """Return the index of the source of a remapped array, still to be divided along axes with a divisor."""
    pairs = zip(node.index_map, node.arguments[0].shape, strict=True)
    return tuple([_along(place, index) if size != 1 else ZERO for place, size in pairs])


def _along(place: AffineIndex, index: Index) -> Affine:
    found = Affine(place.offset)
    for axis, coefficient in place.terms:
        found = plus(found, index[axis], coefficient)
    return found


def append_index(code: Builder, affine: Affine, known: dict[Affine, Value]) -> Value:
    """Append the computation of an index, reusing known subexpressions.

    Terms of outer loops come first, so that their sums are invariant in inner loops.
    """
    if not affine.terms:
        return integer(affine.constant)
    if affine not in known:
        known[affine] = _append_sum(code, affine, known)
    return known[affine]


def _append_sum(code: Builder, affine: Affine, known: dict[Affine, Value]) -> Value:
    if affine.constant:
        return code.add(append_index(code, Affine(0, affine.terms), known), integer(affine.constant))
    *rest, (x, coefficient) = affine.terms
    if rest:
        last = append_index(code, Affine(0, ((x, coefficient),)), known)
        return code.add(append_index(code, Affine(0, tuple(rest)), known), last)
    return x if coefficient == 1 else code.mul(x, integer(coefficient))


def interval(affine: Affine, ranges: dict[Any, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the smallest and the largest value of an index, None unless the ranges of all its integers are known."""
    low = high = affine.constant
    for x, coefficient in affine.terms:
        if x not in ranges:
            return None
        ends = [coefficient * end for end in ranges[x]]
        low, high = low + min(ends), high + max(ends)
    return low, high
