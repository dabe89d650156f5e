"""Squares, signs and thresholds of real and complex numbers, for update rules.

For a complex number the modulus is used, so that a rule commutes with rotations of the complex plane: it has no
preferred direction there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.typing import Array, Operand


def square(x: Any) -> Any:
    """Return the square of the modulus, a real array."""
    return np.real(x * np.conjugate(x)) if x.dtype.kind == "c" else x * x


def filled(param: Array, value: float) -> Any:
    """Return a real array of the parameter's shape and precision with one value everywhere."""
    return np.full_like(param, value, dtype=np.finfo(param.dtype).dtype)


def shrunk(x: Array, distance: Operand) -> Any:
    """Move numbers towards 0, at most to it: `sign(x) * max(|x| - distance, 0)`."""
    return np.sign(x) * np.maximum(np.abs(x) - distance, 0) + 0.0  # no -0.0
