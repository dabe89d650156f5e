"""What forward rules of one's own need: tangents of arguments that are broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["broadcast"]


def broadcast(x: Any, target: Any) -> Any:
    """Return a tangent in the shape of the result, complex if that is."""
    x = x if np.shape(x) == np.shape(target) else x + np.zeros(np.shape(target))
    return x + 0j if np.iscomplexobj(target) and not np.iscomplexobj(x) else x
