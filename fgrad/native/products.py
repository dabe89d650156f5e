"""How products of matrices, `einsum` and convolutions are lowered."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from fgrad.native.contractions import Side, contraction
from fgrad.native.lowering import Program, lowers
from fgrad.native.nodes import Node


@lowers("matmul", "matmul_guarded")
def _matmul(program: Program, out: Any, x: Node, y: Node, guard: int | None = None) -> Node | None:
    """Return a product; the axes of a stack have the labels of those of the other, counted from the last."""
    stacks = [max(len(each.shape) - 2, 0) for each in (x, y)]
    letters = string.ascii_lowercase[: max(stacks)]
    rows, columns = "X" * (len(x.shape) > 1), "Z" * (len(y.shape) > 1)
    left, right = (letters[len(letters) - count :] for count in stacks)
    sides = [Side(program.cast(x, out.dtype), left + rows + "Y"), Side(program.cast(y, out.dtype), f"{right}Y{columns}")]
    return contraction(program, sides, letters + rows + columns, out.dtype, guard)


@lowers("einsum", "einsum_guarded")
def _einsum(
    program: Program, out: Any, *operands: Node, subscripts: str, optimize: Any = False, guard: int | None = None
) -> Node | None:
    inputs, output = subscripts.split("->")
    nodes = [program.cast(x, out.dtype) for x in operands]
    if not _lowers_einsum(inputs.split(","), nodes):
        return None
    sides = [Side(node, labels) for node, labels in zip(nodes, inputs.split(","), strict=True)]
    return contraction(program, sides, output, out.dtype, guard)


def _lowers_einsum(terms: list[str], nodes: list[Node]) -> bool:
    """Return whether labels that an operand has twice have one size in it, where NumPy would broadcast."""
    for labels, node in zip(terms, nodes, strict=True):
        pairs = {*zip(labels, node.shape, strict=True)}
        if len(pairs) != len({*labels}):
            return False
    return True
