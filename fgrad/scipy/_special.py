"""SciPy's special functions themselves, also where SciPy has wrapped them.

`scipy.special.gamma` is a ufunc, for which there are rules. Where the environment has `SCIPY_ARRAY_API=1`, that name is
a function around the ufunc, which asks its arguments for their array namespace. Here it is the ufunc in both cases.

    from fgrad.scipy import _special as special
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import scipy.special


def unwrapped(function: Any) -> Any:
    """Return what SciPy has wrapped to choose by the namespace of the arguments, and all else as it is."""
    inner = getattr(function, "__wrapped__", None)
    # A wrapper for another purpose has the module of what it wraps, or is no function of Python's, as in NumPy.
    is_wrapper = isinstance(inner, np.ufunc) or (
        isinstance(function, FunctionType) and inner is not None and inner.__module__ != function.__module__
    )
    return inner if is_wrapper else function


def __dir__() -> list[str]:
    return dir(scipy.special)


def __getattr__(name: str) -> Any:
    value = globals()[name] = unwrapped(getattr(scipy.special, name))
    return value
