"""Derivatives of long loops in plain Python: a recording that differentiates loops instead of their iterations.

A function that a compiled function differentiates is recorded iteration by iteration. If it is long, its equations are
rerolled before the backward pass, and the loops are differentiated in their place: so the backward pass, which has
twice as many operations as the function, is recorded once for each loop and not once for each iteration.

The equations stand for the record of the reverse trace only if they are the same operations on the same values. That is
checked edge by edge, and it is not so where a rule of the user's takes part.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.reverse import ITEM, OUTPUT, Entry, ReverseTrace
from fgrad.core.tensor import box
from fgrad.core.trace import is_seen, observing
from fgrad.core.tree import flatten
from fgrad.core.views import VIEWS
from fgrad.graphs.equations import Equation, Name, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import Along, Iterations, iterations_of
from fgrad.graphs.masks import VaryingMaskError, with_masks
from fgrad.graphs.record import RecordTrace
from fgrad.graphs.rerolling import rerolled
from fgrad.transforms.cuts import is_cut
from fgrad.transforms.linearization import Recording

_LONG = 1000
"""In equations: fewer are differentiated as they are recorded."""
_SHORTER = 8
"""A function is differentiated anew if its equations are so many times fewer with loops."""

_LARGE = 1 << 16
"""In elements: a loop with more results than this has no actual examples of them."""


class UndefinedError(Exception):
    """An operation is undefined for the examples of its arguments, which need not be actual values."""


class Rerolled(NamedTuple):
    """A function with loops, and examples of its inputs."""

    block: Block
    examples: Mapping[Name, Any]


class RerollingTrace(RecordTrace):
    """Records a function, and differentiates the loops of long functions instead of their iterations.

    Args:
        lifts: see `RecordTrace`.
        rerolls: whether to look for loops.

    Attributes:
        rerolls: as above.
        rerolled: the functions with loops, by the range of their equations; None for one that has no long loops.
    """

    def __init__(self, lifts: bool = False, rerolls: bool = True) -> None:
        super().__init__(is_compiled=True, lifts=lifts)
        self.rerolls = rerolls
        self.rerolled: dict[tuple[int, int], Rerolled | None] = {}

    @override
    def count(self) -> int:
        return len(self.equations)

    @override
    def shorten(self, recording: Recording, start: int) -> None:
        end = len(self.equations)
        if not self.rerolls or end - start < _LONG or is_cut(recording.trace) or (observing and is_seen()):
            return
        inputs = [(key, x) for key, x in recording.roots() if self.follows(x)]
        outputs = [(key, x) for key, x in recording.outputs if key is not None]
        roots = {x._mark: key for key, x in inputs}
        if len(roots) < len(inputs) or not all(self.follows(x) for _, x in outputs):
            return
        results = {x._mark: key for key, x in outputs}
        if (start, end) not in self.rerolled:
            aux = [x._mark for x in flatten(recording.aux)[0] if self.follows(x)]
            self.rerolled[start, end] = self._rerolled(start, recording.record, roots, results, aux)
        found = self.rerolled[start, end]
        if found is not None:
            self._replay(found, recording, roots, results)

    def _rerolled(
        self,
        start: int,
        record: Sequence[Entry],
        roots: Mapping[Name, int],
        results: Mapping[Name, int],
        aux: Sequence[Name],
    ) -> Rerolled | None:
        """Return the program of results from an equation on, with loops; None if it is not that of a record.

        It is also None if other results need most of the equations, which would then be computed twice; and if the
        program computes one of the roots, as the value of a variable to which the function assigns.
        """
        equations = self.equations[start:]
        made = {name for equation in equations for name in equation.outputs}
        again = Block((), {}, equations, aux).equations if aux else ()
        if len(again) * _SHORTER > len(equations) or not made.isdisjoint(roots):
            return None
        used = dict.fromkeys(x for equation in equations for x in names_of(equation.inputs))
        inputs = [x for x in used if x not in made and x not in self.constants]
        block = Block(inputs, self.constants, equations, list(results))
        examples = self._examples_of(inputs)
        found = None if examples is None else with_loops(block, examples, is_masked=False)
        if found is None or examples is None or not is_record_of(equations, record, roots, results):
            return None
        return Rerolled(found, examples)

    def _examples_of(self, names: Iterable[Name]) -> dict[Name, Any] | None:
        """Return examples of values; None if some were not kept."""
        found, wanted = dict(self.given), set(names)
        for equation, example in zip(self.equations, self.examples or (), strict=True):
            if not wanted.isdisjoint(equation.outputs):
                found.update(zip(equation.outputs, example if type(example) is tuple else (example,), strict=True))
        return None if any(found.get(name) is None for name in wanted) else {name: found[name] for name in wanted}

    def _replay(
        self, found: Rerolled, recording: Recording, roots: Mapping[Name, int], results: Iterable[Name]
    ) -> None:
        """Differentiate a function anew, by its program with loops."""
        trace = ReverseTrace(ends_with_call=recording.trace.may_lock)
        tensors = {name: box(x, self, name) for name, x in found.examples.items()}
        with trace:
            traced = {name: trace.root(x) for name, x in tensors.items() if name in roots}
            computed = found.block.computed({**tensors, **traced})
        keys = {roots[name]: x._mark for name, x in traced.items()}
        recording.replace(trace, keys, dict(zip(results, computed, strict=True)))


def is_record_of(
    equations: Sequence[Equation], record: Sequence[Entry], roots: Mapping[Name, int], results: Mapping[Name, int]
) -> bool:
    """Return whether a record has the operations of equations, as far as results depend on roots by them.

    Args:
        equations, record: what was recorded of one run of a function.
        roots, results: the keys, in the record, of its inputs and results.
    """
    keys, edges = dict(roots), _Edges(record, results.values())
    for equation in _differentiated(equations, results):
        parents = [keys[x] for x in names_of(equation.inputs) if x in keys]
        if parents:
            found = edges.next_results(parents, equation.primitive)
            if not found:
                return False
            for place, key in found.items():
                keys[equation.outputs[place]] = key
    return edges.are_used_up() and all(keys.get(name) == key for name, key in results.items())


class _Edges:
    """The edges of a record on which results depend, in order."""

    def __init__(self, record: Sequence[Entry], results: Iterable[int]) -> None:
        needed = set(results)
        for entry in reversed(record):
            if entry[0] in needed:
                needed.add(entry[2])
        self._edges = [entry for entry in record if entry[0] in needed]
        self._place = 0

    def next_results(self, parents: list[int], primitive: Primitive) -> dict[int, int]:
        """Return the keys of the next operation's results, by their positions.

        They are empty if it is another primitive, or its arguments are not `parents`.
        """
        own = self._taken(len(parents))
        if [edge[2] for edge in own] != parents or self._is_of(own[-1][0]) or own[0][0] != own[-1][0]:
            return {}
        key, rule = own[0][0], own[0][3]
        if rule is ITEM and self._place < len(self._edges):  # the arguments are joined: the next edge leads to them
            ((key, _, joined, rule, _, _),) = self._taken(1)
            if joined != own[0][0]:
                return {}
        results = {}
        while self._place < len(self._edges) and self._edges[self._place][3] is OUTPUT:
            ((part, _, _, _, (_, place), _),) = self._taken(1)
            results[place] = part
        return (results or {0: key}) if rule.primitive is primitive else {}

    def _taken(self, count: int) -> list[Entry]:
        """Return the next edges."""
        start, self._place = self._place, self._place + count
        return self._edges[start : self._place]

    def _is_of(self, key: int) -> bool:
        """Return whether the next edge belongs to a result."""
        return self._place < len(self._edges) and self._edges[self._place][0] == key

    def are_used_up(self) -> bool:
        """Return whether there are no more operations."""
        return self._place == len(self._edges)


def _differentiated(equations: Sequence[Equation], results: Iterable[Name]) -> list[Equation]:
    """Return the equations on which results depend by operations with a derivative, in order."""
    needed, found = set(results), list[Equation]()
    for equation in reversed(equations):
        primitive = equation.primitive
        if not needed.isdisjoint(equation.outputs) and (primitive.vjps is not None or primitive.parted is not None):
            needed.update(names_of(equation.inputs))
            found.append(equation)
    return found[::-1]


def with_loops(block: Block, examples: Mapping[Name, Any], is_masked: bool) -> Block | None:
    """Return a program with loops that can be differentiated; None if it is short, or has no such loops.

    Args:
        block: the program.
        examples: possible values of its inputs.
        is_masked: whether the cotangents of its results are masked (`fgrad.core.masked`).
    """
    if len(block.equations) < _LONG:
        return None
    found = rerolled(block, without_last=True)
    if len(found.equations) * _SHORTER > len(block.equations):
        return None
    with contextlib.suppress(VaryingMaskError, UndefinedError):
        found, _ = with_masks(found, dict.fromkeys(names_of(found.outputs), is_masked))
        return with_examples(found, examples)
    return None


def with_examples(block: Block, examples: Mapping[Name, Any]) -> Block:
    """Return a program whose loops have examples, and read whole arrays, so that they can be differentiated.

    Args:
        block: the program.
        examples: possible values of its inputs.

    Raises:
        UndefinedError: an operation is undefined for the examples.
    """
    known, equations = {**block.constants, **examples}, list[Equation]()
    delicate = [place for place, equation in enumerate(block.equations) if _is_delicate(equation)]
    for place, equation in enumerate(block.equations):
        loop = iterations_of(equation)
        if loop is not None:
            *before, equation = _with_whole_arrays(equation, loop, known)
            equations += before
            equation = _with_examples(equation, known, is_run=place < max(delicate, default=0))
        else:
            known.update(_run(equation, known))
        equations.append(equation)
    return Block(block.inputs, block.constants, equations, block.outputs)


def _is_delicate(equation: Equation) -> bool:
    """Return whether an operation, or its derivative, may be undefined for some values, as the inverse of a matrix."""
    if loop := iterations_of(equation):
        return any(map(_is_delicate, loop.body.equations))
    primitive = equation.primitive
    return not (primitive.is_elementwise or primitive.linear or primitive in VIEWS)


def _run(equation: Equation, known: Mapping[Name, Any]) -> dict[Name, Any]:
    """Return examples of the results of an equation."""
    try:
        with np.errstate(all="ignore"):
            return dict(equation.run(known))
    except Exception as error:
        raise UndefinedError from error


def _with_whole_arrays(equation: Equation, loop: Iterations, known: dict[Name, Any]) -> list[Equation]:
    """Return the equation of a loop that reads whole arrays, after those that take these arrays out of others."""
    shared, carry, arrays = loop.parted(equation.inputs)
    found, reads = list[Equation](), list[Along]()
    for place, (x, along) in enumerate(zip(arrays, loop.reads, strict=True)):
        is_whole = x.shape[0] == loop.count and along in (Along(), Along().backwards(loop.count))
        reads.append(along if is_whole else Along())
        if not is_whole:
            key = along.as_slice(loop.count)
            rows = (known[x] if type(x) is Name else x)[key]
            name = arrays[place] = Name(rows)
            known[name] = rows
            found.append(Equation((name,), PRIMITIVES["index"], (x,), {"template": (key,)}, True, place=equation.place))
    loop = replace(loop, reads=reads)
    return [*found, replace(equation, primitive=Primitive("loop", loop), inputs=(*shared, *carry, *arrays))]


def _with_examples(equation: Equation, known: dict[Name, Any], is_run: bool) -> Equation:
    """Return the equation of a loop with examples, and add possible results to `known`.

    Args:
        equation: the loop.
        known: examples, by name; extended.
        is_run: whether the results are actual ones, for which the loop is run.
    """
    loop = iterations_of(equation)
    assert loop is not None
    *once, arrays = loop.parted([known[x] if type(x) is Name else x for x in equation.inputs])
    elements = [x[along.start] for x, along in zip(arrays, loop.reads, strict=True)]
    examples = [x for part in (*once, elements) for x in part]
    body = with_examples(loop.body, dict(zip(loop.body.inputs, examples, strict=True)))
    results = _results_of(equation, loop, known) if is_run else loop.forms()
    known.update(zip(equation.outputs, results, strict=True))
    loop = replace(loop, body=body, examples=examples, results=results)
    return replace(equation, primitive=Primitive("loop", loop))


def _results_of(equation: Equation, loop: Iterations, known: Mapping[Name, Any]) -> list[Any]:
    """Return examples of the results of a loop: actual ones, unless the loop takes long or they are large.

    What is recorded after the loop may be undefined for others, such as the inverse of a matrix of ones.
    """
    if sum(math.prod(name.shape) for name in equation.outputs) > _LARGE or not _is_of_operations(loop):
        return loop.forms()
    found = _run(equation, known)
    return [np.asarray(x).item() if name.is_weak else x for name, x in found.items()]


def _is_of_operations(loop: Iterations) -> bool:
    """Return whether a loop has been rerolled, and contains neither loop functions nor other functions of the user."""
    inner = [(equation.direct, iterations_of(equation)) for equation in loop.body.equations]
    return loop.examples is None and all(
        not is_direct if each is None else _is_of_operations(each) for is_direct, each in inner
    )
