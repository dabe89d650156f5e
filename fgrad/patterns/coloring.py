"""Which columns of a sparse matrix can be found together: those of one color, by one directional derivative.

    columns(pattern)      no two columns of a color have an element in the same row
    symmetric(pattern)    a star coloring: each element can be read, where it stands or from its mirror image

Colors are given greedily (A. H. Gebremedhin, F. Manne and A. Pothen, "What color is your Jacobian? Graph coloring for
computing derivatives", https://doi.org/10.1137/S0036144504444711, sections 3 and 4), the vertices taken as they come,
and where that is not known to be best, those with most neighbours first. A set of colors is an integer with a bit for
each, so that the colors around a vertex are united at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def columns(pattern: Any) -> Any:
    """Return the color of each column of a boolean matrix in SciPy's csr format, such that no row has one twice."""
    most = int(np.diff(pattern.indptr).max(initial=0))
    if most == pattern.shape[1]:
        return np.arange(most)
    turned = pattern.tocsc()
    return _best(lambda order: _by_rows(turned, order), turned, max(most, 1))


def symmetric(pattern: Any) -> Any:
    """Return the color of each vertex of a graph, such that every path of four vertices has three colors."""
    return _best(lambda order: _stars(pattern, order), pattern, 1)


def _best(color: Callable[[Iterable[int]], Any], matrix: Any, least: int) -> Any:
    """Return the colors from the order that gives fewest; `least` are needed in any case."""
    degrees = np.diff(matrix.indptr)
    colors = color(range(len(degrees)))
    if colors.max(initial=0) < least or degrees.max(initial=0) == degrees.min(initial=0):
        return colors
    others = color(np.argsort(-degrees, kind="stable").tolist())
    return others if others.max() < colors.max() else colors


def _lists(matrix: Any) -> list[list[int]]:
    """Return the indices in each line of a compressed matrix."""
    indices, starts = matrix.indices.tolist(), matrix.indptr.tolist()
    return [indices[start:stop] for start, stop in pairwise(starts)]


def _lowest_free(colors: int) -> int:
    """Return the least color that is not in a set, as a set."""
    return ~colors & (colors + 1)


def _by_rows(turned: Any, order: Iterable[int]) -> Any:
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


def _stars(pattern: Any, order: Iterable[int]) -> Any:
    """Return the colors of a star coloring.

    With each vertex go the sets of colors that its neighbours have, and have more than once, and that of the colors
    of neighbours which are the center of a star in its own color.
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
    """Enter a color that a vertex has been given."""
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
