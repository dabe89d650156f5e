"""Tensor contractions: as loops if they are small, as matrix products where BLAS is faster.

    contraction(program, operands, output, dtype)      the contraction of operands with labelled axes

Labels are the subscripts of `einsum`; those of `matmul` are written in the same form. Axes of size 1 are removed first,
since no loop is needed for them.
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
from fgrad.native.nodes import AffineIndex, LibraryCall, Node, Reduction, Remap, axis_index
from fgrad.native.routines import Product
from fgrad.typing import DTypeLike

_LEAST_FOR_BLAS = 1000
"""The number of multiplications below which loops take less time than the overhead of a BLAS call."""
_LEAST_PER_CALL = 8000
"""Multiplications per product of a batch below which operands are transposed instead, to make it a single product."""


_LEAST_FOR_GEMV = 4000
"""Multiplications of a matrix-vector product below which a loop in either order is as fast."""


class Operand(NamedTuple):
    """An operand, and the labels of its axes."""

    node: Node
    labels: str


class Sizes(dict[str, int]):
    """The sizes of labels."""

    def of(self, labels: Iterable[str]) -> int:
        """Return the product of the sizes of labels."""
        return prod(self[label] for label in labels)


def sizes_of(operands: Sequence[Operand]) -> Sizes:
    """Return the sizes of labels; axes of size 1 broadcast."""
    sizes = Sizes()
    for node, labels in operands:
        for label, size in zip(labels, node.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    return sizes


def contraction(
    program: Program, operands: Sequence[Operand], output: str, dtype: DTypeLike, guard: int | None = None
) -> Node | None:
    """Return the contraction of operands; None if no BLAS library is available for a large one.

    Args:
        program: the program, to which nodes are added.
        operands: the operands, in the dtype of the result.
        output: the labels of the result.
        dtype: the dtype of the result.
        guard: the position of the operand whose exact zeros make products 0 even with infinities and NaN.
    """
    sizes = sizes_of(operands)
    shape = tuple(sizes[label] for label in output)
    long = [_squeezed(program, each, sizes) for each in operands]
    kept = "".join(label for label in output if sizes[label] != 1)
    is_float = np.dtype(dtype).kind == "f"
    guard = guard if is_float else None
    if is_float and len(operands) > 1:
        done = _contracted(program, long, kept, dtype, guard)
    else:
        done = _as_loops(
            program, long, kept, dtype, is_view=len(operands) == 1 and set(operands[0].labels) <= set(output)
        )
    if done is None:
        return None
    return program.reshaped(done, shape)


def _squeezed(program: Program, operand: Operand, sizes: Sizes) -> Operand:
    """Return an operand without axes of size 1 and repeated labels, with its axes in memory order."""
    node, labels = operand
    long = "".join(dict.fromkeys(label for label, size in zip(labels, node.shape, strict=True) if size != 1))
    indices = []
    for label, size in zip(labels, node.shape, strict=True):
        indices.append(axis_index(long.index(label)) if size != 1 else AffineIndex(0, ()))
    shape = tuple(sizes[label] for label in long)
    if long != labels:
        node = program.add(Remap(node, shape, indices))
    return _untransposed(Operand(node, long))


def _untransposed(operand: Operand) -> Operand:
    """Return the array of which an operand is a transpose, with its labels."""
    node, labels = operand
    while isinstance(node, Remap) and not node.bounds and sorted(node.shape) == sorted(node.arguments[0].shape):
        axes = [index.terms[0].axis if len(index.terms) == 1 else -1 for index in node.index_map]
        are_same = all(index == axis_index(axis) for index, axis in zip(node.index_map, axes, strict=True))
        if not are_same or sorted(axes) != list(range(len(labels))):
            break
        node, labels = node.arguments[0], "".join(labels[axis] for axis in axes)
    return Operand(node, labels)


def _contracted(
    program: Program, operands: list[Operand], output: str, dtype: DTypeLike, guard: int | None
) -> Node | None:
    sizes = sizes_of(operands)
    is_small = sizes.of(sizes) <= _LEAST_FOR_BLAS or set(output) == set(sizes)
    if len(operands) > 2 and not is_small:
        return _pairwise(program, operands, output, dtype, guard)
    if len(operands) != 2:
        return _as_loops(program, operands, output, dtype, guard)
    summed = [
        _reduce_own_labels(program, operand, operands[1 - position].labels, output)
        for position, operand in enumerate(operands)
    ]
    roles = _Roles.of(summed[0].labels, summed[1].labels, output)
    # Partial sums give other results for infinities than sums of products; NumPy may compute either.
    is_invalid_if_infinite = summed != operands
    if not is_small and (roles.are_for_blas(sizes) or _prefers_gemv(summed, roles, sizes)):
        if not libraries.has(np.dtype(dtype), "gemm", "gemv"):
            return None
        done = _as_matmul(program, summed[0], summed[1], output)
        is_invalid_if_infinite |= guard is not None
    else:
        done = _as_loops(program, summed, output, dtype, None if is_invalid_if_infinite else guard)
    if is_invalid_if_infinite:
        fail_unless_finite(program, done)
    return done


def fail_unless_finite(program: Program, x: Node) -> None:
    """Make a run fail if an array contains an infinity or NaN."""
    is_finite = program.elementwise("isfinite", x)
    program.add_failure(program.elementwise("logical_not", is_finite))


def _reduce_own_labels(program: Program, operand: Operand, others: str, output: str) -> Operand:
    """Return an operand summed along the labels that neither the other operand nor the output has."""
    node, labels = operand
    alone = [axis for axis, label in enumerate(labels) if label not in others and label not in output]
    if not alone:
        return operand
    kept = "".join(label for axis, label in enumerate(labels) if axis not in alone)
    return Operand(program.add(Reduction("sum", node, alone, node.dtype)), kept)


def _pairwise(
    program: Program, operands: list[Operand], output: str, dtype: DTypeLike, guard: int | None
) -> Node | None:
    """Contract two operands at a time, greedily by the number of multiplications.

    Intermediate results do not preserve zeros of the guard, so with a guard a result that is not finite fails the run.
    """
    operands = list(operands)
    while len(operands) > 1:
        sizes = sizes_of(operands)
        positions = min(
            combinations(range(len(operands)), 2),
            key=lambda pair: sizes.of({*operands[pair[0]][1], *operands[pair[1]][1]}),
        )
        chosen = [operands[position] for position in positions]
        operands = [each for position, each in enumerate(operands) if position not in positions]
        needed = set(output).union(*[each.labels for each in operands])
        kept = "".join(dict.fromkeys(label for each in chosen for label in each.labels if label in needed))
        kept = kept if operands else output
        done = _contracted(program, chosen, kept, dtype, None)
        if done is None:
            return None
        operands.append(Operand(done, kept))
    if guard is not None:
        fail_unless_finite(program, operands[0].node)
    return operands[0].node


# As loops


def _as_loops(
    program: Program,
    operands: list[Operand],
    output: str,
    dtype: DTypeLike,
    guard: int | None = None,
    is_view: bool = False,
) -> Node:
    """Return the contraction as loops over all labels; `is_view`: NumPy returns a view, which preserves -0.0."""
    sizes = sizes_of(operands)
    order = _order(operands, output, sizes)
    broadcast = [_broadcast(program, operand, order, sizes) for operand in operands]
    product = broadcast[0]
    if guard is not None and len(broadcast) > 1:
        others = [each for position, each in enumerate(broadcast) if position != guard]
        product = others[0]
        for each in others[1:]:
            product = program.elementwise("multiply", product, each)
        product = program.elementwise("scale", broadcast[guard], product)
    else:
        for each in broadcast[1:]:
            product = program.elementwise("multiply", product, each)
    product = program.broadcast(product, tuple(sizes[label] for label in order))
    reduced = [axis for axis, label in enumerate(order) if label not in output]
    kind = "any" if np.dtype(dtype).kind == "b" else "sum"
    done = product
    if reduced:
        done = program.add(Reduction(kind, product, reduced, dtype))
    elif not is_view and np.dtype(dtype).kind == "f":  # a sum starts at 0.0, so that -0.0 becomes 0.0
        done = program.elementwise("add", product, program.node(0, dtype))
    left = [label for label in order if label in output]
    return program.permuted(done, [left.index(label) for label in output])


def _broadcast(program: Program, operand: Operand, order: str, sizes: Sizes) -> Node:
    """Return an operand broadcast to the labels of the loops, in their order."""
    node, labels = operand
    if labels == order or not labels:
        return node
    indices = [axis_index(order.index(label)) for label in labels]
    return program.add(Remap(node, tuple(sizes[label] for label in order), indices))


def _order(operands: list[Operand], output: str, sizes: Sizes) -> str:
    """Return the loop order, as labels from outermost to innermost; the innermost has unit stride if possible."""
    summed = "".join(label for label in sizes if label not in output)
    if not summed:
        return output
    strides = [dict(zip(operand.labels, strides_of(operand.node), strict=True)) for operand in operands]

    def cost(label: str) -> float:
        cost_of_strides: float = sum(abs(each.get(label, 0)) > 1 for each in strides)
        if label in output:  # the accumulator is in memory, and is loaded and stored in each iteration
            cost_of_strides += 0.5 if label == output[-1] else 2
        return cost_of_strides + 2 / max(sizes[label], 1)

    inner = min([*output, *summed], key=cost)
    others = [label for label in output if label != inner]
    rest = [label for label in summed if label != inner]
    return "".join([*others, *rest, inner])


# As matrix products


class _Roles(NamedTuple):
    """The roles of labels in a batched matrix product.

    Attributes:
        batch: the labels of both operands and the result.
        rows, columns: the labels of only the first or only the second operand, and of the result.
        summed: the labels of both operands, over which the product sums.
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
        """Return whether the matrices are large enough for BLAS."""
        m, k, n = sizes.of(self.rows), sizes.of(self.summed), sizes.of(self.columns)
        return min(m, k, n) > 2 and m * k * n > _LEAST_FOR_BLAS


