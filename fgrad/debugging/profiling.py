"""Profiles of differentiation: operations, memory, and time forward and backward for each line of a function.

    fgrad.profile(f)(*args)     a table with the function's own source, as text and in notebooks as HTML

The function runs once while an observer records the line of the function for every operation, including those in
functions that the line calls; then one backward pass runs, in which each step is timed.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.reverse import Edge
from fgrad.core.snapshots import ChecksumGuard
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Observer, observed_by
from fgrad.core.tree import tree_leaves
from fgrad.debugging.reports import escaped
from fgrad.errors.amounts import bytes_text, seconds_text
from fgrad.errors.hints import names_keywords
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.linearization import Linearization

SHARE_WORTH_A_CHECKPOINT = 0.25


@dataclass
class Line:
    """The cost of one line of a function.

    Attributes:
        number: the line number in its file.
        source: the text.
        operations: the number of recorded operations, including those in functions that the line calls.
        bytes_kept: the bytes of arrays needed by the backward pass that no earlier line keeps already; those of
            arguments and variables do not count.
        bytes_inside: of these, the bytes of arrays that the line itself creates and that no other line keeps.
        forward, backward: seconds in operations, and in their reverse rules.
    """

    number: int
    source: str
    operations: int = 0
    bytes_kept: int = 0
    bytes_inside: int = 0
    forward: float = 0.0
    backward: float = 0.0


@dataclass
class Profile:
    """The costs of the lines of a function in one run; printed, it is a table.

    Attributes:
        name: the name of the function.
        lines: the lines of its source.
        value: the result of the function.
        elsewhere: the costs outside of its source, such as in a function's defaults.
    """

    name: str
    lines: list[Line]
    value: Any
    elsewhere: Line = field(default_factory=lambda: Line(0, "(elsewhere)"))

    def _rows(self) -> list[Line]:
        return [*self.lines, *([self.elsewhere] if self.elsewhere.operations else [])]

    @property
    def total(self) -> Line:
        """The sums over all lines."""
        rows = self._rows()
        sums = {name: sum(getattr(row, name) for row in rows) for name in _COLUMNS}
        return Line(0, "total", **sums)

    @property
    def advice(self) -> str:
        """A sentence that says where a checkpoint would save memory; empty if nowhere."""
        total = self.total
        candidates = [line for line in self.lines if line.operations > 1]
        best = max(candidates, key=lambda line: line.bytes_inside, default=None)
        if best is None or best.bytes_inside < SHARE_WORTH_A_CHECKPOINT * max(total.bytes_kept, 1):
            return ""
        return (
            f"A checkpoint would save memory in line {best.number}: with fg.checkpoint around its call, up to "
            f"{bytes_text(best.bytes_inside)} of {bytes_text(total.bytes_kept)} would not be kept, for "
            f"an additional {seconds_text(best.forward)} in the backward pass."
        )

    def __str__(self) -> str:
        rows = [(*_cells(line), line.source) for line in [*self._rows(), self.total]]
        widths = [max(len(row[i]) for row in [*rows, (*_HEADS, "")]) for i in range(len(_HEADS))]

        def as_text(row: tuple[str, ...]) -> str:
            numbers = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            return "  ".join([*numbers, row[-1]]).rstrip()

        table = [as_text(row) for row in [(*_HEADS, "source"), *rows]]
        advice = ["", self.advice] if self.advice else []
        return "\n".join([f"{self.name}: costs of differentiation by line", "", *table, *advice])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], source: str, tag: str, share: float = 0.0) -> str:
            shade = f' style="background: rgba(214, 96, 77, {share:.2f})"' if share else ""
            numbers = "".join(f'<{tag} style="text-align: right">{escaped(cell)}</{tag}>' for cell in cells)
            text = f'<pre style="margin: 0; background: none">{escaped(source)}</pre>'
            code = f'<{tag} style="text-align: left">{text}</{tag}>'
            return f"<tr{shade}>{numbers}{code}</tr>"

        total = self.total
        most = max((line.forward + line.backward for line in self._rows()), default=0.0) or 1.0
        rows = [row(_HEADS, "source", "th")]
        rows += [row(_cells(x), x.source, "td", 0.5 * (x.forward + x.backward) / most) for x in self._rows()]
        rows.append(row(_cells(total), "total", "th"))
        advice = f"<p>{escaped(self.advice)}</p>" if self.advice else ""
        return f"<p><b>{escaped(self.name)}</b></p><table>{''.join(rows)}</table>{advice}"


_COLUMNS = ("operations", "bytes_kept", "bytes_inside", "forward", "backward")
_HEADS = ("line", "operations", "kept", "forward", "backward")


def _cells(line: Line) -> tuple[str, ...]:
    number = str(line.number or "")
    if not line.operations:
        return number, "", "", "", ""
    return (
        number,
        str(line.operations),
        bytes_text(line.bytes_kept),
        seconds_text(line.forward),
        seconds_text(line.backward),
    )


class _Profiler(Observer):
    """Records the line and time of each operation, and the line of each edge.

    Args:
        code: the code of the profiled function.
        numbers: the range of its line numbers.

    Attributes:
        operations, seconds: totals by line; 0 for lines outside of the function.
        makers: the line that created an array, by the id of the array.
    """

    wants_python = True

    def __init__(self, code: CodeType, numbers: range) -> None:
        self._code, self._numbers = code, numbers
        self.operations: dict[int, int] = {}
        self.seconds: dict[int, float] = {}
        self.makers: dict[int, int] = {}
        self._inside = False

    @override
    def operation(self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Any) -> Any:
        if self._inside or not any(type(arg) in BOXES for arg in args):
            return go_on(args)
        line = self._users_line(sys._getframe(1))
        self._inside, start = True, time.perf_counter()
        try:
            result = go_on(args)
        finally:
            self._inside = False
        self.seconds[line] = self.seconds.get(line, 0.0) + time.perf_counter() - start
        self.operations[line] = self.operations.get(line, 0) + 1
        for made in _kept_by(result):
            self.makers[id(made)] = line
        return result

    @override
    def rule(self, primitive: Primitive, name: str, pullback: object, args: Sequence[Any], ans: Any) -> Any:
        return _Timed(pullback, self._users_line(sys._getframe(1)))

    def _users_line(self, frame: FrameType | None) -> int:
        """Return the innermost line of the profiled function that is running."""
        while frame is not None:
            if frame.f_code.co_filename == self._code.co_filename and frame.f_lineno in self._numbers:
                return frame.f_lineno
            frame = frame.f_back
        return 0


class _Timed:
    """A pullback that records its line and its time."""

    def __init__(self, pullback: Any, line: int) -> None:
        self.pullback, self.line, self.seconds = pullback, line, 0.0

    def __call__(self, cotangent: Any) -> Any:
        start = time.perf_counter()
        passed = self.pullback(cotangent)
        self.seconds += time.perf_counter() - start
        return passed


def _kept_by(pullback: object) -> list[Any]:
    """Return the arrays that a reverse rule keeps alive, whole ones in place of their views."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [pullback]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found.append(_owner(thing))
        elif type(thing) is Tensor:
            waiting.append(thing._payload)
        elif isinstance(thing, ChecksumGuard):
            waiting.append(thing.pullback)
        elif isinstance(thing, (tuple, list)):
            waiting += thing
        elif isinstance(thing, dict):
            waiting += thing.values()
        elif isinstance(thing, functools.partial):
            waiting += [thing.func, *thing.args, *thing.keywords.values()]
        elif inspect.ismethod(thing):
            waiting += [thing.__self__, thing.__func__]
        elif inspect.isfunction(thing):
            waiting += [cell.cell_contents for cell in thing.__closure__ or ()]
            waiting += thing.__defaults__ or ()
    return found


