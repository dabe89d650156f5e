"""The innermost loop of a nest, several elements at once: instructions on numbers made into instructions on vectors.

    widened(loop, widths)     the loop as straight lines, or as a loop with wider iterations; None where that cannot be
    told

LLVM can do this by itself, and does where this gives up. But it takes most of the time of a compilation, and where a
loop is short, as those of small arrays are, it leaves the last elements to a loop of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Used = dict[str, tuple[str, ...]]

_MOST_COPIES = 3
"""Vectors up to which there is no loop."""
_LONG_BODY = 60
"""Instructions from which on a loop is one where there are two vectors."""

_BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1}
_CASTS = "fpext|fptrunc|sitofp|uitofp|fptosi|fptoui|trunc|sext|zext|bitcast"
_ADDRESS = re.compile(r"getelementptr inbounds (\w+), ptr (\S+), i64 (\S+)$")
_LOAD = re.compile(r"load (\w+), ptr (\S+)$")
_STORE = re.compile(r"store (\w+) (\S+), ptr (\S+)$")
_CALL = re.compile(r"call (\w+) @([\w.]+)\((.*)\)$")
_SELECT = re.compile(r"select i1 (\S+), (\w+) (\S+), \w+ (\S+)$")
_CAST = re.compile(rf"({_CASTS}) (\w+) (\S+) to (\w+)$")
_UNARY = re.compile(r"(fneg) (\w+) (\S+)$")
_NAME = re.compile(r"%\w+")
_BINARY = re.compile(r"([a-z]+(?: [a-z]+)*) (double|float|i\d+) (\S+), (\S+)$")

_REDUCTIONS = {"fadd": "fadd", "fmul": "fmul", "add": "add", "mul": "mul", "and": "and", "or": "or"}
_EXTREMA = {
    "maximum": "fmaximum",
    "minimum": "fminimum",
    "smax": "smax",
    "smin": "smin",
    "umax": "umax",
    "umin": "umin",
}
_STARTS = {"fadd": "-0.0", "fmul": "1.0"}
_DIVISIONS = {"sdiv", "udiv", "srem", "urem"}


@dataclass(frozen=True)
class Widths:
    """What the processor does at once.

    Attributes:
        lanes: by the bits of a number, how many of them a register holds.
        functions: which of the C library's functions there are for several numbers.
    """

    lanes: Mapping[int, int]
    functions: frozenset[str]


@dataclass(frozen=True)
class Innermost:
    """The innermost loop.

    Attributes:
        lines: the instructions of an iteration.
        variable: the name of the iteration's number.
        start, stop: what it runs through; names, where that is known when it runs: it has one iteration at least.
        carried: what goes from iteration to iteration: name, type, start, and the name of what it becomes.
        behind: the instructions behind the loop.
        tag: in the names of labels.
        before: the label of the block in front.
        most: how many iterations there are at most.
    """

    lines: Sequence[str]
    variable: str
    start: int | str
    stop: int | str
    carried: Sequence[tuple[str, str, str, str]]
    behind: Sequence[str]
    tag: str
    before: str
    most: int


class _GivesUpError(Exception):
    """An instruction has no wide form, or it is not known whether it has."""


class _IterationByTurnError(Exception):
    """An iteration needs what the one before has done."""


def widened(loop: Innermost, widths: Widths) -> tuple[list[str], Used] | None:
    """Return the loop, which ends in the block that it began in or in another one, and the functions that it calls."""
    if loop.most == 1:
        return _once(loop), {}
    try:
        return _Wide(loop, widths).written()
    except _IterationByTurnError:
        return narrow(loop), {}
    except _GivesUpError:
        return None


def narrow(loop: Innermost) -> list[str]:
    """Return a loop that takes its iterations one by one."""
    tag = loop.tag
    lines = [
        f"  br label %loop{tag}",
        f"loop{tag}:",
        f"  {loop.variable} = phi i64 [ {loop.start}, %{loop.before} ], [ {loop.variable}n, %loop{tag} ]",
    ]
    for name, kind, start, end in loop.carried:
        lines.append(f"  {name} = phi {kind} [ {start}, %{loop.before} ], [ {end}, %loop{tag} ]")
    return [
        *lines,
        *loop.lines,
        f"  {loop.variable}n = add nuw nsw i64 {loop.variable}, 1",
        f"  {loop.variable}c = icmp eq i64 {loop.variable}n, {loop.stop}",
        f"  br i1 {loop.variable}c, label %behind{tag}, label %loop{tag}",
        f"behind{tag}:",
    ]


def _once(loop: Innermost) -> list[str]:
    """Return a loop of one iteration, which is none."""
    given = {loop.variable: str(loop.start), **{name: start for name, _, start, _ in loop.carried}}
    return [_NAME.sub(lambda found: given.get(found[0], found[0]), line) for line in loop.lines]


class _Line(NamedTuple):
    """An instruction, read.

    Attributes:
        name: of the result, empty without one.
        text: the instruction.
        form: what it is, by the expression that it has matched.
        parts: what that has found.
    """

    name: str
    text: str
    form: re.Pattern[str]
    parts: tuple[str, ...]


_FORMS = {"getelementptr": [_ADDRESS], "load": [_LOAD], "store": [_STORE], "call": [_CALL], "select": [_SELECT]}
_OTHER_FORMS = [_BINARY, _CAST, _UNARY]


def _read(line: str) -> _Line:
    name, equals, text = line.strip().partition(" = ")
    if not equals:
        name, text = "", line.strip()
    for form in _FORMS.get(text.partition(" ")[0], _OTHER_FORMS):
        found = form.match(text)
        if found:
            return _Line(name, text, form, found.groups())
    raise _GivesUpError


class _Wide:
    def __init__(self, loop: Innermost, widths: Widths) -> None:
        self._loop, self._widths = loop, widths
        self._lines = list(map(_read, loop.lines))
        self._by_name = {line.name: line for line in self._lines}
        self._steps: dict[str, int] = {loop.variable: 1}
        self._types: dict[str, str] = {name: kind for name, kind, _, _ in loop.carried}
        self._bases: dict[str, str] = {}
        self.indices: dict[str, str] = {}
        self._stored: set[str] = set()
        self._loaded: set[str] = set()
        self._functions: list[tuple[str, str]] = []
        for line in self._lines:
            self._classify(line)
        self._check_memory()
        self._check_carried()
        bits = max((_BITS[kind] for kind in self._types.values()), default=64)
        self._lanes = widths.lanes[64 if bits > 32 else 32]
        self.used: Used = {}

    # What varies

    def _classify(self, line: _Line) -> None:
        """Note how an index moves with the iteration, or the type of what differs from iteration to iteration."""
        if not line.name and line.form is not _STORE:  # a call that does something
            raise _GivesUpError
        if line.form is _ADDRESS:
            _, base, index = line.parts
            self._steps[line.name], self._bases[line.name] = self._step(index), base
            if index in self._types:
                self.indices[line.name] = index
            return
        if line.form is _LOAD:
            self._loaded.add(self._bases.get(line.parts[1], line.parts[1]))
            if self.moves(line.parts[1]):
                self._types[line.name] = line.parts[0]
            return
        if line.form is _STORE:
            if not self.moves(line.parts[2]):
                raise _GivesUpError
            self._stored.add(self._bases[line.parts[2]])
            return
        is_index = line.form is _BINARY and line.parts[0].split()[0] in ("add", "mul") and line.parts[1] == "i64"
        if is_index and any(map(self._step, line.parts[2:])) and not any(x in self._types for x in line.parts[2:]):
            self._steps[line.name] = self._moved(line)
            return
        if any(map(self.moves, _operands(line))):
            if line.parts[0] in _DIVISIONS and any(map(self._step, _operands(line))):
                raise _GivesUpError
            self._types[line.name] = _type_of(line)
            if line.form is _CALL:
                self._functions.append((line.parts[1], line.parts[0]))

    def _step(self, name: str) -> int:
        return self._steps.get(name, 0)

    def moves(self, name: str) -> bool:
        """Return whether a value or an address differs from iteration to iteration."""
        return name in self._types or name in self.indices or bool(self._step(name))

    def _moved(self, line: _Line) -> int:
        operation, _, a, b = line.parts
        if operation.split()[0] == "add":
            return self._step(a) + self._step(b)
        if not b.lstrip("-").isdigit():
            raise _GivesUpError
        return self._step(a) * int(b)

    def _check_memory(self) -> None:
        """Give up where several iterations may read and write one element."""
        if any(self._bases[address] in self._stored for address in self.indices):
            raise _IterationByTurnError

    def _check_carried(self) -> None:
        """Give up where what is carried is more than a sum or the like."""
        names = {name for name, *_ in self._loop.carried}
        ends = {end: name for name, _, _, end in self._loop.carried}
        for line in self._lines:
            if line.name in ends:
                first, *rest = _operands(line)
                if first != ends[line.name] or names.intersection(rest) or not _reduction_of(line):
                    raise _IterationByTurnError
                names.discard(first)
            if names.intersection(_operands(line)) or any(x in ends for x in _operands(line)):
                raise _IterationByTurnError
        if len(names) or len(ends) != len(self._loop.carried):
            raise _IterationByTurnError
        inside = {line.name for line in self._lines} - set(ends)
        if any(name in inside for line in self._loop.behind for name in _NAME.findall(line)):
            raise _IterationByTurnError

    def steps_over(self, address: str) -> bool:
        """Return whether the elements at an address are no neighbours in memory."""
        return address in self.indices or self._step(address) != 1

    # Pieces

    def written(self) -> tuple[list[str], Used]:
        """Return the loop."""
        loop, lanes = self._loop, self._lanes
        if not self._has_functions(lanes):
            raise _GivesUpError
        if type(loop.start) is not int or type(loop.stop) is not int:
            if loop.most < lanes:
                raise _IterationByTurnError
            return self._of_any_length(), self.used
        number, rest = divmod(loop.stop - loop.start, lanes)
        lines: list[str] = []
        totals: list[dict[str, str]] = []
        at = loop.start
        if number > _MOST_COPIES or (number > 1 and self._length() > _LONG_BODY):
            lines += self._wide_loop(loop.before, at + number * lanes, totals)
            at += number * lanes
        else:
            for _ in range(number):
                lines += self._piece(at, lanes, totals)
                at += lanes
        if rest and number and not loop.carried and not self._stored & self._loaded:
            lines += self._piece(loop.stop - lanes, lanes, totals)  # some elements once more
        else:
            for size in self._sizes(rest):
                lines += self._piece(at, size, totals)
                at += size
        return [*lines, *self._ended(totals)], self.used

    def _length(self) -> int:
        """Return how many instructions a wide iteration takes."""
        places = [line.parts[-1] for line in self._lines if line.form in (_LOAD, _STORE)]
        each = [place for place in places if self.moves(place) and self.steps_over(place)]
        return len(self._lines) + 2 * self._lanes * len(each)

    def _sizes(self, rest: int) -> list[int]:
        """Return sizes of vectors that make up a rest."""
        sizes, size = [], self._lanes // 2
        while size > 1:
            if rest >= size and self._has_functions(size):
                sizes.append(size)
                rest -= size
            size //= 2
        if rest > _MOST_COPIES:
            raise _GivesUpError
        return [*sizes, *[1] * rest]

    def _has_functions(self, lanes: int) -> bool:
        return all(name.startswith("llvm.") or self._wide_function(name, kind, lanes) for name, kind in self._functions)

    def _wide_function(self, name: str, kind: str, lanes: int) -> str:
        """Return the name of a function of the C library for several numbers, empty if there is none."""
        letter = {128: "b", 256: "d", 512: "e"}.get(_BITS[kind] * lanes)
        plain = name.removesuffix("f") if kind == "float" else name
        if letter is None or plain not in self._widths.functions:
            return ""
        count = next(
            len(line.parts[2].split(",")) for line in self._lines if line.form is _CALL and line.parts[1] == name
        )
        return f"_ZGV{letter}N{lanes}{'v' * count}_{name}"

    def _of_any_length(self) -> list[str]:
        """Return a loop with wide iterations, as many as there are, and one with what is left."""
        loop, tag = self._loop, self._loop.tag
        totals: list[dict[str, str]] = []
        wide = self._wide_loop(f"first{tag}", f"%until{tag}", totals)
        sums, phis, results = [], [], []
        for name, kind, start, after in loop.carried:
            sums.append(f"  {name}q{tag} = {totals[0][name]}")
            phis.append(f"  {name}p{tag} = phi {kind} [ {start}, %{loop.before} ], [ {name}q{tag}, %behind{tag} ]")
            results.append(f"  {after} = phi {kind} [ {name}p{tag}, %rest{tag} ], [ {after}r{tag}, %single{tag} ]")
        return [
            f"  %iterations{tag} = sub i64 {loop.stop}, {loop.start}",
            f"  %whole{tag} = and i64 %iterations{tag}, {-self._lanes}",
            f"  %until{tag} = add i64 {loop.start}, %whole{tag}",
            f"  %any{tag} = icmp ne i64 %whole{tag}, 0",
            f"  br i1 %any{tag}, label %first{tag}, label %rest{tag}",
            f"first{tag}:",
            *wide,
            *sums,
            f"  br label %rest{tag}",
            f"rest{tag}:",
            f"  %at{tag} = phi i64 [ {loop.start}, %{loop.before} ], [ %until{tag}, %behind{tag} ]",
            *phis,
            f"  %more{tag} = icmp slt i64 %at{tag}, {loop.stop}",
            f"  br i1 %more{tag}, label %single{tag}, label %done{tag}",
            *self._single_iterations(),
            f"done{tag}:",
            *results,
        ]

    def _single_iterations(self) -> list[str]:
        """Return the loop from `%at` on, iteration by iteration."""
        loop, tag = self._loop, self._loop.tag
        variable, starts, phis = f"{loop.variable}r{tag}", {}, []
        for name, kind, _, after in loop.carried:
            starts[name] = f"{name}r{tag}"
            phis.append(f"  {name}r{tag} = phi {kind} [ {name}p{tag}, %rest{tag} ], [ {after}r{tag}, %single{tag} ]")
        return [
            f"single{tag}:",
            f"  {variable} = phi i64 [ %at{tag}, %rest{tag} ], [ {variable}n, %single{tag} ]",
            *phis,
            *_Piece(self, f"r{tag}", 1, starts).lines(self._lines),
            f"  {variable}n = add nuw nsw i64 {variable}, 1",
            f"  {variable}c = icmp eq i64 {variable}n, {loop.stop}",
            f"  br i1 {variable}c, label %done{tag}, label %single{tag}",
        ]

    def _wide_loop(self, before: str, end: int | str, totals: list[dict[str, str]]) -> list[str]:
        """Return the loop over whole vectors behind a block, which ends in the block `behind`."""
        loop, lanes, tag = self._loop, self._lanes, self._loop.tag
        phis, starts = [], {}
        for name, kind, start, after in loop.carried:
            vector = f"{name}w{tag}"
            starts[name] = vector
            initial = _repeated(start, kind, lanes)
            phis.append(f"  {vector} = phi <{lanes} x {kind}> [ {initial}, %{before} ], [ {after}w{tag}, %wide{tag} ]")
        body = _Piece(self, f"w{tag}", lanes, starts).lines(self._lines)
        totals.append(self._reduced(f"w{tag}", lanes))
        variable = f"{loop.variable}w{tag}"
        return [
            f"  br label %wide{tag}",
            f"wide{tag}:",
            f"  {variable} = phi i64 [ {loop.start}, %{before} ], [ {variable}n, %wide{tag} ]",
            *phis,
            *body,
            f"  {variable}n = add nuw nsw i64 {variable}, {lanes}",
            f"  {variable}c = icmp eq i64 {variable}n, {end}",
            f"  br i1 {variable}c, label %behind{tag}, label %wide{tag}",
            f"behind{tag}:",
        ]

    def _piece(self, at: int, lanes: int, totals: list[dict[str, str]]) -> list[str]:
        """Return the instructions for some elements from one on."""
        mark = f"s{self._loop.tag}{at}_{lanes}"
        starts = {name: _repeated(start, kind, lanes) for name, kind, start, _ in self._loop.carried}
        lines = _Piece(self, mark, lanes, {**starts, self._loop.variable: str(at)}).lines(self._lines)
        totals.append(self._reduced(mark, lanes))
        return lines

    def _reduced(self, mark: str, lanes: int) -> dict[str, str]:
        """Return what makes one number of each carried vector."""
        found = {}
        for name, kind, _, after in self._loop.carried:
            if lanes == 1:
                found[name] = f"{after}{mark}"
                continue
            line = self._by_name[after]
            reduction, vector = _reduction_of(line), f"<{lanes} x {kind}>"
            function = (
                f"llvm.vector.reduce.{reduction}.v{lanes}{'f' if kind in ('double', 'float') else 'i'}{_BITS[kind]}"
            )
            start = _STARTS.get(reduction, "")
            self.used[function] = (kind, *([kind] if start else []), vector)
            flag = "reassoc " if start else ""
            given = f"{kind} {start}, " if start else ""
            found[name] = f"call {flag}{kind} @{function}({given}{vector} {after}{mark})"
        return found

    def _ended(self, totals: list[dict[str, str]]) -> list[str]:
        """Return what puts the pieces of what is carried together."""
        lines = []
        for number, (name, kind, _, after) in enumerate(self._loop.carried):
            line = self._by_name[after]
            parts = []
            for place, total in enumerate(totals):
                if total[name].startswith("%"):
                    parts.append(total[name])
                    continue
                parts.append(f"%q{self._loop.tag}{number}_{place}")
                lines.append(f"  {parts[-1]} = {total[name]}")
            whole = parts[0]
            for place, part in enumerate(parts[1:], 1):
                result = f"%z{self._loop.tag}{number}_{place}"
                lines.append(f"  {result} = {_combined(line, whole, part)}")
                whole = result
            lines.append(f"  {after} = select i1 true, {kind} {whole}, {kind} {whole}")  # its own name
        return lines


class _Piece:
    """The instructions of an iteration, for several elements."""

    def __init__(self, wide: _Wide, mark: str, lanes: int, given: Mapping[str, str]) -> None:
        self._wide, self._mark, self._lanes, self._given = wide, mark, lanes, dict(given)
        self._vectors: dict[tuple[str, str], str] = {}
        self._out: list[str] = []

    def lines(self, lines: Sequence[_Line]) -> list[str]:
        own = {line.name for line in lines if line.name}
        if self._wide._loop.variable not in self._given:
            self._given[self._wide._loop.variable] = f"{self._wide._loop.variable}{self._mark}"
        self._given.update({name: f"{name}{self._mark}" for name in own})
        for line in lines:
            self._add(line)
        return self._out

    def _add(self, line: _Line) -> None:
        is_varying = self._lanes > 1 and (line.name in self._wide._types or line.form is _STORE)
        if self._lanes > 1 and line.name in self._wide.indices:
            return  # there is an address for each element
        if is_varying and line.form is _LOAD and self._wide.steps_over(line.parts[1]):
            self._load_each(line)
        elif is_varying and line.form is _STORE and self._wide.steps_over(line.parts[2]):
            self._store_each(line)
        else:
            text = self._wide_text(line) if is_varying else self._renamed(line.text)
            self._out.append(f"  {self._given[line.name]} = {text}" if line.name else f"  {text}")

    def _load_each(self, line: _Line) -> None:
        """Load elements that are no neighbours, one by one."""
        kind, name, whole = line.parts[0], self._given[line.name], "poison"
        for lane, address in enumerate(self._addresses(line.parts[1], kind, f"{name}e")):
            after = f"{name}_{lane}" if lane < self._lanes - 1 else name
            self._out += [
                f"  {name}l{lane} = load {kind}, ptr {address}",
                f"  {after} = insertelement <{self._lanes} x {kind}> {whole}, {kind} {name}l{lane}, i64 {lane}",
            ]
            whole = after

    def _store_each(self, line: _Line) -> None:
        """Store elements that are no neighbours, one by one."""
        kind, value, place = line.parts
        vector, name = self._vector(value, kind), f"{self._given[place]}x{len(self._out)}_"
        for lane, address in enumerate(self._addresses(place, kind, f"{name}e")):
            self._out += [
                f"  {name}{lane} = extractelement <{self._lanes} x {kind}> {vector}, i64 {lane}",
                f"  store {kind} {name}{lane}, ptr {address}",
            ]

    def _addresses(self, address: str, kind: str, name: str) -> Iterator[str]:
        """Yield the address of each element, and say where it is just before."""
        index = self._wide.indices.get(address)
        for lane in range(self._lanes):
            base, step = self._given[address], str(lane * self._wide._step(address))
            if index is not None:
                base, step = self._wide._bases[address], f"{name}i{lane}"
                vector = f"<{self._lanes} x i64> {self._vector(index, 'i64')}"
                self._out.append(f"  {step} = extractelement {vector}, i64 {lane}")
            self._out.append(f"  {name}{lane} = getelementptr inbounds {kind}, ptr {base}, i64 {step}")
            yield f"{name}{lane}"

    def _renamed(self, text: str) -> str:
        return _NAME.sub(lambda found: self._given.get(found[0], found[0]), text)

    def _wide_text(self, line: _Line) -> str:
        lanes, parts = self._lanes, line.parts
        if line.form is _LOAD:
            return f"load <{lanes} x {parts[0]}>, ptr {self._given[parts[1]]}, align {max(_BITS[parts[0]] // 8, 1)}"
        if line.form is _STORE:
            value = self._vector(parts[1], parts[0])
            align = max(_BITS[parts[0]] // 8, 1)
            return f"store <{lanes} x {parts[0]}> {value}, ptr {self._given.get(parts[2], parts[2])}, align {align}"
        if line.form is _CALL:
            return self._call(parts)
        if line.form is _SELECT:
            condition, kind, a, b = parts
            a, b = (f"<{lanes} x {kind}> {self._vector(x, kind)}" for x in (a, b))
            return f"select <{lanes} x i1> {self._vector(condition, 'i1')}, {a}, {b}"
        operation, kind, *operands = parts
        if line.form is _CAST:
            return f"{operation} <{lanes} x {kind}> {self._vector(operands[0], kind)} to <{lanes} x {operands[1]}>"
        return f"{operation} <{lanes} x {kind}> {', '.join(self._vector(x, kind) for x in operands)}"

    def _call(self, parts: Sequence[str]) -> str:
        result, function, arguments = parts
        lanes = self._lanes
        given = [each.split() for each in arguments.split(", ")]
        kinds = [f"<{lanes} x {kind}>" for kind, _ in given]
        if function.startswith("llvm."):
            stem, _, suffix = function.rpartition(".")
            name = f"{stem}.v{lanes}{suffix}"
        else:
            name = self._wide._wide_function(function, result, lanes)
        self._wide.used[name] = (f"<{lanes} x {result}>", *kinds)
        values = [f"{vector} {self._vector(x, kind)}" for vector, (kind, x) in zip(kinds, given, strict=True)]
        return f"call <{lanes} x {result}> @{name}({', '.join(values)})"

    def _vector(self, x: str, kind: str) -> str:
        """Return an operand as a vector; what is the same for all elements is repeated."""
        if not x.startswith("%"):
            return _repeated(x, kind, self._lanes)
        name, step = self._given.get(x, x), self._wide._step(x)
        if x in self._wide._types:
            return name
        if (name, kind) not in self._vectors:
            self._vectors[name, kind] = self._spread(name, kind, step)
        return self._vectors[name, kind]

    def _spread(self, name: str, kind: str, step: int) -> str:
        """Return a vector of a number that is the same for all elements, or of an index that moves by a step."""
        vector = f"<{self._lanes} x {kind}>"
        mark = f"%u{self._mark}_{len(self._vectors)}"
        same = _repeated(name, kind, self._lanes)
        if name.startswith("%"):
            same = f"{mark}_"
            self._out += [
                f"  {mark}i = insertelement {vector} poison, {kind} {name}, i64 0",
                f"  {same} = shufflevector {vector} {mark}i, {vector} poison, <{self._lanes} x i32> zeroinitializer",
            ]
        steps = ", ".join(f"{kind} {lane * step}" for lane in range(self._lanes))
        if not step:
            return same
        self._out.append(f"  {mark} = add {vector} {same}, <{steps}>")
        return mark


def _operands(line: _Line) -> list[str]:
    """Return the names and numbers that an instruction takes, but for addresses."""
    if line.form is _CALL:
        return [each.split()[1] for each in line.parts[2].split(", ")]
    if line.form is _SELECT:
        return [line.parts[0], *line.parts[2:]]
    if line.form is _STORE:
        return [line.parts[1]]
    if line.form in (_LOAD, _ADDRESS):
        return []
    return [line.parts[2]] if line.form in (_CAST, _UNARY) else list(line.parts[2:])


def _type_of(line: _Line) -> str:
    """Return the type of an instruction's result."""
    if line.form is _BINARY and line.parts[0].split()[0] in ("fcmp", "icmp"):
        return "i1"
    if line.form is _CAST:
        return line.parts[3]
    return line.parts[0] if line.form in (_CALL, _LOAD) else line.parts[1]


def _reduction_of(line: _Line) -> str:
    """Return the reduction of which an instruction is one step; empty where the order matters, or there is none."""
    if line.form is _CALL:
        return _EXTREMA.get(line.parts[1].removeprefix("llvm.").rpartition(".")[0], "")
    if line.form is not _BINARY:
        return ""
    operation, *flags = line.parts[0].split()
    return "" if operation in _STARTS and flags != ["reassoc"] else _REDUCTIONS.get(operation, "")


def _combined(line: _Line, a: str, b: str) -> str:
    """Return the instruction that takes one more step of a reduction."""
    if line.form is _CALL:
        kind, function, _ = line.parts
        return f"call {kind} @{function}({kind} {a}, {kind} {b})"
    operation, kind, *_ = line.parts
    return f"{operation} {kind} {a}, {b}"


def _repeated(x: str, kind: str, lanes: int) -> str:
    """Return a number for all elements of a vector."""
    return x if lanes == 1 else f"<{', '.join([f'{kind} {x}'] * lanes)}>"
