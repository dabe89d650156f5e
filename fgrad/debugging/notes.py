"""Operations with the user's lines, while somebody asks for them.

    with debug_lines():      what is recorded in the block remembers the line of each operation
    with debug_nans():       the same, and the first value that is not finite raises

Neither costs anything outside of such a block. Inside, the entries of the table of primitives are of a class
that hands out noted implementations and rules: a rule's pullback then carries a `Note`, and traces record
it as they record any other.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, PRIMITIVES, Primitive, Rule, Rules
from fgrad.core.tensor import BOXES
from fgrad.core.trace import Guarded, Parts
from fgrad.debugging.reports import counted, shown
from fgrad.ops.tracing import example_of
from fgrad.rules import custom
from fgrad.transforms.calls import name_of

Place = tuple[str, int]


class Note(NamedTuple):
    """What is known of one operation that ran.

    Attributes:
        operation: the name of its primitive.
        place: the user's file and line.
        args: its arguments as plain arrays; none for a function with a rule of its own.
        result: likewise.
    """

    operation: str
    place: Place
    args: tuple[Any, ...] = ()
    result: Any = None

    @property
    def line(self) -> str:
        """The user's line as text."""
        return errors.line_at(self.place)

    def values(self) -> tuple[str, ...]:
        """Describe the arguments and the result."""
        described = [f"argument {place}: {shown(arg)}" for place, arg in enumerate(self.args)]
        return (*described, f"result: {shown(self.result)}") if self.args else ()


Observer = Callable[[Note, Mapping[str, Any]], None]


class _Mode(threading.local):
    """What is asked for in this thread.

    Attributes:
        blocks: how many blocks are open.
        raising: how many of them raise.
        note: of the operation whose rule is running; what its rule computes belongs to its line.
        observers: are told of every operation and its metadata.
    """

    blocks = 0
    raising = 0
    note: Note | None = None
    observers: tuple[Observer, ...] = ()


_mode = _Mode()


class NotedPullback:
    """A pullback with the note of the operation to whose rule it belongs."""

    __slots__ = ("pullback", "note")

    def __init__(self, pullback: Callable[[Any], Any], note: Note) -> None:
        self.pullback, self.note = pullback, note

    def __call__(self, cotangent: Any) -> Any:
        with _rule_of(self.note):
            passed = self.pullback(cotangent)
        if _mode.raising:
            _check(self.note, "reverse", "cotangent", [cotangent], [passed])
        return passed


@contextlib.contextmanager
def _rule_of(note: Note) -> Iterator[None]:
    before, _mode.note = _mode.note, note
    try:
        yield
    finally:
        _mode.note = before


def _place() -> Place:
    return errors.users_place() if _mode.note is None else _mode.note.place


def _noted(primitive: Primitive, args: Sequence[Any], result: Any) -> Note:
    return Note(primitive.name, _place(), tuple(map(example_of, args)), _plain(result))


def _plain(result: Any) -> Any:
    return tuple(map(example_of, result)) if type(result) is tuple else example_of(result)


# The entries of the table, while a block is open in some thread

_IMPLEMENTATION, _VJPS, _JVP = (vars(Primitive)[name] for name in ("implementation", "vjps", "jvp"))


class NotedPrimitive(Primitive):
    """An entry that notes its operations in the threads that ask for it."""

    __slots__ = ()

    implementation = property(
        lambda self: _in_this_thread(self, _IMPLEMENTATION.__get__(self), _run), _IMPLEMENTATION.__set__
    )
    vjps = property(lambda self: _in_this_thread(self, _VJPS.__get__(self), _NotedRules), _VJPS.__set__)
    jvp = property(lambda self: _in_this_thread(self, _JVP.__get__(self), _push), _JVP.__set__)


def _in_this_thread(primitive: Primitive, plain: Any, noted: Callable[..., Any]) -> Any:
    """Return what an entry holds, noted if a block is open in this thread."""
    if not _mode.blocks or plain is None:
        return plain
    return _NotedRules(primitive, plain) if noted is _NotedRules else functools.partial(noted, primitive, plain)