def _prefers_gemv(operands: Sequence[Operand], roles: _Roles, sizes: Sizes) -> bool:
    """Return whether this is a large matrix-vector product that sums along a strided axis of the matrix.

    A loop would update the whole result for each row of the matrix.
    """
    m, k, n = sizes.of(roles.rows), sizes.of(roles.summed), sizes.of(roles.columns)
    if min(m, n) > 1 or k < 3 or m * k * n < _LEAST_FOR_GEMV:
        return False
    matrix = operands[0] if m > 1 else operands[1]
    return min(map(abs, strides_of(matrix.node)), default=0) == 1 and all(
        abs(stride) != 1
        for label, stride in zip(matrix.labels, strides_of(matrix.node), strict=True)
        if label in roles.summed
    )


def _as_matmul(program: Program, x: Operand, y: Operand, output: str) -> Node:
    """Return a contraction of two operands as a matrix product by BLAS."""
    sizes = sizes_of([x, y])
    roles = _with_batch(_Roles.of(x.labels, y.labels, output), x.labels, y.labels, output, sizes)
    if roles.rows and roles.columns and output.index(roles.columns[0]) < output.index(roles.rows[0]):
        x, y, roles = y, x, roles._replace(rows=roles.columns, columns=roles.rows)
    batch, rows, summed, columns = roles
    batch_shape = tuple(sizes[label] for label in batch)
    m, k, n = sizes.of(rows), sizes.of(summed), sizes.of(columns)
    left, left_layout = matrices_of(_as_matrices(program, x, (*batch, rows, summed), sizes))
    right, right_layout = matrices_of(_as_matrices(program, y, (*batch, summed, columns), sizes))
    done = program.add(
        LibraryCall(
            "matmul",
            (*batch_shape, m, n),
            x.node.dtype,
            [left, right],
            Product(batch_shape, m, k, n, left_layout, right_layout),
        )
    )
    found = batch + rows + columns
    done = program.reshaped(done, tuple(sizes[label] for label in found))
    return program.permuted(done, [found.index(label) for label in output])


