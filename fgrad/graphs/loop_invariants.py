"""Loop-invariant code motion and dead code elimination in loops: `simplified(block)`.

Unused results are not computed, and values that are the same in all iterations are computed before the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fgrad.core.views import VIEWS
from fgrad.graphs.derived import chosen
from fgrad.graphs.equations import Equation, Name, names_of, renamed
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Iterations, equation_of, iterations_of


def simplified(block: Block) -> Block:
    """Return a program that computes the same."""
    if not any(map(iterations_of, block.equations)):
        return block
    used = set(names_of(block.outputs))
    equations: list[Equation] = []
    constants = dict(block.constants)
    for equation in reversed(block.equations):
        iterations = iterations_of(equation)
        found = [equation]
        if iterations is not None:
            loop = _Loop(replace(iterations, body=simplified(iterations.body)), list(equation.inputs), equation.outputs)
            constants.update(loop.iterations.body.constants)
            loop, before = _hoisted(_pruned(loop, used))
            loop = _pruned(loop, used)
            found = [*before, replace(equation_of(loop.iterations, loop.inputs, equation.place), outputs=loop.outputs)]
        equations += reversed(found)
        used |= _read(found)
    return Block(block.inputs, constants, equations[::-1], block.outputs)


def _read(equations: Iterable[Equation], outputs: Iterable[Any] = ()) -> set[Name]:
    """Return the names that equations take or that are results."""
    return set(names_of(itertools.chain(outputs, *(each.inputs for each in equations))))


class _Loop(NamedTuple):
    iterations: Iterations
    inputs: list[Any]
    outputs: tuple[Name, ...]


def _pruned(loop: _Loop, used: set[Name]) -> _Loop:
    """Return a loop that only computes used results, and takes only the inputs needed for these."""
    iterations, kept = loop.iterations, [name in used for name in loop.outputs]
    while True:
        needed = _needed(iterations, kept)
        slots = iterations.parted(needed)[1]
        if slots == kept[: iterations.carried]:
            break
        kept[: iterations.carried] = slots
    shared, carried, elements = iterations.parted(needed)
    body, condition = iterations.body, iterations.condition
    if condition is not None:
        inputs = chosen(condition.inputs, [*shared, *carried])
        condition = condition.with_ends(inputs, condition.outputs)
    left = replace(
        iterations,
        body=Block(chosen(body.inputs, needed), body.constants, body.equations, chosen(body.outputs, kept)),
        shared=sum(shared),
        carried=sum(carried),
        reads=chosen(iterations.reads, elements),
        writes=chosen(iterations.writes, kept[iterations.carried :]),
        examples=None,
        results=(),
        condition=condition,
    )
    return _Loop(left, chosen(loop.inputs, needed), tuple(chosen(loop.outputs, kept)))


def _needed(iterations: Iterations, kept: Sequence[bool]) -> list[bool]:
    """Return which inputs of an iteration are needed for some of its results, and for the condition."""
    body, condition = iterations.body, iterations.condition
    part = Block(body.inputs, body.constants, body.equations, chosen(body.outputs, kept))
    used = _read(part.equations, part.outputs)
    needed = [name in used for name in body.inputs]
    for slot in range(iterations.carried):
        needed[iterations.shared + slot] |= kept[slot]
    if condition is not None:
        asked = _read(condition.equations, condition.outputs)
        for place, name in enumerate(condition.inputs):
            needed[place] |= name in asked
    return needed


def _hoisted(loop: _Loop) -> tuple[_Loop, list[Equation]]:
    """Return a loop without its invariant equations, and these as equations before it."""
    iterations, body = loop.iterations, loop.iterations.body
    steady = _steady(iterations)
    rest = [equation for equation in body.equations if equation not in steady]
    read = _read(rest, body.outputs)
    crossing = [name for equation in steady for name in equation.outputs if name in read]
    outside: dict[Any, Any] = dict(zip(body.inputs, loop.inputs[: iterations.shared], strict=False))
    outside.update({name: Name(name, name.is_weak) for equation in steady for name in equation.outputs})

    def with_crossing(values: Sequence[Any], more: Iterable[Any]) -> list[Any]:
        return [*values[: iterations.shared], *more, *values[iterations.shared :]]

    condition = iterations.condition
    if condition is not None:
        inputs = with_crossing(condition.inputs, map(Name, crossing))
        condition = condition.with_ends(inputs, condition.outputs)
    left = replace(
        iterations,
        body=Block(with_crossing(body.inputs, crossing), body.constants, rest, body.outputs),
        shared=iterations.shared + len(crossing),
        condition=condition,
    )
    inputs = with_crossing(loop.inputs, [outside[name] for name in crossing])
    return _Loop(left, inputs, loop.outputs), [_renamed(each, outside) for each in steady]


def _steady(iterations: Iterations) -> list[Equation]:
    """Return the loop-invariant equations; views only if other invariant equations need them.

    If there may be no iteration, equations that may raise stay in the loop, and so do all that depend on them.
    """
    if iterations.condition is not None and iterations.count == 1:
        return []
    stay = [each for each in iterations.body.equations if iterations.condition is not None and not _never_raises(each)]
    varies = varying(iterations.body, iterations.shared, {name for equation in stay for name in equation.outputs})
    found: list[Equation] = []
    wanted: set[Name] = set()
    for equation in reversed(iterations.body.equations):
        is_wanted = equation.primitive not in VIEWS or not wanted.isdisjoint(equation.outputs)
        if is_wanted and varies.isdisjoint(equation.outputs):
            found.append(equation)
            wanted.update(names_of(equation.inputs))
    return found[::-1]


_TOTAL = {
    *("astype", "concatenate", "cumsum", "einsum", "length", "matmul", "max", "mean", "min", "prod", "stack", "sum"),
    *("standard_deviation", "variance"),
}
"""Operations on whole arrays that never raise."""


def _never_raises(equation: Equation) -> bool:
    """Return whether an equation never raises for valid inputs."""
    primitive = equation.primitive
    only_moves = primitive in VIEWS and len(equation.inputs) == 1
    return only_moves or primitive.is_elementwise or (primitive.name in _TOTAL and not equation.direct)


def _renamed(equation: Equation, names: Mapping[Any, Any]) -> Equation:
    outputs = tuple(names[name] for name in equation.outputs)
    return replace(equation, outputs=outputs, inputs=tuple(renamed(equation.inputs, names)))


def varying(block: Block, shared: int, others: Iterable[Name] = ()) -> set[Name]:
    """Return the names of values that differ between iterations; the first `shared` inputs do not, `others` do."""
    found = {*block.inputs[shared:], *others}
    for equation in block.equations:
        if not found.isdisjoint(names_of(equation.inputs)):
            found.update(equation.outputs)
    return found
