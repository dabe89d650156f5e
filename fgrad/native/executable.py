"""A recorded program that runs as native code, with NumPy where there is none.

Executable(block)        compiles
executable.ready()       waits until it is compiled
executable.run(arrays)   takes what goes into the block, returns its results
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Name, in_pythons_way
from fgrad.graphs.graph import Block
from fgrad.graphs.integers import check_holds
from fgrad.graphs.loop_invariants import tidied
from fgrad.graphs.rerolling import rolled
from fgrad.graphs.unrolling import spread
from fgrad.native.cache import code_cache
from fgrad.native.calls import Functions
from fgrad.native.linkage import IN_PROCESS, Cached
from fgrad.native.lowering import any_failure
from fgrad.native.machine import Machine, Module
from fgrad.native.nests import memory_of
from fgrad.native.nodes import Input, Node, NumpyStep, Projection
from fgrad.native.options import DEFAULT, Options
from fgrad.native.parallel import default_threads
from fgrad.native.plan import Item, Plan, make_plan
from fgrad.native.primitives import lowered
from fgrad.native.segments import Segment, check_layout
from fgrad.typing import Array, Shape

empty = np.empty
_NO_ARENA = (None, 0)
_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
"""Of a segment's function: it takes a tuple of arrays, and the arena."""
Values = dict[Node, Array]