def _with_batch(roles: _Roles, x: str, y: str, output: str, sizes: Sizes) -> _Roles:
    """Return roles with leading rows or columns as batch axes, if that avoids transposing operands or the result."""
    batch, rows, summed, columns = roles
    rows_split, columns_split = _batch_split(rows, x, output), _batch_split(columns, y, output)
    inner = sizes.of(rows[rows_split:]) * sizes.of(summed) * sizes.of(columns[columns_split:])
    if inner < _LEAST_PER_CALL:
        return roles
    outer = set(batch + rows[:rows_split] + columns[:columns_split])
    batch = "".join(label for label in output if label in outer)
    return _Roles(batch, rows[rows_split:], summed, columns[columns_split:])


def _batch_split(labels: str, own: str, output: str) -> int:
    """Return how many leading labels to make batch axes, so that the others are adjacent in operand and output."""
    for count in range(len(labels)):
        if labels[count:] in own and labels[count:] in output:
            return count
    return len(labels)


def _as_matrices(program: Program, operand: Operand, groups: Sequence[str], sizes: Sizes) -> Node:
    """Return an operand with one axis for each group of labels, broadcast along the groups that it lacks."""
    node, labels = operand
    own = [group for group in groups if all(label in labels for label in group)]
    if not all(group in labels for group in own):
        wanted = "".join(own)
        node, labels = program.permuted(node, [labels.index(label) for label in wanted]), wanted
    in_memory_order = sorted((group for group in own if group), key=labels.index)
    node = program.reshaped(node, [sizes.of(group) for group in in_memory_order])
    shape = tuple(sizes.of(group) for group in groups)
    if in_memory_order == list(groups):
        return node
    indices = [axis_index(groups.index(group)) for group in in_memory_order]
    return program.add(Remap(node, shape, indices))
