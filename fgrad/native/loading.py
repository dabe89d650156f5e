"""How native code is made of a program: the compiler is loaded when there is something to compile."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from fgrad._locks import imported
from fgrad.graphs.graph import Block
from fgrad.native.options import NATIVE, Options


def _native(block: Block, options: Options) -> Any:
    """Return what runs a program as native code."""
    if options.shared:
        return _module("fgrad.native.shared_code").shared(block, options)
    return _module("fgrad.native.executable").Executable(block, options)


@functools.cache
def _module(name: str) -> Any:
    return imported(functools.partial(importlib.import_module, name))


NATIVE.append(_native)
