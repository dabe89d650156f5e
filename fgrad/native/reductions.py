"""How sums along axes and their kin are lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.native.lowering import LOWERINGS, Program, count_of, lowers
from fgrad.native.nodes import Literal, Node


def _reduction_of(kind: str) -> Callable[..., Any]:
    def rule(
        program: Program, out: Any, x: Node, axis: Any = None, keepdims: bool = False, **others: Any
    ) -> Node | None:
        if others or (kind in ("max", "min") and out.dtype.kind == "b"):
            return None
        return program.reduced(kind, program.cast(x, out.dtype), axis, keepdims, out.dtype)

    return rule


for _kind in ("sum", "prod", "max", "min", "any", "all"):
    LOWERINGS[_kind] = _reduction_of(_kind)


@lowers("mean")
def _mean(program: Program, out: Any, x: Node, axis: Any = None, keepdims: bool = False) -> Node | None:
    if x.dtype.kind != "f":
        return None
    total = program.reduced("sum", x, axis, keepdims, out.dtype)
    count = program.add(Literal(count_of(x.shape, axis), out.dtype))
    return program.pointwise("divide", total, count)
