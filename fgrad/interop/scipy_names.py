"""Names and ufuncs of SciPy that `fgrad.scipy` supports; it is imported when an error message or a call needs them."""

from __future__ import annotations

import importlib
import operator
import sys

import numpy as np

from fgrad.core.primitive import UFUNC_FORMS, UFUNCS
from fgrad.errors import HAS_TWIN
from fgrad.ops.methods import OTHERS_UFUNCS


def has_twin(name: str) -> bool:
    """Return whether `fgrad.scipy` has a SciPy name, such as `scipy.linalg.expm`."""
    library, _, rest = name.partition(".")
    area, _, rest = rest.partition(".")
    if library != "scipy":
        return False
    try:
        return operator.attrgetter(rest)(importlib.import_module(f"fgrad.scipy.{area}")) is not None
    except (ImportError, AttributeError):
        return False


def enter_ufunc(ufunc: np.ufunc) -> bool:
    """Register the rule of a SciPy ufunc that is called with a tensor, and return whether there is one."""
    if "scipy.special" not in sys.modules:
        return False
    if getattr(importlib.import_module("fgrad.scipy._special"), ufunc.__name__, None) is not ufunc:
        return False
    importlib.import_module("fgrad.scipy.special")
    return ufunc in UFUNCS or (ufunc, "__call__") in UFUNC_FORMS


HAS_TWIN.append(has_twin)
OTHERS_UFUNCS.append(enter_ufunc)
