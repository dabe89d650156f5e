"""The user's own primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.core.primitive import Primitive

USERS: dict[Primitive, Callable[..., Any] | None] = {}
"""By primitive, functions of NumPy's operations that native code runs in their place, if there are any.

They may have the names of functions that are known here, and are not these.
"""
