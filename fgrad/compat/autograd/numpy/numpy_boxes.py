"""The class of which traced arrays are instances."""

from __future__ import annotations

from fgrad.compat.autograd.tracer import Box

__all__ = ["ArrayBox", "Box"]


class ArrayBox(Box):
    """What traced arrays and numbers are instances of; they are fgrad's tensors."""
