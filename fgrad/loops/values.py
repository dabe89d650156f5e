"""Checks of the values in loops and branches: whether one exists, and whether it is a boolean or an integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core import layers
from fgrad.core.layers import below
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, strip_ended


def is_undecided(x: Any) -> bool:
    """Return whether there is no single value, because it differs between examples or belongs to a program."""
    if type(x) not in BOXES:
        return False
    return type(below(strip_ended(x), layers.is_undecided)) is Tensor


def is_of_program(x: Any) -> bool:
    """Return whether a value belongs to a program that is being recorded."""
    return type(below(strip_ended(x), layers.is_program)) is Tensor


def checked_truth(x: Any, what: str) -> Any:
    """Return a boolean, which may differ between examples.

    Raises:
        ShapeError: a ValueError; it is an array with several elements.
        StructureError: a TypeError; it is not a boolean or number.
    """
    if isinstance(x, (bool, int, float)):
        return x
    if type(x) not in BOXES and not isinstance(x, (np.ndarray, np.generic)):
        raise errors.StructureError(f"{what} must be a boolean, and is {x!r:.100} of type {type(x).__name__}.")
    if x.shape != ():
        raise errors.ShapeError(
            f"{what} must be a single boolean, and has shape {x.shape}.\nReduce it with np.all or np.any; to select "
            "element by element, use np.where(condition, x, y)."
        )
    return x


def checked_integer(x: Any, what: str) -> Any:
    """Return an integer, which may differ between examples.

    Raises:
        DtypeError: a TypeError; it is not an integer.
    """
    is_integer = isinstance(x, int) and not isinstance(x, bool)
    if is_integer or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u"):
        return x
    kind = getattr(x, "dtype", type(x).__name__)
    raise errors.DtypeError(f"{what} must be an integer, and is {x!r:.100} of {kind}.\nWrite int(x), or x.astype(int).")
