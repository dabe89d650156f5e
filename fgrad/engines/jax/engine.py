"""What `fg.compile(f, backend="jax")` asks of JAX; JAX is imported when the first program is made."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.graph import EXPORT, Block, Graph
from fgrad.native.options import ENGINES, Options


class JaxEngine:
    """JAX as what runs programs."""

    def executable(self, block: Block, options: Options) -> Any:
        """Return what runs a program."""
        executable: Any = importlib.import_module("fgrad.engines.jax.executable")
        return executable.Inlined(block) if options.inline else executable.Executable(block, options)

    def owns(self, x: Any) -> bool:
        """Return whether an argument is an array of JAX's; there is none before somebody has imported it."""
        library = sys.modules.get("jax")
        return library is not None and isinstance(x, library.Array)

    def example(self, x: Any) -> Any:
        """Return an array of NumPy's in the form of one of JAX's.

        Raises:
            DtypeError: a TypeError; NumPy has no such dtype.
        """
        dtype = np.dtype(x.dtype)
        if dtype.kind not in "biufc":
            raise errors.DtypeError(
                f"an array of dtype {dtype} is no argument of a program, since NumPy has no such dtype.\n"
                "Convert it, as by x.astype(np.float32)."
            )
        return np.broadcast_to(np.ones((), dtype), x.shape)


ENGINES["jax"] = JaxEngine()


def _export(graph: Graph, platforms: Any) -> bytes:
    exporting: Any = importlib.import_module("fgrad.engines.jax.exporting")
    return exporting.exported(graph, platforms)  # type: ignore[no-any-return]


EXPORT.append(_export)
