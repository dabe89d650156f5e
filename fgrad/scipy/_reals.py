"""Arguments that have to be real: SciPy rejects complex ones, or drops their imaginary parts."""

from __future__ import annotations

from typing import Any

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.typing import ArrayLike


def real_array(x: ArrayLike, name: str) -> Any:
    """Return an argument as an array.

    Raises:
        DtypeError: a TypeError; it is complex.
    """
    x = as_array(x)
    if x.dtype.kind == "c":
        raise errors.DtypeError(f"{name} takes real numbers, but one of its arguments has dtype {x.dtype}.")
    return x
