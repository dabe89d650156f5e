"""Where in a nest of loops an instruction stands: no deeper than what it needs changes.

    hoisted(instructions, loops, carried, written, before)      the instructions by depth, the innermost last

LLVM could do this by itself, but to look for it takes more of the time of a compilation than to know it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fgrad.native.ir import Instruction, Item, Op, Value


def hoisted(
    instructions: Sequence[Instruction],
    loops: Sequence[Value],
    carried: Collection[Value],
    written: Collection[Value],
    outer_writes: tuple[Collection[Value], int] = ((), 0),
) -> list[list[Item]]:
    """Return the instructions of an iteration by the number of loops around them.

    The depth of an instruction is the greatest depth of its arguments. A write is innermost, and a read of memory that
    is written is no further outside than the writes are.

    Args:
        instructions: each behind those that it needs.
        loops: the variables of the loops, from the outermost to the innermost.
        carried: what goes from iteration to iteration of the innermost loop.
        written: the memory into which the nest writes.
        before: the memory into which others write before it in iterations of loops around them all, and how many of
            these there are.
    """
    depths: dict[Value, int] = {variable: depth for depth, variable in enumerate(loops, 1)}
    depths.update(dict.fromkeys(carried, len(loops)))
    least = {**dict.fromkeys(outer_writes[0], outer_writes[1]), **dict.fromkeys(written, len(loops))}
    levels: list[list[Item]] = [[] for _ in range(len(loops) + 1)]
    for instruction in instructions:
        depth = max([depths.get(arg, 0) for arg in instruction.args], default=0)
        if instruction.op is Op.LOAD:
            depth = max(depth, least.get(base_of(instruction.args[0]), 0))
        if instruction.type is None:  # a write
            depth = len(loops)
        depths[instruction] = depth
        levels[depth].append(instruction)
    return levels


def base_of(address: Value) -> Value:
    """Return the memory in which an address lies."""
    while isinstance(address, Instruction) and address.op is Op.ADDRESS:
        address = address.args[0]
    return address
