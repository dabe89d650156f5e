"""The class of traced arrays."""

from __future__ import annotations

from fgrad.compat.autograd.tracer import Box

__all__ = ["ArrayBox", "Box"]


class ArrayBox(Box):
    """The type of traced arrays and numbers, which are fgrad tensors."""

    holds_numbers = True
