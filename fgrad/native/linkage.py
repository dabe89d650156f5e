"""How native code reaches what is outside of it: constant arrays, and the functions of BLAS and LAPACK.

IN_PROCESS              by address: the code runs in this process
Exported(has_blas)      by name: the code is an object file for other programs
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fgrad.native.dense import definitions
from fgrad.native.libraries import address


class Linkage(Protocol):
    """How code reaches what is outside of it.

    Attributes:
        callers: the attributes of functions that do little but call others.
        calls_ufuncs: whether the inner loops of ufuncs can be called.
    """

    callers: str
    calls_ufuncs: bool

    def constant(self, array: Any) -> str:
        """Return the address of a constant array in C order, as LLVM reads it."""

    def routine(self, name: str) -> str:
        """Return the address of a function of BLAS or LAPACK, as LLVM reads it."""


class _InProcess:
    callers = "noinline optnone"  # they are not worth the time of optimization
    calls_ufuncs = True

    def constant(self, array: Any) -> str:
        return f"inttoptr (i64 {array.ctypes.data} to ptr)"

    def routine(self, name: str) -> str:
        return f"inttoptr (i64 {address(name)} to ptr)"


IN_PROCESS = _InProcess()


class Exported:
    """Linkage of an object file: constants are part of it, and so are products and factors, unless it calls BLAS.

    Args:
        has_blas: call BLAS and LAPACK, under their usual symbols such as `dgemm_`, in place of loops.

    Attributes:
        symbols: the functions of BLAS and LAPACK that are called.
    """

    callers = "noinline"
    calls_ufuncs = False

    def __init__(self, has_blas: bool) -> None:
        self._has_blas = has_blas
        self.symbols: dict[str, None] = {}
        self._loops: dict[str, None] = {}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._texts: list[str] = []

    def constant(self, array: Any) -> str:
        """Return the name of a constant, which is defined once for equal arrays."""
        content = np.ascontiguousarray(array).tobytes()
        name = self._constants.setdefault((content,), f"@constant{len(self._constants)}")
        if len(self._constants) > len(self._texts):
            told = "".join(f"\\{byte:02X}" for byte in content)
            self._texts.append(f'{name} = private unnamed_addr constant [{len(content)} x i8] c"{told}", align 64')
        return name

    def routine(self, name: str) -> str:
        """Return the symbol of a function."""
        if self._has_blas:
            self.symbols[f"{name}_"] = None
            return f"@{name}_"
        self._loops[name] = None
        return f"@own_{name}"

    def text(self) -> str:
        """Return the constants, and the declarations or definitions of functions that are called."""
        declared = [f"declare void @{name}(...)" for name in self.symbols]
        return "\n".join([*self._texts, *declared, *definitions(self._loops)])
