"""Closures: the traced values that a function uses besides its arguments, found by observing a run.

    closure = Closure(function, [args, ...])    runs the function, to find the traced values it uses
    closure.values                              those values: tensors, and the values of variables
    closure.call(values, *args)                 the function, with other values in their place

Rules for solvers, and checkpoints, need this: they run the user's function again, at another time, and differentiate it
with respect to all values that it uses. A function does not declare what it closes over; but every value it uses passes
through `apply`, where observers record it and replace it. No object of the user's is changed, so other threads may use
the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import CellType, FunctionType
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.layers import layers
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, box, boxed, settled, strip_ended
from fgrad.core.trace import Call, Observer, Trace, notify_copy, observed_by, running
from fgrad.core.tree import flatten, tree_map
from fgrad.core.variable import Variable, VariableWatch, creation_number
from fgrad.rules.names import GLOBALS, names_in
from fgrad.rules.randomness import RandomStates
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, Operand


def followers(leaves: Sequence[Any]) -> list[Trace]:
    """Return the running traces of leaves, at any depth, each once."""
    return list(dict.fromkeys(layer._trace for leaf in leaves for layer in running_layers(strip_ended(leaf))))


def running_layers(x: object) -> Iterator[Tensor]:
    """Yield the layers of a tensor whose traces are running, the outermost first."""
    return (layer for layer in layers(x) if layer._trace.level) if type(x) is Tensor else iter(())


def tangents_of_layers(leaves: Sequence[Any]) -> dict[int, Tensor]:
    """Return the layers of all tangents that running traces hold for leaves, by id."""
    found: dict[int, Tensor] = {}
    for layer in (each for leaf in leaves for each in running_layers(leaf)):
        for part in layer._trace.known_of(layer):
            if part is not layer._payload:
                found.update({**{id(each): each for each in running_layers(part)}, **tangents_of_layers([part])})
    return found


def without(traces: Sequence[Trace], x: Operand) -> Any:
    """Return a leaf without the layers of some traces, also if other layers lie between them."""
    return _below(traces, strip_ended(x))


def _below(traces: Sequence[Trace], x: Operand) -> Any:
    if type(x) is not Tensor:
        return x
    inner = _below(traces, x._payload)
    return inner if not x._trace.level or x._trace in traces else box(inner, x._trace, x._mark)


def values_of(leaves: Sequence[Any]) -> list[Any]:
    """Return leaves without the layers of traces; batches stay, since each example has its own value."""
    return [_value(strip_ended(leaf)) for leaf in leaves]


def _value(x: Array) -> Any:
    return _below([layer._trace for layer in running_layers(x) if not layer._trace.is_map], x)


class Closure:
    """A function, and the traced values that it uses besides its arguments.

    Args:
        function: takes and returns numbers, arrays or containers of them.
        points: tuples of arguments; the function runs for each of them, twice if it uses traced values.

    Attributes:
        values: the values it uses, as leaves that a rule can take as inputs.

    Raises:
        ClosureError: a TypeError; the function gets a traced value in a way that cannot be observed.
    """

    def __init__(self, function: Callable[..., Any], points: Sequence[tuple[Any, ...]]) -> None:
        self._function = function
        self._around = given_now()
        self._tensors: list[Tensor] = []
        self._variables: dict[Variable, Any] = {}
        self.values: list[Any] = []
        with RandomStates(function).put_back() if points else nullcontext():
            for args in points:
                self._add_what_is_used(args)

    def add(self, uses: Uses) -> None:
        """Add the values that another function uses."""
        known = set(map(id, self._tensors))
        self._tensors += [x for x in uses.tensors if id(x) not in known]
        self._variables = {**uses.reads, **self._variables}
        # Copies: they are not replaced while values stand in for the tensors themselves.
        self.values = [copied(x) for x in [*self._tensors, *self._variables.values()]]

    @contextmanager
    def given(self, values: Sequence[Any]) -> Iterator[None]:
        """Replace the values that the function uses by others in a block."""
        count = len(self._tensors)
        variables = dict(zip(self._variables, values[count:], strict=True))
        tensors = dict(zip(map(id, self._tensors), map(boxed, values[:count]), strict=True))  # tensors for tensors
        with give(self._around, tensors, variables):
            yield

    def call(self, values: Sequence[Any], *args: object) -> Any:
        """Run the function with other values in place of those that it uses."""
        with self.given(values):
            results = self._function(*args)
            return tree_map(settled, results)  # a replaced value may be returned unchanged

    def _add_what_is_used(self, args: tuple[Any, ...]) -> None:
        args = tree_map(copied, args)  # distinct from the same tensors in the function's closure
        uses, touches = Uses(flatten(args)[0]), Touches()
        with uses.looking(), observed_by(touches):
            results = flatten(self._function(*args))[0]
            traces = list(dict.fromkeys([*followers([*results, *uses.reads.values()]), *touches.traces]))
        if not traces:
            return
        self.add(uses)
        self._check(args, traces)

    def _check(self, args: tuple[Any, ...], traces: list[Trace]) -> None:
        """Raise if results are traced although none of the observed values is."""
        traces = [trace for trace in traces if not trace.is_map]
        plain = [without(traces, x) for x in [*self._tensors, *self._variables.values()]]
        results = self.call(plain, *tree_map(lambda x: without(traces, x), args))
        if set(traces) & set(followers(flatten(results)[0])):
            raise errors.ClosureError(
                f"{name_of(self._function)} uses a traced value that is not one of its arguments, and makes a new "
                "copy of it each time that it runs, or uses it in another thread.\nPass the value as an argument."
            )


def copied(leaf: Any) -> Any:
    """Return a copy of a tensor, in all its layers."""
    leaf = strip_ended(leaf)
    if type(leaf) is not Tensor:
        return leaf
    return notify_copy(box(copied(leaf._payload), leaf._trace, leaf._mark))


# Snapshots of what a function refers to


def _own_cell(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:  # the cell is still empty
        return cell


def bound_now(function: Callable[..., Any]) -> Any:
    """Return the function with new cells, so that later assignments to names it closes over do not change it."""
    if type(function) is not FunctionType or not function.__closure__:
        return function
    cells = tuple(map(_own_cell, function.__closure__))
    own = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    own.__kwdefaults__ = function.__kwdefaults__
    own.__qualname__, own.__dict__ = function.__qualname__, function.__dict__
    return own


def globals_now(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the numbers, arrays and strings among the globals of a function; a script's loop may change them."""
    if type(function) is not FunctionType:
        return {}
    known = function.__globals__
    return {name: known[name] for name in names_in(function.__code__, GLOBALS) if isinstance(known.get(name), _PLAIN)}


