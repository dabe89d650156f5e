"""Error messages for names that an area of `fgrad.scipy` does not have.

__getattr__ = absent(__name__)    in a module with the name of a SciPy module
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from fgrad import errors


def absent(module: str, instead: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], NoReturn]:
    """Return a module-level `__getattr__` for missing names.

    Args:
        module: its name, such as "fgrad.scipy.signal".
        instead: alternatives for some SciPy names.

    Returns:
        A function of the name, which raises `MissingNameError`, an AttributeError. The message says what SciPy has
        under the name, and gives the nearest existing names if SciPy has none of it.
    """

    def missing(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"module {module!r} has no attribute {name!r}."
        known = _of_scipys(module, name, instead.get(name, ""))
        names = [each for each in vars(sys.modules[module]) if not each.startswith("_")]
        near = [] if known else difflib.get_close_matches(name, names, cutoff=0.7)
        if near:
            text += f"\nDid you mean {' or '.join(near)}?"
        raise errors.MissingNameError(text + known)

    return missing


def _of_scipys(module: str, name: str, instead: str) -> str:
    """Return what to do about a name that SciPy has, as a separate line."""
    original = module.removeprefix("fgrad.")
    value: Any = getattr(importlib.import_module(original), name, None)
    if value is None:
        return ""
    if isinstance(value, np.ufunc):
        return f"\nThe ufunc {original}.{name} accepts tensors."
    rule = "To let derivatives through it, give it a rule: fg.custom_vjp or fg.custom_jvp."
    return (
        f"\n{original}.{name} has no derivative in fgrad: call it with plain arrays that are not differentiated.\n"
        + (f"Instead: {instead}." if instead else rule)
    )
