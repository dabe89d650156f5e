"""Sums of products: by loops where they are small, by products of matrices where BLAS is faster.

    contraction(program, sides, output, dtype)      the sum of products of operands whose axes have labels

Labels are those of `einsum`, which `matmul` has too. Axes of size 1 have none, since there is nothing to sum or to step
along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from fgrad.native import libraries
from fgrad.native.lowering import Program
from fgrad.native.memory import matrices_of, strides_of
from fgrad.native.nodes import AffineIndex, LibraryCall, Literal, Node, Reduction, Remap, axis_index
from fgrad.native.routines import Product
from fgrad.typing import DTypeLike

_LEAST_FOR_BLAS = 1000
"""Multiplications below which loops have ended before BLAS has begun."""
_LEAST_PER_CALL = 8000
"""Multiplications of one product of a stack below which operands are rather moved, so that it is one for all."""


_LEAST_BY_COLUMNS = 4000
"""Multiplications of a vector and a matrix below which a loop is as fast, in whichever order it goes."""


class Side(NamedTuple):
    """An operand, and the label of each of its axes."""

    node: Node
    labels: str


class Sizes(dict[str, int]):
    """The sizes of labels."""

    def of(self, labels: Iterable[str]) -> int:
        """Return how many elements there are along labels."""
        return prod(self[label] for label in labels)


def sizes_of(sides: Sequence[Side]) -> Sizes:
    """Return the sizes of labels; sizes of 1 meet others."""
    sizes = Sizes()
    for node, labels in sides:
        for label, size in zip(labels, node.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    return sizes


def contraction(
    program: Program, sides: Sequence[Side], output: str, dtype: DTypeLike, guard: int | None = None
) -> Node | None:
    """Return the sum of products of operands, with an axis for each label of the output; None where NumPy is faster.

    Args:
        program: gets the nodes.
        sides: the operands, in the dtype of the result.
        output: labels of the axes of the result.
        dtype: of the result.
        guard: the place of the operand whose exact zeros win over infinities and NaN of others.
    """
    sizes = sizes_of(sides)
    shape = tuple(sizes[label] for label in output)
    long = [_without_ones(program, each, sizes) for each in sides]
    kept = "".join(label for label in output if sizes[label] != 1)
    is_float = np.dtype(dtype).kind == "f"
    guard = guard if is_float else None
    if is_float and len(sides) > 1:
        done = _contracted(program, long, kept, dtype, guard)
    else:
        done = _looped(program, long, kept, dtype, is_view=len(sides) == 1 and set(sides[0].labels) <= set(output))
    if done is None:
        return None
    return program.reshaped(done, shape)


def _without_ones(program: Program, side: Side, sizes: Sizes) -> Side:
    """Return an operand without axes of size 1 and repeated labels, and as it lies in memory."""
    node, labels = side
    long = "".join(dict.fromkeys(label for label, size in zip(labels, node.shape, strict=True) if size != 1))
    places = []
    for label, size in zip(labels, node.shape, strict=True):
        places.append(axis_index(long.index(label)) if size != 1 else AffineIndex(0, ()))
    shape = tuple(sizes[label] for label in long)
    if long != labels:
        node = program.add(Remap(node, shape, places))
    return _unturned(Side(node, long))


def _unturned(side: Side) -> Side:
    """Return an array of which an operand is a transpose, with the labels in its order."""
    node, labels = side
    while isinstance(node, Remap) and not node.bounds and sorted(node.shape) == sorted(node.arguments[0].shape):
        axes = [place.terms[0].axis if len(place.terms) == 1 else -1 for place in node.index_map]
        are_same = all(place == axis_index(axis) for place, axis in zip(node.index_map, axes, strict=True))
        if not are_same or sorted(axes) != list(range(len(labels))):
            break
        node, labels = node.arguments[0], "".join(labels[axis] for axis in axes)
    return Side(node, labels)


def _contracted(program: Program, sides: list[Side], output: str, dtype: DTypeLike, guard: int | None) -> Node | None:
    sizes = sizes_of(sides)
    is_small = sizes.of(sizes) <= _LEAST_FOR_BLAS or set(output) == set(sizes)
    if len(sides) > 2 and not is_small:
        return _by_pairs(program, sides, output, dtype, guard)
    if len(sides) != 2:
        return _looped(program, sides, output, dtype, guard)
    summed = [_summed_alone(program, side, sides[1 - place].labels, output) for place, side in enumerate(sides)]
    roles = _Roles.of(summed[0].labels, summed[1].labels, output)
    # Infinities of both signs are summed otherwise than number by number; NumPy does the one or the other.
    is_void_if_infinite = summed != sides
    if not is_small and (roles.are_for_blas(sizes) or _is_by_columns(summed, roles, sizes)):
        if not libraries.has(np.dtype(dtype), "gemm", "gemv"):
            return None
        done = _multiplied(program, summed[0], summed[1], output)
        is_void_if_infinite |= guard is not None
    else:
        done = _looped(program, summed, output, dtype, None if is_void_if_infinite else guard)
    if is_void_if_infinite:
        fails_unless_finite(program, done)
    return done


def fails_unless_finite(program: Program, x: Node) -> None:
    """Say that a run is void where an array holds an infinity or NaN."""
    is_finite = program.elementwise("isfinite", x, dtype=np.bool_)
    program.add_failure(program.elementwise("logical_not", is_finite, dtype=np.bool_))


def _summed_alone(program: Program, side: Side, others: str, output: str) -> Side:
    """Sum an operand along the axes that nothing else has."""
    node, labels = side
    alone = [axis for axis, label in enumerate(labels) if label not in others and label not in output]
    if not alone:
        return side
    kept = "".join(label for axis, label in enumerate(labels) if axis not in alone)
    return Side(program.add(Reduction("sum", node, alone, node.dtype)), kept)


def _by_pairs(program: Program, sides: list[Side], output: str, dtype: DTypeLike, guard: int | None) -> Node | None:
    """Contract two operands at a time, those first that take the fewest multiplications.

    What a zero of the guard has met on the way is not known any more in the end: a result that is not finite is void.
    """
    sides = list(sides)
    while len(sides) > 1:
        sizes = sizes_of(sides)
        places = min(
            combinations(range(len(sides)), 2), key=lambda pair: sizes.of({*sides[pair[0]][1], *sides[pair[1]][1]})
        )
        taken = [sides[place] for place in places]
        sides = [each for place, each in enumerate(sides) if place not in places]
        needed = set(output).union(*[each.labels for each in sides])
        kept = "".join(dict.fromkeys(label for each in taken for label in each.labels if label in needed))
        kept = kept if sides else output
        done = _contracted(program, taken, kept, dtype, None)
        if done is None:
            return None
        sides.append(Side(done, kept))
    if guard is not None:
        fails_unless_finite(program, sides[0].node)
    return sides[0].node


# By loops


def _looped(
    program: Program, sides: list[Side], output: str, dtype: DTypeLike, guard: int | None = None, is_view: bool = False
) -> Node:
    """Return the sum of products as loops over all labels, or the elements of one operand in another order."""
    sizes = sizes_of(sides)
    order = _order(sides, output, sizes)
    spread = [_spread(program, side, order, sizes) for side in sides]
    product = spread[0]
    if guard is not None and len(spread) > 1:
        others = [each for place, each in enumerate(spread) if place != guard]
        product = others[0]
        for each in others[1:]:
            product = program.elementwise("multiply", product, each)
        product = program.elementwise("scale", spread[guard], product)
    else:
        for each in spread[1:]:
            product = program.elementwise("multiply", product, each)
    product = program.broadcast(product, tuple(sizes[label] for label in order))
    gone = [axis for axis, label in enumerate(order) if label not in output]
    kind = "any" if np.dtype(dtype).kind == "b" else "sum"
    done = product
    if gone:
        done = program.add(Reduction(kind, product, gone, dtype))
    elif not is_view and np.dtype(dtype).kind == "f":  # a sum of one product begins at 0.0, which makes 0.0 of -0.0
        done = program.elementwise("add", product, program.add(Literal(0, dtype)))
    left = [label for label in order if label in output]
    return program.permuted(done, [left.index(label) for label in output])


def _spread(program: Program, side: Side, order: str, sizes: Sizes) -> Node:
    """Return an operand with an axis for each label of an order."""
    node, labels = side
    if labels == order or not labels:
        return node
    places = [axis_index(order.index(label)) for label in labels]
    return program.add(Remap(node, tuple(sizes[label] for label in order), places))


def _order(sides: list[Side], output: str, sizes: Sizes) -> str:
    """Return labels from the outermost loop to the innermost, which steps through memory one by one where it can."""
    summed = "".join(label for label in sizes if label not in output)
    if not summed:
        return output
    steps = [dict(zip(side.labels, strides_of(side.node), strict=True)) for side in sides]

    def cost(label: str) -> float:
        far: float = sum(abs(each.get(label, 0)) > 1 for each in steps)
        if label in output:  # the sums are in memory, which is read and written in each iteration
            far += 0.5 if label == output[-1] else 2
        return far + 2 / max(sizes[label], 1)

    inner = min([*output, *summed], key=cost)
    others = [label for label in output if label != inner]
    rest = [label for label in summed if label != inner]
    return "".join([*others, *rest, inner])


# By products of matrices


class _Roles(NamedTuple):
    """What labels are in the product of two matrices.

    Attributes:
        batch: the axes of a stack.
        rows, columns: those of the first and of the second operand alone.
        summed: those of both that the result lacks.
    """

    batch: str
    rows: str
    summed: str
    columns: str

    @staticmethod
    def of(x: str, y: str, output: str) -> _Roles:
        """Return the roles for the labels of two operands."""
        larger = max(x, y, key=len)
        return _Roles(
            "".join(label for label in output if label in x and label in y),
            "".join(label for label in output if label not in y),
            "".join(label for label in larger if label in x and label in y and label not in output),
            "".join(label for label in output if label not in x),
        )

    def are_for_blas(self, sizes: Sizes) -> bool:
        """Return whether the products are of matrices that are large enough."""
        m, k, n = sizes.of(self.rows), sizes.of(self.summed), sizes.of(self.columns)
        return min(m, k, n) > 2 and m * k * n > _LEAST_FOR_BLAS


def _is_by_columns(sides: Sequence[Side], roles: _Roles, sizes: Sizes) -> bool:
    """Return whether a large matrix is summed along columns, to which a loop would add row by row."""
    m, k, n = sizes.of(roles.rows), sizes.of(roles.summed), sizes.of(roles.columns)
    if min(m, n) > 1 or k < 3 or m * k * n < _LEAST_BY_COLUMNS:
        return False
    matrix = sides[0] if m > 1 else sides[1]
    return min(map(abs, strides_of(matrix.node)), default=0) == 1 and all(
        abs(step) != 1
        for label, step in zip(matrix.labels, strides_of(matrix.node), strict=True)
        if label in roles.summed
    )


def _multiplied(program: Program, x: Side, y: Side, output: str) -> Node:
    """Return a sum of products by BLAS."""
    sizes = sizes_of([x, y])
    roles = _with_stack(_Roles.of(x.labels, y.labels, output), x.labels, y.labels, output, sizes)
    if roles.rows and roles.columns and output.index(roles.columns[0]) < output.index(roles.rows[0]):
        x, y, roles = y, x, roles._replace(rows=roles.columns, columns=roles.rows)
    batch, rows, summed, columns = roles
    stack = tuple(sizes[label] for label in batch)
    m, k, n = sizes.of(rows), sizes.of(summed), sizes.of(columns)
    left, lies = matrices_of(_as_matrices(program, x, (*batch, rows, summed), sizes))
    right, stands = matrices_of(_as_matrices(program, y, (*batch, summed, columns), sizes))
    done = program.add(
        LibraryCall("matmul", (*stack, m, n), x.node.dtype, [left, right], Product(stack, m, k, n, lies, stands))
    )
    found = batch + rows + columns
    done = program.reshaped(done, tuple(sizes[label] for label in found))
    return program.permuted(done, [found.index(label) for label in output])


def _with_stack(roles: _Roles, x: str, y: str, output: str, sizes: Sizes) -> _Roles:
    """Return roles in which the first rows or columns are a stack, where that saves moving an operand or the result."""
    batch, rows, summed, columns = roles
    rows_split, columns_split = _split(rows, x, output), _split(columns, y, output)
    inner = sizes.of(rows[rows_split:]) * sizes.of(summed) * sizes.of(columns[columns_split:])
    if inner < _LEAST_PER_CALL:
        return roles
    outer = set(batch + rows[:rows_split] + columns[:columns_split])
    batch = "".join(label for label in output if label in outer)
    return _Roles(batch, rows[rows_split:], summed, columns[columns_split:])


def _split(labels: str, own: str, output: str) -> int:
    """Return how many of an operand's labels are better a stack: so many that the others lie beside each other."""
    for count in range(len(labels)):
        if labels[count:] in own and labels[count:] in output:
            return count
    return len(labels)


def _as_matrices(program: Program, side: Side, groups: Sequence[str], sizes: Sizes) -> Node:
    """Return an operand with an axis for each group of labels; those that it lacks are repeated."""
    node, labels = side
    own = [group for group in groups if all(label in labels for label in group)]
    if not all(group in labels for group in own):
        wanted = "".join(own)
        node, labels = program.permuted(node, [labels.index(label) for label in wanted]), wanted
    lying = sorted((group for group in own if group), key=labels.index)
    node = program.reshaped(node, [sizes.of(group) for group in lying])
    shape = tuple(sizes.of(group) for group in groups)
    if lying == list(groups):
        return node
    places = [axis_index(groups.index(group)) for group in lying]
    return program.add(Remap(node, shape, places))
