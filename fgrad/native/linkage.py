"""How native code reaches what is outside of it: constant arrays, and the functions of BLAS and LAPACK.

IN_PROCESS              by address: the code runs in this process
Exported(has_blas)      by name: the code is an object file for other programs
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from fgrad.native.dense import ARGUMENTS, definitions
from fgrad.native.libraries import address


class Linkage(Protocol):
    """How code reaches what is outside of it.

    Attributes:
        scope: who can call the functions of items.
        nests: the attributes of the functions that loop over elements.
        callers: those of functions that do little but call others.
        calls_ufuncs: whether the inner loops of ufuncs can be called.
    """

    scope: str
    nests: str
    callers: str
    calls_ufuncs: bool

    def constant(self, array: Any) -> str:
        """Return the address of a constant array in C order, as LLVM reads it."""

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the address of a function of BLAS or LAPACK, as LLVM reads it; see `libraries.address`."""

    def function(self, name: str, address: int) -> str:
        """Return the address of a function of fgrad's own in this process, as LLVM reads it."""

    def of_ufunc(self, address: int) -> str:
        """Return the address of the inner loop of a ufunc, or of what it is given, where they can be called."""


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


class _InProcess:
    scope, nests = "hidden", "noinline"  # loops for LLVM's vectors are in a separate module
    callers = "noinline optnone"  # they are not worth the time of optimization
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
    """Return an array of bytes as LLVM reads it."""
    told = "\\" + content.hex("\\") if content else ""
    return f'[{len(content)} x i8] c"{told}"'


class _OwnConstants:
    """Linkage of code that outlives the program of which it is made: constants are part of it."""

    def __init__(self) -> None:
        self._constants: dict[bytes, str] = {}

    def constant(self, array: Any) -> str:
        """Return the name of a constant; equal arrays are one."""
        return self._constants.setdefault(
            np.ascontiguousarray(array).tobytes(), f"@fgrad.constant{len(self._constants)}"
        )

    def text(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Return what is defined or declared outside of functions, and the functions that is made of."""
        lines = [
            f"{name} = private unnamed_addr constant {literal(x)}, align 64" for x, name in self._constants.items()
        ]
        return "\n".join(lines), {}


class Cached:
    """Linkage of code that other processes load, too: what has another address there is a symbol.

    Attributes:
        symbols: the addresses of the symbols, by name.
        is_complete: there is nothing else; a ufunc's loop, which has no name of its own, is called by address.
    """

    scope, nests, callers = _InProcess.scope, _InProcess.nests, _InProcess.callers
    calls_ufuncs = True

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.is_complete = True

    def of_ufunc(self, address: int) -> str:
        """Return the address of an inner loop, with which the code is of use to this process alone."""
        self.is_complete = False
        return _pointer(address)

    def constant(self, array: Any) -> str:
        """Return a symbol that is named for what the array holds."""
        name = f"fgrad_constant_{hashlib.sha256(array.tobytes()).hexdigest()}"
        self.symbols[name] = array.ctypes.data
        return f"@{name}"

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the symbol of a function."""
        symbol = f"fgrad_{name}_in_threads" if uses_threads else f"fgrad_{name}"
        self.symbols[symbol] = address(name, uses_threads) or 0
        return f"@{symbol}"

    def function(self, name: str, address: int) -> str:
        """Return the symbol of a function of fgrad's own."""
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
        """Return the address of a function."""
        return IN_PROCESS.routine(name, uses_threads)

    def function(self, name: str, address: int) -> str:
        """Return the address of a function of fgrad's own."""
        return _pointer(address)

    def of_ufunc(self, address: int) -> str:
        """Return the address of an inner loop."""
        return _pointer(address)


class Exported(_OwnConstants):
    """Linkage of an object file: products and factors are loops in it, unless it calls BLAS.

    Args:
        has_blas: call BLAS and LAPACK, under their usual symbols such as `dgemm_`, in place of loops.

    Attributes:
        symbols: the functions of BLAS and LAPACK that are called.
    """

    scope, nests, callers = "internal", "", ""
    calls_ufuncs = False

    def __init__(self, has_blas: bool) -> None:
        super().__init__()
        self._has_blas = has_blas
        self.symbols: dict[str, None] = {}
        self._loops: dict[str, None] = {}

    def routine(self, name: str, uses_threads: bool) -> str:
        """Return the symbol of a function."""
        if self._has_blas:
            self.symbols[f"{name}_"] = None
            return f"@{name}_"
        self._loops[name] = None
        return f"@fgrad.own_{name}"

    def function(self, name: str, address: int) -> str:
        """Return nothing: exported code runs in one thread."""
        raise NotImplementedError

    def of_ufunc(self, address: int) -> str:
        """Return nothing: `calls_ufuncs` is False."""
        raise NotImplementedError

    @override
    def text(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        declared = [f"declare void @{name}({', '.join(['ptr'] * ARGUMENTS[name[1:-1]])})" for name in self.symbols]
        texts, used = definitions(self._loops)
        return "\n".join([super().text()[0], *declared, *texts]), used
