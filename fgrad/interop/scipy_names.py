"""Names of SciPy that `fgrad.scipy` supports; it is imported when an error message needs them."""

from __future__ import annotations

import importlib
import operator

from fgrad.errors import HAS_TWIN


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


HAS_TWIN.append(has_twin)
