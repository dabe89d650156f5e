"""Graph coloring: columns of a sparse matrix with the same color are computed by one directional derivative.

    columns(pattern)      no two columns of a color have an element in the same row
    symmetric(pattern)    a star coloring: each element can be read at its position or at the transposed one

Colors are assigned greedily (A. H. Gebremedhin, F. Manne and A. Pothen, "What color is your Jacobian? Graph coloring
for computing derivatives", https://doi.org/10.1137/S0036144504444711, sections 3 and 4), with the vertices in their
given order, and if that is not known to be optimal, also in the order of decreasing degree. A set of colors is an
integer with a bit for each, so that the colors around a vertex are united in one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fgrad.typing import Array


def columns(pattern: Any) -> Any:
    """Return a color for each column of a boolean csr matrix, such that no row contains a color twice."""
    most = int(np.diff(pattern.indptr).max(initial=0))
    if most == pattern.shape[1]:
        return np.arange(most)
    turned = pattern.tocsc()
    return _best(lambda order: _by_rows(turned, order), turned, max(most, 1))


def symmetric(pattern: object) -> Any:
    """Return a color for each vertex of a graph, such that every path of four vertices has three colors."""
    return _best(lambda order: _stars(pattern, order), pattern, 1)


def _best(color: Callable[[Iterable[int]], Any], matrix: Any, least: int) -> Any:
    """Return the colors from the order that gives the fewest; `least` is a lower bound."""
    degrees = np.diff(matrix.indptr)
    colors = color(range(len(degrees)))
    if colors.max(initial=0) < least or degrees.max(initial=0) == degrees.min(initial=0):
        return colors
    others = color(np.argsort(-degrees, kind="stable").tolist())
    return others if others.max() < colors.max() else colors


def _lists(matrix: Any) -> list[list[int]]:
    """Return the indices in each row or column of a compressed matrix."""
    indices, starts = matrix.indices.tolist(), matrix.indptr.tolist()
    return [indices[start:stop] for start, stop in pairwise(starts)]


def _lowest_free(colors: int) -> int:
    """Return the lowest color that is not in a set, as a set."""
    return ~colors & (colors + 1)


def _by_rows(turned: Any, order: Iterable[int]) -> Array:
    lines = _lists(turned)
    taken = [0] * turned.shape[0]  # of each row
    found = [0] * turned.shape[1]
    for column in order:
        colors = 0
        for row in lines[column]:
            colors |= taken[row]
        own = _lowest_free(colors)
        for row in lines[column]:
            taken[row] |= own
        found[column] = own.bit_length() - 1
    return np.array(found, np.intp)


def _stars(pattern: object, order: Iterable[int]) -> Array:
    """Return a star coloring.

    For each vertex three sets of colors are stored: those of its neighbours, those that occur more than once among
    them, and those of neighbours that are the center of a star in the vertex's color.
    """
    neighbours = _lists(pattern)
    own, once, twice, centers = ([0] * len(neighbours) for _ in range(4))
    for vertex in order:
        around = [each for each in neighbours[vertex] if own[each]]
        forbidden = seen = again = 0
        for each in around:
            forbidden |= own[each] | centers[each]
            again |= seen & own[each]
            seen |= own[each]
        if again:
            for each in around:
                if own[each] & again:
                    forbidden |= once[each]
        color = own[vertex] = _lowest_free(forbidden)
        _note(vertex, color, neighbours, own, once, twice, centers)
    return np.array([color.bit_length() - 1 for color in own], np.intp)


def _note(
    vertex: int,
    color: int,
    neighbours: Sequence[Sequence[int]],
    own: list[int],
    once: list[int],
    twice: list[int],
    centers: list[int],
) -> None:
    """Update the sets for the color of a vertex."""
    for each in neighbours[vertex]:
        if each == vertex:
            continue
        if once[each] & color and not twice[each] & color:  # it becomes the center of a star
            twice[each] |= color
            for leaf in neighbours[each]:
                if own[leaf] == color:
                    centers[leaf] |= own[each]
        elif twice[each] & color:
            centers[vertex] |= own[each]
        once[each] |= color
    if twice[vertex]:
        for leaf in neighbours[vertex]:
            if own[leaf] & twice[vertex]:
                centers[leaf] |= color
