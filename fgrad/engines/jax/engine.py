"""The JAX engine of `fg.compile(f, backend="jax")`; JAX is imported when the first program is made."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import classes_of
from fgrad.graphs.graph import EXPORT, Block, Graph
from fgrad.native.options import ENGINES, Options


class JaxEngine:
    """The JAX engine."""

    def executable(self, block: Block, options: Options, written: Mapping[int, int]) -> Any:
        """Return the executable of a program, whose results are new arrays."""
        executable: Any = importlib.import_module("fgrad.engines.jax.executable")
        return executable.Inlined(block) if options.inline else executable.Executable(block, options)

    def owns(self, x: Any) -> bool:
        """Return whether an argument is a JAX array; without importing JAX."""
        return isinstance(x, classes_of("jax", "Array"))

    def example(self, x: Any) -> Any:
        """Return a NumPy array that describes a JAX array.

        Raises:
            DtypeError: a TypeError; NumPy has no such dtype.
        """
        dtype = np.dtype(x.dtype)
        if dtype.kind not in "biufc":
            raise errors.DtypeError(
                f"an array of dtype {dtype} cannot be an argument of a program, since NumPy has no such dtype.\n"
                "Convert it, as by x.astype(np.float32)."
            )
        return np.broadcast_to(np.ones((), dtype), x.shape)


ENGINES["jax"] = JaxEngine()


def _export(graph: Graph, platforms: object) -> bytes:
    exporting: Any = importlib.import_module("fgrad.engines.jax.exporting")
    return exporting.exported(graph, platforms)  # type: ignore[no-any-return]


EXPORT.append(_export)
