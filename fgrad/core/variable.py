"""Variables: mutable state whose reads are recorded by open watches.

A read gives a tensor of the value at that time. In a gradient function or tape, every read of a
variable is the same input, so that the derivatives with respect to all its reads add up.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fgrad import errors
from fgrad._locks import Lock
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, TensorLike, box, boxed
from fgrad.core.trace import UNTRACED, is_seen, running
from fgrad.typing import Array, ArrayLike

T = TypeVar("T")

_creation = itertools.count()


def creation_number() -> int:
    """Return a number higher than those of all existing variables, and lower than those of later ones."""
    return next(_creation)


_times = itertools.count()
_last_unseen = (-1, 0, -1, "")
"""The last read of a trainable variable that no watch recorded: its time, its thread, the number and name."""


class VariableWatch:
    """Makes the variables that are read inside its `with` block inputs of a trace.

    Args:
        trace: the trace of the variables.
        all_trainable: watch trainable variables as they are read; otherwise only those in `chosen`.
    """

    def __init__(self, trace: Any, all_trainable: bool = True) -> None:
        self.trace = trace
        self.all_trainable = all_trainable
        self.chosen: dict[Variable, int] = {}
        self.of_integers: Variable | None = None  # the last one that was read, for messages

    records: ClassVar[bool] = False
    """Whether assignments are passed to `writes` instead of being carried out."""

    def writes(self, variable: Any, value: Any) -> None:
        """Record an assignment."""
        raise NotImplementedError

    def apart(self) -> contextlib.AbstractContextManager[dict[Any, Any]]:
        """Return a context whose assignments are put into a dict, and not recorded."""
        raise NotImplementedError

    def __enter__(self) -> VariableWatch:
        self._opened = next(_times)
        if not running.watches:  # common case
            running.watches = (weakref.ref(self),)
            return self
        opened = open_watches()
        bisect.insort(opened, self, key=lambda watch: watch.trace.rank)
        running.watches = tuple(map(weakref.ref, opened))
        return self

    def __exit__(self, *exception: object) -> None:
        watches = running.watches
        others = [each for each in watches if (watch := each()) is not None and watch is not self]
        if len(others) < len(watches):
            running.watches = tuple(others)

    def choose(self, variable: Variable) -> None:
        """Watch a variable from now on."""
        if variable not in self.chosen:
            self.chosen[variable] = self.trace.root(None)._mark

    def read(self, variable: Variable, value: Array) -> Any:
        """Return `value` as an input of this watch's trace, if the variable is watched."""
        key = self.chosen.get(variable)
        if key is None:
            if not (self.all_trainable and variable.trainable):
                self.of_integers = self.of_integers if variable.dtype.kind in "fc" else variable
                return value
            self.choose(variable)
            key = self.chosen[variable]
        return box(value, self.trace, key) if variable.dtype.kind in "fc" else value

    def assigns(self, variable: Variable) -> None:
        """Called when a variable is assigned while this watch is open."""

    def missed(self) -> tuple[str, bool] | None:
        """Return the name of a variable that another thread has read since this watch was opened, or None.

        A watch does not see reads of other threads. If there are several such variables, it is the one read last. The
        second item is whether this thread has read it, too.
        """
        time, thread, number, name = _last_unseen
        if time < self._opened or thread == threading.get_ident() or not self.all_trainable:
            return None
        return name, any(variable.number == number for variable in self.chosen)

    def variables(self) -> tuple[Variable, ...]:
        """Return the watched variables in the order of their creation."""
        return tuple(sorted(self.chosen, key=lambda variable: variable.number))


def open_watches() -> list[VariableWatch]:
    """Return the watches that are open in this thread, those of earlier traces first."""
    return [watch for each in running.watches if (watch := each()) is not None]


def recording() -> VariableWatch | None:
    """Return the watch that records assignments in this thread, None if they are carried out.

    It is the innermost recording: the recording of a loop iteration needs to know that the iteration assigns, and the
    one around it must not receive values that exist only within the iteration.
    """
    return next((watch for watch in reversed(open_watches()) if watch.records), None) if running.watches else None


