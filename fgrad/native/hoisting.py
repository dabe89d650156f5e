"""Where in a nest of loops an instruction stands: no deeper than what it needs changes.

    hoisted(lines, loops, carried, written)      the instructions by depth, the innermost last

LLVM could do this by itself, but to look for it takes more of the time of a compilation than to know it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_NAME = re.compile(r"%\w+")
_ADDRESS = re.compile(r"getelementptr inbounds \w+, ptr (%\w+),")
_LOAD = re.compile(r"load \w+, ptr (%\w+)$")


def hoisted(
    lines: Sequence[str], loops: Sequence[str], carried: Collection[str], written: Collection[str]
) -> list[list[str]]:
    """Return the instructions of a turn by the number of loops around them.

    Args:
        lines: the instructions, each behind those that it needs.
        loops: the names of the loops' variables, from the outermost to the innermost.
        carried: the names of what goes from turn to turn of the innermost loop.
        written: the names of the memory into which the nest writes, which is read where it stands.
    """
    depths = {name: depth for depth, name in enumerate(loops, 1)}
    depths.update(dict.fromkeys(carried, len(loops)))
    moving: set[str] = set()
    """Addresses in memory that is written."""
    levels: list[list[str]] = [[] for _ in range(len(loops) + 1)]
    for line in lines:
        name, _, text = line.strip().partition(" = ")
        depth = max([depths.get(each, 0) for each in _NAME.findall(text)], default=0)
        base, place = _ADDRESS.match(text), _LOAD.match(text)
        if base and base[1] in written:
            moving.add(name)
        if not text or (place and place[1] in moving):  # a store, or what one may have changed
            depth = len(loops)
        depths[name] = depth
        levels[depth].append(line)
    return levels
