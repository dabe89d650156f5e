"""Linkage of native code: addresses of constant arrays, and of BLAS and LAPACK functions.

IN_PROCESS              by address: the code runs in this process
Exported(has_blas)      by symbol: the code is an object file for other programs
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from fgrad.native.dense import ARGUMENTS, definitions
from fgrad.native.libraries import address


class Linkage(Protocol):
    """How code refers to external data and functions.

    Attributes:
        scope: LLVM's linkage or visibility of the functions of items.
        nests: LLVM's attributes of functions with loop nests.
        callers: LLVM's attributes of functions that mainly call others.
        calls_ufuncs: whether inner loops of ufuncs can be called.
    """

    scope: str
    nests: str
    callers: str
    calls_ufuncs: bool

    def constant(self, array: Any) -> str:
        """Return the address of a constant array in C order, in LLVM's syntax."""

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the address of a BLAS or LAPACK function, in LLVM's syntax; see `libraries.address`."""

    def function(self, name: str, address: int) -> str:
        """Return the address of one of fgrad's functions in this process, in LLVM's syntax."""

    def of_ufunc(self, address: int) -> str:
        """Return the address of a ufunc's inner loop, or of its data, in LLVM's syntax."""


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


class _InProcess:
    scope, nests = "hidden", "noinline"  # not internal: loops for LLVM's vectorizer are in a separate module
    callers = "noinline optnone"  # not worth the compile time of optimizations
    calls_ufuncs = True

    def constant(self, array: Any) -> str:
        return _pointer(array.ctypes.data)

    def routine(self, name: str, uses_threads: bool) -> str:
        return _pointer(address(name, uses_threads) or 0)

    def function(self, name: str, address: int) -> str:
        return _pointer(address)

    def of_ufunc(self, address: int) -> str:
        return _pointer(address)


IN_PROCESS = _InProcess()


def literal(content: bytes) -> str:
    """Return an array of bytes, in LLVM's syntax."""
    escaped = "\\" + content.hex("\\") if content else ""
    return f'[{len(content)} x i8] c"{escaped}"'


class _OwnConstants:
    """Linkage of code that outlives its program: constants are embedded."""

    def __init__(self) -> None:
        self._constants: dict[bytes, str] = {}

    def constant(self, array: Any) -> str:
        """Return the symbol of a constant; equal arrays share one."""
        return self._constants.setdefault(
            np.ascontiguousarray(array).tobytes(), f"@fgrad.constant{len(self._constants)}"
        )

    def text(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Return global definitions and declarations, and the library functions that they call."""
        lines = [
            f"{name} = private unnamed_addr constant {literal(x)}, align 64" for x, name in self._constants.items()
        ]
        return "\n".join(lines), {}


class Cached:
    """Linkage of code that is cached for other processes: addresses that differ between processes are symbols.

    Attributes:
        symbols: the addresses of the symbols, by name.
        is_complete: whether all addresses are symbols; the inner loop of a ufunc has no symbol.
    """

    scope, nests, callers = _InProcess.scope, _InProcess.nests, _InProcess.callers
    calls_ufuncs = True

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.is_complete = True

    def of_ufunc(self, address: int) -> str:
        """Return the address of an inner loop; this makes the code specific to this process."""
        self.is_complete = False
        return _pointer(address)

    def constant(self, array: Any) -> str:
        """Return a symbol named after the contents of an array."""
        name = f"fgrad_constant_{hashlib.sha256(array.tobytes()).hexdigest()}"
        self.symbols[name] = array.ctypes.data
        return f"@{name}"

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the symbol of a BLAS or LAPACK function."""
        symbol = f"fgrad_{name}_in_threads" if uses_threads else f"fgrad_{name}"
        self.symbols[symbol] = address(name, uses_threads) or 0
        return f"@{symbol}"

    def function(self, name: str, address: int) -> str:
        """Return the symbol of one of fgrad's functions."""
        self.symbols[f"fgrad_{name}"] = address
        return f"@fgrad_{name}"

    def text(self) -> str:
        """Return the declarations of the symbols."""
        return "\n".join(f"@{name} = external global i8" for name in self.symbols)


class Standalone(_OwnConstants):
    """Linkage of code in this process that is called from outside of fgrad."""

    scope, nests, callers = _InProcess.scope, _InProcess.nests, _InProcess.callers
    calls_ufuncs = True

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the address of a BLAS or LAPACK function."""
        return IN_PROCESS.routine(name, uses_threads)

    def function(self, name: str, address: int) -> str:
        """Return the address of one of fgrad's functions."""
        return _pointer(address)

    def of_ufunc(self, address: int) -> str:
        """Return the address of an inner loop."""
        return _pointer(address)


class Exported(_OwnConstants):
    """Linkage of an object file: products and factorizations are loops in it, unless it calls BLAS.

    Args:
        has_blas: whether to call BLAS and LAPACK by their usual symbols, such as `dgemm_`, instead of loops.

    Attributes:
        symbols: the called BLAS and LAPACK functions.
    """

    scope, nests, callers = "internal", "", ""
    calls_ufuncs = False

    def __init__(self, has_blas: bool) -> None:
        super().__init__()
        self._has_blas = has_blas
        self.symbols: dict[str, None] = {}
        self._loops: dict[str, None] = {}

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the symbol of a BLAS or LAPACK function."""
        if self._has_blas:
            self.symbols[f"{name}_"] = None
            return f"@{name}_"
        self._loops[name] = None
        return f"@fgrad.own_{name}"

    def function(self, name: str, address: int) -> str:
        """Raise: exported code runs in one thread."""
        raise NotImplementedError

    def of_ufunc(self, address: int) -> str:
        """Raise: `calls_ufuncs` is False."""
        raise NotImplementedError

    @override
    def text(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        declared = [f"declare void @{name}({', '.join(['ptr'] * ARGUMENTS[name[1:-1]])})" for name in self.symbols]
        texts, used = definitions(self._loops)
        return "\n".join([super().text()[0], *declared, *texts]), used
