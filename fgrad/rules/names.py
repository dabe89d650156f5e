"""The names that code uses: globals of its module, and attributes."""

from __future__ import annotations

import dis
import functools
import types

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


@functools.lru_cache(maxsize=1024)
def names_in(code: types.CodeType, instructions: tuple[str, ...] = GLOBALS + ATTRIBUTES) -> frozenset[str]:
    """Return the names that code uses in some kinds of instructions, including those of nested functions."""
    own = {str(each.argval) for each in dis.get_instructions(code) if each.opname in instructions}
    inner = (names_in(each, instructions) for each in code.co_consts if type(each) is types.CodeType)
    return frozenset(own).union(*inner)
