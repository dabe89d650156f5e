"""What a running transform or open tape is to the operations: a trace. And who else is told of operations.

    Trace                   decides what operations and calls mean; each kind is a subclass
    UNTRACED                the trace of tensors that nothing follows
    Observer, observed_by   sees every operation of a context while its block is open; `unobserved` is a block without

A trace says what an operation means (`process`), what a function with a derivative of its own means
(`process_call`), and what is answered when Python or NumPy asks for a value (`concrete`, `plain_array`). A new kind
of trace is a new subclass; nothing outside of it asks which kinds there are.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from fgrad import errors
from fgrad.core import concretize
from fgrad.core.foreign import FOREIGN
from fgrad.core.primitive import BOXES, Primitive
from fgrad.core.snapshots import SMALL, Locks

_levels = itertools.count(1)


class Call(Protocol):
    """A call of a function with a derivative of its own, as a trace is handed it."""

    @property
    def name(self) -> str:
        """What messages call the function."""

    def traces(self) -> list[Trace]:
        """Return running traces that follow what the function reads besides its leaves."""

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results for arrays that nothing follows."""

    def followed(self, trace: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the results as tensors of a trace that takes derivatives."""

    def mapped(self, ours: Sequence[bool], trace: Any = None) -> Call:
        """Return the call for many examples, which lie along the first axis of those arrays that are `ours`.

        `trace` is that of the examples: what the function uses of it besides its arrays has examples, too.
        """


NOTHING: Mapping[str, Any] = {}
"""The keywords of what has none."""
State = tuple[Any, "_Block", tuple[weakref.ref[Any], ...]]


class _Block:
    """An open block with observers, or without any.

    Attributes:
        observers: of the block and those around it, the first to know in front.
        around: the block around it, None outside of all.
    """

    __slots__ = ("observers", "around")

    def __init__(self, observers: tuple[Observer, ...], around: _Block | None) -> None:
        self.observers, self.around = observers, around


_OUTSIDE = _Block((), None)
_block: ContextVar[_Block] = ContextVar("block", default=_OUTSIDE)
_watches: ContextVar[tuple[weakref.ref[Any], ...]] = ContextVar("watches", default=())


class Running(threading.local):
    """What runs in this thread.

    An interrupt may come at any place, also while a block is entered or left. So what runs is kept in tuples, and who
    runs a function notes them before: `state()` first, and `unwind(state)` where anything was raised. What a user's
    block has opened and was not left is gone with who holds it: here are weak references.

    Observers and watches belong to a context (`contextvars`): a thread or an asynchronous task has its own.

    Attributes:
        call: the transform that runs, None in the user's code; the call around it, up to the user's code, or None; the
            lines of which the user has been warned since the outermost transform began; and what is released when the
            call ends. None outside of all.
        maps: the traces of the user's `vmap`s, from outside; those that have ended have no level.
        record: makes the record of a reverse trace.
        place: the user's file and line to which what runs belongs, where who calls does not tell; None elsewhere.
        guarded: how often a product with a derivative was not finite, and exact zeros of the latter have won.
    """

    def __init__(self) -> None:
        self.record: Callable[[], list[Any]] = list
        self.place: tuple[str, int] | None = None
        self.call: Any = None
        self.maps: tuple[Any, ...] = ()
        self.guarded = 0

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of this context, the first to know in front."""
        return _block.get().observers

    @property
    def watches(self) -> tuple[weakref.ref[Any], ...]:
        """Weak references to the watches of variables that are open in this context, by the rank of their traces."""
        return _watches.get()

    @watches.setter
    def watches(self, watches: tuple[weakref.ref[Any], ...]) -> None:
        _watches.set(watches)

    def state(self) -> State:
        """Return what `unwind` comes back to."""
        return self.call, _block.get(), _watches.get()

    def unwind(self, state: State) -> None:
        """Close what has been opened since `state`, and was not left."""
        self.call = state[0]
        _leave(state[1])
        opened = [each for each in self.watches if each not in state[2]]
        self.watches = tuple(each for each in self.watches if each in state[2])
        for watch in (each() for each in opened):
            if watch is not None:
                watch.trace.level = 0


running = Running()


def _nobody() -> None:
    return None


class Trace:
    """One running transform or open tape: what decides the meaning of an operation.

    `level` is the rank among traces: higher when the trace started later, 0 when it is not running.
    A trace runs inside a `with` block, so whatever happens in the block, it ends. It keeps its rank
    for life, because values that it has boxed may lie inside boxes of traces that started later.

    Why ranks, and not one flag: in `grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0)` the inner
    function computes with the outer one's `x`. Both are Tensors; only the rank tells the inner pass
    that `x` is a constant to it. Without that the inner derivative would be 2 (perturbation
    confusion, https://doi.org/10.1007/s10990-008-9037-1).

    Attributes:
        differentiates: derivatives of what it follows are wanted, now or later.
        remembers: it keeps something of each operation until a backward pass.
        is_map: its tensors hold many examples, each of which may be computed for itself.
        is_program: its tensors stand for all values of their shape, so that there is none to compute with.
        wants_python: operations are to be seen where native code would run instead.
        takes_calls: a function with a derivative of its own is handed to it as a whole, also where a trace above has
            asked for that derivative already.
        belongs_to: what its tensors belong to, if they mean nothing once that has ended, such as "a vmap".
        outdated: its tensors are to be renewed before anything is done with them.
        exits: where values left it, by how and the user's file and line.
        call: the transform that it belongs to, as `Running.call`; None for a tape.
        may_lock: what it refers to is of no use when the call of a transform that runs has ended, so that large plain
            arrays may be read-only until then.
        locks: those that are, if there are any.
        holder: returns the tape or accumulator that it belongs to, or None.
        stands_for: the trace for which this one runs the rule of a call: what that follows must be among the inputs.
    """

    differentiates: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    is_map: ClassVar[bool] = False
    is_program: ClassVar[bool] = False
    wants_python: ClassVar[bool] = False
    takes_calls: ClassVar[bool] = False
    belongs_to: ClassVar[str] = ""
    outdated: bool = False
    stands_for: Trace | None = None

    def __init__(self) -> None:
        self.rank = next(_levels)
        self.level = 0
        self.exits: dict[tuple[str, tuple[str, int]], Any] = {}
        self.call = running.call
        self.may_lock = self.call is not None
        self.locks: Locks | None = None
        self.holder: Callable[[], Any] = _nobody

    def is_newest(self) -> bool:
        """Return whether no trace has been made since this one, in any thread."""
        return next(_levels) == self.rank + 1

    def __enter__(self) -> Trace:
        self.level = self.rank
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self.level = 0
        self.outdated = bool(self.belongs_to)
        if error is not None:
            concretize.unwrap(error)
            concretize.refuse_objects(error)
            concretize.advise(error)
            if self.locks is not None:
                self.locks.explain(error)

    def lock(self, array: Any, name: str) -> bool:
        """Make a plain array read-only until the call ends, which `name` uses; return whether that can be."""
        if not self.may_lock:
            return False
        if self.locks is None:
            self.locks = Locks()
            self.call[3].append(self.locks.release)
        return self.locks.hold(array, name)

    def held(self, x: Any, name: str) -> Any:
        """Return an argument of the user's as this trace may refer to it: what is written to it later is not in it.

        A plain array that is not small is read-only until the call ends, so that to write to it is an error.

        Args:
            x: the argument.
            name: of the function that it is an argument of.
        """
        if type(x) is np.ndarray:
            is_locked = x.nbytes > SMALL and self.lock(x, name)
            return x if is_locked else x.copy("K")  # which lies in memory as the original does
        return x.copy() if FOREIGN[type(x)] and not self.may_lock else x

    def follows(self, x: Any) -> bool:
        """Return whether something is a tensor of this trace."""
        return type(x) in BOXES and x._trace is self

    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        """Unbox what this trace has boxed, run the primitive on what is inside, box the result."""
        raise NotImplementedError(type(self).__name__)

    def process_two(self, primitive: Primitive, x: Any, y: Any) -> Any:
        """Do what `process` does for two arrays and no keywords, as operators have them, while nobody looks."""
        return self.process(primitive, (x, y), NOTHING)

    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Return the results of a function with a derivative of its own, for leaves of which this trace follows some.

        A trace that only looks on unboxes its tensors, hands the rest to `apply_call`, and boxes the results.
        """
        raise errors.UnsupportedError(
            f"{call.name} has a derivative of its own, and {type(self).__name__} does not say what that means to it.\n"
            f"Define {type(self).__name__}.process_call."
        )

    def renewed(self, tensor: Any) -> Any:
        """Return the tensor that is to be used for one of this trace: itself, unless it is outdated."""
        if self.outdated:
            raise errors.LeakedTensorError(self.belongs_to, errors.users_line())
        return tensor

    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        """Return the shape that a tensor of this trace shows."""
        return tensor._payload.shape  # type: ignore[no-any-return]

    def dtype_of(self, tensor: Any) -> np.dtype[Any]:
        """Return the dtype of a tensor of this trace, where that is outdated."""
        return self.renewed(tensor)._payload.dtype  # type: ignore[no-any-return]

    def is_weak(self, tensor: Any) -> bool:
        """Return whether a tensor stands for a number of Python's, which takes the dtype of the array that it meets."""
        inner = getattr(tensor._payload, "_trace", None)
        return inner is not None and inner.is_weak(tensor._payload)

    def known_of(self, tensor: Any) -> Sequence[Any]:
        """Return all that the trace has of a tensor, if that is arrays or tensors; empty if it is not known."""
        return ()

    def concrete(self, tensor: Any, how: str) -> Any:
        """Return the value that Python asks for by `how`, such as `.item()`; note it in `exits`."""
        self.exits[how, errors.users_place()] = None
        return tensor._payload

    def plain_array(self, tensor: Any) -> npt.NDArray[Any]:
        """Answer NumPy, which wants a plain array in place of a tensor of this trace."""
        if tensor.dtype.kind in "fc":  # truth values and integers carry no derivative that could be lost
            concretize.check_array(self.rank)
        return np.asarray(tensor._payload)


UNTRACED = Trace()
"""The trace of tensors that nothing follows. It never runs, so its level stays 0."""


class Observer:
    """Sees what happens in a context, and may let it happen otherwise; most methods are handed how to go on.

    Nothing is changed while somebody looks, and who does not look pays nothing.
    """

    def operation(self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Any) -> Any:
        """An operation runs; `go_on(args)` gives its result. One on tensors of tensors is seen at each level."""
        return go_on(args)

    def call(self, call: Call, leaves: Sequence[Any], go_on: Any) -> Any:
        """A function with a derivative of its own runs; `go_on(leaves)` gives its results. Seen at each level."""
        return go_on(leaves)

    def rule(self, primitive: Primitive, name: str, pullback: Any, args: Sequence[Any], ans: Any) -> Any:
        """A reverse trace records a pullback; what is returned is recorded in its place."""
        return pullback

    def push(self, primitive: Primitive, tangents: Sequence[Any], args: Sequence[Any], ans: Any, go_on: Any) -> Any:
        """A forward rule runs; `go_on()` gives the tangent of the result."""
        return go_on()

    def stand_in(self, x: Any) -> Any:
        """Return what is to be used in place of a tensor or variable."""
        return x

    def assigned(self, x: Any, value: Any) -> bool:
        """A tensor is written to; return whether the observer keeps what it becomes."""
        return False

    def watched(self, x: Any, value: Any) -> bool:
        """A tape or accumulator has put a layer into a tensor; return whether the observer keeps what it becomes."""
        return False

    def copied(self, x: Any) -> None:
        """A tensor was made of another one without an operation: a copy, or one with a layer more."""

    wants_all: ClassVar[bool] = False
    """Whether every operation is to be seen and recorded, also where a function would be run again instead."""

    wants_python: ClassVar[bool] = False
    """Whether operations are to be seen where native code would run instead."""


observing: set[_Block] = set()
"""The blocks with observers that are open in any thread; to ask whether there are any takes 15 ns."""


def is_seen() -> bool:
    """Return whether there are observers in this context."""
    return bool(observing) and bool(_block.get().observers)


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Let observers see what happens in this context, after those that see it already."""
    around = _block.get()
    block = _Block((*around.observers, *observers), around)
    try:
        observing.add(block)
        _block.set(block)
        yield
    finally:
        _close(block)


@contextmanager
def unobserved() -> Iterator[None]:
    """Let no observer of this context see what happens in a block, or put another value in place of one."""
    block, watches = _Block((), _block.get()), running.watches
    try:
        _block.set(block)
        running.watches = tuple(each for each in watches if not isinstance(each(), Observer))
        yield
    finally:
        _close(block)
        running.watches = watches


def _close(block: _Block) -> None:
    """Go back to what is around a block, unless the block has been healed away already."""
    observing.discard(block)
    within: _Block | None = _block.get()
    while within is not None and within is not block:
        within = within.around
    if within is block and block.around is not None:
        _leave(block.around)


def _leave(around: _Block) -> None:
    """Close all blocks inside of one."""
    block: _Block | None = _block.get()
    while block is not None and block is not around:
        observing.discard(block)
        block = block.around
    _block.set(around)


def through_observers(method: str, *given: Any, go_on: Callable[..., Any]) -> Any:
    """Let the observers of this context see something, one after the other, before it happens by `go_on`."""
    for observer in reversed(running.observers):
        go_on = partial(_looked_at, getattr(observer, method), given, go_on)
    return go_on


def _looked_at(look: Callable[..., Any], given: tuple[Any, ...], go_on: Callable[..., Any], *values: Any) -> Any:
    return look(*given, *values, go_on)


def recorded(primitive: Primitive, name: str, pullback: Any, args: Sequence[Any], ans: Any) -> Any:
    """Return what is to be recorded in place of a pullback."""
    for observer in running.observers:
        pullback = observer.rule(primitive, name, pullback, args, ans)
    return pullback


def substituted(x: Any) -> Any:
    """Return what is to be used in place of a tensor or variable."""
    for observer in running.observers:
        x = observer.stand_in(x)
    return x


def notify_copy(x: Any) -> Any:
    """Return a tensor that was made of another one without an operation, after a word to the observers."""
    for observer in running.observers:
        observer.copied(x)
    return x
