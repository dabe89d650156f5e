"""Where the functions of BLAS and LAPACK lie in memory: SciPy has them.

address("dgemm")          the address of a function, which runs in the thread that calls it; None without SciPy
address("dgetrf", True)   that of one which may use all cores by itself, for large matrices

OpenBLAS, which is part of SciPy's wheels, lets its threads wait for each other in loops: where another process keeps
a core busy, a product of 60 microseconds takes 20 milliseconds. How many threads it uses can be set for a whole process
alone, which belongs to the user. So the library is loaded once more, for native code alone, and uses one thread there:
large products are parted among the threads of `pool`, which wait for no other. Where this is not possible, as on other
systems, or where SciPy has another library, its functions serve for both.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

_MODULES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
LETTERS = {"float64": "d", "float32": "s"}
"""With what the names of functions begin, by the dtype of their arrays."""


@functools.cache
def address(name: str, uses_threads: bool = False) -> int | None:
    """Return the address of a function of BLAS or LAPACK; None where there is none that takes integers of 32 bits.

    Args:
        name: with the first letter, which says the dtype.
        uses_threads: whether it may use all cores by itself.
    """
    own = None if uses_threads else _own_library()
    if own is not None and hasattr(own, f"scipy_{name}_"):
        return ctypes.cast(getattr(own, f"scipy_{name}_"), ctypes.c_void_p).value
    for capsules in _capsules():
        if name in capsules:
            return _address_in(capsules[name])
    return None


def runs_in_one_thread() -> bool:
    """Return whether the functions that `address` returns use no threads of their own."""
    return _own_library() is not None


@functools.cache
def _own_library() -> ctypes.CDLL | None:
    """Return SciPy's OpenBLAS, loaded once more, and set to one thread; None where there is none, or it cannot be."""
    files = [path for folder in _folders() for path in folder.glob("libscipy_openblas-*.so")]
    if len(files) != 1 or not hasattr(os, "memfd_create") or not _capsules():
        return None
    try:
        library = _loaded_again(files[0])
        library.scipy_openblas_set_num_threads(1)
        library.blas_thread_shutdown_()
    except (OSError, AttributeError):  # files in memory cannot be run here, or it is another version
        return None
    return library if library.scipy_openblas_get_num_threads() == 1 else None


def _folders() -> list[Path]:
    """Return where wheels of SciPy have their libraries."""
    spec = importlib.util.find_spec("scipy")
    places = [] if spec is None else spec.submodule_search_locations or []
    return [Path(place).parent / "scipy.libs" for place in places]


def _loaded_again(path: Path) -> ctypes.CDLL:
    """Load a library that is loaded already: from a copy in memory, because a file is loaded once."""
    copy = os.memfd_create(path.name)
    try:
        with path.open("rb") as file, open(copy, "wb", closefd=False) as target:
            shutil.copyfileobj(file, target, 1 << 20)
        return ctypes.CDLL(f"/proc/self/fd/{copy}")
    finally:
        os.close(copy)


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
