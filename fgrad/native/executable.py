"""Recorded programs compiled to native code, with NumPy for operations that have none.

Executable(block)        compiles a program
executable.ready()       waits until it is compiled
executable.run(arrays)   returns the results of the block for its inputs
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Name, in_pythons_way, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.integers import check_holds
from fgrad.graphs.loop_invariants import simplified
from fgrad.graphs.rerolling import rerolled
from fgrad.graphs.unrolling import unrolled
from fgrad.native.cache import code_cache
from fgrad.native.calls import Functions
from fgrad.native.in_place import homes
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
_SEGMENT_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
"""The type of a segment's function, whose parameters are a tuple of arrays, and the arena."""
Values = dict[Node, Array]


class Executable:
    """A compiled program.

    Args:
        block: the program.
        options: the options of the compilation.
        separate_items: make each item of the plan a separate stage, so that it can be timed.
        written: the positions of outputs that may be stored in the memory of an input, with the input's position. `run`
            then returns the array of the input as such an output, where the plan allows it.

    Attributes:
        block: the program after rerolling, unrolling and loop-invariant code motion.
        program: the lowered program.
        plan: the stored arrays, and the nests, routines and loops that compute them.
        stages: the stages, in the order of execution.
        llvm: the LLVM IR.
    """

    def __init__(
        self,
        block: Block,
        options: Options = DEFAULT,
        separate_items: bool = False,
        written: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        start = time.perf_counter()
        self.block = block = simplified(unrolled(rerolled(block)) if options.finds_loops else block)
        self.program = lowered(block)
        self._results = [self.program.names[name] for name in names_of(block.outputs)]
        self._aliased = _aliased(self._results)
        self._failed = any_failure(self.program)
        roots = [*self._results, *([self._failed] if self._failed else [])]
        self.plan = make_plan(self.program.all, roots)
        self._inputs: list[Node] = [self.program.inputs[name] for name in block.inputs]
        if self._failed is None and not any(isinstance(item, NumpyStep) for item in self.plan.items):
            self.plan.homes = homes(self.plan, self._results, self._pairs(written))
        constants: dict[Node, Any] = dict(self.program.constants)
        self._constants = constants
        threads = default_threads() if options.threads is None else options.threads
        linkage = IN_PROCESS if options.cache is None else Cached()
        functions = Functions(threads, Machine.this().widths(options.precise), linkage)
        segments, wanted, self.stages = _stages_of(self.plan, constants, roots, functions, separate_items)
        texts = _llvm_texts(segments, wanted, functions, options.precise)
        self.llvm = "\n".join(filter(None, texts))
        self._planning = time.perf_counter() - start
        self._module = _compiled(texts, functions, options) if segments else None
        shapes = {memory_of(node): node.shape for node in self._results}
        for stage in self.stages:
            stage.prepare(self._module, shapes)
        self._single = self._single_segment()

    def _pairs(self, written: Mapping[int, int]) -> dict[Node, Node]:
        """Return the arrays of outputs and inputs at given positions."""
        names = {self.block.outputs[output]: place for output, place in written.items()}
        return {self.program.names[x]: self._inputs[place] for x, place in names.items() if type(x) is Name}

    def ready(self) -> tuple[float, float]:
        """Wait until LLVM has compiled, and return the seconds spent in planning and in LLVM."""
        return self._planning, 0.0 if self._module is None else self._module.ready()

    def _single_segment(self) -> tuple[Any, list[int], list[int] | None, int] | None:
        """Return the function of the only stage, for the fast path of `run`; None if there are several stages.

        With it are the positions of its operands among the inputs, and those of the results and of the failure flag
        among its outputs. The positions of the results are None if they are just the outputs, and negative for those in
        the memory of an operand: `~position` among the operands. The position of the flag is -1 if there is none.
        """
        if len(self.stages) != 1 or any(self._aliased):
            return None
        (stage,) = self.stages
        if not isinstance(stage, NativeStage) or not set(stage.needs) <= set(self._inputs):
            return None
        positions: dict[Node, int] = {node: position for position, node in enumerate(self._inputs)}
        operands = [positions[node] for node in stage.needs]
        makes, homes = stage.segment.makes, self.plan.homes
        places = {each: place for place, each in enumerate(makes)}
        places |= {each: ~stage.needs.index(given) for each, given in homes.items()}
        results = [places[memory_of(node)] for node in self._results]
        failed = -1 if self._failed is None else places[self._failed]
        returns_all = failed < 0 and results == list(range(len(makes)))
        return stage.call, operands, None if returns_all else results, failed

    def run(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return the results that are not constants, for arrays in C order with the inputs' shapes and dtypes.

        The result is None if NumPy must run the block, because the run has failed.
        """
        if self._single is not None:
            call, operands, results, failed = self._single
            given = [arrays[position] for position in operands]
            made = call(given)
            if results is None:
                return made  # type: ignore[no-any-return]
            if failed >= 0 and made[failed]:
                return None
            return [made[position] if position >= 0 else given[~position] for position in results]
        values = self.initial_values(arrays)
        try:
            for stage in self.stages:
                stage.run(values)
        except Exception as error:
            if self._failed is None and not isinstance(error, errors.IntegerRangeError):
                raise
            return None  # a failed run may pass invalid values to NumPy; NumPy's own run raises if the error is real
        if self._failed and values[self._failed]:
            return None
        found = [_reshaped(values[memory_of(node)], node.shape) for node in self._results]
        return [x.copy() if is_aliased else x for x, is_aliased in zip(found, self._aliased, strict=True)]

    def initial_values(self, arrays: Sequence[Array]) -> Values:
        """Return the arrays that are known before the first stage runs: inputs, results in their memory, constants."""
        known = dict(zip(self._inputs, arrays, strict=True))
        return {**known, **{result: known[given] for result, given in self.plan.homes.items()}, **self._constants}

    def memory(self) -> dict[str, int]:
        """Return the sizes in bytes: of results, the arena, arrays passed between stages, and constants."""
        results = {memory_of(node) for node in self._results}
        made: set[Node] = {
            projection for stage in self.stages if isinstance(stage, NumpyStage) for projection in stage.projections
        }
        made.update(node for stage in self.stages if isinstance(stage, NativeStage) for node in stage.segment.makes)
        return {
            "results": sum(node.nbytes for node in self._results),
            "arena": sum(stage.segment.arena for stage in self.stages if isinstance(stage, NativeStage)),
            "between stages": sum(node.nbytes for node in made - results),
            "constants": sum(array.nbytes for array in self._constants.values()),
        }


def _reshaped(array: Array, shape: Shape) -> Array:
    return array if array.shape == shape else array.reshape(shape)


def _aliased(results: list[Node]) -> list[bool]:
    """Return which results share the memory of an input, or of an earlier result."""
    seen: set[Node] = set()
    shared = []
    for node in results:
        root = memory_of(node)
        shared.append(isinstance(root, Input) or root in seen)
        seen.add(root)
    return shared


def _compiled(texts: tuple[str, str], functions: Functions, options: Options) -> Module:
    """Return the compiled module, from the cache if it is there."""
    text, unvectorized = texts
    linkage = functions.linkage
    if not isinstance(linkage, Cached):
        return Machine.this().compiled(text, unvectorized, functions.has_iterations)
    cache = code_cache(options.cache) if options.cache and linkage.is_complete else None
    return Machine.this().compiled(
        f"{linkage.text()}\n{text}", unvectorized, functions.has_iterations, linkage.symbols, cache
    )


class NativeStage:
    """A stage that runs the native code of a segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.needs = segment.needs

    def prepare(self, module: Module | None, shapes: dict[Node, Any]) -> None:
        """Set the module that contains the function, and the shapes of its outputs."""
        segment = self.segment
        self._module = module
        self._function: Any = None
        self._outputs = [(shapes.get(node, node.shape), node.dtype) for node in segment.makes]
        self._arenas: list[Any] = []
        self._arena_size = segment.arena

    def _resolve(self) -> Any:
        """Look up the function, waiting until LLVM has compiled it."""
        assert self._module is not None
        self._function = _SEGMENT_FUNCTION(self._module.address(self.segment.name))
        return self._function

    def run(self, values: Values) -> None:
        """Run the function, and add its outputs to the values."""
        made = self.call([values[node] for node in self.segment.needs])
        values.update(zip(self.segment.makes, made, strict=True))

    def call(self, operands: Sequence[Array]) -> Sequence[Array]:
        """Return the outputs of the function, which are new arrays."""
        made = [empty(*output) for output in self._outputs]
        arena = self._arena() if self._arena_size else _NO_ARENA
        try:
            function = self._function or self._resolve()
            if function((*operands, *made), arena[1]):  # an operand is not aligned or not in C order
                operands = [np.require(x, requirements=["C", "ALIGNED"]).reshape(x.shape) for x in operands]
                function((*operands, *made), arena[1])
        except SystemError as error:  # a ufunc's inner loop has raised, as `scipy.special.errstate` allows
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


class NumpyStage:
    """A stage in which NumPy runs an equation."""

    def __init__(self, node: NumpyStep, projections: list[Projection]) -> None:
        self.equation, self._arguments = node.step
        self.projections = projections

    def prepare(self, module: Module | None, shapes: dict[Node, Any]) -> None:
        """Do nothing, since there is no native code."""

    def run(self, values: Values) -> None:
        """Run the equation."""
        given = iter(self._arguments)
        inputs = []
        for each in self.equation.inputs:
            node = next(given)
            value = each if node is None else _reshaped(values[memory_of(node)], node.shape)[()]
            inputs.append(in_pythons_way(value) if type(each) is Name and each.is_weak else value)
        found = self.equation.computed(inputs)
        check_holds(found[0], self.equation.primitive.name)
        for projection in self.projections:
            values[projection] = _unaliased(found[projection.position], projection, inputs)


def _unaliased(found: Array, projection: Projection, inputs: list[Any]) -> Array:
    """Return a NumPy result as an array in C order that shares no memory with the inputs."""
    array = np.ascontiguousarray(found, projection.dtype).reshape(projection.shape)
    is_aliased = any(type(x) is np.ndarray and np.may_share_memory(array, x) for x in inputs)
    return array.copy() if is_aliased else array


def _stages_of(
    plan: Plan, constants: dict[Node, Any], roots: list[Node], functions: Functions, separate_items: bool
) -> tuple[dict[str, Segment], set[Node], list[NativeStage | NumpyStage]]:
    """Return the native segments by name, the arrays that are read outside their segments, and the stages."""
    projections = plan.projections()
    wanted = {memory_of(node) for node in roots}
    segments: dict[str, Segment] = {}
    stages: list[NativeStage | NumpyStage] = []
    begun: set[Node] = set()
    for run in _runs(plan, separate_items):
        if isinstance(run, NumpyStep):
            stages.append(NumpyStage(run, projections.get(run, [])))
            wanted.update(map(memory_of, run.arguments))
            continue
        segment = Segment(f"segment{len(segments)}", run, plan, constants, functions, begun)
        segments[segment.name] = segment
        wanted.update(segment.needs)
        stages.append(NativeStage(segment))
    return segments, wanted, stages


def _llvm_texts(
    segments: dict[str, Segment], wanted: set[Node], functions: Functions, precise: bool
) -> tuple[str, str]:
    """Return the LLVM IR of segments, and that of functions with loops that LLVM vectorizes, if any."""
    if not segments:
        return "", ""
    check_layout()
    texts = [segment.finished(wanted) for segment in segments.values()]
    return functions.module(Machine.this().declarations(functions.used, precise), texts)


def _runs(plan: Plan, separate_items: bool) -> Iterator[list[Item] | NumpyStep]:
    """Yield runs of consecutive native items, or each item separately, and NumPy steps."""
    run: list[Item] = []
    for item in plan.items:
        if isinstance(item, NumpyStep):
            if run:
                yield run
            yield item
            run = []
        elif separate_items:
            yield [item]
        else:
            run.append(item)
    if run:
        yield run
