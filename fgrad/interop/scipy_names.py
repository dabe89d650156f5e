"""Which functions and classes of SciPy there are here, too: `fgrad.scipy` is imported when an error asks for one."""

from __future__ import annotations

import importlib
import operator

from fgrad.errors import HAS_TWIN


def has_twin(name: str) -> bool:
    """Return whether there is a name of SciPy's, such as `scipy.linalg.expm`, in `fgrad.scipy`."""
    library, _, rest = name.partition(".")
    area, _, rest = rest.partition(".")
    if library != "scipy":
        return False
    try:
        return operator.attrgetter(rest)(importlib.import_module(f"fgrad.scipy.{area}")) is not None
    except (ImportError, AttributeError):
        return False


HAS_TWIN.append(has_twin)
