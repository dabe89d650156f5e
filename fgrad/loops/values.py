"""What loops and branches may ask of a value: whether there is one, and whether it is a truth value or an integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core import layers
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, strip_ended


def is_undecided(x: Any) -> bool:
    """Return whether there is no value to ask for, because it differs between examples, or is that of a program."""
    if type(x) not in BOXES:
        return False
    return type(below(strip_ended(x), layers.is_undecided)) is Tensor


def is_of_program(x: Any) -> bool:
    """Return whether a value is one of a program that is being recorded, and not known for any example."""
    return type(below(strip_ended(x), layers.is_program)) is Tensor


def checked_truth(x: Any, what: str) -> Any:
    """Return a truth value, which may differ from example to example.

    Raises:
        ShapeError: a ValueError; it is an array of several.
        StructureError: a TypeError; it is no number.
    """
    if isinstance(x, (bool, int, float)):
        return x
    if type(x) not in BOXES and not isinstance(x, (np.ndarray, np.generic)):
        raise errors.StructureError(f"{what} must be a truth value, and is {x!r:.100} of type {type(x).__name__}.")
    if x.shape != ():
        raise errors.ShapeError(
            f"{what} must be one truth value, and has shape {x.shape}.\nMake one of it by np.all or np.any; to choose "
            "element by element is np.where(condition, x, y)."
        )
    return x


def checked_integer(x: Any, what: str) -> Any:
    """Return an integer, which may differ from example to example.

    Raises:
        DtypeError: a TypeError; it is none.
    """
    is_integer = isinstance(x, int) and not isinstance(x, bool)
    if is_integer or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u"):
        return x
    kind = getattr(x, "dtype", type(x).__name__)
    raise errors.DtypeError(f"{what} must be an integer, and is {x!r:.100} of {kind}.\nWrite int(x), or x.astype(int).")
