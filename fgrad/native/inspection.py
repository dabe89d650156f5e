"""What a compiled program consists of, as a report: loops, routines and what NumPy runs, with the user's lines.

inspected(...)        the report of a program
Inspection, Stage     what it holds; printed, it is a table
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.errors.amounts import bytes_text, count_text, seconds_text
from fgrad.graphs.equations import Equation
from fgrad.graphs.graph import Block
from fgrad.native.executable import Executable
from fgrad.native.functions import Function
from fgrad.native.lowering import Program
from fgrad.native.nodes import Called, Gathered, Given, Literal, Node, Pointwise, Reduced, Running, Scattered, Stepped
from fgrad.native.plan import Nest, Plan, memory_of

_TIMED = 0.02
"""Seconds for which each stage is run again and again, when it is timed."""
_MOST_LINES = 3
_MOST_CHANGES = 6
_FREE = {"cast", "select"}
"""Operations on elements that are no arithmetic."""


@dataclass
class Stage:
    """One thing that a compiled program does: a nest of loops, a routine of a library, or an operation of NumPy's.

    Attributes:
        kind: "loops", "routine" or "NumPy".
        shape: the sizes of the loops, or the shape of the result.
        operations: what is computed for each element, with how often.
        lines: the user's, as `file:line: source`.
        flops: operations on numbers, an elementary function counted as one; an estimate.
        bytes: of the arrays that are read and written, each once.
        vanished: how many arrays of the eager function are nowhere in memory.
        reason: why NumPy runs it; empty for native code.
        advice: what would make it native, if a sentence can say that.
        seconds: what it takes when it runs by itself; None if it was not measured.
    """

    kind: str
    shape: tuple[int, ...]
    operations: dict[str, int]
    lines: tuple[str, ...] = ()
    flops: int = 0
    bytes: int = 0
    vanished: int = 0
    reason: str = ""
    advice: str = ""
    seconds: float | None = None


@dataclass
class Inspection:
    """What a compiled function does for arguments of one form; `inspect` of the function returns it.

    Attributes:
        name: of the function.
        inputs: what goes into the program, by the names that the user gave it.
        frozen: arguments that are part of the program.
        variables: what is read when it runs.
        stages: what it does, in order.
        memory: bytes of the results, of the arena for arrays on the way, of arrays between stages, of constants.
        seconds: what recording took, planning, and LLVM.
        programs: how many there have been for this function.
        changes: what differed between them.
        llvm: the native code in LLVM's language.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.compile
        ... def loss(w, x):
        ...     return np.sum(np.tanh(x * w) ** 2)
        >>> report = loss.inspect(2.0, np.ones(1000))
        >>> report.inputs
        ['w: float64[]', 'x: float64[1000]']
        >>> [(stage.kind, stage.shape, stage.operations) for stage in report.kernels]
        [('loops', (1000,), {'multiply': 1, 'tanh': 1, 'square': 1, 'sum': 1})]
        >>> report.steps, report.memory["arena"]
        ([], 0)
    """

    name: str
    inputs: list[str]
    frozen: list[str]
    variables: list[str]
    stages: list[Stage]
    memory: dict[str, int]
    seconds: dict[str, float]
    programs: int
    changes: list[str]
    llvm: str = field(repr=False)

    @property
    def kernels(self) -> list[Stage]:
        """The stages that are native code."""
        return [stage for stage in self.stages if stage.kind != "NumPy"]

    @property
    def steps(self) -> list[Stage]:
        """The stages that NumPy runs."""
        return [stage for stage in self.stages if stage.kind == "NumPy"]

    @property
    def flops(self) -> int:
        """Operations on numbers in one call, where they are known."""
        return sum(stage.flops for stage in self.stages)

    @property
    def bytes(self) -> int:
        """Bytes of the arrays that stages read and write in one call."""
        return sum(stage.bytes for stage in self.stages)

    def __str__(self) -> str:
        steps = f" and {_counted(len(self.steps), 'step')} of NumPy's" if self.steps else ""
        times = ", ".join(f"{name} {seconds_text(each)}" for name, each in self.seconds.items())
        memory = ", ".join(f"{name} {bytes_text(each)}" for name, each in self.memory.items())
        sections = {
            "inputs": self.inputs,
            "frozen": self.frozen,
            "variables": self.variables,
            "memory": [memory],
            "compiled": [f"{times}; {_counted(self.programs, 'program')} for this function so far"],
            "changing": self.changes,
        }
        lines = [f"{self.name}: {_counted(len(self.kernels), 'kernel')}{steps}"]
        for title, entries in sections.items():
            lines += [f"{'' if place else title:<11}{entry}" for place, entry in enumerate(entries)]
        return "\n".join([*lines, *self._table()])

    __repr__ = __str__

    def _table(self) -> Iterator[str]:
        """Return a line for each stage, and below it what it computes, and for which lines of the user's."""
        total = sum(stage.seconds or 0.0 for stage in self.stages)
        heads = _HEADS if total else _HEADS[:-1]
        rows = [heads, *(_cells(place, stage, total)[: len(heads)] for place, stage in enumerate(self.stages, 1))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for place, row in enumerate(rows):
            yield ""
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            if place:
                yield from (f"     {text}" for text in _details(self.stages[place - 1]))


_HEADS = ("", "what", "flops", "bytes", "vanished", "time")


def _cells(place: int, stage: Stage, total: float) -> tuple[str, ...]:
    taken = f"{seconds_text(stage.seconds)} ({stage.seconds / total:.0%})" if stage.seconds else ""
    what = f"{stage.kind} {' x '.join(map(str, stage.shape)) or '1'}"
    amounts = count_text(stage.flops) if stage.flops else "", bytes_text(stage.bytes)
    vanished = _counted(stage.vanished, "array") if stage.vanished else ""
    return f"{place:>2}", what, *amounts, vanished, taken


def _details(stage: Stage) -> Iterator[str]:
    yield ", ".join(name if count == 1 else f"{name} x{count}" for name, count in stage.operations.items()) or "moves"
    if stage.reason:
        yield stage.reason + "." + (f" {stage.advice}" if stage.advice else "")
    yield from stage.lines[:_MOST_LINES]
    if len(stage.lines) > _MOST_LINES:
        yield f"and {_counted(len(stage.lines) - _MOST_LINES, 'line')} more"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


# What a stage computes


class _Reader:
    """Describes the items of a plan."""

    def __init__(self, block: Block, executable: Executable) -> None:
        self._equations = block.equations
        self._program: Program = executable.program
        self._plan: Plan = executable.plan
        self._results: dict[Node, set[int]] = {}
        for place, equation in enumerate(self._equations):
            for name in equation.outputs:
                self._results.setdefault(memory_of(self._program.names[name]), set()).add(place)

    def stage(self, item: Nest | Called | Stepped) -> Stage:
        """Return what an item of the plan does."""
        if isinstance(item, Nest):
            return self._loops(item)
        if isinstance(item, Called):
            arrays = [item, *map(memory_of, item.arguments)]
            lines = self._lines([item])
            return Stage("routine", item.shape, {item.routine: 1}, lines, _flops_of(item), _bytes(arrays))
        return self._step(item)

    def _loops(self, nest: Nest) -> Stage:
        inside, read = self._inside(nest)
        targets = dict.fromkeys(write.target for write in nest.writes)
        space = nest.writes[0].space
        operations: Counter[str] = Counter()
        flops = 0
        for node in [*inside, *(target for target in targets if target not in inside)]:
            name = _operation_of(node)
            if name:
                operations[name] += 1
                flops += 0 if name in _FREE else 1 if node.shape == () and node in inside else math.prod(space)
        vanished = {place for node in inside if node not in targets for place in self._results.get(node, ())}
        lines = self._lines([*inside, *targets])
        return Stage("loops", space, dict(operations), lines, flops, _bytes({*targets, *read}), len(vanished))

    def _inside(self, nest: Nest) -> tuple[list[Node], list[Node]]:
        """Return the nodes that are computed in a nest, arguments first, and the arrays that are read."""
        own = {write.target for write in nest.writes}
        inside: dict[Node, None] = {}
        read: dict[Node, None] = {}
        waiting = [node for write in nest.writes for node in (write.value, *_indices(write.target))]
        while waiting:
            node = waiting.pop()
            root = memory_of(node)
            if isinstance(node, Literal) or node in inside:
                continue
            if root is not node or isinstance(node, Given) or (node in self._plan.stored and node not in own):
                read[root] = None
            else:
                inside[node] = None
                waiting += node.arguments
        return sorted(inside, key=lambda node: node.number), list(read)

    def _step(self, item: Stepped) -> Stage:
        equation: Equation = item.step[0]
        arrays = [*map(memory_of, item.arguments), *(self._program.names[name] for name in equation.outputs)]
        reason = self._program.refused.get(item.equation, "")
        lines = (equation.line,) if equation.line else ()
        shape = equation.outputs[0].shape if equation.outputs else ()
        return Stage(
            "NumPy", shape, {equation.primitive.name: 1}, lines, 0, _bytes(arrays), 0, reason, _advice(equation, reason)
        )

    def _lines(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return the user's lines of nodes, in the order in which they stand."""
        places = {self._equations[node.equation].place for node in nodes if node.equation >= 0}
        return tuple(errors.line_at(place) for place in sorted(place for place in places if place))


def _indices(target: Node) -> Sequence[Node]:
    return target.arguments[1:] if isinstance(target, Scattered) else ()


def _operation_of(node: Node) -> str:
    """Return what a report calls the operation of a node, empty for what only moves elements."""
    if isinstance(node, Pointwise):
        return node.operation
    if isinstance(node, Reduced):
        return node.kind
    if isinstance(node, Running):
        return f"cum{node.kind}"
    if isinstance(node, Gathered):
        return "take"
    return "add at" if isinstance(node, Scattered) else ""


def _flops_of(item: Called) -> int:
    """Return how many operations on numbers a routine takes, 0 if that is not known."""
    if item.routine == "matmul":
        return 2 * item.size * int(getattr(item.options, "k", 0))
    size = item.arguments[0].shape[-1] if item.arguments and item.arguments[0].shape else 0
    count = math.prod(item.arguments[0].shape[:-2]) if item.arguments else 0
    cubic = {"cholesky": size**3 // 3, "lu": 2 * size**3 // 3}
    return count * cubic[item.routine] if item.routine in cubic else 2 * item.size * size


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(node.size * node.dtype.itemsize for node in set(nodes))


def _advice(equation: Equation, reason: str) -> str:
    """Return what would make native what NumPy runs; empty if no sentence can say that."""
    kinds = [x.dtype for x in (*equation.inputs, *equation.outputs) if hasattr(x, "dtype")]
    if "of the user's" in reason:
        return "Say what it computes in NumPy's functions: fgrad.extend.deflowering."
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
        arrays: for which each stage is timed; None not to.
        seconds: how long recording took.
        rest: what only the function that was compiled knows; see `Inspection`.
    """
    executable, block = function.executable(), function.block
    apart = executable if arrays is None else Executable(block, function.options, apart=True)
    reader = _Reader(block, apart)
    stages = [reader.stage(item) for item in apart.plan.items]
    if arrays is not None:
        for stage, taken in zip(stages, _timed(apart, arrays), strict=True):
            stage.seconds = taken
    planning, compiling = executable.seconds
    times = {"recording": seconds, "planning": planning, "LLVM": compiling}
    return Inspection(stages=stages, memory=executable.memory(), seconds=times, llvm=executable.llvm, **rest)


def _timed(executable: Executable, arrays: Sequence[Any]) -> Iterator[float]:
    """Yield what each stage takes at best when it is run by itself, again and again."""
    values = executable.given(arrays)
    with np.errstate(all="ignore"):
        for stage in executable.stages:
            best, end = math.inf, time.perf_counter() + _TIMED
            while True:
                start = time.perf_counter()
                stage.run(values)
                now = time.perf_counter()
                best = min(best, now - start)
                if now > end:
                    break
            yield best


def changes_between(calls: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return what differs between calls, each given by the texts of its leaves and their forms."""
    if len({tuple(label for label, _ in leaves) for leaves in calls}) > 1:
        return ["how the arguments are nested"]
    found = []
    for same in zip(*calls, strict=True):
        forms = list(dict.fromkeys(form for _, form in same))
        if len(forms) > 1:
            more = ", ..." if len(forms) > _MOST_CHANGES else ""
            found.append(f"{same[0][0]}: {', '.join(forms[:_MOST_CHANGES])}{more}")
    if len(set(map(tuple, calls))) < len(calls):
        found.append("what is passed by name")
    return found
