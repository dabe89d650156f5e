"""How native code is made of a program: the compiler is loaded when there is something to compile."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from fgrad.core.locks import STEADY, apart
from fgrad.graphs.graph import Block
from fgrad.native.options import NATIVE, Options


def _native(block: Block, options: Options) -> Any:
    """Return what runs a program as native code."""
    if options.shared:
        return _module("fgrad.native.sharing").shared(block, options)
    return _module("fgrad.native.executable").Executable(block, options)


@functools.cache
def _module(name: str) -> Any:
    """Import a module, which a signal handler may ask for, too, while it is being imported."""

    def imported() -> Any:
        with STEADY:
            return importlib.import_module(name)

    return apart(imported)


NATIVE.append(_native)
