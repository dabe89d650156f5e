"""Which cotangents of a program are masked: `with_masks(block, masked)`.

Loops that know which of their cotangents are masked have, differentiated as loops, the derivatives of their iterations.
See `fgrad.core.masked` for the masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fgrad.core.primitive import Primitive
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Iterations, Masks, iterations_of
from fgrad.graphs.rerolling import Written


class VaryingMaskError(Exception):
    """A cotangent is masked in some iterations of a loop and not in others, or it is unknown whether it is."""


def with_masks(block: Block, masked: Mapping[Name, bool]) -> tuple[Block, dict[Name, bool]]:
    """Return a program whose loops know which cotangents are masked, and whether those of its names are.

    Args:
        block: the program, rerolled.
        masked: whether the cotangents of its results are masked; results that are not in it have none.

    Raises:
        VaryingMaskError: the derivatives of the loops may not be those of their iterations.
    """
    found, equations, columns = dict(masked), list[Equation](), _columns(block.equations)
    for equation in reversed(block.equations):
        loop = iterations_of(equation)
        if loop is not None:
            equation = _with_mask(equation, loop, found, columns)
        elif not found.keys().isdisjoint(equation.outputs):
            _add(found, equation, columns)
        equations.append(equation)
    return Block(block.inputs, block.constants, equations[::-1], block.outputs), found


def _columns(equations: Iterable[Equation]) -> set[Name]:
    """Return the arrays whose rows were separate values before the program was rerolled."""
    found = set[Name]()
    for equation in equations:
        loop = iterations_of(equation)
        if loop is not None:
            found.update(equation.outputs[loop.carried :])
        elif type(equation) is Written and any(_is_in(found, x) for x in equation.inputs):
            found.update(equation.outputs)
    return found


def _is_in(columns: set[Name], x: object) -> bool:
    return type(x) is Name and x in columns


def _add(found: dict[Name, bool], equation: Equation, columns: set[Name]) -> None:
    """Add the contributions of an operation to the cotangents of its arguments."""
    primitive = equation.primitive
    is_masked = all(found[name] for name in equation.outputs if name in found)
    if equation.direct:
        raise VaryingMaskError
    if type(equation) is Written and _is_in(columns, equation.inputs[0]):
        if equation.outputs[0].shape == equation.inputs[0].shape[1:]:
            raise VaryingMaskError  # one row
    elif equation.outputs[0] not in columns:
        is_masked = is_masked or primitive.masks == "both"
    for place, x in enumerate(equation.inputs):
        if primitive.parted is not None or (primitive.vjps is not None and primitive.vjps[place] is not None):
            _meet(found, x, is_masked)


def _meet(found: dict[Name, bool], x: object, is_masked: bool) -> None:
    """Add a contribution: a sum is masked if all its terms are."""
    if type(x) is Name and x.dtype.kind in "fc":
        found[x] = found.get(x, True) and is_masked


def _with_mask(equation: Equation, loop: Iterations, found: dict[Name, bool], columns: set[Name]) -> Equation:
    """Return the equation of a loop that knows which cotangents are masked, and add its contributions."""
    masked = [_known(found, name) for name in equation.outputs]
    inside = dict[Name, bool]()
    for x, is_masked in zip(loop.body.outputs, masked, strict=True):
        _meet(inside, x, is_masked)
    body, inside = with_masks(loop.body, inside)
    (_, carry, rows), (_, _, arrays) = loop.parted(body.inputs), loop.parted(equation.inputs)
    if [_known(inside, name) for name in carry] != masked[: loop.carried]:
        raise VaryingMaskError
    of_columns = {name for name, x in zip(rows, arrays, strict=True) if _is_in(columns, x)}
    # The cotangent of an element of an array has zeros elsewhere.
    inputs = [inside.get(name, True) or (name in rows and name not in of_columns) for name in body.inputs]
    for name, x, is_masked in zip(body.inputs, equation.inputs, inputs, strict=True):
        if name in inside:
            _meet(found, x, is_masked)
    loop = replace(loop, body=body, masks=Masks(masked, inputs))
    return replace(equation, primitive=Primitive("loop", loop))


def _known(found: Mapping[Name, bool], name: Name) -> bool:
    """Return whether a cotangent is masked; True for values without one, such as integers."""
    if name.dtype.kind not in "fc":
        return True
    if name not in found:
        raise VaryingMaskError
    return found[name]
