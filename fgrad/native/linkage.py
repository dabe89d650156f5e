"""Linkage of native code: addresses of constant arrays, and of BLAS and LAPACK functions.

IN_PROCESS              by address: the code runs in this process
Cached()                by symbol, where addresses differ between processes: the code is cached for other ones
Standalone()            by address, with constants of its own: the code outlives its program
Exported(has_blas)      by symbol: the code is an object file for other programs
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.native.dense import ARGUMENTS, definitions
from fgrad.native.libraries import address


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


class Linkage:
    """How code refers to external data and functions; here by their addresses in this process.

    Attributes:
        scope: LLVM's linkage or visibility of the functions of items.
        nests: LLVM's attributes of functions with loop nests.
        callers: LLVM's attributes of functions that mainly call others.
        calls_ufuncs: whether inner loops of ufuncs can be called.
    """

    scope, nests = "hidden", "noinline"  # not internal: loops for LLVM's vectorizer are in a separate module
    callers = "noinline optnone"  # not worth the compile time of optimizations
    calls_ufuncs = True

    def constant(self, array: Any) -> str:
        """Return the address of a constant array in C order, in LLVM's syntax."""
        return _pointer(array.ctypes.data)

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the address of a BLAS or LAPACK function, in LLVM's syntax; see `libraries.address`."""
        return _pointer(address(name, uses_threads) or 0)

    def function(self, name: str, address: int) -> str:
        """Return the address of one of fgrad's functions in this process, in LLVM's syntax."""
        return _pointer(address)

    def of_ufunc(self, address: int) -> str:
        """Return the address of a ufunc's inner loop, or of its data, in LLVM's syntax."""
        return _pointer(address)


IN_PROCESS = Linkage()


class Cached(Linkage):
    """Linkage of code that is cached for other processes: addresses that differ between processes are symbols.

    Attributes:
        symbols: the addresses of the symbols, by name.
        is_complete: whether all addresses are symbols; the inner loop of a ufunc has no symbol.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.is_complete = True

    @override
    def constant(self, array: Any) -> str:
        return self._symbol(f"constant_{hashlib.sha256(array.tobytes()).hexdigest()}", array.ctypes.data)

    @override
    def routine(self, name: str, uses_threads: bool) -> str:
        return self._symbol(f"{name}_in_threads" if uses_threads else name, address(name, uses_threads) or 0)

    @override
    def function(self, name: str, address: int) -> str:
        return self._symbol(name, address)

    @override
    def of_ufunc(self, address: int) -> str:
        self.is_complete = False
        return super().of_ufunc(address)

    def _symbol(self, name: str, address: int) -> str:
        self.symbols[f"fgrad_{name}"] = address
        return f"@fgrad_{name}"

    def text(self) -> str:
        """Return the declarations of the symbols."""
        return "\n".join(f"@{name} = external global i8" for name in self.symbols)


def literal(content: bytes) -> str:
    """Return an array of bytes, in LLVM's syntax."""
    escaped = "\\" + content.hex("\\") if content else ""
    return f'[{len(content)} x i8] c"{escaped}"'


class Standalone(Linkage):
    """Linkage of code in this process that outlives its program: constants are embedded."""

    def __init__(self) -> None:
        self._constants: dict[bytes, str] = {}

    @override
    def constant(self, array: Any) -> str:
        # Equal arrays share one symbol.
        return self._constants.setdefault(
            np.ascontiguousarray(array).tobytes(), f"@fgrad.constant{len(self._constants)}"
        )

    def text(self) -> str:
        """Return global definitions and declarations."""
        return "\n".join(
            f"{name} = private unnamed_addr constant {literal(x)}, align 64" for x, name in self._constants.items()
        )


class Exported(Standalone):
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

    @override
    def routine(self, name: str, uses_threads: bool) -> str:
        if self._has_blas:
            self.symbols[f"{name}_"] = None
            return f"@{name}_"
        self._loops[name] = None
        return f"@fgrad.own_{name}"

    @override
    def function(self, name: str, address: int) -> str:
        raise NotImplementedError  # exported code runs in one thread

    @override
    def of_ufunc(self, address: int) -> str:
        raise NotImplementedError  # `calls_ufuncs` is False

    @override
    def text(self) -> str:
        declared = [f"declare void @{name}({', '.join(['ptr'] * ARGUMENTS[name[1:-1]])})" for name in self.symbols]
        return "\n".join([super().text(), *declared])

    def loops(self) -> tuple[list[str], dict[str, tuple[str, ...]]]:
        """Return the definitions of the loops, and the LLVM intrinsics that they call."""
        return definitions(self._loops)