_PLAIN = (int, float, complex, str, tuple, np.ndarray, np.generic, Tensor)


# Observation of uses


class Uses(Observer, VariableWatch):
    """Records values that enter a block from outside: unknown tensors, and variables that are read.

    Args:
        known: the arguments of the function that runs in the block.
        strips: whether to continue with plain values, so that the operations in the block are not traced.

    Attributes:
        tensors: the tensors that entered.
        reads: the variables that were read as traced values, with these values.
    """

    def __init__(self, known: Sequence[Any], strips: bool = False) -> None:
        VariableWatch.__init__(self, Trace())  # its rank separates older traces from those of the block
        self._start = creation_number()
        self.tensors: list[Tensor] = []
        self.reads: dict[Variable, Any] = {}
        self._strips = strips
        self._values: dict[int, Any] = {}
        self._tangents: dict[int, Any] = {}
        self._arguments = list(known)
        self._known: dict[int, Any] = {}  # referenced, so that no other object gets its id
        for x in known:
            self.know(x)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Observe a block."""
        with self, observed_by(self):
            yield

    @override
    def operation(
        self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Callable[..., Any]
    ) -> Any:
        seen = [self._seen(arg) for arg in args]
        with self._moving(seen):
            return self._kept(go_on(seen))

    @override
    def call(self, call: Call, leaves: Sequence[Any], go_on: Callable[..., Any]) -> Any:
        seen = [self._seen(strip_ended(leaf)) for leaf in leaves]
        with self._moving(seen):
            return [self._kept(each) for each in go_on(seen)]

    @contextmanager
    def _moving(self, args: Sequence[Any]) -> Iterator[None]:
        """Treat the tangents of arguments as known tensors in a block, where their traces compute with them.

        Elsewhere they may be unknown: a function can close over the tangent of an argument.
        """
        before, moving = self._tangents, tangents_of_layers(args)
        try:
            if moving:
                self._tangents = {**before, **moving}
            yield
        finally:
            self._tangents = before

    @override
    def stand_in(self, x: Array) -> Any:
        return self._seen(x)

    @override
    def assigned(self, x: Any, value: object) -> bool:
        if self._strips and (id(x) in self._values or any(x is each for each in self._arguments)):
            raise errors.ClosureError(
                "a function under checkpoint writes into a tensor that it did not create; its second run would write "
                "again.\nUse a copy, x = np.copy(x), and return the result."
            )
        return False

    @override
    def watched(self, x: Any, value: object) -> bool:
        if id(x) not in self._values:
            return False
        self._values[id(x)] = value
        return True

    @override
    def copied(self, x: Array) -> None:
        self.know(x)  # it was made in the block

    @override
    def read(self, variable: Variable, value: Array) -> Any:
        self.know(value)  # it does not come from outside
        if next(running_layers(value), None) is None:
            return value
        if variable.number > self._start:  # created in the block
            return _value(value) if self._strips else value
        value = self.reads.setdefault(variable, value)
        return _value(value) if self._strips else value

    def _seen(self, x: Any) -> Any:
        if self._is_foreign(x):
            self.know(x)
            self.tensors.append(x)
            if self._strips:
                self._values[id(x)] = boxed(_value(x))
                self.know(self._values[id(x)])
        return self._values.get(id(x), x)

    def _is_foreign(self, x: Operand) -> bool:
        is_older = type(x) is Tensor and 0 < x._trace.level < self.trace.rank
        return is_older and id(x) not in self._known and id(x) not in self._tangents

    def _kept(self, made: Any) -> Any:
        """Mark the results of an operation as known, as far as outer traces follow them."""
        for each in made if type(made) is tuple else (made,):
            self.know(each)
        return made

    def know(self, x: Operand) -> None:
        """Mark a tensor and its layers as known."""
        for layer in running_layers(x):
            if layer._trace.level < self.trace.rank:
                self._known[id(layer)] = layer


class Touches(Observer):
    """Records the traces of tensors from outside that operations use, whether or not the results depend on them.

    In forward mode a function that only compares a traced value returns a plain number, which still depends on it.

    Attributes:
        traces: the older traces that take derivatives and follow such tensors.
    """

    def __init__(self) -> None:
        self._rank = Trace().rank
        self.traces: dict[Trace, None] = {}

    @override
    def operation(
        self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Callable[..., Any]
    ) -> Any:
        if primitive.vjps is not None or primitive.parted is not None:  # else a constant by design
            for trace in followers([arg for arg in args if type(arg) is Tensor]):
                if trace.differentiates and trace.rank < self._rank:
                    self.traces[trace] = None
        return go_on(args)


# Replacement of values


class Given(Observer, VariableWatch):
    """Replaces tensors and the values of variables.

    Args:
        tensors: the values, by the ids of the tensors; the caller keeps these alive.
        variables: the values, by variable.

    Attributes:
        unused: the ids of tensors, and the variables, that have not been used yet.
    """

    def __init__(self, tensors: dict[int, Any], variables: Mapping[Variable, Any]) -> None:
        VariableWatch.__init__(self, Trace())
        self._start = creation_number()
        self._tensors, self._variables = tensors, variables
        self.unused: set[Any] = {*tensors, *variables}

    @override
    def operation(
        self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Callable[..., Any]
    ) -> Any:
        return go_on([self.stand_in(arg) if id(arg) in self._tensors else arg for arg in args])

    @override
    def stand_in(self, x: Array) -> Any:
        if id(x) not in self._tensors:
            return x
        self.unused.discard(id(x))
        return self._tensors[id(x)]

    def is_replaced(self, x: Array) -> bool:
        """Return whether there is a value for a tensor."""
        return id(x) in self._tensors

    @override
    def assigned(self, x: Any, value: object) -> bool:
        if id(x) not in self._tensors:
            return False
        self._tensors[id(x)] = value
        return True

    watched = assigned

    @override
    def read(self, variable: Variable, value: Array) -> Any:
        if variable.number > self._start:  # one that the function creates in each run
            return _value(value)
        self.unused.discard(variable)
        return self._variables.get(variable, value)


class StandIns(Observer):
    """Replaces each argument of operations and calls by the result of `stand_in`."""

    @override
    def operation(
        self, primitive: Primitive, metadata: Mapping[str, Any], args: Sequence[Any], go_on: Callable[..., Any]
    ) -> Any:
        return go_on([self.stand_in(arg) for arg in args])

    @override
    def call(self, call: Call, leaves: Sequence[Any], go_on: Callable[..., Any]) -> Any:
        return go_on([self.stand_in(leaf) for leaf in leaves])


class Replaced(StandIns):
    """Records tensors used in a block that were replaced when it was created, but are not replaced inside it.

    The trace of such a tensor may have ended, as in a backward pass; it is replaced nonetheless.

    Attributes:
        tensors: the tensors.
    """

    def __init__(self) -> None:
        self._given = given_now()
        self._noted: dict[int, Tensor] = {}

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, each once."""
        return list(self._noted.values())

    @override
    def stand_in(self, x: Any) -> Any:
        if type(x) is Tensor and _is_replaced(x, self._given) and not _is_replaced(x, given_now()):
            self._noted[id(x)] = x
        return x


def _is_replaced(x: Tensor, given: Sequence[Given]) -> bool:
    return any(each.is_replaced(x) for each in given)


def given_now() -> tuple[Given, ...]:
    """Return the replacements active in this thread, for a function that will run again without them."""
    return tuple(observer for observer in running.observers if isinstance(observer, Given))


@contextmanager
def give(around: Sequence[Given], tensors: dict[int, Any], variables: Mapping[Variable, Any]) -> Iterator[Given]:
    """Replace tensors and variables in a block, after the earlier replacements `around`."""
    given = Given(tensors, variables)
    several = [*around, given]
    with ExitStack() as stack:
        for each in several:
            stack.enter_context(each)
        stack.enter_context(observed_by(*several))
        yield given
