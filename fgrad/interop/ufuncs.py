"""How ufuncs of other libraries get their rules: SciPy's are entered when the first of them meets a tensor."""

from __future__ import annotations

import importlib
import sys

import numpy as np

from fgrad.core.primitive import UFUNC_FORMS, UFUNCS
from fgrad.ops.methods import OTHERS_UFUNCS


def enter_ufunc(ufunc: np.ufunc) -> bool:
    """Enter the rule of a ufunc of SciPy's, and return whether there is one."""
    if "scipy.special" not in sys.modules:
        return False
    if getattr(importlib.import_module("fgrad.scipy._special"), ufunc.__name__, None) is not ufunc:
        return False
    importlib.import_module("fgrad.scipy.special")
    return ufunc in UFUNCS or (ufunc, "__call__") in UFUNC_FORMS


OTHERS_UFUNCS.append(enter_ufunc)
