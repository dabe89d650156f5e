"""The report of a compiled program, printed as a table.

Inspection            the report of a program
Stage                 one line of it: loops, a library call, or a NumPy step
changes_between(...)  the differences between calls that have separate programs
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fgrad.errors.amounts import bytes_text, count_text, seconds_text

_PYTHONS = ("NumPy", "Python")
_MOST_LINES = 3
_MOST_CHANGES = 6


@dataclass
class Stage:
    """One stage of a compiled program: loops over arrays, a library call, iterations of a loop, or a NumPy step.

    Attributes:
        kind: "loops" over elements, "routine" (a library call), "iterations" (a loop of the user's), "Python" (a loop
            whose iterations Python executes) or "NumPy".
        shape: the sizes of the loops, or the shape of the result; for iterations the trip count, () if it is not known.
        operations: the count of each operation per element, or per iteration.
        lines: the user's lines, as `file:line: source`.
        flops: an estimate of arithmetic operations, with elementary functions counted as one; for one iteration if the
            trip count is not known.
        bytes: the size of the arrays that are read and written, each counted once.
        vanished: the number of intermediate arrays of the eager function that are not stored.
        reason: why NumPy executes the stage; empty for native code.
        advice: how to make it native, if known.
        seconds: the time of one run; None if it was not measured.
        is_conditional: whether a condition ends the iterations; then the shape has their maximum.
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
    is_conditional: bool = False


@dataclass
class Inspection:
    """The report of a compiled function for arguments of one form, as returned by the function's `inspect`.

    Attributes:
        name: of the function.
        inputs: the inputs of the program, by the user's names.
        frozen: arguments that are constants of the program.
        variables: the variables that it reads.
        loops: loops of the program, outer loops first, with the lines of an iteration. Python loops that were rerolled
            and loops of backward passes are among them.
        unrolled: lines whose operations occur many times outside of a loop, and why.
        stages: the stages, in order of execution.
        memory: bytes of results, of the arena of intermediate arrays, of arrays between stages, of constants.
        seconds: the time of recording, planning, and LLVM.
        operations: the number of recorded operations.
        programs: the number of programs recorded for this function so far.
        changes: the differences between them.
        llvm: the LLVM IR.
        calls: the seconds of one call, "compiled" and "eager"; empty if they were not measured, or if the function
            assigns to variables.

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
    loops: list[str]
    unrolled: list[str]
    stages: list[Stage]
    memory: dict[str, int]
    seconds: dict[str, float]
    operations: int
    programs: int
    changes: list[str]
    llvm: str = field(repr=False)
    calls: dict[str, float] = field(default_factory=dict)

    @property
    def calls_to_pay(self) -> float:
        """The number of calls after which compiling has paid off, maybe infinite; NaN if calls were not measured."""
        if not self.calls:
            return math.nan
        saved = self.calls["eager"] - self.calls["compiled"]
        return math.ceil(sum(self.seconds.values()) / saved) if saved > 0 else math.inf

    @property
    def kernels(self) -> list[Stage]:
        """The stages that are native code."""
        return [stage for stage in self.stages if stage.kind not in _PYTHONS]

    @property
    def steps(self) -> list[Stage]:
        """The stages that NumPy executes, and loops whose iterations Python executes."""
        return [stage for stage in self.stages if stage.kind in _PYTHONS]

    @property
    def flops(self) -> int:
        """An estimate of the arithmetic operations of one call."""
        return sum(stage.flops for stage in self.stages)

    @property
    def bytes(self) -> int:
        """The bytes of the arrays that stages read and write in one call."""
        return sum(stage.bytes for stage in self.stages)

    def __str__(self) -> str:
        steps = f" and {_counted(len(self.steps), 'step')} of NumPy's" if self.steps else ""
        times = ", ".join(f"{name} {seconds_text(each)}" for name, each in self.seconds.items())
        recorded = f"{self.operations:,} operation{'s' * (self.operations != 1)} recorded"
        memory = ", ".join(f"{name} {bytes_text(each)}" for name, each in self.memory.items())
        sections = {
            "inputs": self.inputs,
            "frozen": self.frozen,
            "variables": self.variables,
            "loops": self.loops,
            "not loops": self.unrolled,
            "memory": [memory],
            "compiled": [f"{times}; {recorded}; {_counted(self.programs, 'program')} for this function so far"],
            "a call": self._call_texts(),
            "changing": self.changes,
        }
        lines = [f"{self.name}: {_counted(len(self.kernels), 'kernel')}{steps}"]
        for title, entries in sections.items():
            lines += [f"{'' if place else title:<11}{entry}" for place, entry in enumerate(entries)]
        return "\n".join([*lines, *self._table()])

    __repr__ = __str__

    def _call_texts(self) -> list[str]:
        if not self.calls:
            return []
        pays = f"pays after {count_text(self.calls_to_pay)} calls" if self.calls_to_pay < math.inf else "does not pay"
        times = ", ".join(f"{name} {seconds_text(each)}" for name, each in self.calls.items())
        return [f"{times}; compiling {pays}"]

    def _table(self) -> Iterator[str]:
        """Yield a line for each stage, followed by its operations and the user's lines."""
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
    what = f"{stage.kind} {_size_text(stage)}"
    an_iteration = "" if stage.shape or not stage.is_conditional else " an iteration"
    amounts = count_text(stage.flops) + an_iteration if stage.flops else "", bytes_text(stage.bytes) + an_iteration
    vanished = _counted(stage.vanished, "array") if stage.vanished else ""
    return f"{place:>2}", what, *amounts, vanished, taken


def _size_text(stage: Stage) -> str:
    if stage.is_conditional and stage.shape == (1,):
        return "if chosen"
    if stage.is_conditional:
        return f"<= {stage.shape[0]}" if stage.shape else "while a condition holds"
    return " x ".join(map(str, stage.shape)) or "1"


def _details(stage: Stage) -> Iterator[str]:
    yield ", ".join(name if count == 1 else f"{name} x{count}" for name, count in stage.operations.items()) or "moves"
    if stage.reason:
        yield stage.reason + "." + (f" {stage.advice}" if stage.advice else "")
    yield from stage.lines[:_MOST_LINES]
    if len(stage.lines) > _MOST_LINES:
        yield f"and {_counted(len(stage.lines) - _MOST_LINES, 'line')} more"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


# Differences between programs


def changes_between(calls: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return the differences between calls, each given as labels of leaves with their dtypes and shapes."""
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
