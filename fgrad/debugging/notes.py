"""Operations with the user's lines, recorded within a block.

    with debug_lines():      the line of each operation is recorded
    with debug_nans():       the same, and the first value that is not finite raises

There is no cost outside of such a block. Inside, an observer makes a note of each operation, which is attached to the
recorded pullbacks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.lazy_sum import finished
from fgrad.core.masked import Masked
from fgrad.core.primitive import Primitive
from fgrad.core.reverse import Parts, ZeroPullback
from fgrad.core.trace import Observer, observed_by, running
from fgrad.debugging.reports import counted, shown
from fgrad.ops.tracing import raw_array

T = TypeVar("T")

Place = tuple[str, int]


class Note(NamedTuple):
    """The data of one operation that ran.

    Attributes:
        operation: the name of its primitive.
        kind: the kind of the primitive.
        place: the user's file and line.
        args: its arguments as plain arrays; empty for a function with a custom rule.
        result: its result as plain arrays.
    """

    operation: str
    kind: str
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


Look = Callable[[Primitive, Note, Mapping[str, Any]], None]


_raising: ContextVar[bool] = ContextVar("raising", default=False)
"""Whether a value that is not finite raises."""
_looks: ContextVar[tuple[Look, ...]] = ContextVar("looks", default=())
"""Functions called for every operation, with its metadata."""
_rule: ContextVar[Note | None] = ContextVar("rule", default=None)
"""The note of the operation whose rule is running; operations of the rule belong to its line."""
_looked: ContextVar[bool] = ContextVar("looked", default=False)
"""Whether the last operation was noted already, perhaps one level below."""


class NotedPullback:
    """A pullback with the note of its operation."""

    __slots__ = ("pullback", "note")

    def __init__(self, pullback: Callable[[Any], Any], note: Note) -> None:
        self.pullback, self.note = pullback, note

    def __call__(self, cotangent: Any) -> Any:
        is_operation = self.note.kind != "part"
        with _set_to(_rule, self.note) if is_operation else contextlib.nullcontext():
            passed = finished(self.pullback(finished(cotangent)))
        if _raising.get():
            _check(self.note, "reverse" if is_operation else "", "cotangent", [cotangent], [passed])
        return passed


@contextlib.contextmanager
def _set_to(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Return a block in which a variable of the context has a value."""
    before = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(before)


def _noted(primitive: Primitive, args: Sequence[Any], result: Any) -> Note:
    return Note(primitive.name, primitive.kind, _place(), tuple(map(raw_array, args)), _plain(result))


def _place() -> Place:
    note = _rule.get()
    return errors.users_place() if note is None else note.place


def _plain(result: Any) -> Any:
    return tuple(map(raw_array, result)) if type(result) is tuple else raw_array(result)


class _Noting(Observer):
    """Makes notes of operations in the contexts that request it."""

    wants_all = True
    wants_python = True

    @override
    def operation(self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Any) -> Any:
        # Intermediate values of rules are not checked, since a mask may hide them.
        raising, looks = _raising.get(), _looks.get()
        if _rule.get() is not None or not (raising or looks):
            return go_on(args)
        _looked.set(False)
        with np.errstate(all="ignore") if raising else contextlib.nullcontext():
            result = go_on(args)
        if not _looked.get():
            note = _noted(primitive, args, result)
            for look in looks:
                look(primitive, note, metadata)
            if raising:
                _check(note, "", "argument", note.args, [note.result])
        _looked.set(True)
        return result

    @override
    def rule(self, primitive: Primitive, name: str, pullback: Any, args: Sequence[Any], ans: Any) -> Any:
        if type(pullback) is ZeroPullback:
            return pullback
        return NotedPullback(pullback, _noted(primitive, args, ans)._replace(operation=name))

    @override
    def push(self, primitive: Primitive, tangents: Sequence[Any], args: Sequence[Any], ans: Any, go_on: Any) -> Any:
        note = _noted(primitive, args, ans)
        with _set_to(_rule, note):
            moved = go_on()
        if _raising.get():
            _check(note, "forward", "tangent", tangents, [moved])
        return moved


_NOTING = _Noting()


@contextlib.contextmanager
def noting(raising: bool = False, look: Look | None = None) -> Iterator[None]:
    """Return a block in which the operations of this thread, or asynchronous task, are noted.

    Args:
        raising: raise at the first value that is not finite.
        look: a function called for every operation.
    """
    looks = _looks.get() if look is None else (*_looks.get(), look)
    observed = contextlib.nullcontext() if _NOTING in running.observers else observed_by(_NOTING)
    with _set_to(_raising, raising or _raising.get()), _set_to(_looks, looks), observed:
        yield


def raising_nothing() -> contextlib.AbstractContextManager[None]:
    """Return a context in which values that are not finite do not raise, also inside other blocks."""
    return _set_to(_raising, False)


def debug_lines() -> contextlib.AbstractContextManager[None]:
    """Return a context in which tapes and transforms record the user's line of each operation.

    `explain` can then name the line of every operation that a tape has recorded; otherwise only the lines of operations
    that cut a path are known. Inside the block operations take longer, and their arguments are kept in memory with the
    record.

    Returns:
        A context manager, for this thread or asynchronous task; blocks may be nested.

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

    It checks the result of each operation on tensors, traced or not, and the result of each reverse or forward rule for
    its cotangent or tangent; the error of a backward pass names the line of the forward operation. A NaN raises
    wherever it appears. An infinity raises only if it results from finite numbers, so that a mask of `-np.inf` may be
    used.

    Computations traced inside the block are checked, in their backward pass as long as the block is open. Values within
    a rule are not checked: a mask may hide them. NumPy's own warnings are off inside the block.

    Returns:
        A context manager, for this thread or asynchronous task; blocks may be nested.

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


# Checks


def _parts(value: object) -> list[Any]:
    """Return the arrays in the arguments or results of a rule."""
    if isinstance(value, Parts):
        return list(value.parts.values())
    if isinstance(value, Masked):
        return _parts(value.derivative)
    if isinstance(value, dict):
        return [part for each in value.values() for part in _parts(each)]
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in _parts(each)]
    return [value] if hasattr(value, "dtype") or isinstance(value, (float, complex)) else []


def arrays_in(value: object) -> list[Any]:
    """Return the plain arrays in a cotangent, in any form that rules take."""
    return [raw_array(part) for part in _parts(value)]


def _worst(values: Sequence[Any]) -> str:
    """Return "NaN" or "an infinity" if there is one, otherwise ""."""
    found = [counted(array) for value in values for array in arrays_in(value)]
    if any(nan for _, nan, _ in found):
        return "NaN"
    return "an infinity" if any(infinite for *_, infinite in found) else ""


def _check(note: Note, mode: str, what: str, given: Sequence[Any], result: Sequence[Any]) -> None:
    """Raise if the result of an operation, or of its rule, is not finite.

    Args:
        note: the note of the operation.
        mode: "reverse" or "forward" for a rule, empty for the operation itself.
        what: the kind of the given values.
        given, result: the values.
    """
    made = _worst(result)
    if not made or note.kind == "guard":  # infinities of its own derivative are masked afterwards
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
        + (f"; {'an' if what[0] == 'a' else 'a'} {what} already held {handed}" if handed else "")
        + f".\n  at {note.line}{''.join(values)}\n"
        + (
            "Find the origin of that value."
            if handed
            else "np.where(good, f(x), other) excludes elements that are not selected from the derivative."
        )
    )
