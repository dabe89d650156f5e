"""Eager or deferred: the switches of a program."""

from __future__ import annotations

from typing import Any

from fgrad.compat.deferred import mode


def executing_eagerly() -> bool:
    """Return whether operations are computed at once."""
    return not mode.is_deferring()


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Compute operations at once, from now on."""
    mode.current().eager = True


def disable_eager_execution() -> None:
    """Defer operations to graphs, from now on."""
    mode.current().eager = False


def enable_v2_behavior() -> None:
    """Compute operations at once, from now on."""
    mode.current().eager = True


def disable_v2_behavior() -> None:
    """Defer operations to graphs, from now on."""
    mode.current().eager = False
