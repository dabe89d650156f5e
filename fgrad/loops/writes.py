"""Writes of a recorded function into tensors from outside of it.

A loop records its function once, and a branch that is not taken is recorded, too: a write into a tensor that existed
before would happen once, and not in each iteration, or in a branch that does not run.

    with no_outer_writes():     raises OuterWriteError before such a write
    own_operands(operands)      copies of operands, into which a function may write
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from fgrad.core.tensor import Tensor
from fgrad.core.tree import flatten
from fgrad.core.variable import open_watches
from fgrad.core.views import checking_writes, hidden_value, now_written
from fgrad.loops.avals import own


class OuterWriteError(Exception):
    """A function that is recorded writes into a tensor from outside of it."""


class _Check:
    """Raises if a tensor of an open recording was there before the function began.

    Attributes:
        allowed: tensors that the function may write into all the same.
    """

    def __init__(self) -> None:
        traces: list[Any] = [watch.trace for watch in open_watches() if watch.trace.is_program]
        self._counts: dict[Any, int] = {trace: len(trace.equations) for trace in traces}
        self.allowed: list[Any] = []

    def __call__(self, root: Tensor) -> None:
        """Check the root that is written to."""
        hidden = hidden_value(root)
        value: Any = root if hidden is None else hidden
        while type(value) is Tensor and value._trace not in self._counts:
            value = value._payload
        if type(value) is not Tensor or any(root is each for each in self.allowed):
            return
        trace: Any = value._trace
        new = trace.equations[self._counts[trace] :]
        if not any(value._mark in equation.outputs for equation in new):
            raise OuterWriteError


def no_outer_writes() -> AbstractContextManager[None]:
    """Refuse writes into tensors of open recordings that exist already, in this thread.

    Raises:
        OuterWriteError: in the `with` block, before the write.
    """
    return checking_writes(_Check())


def own_operands(operands: tuple[Any, ...]) -> Any:
    """Return copies of operands, into which the function that gets them may write."""
    copies = own(operands)
    if isinstance(now_written.check, _Check):
        now_written.check.allowed += flatten(copies)[0]
    return copies
