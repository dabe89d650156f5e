"""Registration of rules for ufuncs of other libraries: SciPy's are added when the first one is called with a tensor."""

from __future__ import annotations

import importlib
import sys

import numpy as np

from fgrad.core.primitive import UFUNC_FORMS, UFUNCS
from fgrad.ops.methods import OTHERS_UFUNCS


def enter_ufunc(ufunc: np.ufunc) -> bool:
    """Register the rule of a SciPy ufunc, and return whether there is one."""
    if "scipy.special" not in sys.modules:
        return False
    if getattr(importlib.import_module("fgrad.scipy._special"), ufunc.__name__, None) is not ufunc:
        return False
    importlib.import_module("fgrad.scipy.special")
    return ufunc in UFUNCS or (ufunc, "__call__") in UFUNC_FORMS


OTHERS_UFUNCS.append(enter_ufunc)
