"""User-defined primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.core.primitive import Primitive

USERS: dict[Primitive, Callable[..., Any] | None] = {}
"""NumPy implementations of user-defined primitives for native code, None without one.

The name of such a primitive may be that of a built-in one."""
