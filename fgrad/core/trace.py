"""Traces: what an operation means while a transform or tape runs. Observers: hooks into every operation.

    Trace                   decides what operations and calls mean; each kind is a subclass
    UNTRACED                the null trace, of tensors that are not being traced
    Observer, observed_by   hook into every operation of a block; `unobserved` is a block without observers

A trace defines what an operation means (`process`), what a function with a custom derivative means (`process_call`),
and the answer when Python or NumPy requests a value (`concrete`, `plain_array`). A new kind of trace is a new subclass;
no code outside of it tests for kinds of traces.
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
from fgrad.typing import Array, ArrayLike, Operand

_levels = itertools.count(1)


class Call(Protocol):
    """A call of a function with a custom derivative, as passed to a trace."""

    @property
    def name(self) -> str:
        """The name of the function in messages."""

    def traces(self) -> list[Trace]:
        """Return the running traces of values that the function closes over."""

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results for arrays that are not traced."""

    def followed(self, trace: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the results as tensors of a differentiating trace."""

    def mapped(self, ours: Sequence[bool], trace: Any = None) -> Call:
        """Return the call for a batch of examples; `ours` marks the arrays with a batch axis, which comes first.

        `trace` is the trace of the batch: values of it that the function closes over are batched, too.
        """


NOTHING: Mapping[str, Any] = {}
"""Empty keyword mapping, shared."""
State = tuple[Any, "_Block", tuple[weakref.ref[Any], ...]]


class _Block:
    """An open block of observers, possibly empty.

    Attributes:
        observers: those of the block and of the enclosing ones; the outermost first.
        around: the enclosing block; None for the outermost.
    """

    __slots__ = ("observers", "around")

    def __init__(self, observers: tuple[Observer, ...], around: _Block | None) -> None:
        self.observers, self.around = observers, around


_OUTSIDE = _Block((), None)
_block: ContextVar[_Block] = ContextVar("block", default=_OUTSIDE)
_watches: ContextVar[tuple[weakref.ref[Any], ...]] = ContextVar("watches", default=())


class Running(threading.local):
    """The state of fgrad in this thread.

    An interrupt may come at any instruction, also while a block is entered or left. The state is therefore kept in
    tuples. Code that runs a user's function saves `state()` before and calls `unwind(state)` after an exception.
    References to watches are weak, so that a block of the user's that was never left disappears with its owner.

    Observers and watches belong to a context (`contextvars`): each thread and each asynchronous task has its own.

    Attributes:
        call: the transform that runs, as a tuple, None in the user's code: the enclosing call, up to the user's code,
            or None; the lines of which the user has been warned since the outermost transform began; and callbacks that
            run when the call ends.
        maps: the traces of the user's `vmap`s, the outermost first; those that have ended have level 0.
        record: creates the record of a reverse trace.
        place: the user's file and line of the code that runs, where the stack does not show it; None elsewhere.
        guarded: how many times a product with a non-finite slope got the exact zeros of a masked derivative.
    """

    def __init__(self) -> None:
        self.record: Callable[[], list[Any]] = list
        self.place: tuple[str, int] | None = None
        self.call: Any = None
        self.maps: tuple[Any, ...] = ()
        self.guarded = 0

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of this context, the outermost first."""
        return _block.get().observers

    @property
    def watches(self) -> tuple[weakref.ref[Any], ...]:
        """Weak references to the watches of variables that are open in this context, by the rank of their traces."""
        return _watches.get()

    @watches.setter
    def watches(self, watches: tuple[weakref.ref[Any], ...]) -> None:
        _watches.set(watches)

    def state(self) -> State:
        """Return the state to which `unwind` returns."""
        return self.call, _block.get(), _watches.get()

    def unwind(self, state: State) -> None:
        """Unwind observers and watches to `state`."""
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
    """One running transform or open tape: it decides the meaning of an operation.

    `level` is the rank among traces: higher when the trace started later, 0 when it is not running. A trace runs inside
    a `with` block and ends with it, also after an exception. Its rank never changes, because values that it has boxed
    may lie inside boxes of traces that started later.

    Why ranks, and not one flag: in `grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0)` the inner
    function computes with the outer one's `x`. Both are Tensors; only the rank tells the inner pass
    that `x` is a constant to it. Without that the inner derivative would be 2 (perturbation
    confusion, https://doi.org/10.1007/s10990-008-9037-1).

    Attributes:
        differentiates: derivatives of its tensors are required, now or later.
        remembers: it keeps residuals of each operation until a backward pass.
        is_map: its tensors are batches; the function may be computed for each example separately.
        is_program: its tensors stand for all values of their shape and dtype, so they have no value.
        wants_python: operations must run in Python, one by one, where native code would run otherwise.
        takes_calls: a function with a custom derivative is passed to it as a whole, also if a higher trace has already
            taken that derivative.
        belongs_to: the transform outside of which its tensors have no meaning, such as "a vmap"; else empty.
        outdated: its tensors must be renewed (`renewed`) before each use.
        exits: values that left the trace, by how and by the user's file and line.
        call: the transform it belongs to, as `Running.call`; None for a tape.
        may_lock: its record is not used after the current transform call, so that large plain arrays may be read-only
            until then.
        locks: the arrays that are read-only, if any.
        holder: returns the tape or accumulator that it belongs to, or None.
        stands_for: the trace for which this one runs the rule of a call: its values must be among the inputs.
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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.level = 0
        self.outdated = bool(self.belongs_to)
        if error is not None:
            concretize.unwrap(error)
            concretize.refuse_objects(error)
            concretize.advise(error, self.is_map or self.is_program)
            if self.locks is not None:
                self.locks.explain(error)

    def lock(self, array: Array, name: str) -> bool:
        """Make a plain array that `name` uses read-only until the call ends; return whether this is possible."""
        if not self.may_lock:
            return False
        if self.locks is None:
            self.locks = Locks()
            self.call[3].append(self.locks.release)
        return self.locks.hold(array, name)

    def held(self, x: Any, name: str) -> Any:
        """Return an argument of the user's for this trace to keep: later writes to the argument do not change it.

        An array that is not small is made read-only until the call ends instead, so that a write to it is an error.

        Args:
            x: the argument.
            name: the function whose argument it is.
        """
        if type(x) is np.ndarray:
            is_locked = x.nbytes > SMALL and self.lock(x, name)
            return x if is_locked else x.copy("K")  # keep the memory layout
        return x.copy() if FOREIGN[type(x)] and not self.may_lock else x

    def follows(self, x: Any) -> bool:
        """Return whether `x` is a tensor of this trace."""
        return type(x) in BOXES and x._trace is self

    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        """Unbox the tensors of this trace, run the primitive on the values inside, box the result."""
        raise NotImplementedError(type(self).__name__)

    def process_two(self, primitive: Primitive, x: Operand, y: Operand) -> Any:
        """Do what `process` does for a binary operator: two arrays, no keywords, no observers."""
        return self.process(primitive, (x, y), NOTHING)

    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        """Return the results of a function with a custom derivative; some leaves are tensors of this trace.

        A trace that only observes unboxes its tensors, passes the values to `apply_call`, and boxes the results.
        """
        raise errors.UnsupportedError(
            f"{call.name} has a custom derivative, for which {type(self).__name__} defines no meaning.\n"
            f"Define {type(self).__name__}.process_call."
        )

    def count(self) -> int:
        """Return the number of recorded operations, for `shorten`."""
        return 0

    def shorten(self, recording: Any, start: int) -> None:
        """Give a recording of a reverse trace a shorter record that is equivalent, if there is one.

        Args:
            recording: of a function that this trace, a program, has recorded, too.
            start: the number of operations that had been recorded before.
        """

    def renewed(self, tensor: Array) -> Any:
        """Return the up-to-date tensor for a tensor of this trace: itself, unless it is outdated."""
        if self.outdated:
            raise errors.LeakedTensorError(self.belongs_to, errors.users_line())
        return tensor

    def mark_of_copy(self, mark: Any, payload: Any) -> Any:
        """Return the mark of a tensor whose payload is now a copy."""
        return mark

    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        """Return the shape of a tensor of this trace, as the user sees it."""
        return tensor._payload.shape  # type: ignore[no-any-return]

    def dtype_of(self, tensor: Any) -> np.dtype[Any]:
        """Return the dtype of a tensor of this trace, renewed if it is outdated."""
        return self.renewed(tensor)._payload.dtype  # type: ignore[no-any-return]

    def is_weak(self, tensor: Any) -> bool:
        """Return whether a tensor stands for a Python number, which takes the dtype of the other operand."""
        inner = getattr(tensor._payload, "_trace", None)
        return inner is not None and inner.is_weak(tensor._payload)

    def is_same(self, x: Any, y: Any, are_same: Callable[[Any, Any], bool]) -> bool:
        """Return whether two tensors of this trace are known to have the same values.

        Args:
            x, y: the tensors.
            are_same: the same question for payloads.
        """
        return are_same(x._payload, y._payload)

    def known_of(self, tensor: Any) -> Sequence[Any]:
        """Return all arrays or tensors that the trace holds for a tensor; empty if they are unknown."""
        return ()

    def concrete(self, tensor: Any, how: str) -> Any:
        """Return the value that Python requests by `how`, such as `.item()`, and add it to `exits`."""
        self.exits[how, errors.users_place()] = None
        return tensor._payload

    def plain_array(self, tensor: Any) -> npt.NDArray[Any]:
        """Return the plain array that NumPy requests for a tensor of this trace."""
        if tensor.dtype.kind in "fc":  # booleans and integers carry no derivative
            concretize.check_array(self.rank)
        return np.asarray(tensor._payload)


UNTRACED = Trace()
"""The null trace, of tensors that are not being traced. It never runs, so its level stays 0."""


class Observer:
    """Hook into the operations of a context; may change what they do. Most methods receive the continuation, `go_on`.

    No global state is changed while an observer is active, and there is no cost when none is installed.
    """

    def operation(self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Any) -> Any:
        """An operation runs; `go_on(args)` gives its result. A nested tensor is reported at each level."""
        return go_on(args)

    def call(self, call: Call, leaves: Sequence[Any], go_on: Callable[..., Any]) -> Any:
        """A function with a custom derivative runs; `go_on(leaves)` gives its results. Reported at each level."""
        return go_on(leaves)

    def rule(
        self, primitive: Primitive, name: str, pullback: Callable[..., Any], args: Sequence[Any], ans: Array | None
    ) -> Any:
        """A reverse trace records a pullback; the returned one is recorded instead."""
        return pullback

    def push(
        self, primitive: Primitive, tangents: Sequence[Any], args: Sequence[Any], ans: Array, go_on: Callable[..., Any]
    ) -> Any:
        """A forward rule runs; `go_on()` gives the tangent of the result."""
        return go_on()

    def stand_in(self, x: Array) -> Any:
        """Return the value to use in place of a tensor or variable."""
        return x

    def assigned(self, x: Any, value: object) -> bool:
        """A tensor is written to; return whether the observer stores the new value itself."""
        return False

    def watched(self, x: Any, value: object) -> bool:
        """A tape or accumulator has watched a tensor; return whether the observer stores the new value itself."""
        return False

    def copied(self, x: Array) -> None:
        """A tensor was made from another one without an operation: a copy, or the same value with one more layer."""

    wants_all: ClassVar[bool] = False
    """Whether every operation must run and be recorded, also where a function could be replayed instead."""

    wants_python: ClassVar[bool] = False
    """Whether operations must run in Python, one by one, where native code would run otherwise."""


observing: set[_Block] = set()
"""The blocks with observers that are open in any thread; to test whether it is empty takes 15 ns."""


def is_seen() -> bool:
    """Return whether observers are active in this context."""
    return bool(observing) and bool(_block.get().observers)


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Add observers to this context, after those that are already active."""
    around = _block.get()
    block = _Block((*around.observers, *observers), around)
    try:
        if block.observers:
            observing.add(block)
        _block.set(block)
        yield
    finally:
        _close(block)


@contextmanager
def unobserved() -> Iterator[None]:
    """Disable all observers of this context in a block."""
    block, watches = _Block((), _block.get()), running.watches
    try:
        _block.set(block)
        running.watches = tuple(each for each in watches if not isinstance(each(), Observer))
        yield
    finally:
        _close(block)
        running.watches = watches


def _close(block: _Block) -> None:
    """Return to the block around an open one, unless `unwind` has closed it already."""
    observing.discard(block)
    within: _Block | None = _block.get()
    while within is not None and within is not block:
        within = within.around
    if within is block and block.around is not None:
        _leave(block.around)


def _leave(around: _Block) -> None:
    """Close all blocks inside of `around`."""
    block: _Block | None = _block.get()
    while block is not None and block is not around:
        observing.discard(block)
        block = block.around
    _block.set(around)


def through_observers(method: str, *given: object, go_on: Callable[..., Any]) -> Callable[..., Any]:
    """Call a method of each observer of this context, nested, with `go_on` as the innermost continuation."""
    for observer in reversed(running.observers):
        go_on = partial(_looked_at, getattr(observer, method), given, go_on)
    return go_on


def _looked_at(look: Callable[..., Any], given: tuple[Any, ...], go_on: Callable[..., Any], *values: ArrayLike) -> Any:
    return look(*given, *values, go_on)


def recorded(
    primitive: Primitive, name: str, pullback: Callable[..., Any], args: Sequence[Any], ans: Array | None
) -> Callable[..., Any]:
    """Return the pullback to record: the given one, or an observer's replacement."""
    for observer in running.observers:
        pullback = observer.rule(primitive, name, pullback, args, ans)
    return pullback


def substituted(x: Array) -> Array:
    """Return the value to use in place of a tensor or variable."""
    for observer in running.observers:
        x = observer.stand_in(x)
    return x


def notify_copy(x: Array) -> Any:
    """Notify observers of a tensor that was made from another one without an operation, and return it."""
    for observer in running.observers:
        observer.copied(x)
    return x
