"""Sparsity patterns: which elements of a result depend on which elements of an argument, by kind of operation.

A rule is `pattern(step)`. It returns sparse matrices of ones, as `Links`, in the order of application; their product
is nonzero wherever the derivative may be. An empty tuple is the identity. A rule uses shapes and metadata, and
never the values of differentiated arguments: so it is valid wherever a function takes the same branches.

    whole            everything depends on everything
    elementwise      broadcast arguments
    along_axis       reductions, and operations that mix only elements along `axis`
    as_einsum(...)   axes are tied as in the subscripts of `np.einsum`
    of_system        systems of equations
    of_matrices      operations on stacks of matrices
    moved            elements are moved or left out: found by running the operation on indices
    joined           arrays are joined: found for all of them together
    so_far           each element depends on itself and those before it along `axis`
    tied(...)        axes with the same label are tied to each other, as in `einsum`
    windowed(...)    each element depends on its neighbours
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.primitive import BOXES, Primitive
from fgrad.typing import Array


class Links(NamedTuple):
    """A sparse matrix of ones: element `rows[k]` of the output depends on element `columns[k]` of the input."""

    rows: Any
    columns: Any
    shape: tuple[int, int]


Chain = tuple[Links, ...]


@dataclass(frozen=True)
class Step:
    """One operation, the argument of pattern rules.

    Attributes:
        primitive, args, metadata: the operation.
        argnum: the index of the argument.
        ans: the result; `place` is its index if there are several.
        decided: the indices of integer arguments that are computed from traced values.
    """

    primitive: Primitive
    args: Sequence[Any]
    metadata: Mapping[str, Any]
    argnum: int
    ans: Any
    place: int = 0
    decided: frozenset[int] = frozenset()

    def of(self, argnum: int, place: int, ans: Array) -> Step:
        """Return the same operation for another argument and result."""
        return replace(self, argnum=argnum, place=place, ans=ans)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the argument."""
        return np.shape(self.args[self.argnum])

    @property
    def size(self) -> int:
        """The size of the argument."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """The largest number of axes of an argument."""
        return max(len(np.shape(x)) for x in self.args)

    def is_known(self, place: int) -> bool:
        """Return whether an argument is the same wherever the function takes the same branches."""
        return place not in self.decided and type(self.args[place]) not in BOXES

    def has_derivative(self, place: int) -> bool:
        """Return whether an argument holds data rather than an index or a mask."""
        return self.primitive.vjps is not None and self.primitive.vjps[place] is not None


Rule = Callable[[Step], Chain]


def taken(numbers: Any, size: int) -> Links:
    """Return the links of an operation that takes the elements with these indices; negative indices mean none."""
    numbers = np.reshape(np.asarray(numbers, np.intp), -1)
    rows = np.flatnonzero(numbers >= 0)
    return Links(rows, numbers[rows], (len(numbers), size))


def sent(numbers: Any, size: int) -> Links:
    """Return the links of an operation that adds its elements at these indices of the output."""
    rows, columns, shape = taken(numbers, size)
    return Links(columns, rows, shape[::-1])


def whole(step: Step) -> Chain:
    """The dense pattern: all elements depend on all elements."""
    return tied(step.shape, _labels("in", step.shape), step.ans.shape, _labels("out", step.ans.shape))


def _labels(name: str, shape: tuple[int, ...]) -> list[Any]:
    return [(name, axis) for axis in range(len(shape))]


def tied(shape: tuple[int, ...], labels: Sequence[Any], out: tuple[int, ...], out_labels: Sequence[Any]) -> Chain:
    """Return the pattern of an operation in which an element depends on those at the same index along tied axes.

    Args:
        shape, labels: those of the argument, one label per axis; a repeated label means the diagonal.
        out, out_labels: those of the result. An axis of the argument of size 1 is tied to all indices.
    """
    both = [label for label in dict.fromkeys(labels) if label in out_labels]
    sizes = [shape[labels.index(label)] for label in both]
    groups = np.arange(prod(sizes)).reshape(sizes)
    from_groups = taken(_numbers(groups, both, out, out_labels), groups.size)
    if list(labels) == both:  # no axes are merged
        return (from_groups,)
    united = sent(_numbers(groups, both, shape, labels), groups.size)
    return (united,) if _is_identity(from_groups) else (from_groups, united)


def _numbers(groups: Any, both: Sequence[Any], shape: tuple[int, ...], labels: Sequence[Any]) -> Array:
    """Return the group number of each element of a shape; -1 off the diagonal."""
    grid = np.ogrid[tuple(map(slice, shape))]
    places = {label: grid[axis] for axis, label in reversed(list(enumerate(labels)))}
    key = tuple(np.minimum(places[label], size - 1) for label, size in zip(both, groups.shape, strict=True))
    found = np.broadcast_to(groups[key], shape)
    for axis, label in enumerate(labels):
        if list(labels).index(label) != axis:
            found = np.where(places[label] == grid[axis], found, -1)
    return found


def _is_identity(links: Links) -> bool:
    return links.shape[0] == links.shape[1] == len(links.columns) and bool(
        np.array_equal(links.columns, np.arange(links.shape[1]))
    )


def elementwise(step: Step) -> Chain:
    """The pattern of operations that broadcast their arguments."""
    if step.shape == step.ans.shape:
        return ()
    ndim = max(step.ans.ndim, step.ndim)
    return tied(step.shape, range(ndim)[ndim - len(step.shape) :], step.ans.shape, range(ndim)[ndim - step.ans.ndim :])


def along_axis(step: Step) -> Chain:
    """The pattern of operations that reduce or mix elements along one or several axes only."""
    ndim = len(step.shape)
    axis = step.metadata.get("axis")
    axes = {each % ndim for each in ((axis,) if isinstance(axis, int) else range(ndim) if axis is None else axis)}
    kept = [label for label in range(ndim) if label not in axes]
    mixed = [("out", label) if label in axes else label for label in range(ndim)]
    return tied(step.shape, range(ndim), step.ans.shape, mixed if step.ans.ndim == ndim else kept)


def of_matrices(step: Step) -> Chain:
    """The pattern of operations on stacks of matrices: each matrix depends on all of its source matrices."""
    lead, own = step.ndim - 2, len(step.shape)
    labels = [*range(lead - (own - 2), lead), "row", "column"] if own >= 2 else _labels("in", step.shape)
    out_labels = [axis if axis < lead else ("out", axis) for axis in range(step.ans.ndim)]
    return tied(step.shape, labels, step.ans.shape, out_labels)


def as_einsum(subscripts: str) -> Rule:
    """Return the pattern of operations with axes tied as in `np.einsum`; leading axes are broadcast."""
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")

    def pattern(step: Step) -> Chain:
        lead = max(len(np.shape(x)) - len(term) for x, term in zip(step.args, terms, strict=False))
        term = terms[step.argnum]
        own, out = len(step.shape) - len(term), step.ans.ndim - len(output)
        labels, out_labels = [*range(lead - own, lead), *term], [*range(lead - out, lead), *output]
        return tied(step.shape, labels, step.ans.shape, out_labels)

    return pattern


of_system = as_einsum("ij,kc,lm,no->rc")
"""The pattern of solutions of linear systems: each column of unknowns depends on its column of right-hand sides."""


def moved(step: Step) -> Chain:
    """The pattern of operations that move elements; they are run on the indices of the elements.

    An index that is computed from traced values may be any index along the axis, or any at all without an axis.
    """
    args: list[Any] = []
    for place, x in enumerate(step.args):
        if place == step.argnum:
            args.append(np.arange(1, step.size + 1).reshape(step.shape))
        elif step.has_derivative(place):
            args.append(np.zeros(np.shape(x), np.intp))
        elif step.is_known(place):
            args.append(x)
        else:
            return along_axis(step) if "axis" in step.metadata else whole(step)
    found = step.primitive.implementation(*args, **step.metadata)
    return (taken((found[step.place] if isinstance(found, (tuple, list)) else found) - 1, step.size),)


def joined(step: Step) -> Chain:
    """The pattern of operations that join arrays; the elements of all arrays are numbered consecutively."""
    sizes = [prod(np.shape(x)) for x in step.args]
    starts = np.cumsum([0, *sizes])
    numbers = [
        np.arange(first, first + size).reshape(np.shape(x))
        for first, size, x in zip(starts, sizes, step.args, strict=False)
    ]
    return (taken(step.primitive.implementation(*numbers, **step.metadata), int(starts[-1])),)


def added(step: Step, transposed: Callable[[Any], Any]) -> Chain:
    """Return the pattern of operations that move and add elements, from the transposed operation.

    Args:
        step: an operation with one argument.
        transposed: maps an array of the shape of the result to one of the shape of the argument.
    """
    places = np.arange(step.ans.size).reshape(step.ans.shape)
    return (sent(transposed(places), step.ans.size),)


def linked(out: tuple[int, ...], shape: tuple[int, ...], pairs: Callable[[Any, Any], tuple[Any, Any]]) -> Links:
    """Return the links of an operation whose dependent elements are known.

    Args:
        out, shape: shapes of the result and of the argument, which may lack leading axes.
        pairs: maps the indices of all elements of the result and of the argument to pairs of dependent ones, which
            are broadcast.
    """
    sizes = prod(out), prod(shape)
    found = pairs(*(np.arange(size).reshape(each) for size, each in zip(sizes, (out, shape), strict=True)))
    rows, columns = np.broadcast_arrays(*found)
    return Links(rows.reshape(-1), columns.reshape(-1), sizes)


def so_far(step: Step) -> Chain:
    """The pattern of cumulative operations along `axis`, from the end with `backwards`."""
    axis = step.metadata["axis"] % len(step.shape) - len(step.shape)
    size = step.shape[axis]
    return windowed(step, {axis: range(size) if step.metadata.get("backwards") else range(1 - size, 1)})


def windowed(step: Step, offsets: Mapping[int, range]) -> Chain:
    """Return the pattern of operations in which an element depends on its neighbours along axes.

    Args:
        step: the operation; the argument may lack leading axes.
        offsets: for each axis, the offsets of the neighbours.
    """
    out = step.ans.shape
    shape = (*out[: len(out) - len(step.shape)], *step.shape)
    chain = tied(step.shape, range(len(shape))[len(shape) - len(step.shape) :], shape, range(len(shape)))
    for axis, each in offsets.items():
        place = axis % len(shape)
        wanted = (*shape[:place], out[place], *shape[place + 1 :])
        chain = (*_windows(shape, wanted, place, each), *chain)
        shape = wanted
    return (*tied(shape, range(len(shape)), out, range(len(out))), *chain) if shape != out else chain


def _windows(shape: tuple[int, ...], out: tuple[int, ...], axis: int, offsets: range) -> Chain:
    """Return the pattern of windows along an axis.

    Each element is merged with its next neighbour, then with the element two further on, four, and so on (Hillis and
    Steele, https://doi.org/10.1145/7902.7903), so that no factor has more than two elements in a row. Windows may
    begin before the array, so it is padded in front.
    """
    length = len(offsets)
    wide = (*shape[:axis], shape[axis] + max(length - 1, 0), *shape[axis + 1 :])
    chain, covered = [_shifted(shape, wide, axis, 1 - length)], 1
    while covered < length:
        more = min(covered, length - covered)
        chain.append(_shifted(wide, wide, axis, 0, more))
        covered += more
    chain.append(_shifted(wide, out, axis, offsets.start + length - 1))
    return tuple(reversed(chain))


def _shifted(shape: tuple[int, ...], out: tuple[int, ...], axis: int, *offsets: int) -> Links:
    """Return the links of elements to those at an offset along an axis, where these exist."""
    count, size = prod(shape), shape[axis]
    parts = []
    for offset in offsets if count else ():
        places = np.arange(out[axis]) + offset
        inside = (places >= 0) & (places < size)
        found = np.take(np.arange(count).reshape(shape), np.where(inside, places, 0), axis)
        parts.append(np.where(inside.reshape((-1, *(1,) * (len(shape) - axis - 1))), found, -1))
    rows, columns, _ = taken(np.stack(parts, -1) if parts else (), count)
    return Links(rows // len(offsets), columns, (prod(out), count))


def without(step: Step, *names: str) -> Step:
    """Return a step without some of its metadata."""
    return replace(step, metadata={name: value for name, value in step.metadata.items() if name not in names})