class Executable:
    """The program of a graph, compiled.

    Args:
        block: what is compiled.
        options: how.
        apart: each item of the plan is a stage of its own, so that it can be timed.

    Attributes:
        block: the graph, with its loops found and tidied up.
        program: the same as nodes.
        plan: which arrays exist, and in which loops they are made.
        stages: what runs, in order.
        llvm: the native code, in LLVM's language.
    """

    def __init__(self, block: Block, options: Options = DEFAULT, apart: bool = False) -> None:
        start = time.perf_counter()
        self.block = block = tidied(spread(rolled(block)) if options.finds_loops else block)
        self.program = lowered(block)
        self._results = [self.program.names[each] for each in block.outputs if type(each) is Name]
        self._shared = _shared(self._results)
        self._failed = any_failure(self.program)
        roots = [*self._results, *([self._failed] if self._failed else [])]
        self.plan = make_plan(self.program.all, roots)
        self._inputs: list[Node] = [self.program.inputs[name] for name in block.inputs]
        known: dict[Node, Any] = dict(self.program.constants)
        self._known = known
        threads = default_threads() if options.threads is None else options.threads
        linkage = IN_PROCESS if options.cache is None else Cached()
        functions = Functions(threads, Machine.this().widths(options.precise), linkage)
        segments, wanted, self.stages = _parted(self.plan, known, roots, functions, apart)
        texts = _texts(segments, wanted, functions, options.precise)
        self.llvm = "\n".join(filter(None, texts))
        self._planning = time.perf_counter() - start
        self._module = _compiled(texts, functions, options) if segments else None
        forms = {memory_of(node): node.shape for node in self._results}
        for stage in self.stages:
            stage.prepare(self._module, forms)
        self._direct = self._places_in_one_segment()

    def ready(self) -> tuple[float, float]:
        """Wait until LLVM has compiled, and return the seconds that planning took, and LLVM."""
        return self._planning, 0.0 if self._module is None else self._module.ready()

    def _places_in_one_segment(self) -> tuple[Any, list[int], list[int] | None, int] | None:
        """Return the only function, or None, and places: of its arguments, of results, of a failure.

        None stands for the places of results that are just what the function returns.
        """
        if len(self.stages) != 1 or any(self._shared):
            return None
        (stage,) = self.stages
        if not isinstance(stage, Native) or not set(stage.needs) <= set(self._inputs):
            return None
        places: dict[Node, int] = {node: place for place, node in enumerate(self._inputs)}
        taken = [places[node] for node in stage.needs]
        made = [stage.segment.makes.index(memory_of(node)) for node in self._results]
        failed = -1 if self._failed is None else stage.segment.makes.index(self._failed)
        is_just_that = failed < 0 and made == list(range(len(stage.segment.makes)))
        return stage.called, taken, None if is_just_that else made, failed

    def run(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return the results that are no constants, for arrays in C order that fit the inputs.

        None is returned where NumPy has to run the block.
        """
        if self._direct is not None:
            called, taken, results, failed = self._direct
            made = called([arrays[place] for place in taken])
            if results is None:
                return made  # type: ignore[no-any-return]
            if failed >= 0 and made[failed]:
                return None
            return [made[place] for place in results]
        values = self.given(arrays)
        try:
            for stage in self.stages:
                stage.run(values)
        except Exception as error:
            if self._failed is None and not isinstance(error, errors.IntegerRangeError):
                raise
            return None  # what a void run has handed to NumPy's function may be the reason: NumPy's run will tell
        if self._failed and values[self._failed]:
            return None
        found = [_under(values[memory_of(node)], node.shape) for node in self._results]
        return [x.copy() if is_shared else x for x, is_shared in zip(found, self._shared, strict=True)]

    def given(self, arrays: Sequence[Array]) -> Values:
        """Return what is there before the first stage runs."""
        return {**dict(zip(self._inputs, arrays, strict=True)), **self._known}

    def memory(self) -> dict[str, int]:
        """Return the bytes of arrays: results, the arena, what lies between stages, and constants."""
        results = {memory_of(node) for node in self._results}
        made: set[Node] = {part for stage in self.stages if isinstance(stage, Step) for part in stage.parts}
        made.update(node for stage in self.stages if isinstance(stage, Native) for node in stage.segment.makes)
        return {
            "results": sum(map(_bytes, self._results)),
            "arena": sum(stage.segment.arena for stage in self.stages if isinstance(stage, Native)),
            "between stages": sum(map(_bytes, made - results)),
            "constants": sum(array.nbytes for array in self._known.values()),
        }


def _under(array: Array, shape: Shape) -> Array:
    return array if array.shape == shape else array.reshape(shape)


def _bytes(node: Node) -> int:
    return node.size * node.dtype.itemsize


def _shared(results: list[Node]) -> list[bool]:
    """Return which results lie in the memory of an input, or of a result before."""
    seen: set[Node] = set()
    shared = []
    for node in results:
        root = memory_of(node)
        shared.append(isinstance(root, Input) or root in seen)
        seen.add(root)
    return shared


def _compiled(texts: tuple[str, str], functions: Functions, options: Options) -> Module:
    """Return the code of a program, which may be in a cache."""
    text, unvectorized = texts
    linkage = functions.linkage
    if not isinstance(linkage, Cached):
        return Machine.this().compiled(text, unvectorized, functions.has_iterations)
    kept = code_cache(options.cache) if options.cache and linkage.is_complete else None
    return Machine.this().compiled(
        f"{linkage.text()}\n{text}", unvectorized, functions.has_iterations, linkage.symbols, kept
    )


class Native:
    """A stage that runs a segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.needs = segment.needs

    def prepare(self, module: Module | None, forms: dict[Node, Any]) -> None:
        """Say where the function will be, and what it makes."""
        segment = self.segment
        self._module = module
        self._function: Any = None
        self._made = [(forms.get(node, node.shape), node.dtype) for node in segment.makes]
        self._arenas: list[Any] = []
        self._arena_size = segment.arena

    def _found(self) -> Any:
        """Find the function, and wait until LLVM has compiled it."""
        assert self._module is not None
        self._function = _TYPE(self._module.address(self.segment.name))
        return self._function

    def run(self, values: Values) -> None:
        """Run the function on new arrays."""
        made = self.called([values[node] for node in self.segment.needs])
        values.update(zip(self.segment.makes, made, strict=True))

    def called(self, given: Sequence[Array]) -> Sequence[Array]:
        """Return new arrays that the function has written into."""
        made = [empty(*form) for form in self._made]
        arena = self._arena() if self._arena_size else _NO_ARENA
        try:
            function = self._function or self._found()
            if function((*given, *made), arena[1]):  # the layout of an array in memory is not that of the code
                given = [np.require(x, requirements=["C", "ALIGNED"]).reshape(x.shape) for x in given]
                function((*given, *made), arena[1])
        except SystemError as error:  # a ufunc's loop has raised, as `scipy.special.errstate` lets it
            raise error.__cause__ or error from None
        if self._arena_size:
            self._arenas.append(arena)
        return made

    def _arena(self) -> tuple[Any, int]:
        try:
            return self._arenas.pop()  # type: ignore[no-any-return]
        except IndexError:  # all are in use by other threads, or it is the first time
            arena = np.empty(self._arena_size + 64, np.uint8)
            return arena, -(-arena.ctypes.data // 64) * 64


class Step:
    """A stage in which NumPy runs an equation."""

    def __init__(self, node: NumpyStep, parts: list[Projection]) -> None:
        self.equation, self._arguments = node.step
        self.parts = parts

    def prepare(self, module: Module | None, forms: dict[Node, Any]) -> None:
        """Do nothing: it is Python."""

    def run(self, values: Values) -> None:
        """Run the equation."""
        given = iter(self._arguments)
        inputs = []
        for each in self.equation.inputs:
            node = next(given)
            value = each if node is None else _under(values[memory_of(node)], node.shape)[()]
            inputs.append(in_pythons_way(value) if type(each) is Name and each.is_weak else value)
        found = self.equation.computed(inputs)
        check_holds(found[0], self.equation.primitive.name)
        for part in self.parts:
            values[part] = _own_array(found[part.position], part, inputs)


def _own_array(found: Array, part: Projection, inputs: list[Any]) -> Array:
    """Return a result of NumPy's as an array in C order, which shares no memory with what it was made of."""
    array = np.ascontiguousarray(found, part.dtype).reshape(part.shape)
    is_shared = any(type(x) is np.ndarray and np.may_share_memory(array, x) for x in inputs)
    return array.copy() if is_shared else array


def _parted(
    plan: Plan, known: dict[Node, Any], roots: list[Node], functions: Functions, apart: bool
) -> tuple[dict[str, Segment], set[Node], list[Native | Step]]:
    """Return the native segments by name, the arrays that others than their makers read, and the stages in order."""
    parts = plan.projections()
    wanted = {memory_of(node) for node in roots}
    segments: dict[str, Segment] = {}
    stages: list[Native | Step] = []
    begun: set[Node] = set()
    for run in _runs(plan, apart):
        if isinstance(run, NumpyStep):
            stages.append(Step(run, parts.get(run, [])))
            wanted.update(map(memory_of, run.arguments))
            continue
        segment = Segment(f"segment{len(segments)}", run, plan, known, functions, begun)
        segments[segment.name] = segment
        wanted.update(segment.needs)
        stages.append(Native(segment))
    return segments, wanted, stages


def _texts(segments: dict[str, Segment], wanted: set[Node], functions: Functions, precise: bool) -> tuple[str, str]:
    """Return the code of segments in LLVM's language, and that of functions with loops to be made wide, if any."""
    if not segments:
        return "", ""
    check_layout()
    texts = [segment.finished(wanted) for segment in segments.values()]
    declarations = Machine.this().declarations(functions.used, precise)
    unvectorized = "\n".join([declarations, *functions.unvectorized]) if functions.unvectorized else ""
    return "\n".join([declarations, *functions.declarations, *functions.texts, *texts]), unvectorized


def _runs(plan: Plan, apart: bool) -> Iterator[list[Item] | NumpyStep]:
    """Yield native items that follow each other, or each of them apart, and steps."""
    run: list[Item] = []
    for item in plan.items:
        if isinstance(item, NumpyStep):
            if run:
                yield run
            yield item
            run = []
        elif apart:
            yield [item]
        else:
            run.append(item)
    if run:
        yield run
