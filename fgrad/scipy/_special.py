"""SciPy's special functions, without SciPy's wrappers.

`scipy.special.gamma` is a ufunc, and has a rule. If the environment has `SCIPY_ARRAY_API=1`, that name is
a wrapper that dispatches on the array namespace of its arguments. This module has the ufunc in both cases.

    from fgrad.scipy import _special as special
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import scipy.special


def unwrapped(function: object) -> Any:
    """Return the function inside SciPy's array API wrapper; other objects are returned unchanged."""
    inner = getattr(function, "__wrapped__", None)
    # Wrappers for other purposes have the module of the wrapped function, or are not Python functions, as in NumPy.
    is_wrapper = isinstance(inner, np.ufunc) or (
        isinstance(function, FunctionType) and inner is not None and inner.__module__ != function.__module__
    )
    return inner if is_wrapper else function


def __dir__() -> list[str]:
    return dir(scipy.special)


def __getattr__(name: str) -> Any:
    value = globals()[name] = unwrapped(getattr(scipy.special, name))
    return value
