"""The names that code mentions: of its module, and of attributes."""

from __future__ import annotations

import dis
import functools
import types

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


@functools.lru_cache(maxsize=1024)
def names_in(code: types.CodeType, instructions: tuple[str, ...] = GLOBALS + ATTRIBUTES) -> frozenset[str]:
    """Return the names that code mentions in some of its instructions, those of functions in it included."""
    own = {str(each.argval) for each in dis.get_instructions(code) if each.opname in instructions}
    inner = (names_in(each, instructions) for each in code.co_consts if type(each) is types.CodeType)
    return frozenset(own).union(*inner)
