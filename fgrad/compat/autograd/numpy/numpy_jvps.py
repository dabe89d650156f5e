"""Helpers for user-defined forward rules: tangents of broadcast arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["broadcast"]


def broadcast(x: Any, target: Any) -> Any:
    """Return a tangent broadcast to the shape of the result, and complex if the result is."""
    x = x if np.shape(x) == np.shape(target) else x + np.zeros(np.shape(target))
    return x + 0j if np.iscomplexobj(target) and not np.iscomplexobj(x) else x
