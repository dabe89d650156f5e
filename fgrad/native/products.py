"""Lowering of matrix products, `einsum` and convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.native.contractions import Operand, contraction, fail_unless_finite
from fgrad.native.lowering import Program, lowers
from fgrad.native.nodes import AffineIndex, AffineTerm, Concatenation, Node, Reduction, Remap, axis_index
from fgrad.native.shapes import sliced

if TYPE_CHECKING:
    from fgrad.graphs.equations import Name


@lowers("matmul", "matmul_guarded")
def _matmul(program: Program, out: Name, x: Node, y: Node, guard: int | None = None) -> Node | None:
    """Return a matrix product; stack axes have labels aligned from the last one."""
    stacks = [max(len(each.shape) - 2, 0) for each in (x, y)]
    letters = "".join(chr(ord("a") + axis) for axis in range(max(stacks)))
    rows, columns = "X" * (len(x.shape) > 1), "Z" * (len(y.shape) > 1)
    left, right = (letters[len(letters) - count :] for count in stacks)
    labelled = [
        Operand(program.cast(x, out.dtype), left + rows + "Y"),
        Operand(program.cast(y, out.dtype), f"{right}Y{columns}"),
    ]
    return contraction(program, labelled, letters + rows + columns, out.dtype, guard)


@lowers("einsum", "einsum_guarded")
def _einsum(
    program: Program, out: Name, *operands: Node, subscripts: str, optimize: object = False, guard: int | None = None
) -> Node | None:
    inputs, output = subscripts.split("->")
    nodes = [program.cast(x, out.dtype) for x in operands]
    if not _has_consistent_sizes(inputs.split(","), nodes):
        return None
    labelled = [Operand(node, labels) for node, labels in zip(nodes, inputs.split(","), strict=True)]
    return contraction(program, labelled, output, out.dtype, guard)


def _has_consistent_sizes(terms: list[str], nodes: list[Node]) -> bool:
    """Return whether repeated labels of an operand have one size, so that NumPy does not broadcast."""
    for labels, node in zip(terms, nodes, strict=True):
        pairs = {*zip(labels, node.shape, strict=True)}
        if len(pairs) != len({*labels}):
            return False
    return True


@lowers("convolve", "convolve_guarded")
def _convolve(
    program: Program, out: Name, a: Node, v: Node, start: int, length: int, guard: int | None = None
) -> Node | None:
    """Return a window of the full convolution over the last axes, with zeros beyond the ends.

    Such zeros turn infinities into NaN, as do guarded zeros: then the run fails.
    """
    a, v = program.cast(a, out.dtype), program.cast(v, out.dtype)
    if a.shape[-1] < v.shape[-1]:
        a, v, guard = v, a, None if guard is None else 1 - guard
    count = v.shape[-1]
    if out.dtype.kind == "b" or 0 in (*out.shape, *v.shape):
        return None
    kept = _window(program, a, count - 1 - start, start + length - a.shape[-1])
    is_safe = out.dtype.kind != "f" or (kept.shape[-1] <= a.shape[-1] and guard is None)
    done = _valid(program, kept, sliced(program, v, (Ellipsis, slice(None, None, -1))), out.shape)
    if not is_safe:
        fail_unless_finite(program, done)
    return done


def _window(program: Program, a: Node, before: int, after: int) -> Node:
    """Return an array without some of its first and last elements, or padded with zeros; negative counts crop."""
    a = sliced(program, a, (Ellipsis, slice(max(0, -before), a.shape[-1] - max(0, -after))))
    lead = a.shape[:-1]
    ends = [program.zeros((*lead, max(0, count)), a.dtype) for count in (before, after)]
    parts = [each for each in (ends[0], a, ends[1]) if each.shape[-1]]
    return parts[0] if len(parts) == 1 else program.add(Concatenation(parts, len(lead)))


def _valid(program: Program, a: Node, v: Node, shape: tuple[int, ...]) -> Node:
    """Return the sums `a[..., i + j] * v[..., j]` over j; the innermost loop is the longer one."""
    lead, length, count = shape[:-1], shape[-1], v.shape[-1]
    axis = len(lead)
    i, j = (axis + 1, axis) if length >= count else (axis, axis + 1)
    space = (*lead, count, length) if length >= count else (*lead, length, count)
    sides = []
    for each, last in ((a, (AffineTerm(i, 1), AffineTerm(j, 1))), (v, (AffineTerm(j, 1),))):
        first = axis - (len(each.shape) - 1)
        places = [axis_index(first + own, size) for own, size in enumerate(each.shape[:-1])]
        sides.append(program.add(Remap(each, space, [*places, AffineIndex(0, last)])))
    product = program.elementwise("multiply", *sides)
    return program.add(Reduction("sum", product, [j], a.dtype))
