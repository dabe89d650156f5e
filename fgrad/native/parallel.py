"""Large nests on several cores: the iterations of the outermost loop in parts, on threads of the operating system.

The parts are the same for any number of threads, and what is added up along the loop is added up in their order, so the
result is the same to the last bit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from fgrad.native.emission import NestFunction, accumulated, identity, innermost
from fgrad.native.nests import MOST_PARTS
from fgrad.native.nodes import Reduced
from fgrad.native.scalars import Code, Scalar, literal, scalar_of
from fgrad.native.widening import Innermost, Widths, narrow

Used = dict[str, tuple[str, ...]]

_WORTH_PARTS = 2_500_000
"""Instructions from which on a nest is worth to be parted: some 0.2 ms, where to start a thread takes 0.02 ms."""
_MOST_MEMORY = 1 << 22

CAN_BE_PARTED = sys.platform.startswith(("linux", "darwin"))
"""Whether there are the threads of POSIX."""


def default_threads() -> int:
    """Return on how many cores native code runs: what the environment says, or as many as there are."""
    for name in ("FGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdigit() and int(given):
            return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_worth_parts(function: NestFunction) -> bool:
    """Return whether a nest is to run in parts."""
    memory = MOST_PARTS * sum(map(_bytes, function.totals))
    return CAN_BE_PARTED and function.iterations > 1 and function.work >= _WORTH_PARTS and memory <= _MOST_MEMORY


def _bytes(total: Reduced) -> int:
    """Return how much memory a part needs for what it adds up, so that no two share a line of the cache."""
    return -(-total.size * total.dtype.itemsize // 64) * 64


class Parts:
    """The functions that run a nest in parts.

    Args:
        name: of the function that runs all.
        function: runs the iterations from `%lo` to `%hi`, with the row `%row` of what is in memory row by row.
        parameters: the names of the memory that it takes.
        places: which of these is the memory of each total.
        threads: how many run at once.
        widths: how many elements are computed at once.

    Attributes:
        used: the functions of libraries that they call.
    """

    def __init__(
        self,
        name: str,
        function: NestFunction,
        parameters: Sequence[str],
        places: Sequence[int],
        threads: int,
        widths: Widths | None,
    ) -> None:
        self._name, self._function, self._parameters, self._places = name, function, list(parameters), list(places)
        self._count = min(MOST_PARTS, function.iterations)
        self._threads, self._widths = min(threads, self._count), widths
        self._stride = sum(map(_bytes, function.totals))
        self.used: Used = {}

    def text(self, fills: str) -> str:
        """Return the functions; `fills` is the body of one that fills arrays before."""
        taken = ", ".join(f"ptr noalias {each}" for each in self._parameters)
        passed = ", ".join(f"ptr {each}" for each in self._parameters)
        return "\n".join(
            [
                f"define internal void @{self._name}_fill({taken}) noinline #0 {{\n{fills}\n}}",
                f"define internal void @{self._name}_part({taken}, i64 %row, i64 %lo, i64 %hi) noinline #0 {{",
                self._function.body,
                "}",
                self._worker(),
                f"define hidden void @{self._name}({taken}) noinline #0 {{",
                f"entry:\n  call void @{self._name}_fill({passed})",
                *self._started(),
                *self._totals(),
                "  ret void\n}",
            ]
        )

    def _worker(self) -> str:
        """Return what one thread does: every so-manieth part."""
        count = len(self._parameters)
        lines = [f"define internal ptr @{self._name}_worker(ptr %context) #0 {{", "entry:"]
        lines.append("  %shared = load ptr, ptr %context")
        lines.append("  %at = getelementptr i64, ptr %context, i64 1\n  %first = load i64, ptr %at")
        for place in range(count + 1):
            lines.append(f"  %q{place} = getelementptr ptr, ptr %shared, i64 {place}")
            lines.append(f"  %r{place} = load ptr, ptr %q{place}")
        lines += [
            "  br label %next",
            "next:",
            "  %c = phi i64 [ %first, %entry ], [ %d, %next ]",
            f"  %lower = mul i64 %c, {self._function.iterations}\n  %lo = udiv i64 %lower, {self._count}",
            f"  %upper = add i64 %lower, {self._function.iterations}\n  %hi = udiv i64 %upper, {self._count}",
            f"  %own = mul i64 %c, {self._stride}\n  %base = getelementptr i8, ptr %r{count}, i64 %own",
        ]
        given = [f"%r{place}" for place in range(count)]
        offset = 0
        for number, (place, total) in enumerate(zip(self._places, self._function.totals, strict=True)):
            lines.append(f"  %o{number} = getelementptr i8, ptr %base, i64 {offset}")
            given[place] = f"%o{number}"
            offset += _bytes(total)
        lines += [
            f"  call void @{self._name}_part({', '.join(f'ptr {each}' for each in given)}, i64 %c, i64 %lo, i64 %hi)",
            f"  %d = add i64 %c, {self._threads}",
            f"  %more = icmp ult i64 %d, {self._count}",
            "  br i1 %more, label %next, label %done\ndone:\n  ret ptr null\n}",
        ]
        return "\n".join(lines)

    def _started(self) -> list[str]:
        """Return what starts the threads, takes a share, and waits; a thread that cannot be started is done without."""
        count, worker = len(self._parameters), f"@{self._name}_worker"
        lines = [f"  %shared = alloca [{count + 1} x ptr]"]
        if self._stride:
            self.used.update(malloc=("ptr", "i64"), free=("void", "ptr"))
            lines.append(f"  %partial = call ptr @malloc(i64 {self._stride * self._count})")
        for place, each in enumerate([*self._parameters, "%partial" if self._stride else "null"]):
            lines.append(f"  %s{place} = getelementptr ptr, ptr %shared, i64 {place}")
            lines.append(f"  store ptr {each}, ptr %s{place}")
        for thread in range(self._threads):
            lines += [
                f"  %context{thread} = alloca [2 x i64]\n  store ptr %shared, ptr %context{thread}",
                f"  %number{thread} = getelementptr i64, ptr %context{thread}, i64 1",
                f"  store i64 {thread}, ptr %number{thread}",
            ]
        for thread in range(1, self._threads):
            self.used.update(pthread_create=("i32", "ptr", "ptr", "ptr", "ptr"), pthread_join=("i32", "i64", "ptr"))
            given = f"ptr %id{thread}, ptr null, ptr {worker}, ptr %context{thread}"
            lines.append(f"  %id{thread} = alloca i64\n  %failed{thread} = call i32 @pthread_create({given})")
        lines.append(f"  %own = call ptr {worker}(ptr %context0)")
        for thread in range(1, self._threads):
            lines += [
                f"  %runs{thread} = icmp eq i32 %failed{thread}, 0",
                f"  br i1 %runs{thread}, label %wait{thread}, label %instead{thread}",
                f"wait{thread}:\n  %known{thread} = load i64, ptr %id{thread}",
                f"  %joined{thread} = call i32 @pthread_join(i64 %known{thread}, ptr null)",
                f"  br label %after{thread}",
                f"instead{thread}:\n  %done{thread} = call ptr {worker}(ptr %context{thread})",
                f"  br label %after{thread}\nafter{thread}:",
            ]
        return lines

    def _totals(self) -> list[str]:
        """Return what adds up the totals of the parts, in their order."""
        lines: list[str] = []
        offset = 0
        for number, (place, total) in enumerate(zip(self._places, self._function.totals, strict=True)):
            lines += self._total(number, self._parameters[place], total, offset)
            offset += _bytes(total)
        return [*lines, "  call void @free(ptr %partial)"] if self._stride else lines

    def _total(self, number: int, target: str, total: Reduced, offset: int) -> list[str]:
        code, tag = Code(), f"u{number}"
        code.count = 1000 * (number + 1)
        add_up = self._number if total.size == 1 else self._array
        lines = add_up(code, tag, target, total, offset)
        self.used.update(code.used)
        return [f"  br label %before{tag}\nbefore{tag}:", *lines]

    def _number(self, code: Code, tag: str, target: str, total: Reduced, offset: int) -> list[str]:
        """Return a loop over the parts, which adds up a single number."""
        kind, name = scalar_of(total.dtype), f"%{tag}total"
        start = literal(identity(total.kind, total.dtype), total.dtype)
        place = code.do(f"mul nsw i64 %{tag}, {self._stride}")
        base = code.do(f"getelementptr i8, ptr %partial, i64 {code.do(f'add nsw i64 {place}, {offset}')}")
        result = accumulated(code, total.kind, kind, name, _loaded(code, kind, base), in_order=True)
        carried = [(name, kind.type, start, result)]
        loop = Innermost(code.lines, f"%{tag}", 0, self._count, carried, (), tag, f"before{tag}", self._count)
        code.lines = []
        _store(code, kind, result, target)
        return [*narrow(loop), *code.lines]

    def _array(self, code: Code, tag: str, target: str, total: Reduced, offset: int) -> list[str]:
        """Return a loop over the elements of an array, each of which is added up at once."""
        kind, bases, result = scalar_of(total.dtype), [], ""
        for part in range(self._count):
            base = f"%{tag}of{part}"
            bases.append(f"  {base} = getelementptr i8, ptr %partial, i64 {part * self._stride + offset}")
            value = _loaded(code, kind, _element(code, kind, base, tag))
            result = accumulated(code, total.kind, kind, result, value, in_order=True) if part else value
        _store(code, kind, result, _element(code, kind, target, tag))
        loop = Innermost(code.lines, f"%{tag}", 0, total.size, (), (), tag, f"before{tag}", total.size)
        return [*bases, *innermost(code, loop, self._widths)]


def _loaded(code: Code, kind: Scalar, place: str) -> str:
    found = code.do(f"load {kind.stored}, ptr {place}")
    return code.do(f"icmp ne i8 {found}, 0") if kind.family == "bool" else found


def _store(code: Code, kind: Scalar, value: str, place: str) -> None:
    stored = code.do(f"zext i1 {value} to i8") if kind.family == "bool" else value
    code.lines.append(f"  store {kind.stored} {stored}, ptr {place}")


def _element(code: Code, kind: Scalar, base: str, tag: str) -> str:
    """Return the address of the element of an iteration."""
    return code.do(f"getelementptr inbounds {kind.stored}, ptr {base}, i64 %{tag}")
