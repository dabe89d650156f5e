"""SciPy's functions for tensors, by SciPy's names.

    >>> import fgrad.scipy
    >>> fgrad.scipy.special.softmax([0.0, 0.0])
    array([0.5, 0.5])

Its areas are `integrate`, `interpolate`, `linalg`, `ndimage`, `optimize`, `signal`, `sparse`, `spatial`, `special` and
`stats`, as in SciPy; each is imported on first use.
"""

import importlib as _importlib
import importlib.util as _util
import typing as _typing

import fgrad.core as _core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors as _errors

if _util.find_spec("scipy") is None:
    raise _errors.MissingExtraError("fgrad.scipy needs the library SciPy, which is not installed: pip install scipy")

if _typing.TYPE_CHECKING:
    from fgrad.scipy import integrate as integrate
    from fgrad.scipy import interpolate as interpolate
    from fgrad.scipy import linalg as linalg
    from fgrad.scipy import ndimage as ndimage
    from fgrad.scipy import optimize as optimize
    from fgrad.scipy import signal as signal
    from fgrad.scipy import sparse as sparse
    from fgrad.scipy import spatial as spatial
    from fgrad.scipy import special as special
    from fgrad.scipy import stats as stats
else:
    _AREAS = (
        "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats",
    )  # fmt: skip

    def __getattr__(name):
        if name in _AREAS:
            return _importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its areas are {', '.join(_AREAS)}.")

    def __dir__():
        return sorted({*globals(), *_AREAS})
