"""What `Compiled.export` takes and returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

C_TYPES = {
    "float64": "double", "float32": "float", "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """An argument or result of the C function.

    Attributes:
        name: in C.
        path: what it is called in Python, such as `p['w']`.
        dtype, shape: of the array.
    """

    name: str
    path: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The C type of an element."""
        return C_TYPES[self.dtype]


@dataclass(frozen=True)
class Target:
    """For which processor code is made, and what it may call.

    Attributes:
        triple: processor and system, in LLVM's words; None: those of this machine.
        cpu: the kind of processor, "native" for that of this machine, "" for the oldest one.
        features: extensions of the processor, as `+avx2,+fma`.
        calls_blas: products and factors are those of BLAS and LAPACK, and not loops.
    """

    triple: str | None = None
    cpu: str = ""
    features: str = ""
    calls_blas: bool = False


@dataclass(frozen=True)
class Signature:
    """What a C function takes and gives.

    Attributes:
        name: of the function.
        arguments, results: its parameters, in order.
        trees: how arguments and results are nested in Python, for the description.
    """

    name: str
    arguments: Sequence[Parameter]
    results: Sequence[Parameter]
    trees: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportedFiles:
    """Where `Compiled.export` has put its files.

    Attributes:
        header: for C and C++.
        object: the object file.
        description: the arguments and results, as JSON.
        library: a shared library; None where there is none.
    """

    header: Path
    object: Path
    description: Path
    library: Path | None