def _run(primitive: Primitive, implementation: Callable[..., Any], *args: Any, **metadata: Any) -> Any:
    """Compute a result; what a rule computes on its way is not looked at, for a mask may hide it."""
    if len(PRIMITIVES) != _table.size:
        _table.switch(NotedPrimitive)
    if _mode.note is not None or not (_mode.raising or _mode.observers):
        return implementation(*args, **metadata)
    with np.errstate(all="ignore") if _mode.raising else contextlib.nullcontext():
        result = implementation(*args, **metadata)
    if any(type(part) in BOXES for part in _parts(result)):
        return result  # it was computed one level below, and looked at there
    note = _noted(primitive, args, result)
    for observe in _mode.observers:
        observe(note, metadata)
    if _mode.raising:
        _check(note, "", "argument", args, [result])
    return result


class _NotedRules:
    """The reverse rules of a primitive, which give noted pullbacks."""

    def __init__(self, primitive: Primitive, rules: Rules) -> None:
        self._primitive, self._rules = primitive, rules

    def __getitem__(self, argnum: int) -> Rule | None:
        rule = self._rules[argnum]
        return None if rule is None else functools.partial(self._linearized, rule)

    def _linearized(self, rule: Rule, ans: Any, *args: Any, **metadata: Any) -> Any:
        pullback = rule(ans, *args, **metadata)
        return None if pullback is None else NotedPullback(pullback, _noted(self._primitive, args, ans))


def _push(primitive: Primitive, jvp: Rule, tangents: Sequence[Any], ans: Any, *args: Any, **metadata: Any) -> Any:
    note = _noted(primitive, args, ans)
    with _rule_of(note):
        moved = jvp(tangents, ans, *args, **metadata)
    if _mode.raising:
        _check(note, "forward", "tangent", tangents, [moved])
    return moved


_record_call = custom.record_call


def _noted_call(trace: Any, parents: Any, results: Any, pull: Callable[[Any], Any]) -> Any:
    """Record a call of a function with a rule of its own, with a note."""
    if _mode.blocks:
        function = inspect.getclosurevars(pull).nonlocals.get("function")
        note = Note(f"the rule of {name_of(function)}", _place())
        pull = functools.partial(_pulled_by_users_rule, pull, note)
    return _record_call(trace, parents, results, pull)


def _pulled_by_users_rule(pull: Callable[[Any], Any], note: Note, cotangents: Any) -> Any:
    given = pull(cotangents)
    if _mode.raising:
        _check(note, "", "cotangent", [cotangents], [given])
    return given


_call_ufunc = FUNCTIONS[np.ufunc]


def _noted_ufunc(ufunc: Any, method: str, inputs: Any, keywords: dict[str, Any]) -> Any:
    """Answer a ufunc; SciPy's get their entries when the first of them is called, which then is called again."""
    before = len(PRIMITIVES)
    result = _call_ufunc(ufunc, method, inputs, dict(keywords))
    if len(PRIMITIVES) == before:
        return result
    _table.switch(NotedPrimitive)
    return _call_ufunc(ufunc, method, inputs, dict(keywords))


