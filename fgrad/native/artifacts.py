"""Arguments and results of `Compiled.export`: the target, the C signature, the exported files."""

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
        name: the name in C.
        path: the name in Python, such as `p['w']`.
        dtype, shape: the dtype and shape of the array.
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
    """The target of exported code, and whether it may call BLAS.

    Attributes:
        triple: LLVM's target triple; None: this machine.
        cpu: the name of the processor; "native": that of this machine; "": the baseline of the target.
        features: extensions of the processor, such as `+avx2,+fma`.
        calls_blas: whether matrix products and factorizations call BLAS and LAPACK, instead of being loops.
    """

    triple: str | None = None
    cpu: str = ""
    features: str = ""
    calls_blas: bool = False


@dataclass(frozen=True)
class Signature:
    """The signature of a C function.

    Attributes:
        name: the name of the function.
        arguments, results: its parameters, in order.
        trees: the structures of arguments and results in Python, for the description.
    """

    name: str
    arguments: Sequence[Parameter]
    results: Sequence[Parameter]
    trees: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportedFiles:
    """The paths of the files that `Compiled.export` has written.

    Attributes:
        header: the header for C and C++.
        object: the object file.
        description: the description of arguments and results, as JSON.
        library: the shared library, or None.
    """

    header: Path
    object: Path
    description: Path
    library: Path | None
