"""The engine of native code; the compiler is imported when a program is first compiled."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from fgrad._locks import imported
from fgrad.graphs.graph import Block
from fgrad.native.options import ENGINES, Options


class NativeEngine:
    """The engine of native code, whose arrays are NumPy arrays."""

    def executable(self, block: Block, options: Options, written: Mapping[int, int]) -> Any:
        """Return the executable of a program."""
        if options.shared:
            return _module("fgrad.native.shared_code").shared(block, options)
        return _module("fgrad.native.executable").Executable(block, options, written=written)

    def owns(self, x: Any) -> bool:
        """Return whether an argument is an array of another library: never."""
        return False

    def example(self, x: Any) -> Any:
        """Return the argument unchanged."""
        return x


@functools.cache
def _module(name: str) -> Any:
    return imported(functools.partial(importlib.import_module, name))


ENGINES["native"] = NativeEngine()
