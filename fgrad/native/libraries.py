"""Addresses of the BLAS and LAPACK functions in SciPy.

address("dgemm")          the address of a single-threaded function; None without SciPy
address("dgetrf", True)   the address of a function that may use its own threads, for large matrices

OpenBLAS, part of SciPy's wheels, lets its threads spin for each other: where another process occupies a core, a
product of 60 microseconds takes 20 milliseconds. Its number of threads is a setting of the whole process, which belongs
to the user. So the library is loaded a second time, for native code only, with one thread: large products are split
among the threads of `pool`, which never wait for a busy core. Where a second copy is not possible, as on other systems
or with another BLAS, SciPy's functions serve both purposes.
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
"""First letter of function names, by dtype."""


@functools.cache
def address(name: str, uses_threads: bool = False) -> int | None:
    """Return the address of a BLAS or LAPACK function; None if there is none with 32-bit integers.

    Args:
        name: with the letter of the dtype.
        uses_threads: whether it may use its own threads.
    """
    own = None if uses_threads else _own_library()
    if own is not None and hasattr(own, f"scipy_{name}_"):
        return ctypes.cast(getattr(own, f"scipy_{name}_"), ctypes.c_void_p).value
    for capsules in _capsules():
        if name in capsules:
            return _address_in(capsules[name])
    return None


def runs_in_one_thread() -> bool:
    """Return whether the functions that `address` returns by default are single-threaded."""
    return _own_library() is not None


@functools.cache
def _own_library() -> ctypes.CDLL | None:
    """Return a second, single-threaded copy of SciPy's OpenBLAS; None where that is not possible."""
    files = [path for folder in _folders() for path in folder.glob("libscipy_openblas-*.so")]
    if len(files) != 1 or not hasattr(os, "memfd_create") or not _capsules():
        return None
    try:
        library = _second_copy(files[0])
        library.scipy_openblas_set_num_threads(1)
        library.blas_thread_shutdown_()
    except (OSError, AttributeError):  # memory files are not executable here, or another version of OpenBLAS
        return None
    return library if library.scipy_openblas_get_num_threads() == 1 else None


def _folders() -> list[Path]:
    """Return the folders of the libraries of SciPy's wheels."""
    spec = importlib.util.find_spec("scipy")
    places = [] if spec is None else spec.submodule_search_locations or []
    return [Path(place).parent / "scipy.libs" for place in places]


def _second_copy(path: Path) -> ctypes.CDLL:
    """Load a second copy of a loaded library, from a memory file: a path is loaded only once."""
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
    """Return the address in a capsule, whose name is the type of the function; None for 64-bit integers."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    if b"int *" not in name:
        return None
    found: int | None = pointer_of(capsule, name)
    return found


def has(dtype: Any, *names: str) -> bool:
    """Return whether functions exist for a dtype; names are given without the letter of the dtype."""
    letter = LETTERS.get(dtype.name)
    return letter is not None and all(address(letter + name) is not None for name in names)
