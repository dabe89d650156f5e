"""Eager or deferred execution: the global switches."""

from __future__ import annotations

from typing import Any

from fgrad.compat.deferred import mode


def executing_eagerly() -> bool:
    """Return whether execution is eager."""
    return not mode.is_deferring()


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Switch to eager execution."""
    mode.current().eager = True


def disable_eager_execution() -> None:
    """Switch to deferred execution in graphs."""
    mode.current().eager = False


def enable_v2_behavior() -> None:
    """Switch to eager execution."""
    mode.current().eager = True


def disable_v2_behavior() -> None:
    """Switch to deferred execution in graphs."""
    mode.current().eager = False
