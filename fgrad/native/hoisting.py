"""Where in a nest of loops an instruction stands: no deeper than what it needs changes.

    hoisted(lines, loops, carried, written, before)      the instructions by depth, the innermost last

LLVM could do this by itself, but to look for it takes more of the time of a compilation than to know it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_NAME = re.compile(r"%\w+")
_ADDRESS = re.compile(r"getelementptr inbounds \w+, ptr (%\w+),")
_LOAD = re.compile(r"load \w+, ptr (%\w+)$")


def hoisted(
    lines: Sequence[str],
    loops: Sequence[str],
    carried: Collection[str],
    written: Collection[str],
    before: tuple[Collection[str], int] = ((), 0),
) -> list[list[str]]:
    """Return the instructions of an iteration by the number of loops around them.

    Args:
        lines: the instructions, each behind those that it needs.
        loops: the names of the loops' variables, from the outermost to the innermost.
        carried: the names of what goes from iteration to iteration of the innermost loop.
        written: the names of the memory into which the nest writes, which is read where it stands.
        before: the names of the memory into which others write before it in iterations of loops around them all, and
            how many of these there are.
    """
    depths = {name: depth for depth, name in enumerate(loops, 1)}
    depths.update(dict.fromkeys(carried, len(loops)))
    earliest = {**dict.fromkeys(before[0], before[1]), **dict.fromkeys(written, len(loops))}
    changing: dict[str, int] = {}  # the addresses in memory that is written, with the depth from which on it is read
    levels: list[list[str]] = [[] for _ in range(len(loops) + 1)]
    for line in lines:
        name, _, text = line.strip().partition(" = ")
        depth = max([depths.get(each, 0) for each in _NAME.findall(text)], default=0)
        base, place = _ADDRESS.match(text), _LOAD.match(text)
        if base and base[1] in earliest:
            changing[name] = earliest[base[1]]
        if place:
            depth = max(depth, changing.get(place[1], 0))
        if not text:  # a store
            depth = len(loops)
        depths[name] = depth
        levels[depth].append(line)
    return levels