def _owner(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _run_profile(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Profile:
    code, first, source = _source_of(function)
    profiler = _Profiler(code, range(first, first + len(source)))
    with observed_by(profiler):
        places = [*range(len(args)), *keywords]
        linearization = Linearization(function, args, keywords, places, variables=True)
    lines = {first + i: Line(first + i, text) for i, text in enumerate(source)}
    profile = Profile(name_of(function), list(lines.values()), linearization.result)
    record = list(itertools.starmap(Edge, linearization.record))
    timed = [edge.pullback for edge in record if isinstance(edge.pullback, _Timed)]
    held = [primal for given in linearization.inputs.values() for primal in given.primals]
    outside = [
        *tree_leaves((args, keywords)),
        *held,
        *(variable.value() for variable in linearization.watch.variables()),
    ]
    _count(profiler, timed, lines, profile.elsewhere, outside)
    linearization.pull(None, "the seed")
    for each in timed:
        lines.get(each.line, profile.elsewhere).backward += each.seconds
    return profile


def _source_of(function: Callable[..., Any]) -> tuple[CodeType, int, list[str]]:
    inner = inspect.unwrap(function)
    inner = inner.func if isinstance(inner, functools.partial) else inner
    inner = getattr(inner, "__func__", inner)
    try:
        source, first = inspect.getsourcelines(inner)
        code: CodeType = inner.__code__
    except (TypeError, OSError, AttributeError):
        raise errors.ParameterError(
            f"profile shows the source of a function, and the source of {name_of(function)} is not available: it was "
            "not written in Python, or not in a file or notebook."
        ) from None
    return code, first, [line.rstrip("\n") for line in source]


def _count(
    profiler: _Profiler, timed: Sequence[_Timed], lines: dict[int, Line], elsewhere: Line, outside: Sequence[Any]
) -> None:
    """Add up the costs of the forward pass."""
    for number, count in profiler.operations.items():
        lines.get(number, elsewhere).operations += count
        lines.get(number, elsewhere).forward += profiler.seconds[number]
    known = {id(owner) for x in outside for owner in _kept_by([x])}
    keepers: dict[int, tuple[Any, list[int]]] = {}
    for each in timed:
        for array in _kept_by(each.pullback):
            if id(array) not in known:
                keepers.setdefault(id(array), (array, []))[1].append(each.line)
    for key, (array, numbers) in keepers.items():
        lines.get(numbers[0], elsewhere).bytes_kept += array.nbytes
        if {*numbers, profiler.makers.get(key)} == {numbers[0]}:
            lines.get(numbers[0], elsewhere).bytes_inside += array.nbytes


@names_keywords
def profile(function: Callable[..., Any]) -> Callable[..., Profile]:
    """Return a function that runs `function` once and measures the cost of differentiating each of its lines.

    Args:
        function: a function written in Python; takes and returns numbers, arrays or containers of them. All its
            floating-point arguments, and the variables that it reads, are differentiated.

    Returns:
        A function of the same arguments that returns a `Profile`: printed, or shown in a notebook, it is the source
        with, for each line, the number of recorded operations, the bytes kept for the backward pass, and the time spent
        in operations forward and backward; and below it the line where `fgrad.checkpoint` would save most, if it keeps
        at least a quarter of the total.

    Raises:
        ParameterError: a ValueError; the source of `function` is not available.
        NoResultError: a ValueError; `function` returns None.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def loss(w, x):
        ...     h = np.tanh(x @ w)
        ...     return np.sum(h * h)
        >>> report = fg.profile(loss)(np.ones((3, 2)), np.ones((5, 3)))
        >>> [(line.source.strip(), line.operations) for line in report.lines if line.operations]
        [('h = np.tanh(x @ w)', 2), ('return np.sum(h * h)', 2)]
        >>> report.value
        Tensor(9.90133963)
    """
    return Transformed(_run_profile, function, {})
