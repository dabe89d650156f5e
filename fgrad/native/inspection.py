"""Inspection of a compiled program: loops, library calls and NumPy steps, with the user's lines.

inspected(...)        the report of a program
seconds_of(call)      the time of a call
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Equation
from fgrad.graphs.graph import Block
from fgrad.graphs.loop import UNLIMITED, Iterations
from fgrad.graphs.missed_loops import unrolled
from fgrad.graphs.rerolling import Loop, loops_of, places_of
from fgrad.native.executable import Executable
from fgrad.native.functions import Function
from fgrad.native.looping import PythonLoop
from fgrad.native.lowering import Program
from fgrad.native.nests import Nest, Rows, memory_of
from fgrad.native.nodes import (
    Elementwise,
    Gather,
    Input,
    LibraryCall,
    Literal,
    LoopNode,
    Node,
    NumpyStep,
    Reduction,
    Scan,
    Scatter,
)
from fgrad.native.plan import Item, Plan, make_plan
from fgrad.native.reports import Inspection, Stage

_SECONDS_PER_STAGE = 0.02
"""Average seconds per stage for which stages are timed."""
_LEAST_RUNS = 10
"""Least number of runs of each stage, unless all of them have taken `_MOST_SECONDS` seconds in total."""
_MOST_SECONDS = 10.0
"""Seconds after which timing ends in any case."""
_MOST_RUNS = 1000
"""Most runs of a call."""
_FREE = {"cast", "select"}
"""Elementwise operations that are not arithmetic."""


class _Reader:
    """Describes the items of a plan."""

    def __init__(self, block: Block, program: Program, plan: Plan) -> None:
        self._equations, self._program, self._plan = block.equations, program, plan
        self._results: dict[Node, set[int]] = {}
        for place, equation in enumerate(self._equations):
            for name in equation.outputs:
                self._results.setdefault(memory_of(self._program.names[name]), set()).add(place)

    def stage(self, item: Item) -> Stage:
        """Return the report of an item of the plan."""
        if isinstance(item, Rows):
            return self._loops(item)
        if isinstance(item, LibraryCall):
            arrays = [item, *map(memory_of, item.arguments)]
            lines = self._lines([item])
            return Stage("routine", item.shape, {item.routine: 1}, lines, _flops_of(item), _bytes(arrays))
        return self._iterations(item) if isinstance(item, LoopNode) else self._step(item)

    def _iterations(self, loop: LoopNode) -> Stage:
        """Return the report of all iterations of a loop."""
        iterations: Iterations = loop.iterations
        plan = make_plan(loop.program.all, loop.results)
        reader = _Reader(iterations.body, loop.program, plan)
        stages = [reader.stage(item) for item in plan.items]
        operations: Counter[str] = Counter()
        for stage in stages:
            operations.update(stage.operations)
        flops, size = sum(x.flops for x in stages), sum(x.bytes for x in stages)
        vanished = sum(x.vanished for x in stages)
        count = 1 if _is_endless(iterations) else iterations.count
        return Stage(
            "iterations", _shape_of(iterations), dict(operations), _lines_of(iterations),
            count * flops, count * size, vanished,
            is_conditional=iterations.condition is not None,
        )  # fmt: skip

    def _loops(self, rows: Rows) -> Stage:
        operations: Counter[str] = Counter()
        inside: set[Node] = set()
        read: set[Node] = set()
        flops = 0
        for nest in rows.nests:
            own, from_memory = self._inside(nest)
            space = nest.writes[0].space
            targets = [write.target for write in nest.writes if write.target not in own]
            for node in [*own, *targets]:
                name = _operation_of(node)
                if name:
                    operations[name] += 1
                    flops += 0 if name in _FREE else 1 if node.shape == () and node in own else math.prod(space)
            inside.update(own, targets)
            read.update(from_memory)
        written = {write.target for write in rows.writes}
        vanished = {place for node in inside - written for place in self._results.get(node, ())}
        space = max((nest.writes[0].space for nest in rows.nests), key=math.prod)
        size = _bytes((written | read) - rows.buffers.keys())
        return Stage("loops", space, dict(operations), self._lines(inside), flops, size, len(vanished))

    def _inside(self, nest: Nest) -> tuple[list[Node], list[Node]]:
        """Return the nodes computed in a nest, operands first, and the arrays that it reads."""
        own = {write.target for write in nest.writes}
        inside: dict[Node, None] = {}
        read: dict[Node, None] = {}
        waiting = [write.value for write in nest.writes]
        waiting += [x for target in own if isinstance(target, Scatter) for x in target.arguments[1:]]
        while waiting:
            node = waiting.pop()
            root = memory_of(node)
            if isinstance(node, Literal) or node in inside:
                continue
            if root is not node or isinstance(node, Input) or (node in self._plan.stored and node not in own):
                read[root] = None
            else:
                inside[node] = None
                waiting += node.arguments
        return sorted(inside, key=lambda node: node.number), list(read)

    def _step(self, item: NumpyStep) -> Stage:
        equation: Equation = item.step[0]
        arrays = [*map(memory_of, item.arguments), *(self._program.names[name] for name in equation.outputs)]
        reason = self._program.refused.get(item.equation, "")
        if isinstance(equation.primitive.implementation, PythonLoop):
            return self._python_iterations(equation.primitive.implementation.iterations, reason, _bytes(arrays))
        lines = (equation.line,) if equation.line else ()
        shape = equation.outputs[0].shape if equation.outputs else ()
        return Stage(
            "NumPy", shape, {equation.primitive.name: 1}, lines, 0, _bytes(arrays), 0, reason, _advice(equation, reason)
        )

    def _python_iterations(self, iterations: Iterations, reason: str, size: int) -> Stage:
        operations = Counter(each.primitive.name for each in iterations.body.equations)
        advice = (
            "Python runs the loop, and each iteration is a program of its own: better do that before or after the loop."
        )
        return Stage(
            "Python", _shape_of(iterations), dict(operations), _lines_of(iterations), 0, size, 0, reason, advice,
            is_conditional=iterations.condition is not None,
        )  # fmt: skip

    def _lines(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return the user's lines of nodes, sorted."""
        places = {self._equations[node.equation].place for node in nodes if node.equation >= 0}
        return tuple(errors.line_at(place) for place in sorted(place for place in places if place))