class _Table:
    """Switches the class of all entries while a block is open in some thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self.size = 0

    def switch(self, kind: type[Primitive]) -> None:
        """Make all entries instances of one of the two classes."""
        for primitive in list(PRIMITIVES.values()):
            primitive.__class__ = kind
        self.size = len(PRIMITIVES)

    def open(self) -> None:
        """Let entries note their operations, from the first block on."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self.switch(NotedPrimitive)
                FUNCTIONS[np.ufunc] = _noted_ufunc
                vars(custom)["record_call"] = _noted_call

    def close(self) -> None:
        """Go back to entries that note nothing, after the last block."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.switch(Primitive)
                FUNCTIONS[np.ufunc] = _call_ufunc
                vars(custom)["record_call"] = _record_call


_table = _Table()


@contextlib.contextmanager
def noting(raising: bool = False, observer: Observer | None = None) -> Iterator[None]:
    """Return a context in which operations of this thread are noted.

    Args:
        raising: raise at the first value that is not finite.
        observer: is told of every operation.
    """
    observers = _mode.observers
    _mode.blocks += 1
    _mode.raising += raising
    _mode.observers = observers if observer is None else (*observers, observer)
    _table.open()
    try:
        yield
    finally:
        _table.close()
        _mode.blocks -= 1
        _mode.raising -= raising
        _mode.observers = observers


@contextlib.contextmanager
def raising_nothing() -> Iterator[None]:
    """Return a context in which a value that is not finite does not raise, whatever blocks are open around it."""
    before, _mode.raising = _mode.raising, 0
    try:
        yield
    finally:
        _mode.raising = before


def debug_lines() -> contextlib.AbstractContextManager[None]:
    """Return a context in which tapes and transforms remember the user's line of each operation.

    `explain` can then name the line of every operation that a tape has recorded; without it, only those
    of operations that cut a path are known. Inside the block operations take longer, and their arguments
    are kept in memory with the record.

    Returns:
        A context manager, for this thread; blocks may be nested.

    Example:
        >>> import fgrad as fg
        >>> x = fg.constant(0.0)
        >>> with fg.debug_lines(), fg.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = np.sqrt(x)
        >>> print(fg.explain(tape, y, x).reasons[0].line)  # doctest: +ELLIPSIS
        <doctest ...>...: y = np.sqrt(x)
    """
    return noting()


def debug_nans() -> contextlib.AbstractContextManager[None]:
    """Return a context in which the first value that is not finite raises an error with the user's line.

    It looks at the result of each operation on tensors, traced or not, and at what each reverse or forward
    rule makes of its cotangent or tangent; the error of a backward pass names the line of the forward
    operation. A NaN raises wherever it turns up. An infinity raises where it is made out of finite numbers,
    so that a mask of `-np.inf` may be used.

    What is traced inside the block is looked at, in its backward pass as long as the block is open. Values
    between the parts of one rule are not looked at: a mask may hide them. NumPy's own warnings about
    them are off inside the block.

    Returns:
        A context manager, for this thread; blocks may be nested.

    Raises:
        NonFiniteError: a FloatingPointError, from an operation or a backward pass in the block.

    Example:
        >>> import fgrad as fg
        >>> with fg.debug_nans():
        ...     fg.grad(lambda x: np.sqrt(x) * 2.0)(0.0)
        Traceback (most recent call last):
        fgrad.errors.NonFiniteError: the reverse rule of sqrt gave an infinity ...
    """
    return noting(raising=True)


# What is looked at


def _parts(value: Any) -> list[Any]:
    """Return the arrays in what a rule was handed or gave."""
    if isinstance(value, Parts):
        return list(value.parts.values())
    if isinstance(value, Guarded):
        return [value.cotangent]
    if isinstance(value, dict):
        return [part for each in value.values() for part in _parts(each)]
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in _parts(each)]
    return [value] if hasattr(value, "dtype") or isinstance(value, (float, complex)) else []


def arrays_in(value: Any) -> list[Any]:
    """Return the plain arrays in a cotangent, in whatever form a rule is handed it."""
    return [example_of(part) for part in _parts(value)]


def _worst(values: Sequence[Any]) -> str:
    """Return "NaN" or "an infinity" if there is one, else an empty text."""
    found = [counted(array) for value in values for array in arrays_in(value)]
    if any(nan for _, nan, _ in found):
        return "NaN"
    return "an infinity" if any(infinite for *_, infinite in found) else ""


_GUARDS = {"scale"}
"""What lets the zeros of a mask win over infinities; in its own derivative, those meet the mask afterwards."""


def _check(note: Note, mode: str, what: str, given: Sequence[Any], result: Sequence[Any]) -> None:
    """Raise if an operation, or a rule of it, has made something that is not finite.

    Args:
        note: of the operation.
        mode: "reverse" or "forward" for a rule, empty for the operation itself.
        what: what was given to it.
        given, result: the values.

    Raises:
        NonFiniteError: a NaN came out, or an infinity and none went in.
    """
    made = _worst(result)
    if not made or note.operation in _GUARDS:
        return
    handed = _worst(given)
    if made == "an infinity" and handed:
        return
    name = f"the {mode} rule of {note.operation}" if mode else note.operation
    values = [f"\n  {each}" for each in note.values()]
    if what != "argument":
        values += [f"\n  {what}: {shown(array)}" for value in given for array in arrays_in(value)]
        values += [f"\n  gave: {shown(array)}" for value in result for array in arrays_in(value)]
    raise errors.NonFiniteError(
        f"{name} gave {made}"
        + (f"; {'an' if what[0] == 'a' else 'a'} {what} held {handed} already" if handed else "")
        + f".\n  at {note.line}{''.join(values)}\n"
        + (
            "Look where that comes from."
            if handed
            else "np.where(good, f(x), other) keeps what it does not choose out of the derivative."
        )
    )
