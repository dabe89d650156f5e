"""How ufuncs of other libraries get their rules: SciPy's are entered when the first of them meets a tensor."""

from __future__ import annotations

import importlib
import sys

import numpy as np

from fgrad.core.primitive import UFUNC_FORMS, UFUNCS
from fgrad.core.tensor import ABOVE


def find_ufunc(ufunc: np.ufunc) -> bool:
    """Return whether a ufunc has got its rule now."""
    special = sys.modules.get("scipy.special")
    if special is None or getattr(special, ufunc.__name__, None) is not ufunc:
        return False
    importlib.import_module("fgrad.scipy.special")
    return ufunc in UFUNCS or (ufunc, "__call__") in UFUNC_FORMS


ABOVE.find_ufunc = find_ufunc