def _is_endless(iterations: Iterations) -> bool:
    return iterations.count >= UNLIMITED


def _shape_of(iterations: Iterations) -> tuple[int, ...]:
    return () if _is_endless(iterations) else (iterations.count,)


def _lines_of(iterations: Iterations) -> tuple[str, ...]:
    return tuple(map(errors.line_at, places_of(iterations.body)))


def _operation_of(node: Node) -> str:
    """Return the name of a node's operation in a report, empty for nodes that only move elements."""
    if isinstance(node, Elementwise):
        return node.operation
    if isinstance(node, Reduction):
        return node.kind
    if isinstance(node, Scan):
        return f"cum{node.kind}"
    if isinstance(node, Gather):
        return "take"
    return "add at" if isinstance(node, Scatter) else ""


def _flops_of(item: LibraryCall) -> int:
    """Return an estimate of the arithmetic operations of a library call."""
    if item.routine == "matmul":
        return 2 * item.size * int(getattr(item.options, "k", 0))
    size = item.arguments[0].shape[-1] if item.arguments and item.arguments[0].shape else 0
    count = math.prod(item.arguments[0].shape[:-2]) if item.arguments else 0
    cubic = {"cholesky": size**3 // 3, "lu": 2 * size**3 // 3}
    return count * cubic[item.routine] if item.routine in cubic else 2 * item.size * size


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(node.nbytes for node in set(nodes))


def _advice(equation: Equation, reason: str) -> str:
    """Return advice for making an operation native; empty if there is none."""
    kinds = [x.dtype for x in (*equation.inputs, *equation.outputs) if hasattr(x, "dtype")]
    if "of the user's" in reason:
        return "Say what it computes in NumPy's functions: fgrad.extend.deflowering."
    if equation.primitive.name == "loop":
        return "What else there is in an iteration is native."
    if equation.direct:
        return "What it calls can be compiled itself."
    if any(kind.kind == "c" for kind in kinds):
        return "Compute with real and imaginary parts, as two arrays."
    if any(kind.kind == "f" and kind.itemsize not in (4, 8) for kind in kinds):
        return "Convert to float64 or float32."
    return ""


# The report


def inspected(function: Function, arrays: Sequence[Any] | None, seconds: float, **rest: Any) -> Inspection:
    """Return the report of a program.

    Args:
        function: the program.
        arrays: inputs with which each stage is timed; None for no timing.
        seconds: the time of recording.
        rest: further fields of `Inspection`.
    """
    executable, block = function.executable(), function.block
    apart = executable if arrays is None else Executable(block, function.options, separate_items=True)
    reader = _Reader(apart.block, apart.program, apart.plan)
    stages = [reader.stage(item) for item in apart.plan.items]
    if arrays is not None:
        for stage, taken in zip(stages, _timed(apart, arrays), strict=True):
            stage.seconds = taken
    planning, compiling = executable.ready()
    times = {"recording": seconds, "planning": planning, "LLVM": compiling}
    return Inspection(
        loops=[_loop_text(loop) for loop in loops_of(executable.block)],
        unrolled=[
            f"{each.equations:,} operations of {_lines_text(each.places)}: {each.reason}"
            for each in unrolled(executable.block)
        ],
        stages=stages, memory=executable.memory(), seconds=times, llvm=executable.llvm,
        operations=len(block.equations), **rest,
    )  # fmt: skip


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the shortest time of a call."""
    best, begun = math.inf, time.perf_counter()
    for rounds in range(_MOST_RUNS):
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > begun + (_SECONDS_PER_STAGE if rounds >= _LEAST_RUNS else _MOST_SECONDS):
            break
    return best


def _loop_text(loop: Loop) -> str:
    """Return the trip count, the number of operations and the lines of a loop."""
    operations = f"{loop.equations:,} operation{'s' * (loop.equations != 1)}"
    inside, lines = "in each iteration, " * loop.depth, _lines_text(loop.places)
    if loop.is_conditional and loop.iterations == 1:
        return f"{inside}one way of a choice, {operations}, for {lines}"
    count = (
        "iterations" if loop.iterations >= UNLIMITED else f"{loop.iterations:,} iteration{'s' * (loop.iterations != 1)}"
    )
    most = "at most " if loop.is_conditional and loop.iterations < UNLIMITED else ""
    ends = " while a condition holds" if loop.is_conditional else ""
    return f"{inside}{most}{count} of {operations}{ends}, for {lines}"


def _lines_text(places: Sequence[tuple[str, int]]) -> str:
    """Return line numbers without source text, as `file:1, 2, 5`."""
    numbers: dict[str, list[str]] = {}
    for place in places:
        file, _, number = errors.line_at(place).partition(": ")[0].rpartition(":")
        numbers.setdefault(file, []).append(number)
    return ", ".join(f"{file}:{', '.join(each)}" for file, each in numbers.items())


def _timed(executable: Executable, arrays: Sequence[Any]) -> list[float]:
    """Return the shortest time of each stage; all stages run in turn, repeatedly.

    One measurement is unreliable: while other programs occupy the cores, the threads of a BLAS library may wait for
    each other for a second, hundreds of times as long as they compute. So each stage is timed at different moments.
    """
    values = executable.initial_values(arrays)
    best, rounds = [math.inf] * len(executable.stages), 0
    begun = time.perf_counter()
    enough, now = begun + _SECONDS_PER_STAGE * len(best), begun
    with np.errstate(all="ignore"):
        while now < begun + _MOST_SECONDS and (rounds < _LEAST_RUNS or now < enough):
            for place, stage in enumerate(executable.stages):
                start = time.perf_counter()
                stage.run(values)
                now = time.perf_counter()
                best[place] = min(best[place], now - start)
            rounds += 1
    return best