class Variable(TensorLike):
    """A tensor whose value can be replaced, such as a parameter of a model.

    It can be used wherever a tensor can; each use reads its value at that time. An assignment stores a value only: a
    derivative does not pass from the variable to what the value was computed from.

    Args:
        initial_value: anything `np.array` accepts; it is copied.
        trainable: whether gradient functions, tapes and optimizers use it by default. By default floating-point and
            complex variables are trainable and integer ones are not.
        name: the name in `repr` and in messages.
        dtype: by default NumPy's choice (a Python float gives float64).

    Raises:
        ValueError: NumPy cannot make an array of `initial_value`.
        DtypeError: a TypeError; it holds something other than numbers, such as None.

    Example:
        >>> w = Variable(2.0, name="w")
        >>> w * 3
        Tensor(6.)
        >>> w.assign_add(1.0)
        Variable(3., name='w')
    """

    __hash__ = object.__hash__  # type: ignore[assignment]  # by identity: variables are mutable
    _trace = UNTRACED
    is_weak: ClassVar[bool] = False
    """Whether the value is a Python number, which takes the dtype of the other operand."""

    def __init__(
        self,
        initial_value: ArrayLike,
        trainable: bool | None = None,
        name: str | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self._value = np.array(plain_value(initial_value), dtype)
        if self._value.dtype.kind not in "biufc":
            raise errors.DtypeError(
                f"a variable holds numbers, and its initial value is {initial_value!r:.100} of type "
                f"{type(initial_value).__name__}.\nPass a number or an array."
            )
        self.trainable = self._value.dtype.kind in "fc" if trainable is None else trainable
        self.number = creation_number()
        self.name = name or f"Variable_{self.number}"
        self.lock = Lock()

    def unbox(self) -> Any:
        value: Any = self._value
        if watches := running.watches:
            for each in watches:
                if (watch := each()) is not None:
                    value = watch.read(self, value)
        elif self.trainable:
            global _last_unseen
            _last_unseen = next(_times), threading.get_ident(), self.number, self.name
        return value

    def _settled(self) -> Any:
        # No read: of a plain number no watch expects a derivative, in whichever thread.
        return super()._settled() if running.watches or is_seen() else self._value

    def value(self) -> Tensor:
        """Return the current value as a tensor; this reads the variable."""
        return boxed(self.unbox())  # type: ignore[no-any-return]

    read_value = value

    def numpy(self) -> Any:
        """Return a copy of the current value as a NumPy array (a NumPy scalar for shape `()`)."""
        if recording() is not None:  # the value would become a constant of the program
            raise errors.ConcretizationError(".numpy()", errors.users_line())
        return self._value.copy()[()]

    def projected(self, value: ArrayLike) -> Any:
        """Return the value to assign for an updated value of an optimizer: a subclass may project it."""
        return value

    def assign(self, value: ArrayLike) -> Variable:
        """Replace the value.

        Args:
            value: a number, array or tensor of the variable's shape; its dtype is cast.

        Returns:
            The variable.

        Raises:
            ShapeError: the value has another shape. The variable is unchanged.
            DtypeError: the dtype cannot be cast without loss of kind, such as float to int.

        Example:
            >>> Variable([1.0, 2.0], name="w").assign([3, 4])
            Variable([3., 4.], name='w')
        """
        if (recorder := recording()) is not None:
            recorder.writes(self, value)
            return self
        new = np.asarray(plain_value(value))
        self.check_fits(new)
        new = np.array(new, self.dtype)  # a new array: what was computed before keeps the old one
        with self.lock:  # held by `assign_add` from the read to the assignment
            self._value = new
            for watch in open_watches():
                watch.assigns(self)
        return self

    def assign_add(self, delta: ArrayLike) -> Variable:
        """Add to the value in place; see `assign`."""
        if recording() is not None:
            return self.assign(self + delta)
        delta = plain_value(delta)
        with self.lock:
            return self.assign(self._value + delta)

    def assign_sub(self, delta: ArrayLike) -> Variable:
        """Subtract from the value in place; see `assign`."""
        if recording() is not None:
            return self.assign(self - delta)
        delta = plain_value(delta)
        with self.lock:
            return self.assign(self._value - delta)

    def check_fits(self, new: Any) -> None:
        """Raise if an array or tensor cannot be assigned to this variable."""
        if new.shape != self.shape:
            raise errors.ShapeError(
                f"variable {self.name!r} has shape {self.shape}, and the value to assign has shape {new.shape}.\n"
                "Reshape the value, or create a variable of its shape."
            )
        if not np.can_cast(new.dtype, self.dtype, "same_kind"):
            raise errors.DtypeError(
                f"variable {self.name!r} has dtype {self.dtype}, which cannot hold a value of dtype {new.dtype}.\n"
                "Make the variable of that dtype (Variable(2.0) instead of Variable(2)), or convert the value with "
                f".astype({str(self.dtype)!r}) if rounding it is what you want."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise TypeError(
            f"the shape {self.shape} of variable {self.name!r} is fixed: use w.reshape(shape), or make a new variable, "
            "fg.Variable(w.numpy().reshape(shape))."
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._value.dtype

    @property
    def size(self) -> int:
        return self._value.size

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"variable {self.name!r} cannot be assigned by index: assign a whole value, "
            "w.assign(new), where new = w.numpy(); new[key] = value"
        )

    def _set_part(self, value: object) -> None:
        self[...] = value

    real = property(TensorLike.real.fget, _set_part)
    imag = property(TensorLike.imag.fget, _set_part)
    flat = property(lambda self: TensorLike.__getattr__(self, "flat"), _set_part)

    def __reduce__(self) -> Any:
        # A copy is a new variable, created when it is copied.
        return Variable, (self._value, self.trainable, self.name)

    def __deepcopy__(self, memo: object) -> Variable:
        return Variable(self._value, self.trainable, self.name)

    def __repr__(self) -> str:
        return self._repr(f", name={self.name!r}")

    def _shown(self) -> Any:
        return self._value


class Exclusive:
    """Runs functions while no other thread assigns to some variables; several threads can use it.

    Each thread locks in the same order. The state of objects comes first, as in a step of an optimizer.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        ordered = sorted(variables, key=lambda each: (not isinstance(each, Cell), each.lock.number))
        self._locks = list(dict.fromkeys(each.lock for each in ordered))

    def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function."""
        taken: list[bool] = []
        releases = map(Lock.release, itertools.compress(self._locks, taken))  # not yet
        try:
            taken.extend(map(Lock.acquire, self._locks))
            return function()
        finally:
            _ = [*releases]  # without a call, after which an interrupt might come


def assign_all(variables: Sequence[Variable], values: Sequence[Any]) -> None:
    """Assign values to variables: to all of them, or to none if an exception occurs.

    Args:
        variables: the variables to assign.
        values: new arrays or tensors of their shapes and dtypes, which are not written to elsewhere.
    """
    before = [variable._value for variable in variables]
    new = [np.asarray(plain_value(value)) for value in values]
    try:
        _put(variables, new)
    except BaseException:
        _put(variables, before)
        raise


def _put(variables: Sequence[Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        with variable.lock:
            variable._value = value
            for watch in open_watches():
                watch.assigns(variable)


class Cell(Variable):
    """State of an object that a recording reads and assigns like a variable.

    Args:
        read: a function that returns the state, an array or a number.
        write: a function that replaces it.
        name: the name in messages.
        lock: the object's lock, which is held while the state changes; by default one of the cell's own.
    """

    def __init__(
        self, read: Callable[[], Any], write: Callable[[Any], None], name: str, lock: Lock | None = None
    ) -> None:
        self._read, self._write = read, write
        self._seen: tuple[Any, Any] = (None, None)
        self.trainable, self.name, self.number = False, name, creation_number()
        self.lock = lock or Lock()

    @property
    def _value(self) -> Any:
        state = self._read()
        if self._seen[0] is not state:  # an unchanged value stays the same array
            self._seen = state, np.asarray(state)
        return self._seen[1]

    @_value.setter
    def _value(self, new: Array) -> None:
        self._write(new)


class Counter(Cell):
    """State that is a Python number."""

    is_weak = True


BOXES.update({Variable, Cell, Counter})


def plain_value(value: ArrayLike) -> Any:
    """Return the array inside all layers; raise for a batch or a recorded value, which has no single value."""
    if isinstance(value, Variable):
        return value._value
    return value._concrete("storing it in a variable") if isinstance(value, TensorLike) else value
