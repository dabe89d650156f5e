"""Loop-invariant code motion: each instruction is placed in the outermost loop that its operands allow.

    hoisted(instructions, loops, carried, written, outer_writes)      the instructions by depth, the innermost last

LLVM's pass does the same, but takes longer, since it must analyze the loops.
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
    """Return the instructions of an iteration by their depth, the number of enclosing loops.

    The depth of an instruction is the greatest depth of its operands. Stores are innermost, and loads of memory that is
    written have at least the depth of the stores.

    Args:
        instructions: the instructions, operands first.
        loops: the loop variables, from the outermost loop to the innermost.
        carried: the values carried between iterations of the innermost loop.
        written: the memory to which the nest stores.
        outer_writes: the memory to which other nests store within shared outer loops, and the number of these loops.
    """
    depths: dict[Value, int] = {variable: depth for depth, variable in enumerate(loops, 1)}
    depths.update(dict.fromkeys(carried, len(loops)))
    least = {**dict.fromkeys(outer_writes[0], outer_writes[1]), **dict.fromkeys(written, len(loops))}
    levels: list[list[Item]] = [[] for _ in range(len(loops) + 1)]
    for instruction in instructions:
        depth = max([depths.get(arg, 0) for arg in instruction.args], default=0)
        if instruction.op is Op.LOAD:
            depth = max(depth, least.get(base_of(instruction.args[0]), 0))
        if instruction.type is None:  # a store
            depth = len(loops)
        depths[instruction] = depth
        levels[depth].append(instruction)
    return levels


def base_of(address: Value) -> Value:
    """Return the pointer from which an address is computed."""
    while isinstance(address, Instruction) and address.op is Op.ADDRESS:
        address = address.args[0]
    return address
