"""A graph that runs as native code, with NumPy where there is none.

Executable(graph)        compiles
executable.run(arrays)   takes the graph's inputs and variables, returns its results
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.graphs.equations import Name
from fgrad.native import products, reductions, shapes, solving  # noqa: F401  # they say how primitives are lowered
from fgrad.native.lowering import Program, lowered
from fgrad.native.machine import Machine, Module
from fgrad.native.nodes import Called, Given, Node, Part, Stepped
from fgrad.native.plan import Nest, Plan, memory_of, planned
from fgrad.native.segments import Segment

Array = Any
Values = dict[Node, Array]


class Executable:
    """The program of a graph, compiled.

    Args:
        graph: what is compiled.

    Attributes:
        program: the graph as nodes.
        stages: what runs, in order.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.program = lowered(graph)
        self._results = [self.program.names[each] for each in graph.outputs if type(each) is Name]
        self._shared = _shared(self._results)
        self._failed = _any_failure(self.program)
        roots = [*self._results, *([self._failed] if self._failed else [])]
        plan = planned(self.program.all, roots)
        self._inputs = [self.program.inputs[name] for name in (*graph.inputs, *graph.variables)]
        known: dict[Node, Any] = {node: np.ascontiguousarray(array) for node, array in self.program.constants.items()}
        self._known = known
        segments, wanted, self.stages = _parted(plan, known, roots)
        self._module = _compiled(segments, wanted)
        forms = {memory_of(node): node.shape for node in self._results}
        for stage in self.stages:
            stage.prepare(self._module, forms)

    def run(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return the results for arrays that fit the inputs; None where NumPy has to run the graph."""
        values: Values = dict(zip(self._inputs, arrays, strict=True))
        values.update(self._known)
        try:
            for stage in self.stages:
                stage.run(values)
        except Exception:
            if self._failed is None:
                raise
            return None  # what a void run has handed to NumPy's function may be the reason: NumPy's run will tell
        if self._failed and values[self._failed]:
            return None
        found = [_under(values[memory_of(node)], node.shape) for node in self._results]
        return [x.copy() if is_shared else x for x, is_shared in zip(found, self._shared, strict=True)]


def _under(array: Array, shape: Any) -> Array:
    return array if array.shape == shape else array.reshape(shape)


def _shared(results: list[Node]) -> list[bool]:
    """Return which results lie in the memory of an input, or of a result before."""
    seen: set[Node] = set()
    shared = []
    for node in results:
        root = memory_of(node)
        shared.append(isinstance(root, Given) or root in seen)
        seen.add(root)
    return shared


def _any_failure(program: Program) -> Node | None:
    found: Node | None = None
    for each in program.failures:
        found = each if found is None else program.pointwise("logical_or", found, each)
    return found


class Native:
    """A stage that runs a segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment

    def prepare(self, module: Module | None, forms: dict[Node, Any]) -> None:
        """Find the function."""
        assert module is not None
        segment = self.segment
        kinds = [ctypes.py_object] * (len(segment.needs) + len(segment.makes))
        self._function = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_void_p)(module.address(segment.name))
        self._made = [(node, forms.get(node, node.shape), node.dtype) for node in segment.makes]
        self._arenas: list[Any] = []

    def run(self, values: Values) -> None:
        """Run the function on new arrays."""
        arena = self._arenas.pop() if self._arenas else np.empty(self.segment.arena + 64, np.uint8)
        made = [np.empty(shape, dtype) for _, shape, dtype in self._made]
        start = -(-arena.ctypes.data // 64) * 64
        self._function(*[values[node] for node in self.segment.needs], *made, start)
        self._arenas.append(arena)
        for (node, _, _), array in zip(self._made, made, strict=True):
            values[node] = array


class Step:
    """A stage in which NumPy runs an equation."""

    def __init__(self, node: Stepped, parts: list[Part]) -> None:
        self.equation, self._arguments = node.step
        self._parts = parts

    def prepare(self, module: Module | None, forms: dict[Node, Any]) -> None:
        """Do nothing: it is Python."""

    def run(self, values: Values) -> None:
        """Run the equation."""
        given = iter(self._arguments)
        inputs = []
        for each in self.equation.inputs:
            node = next(given)
            inputs.append(each if node is None else _under(values[memory_of(node)], node.shape)[()])
        found = self.equation.computed(inputs)
        for part in self._parts:
            values[part] = _own_array(found[part.place], part, inputs)


def _own_array(found: Any, part: Part, inputs: list[Any]) -> Array:
    """Return a result of NumPy's as an array in C order, which shares no memory with what it was made of."""
    array = np.ascontiguousarray(found, part.dtype).reshape(part.shape)
    is_shared = any(type(x) is np.ndarray and np.may_share_memory(array, x) for x in inputs)
    return array.copy() if is_shared else array


def _parted(
    plan: Plan, known: dict[Node, Any], roots: list[Node]
) -> tuple[dict[str, Segment], set[Node], list[Native | Step]]:
    """Return the native segments by name, the arrays that others than their makers read, and the stages in order."""
    parts: dict[Node, list[Part]] = {}
    for node in plan.stored:
        if isinstance(node, Part):
            parts.setdefault(node.arguments[0], []).append(node)
    wanted = {memory_of(node) for node in roots}
    segments: dict[str, Segment] = {}
    stages: list[Native | Step] = []
    for run in _runs(plan):
        if isinstance(run, Stepped):
            stages.append(Step(run, parts.get(run, [])))
            wanted.update(map(memory_of, run.arguments))
            continue
        segment = Segment(f"segment{len(segments)}", run, plan, known)
        segments[segment.name] = segment
        wanted.update(segment.needs)
        stages.append(Native(segment))
    return segments, wanted, stages


def _compiled(segments: dict[str, Segment], wanted: set[Node]) -> Module | None:
    """Return the native code of segments."""
    if not segments:
        return None
    machine, used = Machine.this(), {}
    texts = [segment.finished(wanted) for segment in segments.values()]
    for segment in segments.values():
        used.update(segment.used)
    return machine.compiled("\n".join([machine.declarations(used), *texts]))


def _runs(plan: Plan) -> Iterator[list[Nest | Called] | Stepped]:
    """Yield native items that follow each other, and steps."""
    run: list[Nest | Called] = []
    for item in plan.items:
        if isinstance(item, Stepped):
            if run:
                yield run
            yield item
            run = []
        else:
            run.append(item)
    if run:
        yield run
