"""Where the functions of BLAS and LAPACK lie in memory: SciPy has them, and exports their addresses.

address("dgemm")      the address of a function; None where SciPy is not installed
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
from typing import Any

_MODULES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
LETTERS = {"float64": "d", "float32": "s"}
"""With what the names of functions begin, by the dtype of their arrays."""


@functools.cache
def address(name: str) -> int | None:
    """Return the address of a function of BLAS or LAPACK; None where there is none that takes integers of 32 bits."""
    for capsules in _capsules():
        if name in capsules:
            return _address_in(capsules[name])
    return None


@functools.cache
def _capsules() -> list[dict[str, Any]]:
    if importlib.util.find_spec("scipy") is None:
        return []
    return [importlib.import_module(module).__pyx_capi__ for module in _MODULES]


def _address_in(capsule: object) -> int | None:
    """Return what a capsule points to; its name is the type of the function."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    if b"int *" not in name:
        return None
    found: int | None = pointer_of(capsule, name)
    return found


def has(dtype: Any, *names: str) -> bool:
    """Return whether there are functions for a dtype; their names are given without the first letter."""
    letter = LETTERS.get(dtype.name)
    return letter is not None and all(address(letter + name) is not None for name in names)
